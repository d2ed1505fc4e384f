/* Leaves a key in the session keyring, or looks for one that another cell left there: "left-keys leave" and "left-keys look". */
#include <linux/keyctl.h>

#include "attack.h"

int main(int argc, char **argv) {
        if (argc > 1 && argv[1][0] == 'l' && argv[1][1] == 'e') {
                long key = syscall(SYS_add_key, "user", "glovebox-left", "secret", 6, KEY_SPEC_SESSION_KEYRING);
                printf("left %ld %s\n", key, key < 0 ? strerror(errno) : "");
                return 0;
        }
        attempt("a key of another cell", syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "glovebox-left", 0));
        return finish();
}
