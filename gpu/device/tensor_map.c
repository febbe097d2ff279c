/*
 * Tensor maps, which describe a matrix to the hardware's copies. The driver's function that makes
 * them is looked up once, so that nothing links to the driver.
 */
#include "gpu/device/tensor_map.h"
#include "gpu/device/cuda_compat.h"

typedef CUresult (*encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                           const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                           const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

eco_tensor_encoder eco_tensor_encoder_find(void)
{
    union {
        void *symbol;
        eco_tensor_encoder encoder;
    } found = {NULL};
    if (eco_driver_symbol("cuTensorMapEncodeTiled", 12000, &found.symbol) != cudaSuccess)
        (void)cudaGetLastError();
    return found.encoder;
}

bool eco_tensor_map(eco_tensor_encoder encoder, const struct eco_matrix_box *box, CUtensorMap *map)
{
    union {
        eco_tensor_encoder given;
        encode encode;
    } function = {encoder};
    const size_t bytes = eco_type_bytes(box->type), row = box->row * bytes;
    const cuuint64_t size[2] = {(cuuint64_t)box->columns, (cuuint64_t)box->rows}, stride[1] = {row};
    const cuuint32_t part[2] = {(cuuint32_t)box->box_columns, (cuuint32_t)box->box_rows},
                     each[2] = {1, 1};
    if (encoder == NULL || ((uintptr_t)box->data | row) % 16 != 0)
        return false;
    return function.encode(map,
                           box->type == ECORNN_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                           2, (void *)(uintptr_t)box->data, size, stride, part, each,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
