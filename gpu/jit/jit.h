/*
 * Code that is compiled at run time, on a device: of cells from text, and of any text.
 */
#ifndef ECO_GPU_JIT_JIT_H
#define ECO_GPU_JIT_JIT_H

#include "common/backend.h"
#include "gpu/device/device.h"
#include "gpu/jit/compile.h"

/* jit/user_cells.c: code of cells from text, the device's until it is closed; NULL: why not. */
enum { ECO_OWN_KERNELS = 2 * ECO_MAX_STAGES };
/* What is wanted: a text with so many kernels. */
struct eco_own_text {
    char *text; /* taken; NULL: no memory */
    int n;
    char name[ECO_OWN_KERNELS][ECO_KERNEL_NAME];
};
const struct eco_own_code *eco_own_code_get(struct eco_gpu *gpu, const struct eco_own_text *wanted,
                                            struct eco_text *why);
/* The stages of the problem's cell for its type of rows: kernels of forward, then of backward. */
const struct eco_own_code *
eco_own_stages_get(struct eco_gpu *gpu, const struct eco_problem *problem, struct eco_text *why);
const void *eco_own_kernel(const struct eco_own_code *own, int k);
void eco_own_codes_free(struct eco_gpu *gpu);

/* ---- code compiled at run time, jit/load.c --------------------------------------------------- */

struct eco_gpu_code {
    const char *text;           /* CUDA C++; may include the headers listed in gpu.am */
    const char *const *options; /* of the compiler, ends with NULL; NULL: none */
    int n;
    const char *const *name; /* [n]: extern "C" kernels of the text */
    const void **kernel;     /* [n], filled in: for cudaLaunchKernelExC and the like */
    cudaLibrary_t library;   /* filled in */
};

/* Compiles the text for the device, which is current (from the disk where it was compiled before),
 * and loads it.  At plan creation only.  False: why not. */
bool eco_gpu_load(const struct eco_gpu *gpu, struct eco_gpu_code *code, struct eco_text *why);
/* No kernel of it may be queued or be part of a graph. */
void eco_gpu_unload(struct eco_gpu_code *code);

#endif /* ECO_GPU_JIT_JIT_H */
