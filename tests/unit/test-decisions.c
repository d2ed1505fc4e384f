/* spawner/steps/decisions.c: whatever is asked, the program answers as a reader who goes from question to question would. */
#include "tests/unit/filter-run.h"

#include "spawner/steps/decisions.h"

#define GRAPH_MAX 300
#define WORDS 4 /* few words and few values, so that questions have to do with each other */

static const uint32_t values[] = { 0, 1, 2, 3, 5, 6, 8, 0x40, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, UINT32_MAX };
static const uint32_t masks[] = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0, 1, 2, 6, 0xf, 0x80000000, 0xfffffffe, 0xfffffffc, 0xffff0000 };

/* The same graph, kept by the test: an answer, or a question with two places further down in the table. */
struct Model {
        bool is_answer;
        uint32_t action;
        struct Question question;
        size_t yes, no;
};

static uint32_t word_at(size_t i) {
        return (uint32_t) offsetof(struct seccomp_data, args) + 4 * (uint32_t) i;
}

static uint32_t chance(uint64_t *state, size_t below) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t) ((*state >> 33) % below);
}

static bool holds(const struct Question *q, const struct seccomp_data *data) {
        uint32_t word;

        memcpy(&word, (const char *) data + q->word, 4);
        switch (q->kind) {
        case QUESTION_IS:
                return (word & q->mask) == q->value;
        case QUESTION_ANY:
                return word & q->mask;
        case QUESTION_ABOVE:
                return word > q->value;
        }
        return false;
}

static uint32_t meaning(const struct Model *model, size_t root, const struct seccomp_data *data) {
        while (!model[root].is_answer)
                root = holds(&model[root].question, data) ? model[root].yes : model[root].no;
        return model[root].action;
}

static struct Question any_question(uint64_t *state) {
        struct Question q = { .kind = (enum QuestionKind) chance(state, 3), .word = word_at(chance(state, WORDS)) };

        q.mask = q.kind == QUESTION_ABOVE ? UINT32_MAX : masks[chance(state, ELEMENTSOF(masks))];
        q.value = values[chance(state, ELEMENTSOF(values))];
        if (q.kind == QUESTION_IS)
                q.value &= q.mask;
        if (q.kind == QUESTION_ANY)
                q.value = 0;
        return q;
}

static void compare(const struct Model *model, size_t root, const struct sock_filter *program, size_t n, uint64_t *state) {
        for (int round = 0; round < 3000; round++) {
                struct seccomp_data data = {};
                for (size_t i = 0; i < WORDS; i++) {
                        uint32_t word = values[chance(state, ELEMENTSOF(values))] + chance(state, 3) - 1;
                        memcpy((char *) &data + word_at(i), &word, 4);
                }
                uint32_t expected = meaning(model, root, &data), got = filter_run(program, n, &data);
                if (expected != got)
                        fail_msg("the questions say %u, the program %u", expected, got);
        }
}

/* Each question leads to earlier nodes, most to near ones, so that ways are long and meet again. */
static size_t any_graph(struct Model *model, unsigned *nodes, struct Decisions *d, size_t answers, size_t n, uint64_t *state) {
        for (size_t i = 0; i < n; i++) {
                struct Model *m = &model[i];
                *m = (struct Model) { .is_answer = i < answers, .action = (uint32_t) i };
                if (m->is_answer) {
                        nodes[i] = decisions_answer(d, m->action);
                        continue;
                }
                m->question = any_question(state);
                m->yes = chance(state, 2) ? i - 1 : chance(state, i);
                m->no = m->yes == i - 1 ? chance(state, i) : i - 1;
                nodes[i] = decisions_ask(d, m->question, nodes[m->yes], nodes[m->no]);
        }
        return n - 1;
}

static void the_program_is_the_questions(void **state) {
        static struct Model model[GRAPH_MAX];
        struct sock_filter plain[BPF_MAXINSNS], shorter[BPF_MAXINSNS];
        unsigned nodes[GRAPH_MAX];

        for (uint64_t seed = 1; seed <= 200; seed++) {
                struct Decisions *d _cleanup_(decisions_freep) = decisions_new();
                uint64_t s = seed;
                size_t n = 5 + chance(&s, seed % 4 ? 30 : GRAPH_MAX - 5), root = any_graph(model, nodes, d, 2 + chance(&s, 3), n, &s);
                int length = decisions_write(d, nodes[root], plain, ELEMENTSOF(plain));
                assert_true(length > 0);
                compare(model, root, plain, (size_t) length, &s);
                length = decisions_write(d, decisions_shorten(d, nodes[root]), shorter, ELEMENTSOF(shorter));
                assert_true(length > 0);
                compare(model, root, shorter, (size_t) length, &s);
        }
}

