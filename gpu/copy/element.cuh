/*
 * One element of an array of any type.
 */
#ifndef ECO_GPU_COPY_ELEMENT_CUH
#define ECO_GPU_COPY_ELEMENT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/arch/device.cuh"
#include "gpu/kernels.h"

ECO_DEVICE double get(const struct eco_plane *plane, size_t i)
{
    switch (plane->type) {
    case ECORNN_F64:
        return ((const double *)plane->data)[i];
    case ECORNN_BF16:
        return (double)__bfloat162float(((const __nv_bfloat16 *)plane->data)[i]);
    case ECORNN_F16:
        return (double)__half2float(((const __half *)plane->data)[i]);
    default:
        return (double)((const float *)plane->data)[i];
    }
}

/* Rounds once. */
ECO_DEVICE void set(const struct eco_plane *plane, size_t i, double value)
{
    switch (plane->type) {
    case ECORNN_F64:
        ((double *)plane->data)[i] = value;
        break;
    case ECORNN_BF16:
        ((__nv_bfloat16 *)plane->data)[i] = __double2bfloat16(value);
        break;
    case ECORNN_F16:
        ((__half *)plane->data)[i] = __double2half(value);
        break;
    default:
        ((float *)plane->data)[i] = (float)value;
    }
}

#endif /* ECO_GPU_COPY_ELEMENT_CUH */
