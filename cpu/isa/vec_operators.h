/*
 * The words of the vocabulary that are C operators for every vec.
 */
#ifndef ECO_VEC_OPERATORS_H
#define ECO_VEC_OPERATORS_H

static inline vec v_add(vec a, vec b)
{
    return a + b;
}

static inline vec v_sub(vec a, vec b)
{
    return a - b;
}

static inline vec v_mul(vec a, vec b)
{
    return a * b;
}

static inline vec v_div(vec a, vec b)
{
    return a / b;
}

static inline vec v_neg(vec a)
{
    return -a;
}

#endif /* ECO_VEC_OPERATORS_H */
