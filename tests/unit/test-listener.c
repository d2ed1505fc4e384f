/* standalone/listener.c */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "standalone/listener.h"

struct Room {
        char folder[40], path[80], address[100];
        struct Listeners listeners;
};

static int make_room(void **state) {
        struct Room *room = calloc(1, sizeof(*room));

        strcpy(room->folder, "/tmp/test-listener-XXXXXX");
        assert_non_null(mkdtemp(room->folder));
        (void) snprintf(room->path, sizeof(room->path), "%s/api.sock", room->folder);
        (void) snprintf(room->address, sizeof(room->address), "unix:%s", room->path);
        *state = room;
        return 0;
}

static int remove_room(void **state) {
        struct Room *room = *state;

        listeners_done(&room->listeners);
        (void) unlink(room->path);
        assert_ok(rmdir(room->folder));
        free(room);
        return 0;
}

static int try_connect(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd _cleanup_close_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        strcpy(address.sun_path, path);
        return connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ? -errno : 0;
}

static void a_unix_socket_for_its_group(void **state) {
        struct Room *room = *state;
        gid_t gid = geteuid() == 0 ? getegid() + 12345 : getegid();
        mode_t mask = umask(0077);
        struct stat st;

        assert_ok(listeners_add(&room->listeners, room->address, gid));
        assert_int_equal(umask(mask), 0077);
        assert_ok(stat(room->path, &st));
        assert_int_equal(st.st_mode & 07777, 0660);
        assert_int_equal(st.st_gid, gid);
        assert_ok(try_connect(room->path));
        assert_true(fcntl(room->listeners.fds[0], F_GETFD) & FD_CLOEXEC);
        listeners_done(&room->listeners);
        assert_error(try_connect(room->path), ENOENT);
}

static void a_dead_servers_socket_is_replaced(void **state) {
        struct Room *room = *state;
        struct Listeners dead = {};

        assert_ok(listeners_add(&dead, room->address, getegid()));
        (void) close(dead.fds[0]);
        free(dead.addresses[0]);
        assert_error(try_connect(room->path), ECONNREFUSED);
        assert_ok(listeners_add(&room->listeners, room->address, getegid()));
        assert_ok(try_connect(room->path));
}

static void a_living_servers_socket_is_not(void **state) {
        struct Room *room = *state;

        assert_ok(listeners_add(&room->listeners, room->address, getegid()));
        assert_error(listeners_add(&room->listeners, room->address, getegid()), EADDRINUSE);
        assert_ok(try_connect(room->path));
        assert_int_equal(room->listeners.n, 1);
}

static void another_file_is_not_removed(void **state) {
        struct Room *room = *state;
        struct stat st;
        int fd _cleanup_close_ = open(room->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        assert_ok(fd);
        assert_error(listeners_add(&room->listeners, room->address, getegid()), EEXIST);
        assert_ok(stat(room->path, &st));
        assert_true(S_ISREG(st.st_mode));
}

static void tcp_names_its_port(void **state) {
        struct Room *room = *state;

        assert_ok(listeners_add(&room->listeners, "127.0.0.1:0", getegid()));
        assert_int_equal(strncmp(room->listeners.addresses[0], "127.0.0.1:", 10), 0);
        assert_true(atoi(room->listeners.addresses[0] + 10) > 0);
        assert_error(listeners_add(&room->listeners, room->listeners.addresses[0], getegid()), EADDRINUSE);
}

static void wrong_addresses(void **state) {
        static const char *const addresses[] = { "unix:relative", "unix:", "8080", "[::1:80", "localhost:123456789",
                                                "127.0.0.1:http", "127.0.0.1:65536" };
        struct Room *room = *state;
        char longest[200] = "unix:/";

        for (size_t i = 0; i < ELEMENTSOF(addresses); i++)
                assert_error(listeners_add(&room->listeners, addresses[i], getegid()), EINVAL);
        memset(longest + 6, 'x', 150);
        assert_error(listeners_add(&room->listeners, longest, getegid()), EINVAL);
        assert_int_equal(room->listeners.n, 0);
}

static void a_bound_on_their_number(void **state) {
        struct Room *room = *state;

        for (size_t i = 0; i < LISTENERS_MAX; i++)
                assert_ok(listeners_add(&room->listeners, "127.0.0.1:0", getegid()));
        assert_error(listeners_add(&room->listeners, "127.0.0.1:0", getegid()), E2BIG);
}

#define IN_ROOM(f) cmocka_unit_test_setup_teardown(f, make_room, remove_room)

RUN(IN_ROOM(a_unix_socket_for_its_group), IN_ROOM(a_dead_servers_socket_is_replaced), IN_ROOM(a_living_servers_socket_is_not),
    IN_ROOM(another_file_is_not_removed), IN_ROOM(tcp_names_its_port), IN_ROOM(wrong_addresses), IN_ROOM(a_bound_on_their_number))
