/*
 * The rows of the arrays of a run; see run_arrays.h.
 */
#include "common/run_arrays.h"

#include <stddef.h>

#define FIELD(structure, name) offsetof(structure, name), offsetof(struct eco_args, name)
#define IO(name)               "io." #name, false, FIELD(ecornn_io, name)
#define GRADIENT(name)         "gradient." #name, true, FIELD(ecornn_gradient, name)
#define ONE(shape)             1, ECO_ARRAY_##shape, 0
#define EACH(shape)            ECO_MAX_STATES, ECO_ARRAY_##shape, 0
#define BLOCK(bytes)           1, ECO_ARRAY_BLOCK, offsetof(ecornn_sizes, bytes)
#define FLAG(flag)             ECORNN_##flag, #flag
#define ALL                    0, NULL

enum {
    NEVER = ECO_NEVER_REQUIRED,
    NONE = ECO_NO_ARRAY,
    ITS = ECO_ONE_ARRAY,
    BOTH = ECO_WITH_TANGENT,
    IN = false,
    OUT = true
};

/* clang-format off */
const struct eco_run_array eco_run_array[ECO_RUN_ARRAYS] = {
    /* field                      shape                   required         tangents  plans */
    {IO(lengths),            IN,  ONE(LENGTHS),           NEVER,           ITS,      ALL},
    {IO(x),                  IN,  ONE(INPUT),             ECO_IN_RUNS,     BOTH,     ALL},
    {IO(y),                  OUT, ONE(OUTPUT),            NEVER,           BOTH,     ALL},
    {IO(initial),            IN,  EACH(STATE),            NEVER,           BOTH,     ALL},
    {IO(final),              OUT, EACH(STATE),            NEVER,           BOTH,     ALL},
    {IO(weights),            IN,  BLOCK(weight_bytes),    ECO_IN_RUNS,     NONE,     ALL},
    {IO(workspace),          OUT, BLOCK(workspace_bytes), ECO_IN_RUNS,     ITS,      ALL},
    {IO(reserve),            OUT, BLOCK(reserve_bytes),   ECO_IN_BACKWARD, NONE,     FLAG(TRAINING)},
    {IO(resets),             IN,  ONE(MARKS),             NEVER,           ITS,      FLAG(RESETS)},
    {IO(reset_state),        IN,  EACH(STATE),            NEVER,           BOTH,     FLAG(RESETS)},
    {IO(mask),               IN,  ONE(MARKS),             NEVER,           ITS,      FLAG(MASK)},
    {IO(states),             OUT, EACH(STATES),           NEVER,           NONE,     FLAG(ALL_STATES)},
    {IO(rows),               IN,  ONE(LENGTHS),           NEVER,           NONE,     FLAG(STREAMS)},
    {GRADIENT(dy),           IN,  ONE(OUTPUT),            NEVER,           BOTH,     ALL},
    {GRADIENT(dfinal),       IN,  EACH(STATE),            NEVER,           BOTH,     ALL},
    {GRADIENT(dx),           OUT, ONE(INPUT),             NEVER,           ITS,      ALL},
    {GRADIENT(dinitial),     OUT, EACH(STATE),            NEVER,           ITS,      ALL},
    {GRADIENT(dweights),     OUT, BLOCK(dweight_bytes),   NEVER,           NONE,     ALL},
    {GRADIENT(dreset_state), OUT, EACH(STATE),            NEVER,           ITS,      FLAG(RESETS)},
    {GRADIENT(dstates),      IN,  EACH(STATES),           NEVER,           NONE,     FLAG(ALL_STATES)}};
/* clang-format on */
