/*
 * Recurrent products of steps with R prepared once in a run: which, and how.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_PRESPLIT_H
#define ECO_GPU_GEMM_EMULATED_F32_PRESPLIT_H

#include "gpu/gemm/packed_weights.h"
#include "gpu/gemm/emulated_f32/emulated_f32.h"

/* Bytes of R of all operands, prepared for forward or backward steps; 0: that is not faster. */
size_t eco_gpu_prepared_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              bool backward);
/* Seconds of an F32 step's products and launches. prepares: R may be prepared, which takes *prepare
 * seconds once for each layer. */
double eco_gpu_step_product_time(const struct eco_problem *problem, const struct eco_caps *caps,
                                 bool backward, bool prepares, double *prepare);
/* At plan creation: how these products are divided. */
void eco_gpu_choose_prepared(const struct ecornn_plan *plan, struct eco_gpu_plan *own);
/* Does the run prepare R? Short runs of a plan do not. */
bool eco_gpu_prepares(const struct eco_gpu_run *run);
/* Prepares R of an operand, once in a run. */
void eco_gpu_prepare_matrix(struct eco_gpu_run *run, const struct eco_op *op, int part);
/* Queues a product with a prepared part; false if it is not prepared. */
bool eco_gpu_multiply_prepared(struct eco_gpu_run *run, const struct eco_matmul *matmul,
                               const struct eco_acc_range *span, const struct eco_product *product);

#endif /* ECO_GPU_GEMM_EMULATED_F32_PRESPLIT_H */
