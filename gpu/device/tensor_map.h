/*
 * Tensor maps of matrices of 16-bit numbers, with swizzled lines of 128 bytes (tensor_copy.cuh).
 */
#ifndef ECO_GPU_DEVICE_TENSOR_MAP_H
#define ECO_GPU_DEVICE_TENSOR_MAP_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/type.h"

typedef void (*eco_tensor_encoder)(void); /* the driver's function */

struct eco_matrix_box {
    ecornn_type type;
    const void *data;
    int64_t rows;
    int32_t columns;
    size_t row; /* elements from row to row */
    int32_t box_rows, box_columns;
};

/* NULL if the driver has none. */
eco_tensor_encoder eco_tensor_encoder_find(void);
/* False if there is no such map. Data and rows must be aligned to 16 bytes. */
bool eco_tensor_map(eco_tensor_encoder encoder, const struct eco_matrix_box *box, CUtensorMap *map);

#endif /* ECO_GPU_DEVICE_TENSOR_MAP_H */
