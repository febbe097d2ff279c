/*
 * bench/ecornn, the command of the build tree: it reads files of the source tree, and has all
 * opponents.
 */
#include "bench/core/program.h"

#include "bench/versus/versus.h"

#ifdef BENCH_CUDA
#include "bench/gpu/clock.h"
#else
#define gpu_time_queued NULL
#endif

static const struct opponent *const opponents[] = {
    &opponent_loop,
#ifdef HAVE_ONEDNN
    &opponent_onednn,
#endif
#ifdef ECO_HAVE_CUDNN
    &opponent_cudnn,
#endif
    &opponent_ort,    &opponent_torch, NULL,
};

const struct program program = {.shapes = BENCH_SHAPES,
                                .peers = BENCH_PEERS,
                                .opponents = opponents,
                                .time_queued = gpu_time_queued};
