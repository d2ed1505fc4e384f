/* glovebox-spawner --check: what of the wall this machine gives, why not, and what helps. */
#pragma once

#include "spawner/spawner.h"

/* Makes cells, attacks them from inside and prints what came of it, as a table or as JSON. 1 = every required layer is in force, 0 = not. The
 * uids it uses are the last of the range, which a spawner that runs beside it does not reach. */
int check_run(struct Config *config, sd_event *event, char *const *waive, uint32_t broken, bool json);
