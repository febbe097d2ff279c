/*
 * Attention of the CUDA backend, host side.
 */
#ifndef ECO_GPU_ATTENTION_ATTENTION_H
#define ECO_GPU_ATTENTION_ATTENTION_H

#include "common/backend.h"

/* run.c */
extern const struct eco_attention_backend eco_gpu_attention;

#endif /* ECO_GPU_ATTENTION_ATTENTION_H */
