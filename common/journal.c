/* Records for systemd's journal, in its native protocol: one datagram, or, when it is too large for one, a sealed memory file. */
#include "common/journal.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>

#include "common/message-ids.h"

#define SOCKET "/run/systemd/journal/socket"
#define LOOK_UP (20 * USEC_PER_MSEC) /* from reading a record to knowing whose it is */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static struct {
        pthread_mutex_t lock;
        const char *path;
        int fd;        /* connected, since only then poll() tells whether the other side has room */
        bool late;     /* it did not read in time: no more patience until it does */
        uint64_t lost;
} journal = { .lock = PTHREAD_MUTEX_INITIALIZER, .path = SOCKET, .fd = -EBADF };

void journal_set_socket(const char *path) {
        journal.path = path;
        journal.fd = close_fd(journal.fd);
        journal.late = false;
        journal.lost = 0;
}

bool journal_is_there(void) {
        return access(journal.path, W_OK) == 0;
}

/* A value with line breaks is sent with its length; any other as NAME=value. */
static size_t put_field(uint8_t *out, const struct JournalField *f) {
        size_t name = strlen(f->name), value = strlen(f->value), n = name;
        uint64_t length = htole64(value);
        bool lines = memchr(f->value, '\n', value);

        if (out) {
                memcpy(out, f->name, name);
                out[n] = lines ? '\n' : '=';
        }
        n++;
        if (lines) {
                if (out)
                        memcpy(out + n, &length, sizeof(length));
                n += sizeof(length);
        }
        if (out) {
                memcpy(out + n, f->value, value);
                out[n + value] = '\n';
        }
        return n + value + 1;
}

/* The record's size; written to out unless that is NULL. */
static size_t put_record(uint8_t *out, const struct JournalField *fields, size_t n) {
        size_t size = 0;

        for (size_t i = 0; i < n; i++)
                if (!isempty(fields[i].value))
                        size += put_field(out ? out + size : NULL, &fields[i]);
        return size;
}

static int journal_connect(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd _cleanup_close_ = -EBADF;

        if (journal.fd >= 0)
                return 0;
        if (strlen(journal.path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        strcpy(address.sun_path, journal.path);
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        journal.fd = TAKE_FD(fd);
        return 0;
}

static int send_file(int file) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
        struct msghdr message = { .msg_control = &control, .msg_controllen = sizeof(control) };

        memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
        return sendmsg(journal.fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int send_as_file(const uint8_t *record, size_t size) {
        int fd _cleanup_close_ = memfd_create("journal-record", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return -errno;
        for (size_t done = 0; done < size;) {
                ssize_t n = write(fd, record + done, size - done);
                if (n < 0)
                        return -errno;
                done += (size_t) n;
        }
        if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
                return -errno;
        return send_file(fd);
}

static int send_once(const uint8_t *record, size_t size) {
        int r = journal_connect();

        if (r < 0)
                return r;
        if (send(journal.fd, record, size, MSG_NOSIGNAL) >= 0)
                return 0;
        return errno == EMSGSIZE || errno == ENOBUFS ? send_as_file(record, size) : -errno;
}

/* -EAGAIN: there is no room, and there was none during our patience either. */
static int send_patiently(const uint8_t *record, size_t size) {
        usec_t deadline = now_monotonic() + (journal.late ? 0 : JOURNAL_PATIENCE);
        bool again = true;

        for (;;) {
                int r = send_once(record, size);
                usec_t now = now_monotonic();
                struct pollfd room = { journal.fd, POLLOUT, 0 };

                if (r < 0 && r != -EAGAIN && r != -EINTR && journal.fd >= 0) {
                        /* Another journal has taken its place: it has a socket of its own. */
                        journal.fd = close_fd(journal.fd);
                        if (again) {
                                again = false;
                                continue;
                        }
                }
                if (r == -EINTR)
                        continue;
                if (r != -EAGAIN || now >= deadline)
                        return r;
                (void) poll(&room, 1, (int) ((deadline - now) / USEC_PER_MSEC) + 1);
        }
}

static int send_record(const struct JournalField *fields, size_t n) {
        size_t size = put_record(NULL, fields, n);
        uint8_t *record = malloc(size + 1);

        if (!record)
                return -ENOMEM;
        int r = send_patiently(record, put_record(record, fields, n));
        free(record);
        return r;
}

static void tell_lost(const struct JournalField *fields, size_t n) {
        const char *who = NULL;
        char message[96], level[4];

        for (size_t i = 0; i < n; i++)
                if (streq(fields[i].name, "SYSLOG_IDENTIFIER"))
                        who = fields[i].value;
        (void) snprintf(message, sizeof(message), "The journal did not read in time: %" PRIu64 " messages are missing here", journal.lost);
        (void) snprintf(level, sizeof(level), "%d", LOG_WARNING);
        const struct JournalField told[] = {
                { "PRIORITY", level }, { "MESSAGE", message }, { "MESSAGE_ID", MESSAGE_JOURNAL_LATE }, { "SYSLOG_IDENTIFIER", who },
        };
        if (send_record(told, ELEMENTSOF(told)) >= 0)
                journal.lost = 0;
}

int journal_send(const struct JournalField *fields, size_t n) {
        (void) pthread_mutex_lock(&journal.lock);
        int r = send_record(fields, n);
        if (r >= 0 && journal.lost > 0)
                tell_lost(fields, n);
        journal.late = r == -EAGAIN;
        journal.lost += r == -EAGAIN;
        (void) pthread_mutex_unlock(&journal.lock);
        return r;
}

void journal_settle(void) {
        usec_t end = now_monotonic() + JOURNAL_SETTLE;
        int unread = 0;
        if (journal.fd < 0)
                return;
        while (ioctl(journal.fd, SIOCOUTQ, &unread) >= 0 && unread > 0 && now_monotonic() < end)
                (void) usleep(2 * USEC_PER_MSEC);
        (void) usleep(LOOK_UP);
}
