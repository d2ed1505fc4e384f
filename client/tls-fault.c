/* What gRPC's log says of a handshake, put in terms of our options. */
#include "client/tls-fault.h"

#include <grpc/support/log.h>
#include <stdatomic.h>

#include "client/console.h"

enum Cause {
        CAUSE_UNKNOWN,
        CAUSE_AUTHORITY, /* we do not trust who signed the server's certificate, or it is out of date */
        CAUSE_NAME,      /* it is another server's */
        CAUSE_REFUSED,   /* the server does not take ours, or misses it */
        CAUSE_CLOSED,    /* gone after the handshake was over for us: as above, but the reset overtook the reason */
};

/* gRPC writes its log in threads of its own. */
static atomic_int heard;

/* Its log lines repeat, at length, what we say in one line. */
static void listen_to(gpr_log_func_args *args) {
        static const struct {
                const char *words;
                enum Cause cause;
        } causes[] = {
                { "certificate verify failed", CAUSE_AUTHORITY },
                { "is not in peer certificate", CAUSE_NAME },
                { "alert certificate required", CAUSE_REFUSED },
                { "alert unknown ca", CAUSE_REFUSED },
                { "alert bad certificate", CAUSE_REFUSED },
                { "alert certificate expired", CAUSE_REFUSED },
                { "alert certificate unknown", CAUSE_REFUSED },
                { "alert unsupported certificate", CAUSE_REFUSED },
                { "connect failed (UNKNOWN:Delayed close", CAUSE_CLOSED },
                { "connect failed (UNKNOWN:Endpoint read failed", CAUSE_CLOSED },
        };

        for (size_t i = 0; i < ELEMENTSOF(causes); i++) {
                int nothing = CAUSE_UNKNOWN;

                /* What comes first is the reason, the rest follows from it. */
                if (strstr(args->message, causes[i].words))
                        (void) atomic_compare_exchange_strong(&heard, &nothing, (int) causes[i].cause);
        }
}

void tls_fault_init(void) {
        if (!getenv("GRPC_VERBOSITY"))
                gpr_set_log_function(listen_to);
}

void tls_fault_listen(void) {
        atomic_store(&heard, CAUSE_UNKNOWN);
        /* Names that do not fit are told as information. */
        if (!getenv("GRPC_VERBOSITY"))
                gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
}

#define FAILED "cannot reach %s: the TLS handshake failed: "

static int say_authority(const struct Options *o, const char *server) {
        if (!o->tls_ca)
                return console_fault(FAILED "no authority that this system trusts has signed the server's certificate, and no --tls-ca was "
                                     "given: say --tls-ca FILE, the authority's certificate", server);
        return console_fault(FAILED "the server's certificate is not signed by --tls-ca %s, or is out of date", server, o->tls_ca);
}

static int say_refused(const struct Options *o, const char *server, bool is_guess) {
        if (!o->tls_cert)
                return console_fault(FAILED "the server wants a certificate, and no --tls-cert was given: say --tls-cert FILE --tls-key FILE",
                                     server);
        return console_fault(FAILED "the server %s our certificate, --tls-cert %s: it lets in one that its client-ca has signed, for clients, "
                             "and that is not out of date", server, is_guess ? "hung up when it had" : "refuses", o->tls_cert);
}

static int say_all(const struct Options *o, const char *server, const char *host) {
        return console_fault(FAILED "the server's certificate must name \"%s\" and be signed by %s%s%s, and the server must take %s%s", server, host,
                             o->tls_ca ? "--tls-ca " : "an authority that this system trusts", strempty(o->tls_ca),
                             o->tls_ca ? "" : " (no --tls-ca was given)", o->tls_cert ? "--tls-cert " : "callers without a certificate, which "
                             "Glovebox does not (no --tls-cert was given: say --tls-cert FILE --tls-key FILE)", strempty(o->tls_cert));
}

int tls_fault_say(const struct Options *o, const char *server, const char *host) {
        enum Cause cause = (enum Cause) atomic_load(&heard);

        switch (cause) {
        case CAUSE_AUTHORITY:
                return say_authority(o, server);
        case CAUSE_NAME:
                return console_fault(FAILED "the server's certificate does not name \"%s\": say --server with a name or an address that it has",
                                     server, host);
        case CAUSE_REFUSED:
        case CAUSE_CLOSED:
                return say_refused(o, server, cause == CAUSE_CLOSED);
        case CAUSE_UNKNOWN:
        default:
                return say_all(o, server, host);
        }
}
