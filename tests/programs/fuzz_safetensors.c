/*
 * libFuzzer target: the safetensors reader of examples/charlm on any bytes, and every tensor of
 * what it accepts copied out.
 */
#include <stdlib.h>

#include "examples/charlm/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct safetensors file;
    struct complaint why;
    if (!safetensors_parse(&file, bytes, size, &why))
        return 0;
    for (size_t k = 0; k < file.tensor_count; k++) {
        const struct tensor *tensor = &file.tensors[k];
        float *copy = malloc((size_t)(tensor->end - tensor->begin) + 1);
        if (copy)
            safetensors_copy(&file, tensor, copy);
        free(copy);
    }
    safetensors_free(&file);
    return 0;
}
