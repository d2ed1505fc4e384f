/* What of a cell's /proc is not the cell's: covered, or replaced by facts. */
#pragma once

/* In a process whose root is the cell's, with the rights to mount there. facts: the folder of facts_create. */
int masks_apply(int facts);
