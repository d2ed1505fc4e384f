/* io_uring does file and socket work that no filter of system calls sees.
 * CASES: ESC-13
 * ATTEMPTS: 3 */
#include "attack.h"

int main(void) {
        char parameters[120] = {};
        attempt("io_uring_setup", syscall(425, 8, parameters));
        attempt("io_uring_enter", syscall(426, 0, 0, 0, 0, NULL, 0));
        attempt("io_uring_register", syscall(427, -1, 8, parameters, 0));
        return finish();
}
