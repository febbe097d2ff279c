/*
 * Products of floats on the tensor cores, of split operands: which, and how.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_EMULATED_F32_H
#define ECO_GPU_GEMM_EMULATED_F32_EMULATED_F32_H

#include "gpu/gemm/gemm.h"
#include "gpu/gemm/emulated_f32/tiling.h"

/* A way (gemm.h): takes a product of floats in full, where the device can and it is faster so. */
bool eco_gpu_product_emulated(struct eco_gpu_run *run, const struct eco_product *product);

/* Two products of the same A and kind, ECO_TN; the second has not the first `begin` of k, perhaps
 * nor the last.  False: not both are faster so, and none is queued. */
bool eco_gpu_products_emulated(struct eco_gpu_run *run, const struct eco_product products[2],
                               int32_t begin);

/* How a step's product may be cut. */
struct eco_emulated_choices eco_gpu_step_choices(enum eco_emulated_form form,
                                                 const struct eco_gpu_force *force);

/* A product of steps, with such an operand prepared before: its rows as those of B, whatever the
 * product's kind; its sums' terms the other way round, if asked.  The rows of A may be prepared in
 * `room`. */
void eco_gpu_product_prepared(struct eco_gpu_run *run, const struct eco_product *product,
                              const struct eco_emulated_operand *prepared, void *room,
                              bool from_end);

#endif /* ECO_GPU_GEMM_EMULATED_F32_EMULATED_F32_H */
