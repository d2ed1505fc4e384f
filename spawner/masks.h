/* What of a cell's /proc is not the cell's: covered, or replaced by facts. */
#pragma once

/* Once, where /proc is the host's: what there is to cover. */
int masks_learn(void);
/* In a process whose root is the cell's, with the rights to mount there. own, shared: folders of facts_create and facts_create_shared. */
int masks_apply(int own, int shared);
