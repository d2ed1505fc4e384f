/* What clients send as a message: an ExecuteRequest, a reflection request, or one of the small ones (told by the first byte). */
#include <grpc/grpc.h>

#include "glovebox/v1/execution.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "server/accept/convert.h"
#include "server/accept/reflection.h"

static const ProtobufCMessageDescriptor *const types[] = {
        &glovebox__v1__execute_request__descriptor,
        &grpc__reflection__v1__server_reflection_request__descriptor,
        &glovebox__v1__list_executions_request__descriptor,
};

static struct Reflection *reflection;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
        if (reflection_new(&reflection) < 0)
                abort();
        return 0;
}

/* What passed the look-through holds what the rest of the server relies on. */
static void check_request(const struct Request *q) {
        if (memchr(q->code.data, 0, q->code.size) || !utf8_is_valid((const char *) q->code.data, q->code.size))
                abort();
        for (size_t i = 0; i < q->n_args; i++)
                if (!utf8_is_valid(q->args[i], strlen(q->args[i])))
                        abort();
        for (size_t i = 0; i < q->n_env; i++)
                if (!q->env[i].key || !q->env[i].value)
                        abort();
}

static void take(struct Parcel *p, size_t type) {
        struct Refusal refusal = {};
        struct Request request;

        if (type == 0) {
                if (convert_request(p, &request, &refusal) == 0) {
                        check_request(&request);
                        request_done(&request);
                } else if (refusal.code == REFUSE_NOTHING || !refusal.message[0])
                        abort();
                return;
        }
        if (type == 1)
                grpc_byte_buffer_destroy(reflection_answer(reflection, p->message));
        parcel_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct Budget *b = budget_new(16 * MIB);
        struct Refusal refusal = {};
        struct Parcel *p = NULL;
        size_t type;

        if (size == 0 || !b) {
                budget_leave(b);
                return 0;
        }
        type = data[0] % ELEMENTSOF(types);
        if (parcel_new(b, types[type], data + 1, size - 1, &p, &refusal) == 0)
                take(p, type);
        else if (refusal.code == REFUSE_NOTHING)
                abort();
        if (budget_used(b) != 0)
                abort();
        budget_leave(b);
        return 0;
}
