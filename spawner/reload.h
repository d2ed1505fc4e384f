/* Reading the config again: what the running spawner cannot take over. */
#pragma once

#include "common/config.h"

/* The key or file that differs and only counts once the spawner is started again; NULL = none. Lives as long as the two. */
const char *reload_needs_restart(const struct Config *was, const struct Config *is);
