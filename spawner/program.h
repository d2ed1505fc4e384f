/* A program held in sealed memory: what a cell executes cannot be changed, and needs no path in it. */
#pragma once

/* Neither writable nor readable for anyone but root: an unreadable program's process is not dumpable. */
int program_load(const char *path, const char *name, int *ret);
