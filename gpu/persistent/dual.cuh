/*
 * Dual numbers for the words of cells: a value and its derivative by one variable. `vec` is auto in
 * such a text. A value that does not depend on the variable stays a plain float, and so does one
 * that depends on it other than as a polynomial (common/cell/means.c), because its derivative is
 * not used.
 */
#ifndef ECO_GPU_PERSISTENT_DUAL_CUH
#define ECO_GPU_PERSISTENT_DUAL_CUH

#include "gpu/cell/math.cuh"

struct dual {
    float x, d;
};

ECO_DEVICE vec value_of(vec a)
{
    return a;
}
ECO_DEVICE vec value_of(dual a)
{
    return a.x;
}

ECO_DEVICE dual v_add(dual a, dual b)
{
    return {v_add(a.x, b.x), a.d + b.d};
}
ECO_DEVICE dual v_add(dual a, vec b)
{
    return {v_add(a.x, b), a.d};
}
ECO_DEVICE dual v_add(vec a, dual b)
{
    return {v_add(a, b.x), b.d};
}
ECO_DEVICE dual v_sub(dual a, dual b)
{
    return {v_sub(a.x, b.x), a.d - b.d};
}
ECO_DEVICE dual v_sub(dual a, vec b)
{
    return {v_sub(a.x, b), a.d};
}
ECO_DEVICE dual v_sub(vec a, dual b)
{
    return {v_sub(a, b.x), -b.d};
}
ECO_DEVICE dual v_mul(dual a, dual b)
{
    return {v_mul(a.x, b.x), a.d * b.x + a.x * b.d};
}
ECO_DEVICE dual v_mul(dual a, vec b)
{
    return {v_mul(a.x, b), a.d * b};
}
ECO_DEVICE dual v_mul(vec a, dual b)
{
    return {v_mul(a, b.x), a * b.d};
}
ECO_DEVICE dual v_div(dual a, vec b)
{
    return {v_div(a.x, b), v_div(a.d, b)};
}
template <class VALUE> ECO_DEVICE vec v_div(VALUE a, dual b)
{
    return v_div(value_of(a), b.x);
}
ECO_DEVICE dual v_neg(dual a)
{
    return {-a.x, -a.d};
}
template <class A, class B> ECO_DEVICE vec v_min(A a, B b)
{
    return v_min(value_of(a), value_of(b));
}
template <class A, class B> ECO_DEVICE vec v_max(A a, B b)
{
    return v_max(value_of(a), value_of(b));
}
template <class A, class B, class C> ECO_DEVICE vec v_select(A a, B b, C c)
{
    return v_select(value_of(a), value_of(b), value_of(c));
}
ECO_DEVICE vec v_abs(dual a)
{
    return v_abs(a.x);
}
ECO_DEVICE vec v_relu(dual a)
{
    return v_relu(a.x);
}
ECO_DEVICE vec v_sqrt(dual a)
{
    return v_sqrt(a.x);
}
ECO_DEVICE vec v_exp(dual a)
{
    return v_exp(a.x);
}
ECO_DEVICE vec v_log(dual a)
{
    return v_log(a.x);
}
ECO_DEVICE vec v_tanh(dual a)
{
    return v_tanh(a.x);
}
ECO_DEVICE vec v_sigmoid(dual a)
{
    return v_sigmoid(a.x);
}

#endif /* ECO_GPU_PERSISTENT_DUAL_CUH */
