/*
 * Products of floats on the tensor cores with split operands: which products, and how.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_EMULATED_F32_H
#define ECO_GPU_GEMM_EMULATED_F32_EMULATED_F32_H

#include "gpu/gemm/gemm.h"
#include "gpu/gemm/emulated_f32/tiling.h"

/* At plan creation, choose.c: which products of runs are split. */
void eco_gpu_choose_splits(const struct ecornn_plan *plan, struct eco_gpu_plan *own);

/* A method (gemm.h): takes a product of full F32 if the device supports it and it is faster. */
bool eco_gpu_product_emulated(struct eco_gpu_run *run, const struct eco_product *product);

/* Two products with the same A and kind, ECO_TN; the second lacks the first `begin` of k, and
 * perhaps the last ones. False if not both are faster; then none is queued. */
bool eco_gpu_products_emulated(struct eco_gpu_run *run, const struct eco_product products[2],
                               int32_t begin);

/* A product of steps with an operand that was prepared earlier, whose rows are those of B for any
 * kind of product. */
struct eco_prepared_product {
    const struct eco_product *product;
    struct eco_emulated_operand prepared;
    void *room; /* the rows of A may be prepared there */
    const struct eco_emulated_cut *cut;
    bool from_end; /* adds terms in reverse */
};
void eco_gpu_product_prepared(struct eco_gpu_run *run, const struct eco_prepared_product *product);

#endif /* ECO_GPU_GEMM_EMULATED_F32_EMULATED_F32_H */
