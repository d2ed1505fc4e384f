/* Lists everything below /usr that can be seen. */
#include <ftw.h>

#include "attack.h"

static int show(const char *path, const struct stat *st, int kind, struct FTW *place) {
        (void) st;
        (void) kind;
        if (place->level > 0)
                printf("%s\n", path);
        return 0;
}

int main(void) {
        return nftw("/usr", show, 16, FTW_PHYS);
}
