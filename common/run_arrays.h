/*
 * The arrays that a caller gives to a run, as rows (run_array_rows.inc), and their shapes.  What
 * checks, copies, cuts, moves or counts all arrays is a loop over these rows.
 */
#ifndef ECO_RUN_ARRAYS_H
#define ECO_RUN_ARRAYS_H

#include <string.h>

#include "common/plan.h"

/* Letters of a shape, outermost first: layers and directions, steps, rows, and the numbers of a row
 * of x or of y.  Arrays with I or Y are [N,T,...] in batch-major order. */
enum { ECO_L = 1, ECO_T = 2, ECO_N = 4, ECO_I = 8, ECO_Y = 16 };

enum eco_array_element {
    ECO_ARRAY_NUMBER, /* of the problem's type */
    ECO_ARRAY_STATE,  /* of the state's type; a row has the state's width */
    ECO_ARRAY_MARK,   /* a byte that says something of one step */
    ECO_ARRAY_LENGTH, /* an int32_t, a number of steps */
    ECO_ARRAY_INDEX,  /* an int32_t, a row of other arrays */
    ECO_ARRAY_BLOCK,  /* a byte; ecornn_sizes has their number */
    ECO_ARRAY_ELEMENTS
};

/* Each of several models has one, or all the same if they share x. */
enum eco_array_models { ECO_MODELS_OWN, ECO_MODELS_WITH_X };

/* What a layer of a net has: nothing, so that a net's run refuses it; what the net sets by name;
 * the run's, or what joined steps make of it; or one in io.layers. */
enum eco_array_nets { ECO_NETS_NONE, ECO_NETS_PLACED, ECO_NETS_JOINED, ECO_NETS_LAYERS };

/* What a run without steps or rows does with it, unless that is the offset in struct eco_args of an
 * array that it copies. */
enum { ECO_EMPTY_NOTHING = 0, ECO_EMPTY_ZEROS = 1 };

/* When it must be given, unless it is a block of 0 bytes; of bits that the run has. */
enum {
    ECO_NEVER_REQUIRED = 0,
    ECO_IN_RUNS = 1,    /* with steps and rows */
    ECO_IN_BACKWARD = 2 /* these, backward */
};

/* What a run of tangents has of it. */
enum eco_array_tangents { ECO_NO_ARRAY, ECO_ONE_ARRAY, ECO_WITH_TANGENT };

struct eco_run_array {
    const char *name;   /* "io.x" */
    bool gradient;      /* it is in ecornn_gradient, not in ecornn_io */
    uint16_t given, at; /* offsets in that structure and in struct eco_args */
    uint8_t count;      /* 1, or ECO_MAX_STATES: one for each state */
    bool output;        /* a run of this kind writes it */
    uint8_t element;    /* enum eco_array_element */
    uint8_t letters;
    uint16_t bytes;    /* of a block: offset of its size in ecornn_sizes */
    uint16_t if_empty; /* see above */
    uint8_t required;
    uint8_t models;   /* enum eco_array_models */
    uint8_t nets;     /* enum eco_array_nets */
    uint8_t tangents; /* enum eco_array_tangents */
    uint32_t flag;    /* which the plan's description must have for it; or 0 */
    const char *flag_name;
};

enum {
#define ARRAY(structure, ...) +(sizeof #structure == sizeof "io")
    ECO_IO_ARRAYS = 0
#include "common/run_array_rows.inc"
    ,
#define ARRAY(...) +1
    ECO_RUN_ARRAYS = 0
#include "common/run_array_rows.inc"
    ,
#define ONE                                  1
#define EACH                                 ECO_MAX_STATES
#define ARRAY(structure, field, number, ...) +number
    ECO_RUN_POINTERS = 0
#include "common/run_array_rows.inc"
};
extern const struct eco_run_array eco_run_array[ECO_RUN_ARRAYS];

/* The number of rows that a run has: those of ecornn_gradient are last. */
static inline int eco_run_arrays(const struct eco_args *args)
{
    return args->backward ? ECO_RUN_ARRAYS : ECO_IO_ARRAYS;
}

/* The shape of an array of one model, [lanes,steps,rows,width], in a run of T steps and N rows; 1
 * for a letter that it has not.  The lanes of y are its directions, which are innermost. */
struct eco_run_shape {
    int32_t lanes, steps, rows, width;
    ecornn_type type; /* of numbers and states; else 0 */
    size_t element;   /* bytes */
};
struct eco_run_shape eco_run_array_shape(const struct eco_run_array *array,
                                         const struct eco_problem *problem, int s, int32_t T,
                                         int32_t N);

static inline size_t eco_run_shape_bytes(const struct eco_run_shape *shape)
{
    return (size_t)shape->lanes * (size_t)shape->steps * (size_t)shape->rows *
           (size_t)shape->width * shape->element;
}

/* Is it a state of each layer, or its gradient? */
static inline bool eco_is_state(const struct eco_run_array *array)
{
    return array->letters == (ECO_L | ECO_N);
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
