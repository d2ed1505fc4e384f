/* Certificates, and the way of a TCP connection from accept() through the relay to gRPC. */
#include "server/accept/tls.h"

#include <stdio.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/log.h"
#include "server/accept/connection.h"
#include "server/accept/relay.h"

#define CHAIN_MAX 8
#define PENDING_MAX 256 /* handshakes at once: nobody has proved anything yet */

struct Tls {
        struct Accept *accept;
        SSL_CTX *context;
        struct Relay *relay;
        size_t pending;
};

/* A finished handshake on its way to the event loop. */
struct Handover {
        struct Tag tag;
        struct Tls *tls;
        int fd;
        struct Caller caller;
};

/* The first entry of OpenSSL's list is the cause, later ones say who passed it on. */
static int tls_fail(char **ret_error, const char *key, const char *file, const char *cure) {
        unsigned long code = ERR_peek_error();
        const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

        if (ret_error && asprintf(ret_error, "[tls] %s: %s: %s; %s", key, strempty(file), reason ? reason : "unusable", cure) < 0)
                *ret_error = NULL;
        ERR_clear_error();
        return -EINVAL;
}

/* Clients that offer other protocols but not HTTP/2 are refused by name. */
static int tls_on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_length, const unsigned char *in, unsigned in_length, void *userdata) {
        static const unsigned char h2[] = {2, 'h', '2'};

        if (SSL_select_next_proto((unsigned char **) out, out_length, h2, sizeof(h2), in, in_length) != OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        return SSL_TLSEXT_ERR_OK;
}

/* A name without a folder is a credential's: systemd puts it where the server alone can read it, and says where that is. */
static int tls_file(const char *key, const char *file, char **ret, char **ret_error) {
        const char *folder = getenv("CREDENTIALS_DIRECTORY");
        int r = 0;

        if (!isempty(file) && file[0] != '/' && !folder) {
                r = asprintf(ret_error, "[tls] %s: %s is the name of a credential, but systemd passed none; add LoadCredential=%s:/PATH to "
                             "gloveboxd.service, or give an absolute path", key, file, file);
                *ret_error = r < 0 ? NULL : *ret_error;
                return -EINVAL;
        }
        if (isempty(file) || file[0] == '/')
                *ret = strdup(strempty(file));
        else if (asprintf(ret, "%s/%s", folder, file) < 0)
                *ret = NULL;
        return *ret ? 0 : -ENOMEM;
}

static int tls_load(SSL_CTX *ctx, const struct Config *config, char **ret_error) {
        char *certificate _cleanup_free_ = NULL, *key _cleanup_free_ = NULL, *ca _cleanup_free_ = NULL;
        STACK_OF(X509_NAME) *names;
        int r = tls_file("certificate", config->tls_certificate, &certificate, ret_error);

        if (r >= 0)
                r = tls_file("key", config->tls_key, &key, ret_error);
        if (r >= 0)
                r = tls_file("client-ca", config->tls_client_ca, &ca, ret_error);
        if (r < 0)
                return r;
        ERR_clear_error();
        if (SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1)
                return tls_fail(ret_error, "certificate", certificate, "name a PEM file with the server's certificate, readable by the server's user");
        if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ctx) != 1)
                return tls_fail(ret_error, "key", key, "name the PEM file with the certificate's key, readable by the server's user");
        names = SSL_load_client_CA_file(ca);
        if (!names || SSL_CTX_load_verify_file(ctx, ca) != 1) {
                sk_X509_NAME_pop_free(names, X509_NAME_free);
                return tls_fail(ret_error, "client-ca", ca, "name a PEM file with the authorities that sign clients' certificates");
        }
        SSL_CTX_set_client_CA_list(ctx, names);
        return 0;
}

static int tls_new_context(const struct Config *config, SSL_CTX **ret, char **ret_error) {
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
        int r;

        if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1) {
                SSL_CTX_free(ctx);
                return -ENOMEM;
        }
        SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_TICKET);
        /* Every connection proves itself anew: a certificate that was taken back must not live on in a ticket. */
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        (void) SSL_CTX_set_num_tickets(ctx, 0);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        SSL_CTX_set_verify_depth(ctx, CHAIN_MAX);
        SSL_CTX_set_alpn_select_cb(ctx, tls_on_alpn, NULL);
        r = tls_load(ctx, config, ret_error);
        if (r < 0) {
                SSL_CTX_free(ctx);
                return r;
        }
        *ret = ctx;
        return 0;
}

int tls_check(const struct Config *config, char **ret_error) {
        const char *files[] = {config->tls_certificate, config->tls_key, config->tls_client_ca};
        SSL_CTX *ctx;

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                if (isempty(files[i]) || (files[i][0] != '/' && !getenv("CREDENTIALS_DIRECTORY")))
                        return 0;
        int r = tls_new_context(config, &ctx, ret_error);
        if (r >= 0)
                SSL_CTX_free(ctx);
        return r;
}

/* On the event loop. */
static void handover_run(struct Tag *t) {
        struct Handover *h = CONTAINER_OF(t, struct Handover, tag);

        h->tls->pending--;
        if (h->fd >= 0)
                (void) connections_add(h->tls->accept->connections, h->fd, &h->caller);
        free(h);
}

/* On the relay's thread. */
static void tls_on_handshake(void *userdata, int fd, const struct Caller *caller) {
        struct Tls *t = userdata;
        struct Handover *h = calloc(1, sizeof(*h));

        if (!h) { /* one pending place is lost; without memory there are worse things */
                (void) close_fd(fd);
                return;
        }
        *h = (struct Handover) {.tag.run = handover_run, .tls = t, .fd = fd};
        if (caller)
                h->caller = *caller;
        queue_post(&t->accept->queue, &h->tag);
}

int tls_new(struct Accept *a, struct Tls **ret, char **ret_error) {
        struct Tls *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        t->accept = a;
        r = tls_new_context(a->config, &t->context, ret_error);
        if (r >= 0)
                r = relay_new(tls_on_handshake, t, &t->relay);
        if (r < 0) {
                tls_free(t);
                return r;
        }
        *ret = t;
        return 0;
}

struct Tls *tls_free(struct Tls *t) {
        if (!t)
                return NULL;
        relay_free(t->relay);
        /* What it posted last still points here. */
        queue_run(&t->accept->queue, 0);
        SSL_CTX_free(t->context);
        free(t);
        return NULL;
}

int tls_reload(struct Tls *t, const struct Config *config, char **ret_error) {
        SSL_CTX *fresh;
        int r = tls_new_context(config, &fresh, ret_error);

        if (r < 0)
                return r;
        SSL_CTX_free(t->context); /* connections keep what they began with */
        t->context = fresh;
        return 0;
}

size_t tls_pending(const struct Tls *t) {
        return t->pending;
}

int tls_add(struct Tls *t, int fd) {
        bool full = t->pending >= PENDING_MAX || connections_full(t->accept->connections, t->pending);
        SSL *ssl;
        int r;

        if (full && (t->pending == 0 || t->pending >= 2 * PENDING_MAX)) {
                (void) close_fd(fd);
                return -EBUSY;
        }
        if (full)
                relay_give_up_oldest(t->relay);
        ssl = SSL_new(t->context);
        if (!ssl) {
                (void) close_fd(fd);
                return -ENOMEM;
        }
        SSL_set_accept_state(ssl);
        r = relay_add(t->relay, ssl, fd);
        if (r == 0)
                t->pending++;
        return r;
}
