/* Which name a certificate gives its holder: the first DNS or URI name, else the common name. */
#include "server/accept/tls-name.h"

#include <stdio.h>

#include <openssl/x509v3.h>

#define NAME_MAX_ 200

/* Only characters that look the same in a log, a list and a config file. */
static int caller_from_text(const unsigned char *text, int length, struct Caller *ret) {
        if (length <= 0 || length > NAME_MAX_ || !utf8_is_valid((const char *) text, (size_t) length))
                return -EBADMSG;
        for (int i = 0; i < length; i++) {
                /* 0xc2 0x80..0x9f are control characters too */
                bool c1 = text[i] == 0xc2 && i + 1 < length && text[i + 1] < 0xa0;

                if (text[i] < 0x20 || text[i] == 0x7f || c1)
                        return -EBADMSG;
        }
        *ret = (struct Caller) {};
        (void) snprintf(ret->name, sizeof(ret->name), "cert:%.*s", length, (const char *) text);
        return 0;
}

/* 1 = there was such a name. */
static int caller_from_alternative_names(X509 *certificate, struct Caller *ret) {
        GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
        int r = 0;

        for (int i = 0; r == 0 && i < sk_GENERAL_NAME_num(names); i++) {
                const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
                const ASN1_STRING *text;

                if (name->type != GEN_DNS && name->type != GEN_URI)
                        continue;
                text = name->d.ia5;
                r = caller_from_text(ASN1_STRING_get0_data(text), ASN1_STRING_length(text), ret);
                r = r < 0 ? r : 1;
        }
        GENERAL_NAMES_free(names);
        return r;
}

int tls_caller_from_certificate(X509 *certificate, struct Caller *ret) {
        X509_NAME *subject = X509_get_subject_name(certificate);
        int r = caller_from_alternative_names(certificate, ret), at, length;
        unsigned char *text = NULL;

        if (r != 0)
                return r < 0 ? r : 0;
        at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
        if (at < 0)
                return -EBADMSG;
        length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
        r = length < 0 ? -EBADMSG : caller_from_text(text, length, ret);
        OPENSSL_free(text);
        return r;
}
