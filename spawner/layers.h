/* The layers of the wall: what is known of each, and how that is told: in HelloReply, in a refusal to start, in the journal. */
#pragma once

#include "common/layer.h"
#include "spawner/cell-kind.h"

#define LAYER_TEXT_MAX 320

enum LayerState {
        LAYER_UNKNOWN,   /* no probe came so far */
        LAYER_IN_FORCE,  /* every attack on it failed */
        LAYER_MISSING,   /* an attack succeeded, or it could not be made */
};

struct LayerReport {
        enum LayerState state;
        bool waived;
        char cause[LAYER_TEXT_MAX];
        char cure[LAYER_TEXT_MAX];
        char detail[LAYER_TEXT_MAX + 32]; /* as the server is told */
};

struct Layers {
        struct LayerReport reports[LAYER_MAX_];
        char blocked[LAYER_TEXT_MAX]; /* why no cell could be made; empty = one was */
};

/* What it does for a cell, in a few words. */
const char *layer_purpose(enum Layer layer);

/* Marks what the operator waives. All names are known. */
void layers_waive(struct Layers *l, char *const *names);
/* Bits of the layers that cells are made without. A controller is not among them: it is used where it is there all the same. */
uint32_t layers_waived(const struct Layers *l);
/* A result of a probe: 0 = the attack failed; 1 = it succeeded; negative errno = it could not be tried. The worst one stays. */
void layers_note(struct Layers *l, enum Layer layer, int result, const char *attack);
/* The layer could not be made; cells are made without it. */
void layers_miss(struct Layers *l, enum Layer layer, const char *why);
/* The layer (or LAYER_NONE) could not be made, and so no cell. */
void layers_block(struct Layers *l, enum Layer layer, const char *why);
/* Every layer is in force or waived. */
bool layers_are_complete(const struct Layers *l);
/* -EOPNOTSUPP and one line that names each missing layer, its cause and cure, and the flag; 0 when all required ones are in force. */
int layers_require(const struct Layers *l, char **ret_error);
/* Tells the journal which layers are waived. */
void layers_log(const struct Layers *l);

/* Why cells have nothing to run this runtime's code with, as an operator needs to hear it; "" = they have; NULL = no memory. To be freed. */
char *layers_runtime_trouble(const struct CellWorld *world, size_t runtime);

/* Fills the reply's layers, limits_not_enforced and runtimes with what lives as long as world; free it with layers_done. */
int layers_fill(const struct CellWorld *world, Glovebox__Internal__HelloReply *reply);
void layers_done(Glovebox__Internal__HelloReply *reply);
