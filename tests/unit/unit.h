/* What every unit test begins with. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* cmocka.h needs the four above. */
#include <cmocka.h>

#include "common/util.h"

#define assert_ok(expression) assert_true((expression) >= 0)
#define assert_error(expression, error) assert_int_equal((expression), -(error))
#define RUN(...)                                                                      \
        int main(void) {                                                              \
                const struct CMUnitTest tests[] = { __VA_ARGS__ };                    \
                return cmocka_run_group_tests(tests, NULL, NULL);                     \
        }
#define T(function) cmocka_unit_test(function)
