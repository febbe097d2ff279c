/*
 * The vocabulary in double, one lane, with the C library's functions: for checking, not for speed.
 */
#ifndef ECO_VEC_F64_H
#define ECO_VEC_F64_H

#include <math.h>

enum { VEC_REGISTERS = 16 };
enum { VEC_LANES = 1 };
typedef double real;
typedef double vec;

#include "cpu/isa/vec_operators.h"

static inline vec v_const(double x)
{
    return x;
}

static inline vec v_load(const double *from)
{
    return *from;
}

static inline void v_store(double *to, vec v)
{
    *to = v;
}

/* Never called with one lane. */
static inline vec v_load_part(const double *from, int n)
{
    return n ? *from : 0;
}

static inline void v_store_part(double *to, vec v, int n)
{
    if (n)
        *to = v;
}

/* Rounds twice: the C library's fma is slow where the processor has none. */
static inline vec v_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

static inline vec v_min(vec a, vec b)
{
    return a < b ? a : b;
}

static inline vec v_max(vec a, vec b)
{
    return a > b ? a : b;
}

/* a > 0 ? b : c; a NaN takes c. */
static inline vec v_select(vec a, vec b, vec c)
{
    return a > 0 ? b : c;
}

static inline vec v_abs(vec a)
{
    return fabs(a);
}

/* max(a, 0), but a NaN stays. */
static inline vec v_relu(vec a)
{
    return v_max(0, a);
}

static inline vec v_sqrt(vec a)
{
    return sqrt(a);
}

static inline vec v_exp(vec a)
{
    return exp(a);
}

static inline vec v_log(vec a)
{
    return log(a);
}

static inline vec v_tanh(vec a)
{
    return tanh(a);
}

static inline vec v_sigmoid(vec a)
{
    const double e = exp(-fabs(a));
    return (a < 0 ? e : 1) / (1 + e);
}

/* vec_sums.h: never called with one lane. */
#define VEC_HAS_HALVES
static inline vec v_halves(vec a, vec b, int h)
{
    return h ? a + b : a;
}

#endif /* ECO_VEC_F64_H */
