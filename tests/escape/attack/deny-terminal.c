/* Typing into the terminal of whoever started the service (CVE-2017-5226), also with high bits that a 32-bit comparison would not see.
 * CASES: ESC-09
 * ATTEMPTS: 30 */
#include <sys/ioctl.h>
#include <termios.h>

#include "attack.h"

#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif

int main(void) {
        static const struct {
                const char *name;
                unsigned long request;
        } requests[] = {{"TIOCSTI", TIOCSTI},   {"TIOCSTI with high bits", 0x100000000UL | TIOCSTI},
                        {"TIOCSTI with other high bits", 0xffffffff00000000UL | TIOCSTI},
                        {"TIOCLINUX", TIOCLINUX}, {"TIOCLINUX with high bits", 0x500000000UL | TIOCLINUX}, {"TIOCSETD", TIOCSETD},
                        {"TIOCCONS", TIOCCONS}};
        char name[64];
        for (int fd = 0; fd < 4; fd++)
                for (size_t i = 0; i < COUNT(requests); i++) {
                        char byte[8] = "i";
                        snprintf(name, sizeof name, "%s on %d", requests[i].name, fd);
                        attempt(name, syscall(SYS_ioctl, fd, requests[i].request, byte));
                }
        attempt_open("/dev/tty", O_RDWR);
        attempt_open("/dev/console", O_RDWR);
        attempt_open("/dev/ptmx", O_RDWR);
        attempt_open("/dev/pts/0", O_RDWR);
        attempt_open("/dev/tty0", O_RDWR);
        attempt_open("/dev/vcs", O_RDONLY);
        return finish();
}
