/*
 * The words of cells for a value and its derivative by one number, of a text whose values have no
 * type of their own (`vec` is auto there).  Derivatives are right where what follows of them is a
 * polynomial in that number (common/cell/means.c); others are 0, of values that nobody uses, or
 * that do not depend on it.
 */
#ifndef ECO_GPU_PERSISTENT_JETS_CUH
#define ECO_GPU_PERSISTENT_JETS_CUH

#include "gpu/cell/math.cuh"

struct jet {
    float x, d;
    __device__ __forceinline__ jet(float value, float derivative = 0) : x(value), d(derivative)
    {
    }
};

ECO_DEVICE jet v_add(jet a, jet b)
{
    return jet(v_add(a.x, b.x), a.d + b.d);
}
ECO_DEVICE jet v_sub(jet a, jet b)
{
    return jet(v_sub(a.x, b.x), a.d - b.d);
}
ECO_DEVICE jet v_mul(jet a, jet b)
{
    return jet(v_mul(a.x, b.x), a.d * b.x + a.x * b.d);
}
ECO_DEVICE jet v_div(jet a, jet b)
{
    return jet(v_div(a.x, b.x), v_div(a.d, b.x));
}
ECO_DEVICE jet v_neg(jet a)
{
    return jet(-a.x, -a.d);
}
ECO_DEVICE jet v_min(jet a, jet b)
{
    return v_min(a.x, b.x);
}
ECO_DEVICE jet v_max(jet a, jet b)
{
    return v_max(a.x, b.x);
}
ECO_DEVICE jet v_select(jet a, jet b, jet c)
{
    return v_select(a.x, b.x, c.x);
}
ECO_DEVICE jet v_abs(jet a)
{
    return v_abs(a.x);
}
ECO_DEVICE jet v_relu(jet a)
{
    return v_relu(a.x);
}
ECO_DEVICE jet v_sqrt(jet a)
{
    return v_sqrt(a.x);
}
ECO_DEVICE jet v_exp(jet a)
{
    return v_exp(a.x);
}
ECO_DEVICE jet v_log(jet a)
{
    return v_log(a.x);
}
ECO_DEVICE jet v_tanh(jet a)
{
    return v_tanh(a.x);
}
ECO_DEVICE jet v_sigmoid(jet a)
{
    return v_sigmoid(a.x);
}

#endif /* ECO_GPU_PERSISTENT_JETS_CUH */