/* Farther apart than a conditional jump reaches: answers are repeated, questions get a long jump. */
static void far_away_is_reached(void **state) {
        static struct Model model[3003];
        static struct sock_filter program[BPF_MAXINSNS];
        struct Decisions *d _cleanup_(decisions_freep) = decisions_new();
        unsigned nodes[ELEMENTSOF(model)];
        uint64_t s = 1;

        for (size_t i = 0; i < ELEMENTSOF(model); i++) {
                struct Question q = { QUESTION_IS, word_at(i % 2), UINT32_MAX, (uint32_t) i };
                model[i] = (struct Model) { i < 3, (uint32_t) i, q, i % 1000 ? i % 3 : i - 500, i - 1 };
                nodes[i] = i < 3 ? decisions_answer(d, (uint32_t) i) : decisions_ask(d, q, nodes[model[i].yes], nodes[i - 1]);
        }
        size_t root = ELEMENTSOF(model) - 1;
        assert_error(decisions_write(d, nodes[root], program, ELEMENTSOF(program)), EFBIG);
        root = 1700;
        int n = decisions_write(d, nodes[root], program, ELEMENTSOF(program));
        assert_true(n > 3000);
        for (uint32_t i = 0; i < root + 2; i++) {
                struct seccomp_data data = {};
                memcpy((char *) &data + word_at(i % 2), &i, 4);
                assert_int_equal(filter_run(program, (size_t) n, &data), meaning(model, root, &data));
        }
        compare(model, root, program, (size_t) n, &s);
}

/* A jump to one answer is just within reach, or was until the other answer came between. */
static void the_edge_of_reach(void **state) {
        static struct Model model[300];
        static struct sock_filter program[BPF_MAXINSNS];
        unsigned nodes[ELEMENTSOF(model)];

        for (size_t n = 240; n < ELEMENTSOF(model); n++) {
                struct Decisions *d _cleanup_(decisions_freep) = decisions_new();
                uint64_t s = n;
                for (size_t i = 0; i < n; i++) {
                        bool top = i == n - 1, new_answer = i == n - 2;
                        struct Question q = { QUESTION_IS, word_at(top), UINT32_MAX, (uint32_t) i };
                        size_t yes = top ? i - 2 : new_answer ? 2 : 0, no = new_answer || i == 3 ? 1 : i - 1;
                        model[i] = (struct Model) { i < 3, (uint32_t) i, q, yes, no };
                        nodes[i] = i < 3 ? decisions_answer(d, (uint32_t) i) : decisions_ask(d, q, nodes[model[i].yes], nodes[model[i].no]);
                }
                int length = decisions_write(d, nodes[n - 1], program, ELEMENTSOF(program));
                assert_true(length > 0);
                compare(model, n - 1, program, (size_t) length, &s);
                for (uint32_t i = 0; i < 2 * n; i++) {
                        struct seccomp_data data = {};
                        uint32_t top = i % 2 ? (uint32_t) n - 1 : 0, value = i / 2;
                        memcpy((char *) &data + word_at(0), &value, 4);
                        memcpy((char *) &data + word_at(1), &top, 4);
                        assert_int_equal(filter_run(program, (size_t) length, &data), meaning(model, n - 1, &data));
                }
        }
}

static void nothing_is_asked_twice(void **state) {
        struct Decisions *d _cleanup_(decisions_freep) = decisions_new();
        unsigned yes = decisions_answer(d, 1), no = decisions_answer(d, 2), next;
        const struct Question five = { QUESTION_IS, word_at(0), UINT32_MAX, 5 }, bit = { QUESTION_ANY, word_at(0), 4, 0 };
        const struct Question other = { QUESTION_ANY, word_at(0), 2, 0 };
        struct sock_filter program[16];

        assert_int_equal(decisions_answer(d, 1), yes);
        assert_int_equal(decisions_ask(d, five, yes, yes), yes);
        assert_int_equal(decisions_ask(d, five, yes, no), decisions_ask(d, five, yes, no));
        next = decisions_ask(d, five, decisions_ask(d, bit, no, yes), yes); /* 5 has that bit */
        assert_int_equal(decisions_shorten(d, next), decisions_ask(d, five, no, yes));
        next = decisions_ask(d, bit, yes, decisions_ask(d, other, yes, no)); /* one question for both bits */
        assert_int_equal(decisions_write(d, next, program, ELEMENTSOF(program)), 4);
        assert_int_equal(program[1].k, 6);
}

static void an_answer_alone_is_a_program(void **state) {
        struct Decisions *d _cleanup_(decisions_freep) = decisions_new();
        struct sock_filter program[1];

        assert_int_equal(decisions_write(d, decisions_answer(d, 7), program, ELEMENTSOF(program)), 1);
        assert_int_equal(filter_run(program, 1, &(struct seccomp_data) {}), 7);
}

static void too_many_questions_are_a_fault(void **state) {
        static struct sock_filter program[BPF_MAXINSNS];
        struct Decisions *d _cleanup_(decisions_freep) = decisions_new();
        unsigned yes = decisions_answer(d, 1), next = decisions_answer(d, 2);

        next = decisions_ask(d, (struct Question) { QUESTION_IS, word_at(0), UINT32_MAX, 10000 }, yes, next);
        assert_error(decisions_write(d, next, program, 2), EFBIG);
        for (uint32_t i = 0; i < 10000; i++)
                next = decisions_ask(d, (struct Question) { QUESTION_IS, word_at(0), UINT32_MAX, i }, yes, next);
        assert_error(decisions_write(d, next, program, ELEMENTSOF(program)), EFBIG);
}

RUN(T(the_program_is_the_questions), T(far_away_is_reached), T(the_edge_of_reach), T(nothing_is_asked_twice),
    T(an_answer_alone_is_a_program), T(too_many_questions_are_a_fault))
