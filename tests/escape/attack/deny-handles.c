/* open_by_handle_at opens any inode of a file system by its number, past every mount and folder.
 * CASES: ESC-14
 * ATTEMPTS: 200 */
#include "attack.h"

int main(void) {
        static const char *const places[] = {"/", "/usr", "/etc/passwd", "/workspace", "/dev/null", "/proc/self", "/usr/bin/env"};
        char name[128];
        for (size_t i = 0; i < COUNT(places); i++) {
                struct {
                        struct file_handle head;
                        unsigned char room[128];
                } handle = {.head.handle_bytes = 128};
                int mount;
                snprintf(name, sizeof name, "handle of %s", places[i]);
                attempt(name, name_to_handle_at(AT_FDCWD, places[i], &handle.head, &mount, 0));
        }
        for (size_t i = 0; i < COUNT(places); i++) {
                int at = open(places[i], O_RDONLY);
                for (uint32_t inode = 1; inode < 33; inode++) {
                        struct {
                                struct file_handle head;
                                uint32_t words[2];
                        } handle = {.head = {.handle_bytes = 8, .handle_type = 1}, .words = {inode, 0}};
                        snprintf(name, sizeof name, "inode %u by %s", inode, places[i]);
                        attempt(name, open_by_handle_at(at, &handle.head, O_RDONLY));
                }
                close(at);
        }
        return finish();
}
