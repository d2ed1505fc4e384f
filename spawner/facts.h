/* What a cell is told of its machine and of itself: files over those of /proc and /etc that agree with the cell's limits, so that programs
 * and libraries size themselves by what they may use and not by what the host has. */
#pragma once

#include "common/util.h"

#define FACT_HOME "/home/sandbox"

/* Keep those first that follow limits. */
enum FactName {
        FACT_CPUINFO,
        FACT_MEMINFO,
        FACT_STAT,
        FACT_LIMITED_, /* how many follow limits */
        FACT_LOADAVG = FACT_LIMITED_,
        FACT_VMSTAT,
        FACT_BOOT_ID,
        FACT_PASSWD,
        FACT_GROUP,
        FACT_MAX_,
};

struct FactSpec {
        double cpus;
        uint64_t memory_bytes;
        uid_t user; /* as called inside */
};

/* Rendered; NULL = not. */
struct FactTexts {
        char *texts[FACT_MAX_];
};

/* In the template: the files that are the same for every cell, and beside them */
#define FACTS_SHARED "/tmp/facts"
#define FACT_NOTHING "nothing" /* a file that nobody may open */
#define FACT_EMPTY "empty"     /* a folder that nobody may open */

/* Once, at the start: what the host's processors are. */
int facts_learn(void);
/* Whole numbers of processors: what 0.5 and 1.5 of them look like to a program. Once facts are learnt, never more than there are. */
unsigned facts_processors(double cpus);
/* Those that follow limits, or all that are a cell's own. */
int facts_render(const struct FactSpec *spec, bool all, struct FactTexts *ret);
void facts_done(struct FactTexts *t);

/* Writes what is the same for every cell as new files into the folder. */
int facts_create_shared(int dir);

/* The rest is for processes in the cell, and calls nothing that is not async-signal-safe. */

bool fact_is_shared(enum FactName f);
/* The file's name where it is bound from, and its path in the cell. */
const char *fact_name(enum FactName f);
const char *fact_path(enum FactName f);
/* Writes all texts of the cell's own as new files into the folder. */
int facts_create(const struct FactTexts *t, int dir);
/* Puts the texts into the files where the cell sees them, which are mounted read-only. */
int facts_rewrite(const struct FactTexts *t);
