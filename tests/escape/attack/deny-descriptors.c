/* What a program finds open: three streams and nothing else, none of them a way to hand a descriptor to the outside.
 * CASES: ESC-02
 * ATTEMPTS: 30 */
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include "attack.h"

static void pass_a_descriptor(int to) {
        char name[64], byte = 'x';
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {};
        struct iovec data = {&byte, 1};
        struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &(int){0}, sizeof(int));
        snprintf(name, sizeof name, "passing a descriptor through %d", to);
        attempt(name, sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
        snprintf(name, sizeof name, "taking a descriptor from %d", to);
        attempt(name, recvmsg(to, &message, MSG_DONTWAIT));
}

static bool expected(int fd) {
        struct stat st;
        if (fstat(fd, &st) < 0)
                return false;
        return S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
}

static void look_at(int fd) {
        char name[64], link[PATH_MAX] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (readlink(name, link, sizeof link - 1) < 0)
                strcpy(link, "?");
        errno = EBADF;
        if (fd > 2 || !expected(fd))
                escaped("descriptor %d is %s", fd, link);
        else
                attempt(link, -1);
        pass_a_descriptor(fd);
        snprintf(name, sizeof name, "going up from %d", fd);
        attempt(name, openat(fd, "..", O_PATH));
        snprintf(name, sizeof name, "folder of %d", fd);
        attempt(name, fchdir(fd));
        snprintf(name, sizeof name, "stealing keystrokes through %d", fd);
        attempt(name, ioctl(fd, TIOCSTI, "x"));
        snprintf(name, sizeof name, "stealing the terminal through %d", fd);
        attempt(name, ioctl(fd, TIOCSCTTY, 1));
}

int main(void) {
        int had = 0;
        for (int fd = 0; fd < 20000; fd++)
                if (fcntl(fd, F_GETFD) >= 0) {
                        look_at(fd);
                        had++;
                }
        errno = EBADF;
        attempt("more than three descriptors", had > 3 ? had : -1);
        for (int fd = 3; fd < 16; fd++)
                pass_a_descriptor(fd);
        return finish();
}
