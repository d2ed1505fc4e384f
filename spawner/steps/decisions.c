/* A graph of questions about one system call, and the program that asks them.
 *
 * What a program costs to load is its length: the kernel checks, translates and assembles it, the last in several passes (80 of 100 us), and only
 * then walks it for each call number to learn which ones it can answer without running it. So: answers are shared by all that are near
 * enough to jump there, a word that is in the accumulator is not loaded again, and what is known is not asked. */
#include "spawner/steps/decisions.h"

#include <linux/filter.h>

#define NODES_MAX 8192
#define KNOWN_MAX 32     /* answers remembered on the way to a question; beyond that nothing is left out */
#define VISITS_MAX 20000 /* steps of looking for what can be left out; beyond that nothing is */
#define REACH 254        /* of a conditional jump, less the instruction that a long way puts between */
#define ALL_BITS UINT32_MAX

struct Node {
        bool is_question;
        uint32_t action; /* of an answer */
        struct Question question;
        unsigned yes, no; /* always smaller than the node's own number */

        /* What leads here, found by plan(). */
        bool reached;
        bool entered_at[3]; /* by enum Entry */
        uint32_t held;      /* the mask under which the accumulator holds the word after the question; 0 = not known */

        /* Where it was written, as a place in Writer.at; 0 = nowhere yet. */
        size_t place[3];
};

/* How much of a question's instructions is needed, for what is in the accumulator already. */
enum Entry {
        ENTRY_LOAD,
        ENTRY_MASK,
        ENTRY_JUMP,
};

struct Decisions {
        struct Node nodes[NODES_MAX];
        unsigned n;
        unsigned visits;
        bool full;
};

struct Known {
        struct Question question;
        bool yes;
};

/* A program is written from its end to its beginning, so that each jump knows how far it goes. */
struct Writer {
        struct Decisions *decisions;
        struct sock_filter *at;
        size_t first; /* what is written begins here */
        bool full;
};

struct Decisions *decisions_new(void) {
        return calloc(1, sizeof(struct Decisions));
}

struct Decisions *decisions_free(struct Decisions *d) {
        free(d);
        return NULL;
}

static bool is_same_question(const struct Question *a, const struct Question *b) {
        return a->kind == b->kind && a->word == b->word && a->mask == b->mask && a->value == b->value;
}

static bool is_same_node(const struct Node *a, const struct Node *b) {
        if (a->is_question != b->is_question)
                return false;
        if (!a->is_question)
                return a->action == b->action;
        return a->yes == b->yes && a->no == b->no && is_same_question(&a->question, &b->question);
}

static unsigned add(struct Decisions *d, const struct Node *node) {
        for (unsigned i = 0; i < d->n; i++)
                if (is_same_node(&d->nodes[i], node))
                        return i;
        if (d->n == NODES_MAX) {
                d->full = true;
                return 0;
        }
        d->nodes[d->n] = *node;
        return d->n++;
}

unsigned decisions_answer(struct Decisions *d, uint32_t action) {
        struct Node node = { .action = action };
        return add(d, &node);
}

static bool is_one_bit(uint32_t mask) {
        return mask && !(mask & (mask - 1));
}

static struct Question above(uint32_t word, uint32_t value) {
        return (struct Question) { .kind = QUESTION_ABOVE, .word = word, .mask = ALL_BITS, .value = value };
}

static unsigned ask_any(struct Decisions *d, struct Question q, unsigned yes, unsigned no) {
        struct Node node = { .is_question = true, .question = q, .yes = yes, .no = no };
        const struct Node *next = &d->nodes[no];

        node.question.kind = QUESTION_ANY;
        node.question.value = 0;
        if (next->is_question && next->question.kind == QUESTION_ANY && next->question.word == q.word && next->yes == yes) {
                node.question.mask |= next->question.mask; /* one question for two that have the same answer */
                node.no = next->no;
        }
        return add(d, &node);
}

