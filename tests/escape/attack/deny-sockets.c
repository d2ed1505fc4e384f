/* Families of sockets beyond Unix and IP, raw sockets, and protocols whose first socket loads a module into the kernel.
 * ATTEMPTS: 560 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.h"

#ifndef TCP_ULP
#define TCP_ULP 31
#endif

static long any_socket(uint64_t family, int protocol) {
        static const int types[] = {SOCK_DGRAM, SOCK_STREAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM, SOCK_DCCP, SOCK_PACKET};
        long fd = -1;
        int error = 0;
        for (size_t i = 0; i < COUNT(types) && fd < 0; i++) {
                fd = syscall(SYS_socket, family, types[i], protocol);
                error = errno;
        }
        errno = error;
        return fd;
}

static void families(void) {
        char name[64];
        for (unsigned family = 0; family < 256; family++) {
                if (family == AF_UNIX || family == AF_INET || family == AF_INET6)
                        continue;
                snprintf(name, sizeof name, "family %u", family);
                attempt(name, any_socket(family, 0));
        }
        for (unsigned protocol = 0; protocol < 23; protocol++) {
                snprintf(name, sizeof name, "netlink %u", protocol);
                attempt(name, any_socket(AF_NETLINK, (int) protocol));
        }
        attempt("netlink with high bits", any_socket(0x100000000UL | AF_NETLINK, 0));
        attempt("packet with high bits", any_socket(0xffffffff00000000UL | AF_PACKET, 0x300));
        attempt("negative family", any_socket(~0UL, 0));
}

/* The kernel makes both sockets of a pair, and loads the module of their family, before it asks whether that family has pairs. */
static void pairs(void) {
        char name[64];
        int pair[2];
        for (unsigned family = 2; family < 46; family++) {
                snprintf(name, sizeof name, "pair of family %u", family);
                attempt_because(name, socketpair((int) family, SOCK_SEQPACKET, 0, pair), EAFNOSUPPORT);
        }
        attempt_because("pair of raw netlink", socketpair(AF_NETLINK, SOCK_RAW, 0, pair), EAFNOSUPPORT);
        attempt_because("pair of unix with high bits", syscall(SYS_socketpair, 0x100000000UL | AF_UNIX, SOCK_STREAM, 0, pair), EAFNOSUPPORT);
}

static void raw(void) {
        attempt("raw icmp", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
        attempt("raw", socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
        attempt("raw icmp6", socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
        for (int type = 0; type < 16; type++) {
                if (type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_RAW)
                        continue;
                char name[64];
                snprintf(name, sizeof name, "type %d", type);
                attempt_because(name, socket(AF_INET, type, 0), ESOCKTNOSUPPORT);
                snprintf(name, sizeof name, "type %d over 6", type);
                attempt_because(name, socket(AF_INET6, type | SOCK_CLOEXEC, 0), ESOCKTNOSUPPORT);
        }
        attempt_because("no family", socket(AF_UNSPEC, SOCK_STREAM, 0), EAFNOSUPPORT);
        attempt_because("packet by its old name", socket(AF_INET, SOCK_PACKET, 0), ESOCKTNOSUPPORT);
        attempt_because("packet by its old name, without waiting", socket(AF_INET, SOCK_PACKET | SOCK_NONBLOCK, 0), ESOCKTNOSUPPORT);
        attempt("packet by its old name, all protocols", socket(AF_INET, SOCK_PACKET, 0x300));
}

static void protocols(void) {
        char name[64];
        for (int protocol = 2; protocol < 64; protocol++) {
                static const struct {
                        int family, type, own[2];
                } kinds[] = {{AF_INET, SOCK_STREAM, {IPPROTO_TCP}},
                             {AF_INET6, SOCK_STREAM, {IPPROTO_TCP}},
                             {AF_INET, SOCK_DGRAM, {IPPROTO_UDP, IPPROTO_ICMP}},
                             {AF_INET6, SOCK_DGRAM, {IPPROTO_UDP, IPPROTO_ICMPV6}}};
                for (size_t i = 0; i < COUNT(kinds); i++) {
                        if (protocol == kinds[i].own[0] || protocol == kinds[i].own[1])
                                continue;
                        snprintf(name, sizeof name, "family %d, type %d, protocol %d", kinds[i].family, kinds[i].type, protocol);
                        attempt_because(name, socket(kinds[i].family, kinds[i].type, protocol), EPROTONOSUPPORT);
                }
        }
        attempt("sctp", socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
        attempt("sctp packets", socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
        attempt("dccp", socket(AF_INET, SOCK_DCCP, IPPROTO_DCCP));
        attempt("udplite", socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE));
        attempt("l2tp", socket(AF_INET, SOCK_DGRAM, 115));
        attempt("mptcp", socket(AF_INET, SOCK_STREAM, 262));
        attempt("smc", socket(AF_INET, SOCK_STREAM, 256));
        attempt("sctp over 6", socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP));
}

/* TLS in the kernel takes over a connected socket; it has a history of holes. */
static void upper_layers(void) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (struct sockaddr *) &address, size) < 0 || listen(listener, 1) < 0 ||
            getsockname(listener, (struct sockaddr *) &address, &size) < 0 || connect(client, (struct sockaddr *) &address, size) < 0) {
                printf("broken: loopback does not work: %s\n", strerror(errno));
                exit(2);
        }
        struct {
                unsigned short n;
                void *instructions;
        } filter = {1, &(uint64_t){6}};
        attempt("a filter of its own", setsockopt(client, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
        attempt("a filter for a group of sockets", setsockopt(client, SOL_SOCKET, 51, &filter, sizeof filter));
        attempt_because("an extended filter", setsockopt(client, SOL_SOCKET, 50, &(int){-1}, sizeof(int)), EPERM);
        attempt_because("an extended filter for a group", setsockopt(client, SOL_SOCKET, 52, &(int){-1}, sizeof(int)), EPERM);
        attempt_because("a label of flows", setsockopt(socket(AF_INET6, SOCK_DGRAM, 0), IPPROTO_IPV6, 32, (char[32]){}, 32), EPERM);
        for (int i = 0; i < 2; i++) {
                attempt_because("bridges", ioctl(client, 0x8940UL + (unsigned long) i, (char[64]){}), ENOTTY);
                attempt_because("a bridge", ioctl(client, 0x89a0UL + (unsigned long) i, (char[64]){}), ENOTTY);
                attempt_because("VLANs", ioctl(client, 0x8982UL + (unsigned long) i, (char[128]){}), ENOTTY);
        }
        attempt("kernel tls", setsockopt(client, SOL_TCP, TCP_ULP, "tls", 3));
        attempt("espintcp", setsockopt(client, SOL_TCP, TCP_ULP, "espintcp", 8));
        attempt("mark", setsockopt(client, SOL_SOCKET, SO_MARK, &(int){1}, sizeof(int)));
        attempt("priority 7", setsockopt(client, SOL_SOCKET, SO_PRIORITY, &(int){7}, sizeof(int)));
        attempt("transparent", setsockopt(client, SOL_IP, 19, &(int){1}, sizeof(int)));
        attempt("forced buffer", setsockopt(client, SOL_SOCKET, 32, &(int){1 << 30}, sizeof(int)));
        attempt("xfrm policy", setsockopt(client, SOL_IP, 17, (char[256]){}, 168));
}

int main(void) {
        families();
        pairs();
        raw();
        protocols();
        upper_layers();
        return finish();
}
