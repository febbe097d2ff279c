/*
 * Code compiled at run time and loaded on a device: for custom cells, and for any text.
 */
#ifndef ECO_GPU_JIT_JIT_H
#define ECO_GPU_JIT_JIT_H

#include "common/backend.h"
#include "gpu/device/device.h"
#include "gpu/jit/compile.h"

/* jit/user_cells.c: code of custom cells, which the device keeps until it is closed. NULL on
 * failure, with the reason in `why`. */
enum { ECO_OWN_KERNELS = 2 * ECO_MAX_STAGES };
/* A text with n kernels. */
struct eco_own_text {
    char *text; /* ownership is taken; NULL: no memory */
    int n;
    char name[ECO_OWN_KERNELS][ECO_KERNEL_NAME];
};
const struct eco_own_code *eco_own_code_get(struct eco_gpu *gpu, const struct eco_own_text *wanted,
                                            struct eco_text *why);
/* The stages of the problem's cell for its rows: kernels of forward, then of backward. */
const struct eco_own_code *
eco_own_stages_get(struct eco_gpu *gpu, const struct eco_problem *problem, struct eco_text *why);
const void *eco_own_kernel(const struct eco_own_code *own, int k);
void eco_own_codes_free(struct eco_gpu *gpu);

/* ---- code compiled at run time, jit/load.c --------------------------------------------------- */

struct eco_gpu_code {
    const char *text;           /* CUDA C++; may include the headers listed in gpu.am */
    const char *const *options; /* compiler options, ends with NULL; may be NULL */
    int n;
    const char *const *name; /* [n]: extern "C" kernels of the text */
    const void **kernel;     /* [n], set by eco_gpu_load: for cudaLaunchKernelExC and the like */
    cudaLibrary_t library;   /* set by eco_gpu_load */
};

/* Compiles the text (or reads it from disk) and loads it on the device, which must be current. At
 * plan creation only. On failure returns false and appends the reason to `why`. */
bool eco_gpu_load(const struct eco_gpu *gpu, struct eco_gpu_code *code, struct eco_text *why);
/* Its kernels must not be queued or part of a graph. */
void eco_gpu_unload(struct eco_gpu_code *code);

#endif /* ECO_GPU_JIT_JIT_H */
