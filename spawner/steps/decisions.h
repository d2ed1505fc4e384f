/* A graph of questions about one system call, and the program for the kernel's seccomp that asks them.
 *
 * A node is the number of a question or an answer. Equal nodes are one node, so that whatever is decided in several places is in the program
 * once. */
#pragma once

#include "common/util.h"

struct sock_filter;
struct Decisions;

enum QuestionKind {
        QUESTION_IS,    /* (word & mask) == value */
        QUESTION_ANY,   /* (word & mask) != 0 */
        QUESTION_ABOVE, /* word > value; the mask is all ones */
};

struct Question {
        enum QuestionKind kind;
        uint32_t word; /* where its 32 bits are in struct seccomp_data */
        uint32_t mask, value;
};

struct Decisions *decisions_new(void);
struct Decisions *decisions_free(struct Decisions *d);
DEFINE_CLEANUP(struct Decisions *, decisions_free)

/* Once there are too many nodes, these return any node, and decisions_write() fails. */
unsigned decisions_answer(struct Decisions *d, uint32_t action);
unsigned decisions_ask(struct Decisions *d, struct Question q, unsigned yes, unsigned no);

/* The same decisions from this node on, perhaps without questions whose answer is known from earlier ones: the shorter of both. */
unsigned decisions_shorten(struct Decisions *d, unsigned root);

/* The program. Returns how many instructions it has; -EFBIG: more than `max`, or too many nodes. */
int decisions_write(struct Decisions *d, unsigned root, struct sock_filter *ret, size_t max);
