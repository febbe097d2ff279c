/*
 * The second argument of a step back for many rows: how the gradient of state 0 is stored between
 * steps, and whether rows of dacc are F16.
 */
#ifndef ECO_GPU_VIEW_BACK_H
#define ECO_GPU_VIEW_BACK_H

#include <stddef.h>
#include <stdint.h>

enum { ECO_WIDE_PLANES = 5 /* at most */ };
struct eco_wide_back {
    int32_t planes; /* the gradient is the sum of these, */
    size_t plane;   /* this many elements apart */
    /* Floats only. A row of dacc is stored as F16 numbers times a power of two, in the row's first
     * half; products with it, and so the gradient of state 0, have this factor, too. */
    float *scales;       /* [rows], of this step; NULL: dacc is stored as floats */
    const float *before; /* [rows], of the step that ran before; NULL: ones */
    float *after;        /* [rows], a copy of scales for the next step */
};

#endif /* ECO_GPU_VIEW_BACK_H */
