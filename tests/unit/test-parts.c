/* server/accept/parts.c: what one answer gathers of displays and files is bounded and charged, every byte of it. */
#include "tests/unit/unit.h"

#include "server/accept/parts.h"

#define MOST (2 * MIB + 512 * KIB) /* of an answer */

static struct Config config;
static struct Accept accept_;
static struct Call call;
static struct Parts parts;

static int setup(void **state) {
        config = (struct Config) {.request_budget = 64 * MIB};
        accept_ = (struct Accept) {.config = &config};
        call = (struct Call) {.accept = &accept_};
        parts = (struct Parts) {};
        return 0;
}

static int teardown(void **state) {
        parts_done(&parts);
        return 0;
}

static void add_display(const char *metadata, const char *content_id, size_t size) {
        static const uint8_t bytes[CONTENT_WHOLE_MAX];
        struct Event e = {
                .kind = EVENT_DISPLAY,
                .display = {.id = "a", .mime_type = "image/png", .metadata = metadata, .content_id = content_id, .data = bytes, .size = size},
        };
        parts_add(&parts, &call, &e);
}

static void add_content(const char *id, size_t size) {
        static const uint8_t bytes[CONTENT_WHOLE_MAX];
        struct Event e = {.kind = EVENT_CONTENT, .content = {.id = id, .data = bytes, .size = size}};
        parts_add(&parts, &call, &e);
}

static void displays_and_files(void **state) {
        add_display("{}", "", 10);
        add_display("", "display-2", 0);
        add_content("display-2", 100);
        add_content("display-2", 50);
        add_content("file-1", 7);
        add_content("file-2", 0);
        add_content(VALUE_CONTENT_ID, 1000); /* the result brings it along */
        assert_int_equal(parts.n, 4);
        assert_true(parts.list[0].is_display && parts.list[1].is_display && !parts.list[2].is_display);
        assert_int_equal(parts.list[1].size, 150);
        assert_string_equal(parts.list[0].metadata, "{}");
        assert_int_equal(parts_content(&parts, "file-1")->size, 7);
        assert_int_equal(parts_content(&parts, "file-2")->size, 0);
        assert_null(parts_content(&parts, "file-3"));
        assert_null(parts_content(&parts, ""));
        assert_int_equal(parts.bytes, 10 + 150 + 7 + 2);
        assert_true(call.gathered >= parts.bytes);
}

static void what_does_not_fit_is_let_go(void **state) {
        for (int i = 0; i < 4; i++)
                add_display("{}", "", CONTENT_WHOLE_MAX);
        add_display("{}", "", CONTENT_WHOLE_MAX);
        add_content("file-1", CONTENT_WHOLE_MAX);
        add_content("file-1", 1);
        assert_true(parts.bytes <= MOST);
        assert_false(parts.list[3].cut);
        assert_true(parts.list[4].cut && parts.list[5].cut);
        assert_int_equal(parts.list[5].size, 0); /* no hole: what is cut takes nothing more */
        assert_null(parts_content(&parts, "file-1"));
        parts_cut(&parts, CONTENT_WHOLE_MAX + 10);
        assert_false(parts.list[0].cut);
        assert_true(parts.list[1].cut && parts.bytes <= CONTENT_WHOLE_MAX + 10);
        parts_cut(&parts, 0);
        assert_int_equal(parts.bytes, 0);
        assert_string_equal(parts.list[0].metadata, "");
        assert_string_equal(parts.list[0].mime_type, "image/png");
}

/* Metadata alone could take 64 MiB. */
static void metadata_is_counted(void **state) {
        static char metadata[60 * KIB];
        uint64_t charged;

        memset(metadata, ' ', sizeof metadata - 1);
        for (int i = 0; i < 1000; i++)
                add_display(metadata, "", 0);
        assert_int_equal(parts.n, 1000);
        charged = call.gathered;
        assert_in_range(charged, MOST - 2 * sizeof metadata, MOST + 256 * KIB);
        size_t kept = 0;
        for (size_t i = 0; i < parts.n; i++)
                kept += strlen(parts.list[i].metadata);
        assert_int_equal(kept, parts.bytes);
        assert_true(parts.bytes <= MOST);
        assert_true(!parts.list[0].cut && parts.list[999].cut);
}

static void while_memory_is_short_nothing_is_kept(void **state) {
        accept_.gathered = config.request_budget + 1;
        add_display("{}", "", 10);
        add_content("file-1", 10);
        assert_int_equal(parts.n, 2);
        assert_int_equal(parts.bytes, 0);
        assert_true(parts.list[0].cut && parts.list[1].cut);
        assert_string_equal(parts.list[0].metadata, "");
}

#define P(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

RUN(P(displays_and_files), P(what_does_not_fit_is_let_go), P(metadata_is_counted), P(while_memory_is_short_nothing_is_kept))
