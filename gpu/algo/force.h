/*
 * The choices that ECORNN_FORCE takes from the planner of this backend
 * (doc/contributing/testing.md). Read when a plan is made, and kept with it for its runs.
 */
#ifndef ECO_GPU_ALGO_FORCE_H
#define ECO_GPU_ALGO_FORCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/choice.h"
#include "common/problem.h"
#include "common/util.h"
#include "gpu/gemm/emulated_f32/tiling.h"

/* Use of an alternative product: where it is predicted to be faster, nowhere, everywhere. */
enum eco_use {
    ECO_USE_FASTER,
    ECO_USE_NEVER,
    ECO_USE_ALWAYS,
    ECO_USE_ALWAYS_PRESPLIT /* also with prepared states of steps */
};
/* Padding of rows. */
enum eco_rows { ECO_ROWS_FASTER, ECO_ROWS_PADDED, ECO_ROWS_DENSE };

enum { ECO_NOT_FORCED = -1, ECO_GROUPED_NEVER = -2, ECO_FORCE_TEXT = 128 };

struct eco_gpu_force {
    char text[ECO_FORCE_TEXT];  /* all keys, for people; "": nothing */
    char wrong[ECO_FORCE_TEXT]; /* a key with an invalid value, and the valid ones; "": none */
    /* Algorithm persistent, [forward, backward]: bits eco_persistent_index(). None: no such
     * division, or backward steps as in algorithm step. */
    bool divides[2], steps_back;
    uint64_t shapes[2];
    int32_t groups[2];         /* most groups of blocks, [backward]; 0: no limit */
    unsigned fused, projected; /* blocks of algorithm fused: a bit for each shape */
    int grouped;               /* shape of blocks, or one of the above */
    enum eco_use emulated_f32, scaled_f16;
    int stream_k; /* large emulated products share tiles: 0, 1 or ECO_NOT_FORCED */
    struct eco_emulated_choices step_tiles; /* of products of steps with R prepared */
    bool forces_tile;                       /* is step_tiles forced? */
    int32_t chunk[2];                       /* steps, forward and backward; 0: not forced */
    enum eco_use wavefront;                 /* of layers */
    enum eco_rows rows;
};

/* The variables that are equivalent to a key; eco_backend.variables. */
extern const char *const eco_gpu_variables[];

/* At creation of a plan, and for its table of strategies. */
struct eco_gpu_force eco_gpu_force(const struct eco_problem *problem);
/* Most concurrent runs that are forced; 0 if none are, or the value of at-once is invalid. */
int eco_gpu_forced_concurrent(const char *forced);
/* Writes the forced choices of a problem that choices.c does not print: ",KEY=VALUE". */
void eco_gpu_write_unsaid(const struct eco_problem *problem, struct eco_text *text);
/* A division of algorithm persistent, as its keys take it. */
void eco_gpu_write_division(int place, struct eco_text *text);
/* The value of a key in forced choices, or of its variable; false if there is neither. */
struct eco_gpu_asking {
    const char *forced; /* or NULL */
    const char *key, *variable;
};
bool eco_gpu_asked(struct eco_gpu_asking asking, char *value, size_t size);

#endif /* ECO_GPU_ALGO_FORCE_H */
