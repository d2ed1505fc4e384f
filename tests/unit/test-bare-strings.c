/* inside/bare-strings.c: the same answers as the C library's functions, on memory and strings that chance made. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define memmove bare_memmove
#define memcpy bare_memcpy
#define memset bare_memset
#define memcmp bare_memcmp
#define memchr bare_memchr
#define strnlen bare_strnlen
#define strlen bare_strlen
#define strncmp bare_strncmp
#define strcmp bare_strcmp
#define strchr bare_strchr
#define strcspn bare_strcspn
#define qsort_r bare_qsort_r
#include "inside/bare-strings.c"
#undef memmove
#undef memcpy
#undef memset
#undef memcmp
#undef memchr
#undef strnlen
#undef strlen
#undef strncmp
#undef strcmp
#undef strchr
#undef strcspn
#undef qsort_r

#define SIZE 64
#define ROUNDS 20000

/* Few different bytes, so that there is much that is equal; 0 ends it. */
static void fill(char bytes[SIZE]) {
        static const char letters[] = {'a', 'b', '/', (char) 0xe9};
        for (size_t i = 0; i < SIZE; i++)
                bytes[i] = random() % 20 ? letters[random() % 4] : 0;
        bytes[SIZE - 1] = 0;
}

static int sign(int n) {
        return (n > 0) - (n < 0);
}

static void test_reading(void **state) {
        char a[SIZE], b[SIZE];
        for (int i = 0; i < ROUNDS; i++) {
                fill(a);
                fill(b);
                size_t n = (size_t) random() % (SIZE + 1);
                char c = a[random() % SIZE];
                if (i % 2)
                        memcpy(b, a, n);
                assert_int_equal(sign(bare_memcmp(a, b, n)), sign(memcmp(a, b, n)));
                assert_int_equal(sign(bare_strcmp(a, b)), sign(strcmp(a, b)));
                assert_int_equal(sign(bare_strncmp(a, b, n)), sign(strncmp(a, b, n)));
                assert_ptr_equal(bare_memchr(a, c, n), memchr(a, c, n));
                assert_ptr_equal(bare_strchr(a, c), strchr(a, c));
                assert_int_equal(bare_strlen(a), strlen(a));
                assert_int_equal(bare_strnlen(a, n), strnlen(a, n));
                assert_int_equal(bare_strcspn(a, c ? (char[]) {c, 'b', 0} : ""), strcspn(a, c ? (char[]) {c, 'b', 0} : ""));
        }
}

static void test_writing(void **state) {
        char ours[2 * SIZE], theirs[2 * SIZE];
        for (int i = 0; i < ROUNDS; i++) {
                fill(ours);
                fill(ours + SIZE);
                memcpy(theirs, ours, sizeof ours);
                size_t n = (size_t) random() % SIZE, from = (size_t) random() % SIZE, to = (size_t) random() % SIZE;
                assert_ptr_equal(bare_memmove(ours + to, ours + from, n), ours + to);
                memmove(theirs + to, theirs + from, n);
                assert_ptr_equal(bare_memset(ours + from, 'x', n / 4), ours + from);
                memset(theirs + from, 'x', n / 4);
                assert_memory_equal(ours, theirs, sizeof ours);
                assert_ptr_equal(bare_memcpy(ours, theirs + SIZE, n), ours);
                assert_memory_equal(ours, theirs + SIZE, n);
        }
}

static int compare(const void *a, const void *b, void *userdata) {
        ++*(unsigned *) userdata;
        return memcmp(a, b, 2); /* not the third byte */
}

static void test_sorting(void **state) {
        for (int i = 0; i < ROUNDS / 10; i++) {
                char ours[3 * SIZE], theirs[3 * SIZE];
                unsigned calls = 0;
                size_t n = (size_t) random() % (SIZE + 1);
                for (size_t k = 0; k < n; k++)
                        for (size_t j = 0; j < 3; j++)
                                ours[3 * k + j] = theirs[3 * k + j] = (char) ((i % 2 ? (long) k / 3 : random() % 5) + 7 * (j == 2));
                bare_qsort_r(ours, n, 3, compare, &calls);
                assert_true(n < 2 || calls > 0);
                qsort_r(theirs, n, 3, compare, &calls);
                for (size_t k = 0; k < n; k++)
                        assert_memory_equal(ours + 3 * k, theirs + 3 * k, 2);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reading),
                cmocka_unit_test(test_writing),
                cmocka_unit_test(test_sorting),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
