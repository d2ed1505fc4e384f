/* Attacks on namespaces: being in one of the host's, reaching through it, and making or changing one. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "inside/attacks.h"

#define INTERFACES_MAX 64

/* The inode number of /proc/self/ns/NAME says which namespace it is. */
static int same_namespace(const struct ProbeOrder *o, enum ProbeNamespace n) {
        char path[64];
        struct stat st;
        snprintf(path, sizeof path, "/proc/self/ns/%s", probe_ns_names[n]);
        if (stat(path, &st) < 0)
                return -errno;
        return st.st_ino == o->namespaces[n];
}

static int in_host_user(const struct ProbeOrder *o) {
        return same_namespace(o, PROBE_NS_USER);
}

static int in_host_mount(const struct ProbeOrder *o) {
        return same_namespace(o, PROBE_NS_MNT);
}

static int in_host_pid(const struct ProbeOrder *o) {
        return same_namespace(o, PROBE_NS_PID);
}

static int in_host_ipc(const struct ProbeOrder *o) {
        return same_namespace(o, PROBE_NS_IPC);
}

static int in_host_uts(const struct ProbeOrder *o) {
        return same_namespace(o, PROBE_NS_UTS);
}

static int in_host_network(const struct ProbeOrder *o) {
        return same_namespace(o, PROBE_NS_NET);
}

static int in_host_cgroup(const struct ProbeOrder *o) {
        return same_namespace(o, PROBE_NS_CGROUP);
}

/* Lines "INSIDE OUTSIDE COUNT": the host's root must be nobody's name in here. */
static int has_host_root(const struct ProbeOrder *o) {
        unsigned long inside, outside, count;
        FILE *f = fopen("/proc/self/uid_map", "re");
        if (!f)
                return -errno;
        int lines = 0, found = 0;
        while (fscanf(f, "%lu %lu %lu", &inside, &outside, &count) == 3) {
                lines++;
                found |= outside == 0;
        }
        fclose(f);
        return lines ? found : -ENODATA;
}

static int make_user_namespace(const struct ProbeOrder *o) {
        return unshare(CLONE_NEWUSER) == 0;
}

static int see_host_folders(const struct ProbeOrder *o) {
        struct stat st;
        for (size_t i = 0; i < PROBE_FOLDERS; i++)
                if (o->folders[i].inode && stat(probe_folders[i], &st) == 0 && st.st_dev == o->folders[i].device &&
                    st.st_ino == o->folders[i].inode) {
                        attack_found = probe_folders[i];
                        return 1;
                }
        return 0;
}

static int climb_out(const struct ProbeOrder *o) {
        struct stat root, above;
        if (stat("/", &root) < 0 || stat("/../../../..", &above) < 0)
                return -errno;
        return root.st_dev != above.st_dev || root.st_ino != above.st_ino;
}

static int mount_old(const struct ProbeOrder *o) {
        return mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0;
}

static int mount_new(const struct ProbeOrder *o) {
        return syscall(SYS_fsopen, "tmpfs", 0) >= 0;
}

static int unmount(const struct ProbeOrder *o) {
        return umount2("/proc", MNT_DETACH) == 0;
}

static int make_mount_namespace(const struct ProbeOrder *o) {
        return unshare(CLONE_NEWNS) == 0;
}

static int has_parent(const struct ProbeOrder *o) {
        return getppid() != 0; /* it is outside, and has no number in here */
}

static int signal_spawner(const struct ProbeOrder *o) {
        return o->pid != getpid() && kill(o->pid, 0) == 0;
}

/* More than the line with titles: objects that others made. */
static int has_objects(const char *path) {
        int c, lines = 0;
        FILE *f = fopen(path, "re");
        if (!f)
                return 0;
        while ((c = fgetc(f)) != EOF)
                lines += c == '\n';
        fclose(f);
        return lines > 1;
}

static int see_ipc_objects(const struct ProbeOrder *o) {
        return has_objects("/proc/sysvipc/shm") || has_objects("/proc/sysvipc/sem") || has_objects("/proc/sysvipc/msg");
}

