/* Keyrings belong to a uid and not to a namespace: what one cell stores another would read, and a lookup starts a helper on the host.
 * CASES: ESC-15
 * ATTEMPTS: 18 */
#include <linux/keyctl.h>

#include "attack.h"

static long add(int keyring) {
        return syscall(SYS_add_key, "user", "glovebox-key", "secret", 6, keyring);
}

int main(void) {
        const struct {
                const char *name;
                int number;
        } rings[] = {{"thread", KEY_SPEC_THREAD_KEYRING}, {"process", KEY_SPEC_PROCESS_KEYRING}, {"session", KEY_SPEC_SESSION_KEYRING},
                     {"user", KEY_SPEC_USER_KEYRING}, {"user session", KEY_SPEC_USER_SESSION_KEYRING}};
        char name[64], buffer[256];
        for (size_t i = 0; i < COUNT(rings); i++) {
                snprintf(name, sizeof name, "add to the %s keyring", rings[i].name);
                attempt(name, add(rings[i].number));
                snprintf(name, sizeof name, "read the %s keyring", rings[i].name);
                attempt(name, syscall(SYS_keyctl, KEYCTL_READ, rings[i].number, buffer, sizeof buffer, 0));
        }
        attempt("search @u", syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", "glovebox-key", 0));
        attempt("join a session", syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "evil", 0, 0, 0));
        attempt("keyring id", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1, 0, 0));
        attempt("describe", syscall(SYS_keyctl, KEYCTL_DESCRIBE, KEY_SPEC_SESSION_KEYRING, buffer, sizeof buffer, 0));
        attempt("link to the parent", syscall(SYS_keyctl, KEYCTL_SESSION_TO_PARENT, 0, 0, 0, 0));
        attempt("persistent", syscall(SYS_keyctl, KEYCTL_GET_PERSISTENT, -1, KEY_SPEC_PROCESS_KEYRING, 0, 0));
        attempt("request_key", syscall(SYS_request_key, "user", "glovebox-key", NULL, KEY_SPEC_PROCESS_KEYRING));
        attempt("request_key with a helper", syscall(SYS_request_key, "user", "glovebox-key", "callout", KEY_SPEC_PROCESS_KEYRING));
        return finish();
}
