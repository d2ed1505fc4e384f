/* The layers of the wall by name, as `waive` and glovebox-spawner --check have them. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/probe.h"

const char *layer_name(enum Layer layer);
/* LAYER_NONE: there is none of this name. */
enum Layer layer_by_name(const char *name);
/* Cells can be made without it, so that the operator may waive it. */
bool layer_is_optional(enum Layer layer);
bool layer_is_controller(enum Layer layer);
/* What follows the name in an error: "cannot be waived; possible are ...". NULL = it may be waived. The text is static. */
const char *layer_refuse_waiver(const char *name);
