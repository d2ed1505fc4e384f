/* What the spawner sends (FromSpawner), and what a cell sends up the report pipe: the first byte says which. */
#include <sys/socket.h>

#include "server/lease/lease.h"
#include "server/lease/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool closed;

static void on_started(const struct LeaseStart *start, void *userdata) {
        if (start->begun > now_monotonic())
                abort();
}

static void on_failed(const struct LeaseFailure *failure, void *userdata) {
        if (strnlen(failure->step, sizeof failure->step) == sizeof failure->step ||
            strnlen(failure->detail, sizeof failure->detail) == sizeof failure->detail)
                abort();
}

static void on_full(void *userdata) {
}

static void on_exited(bool signaled, int status, uint64_t max_rss, void *userdata) {
}

static void on_words(const char *what, void *userdata) {
        (void) strlen(what);
}

static void on_ended(void *userdata) {
}

static void on_closed(const char *left, void *userdata) {
        if (closed)
                abort(); /* exactly once */
        closed = true;
}

static void on_change(void *userdata) {
}

static const struct LeaseCallbacks callbacks = { on_started, on_failed, on_exited, on_full, on_words, on_ended, on_closed };

static void fuzz_messages(const uint8_t *data, size_t size) {
        static sd_event *event;
        struct LeaseRequest request = { .runtime = "python", .tag = "fuzz" };
        struct WirePacket *packet = calloc(1, sizeof *packet);
        struct Lease *lease;
        struct Link link;
        int pair[2];

        if (!packet || (!event && sd_event_new(&event) < 0) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                abort();
        if (link_init(&link, event, "/nowhere", on_change, NULL) < 0)
                abort();
        link.fd = pair[0];
        link.ready = true;
        closed = false;
        if (lease_new(&link, &request, &callbacks, NULL, &lease) < 0)
                abort();
        ProtobufCMessage *m = wire_unpack(&glovebox__internal__from_spawner__descriptor, data, size);
        if (m) {
                lease_on_message(lease, (const Glovebox__Internal__FromSpawner *) m, packet);
                protobuf_c_message_free_unpacked(m, NULL);
        }
        link_done(&link);
        if (!closed)
                abort();
        (void) close_fd(pair[1]);
        free(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct Report report;

        if (size == 0)
                return 0;
        if (data[0] & 1)
                fuzz_messages(data + 1, size - 1);
        else if (report_parse(data + 1, size - 1, &report) > 0 && strnlen(report.step, sizeof report.step) == sizeof report.step)
                abort();
        return 0;
}
