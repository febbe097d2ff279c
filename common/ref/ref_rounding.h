/*
 * Arithmetic of the reference: double, or, for tests, rounded as a machine with a smaller type
 * rounds.  Knows no run.
 */
#ifndef ECO_REF_ROUNDING_H
#define ECO_REF_ROUNDING_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/type.h"

/*
 * For tests: rounding of every operand, intermediate value and running sum.  The two F32 modes show
 * how far a correct F32 machine may be from the exact answer to the same problem.
 */
enum eco_rounding {
    ECO_ROUND_NOT,     /* double throughout                                                    */
    ECO_ROUND_NEAREST, /* to F32                                                               */
    ECO_ROUND_CUT, /* to F32; values stored in a 16-bit type are truncated, as tensor cores do with
                      the operands of a TF32 product */
    ECO_ROUND_RANDOM /* to one of the two F32 neighbours, more often the nearer one: random rounding
                        of Monte Carlo arithmetic (Parker 1997).  exp, log, tanh and sigmoid, which
                        machines compute less accurately, are first off by up to 1 ulp */
};

/*
 * For tests too: an F64 run with the roundings of a machine that uses a 16-bit type.  Rounded are
 * the values that such a machine stores in the type: operands of products, states that products
 * read, and values saved for backward (to the nearest; with ECO_ROUND_RANDOM to one of the two
 * neighbours); what backward reads of the output state and, if lean, of other states, which forward
 * does not round; and matrices to weight_type, always to the nearest.  Other types round nothing.
 * chained: an accumulator is one chain of additions, from its bias through W x and R h; otherwise
 * each product is summed by itself first.  saved: type of the states other than the output state
 * from which backward repeats forward; narrows: also of saved values, and then backward
 * repeats nothing.  weight_type S8, int8: matrices, and operands of products,
 * are integers of common/quantise.h; random rounding then also turns one operand in 256 into a
 * neighbour, as a machine does whose state is near the middle between two integers.  Types that are
 * 0 count as F32.
 */
struct eco_machine {
    ecornn_type type, weight_type, saved;
    bool lean, chained, int8, narrows;
};

struct eco_arithmetic {
    enum eco_rounding rounding;
    ecornn_type type, weight_type, saved;
    bool lean, chained, int8, narrows;
    uint64_t random;
    /* For tests: where a run writes the values of every stop() one after the other, or, if it
     * holds them, takes them from; NULL: neither. */
    double *stopped;
    bool holds;
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
        /* a random number is added to the bits beyond F32, which are then cut off */
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits = (bits + (eco_arithmetic_random(arithmetic) >> 35)) & ~(uint64_t)0x1FFFFFFF;
        memcpy(&value, &bits, sizeof value);
    }
    return (double)(float)value;
}

/* Adds a term to a running sum. */
static inline void eco_round_add(struct eco_arithmetic *arithmetic, double *sum, double term)
{
    *sum = eco_round(arithmetic, *sum + eco_round(arithmetic, term));
}

/* Rounds to a 16-bit type; other types: unchanged. */
static inline double eco_round_to(struct eco_arithmetic *arithmetic, double value, ecornn_type type)
{
    if (!eco_type_narrow(type))
        return value;
    const bool random = arithmetic->rounding == ECO_ROUND_RANDOM;
    if ((random || arithmetic->rounding == ECO_ROUND_CUT) && isfinite(value)) {
        const int cut = /* bits of a double's fraction */
            eco_type_form[ECORNN_F64].bits - eco_type_form[type].bits;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits += random ? eco_arithmetic_random(arithmetic) >> (64 - cut) : 0;
        bits &= ~(((uint64_t)1 << cut) - 1);
        memcpy(&value, &bits, sizeof value);
    }
    return eco_type_round(value, type);
}

/* A value stored in the run's type. */
static inline double eco_round_stored(struct eco_arithmetic *arithmetic, double value)
{
    return eco_round_to(arithmetic, value, arithmetic->type);
}

/* A state saved for a replay. */
static inline double eco_round_saved(struct eco_arithmetic *arithmetic, double value)
{
    return arithmetic->rounding == ECO_ROUND_NOT
               ? value
               : eco_round_to(arithmetic, value, arithmetic->saved);
}

/* eco_round for the value of a function that a machine approximates. */
static inline double eco_round_function(struct eco_arithmetic *arithmetic, double value)
{
    if (arithmetic->rounding == ECO_ROUND_RANDOM) {
        const int64_t random = (int64_t)eco_arithmetic_random(arithmetic);
        value += value * 0x1p-23 * ((double)random * 0x1p-63);
    }
    return eco_round(arithmetic, value);
}

#endif /* ECO_REF_ROUNDING_H */
