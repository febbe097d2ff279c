/*
 * What ECORNN_FORCE takes from the planner of this backend (doc/contributing/testing.md).  Read as
 * a plan is made and kept with it: runs read the plan's.
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

/* Of products of other implementations: where that is faster by prediction, nowhere, everywhere. */
enum eco_use {
    ECO_USE_FASTER,
    ECO_USE_NEVER,
    ECO_USE_ALWAYS,
    ECO_USE_ALWAYS_PRESPLIT /* states of steps prepared, too */
};
/* How rows lie. */
enum eco_rows { ECO_ROWS_FASTER, ECO_ROWS_PADDED, ECO_ROWS_DENSE };

enum { ECO_NOT_FORCED = -1, ECO_GROUPED_NEVER = -2, ECO_FORCE_TEXT = 128 };

struct eco_gpu_force {
    char text[ECO_FORCE_TEXT];  /* of all keys, for people; "": nothing */
    char wrong[ECO_FORCE_TEXT]; /* a key whose value is none, and those it has; "": none */
    /* Of algorithm persistent, [forward, backward]: bits eco_persistent_place(); none of them: no
     * such division, or steps back of algorithm step. */
    bool divides[2], steps_back;
    uint64_t shapes[2];
    int32_t groups[2];         /* of blocks, at most, [backward]; 0: any */
    unsigned fused, projected; /* blocks of algorithm fused: a bit for each shape */
    int grouped;               /* shape of blocks, or one of the above */
    enum eco_use emulated_f32, scaled_f16;
    int stream_k; /* large emulated products share tiles: 0, 1 or ECO_NOT_FORCED */
    struct eco_emulated_choices step_tiles; /* of products of steps with R prepared */
    bool forces_tile;                       /* is that forced? */
    int32_t chunk[2];                       /* steps, forward and back; 0: not forced */
    enum eco_use wavefront;                 /* of layers */
    enum eco_rows rows;
};

/* The variables that say the same as a key, as eco_backend.variables. */
extern const char *const eco_gpu_variables[];

/* At creation of a plan, and for its table of ways. */
struct eco_gpu_force eco_gpu_force(const struct eco_problem *problem);
/* Runs side by side that are forced, at most; 0: none are, or by what is no value of at-once. */
int eco_gpu_forced_at_once(const char *forced);
/* What is worth measuring, as eco_backend.tunables; tunables.c. */
extern const struct eco_choice eco_gpu_tunables[];
/* Of a problem's forced choices those that a plan does not choose as a whole: ",KEY=VALUE". */
void eco_gpu_write_unsaid(const struct eco_problem *problem, struct eco_text *text);
/* A division of algorithm persistent, as its keys take it. */
void eco_gpu_write_division(int place, struct eco_text *text);
/* The value of a key of forced choices, or of a variable of its own; false: neither is there. */
struct eco_gpu_asking {
    const char *forced; /* or NULL */
    const char *key, *variable;
};
bool eco_gpu_asked(struct eco_gpu_asking asking, char *value, size_t size);

#endif /* ECO_GPU_ALGO_FORCE_H */
