/*
 * The operators ecornn_native::pack, forward and backward; run.c describes them.
 */
#ifndef ECO_TORCH_OPERATOR_H
#define ECO_TORCH_OPERATOR_H

#include "ecornn.h"
#include "python/native/torch_abi.h"

/* Bits of `given`, as in _native.py. */
enum {
    GIVEN_LENGTHS = 1 << 0,
    GIVEN_PACKED = 1 << 1,  /* packed weights */
    GIVEN_WEIGHTS = 1 << 7, /* the weights themselves */
    GIVEN_Y = 1 << 2,
    GIVEN_DY = 1 << 3,
    WANT_RESERVE = 1 << 4,
    WANT_DX = 1 << 5,
    WANT_DWEIGHTS = 1 << 6,
    GIVEN_STATE = 1 << 8,    /* this and the next bits: one for each state */
    GIVEN_DFINAL = 1 << 12,  /* one for each state */
    WANT_DSTATE = 1 << 16,   /* one for each state */
    WANT_TOGETHER = 1 << 20, /* on a CPU, gradients of weights may be parts of one block */
    GIVEN_ALL = (1 << 21) - 1
};

torch_kernel operator_pack, operator_forward, operator_backward;

#endif /* ECO_TORCH_OPERATOR_H */
