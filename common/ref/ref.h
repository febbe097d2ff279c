/*
 * The reference backend, inside: one run, one row of one step, and its arithmetic.  Everything is
 * computed in double straight from the recipe's graph.  Knows no layout, tape or lowered program:
 * it is what those are checked against.
 */
#ifndef ECO_REF_H
#define ECO_REF_H

#include <math.h>
#include <string.h>

#include "common/backend.h"

/*
 * For tests: how every operand, intermediate value and running sum is rounded.  The two F32 ways
 * show how far a correct F32 machine may be from the exact answer to the very same problem.
 */
enum eco_rounding {
    ECO_ROUND_NOT,     /* double throughout                                                    */
    ECO_ROUND_NEAREST, /* to F32                                                               */
    ECO_ROUND_CUT,     /* to F32; what is kept in a 16-bit type is cut off, as tensor cores do     *
                        * with the operands of a TF32 product                                  */
    ECO_ROUND_RANDOM   /* to one of the two F32 neighbours, the nearer one more often: random  *
                        * rounding of Monte Carlo arithmetic (Parker 1997); and exp, log, tanh *
                        * and sigmoid, which machines compute less well, are off by up to 1    *
                        * ulp before that                                                      */
};
/* Further runs on this reference device; seed: of the random rounding. */
/*
 * Also for tests: a run in F64 as a machine of a 16-bit type would do it.  What such a machine
 * keeps in the type is rounded to it: operands of products, states that products read, values saved
 * for backward (to the nearest; ECO_ROUND_RANDOM: to one of the two neighbours), where lean also
 * what backward reads of other states, which forward are not rounded; and matrices to weight_type,
 * always to the nearest.  Other types: nothing of that.
 */
struct eco_machine {
    ecornn_type type, weight_type;
    bool lean;
};
void eco_reference_rounding(struct ecornn_device *device, enum eco_rounding rounding,
                            struct eco_machine machine, uint64_t seed);

struct eco_arithmetic {
    enum eco_rounding rounding;
    ecornn_type type, weight_type;
    bool lean;
    uint64_t random;
};

/* xorshift64 (Marsaglia 2003). */
static inline uint64_t eco_arithmetic_random(struct eco_arithmetic *arithmetic)
{
    arithmetic->random ^= arithmetic->random << 13;
    arithmetic->random ^= arithmetic->random >> 7;
    arithmetic->random ^= arithmetic->random << 17;
    return arithmetic->random;
}

static inline double eco_round(struct eco_arithmetic *arithmetic, double value)
{
    if (arithmetic->rounding == ECO_ROUND_NOT)
        return value;
    if (arithmetic->rounding == ECO_ROUND_RANDOM && isfinite(value)) {
        /* a random number is added to the bits that F32 has not, which are then cut off */
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits = (bits + (eco_arithmetic_random(arithmetic) >> 35)) & ~(uint64_t)0x1FFFFFFF;
        memcpy(&value, &bits, sizeof value);
    }
    return (double)(float)value;
}

/* What is kept in the run's type. */
static inline double eco_round_kept(struct eco_arithmetic *arithmetic, double value)
{
    if (eco_type_bytes(arithmetic->type) > 2)
        return value;
    const bool random = arithmetic->rounding == ECO_ROUND_RANDOM;
    if ((random || arithmetic->rounding == ECO_ROUND_CUT) && isfinite(value)) {
        const int cut = arithmetic->type == ECORNN_BF16 ? 45 : 42; /* bits of a double's fraction */
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits += random ? eco_arithmetic_random(arithmetic) >> (64 - cut) : 0;
        bits &= ~(((uint64_t)1 << cut) - 1);
        memcpy(&value, &bits, sizeof value);
    }
    return eco_type_round(value, arithmetic->type);
}

/* As eco_round, of the value of a function that a machine approximates. */
static inline double eco_round_function(struct eco_arithmetic *arithmetic, double value)
{
    if (arithmetic->rounding == ECO_ROUND_RANDOM) {
        const int64_t random = (int64_t)eco_arithmetic_random(arithmetic);
        value += value * 0x1p-23 * ((double)random * 0x1p-63);
    }
    return eco_round(arithmetic, value);
}

/* One run.  Where arrays over steps have T+1 planes, plane 0 or T holds the initial state. */
struct eco_reference {
    const struct eco_problem *problem;
    const struct eco_args *args;
    struct eco_arithmetic arithmetic;
    bool draws; /* dropout and bernoulli() are drawn */
    int32_t T, N;
    double *weights, *dweights;    /* the parameter block                                         */
    double *inputs;                /* [T,N,width] of each layer, then the last layer's output     */
    double *states;                /* [T+1,N,width] of each state, direction, layer               */
    double *dinput, *doutput;      /* [T,N,width] of one layer                                    */
    double *carry[ECO_MAX_STATES]; /* [width]: gradient of a row's states between steps        */
    double *value, *dvalue;        /* [n_nodes,width]: of one row of one step                     */
    double *operand;               /* [width]: what a product reads, as it is kept                */
    int32_t width;                 /* of a node's row: the larger of H and P                      */
    bool live[ECO_MAX_NODES];      /* does a next state depend on the node?                       */
    bool kept[ECO_MAX_NODES];      /* is its value saved for backward?                            */
    bool narrow[ECO_MAX_STATES];   /* is the state kept in the run's type?                        */
    /* of the layer and direction at hand */
    int layer, d;
    int32_t input;                     /* width of its input                                   */
    size_t offset[ECO_MAX_PARAMS + 1]; /* of its parameters, the projection last               */
};

/* ref_run.c: all of it, forward or backward. */
ecornn_status eco_reference_run(const struct ecornn_plan *plan, const struct eco_args *args);

/* One row of one step. */
struct eco_reference_row {
    int32_t t, n;
    const double *x;                     /* [I of the layer]                                   */
    const double *state[ECO_MAX_STATES]; /* [width]                                            */
    double *next[ECO_MAX_STATES];        /* written forward                                    */
    double *dx;                          /* backward: added to                                 */
};

/* ref_op.c, of element-wise opcodes.  The value; does a machine approximate it? */
double eco_reference_value(uint8_t op, double a, double b, double c);
bool eco_reference_approximates(uint8_t op);
/* d f / d argument of one with a single argument, from the argument a and the value v. */
double eco_reference_slope(struct eco_arithmetic *arithmetic, uint8_t op, double a, double v);

/* ref_step.c: the next states of a row, the projection included. */
void eco_reference_forward(struct eco_reference *run, const struct eco_reference_row *row);
/* ... and back: carry from the gradient of the next states to that of the previous ones; adds to
 * dx and dweights. */
void eco_reference_backward(struct eco_reference *run, const struct eco_reference_row *row);

#endif /* ECO_REF_H */
