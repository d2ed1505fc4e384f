/* A second wall around files: what each part of the cell's tree is for, told to the kernel's Landlock. It holds where a mount or a mode
 * would be wrong; it needs no_new_privs and can never be taken off. No network rules: in the cell there is loopback alone. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "spawner/steps/steps.h"

/* linux/landlock.h; the header is often older than the kernel. In the order of the bits. */
#define EXECUTE (1ULL << 0)
#define WRITE_FILE (1ULL << 1)
#define READ_FILE (1ULL << 2)
#define READ_DIR (1ULL << 3)
#define REMOVE_DIR (1ULL << 4)
#define REMOVE_FILE (1ULL << 5)
#define MAKE_CHAR (1ULL << 6)
#define MAKE_DIR (1ULL << 7)
#define MAKE_REG (1ULL << 8)
#define MAKE_SOCK (1ULL << 9)
#define MAKE_FIFO (1ULL << 10)
#define MAKE_BLOCK (1ULL << 11)
#define MAKE_SYM (1ULL << 12)
#define REFER (1ULL << 13)     /* ABI 2, Linux 5.19 */
#define TRUNCATE (1ULL << 14)  /* ABI 3, Linux 6.2 */
#define IOCTL_DEV (1ULL << 15) /* ABI 5, Linux 6.10 */

#define SCOPE_ABSTRACT_SOCKET (1ULL << 0) /* ABI 6, Linux 6.12 */
#define SCOPE_SIGNAL (1ULL << 1)

/* ABI 7, Linux 6.15: what is denied in a cell is not the host's audit log's business, and could flood it. */
#define NO_LOG_SAME_EXEC (1U << 0)
#define NO_LOG_SUBDOMAINS (1U << 2)

#define VERSION_FLAG (1U << 0)
#define PATH_BENEATH 1

#define READ (READ_FILE | READ_DIR)
#define ALL (IOCTL_DEV | (IOCTL_DEV - 1))
/* Of what a folder of the user's own allows, only device nodes are left out. */
#define OWN (ALL & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV))
/* What may be said of a rule for a single file. */
#define OF_FILES (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)

struct Ruleset {
        uint64_t files, network, scoped;
};

struct PathRule {
        uint64_t allowed;
        int32_t parent;
} __attribute__((packed));

/* Rights hold for all that is below, and add up. What is not there is skipped: no right comes of it. */
static const struct {
        const char *path;
        uint64_t allowed;
} rules[] = {
        {"/", READ_DIR},
        {"/bin", READ | EXECUTE},
        {"/lib", READ | EXECUTE},
        {"/lib32", READ | EXECUTE},
        {"/lib64", READ | EXECUTE},
        {"/libx32", READ | EXECUTE},
        {"/opt", READ | EXECUTE},
        {"/sbin", READ | EXECUTE},
        {"/usr", READ | EXECUTE},
        {"/etc", READ},
        {"/glovebox", READ},
        /* A process's own files there are written by debuggers and to name threads; /proc/sys is mounted read-only. */
        {"/proc", READ | WRITE_FILE | TRUNCATE},
        {"/dev/full", READ_FILE | WRITE_FILE | TRUNCATE},
        {"/dev/null", READ_FILE | WRITE_FILE | TRUNCATE},
        {"/dev/random", READ_FILE | WRITE_FILE | TRUNCATE},
        {"/dev/urandom", READ_FILE | WRITE_FILE | TRUNCATE},
        {"/dev/zero", READ_FILE | WRITE_FILE | TRUNCATE},
        {"/dev/shm", OWN},
        {"/home/sandbox", OWN},
        {"/tmp", OWN},
        {"/workspace", OWN},
};

/* By ABI: the rights that are known up to there. */
static uint64_t known_rights(int abi) {
        return abi >= 5 ? ALL : abi >= 3 ? ALL & ~IOCTL_DEV : abi == 2 ? TRUNCATE - 1 : REFER - 1;
}

static int add_rule(int ruleset, const char *path, uint64_t allowed) {
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
        struct stat st;
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        struct PathRule rule = {.allowed = S_ISDIR(st.st_mode) ? allowed : allowed & OF_FILES, .parent = fd};
        return syscall(SYS_landlock_add_rule, ruleset, PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

int landlock_abi(void) {
        int abi = (int) syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);
        return abi < 0 ? -errno : abi;
}

/* Every ruleset refuses to move files between folders unless it says otherwise, and forks inherit this one: so it says otherwise, from the root
 * that cells have, too. Whoever is under a rule about files may not mount any more. */
int landlock_scope(int abi) {
        const struct Ruleset set = {.files = REFER, .scoped = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL};
        if (abi < 6)
                return 0;
        _cleanup_close_ int fd = (int) syscall(SYS_landlock_create_ruleset, &set, sizeof set, 0);
        int r = fd < 0 ? -errno : add_rule(fd, "/", REFER);
        if (r < 0)
                return r;
        unsigned flags = abi >= 7 ? NO_LOG_SAME_EXEC | NO_LOG_SUBDOMAINS : 0;
        return syscall(SYS_landlock_restrict_self, fd, flags) < 0 ? -errno : 0;
}

int step_landlock(struct StepContext *c) {
        if (c->landlock_abi < 1)
                return c->landlock_abi < 0 ? c->landlock_abi : -EOPNOTSUPP;
        uint64_t known = known_rights(c->landlock_abi);
        const struct Ruleset set = {.files = known, .scoped = c->landlock_abi >= 6 ? SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL : 0};
        /* An older kernel refuses a longer structure only when the rest is not zero. */
        _cleanup_close_ int fd = (int) syscall(SYS_landlock_create_ruleset, &set, sizeof set, 0);
        if (fd < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(rules); i++) {
                int r = add_rule(fd, rules[i].path, rules[i].allowed & known);
                if (r < 0)
                        return r;
        }
        unsigned flags = c->landlock_abi >= 7 ? NO_LOG_SAME_EXEC | NO_LOG_SUBDOMAINS : 0;
        return syscall(SYS_landlock_restrict_self, fd, flags) < 0 ? -errno : 0;
}
