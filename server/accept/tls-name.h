/* The name in a client's certificate. */
#pragma once

#include <openssl/x509.h>

#include "server/caller.h"

/* "cert:NAME" of the first DNS or URI name, else of the common name. -EBADMSG: none, too long, or with characters that could deceive. */
int tls_caller_from_certificate(X509 *certificate, struct Caller *ret);
