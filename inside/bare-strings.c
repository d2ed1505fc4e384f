/* What glovebox-init and glovebox-start need of the C library's strings and sorting: see bare-start.c. Small rather than fast; the compiler calls the
 * first four itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *memmove(void *to, const void *from, size_t n) {
        uint8_t *t = to;
        const uint8_t *f = from;
        if (t < f)
                for (size_t i = 0; i < n; i++)
                        t[i] = f[i];
        else
                for (size_t i = n; i > 0; i--)
                        t[i - 1] = f[i - 1];
        return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
#ifdef __x86_64__
        void *t = to;
        __asm__ volatile("rep movsb" : "+D"(t), "+S"(from), "+c"(n) : : "memory");
        return to;
#else
        return memmove(to, from, n);
#endif
}

void *memset(void *to, int byte, size_t n) {
        uint8_t *t = to;
        while (n-- > 0)
                *t++ = (uint8_t) byte;
        return to;
}

int memcmp(const void *a, const void *b, size_t n) {
        const uint8_t *x = a, *y = b;
        for (size_t i = 0; i < n; i++)
                if (x[i] != y[i])
                        return x[i] - y[i];
        return 0;
}

void *memchr(const void *s, int byte, size_t n) {
        for (const uint8_t *p = s; n > 0; p++, n--)
                if (*p == (uint8_t) byte)
                        return (void *) p;
        return NULL;
}

size_t strnlen(const char *s, size_t max) {
        size_t n = 0;
        while (n < max && s[n])
                n++;
        return n;
}

size_t strlen(const char *s) {
        return strnlen(s, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t n) {
        for (; n > 0; a++, b++, n--)
                if (*a != *b || !*a)
                        return (uint8_t) *a - (uint8_t) *b;
        return 0;
}

int strcmp(const char *a, const char *b) {
        return strncmp(a, b, SIZE_MAX);
}

char *strchr(const char *s, int c) {
        for (; *s != (char) c; s++)
                if (!*s)
                        return NULL;
        return (char *) s;
}

size_t strcspn(const char *s, const char *stop) {
        size_t n = 0;
        while (s[n] && !strchr(stop, s[n]))
                n++;
        return n;
}

static void swap(uint8_t *a, uint8_t *b, size_t size) {
        for (size_t i = 0; i < size; i++) {
                uint8_t byte = a[i];
                a[i] = b[i];
                b[i] = byte;
        }
}

static void sift(uint8_t *base, size_t at, size_t n, size_t size, __compar_d_fn_t compare, void *userdata) {
        for (size_t child; (child = 2 * at + 1) < n; at = child) {
                if (child + 1 < n && compare(base + child * size, base + (child + 1) * size, userdata) < 0)
                        child++;
                if (compare(base + at * size, base + child * size, userdata) >= 0)
                        return;
                swap(base + at * size, base + child * size, size);
        }
}

/* A heap: no memory of its own, and no order of names that makes it slow. */
void qsort_r(void *base, size_t n, size_t size, __compar_d_fn_t compare, void *userdata) {
        uint8_t *b = base;
        for (size_t at = n / 2; at > 0; at--)
                sift(b, at - 1, n, size, compare, userdata);
        for (size_t left = n; left > 1; left--) {
                swap(b, b + (left - 1) * size, size);
                sift(b, 0, left - 1, size, compare, userdata);
        }
}
