/* What this spawner enforces and what it does not, as HelloReply tells it. */
#pragma once

#include "spawner/cell-kind.h"

/* Fills the reply's layers, limits_not_enforced and runtimes with what lives as long as world; free the arrays with layers_done. */
int layers_fill(const struct CellWorld *world, Glovebox__Internal__HelloReply *reply);
void layers_done(Glovebox__Internal__HelloReply *reply);
