/* Probing the wall: cells are built as users get them, and glovebox-probe attacks every layer from inside. */
#pragma once

#include "spawner/layers.h"

/* In each root of the configured runtimes: once with everything, and once without the filter of system calls, so that it does not hide that
 * another layer is not there. Runs the event loop meanwhile. What was found is in l; a negative errno only when probing itself broke. */
int probing_run(struct CellWorld *world, struct Layers *l);
/* An error that says nothing of the wall, but of this moment: the machine is short of something or slow. */
bool probing_may_pass(int error);