unsigned decisions_ask(struct Decisions *d, struct Question q, unsigned yes, unsigned no) {
        uint32_t rest = ~q.mask;

        if (yes == no)
                return yes;
        if (q.mask == 0)
                return q.kind == QUESTION_IS ? yes : no; /* 0 is 0 */
        if (q.kind == QUESTION_ANY || (q.kind == QUESTION_IS && q.value == q.mask && is_one_bit(q.mask)))
                return ask_any(d, q, yes, no);
        if (q.kind == QUESTION_IS && q.value == 0 && rest)
                return ask_any(d, q, no, yes);
        if (q.kind == QUESTION_IS && rest && !(rest & (rest + 1))) { /* all but the lowest bits: a range, which needs no mask */
                unsigned below = decisions_ask(d, above(q.word, q.value - 1), yes, no);
                return decisions_ask(d, above(q.word, q.value | rest), no, below);
        }
        if (q.kind == QUESTION_ABOVE && q.value == ALL_BITS)
                return no;
        if (q.kind == QUESTION_ABOVE && q.value == 0)
                return decisions_ask(d, (struct Question) { QUESTION_IS, q.word, ALL_BITS, 0 }, no, yes);
        struct Node node = { .is_question = true, .question = q, .yes = yes, .no = no };
        return add(d, &node);
}

/* What is answered where (word & mask) == value is known. 1 = yes, 0 = no, -1 = cannot be told */
static int answer_by_bits(const struct Question *q, uint32_t mask, uint32_t value) {
        uint32_t both = mask & q->mask;

        switch (q->kind) {
        case QUESTION_IS:
                return (value ^ q->value) & both ? 0 : both == q->mask ? 1 : -1;
        case QUESTION_ANY:
                return value & both ? 1 : both == q->mask ? 0 : -1;
        case QUESTION_ABOVE:
                return mask == ALL_BITS ? value > q->value : -1;
        }
        return -1;
}

static int answer_by(const struct Question *q, const struct Known *k) {
        const struct Question *old = &k->question;

        if (old->word != q->word)
                return -1;
        if (is_same_question(old, q))
                return k->yes;
        if (old->kind == QUESTION_IS && k->yes)
                return answer_by_bits(q, old->mask, old->value);
        if (old->kind == QUESTION_ANY && (!k->yes || is_one_bit(old->mask)))
                return answer_by_bits(q, old->mask, k->yes ? old->mask : 0);
        if (old->kind == QUESTION_ABOVE && q->kind == QUESTION_ABOVE)
                return k->yes && q->value < old->value ? 1 : !k->yes && q->value > old->value ? 0 : -1;
        if (old->kind == QUESTION_ABOVE && q->kind == QUESTION_IS && q->mask == ALL_BITS)
                return (q->value > old->value) != k->yes ? 0 : -1;
        return -1;
}

static unsigned leave_out(struct Decisions *d, unsigned number, struct Known *known, size_t n) {
        struct Node node = d->nodes[number];

        if (!node.is_question || n == KNOWN_MAX || ++d->visits > VISITS_MAX)
                return number;
        for (size_t i = 0; i < n; i++) {
                int answer = answer_by(&node.question, &known[i]);
                if (answer >= 0)
                        return leave_out(d, answer ? node.yes : node.no, known, n);
        }
        known[n] = (struct Known) { node.question, true };
        unsigned yes = leave_out(d, node.yes, known, n + 1);
        known[n] = (struct Known) { node.question, false };
        unsigned no = leave_out(d, node.no, known, n + 1);
        return decisions_ask(d, node.question, yes, no);
}

static enum Entry entry(const struct Node *from, const struct Node *to) {
        uint32_t common = from->held & to->question.mask;

        if (from->question.word != to->question.word || common != to->question.mask)
                return ENTRY_LOAD;
        return to->question.kind == QUESTION_ANY || from->held == to->question.mask ? ENTRY_JUMP : ENTRY_MASK;
}

static bool is_masked(const struct Node *node) {
        return node->question.kind == QUESTION_IS && node->question.mask != ALL_BITS;
}

static void enter(struct Node *to, enum Entry where, uint32_t held) {
        /* ANY leaves the accumulator as it was, which must be the same from everywhere to be of use later. */
        uint32_t after = to->question.kind != QUESTION_ANY ? to->question.mask : where == ENTRY_LOAD ? ALL_BITS : held;

        to->held = to->reached && to->held != after ? 0 : after;
        to->reached = true;
        to->entered_at[where] = true;
}

