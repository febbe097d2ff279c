/*
 * The arrays that a caller gives to a run, one row each.  What checks, copies, cuts or counts all
 * of them is a loop over these rows, so a new array is one row of plan/arrays.c, one field of the
 * public structure and one of struct eco_args.
 *
 * Example: the row of final is {"io.final", ...}: field `final` of ecornn_io and of eco_args, one
 * array for each state, [L*D,N,width]; every plan has it, none requires it, and io.tangent has one
 * too.
 */
#ifndef ECO_RUN_ARRAYS_H
#define ECO_RUN_ARRAYS_H

#include <string.h>

#include "common/plan.h"

enum eco_array_shape {
    ECO_ARRAY_ROWS,    /* [N] of int32_t, rows of other arrays */
    ECO_ARRAY_LENGTHS, /* [N] of int32_t, numbers of steps */
    ECO_ARRAY_MARKS,   /* [T,N] of bytes, one for each step of a row */
    ECO_ARRAY_INPUT,   /* [T,N,I] */
    ECO_ARRAY_OUTPUT,  /* [T,N,D*P] */
    ECO_ARRAY_STATE,   /* [L*D,N,width] for each state */
    ECO_ARRAY_STATES,  /* [L*D,T,N,width] for each state */
    ECO_ARRAY_BLOCK,   /* bytes whose number is in ecornn_sizes */
    ECO_ARRAY_SHAPES
};

/* When it must be given, unless it is a block of 0 bytes; of bits that the run has. */
enum {
    ECO_NEVER_REQUIRED = 0,
    ECO_IN_RUNS = 1,    /* of steps and rows */
    ECO_IN_BACKWARD = 2 /* these, backward */
};

/* What a run of tangents has of it. */
enum eco_array_tangents { ECO_NO_ARRAY, ECO_ONE_ARRAY, ECO_WITH_TANGENT };

struct eco_run_array {
    const char *name;   /* "io.x" */
    bool gradient;      /* it is in ecornn_gradient, not in ecornn_io */
    uint16_t given, at; /* offsets in that structure and in struct eco_args */
    bool output;        /* a run of this kind writes it */
    uint8_t count;      /* 1, or ECO_MAX_STATES: one for each state */
    uint8_t shape;      /* enum eco_array_shape */
    uint16_t bytes;     /* of a block: offset of its size in ecornn_sizes */
    uint8_t required;
    uint8_t tangents; /* enum eco_array_tangents */
    uint32_t flag;    /* which the plan's description must have for it; or 0 */
    const char *flag_name;
};

enum {
    ECO_IO_ARRAYS = 13,
    ECO_STEP_ARRAYS = 3,  /* of these, the ones that eco_is_step_array() finds, in their order; */
    ECO_STEP_LENGTHS = 0, /* two of them by name */
    ECO_STEP_MASK = 2,
    ECO_RUN_ARRAYS = ECO_IO_ARRAYS + 7,
    ECO_RUN_POINTERS = ECO_RUN_ARRAYS + 8 * (ECO_MAX_STATES - 1) /* of eight, one for each state */
};
/* First those of ecornn_io, then those of ecornn_gradient, each in the order of the fields. */
extern const struct eco_run_array eco_run_array[ECO_RUN_ARRAYS];

/* The number of rows that a run has: those of ecornn_gradient are last. */
static inline int eco_run_arrays(const struct eco_args *args)
{
    return args->backward ? ECO_RUN_ARRAYS : ECO_IO_ARRAYS;
}

/* Does it say something of each step of a row: whether it counts, or the states restart?  What
 * changes the steps of a run changes these arrays with them. */
static inline bool eco_is_step_array(const struct eco_run_array *array)
{
    return array->shape == ECO_ARRAY_LENGTHS || array->shape == ECO_ARRAY_MARKS;
}

/* Its name without that of the structure. */
static inline const char *eco_run_array_field(const struct eco_run_array *array)
{
    return strchr(array->name, '.') + 1;
}

/* Pointer s of an array; s < count. */
static inline const void *eco_run_array_get(const struct eco_args *args,
                                            const struct eco_run_array *array, int s)
{
    const void *pointer;
    memcpy(&pointer, (const char *)args + array->at + (size_t)s * sizeof pointer, sizeof pointer);
    return pointer;
}

static inline void eco_run_array_set(struct eco_args *args, const struct eco_run_array *array,
                                     int s, const void *pointer)
{
    memcpy((char *)args + array->at + (size_t)s * sizeof pointer, &pointer, sizeof pointer);
}

/* Bytes of a block. */
static inline size_t eco_run_array_bytes(const struct eco_run_array *array,
                                         const ecornn_sizes *sizes)
{
    size_t bytes;
    memcpy(&bytes, (const char *)sizes + array->bytes, sizeof bytes);
    return bytes;
}

/* Copies all pointers of an array. */
static inline void eco_run_array_copy(struct eco_args *to, const struct eco_args *from,
                                      const struct eco_run_array *array)
{
    for (int s = 0; s < array->count; s++)
        eco_run_array_set(to, array, s, eco_run_array_get(from, array, s));
}

#endif /* ECO_RUN_ARRAYS_H */
