/* Patterns of paths: what matches, what is refused, and that nothing takes long. */
#include "common/path-pattern.h"
#include "tests/unit/unit.h"

static bool matches(const char *pattern, const char *path) {
        if (path_pattern_check(pattern, strlen(pattern)))
                fail_msg("%s: %s", pattern, path_pattern_check(pattern, strlen(pattern)));
        return path_pattern_matches(pattern, strlen(pattern), path, strlen(path));
}

static void test_matches(void **state) {
        static const struct {
                const char *pattern, *yes[6], *no[6];
        } cases[] = {
                {"a.csv", {"a.csv", "a.csv/below"}, {"b/a.csv", "a.csvx", "xa.csv", "a"}},
                {"./a.csv", {"a.csv"}, {"b/a.csv"}},
                {"*.csv", {"a.csv", "two words.csv", "a.csv.csv"}, {"a.csv/below", "b/a.csv", ".csv", ".a.csv", "a.csv2"}},
                {"*", {"a", "-rf", "a\nb"}, {"a/b", ".a"}},
                {".*", {".a", ".a.b"}, {"a", ".a/b", "b/.a"}},
                {"out", {"out", "out/a", "out/a/b", "out/.a/.b"}, {"outer", "in/out", "ou"}},
                {"out/", {"out/a", "out/a/b", "out/.a"}, {"out", "outer/a"}},
                {"out/*", {"out/a"}, {"out", "out/a/b", "out/.a"}},
                {"out/**", {"out/a", "out/a/b"}, {"out", "out/.a", "out/a/.b", "outer/a"}},
                {"*/", {"a/b", "a/b/c"}, {"a", ".a/b"}},
                {"**", {"a", "a/b", "a/b/c"}, {".a", "a/.b", ".a/b"}},
                {".", {"a", "a/b", ".a/b"}, {}},
                {"**/x.csv", {"x.csv", "a/x.csv", "a/b/x.csv", "x.csv/x.csv"}, {"a/x.csv2", ".a/x.csv", "ax.csv"}},
                {"a/**/b/**/c", {"a/b/c", "a/x/b/y/z/c", "a/b/b/c/c", "a/b/c/c"}, {"a/c", "a/b", "a/x/c/b", "a/.x/b/c"}},
                {"**/a/*.txt", {"a/b.txt", "a/a/b.txt", "a/a/a/b.txt"}, {"a/c/b.txt", "b.txt"}},
                {"a**b", {"ab", "axxb"}, {"a/b"}},
                {"?.txt", {"a.txt", "\xc3\xa9.txt", "\xff.txt", "\xe5\xa0\xb1.txt"}, {".txt", "ab.txt", "a/x.txt", "..txt"}},
                {"[a-c][!0-9].txt", {"ax.txt", "c\xc3\xa9.txt"}, {"dx.txt", "a1.txt", "a.txt"}},
                {"[\xc3\xa0-\xc3\xa9]", {"\xc3\xa9", "\xc3\xa0"}, {"\xc3\xaa", "a", "\xc3"}},
                {"[]a][^]]", {"]b", "ab"}, {"a]", "b"}},
                {"[a-]", {"a", "-"}, {"b"}},
                {"[.]a", {}, {".a"}},
                {"\\*\\[\\\\\\.", {"*[\\."}, {"x[\\.", "*[\\", "*[\\x"}},
                {"\\.a*", {".a", ".ab"}, {"a"}},
                {"\xe5\xa0\xb1\xe5\x91\x8a \xc3\xa9.txt", {"\xe5\xa0\xb1\xe5\x91\x8a \xc3\xa9.txt"}, {"x"}},
                {"a//b/./c", {"a/b/c"}, {"a/b"}},
                {"*a*b*c", {"abc", "xaxbxc", "aabbcc", "abcabc"}, {"abcd", "acb"}},
        };
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                for (size_t k = 0; k < 6; k++) {
                        if (cases[i].yes[k] && !matches(cases[i].pattern, cases[i].yes[k]))
                                fail_msg("'%s' does not match '%s'", cases[i].pattern, cases[i].yes[k]);
                        if (cases[i].no[k] && matches(cases[i].pattern, cases[i].no[k]))
                                fail_msg("'%s' matches '%s'", cases[i].pattern, cases[i].no[k]);
                }
}

static void test_FIL_06_refused(void **state) {
        static const struct {
                const char *pattern, *words;
        } cases[] = {
                {"", "empty"}, {"/etc/passwd", "absolute"}, {"/", "absolute"}, {"..", "'..'"}, {"../x", "'..'"}, {"a/../../x", "'..'"},
                {"a/./..//x", "'..'"}, {"data[1.csv", "\\["}, {"[a/b]", "\\["}, {"[", "\\["}, {"[]", "\\["}, {"[!]", "\\["}, {"a\\", "\\\\"},
                {"a\\/b", "\\\\"}, {"[[:alpha:]]x", "[A-Za-z]"},
        };
        static char longest[PATH_PATTERN_MAX + 1];
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const char *wrong = path_pattern_check(cases[i].pattern, strlen(cases[i].pattern));
                if (!wrong || !strstr(wrong, cases[i].words))
                        fail_msg("'%s': %s", cases[i].pattern, strempty(wrong));
        }
        assert_non_null(strstr(path_pattern_check("x\0y", 3), "NUL"));
        memset(longest, 'a', sizeof longest);
        assert_null(path_pattern_check(longest, PATH_PATTERN_MAX));
        assert_non_null(strstr(path_pattern_check(longest, sizeof longest), "1024"));
}

/* Each of these would take ages if every star were tried with every length. */
static void test_hostile_patterns(void **state) {
        char pattern[PATH_PATTERN_MAX + 1], path[4097];
        size_t n = 0;
        for (; n + 2 < PATH_PATTERN_MAX; n += 2)
                memcpy(pattern + n, "*a", 2);
        pattern[n++] = 'b';
        memset(path, 'a', 4096);
        for (int i = 0; i < 200; i++)
                assert_false(path_pattern_matches(pattern, n, path, 4096));
        for (n = 0; n + 5 < PATH_PATTERN_MAX; n += 5)
                memcpy(pattern + n, "**/a/", 5);
        pattern[n++] = 'b';
        for (size_t i = 1; i < 4096; i += 2)
                path[i] = '/';
        assert_null(path_pattern_check(pattern, n));
        for (int i = 0; i < 200; i++)
                assert_false(path_pattern_matches(pattern, n, path, 4095));
        path[4094] = 'b';
        assert_true(path_pattern_matches(pattern, n, path, 4095));
}

RUN(T(test_matches), T(test_FIL_06_refused), T(test_hostile_patterns))
