/* Names that a certificate may give its holder, and those it may not. */
#include "tests/unit/unit.h"

#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include "server/accept/tls-name.h"

struct Name {
        int type; /* GEN_DNS, GEN_URI, GEN_EMAIL */
        const char *text;
        int length; /* -1 = as long as text */
};

/* A certificate with this common name (NULL = none) and these alternative names; nobody signs it, since only names are read. */
static X509 *make(const char *common, const struct Name *names, size_t n) {
        X509 *c = X509_new();

        assert_non_null(c);
        if (common)
                assert_int_equal(X509_NAME_add_entry_by_NID(X509_get_subject_name(c), NID_commonName, MBSTRING_UTF8,
                                                            (const unsigned char *) common, -1, -1, 0), 1);
        if (n > 0) {
                GENERAL_NAMES *all = sk_GENERAL_NAME_new_null();

                for (size_t i = 0; i < n; i++) {
                        GENERAL_NAME *name = GENERAL_NAME_new();
                        ASN1_IA5STRING *text = ASN1_IA5STRING_new();

                        assert_int_equal(ASN1_STRING_set(text, names[i].text, names[i].length), 1);
                        GENERAL_NAME_set0_value(name, names[i].type, text);
                        sk_GENERAL_NAME_push(all, name);
                }
                assert_int_equal(X509_add1_ext_i2d(c, NID_subject_alt_name, all, 0, 0), 1);
                GENERAL_NAMES_free(all);
        }
        return c;
}

static void assert_name(X509 *c, const char *expected) {
        struct Caller caller = {.is_operator = true};

        assert_int_equal(tls_caller_from_certificate(c, &caller), 0);
        assert_string_equal(caller.name, expected);
        assert_false(caller.is_operator);
        X509_free(c);
}

static void assert_none(X509 *c) {
        struct Caller caller;

        assert_error(tls_caller_from_certificate(c, &caller), EBADMSG);
        X509_free(c);
}

static void the_first_dns_or_uri_name_counts(void **state) {
        const struct Name names[] = {{GEN_EMAIL, "a@b", -1}, {GEN_URI, "spiffe://x/y", -1}, {GEN_DNS, "second", -1}};

        assert_name(make("common", names, 3), "cert:spiffe://x/y");
        assert_name(make("common", names + 2, 1), "cert:second");
}

static void the_common_name_counts_last(void **state) {
        const struct Name mail = {GEN_EMAIL, "a@b", -1};

        assert_name(make("alice", NULL, 0), "cert:alice");
        assert_name(make("alice", &mail, 1), "cert:alice");
        assert_name(make("Zo\xc3\xab", NULL, 0), "cert:Zo\xc3\xab");
        assert_none(make(NULL, NULL, 0));
}

/* "trusted.example\0.evil" must not pass for "trusted.example", and nothing may break a line of the log. */
static void deceiving_names_are_refused(void **state) {
        static const struct Name bad[] = {
                {GEN_DNS, "trusted\0.evil", 13}, {GEN_DNS, "", 0}, {GEN_DNS, "a\nb", -1}, {GEN_DNS, "a\x7f", -1},
                {GEN_DNS, "a\x1b[2J", -1}, {GEN_URI, "a\xc2\x85" "b", -1}, {GEN_URI, "\xff\xfe", -1},
        };
        char long_name[202];

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_none(make("alice", &bad[i], 1));
        memset(long_name, 'x', sizeof(long_name));
        assert_none(make(NULL, &(struct Name) {GEN_DNS, long_name, 201}, 1));
        long_name[200] = 0;
        {
                char expected[256] = "cert:";

                assert_name(make(NULL, &(struct Name) {GEN_DNS, long_name, 200}, 1), strcat(expected, long_name));
        }
}

RUN(T(the_first_dns_or_uri_name_counts), T(the_common_name_counts_last), T(deceiving_names_are_refused))
