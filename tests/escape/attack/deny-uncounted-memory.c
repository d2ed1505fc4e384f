/* Memory of the kernel that the limit on memory does not count, and that a program could have any amount of.
 * ATTEMPTS: 16 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/xattr.h>

#include "attack.h"

#define PAGES 16

/* Neighbours with different policies: the kernel keeps one for each page of the file, also when it is mapped no longer. */
static void policies(void) {
        int fd = memfd_create("pages", 0);
        char *pages = ftruncate(fd, PAGES * 4096) < 0 ? MAP_FAILED : mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        unsigned long nodes = 1;
        if (pages == MAP_FAILED) {
                printf("broken: shared memory: %s\n", strerror(errno));
                exit(2);
        }
        attempt_because("a policy for a page", syscall(SYS_mbind, pages, 4096L, 2L, &nodes, 2L, 0L), EPERM);
        attempt_because("another one for its neighbour", syscall(SYS_mbind, pages + 4096, 4096L, 3L, &nodes, 2L, 0L), EPERM);
}

static void keys(void) {
        struct tcp_md5sig key = {.tcpm_keylen = 8, .tcpm_key = "abcdefgh"};
        char authenticated[272] = {};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        *(struct sockaddr_in *) &key.tcpm_addr = (struct sockaddr_in) {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
        attempt_because("a key of TCP", setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &key, sizeof key), EPERM);
        attempt_because("a key with a prefix", setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG_EXT, &key, sizeof key), EPERM);
        attempt_because("a key of the new kind", setsockopt(fd, IPPROTO_TCP, 38, authenticated, sizeof authenticated), EPERM);
        attempt_because("a key, with high bits",
                        syscall(SYS_setsockopt, fd, 0x100000000L | IPPROTO_TCP, 0x100000000L | TCP_MD5SIG, &key, sizeof key), EPERM);
}

static void options(void) {
        struct cmsghdr none = {.cmsg_len = 60000, .cmsg_level = SOL_SOCKET};
        char packet[60000] = {};
        struct ipv6_mreq group = {.ipv6mr_multiaddr.s6_addr = {0xff, 1, [15] = 9}, .ipv6mr_interface = 1};
        struct group_source_req from = {.gsr_interface = 1};
        int fd = socket(AF_INET6, SOCK_DGRAM, 0);
        memcpy(packet, &none, sizeof none);
        *(struct sockaddr_in6 *) &from.gsr_group = (struct sockaddr_in6) {.sin6_family = AF_INET6, .sin6_addr = group.ipv6mr_multiaddr};
        *(struct sockaddr_in6 *) &from.gsr_source = (struct sockaddr_in6) {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
        attempt_because("60 KB of options", setsockopt(fd, IPPROTO_IPV6, 6, packet, sizeof packet), EPERM);
        attempt_because("a group", setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof group), EPERM);
        attempt_because("a group of any family", setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &from, sizeof(struct group_req)), EPERM);
        attempt_because("a group and its source", setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP, &from, sizeof from), EPERM);
}

/* An access list as setfacl would write it, with one user named again and again. */
static size_t make_list(unsigned char *list, size_t size) {
        size_t n = (size - 4) / 8;
        memcpy(list, &(uint32_t){2}, 4);
        for (size_t i = 0; i < n; i++) {
                uint16_t tag = i == 0 ? 0x01 : i == n - 3 ? 0x04 : i == n - 2 ? 0x10 : i == n - 1 ? 0x20 : 0x02, may = 6;
                uint32_t who = tag == 0x02 ? getuid() : UINT32_MAX;
                memcpy(list + 4 + 8 * i, &tag, 2);
                memcpy(list + 6 + 8 * i, &may, 2);
                memcpy(list + 8 + 8 * i, &who, 4);
        }
        return 4 + 8 * n;
}

static void lists(const char *folder) {
        static unsigned char list[65000];
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/listed", folder);
        if (mkdir(path, 0700) < 0) {
                printf("broken: mkdir %s: %s\n", path, strerror(errno));
                exit(2);
        }
        size_t size = make_list(list, sizeof list);
        attempt_because("an access list of 65 KB", setxattr(path, "system.posix_acl_access", list, size, 0), E2BIG);
        attempt_because("one for what will be in a folder", lsetxattr(path, "system.posix_acl_default", list, size, 0), E2BIG);
        attempt_because("one by descriptor", fsetxattr(open(path, O_RDONLY | O_DIRECTORY), "system.posix_acl_access", list, size, 0), E2BIG);
}

int main(void) {
        policies();
        keys();
        options();
        lists("/workspace");
        lists("/tmp");
        return finish();
}
