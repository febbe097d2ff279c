/*
 * The operator ecornn::layer for programs without Python: packages of AOTInductor in C++.
 */
#ifndef ECO_TORCH_LAYER_H
#define ECO_TORCH_LAYER_H

#include "python/native/torch_abi.h"

#define LAYER_SCHEMA                                                                               \
    "layer(Tensor x, Tensor? lengths, Tensor[]? states, Tensor[] weights, Tensor? resets, "        \
    "Tensor[]? starts, Tensor? mask, str cell, str problem, str training, float dropout, "         \
    "bool drop, Tensor? seed, bool keep) -> Tensor[]"

torch_kernel operator_layer;

#endif /* ECO_TORCH_LAYER_H */
