/*
 * The arguments of a run.  Kernels of a GPU read them too, so this is C++ as well.
 */
#ifndef ECO_ARGS_H
#define ECO_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/limits.h"

/* The caller's arguments after checking, with T and N filled in; its arrays are the rows of
 * run_array_rows.inc, such as `const void *x` and `void *final[ECO_MAX_STATES]`. */
#define ECO_OF_NUMBER void
#define ECO_OF_STATE  void
#define ECO_OF_BLOCK  void
#define ECO_OF_MARK   uint8_t
#define ECO_OF_LENGTH int32_t
#define ECO_OF_INDEX  int32_t
struct eco_args {
    int32_t T, N;
#define IN const
#define OUT
#define ONE(field)  field
#define EACH(field) field[ECO_MAX_STATES]
#define ARRAY(structure, field, number, writes, element, ...)                                      \
    writes ECO_OF_##element *number(field);
#include "common/run_array_rows.inc"
    /* [parts of x]: arrays of their own, and their rows; NULL: in x, or dense */
    const void *const *inputs;
    const size_t *input_rows;
    void *const *dinputs;
    const size_t *dinput_rows;
    int32_t streams; /* with rows: rows of initial and final */
    /* Forward, for a backend that packs in runs: the parameters that it first packs into weights,
     * or NULL. added: what pack adds to vectors, or NULL. */
    const void *const *params, *const *added;
    /* [L*D][ECO_WEIGHT_IDS]: matrices that are not in `weights`; NULL, all or one: in `weights` */
    const void *const *matrices;
    size_t workspace_bytes, reserve_bytes; /* as the caller states them; 0: not stated */
    uint64_t seed;
    uint32_t first_step, first_row; /* position in a larger run, for random numbers */
    void *stream;
    bool alone; /* other runs are concurrent: this one uses one thread */
    bool backward, accumulate;
};
/* Does the caller give gradients of the states of every step? */
static inline bool eco_args_have_dstates(const struct eco_args *args)
{
    bool any = false;
    for (int s = 0; s < ECO_MAX_STATES; s++)
        any = any || args->dstates[s] != NULL;
    return any;
}

/* Do rows that begin again have a state that begins with other than 0? */
static inline bool eco_args_begin_elsewhere(const struct eco_args *args, int state, double start)
{
    return args->resets != NULL && (args->reset_state[state] != NULL || start < 0 || start > 0);
}

/* Does every row go through all steps, and its states from each step to the next? */
static inline bool eco_args_whole(const struct eco_args *args)
{
    return args->lengths == NULL && args->resets == NULL;
}

#endif /* ECO_ARGS_H */
