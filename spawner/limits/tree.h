/* Where this process is in the cgroup2 tree, what is there, and what a killed life left behind. */
#pragma once

#include "common/util.h"

/* The mount point of the cgroup2 hierarchy in the text of /proc/self/mountinfo; caller frees. -ENOENT: there is none. */
int tree_mount_point(const char *mountinfo, char **ret);
/* The path behind "0::" in the text of /proc/self/cgroup. */
int tree_own_path(const char *cgroup, char **ret);
/* The same mount point, of this process's mounts. */
int tree_root(char **ret);
/* The folder of this process's own cgroup; never the leaf `supervisor` that an earlier life moved us to. */
int tree_own_folder(char **ret);
/* May we, as its owner and without any capability, make and remove folders in it? */
bool tree_own_is_ours(void);
/* The bits of the words in a cgroup.controllers or cgroup.subtree_control file of this folder. */
int tree_controllers(int dir, const char *file, unsigned *ret);
/* Enables these controllers for the folders in it; the bits of those that are enabled now. */
unsigned tree_enable(int dir, unsigned wanted);
/* Moves every process of `dir` that is ours to move into its leaf `supervisor`. 1 = controllers can be enabled now, 0 = others are left. */
int tree_make_room(int dir);
/* Kills everything below the folder `name` in `dir` and removes it. 0 also when there is none. */
int tree_sweep(int dir, const char *name, usec_t deadline);
