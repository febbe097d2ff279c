/*
 * The opponents that C knows; ort and torch are in peers.c, their Python in peers.py.
 */
#ifndef BENCH_VERSUS_H
#define BENCH_VERSUS_H

#include "bench/core/opponent.h"

extern const struct opponent opponent_loop, opponent_onednn, opponent_cudnn, opponent_ort,
    opponent_torch;

#endif /* BENCH_VERSUS_H */
