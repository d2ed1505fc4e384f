/* spawner/steps/rlimits.c, on a machine that has any limit one wants: few let a test raise that of nice values. */
#include "tests/unit/unit.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spawner/steps/steps.h"

#define NICE_0 20 /* as RLIMIT_NICE counts */

static struct rlimit limits[RLIM_NLIMITS];
static bool stands_in;

/* In place of the C library's. A sanitizer asks before it is ready for code that it watches. */
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

UNWATCHED int getrlimit(__rlimit_resource_t resource, struct rlimit *ret) {
        if (!stands_in)
                return (int) syscall(SYS_prlimit64, 0, resource, NULL, ret);
        *ret = limits[resource];
        return 0;
}

UNWATCHED int setrlimit(__rlimit_resource_t resource, const struct rlimit *new) {
        if (!stands_in)
                return (int) syscall(SYS_prlimit64, 0, resource, new, NULL);
        limits[resource] = *new;
        return 0;
}

static rlim_t nice_behind(bool forked, bool waits) {
        struct StepContext context = {.max_processes = 10, .forked = forked, .waits = waits};

        for (size_t i = 0; i < ELEMENTSOF(limits); i++)
                limits[i] = (struct rlimit) {RLIM_INFINITY, RLIM_INFINITY};
        limits[RLIMIT_NICE] = (struct rlimit) {NICE_0, NICE_0};
        stands_in = true;
        assert_ok(step_rlimits(&context));
        stands_in = false;
        assert_int_equal(limits[RLIMIT_NPROC].rlim_cur, 10);
        assert_int_equal(limits[RLIMIT_NICE].rlim_cur, limits[RLIMIT_NICE].rlim_max);
        return limits[RLIMIT_NICE].rlim_cur;
}

static void no_program_keeps_the_limit_of_nice_values(void **state) {
        assert_int_equal(nice_behind(false, false), 0);
        assert_int_equal(nice_behind(true, false), 0);
        assert_int_equal(nice_behind(false, true), 0);
        /* It has to go back to the usual one, and gives the limit up itself before its job. */
        assert_int_equal(nice_behind(true, true), NICE_0);
}

RUN(T(no_program_keeps_the_limit_of_nice_values))
