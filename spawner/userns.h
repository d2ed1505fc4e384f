/* The user namespaces that own cells: one per runtime, so that what is root among its cells is nobody on the host. */
#pragma once

#include "common/config.h"

/* Inside 0 is uid-range START + index; inside 1000 and up are the slots. Returns the namespace's descriptor. */
int userns_make(const struct Config *config, unsigned index, int *ret);
/* One line for the operator where cells share limits that they should not, else NULL. Before rights are given up. */
const char *userns_remark(void);
