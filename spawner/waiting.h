/* What a program that does nothing waits for, from what the kernel tells of its threads. */
#pragma once

#include "common/util.h"

enum Waiting {
        WAITING_UNKNOWN,
        WAITING_COMPUTING,
        WAITING_STDIN,
        WAITING_NETWORK,
        WAITING_PIPE,
        WAITING_OUTPUT,
        WAITING_SLEEP,
        WAITING_EVENT,
        WAITING_LOCK,
        WAITING_CHILD,
        WAITING_STOPPED,
        WAITING_MAX_,
};

/* From the state letter of /proc/TID/stat, and the texts of /proc/TID/syscall and /proc/TID/wchan ("" when unreadable). */
enum Waiting waiting_classify(char state, const char *syscall_text, const char *wchan);
/* Of all threads, the one that explains best why nothing happens; leader = the thread is its process's first. */
struct WaitingVote {
        bool has[WAITING_MAX_], leader_has[WAITING_MAX_];
};
void waiting_add(struct WaitingVote *v, enum Waiting w, bool leader);
enum Waiting waiting_decide(const struct WaitingVote *v);
/* Words that follow "was". */
const char *waiting_words(enum Waiting w);
/* Looks at the first 64 threads of a cgroup folder. */
enum Waiting waiting_look(int cgroup_dir);
