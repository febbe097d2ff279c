/*
 * The installed command: its files, and the opponents that need no other library.
 */
#include "bench/core/program.h"

#include "bench/versus/versus.h"

static const struct opponent *const opponents[] = {&opponent_ort, &opponent_torch, NULL};

const struct program program = {
    .shapes = ECORNN_SHAPES, .peers = ECORNN_PEERS, .opponents = opponents};