static int rename_host(const struct ProbeOrder *o) {
        return sethostname("probe", 5) == 0;
}

static int connect_to_spawner(const struct ProbeOrder *o) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t length = strlen(o->socket);
        if (length == 0)
                return 0; /* where there is nothing to reach */
        memcpy(address.sun_path + 1, o->socket, length);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        int r = connect(fd, (struct sockaddr *) &address, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + length));
        int error = errno;
        close(fd);
        return r == 0 || error == EAGAIN;
}

/* Kernels make interfaces of some kinds in every namespace; they lead nowhere while they are down. */
static int use_interface(const struct ProbeOrder *o) {
        int found = 0, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        for (int i = 1; i <= INTERFACES_MAX; i++) {
                struct ifreq request = {.ifr_ifindex = i};
                if (ioctl(fd, SIOCGIFNAME, &request) < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
                        continue;
                found |= (request.ifr_flags & IFF_UP) && !(request.ifr_flags & IFF_LOOPBACK);
        }
        close(fd);
        return found;
}

/* "NUMBER:NAMES:PATH": from inside every path is the root. */
static int see_cgroups_above(const struct ProbeOrder *o) {
        char line[4096];
        FILE *f = fopen("/proc/self/cgroup", "re");
        if (!f)
                return -errno;
        int found = 0;
        while (fgets(line, sizeof line, f)) {
                const char *path = strrchr(line, ':');
                found |= !path || (strcmp(path, ":/\n") != 0 && strcmp(path, ":/") != 0);
        }
        fclose(f);
        return found;
}

const struct Attack attacks_on_namespaces[] = {
        {LAYER_USER_NAMESPACE, "be in the host's user namespace", in_host_user, false},
        {LAYER_USER_NAMESPACE, "be the host's root under another name", has_host_root, false},
        {LAYER_USER_NAMESPACE, "make a user namespace, and have every capability in it", make_user_namespace, true},
        {LAYER_MOUNT_NAMESPACE, "be in the host's mount namespace", in_host_mount, false},
        {LAYER_MOUNT_NAMESPACE, "see folders of the host", see_host_folders, false},
        {LAYER_MOUNT_NAMESPACE, "climb out of the root", climb_out, false},
        {LAYER_MOUNT_NAMESPACE, "mount a file system", mount_old, true},
        {LAYER_MOUNT_NAMESPACE, "open a file system to be mounted", mount_new, true},
        {LAYER_MOUNT_NAMESPACE, "unmount /proc", unmount, true},
        {LAYER_MOUNT_NAMESPACE, "make a mount namespace", make_mount_namespace, true},
        {LAYER_PID_NAMESPACE, "be in the host's pid namespace", in_host_pid, false},
        {LAYER_PID_NAMESPACE, "name its parent outside", has_parent, false},
        {LAYER_PID_NAMESPACE, "signal the spawner", signal_spawner, false},
        {LAYER_IPC_NAMESPACE, "be in the host's IPC namespace", in_host_ipc, false},
        {LAYER_IPC_NAMESPACE, "see shared memory, semaphores or queues of others", see_ipc_objects, false},
        {LAYER_UTS_NAMESPACE, "be in the host's UTS namespace", in_host_uts, false},
        {LAYER_UTS_NAMESPACE, "change the name of the host", rename_host, false},
        {LAYER_NETWORK_NAMESPACE, "be in the host's network namespace", in_host_network, false},
        {LAYER_NETWORK_NAMESPACE, "connect to a socket of the host", connect_to_spawner, false},
        {LAYER_NETWORK_NAMESPACE, "use an interface that is not loopback", use_interface, false},
        {LAYER_CGROUP_NAMESPACE, "be in the host's cgroup namespace", in_host_cgroup, false},
        {LAYER_CGROUP_NAMESPACE, "see the cgroups above its own", see_cgroups_above, false},
        {LAYER_NONE, NULL, NULL, false},
};
