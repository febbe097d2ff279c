/*
 * A run of a cell with a matrix state on the CPU.  A job is one head of one row of the batch: it
 * goes through all steps by itself, a chunk at a time, so threads meet only at the end and nothing
 * depends on their number.  With fewer jobs than threads, several threads share a job forward, each
 * with its blocks of columns of S and all values that come before S.
 *
 *    forward   of each chunk: the values of the text that come before the state, step by step or
 *              all at once; the state, one block of columns after the other; the values after it
 *    backward  chunks from the last to the first: the same again from the state that forward kept
 *              before the chunk, then the gradients of the three parts in reverse
 */
#ifndef ECO_CPU_MATRIX_RUN_H
#define ECO_CPU_MATRIX_RUN_H

#include "common/plan.h"
#include "cpu/matrix/matrix.h"

enum { ECO_MATRIX_STEPS = 256 }; /* of a chunk, at most */
enum { DECAY, READ, SCALE, OTHER, KEY, QUERY, ECO_MATRIX_TERMS };
enum { ECO_MATRIX_SPAN = 32 }; /* steps of a span (span.inc), at most */

/* What spans have of pairs of steps and of gates, and its gradients, which come last. */
enum { RATIO, ASKS, HEARS, ASKED, HEARD, DASKED, DHEARD, ECO_MATRIX_PAIRS };
enum { AFTER, BEFORE, DAFTER, ECO_MATRIX_GATES };

/* The scratch of a thread, by offsets in numbers of sums. */
struct eco_matrix_room {
    int32_t chunk, blocks; /* steps of a chunk; blocks of columns */
    bool spans;            /* steps go in spans where they can */
    bool by_row;           /* the gate is a key, a number for each row of S */
    int32_t heads, keys, values;
    int32_t width[ECO_KIND_MATRIX + 1]; /* numbers of a head in a value, by enum eco_kind */
    size_t key_row, value_row;          /* padded */
    size_t at[ECO_MAX_NODES];           /* values of a node, [chunk,row] */
    size_t nodes;                       /* numbers of all nodes' values, which come first */
    size_t gradient;                    /* its gradient is this much further on; 0: none */
    size_t carried[ECO_MAX_STATES]; /* a state of numbers, keys or values between chunks, [row] */
    size_t held;                    /* gradient of the final y, [value_row] */
    size_t state, dstate;           /* S and its gradient, [blocks,K,columns] */
    size_t states, u, d;            /* of a block: [chunk,K,columns], [chunk,columns] */
    size_t term[ECO_MATRIX_TERMS];  /* gradients of the terms, [chunk,key_row] */
    size_t dvalue;                  /* [chunk,value_row] */
    size_t pairs[ECO_MATRIX_PAIRS]; /* of spans: [chunk,ECO_MATRIX_SPAN] */
    size_t gates[ECO_MATRIX_GATES]; /* [chunk] */
    size_t gated[ECO_MATRIX_TERMS]; /* by row, terms times gates: [chunk,key_row] */
    size_t work;                    /* three times [ECO_MATRIX_SPAN,columns] */
    size_t turned;                  /* transposed rows, at most [columns,key_row] */
    size_t other_dstate;            /* as dstate; chunks alternate */
    size_t numbers;                 /* of all */
    size_t kept;                    /* of a head before a chunk, in the reserve */
    size_t kept_state[ECO_MAX_STATES]; /* of which are S and the others */
};

struct eco_matrix_run {
    const struct eco_problem *problem;
    const struct eco_matrix_rule *rule;
    const struct eco_args *args;
    const struct eco_matrix_kernels *kernels;
    struct eco_matrix_room room;
};

/* Numbers of a head in a value of this kind, and from one step's to the next. */
static inline int32_t eco_matrix_width(const struct eco_matrix_room *room, int kind)
{
    return room->width[kind];
}

static inline size_t eco_matrix_row(const struct eco_matrix_room *room, int kind)
{
    const size_t row[] = {0, 1, room->key_row, room->value_row, 0};
    return row[kind];
}

/* algorithm.c */
extern const struct eco_algo eco_algo_matrix;

#endif /* ECO_CPU_MATRIX_RUN_H */