/* Who enters a question, and what the accumulator holds then. Returns how many instructions that makes, answers aside. */
static size_t plan(struct Decisions *d, unsigned root) {
        size_t length = 0;

        for (unsigned i = 0; i < d->n; i++) {
                struct Node *node = &d->nodes[i];
                node->reached = false;
                memset(node->entered_at, 0, sizeof node->entered_at);
                memset(node->place, 0, sizeof node->place);
        }
        enter(&d->nodes[root], ENTRY_LOAD, 0);
        for (unsigned i = root + 1; i-- > 0;) { /* all that lead to a node have a larger number */
                const struct Node *node = &d->nodes[i];
                if (!node->reached || !node->is_question)
                        continue;
                length += 1 + node->entered_at[ENTRY_LOAD] + (is_masked(node) && (node->entered_at[ENTRY_LOAD] || node->entered_at[ENTRY_MASK]));
                for (int side = 0; side < 2; side++) {
                        struct Node *next = &d->nodes[side ? node->yes : node->no];
                        enter(next, next->is_question ? entry(node, next) : ENTRY_JUMP, node->held);
                }
        }
        return length;
}

unsigned decisions_shorten(struct Decisions *d, unsigned root) {
        struct Known known[KNOWN_MAX];
        unsigned n = d->n;
        bool full = d->full;

        d->visits = 0;
        unsigned shorter = leave_out(d, root, known, 0);
        if (d->full == full && plan(d, shorter) < plan(d, root))
                return shorter;
        d->n = n; /* nothing else uses the new nodes */
        d->full = full;
        return root;
}

static size_t put(struct Writer *w, unsigned code, uint32_t k, size_t if_true, size_t if_false) {
        if (w->first == 0 || if_true > UINT8_MAX || if_false > UINT8_MAX) { /* the latter never: bring_near() sees to it */
                w->full = true;
                return 0;
        }
        w->at[--w->first] = (struct sock_filter) { (uint16_t) code, (uint8_t) if_true, (uint8_t) if_false, k };
        return w->first;
}

/* Where a jump that is to be written next finds this node: there, or a copy or a long jump right behind it. */
static size_t bring_near(struct Writer *w, struct Node *to, enum Entry where) {
        size_t place = to->place[where];

        if (place && place - w->first <= REACH)
                return place;
        if (to->is_question)
                return put(w, BPF_JMP | BPF_JA, (uint32_t) (place - w->first), 0, 0);
        return to->place[where] = put(w, BPF_RET | BPF_K, to->action, 0, 0);
}

static void write_question(struct Writer *w, struct Node *node) {
        static const unsigned codes[] = { [QUESTION_IS] = BPF_JEQ, [QUESTION_ANY] = BPF_JSET, [QUESTION_ABOVE] = BPF_JGT };
        struct Node *yes = &w->decisions->nodes[node->yes], *no = &w->decisions->nodes[node->no];
        const struct Question *q = &node->question;

        size_t to_no = bring_near(w, no, no->is_question ? entry(node, no) : ENTRY_JUMP);
        size_t to_yes = bring_near(w, yes, yes->is_question ? entry(node, yes) : ENTRY_JUMP);
        uint32_t k = q->kind == QUESTION_ANY ? q->mask : q->value;
        node->place[ENTRY_JUMP] = put(w, BPF_JMP | codes[q->kind] | BPF_K, k, to_yes - w->first, to_no - w->first);
        if (is_masked(node) && (node->entered_at[ENTRY_LOAD] || node->entered_at[ENTRY_MASK]))
                node->place[ENTRY_MASK] = put(w, BPF_ALU | BPF_AND | BPF_K, q->mask, 0, 0);
        if (node->entered_at[ENTRY_LOAD])
                node->place[ENTRY_LOAD] = put(w, BPF_LD | BPF_W | BPF_ABS, q->word, 0, 0);
}

static void write_node(struct Writer *w, unsigned number) {
        struct Node *node = &w->decisions->nodes[number];

        if (!node->is_question || node->place[ENTRY_JUMP] || w->full)
                return;
        write_node(w, node->yes);
        write_node(w, node->no); /* next to the question, so that one of its jumps is none */
        write_question(w, node);
}

int decisions_write(struct Decisions *d, unsigned root, struct sock_filter *ret, size_t max) {
        struct sock_filter *at _cleanup_free_ = calloc(max + 1, sizeof *at);
        struct Writer w = { .decisions = d, .at = at, .first = max + 1 };

        if (!at)
                return -ENOMEM;
        if (d->full)
                return -EFBIG;
        (void) plan(d, root);
        write_node(&w, root);
        if (!d->nodes[root].is_question)
                (void) bring_near(&w, &d->nodes[root], ENTRY_JUMP);
        if (w.full || w.first == 0)
                return -EFBIG;
        memcpy(ret, &at[w.first], (max + 1 - w.first) * sizeof *at);
        return (int) (max + 1 - w.first);
}
