/*
 * Prepared operands: tiles of rows and k tiles (args.h).
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_OPERAND_CUH
#define ECO_GPU_GEMM_EMULATED_F32_OPERAND_CUH

#include "gpu/arch/device.cuh"
#include "gpu/gemm/emulated_f32/args.h"

enum {
    TILE = ECO_EMULATED_TILE,
    DEPTH = ECO_EMULATED_DEPTH /* k of a k tile */
};

/* Are groups of eight numbers of a row aligned to 16 bytes? */
ECO_DEVICE bool is_aligned(const eco_emulated_operand &o)
{
    return ((uintptr_t)o.data | o.row * sizeof(float)) % 16 == 0;
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_OPERAND_CUH */
