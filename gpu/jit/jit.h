/*
 * Code compiled at run time and loaded on a device, for custom cells.
 */
#ifndef ECO_GPU_JIT_JIT_H
#define ECO_GPU_JIT_JIT_H

#include "common/backend.h"
#include "gpu/device/device.h"
#include "gpu/jit/compile.h"

/* ---- code that a device keeps, jit/user_cells.c ---------------------------------------------- */

enum {
    ECO_OWN_KERNELS = ECO_MAX_STAGES, /* most kernels of a text */
    ECO_OWN_TEXTS = 18                /* most texts at once */
};
/* A text with n kernels, and their code on the device. */
struct eco_own_text {
    char *text; /* ownership is taken; NULL: no memory */
    int n;
    char name[ECO_OWN_KERNELS][ECO_KERNEL_NAME];
    struct eco_text *why;            /* gets the first reason why there is no code */
    const struct eco_own_code *code; /* set; NULL on failure */
};
/* Finds the code of n texts; what the device does not have yet is compiled side by side. The device
 * keeps it until it is closed. stages: their problem, if eco_own_stages_get() will follow, so that
 * they are compiled meanwhile; or NULL. */
void eco_own_codes_get(struct eco_gpu *gpu, struct eco_own_text *wanted, int n,
                       const struct eco_problem *stages);
/* The stages of the problem's cell for its rows, unless it is built in: forward and, in training,
 * backward. On failure both are NULL. */
void eco_own_stages_get(struct eco_gpu *gpu, const struct eco_problem *problem,
                        const struct eco_own_code *code[2], struct eco_text *why);
/* Kernel k of the text, for cudaLaunchKernelExC and the like. */
const void *eco_own_kernel(const struct eco_own_code *own, int k);
void eco_own_codes_free(struct eco_gpu *gpu);

/* ---- machine code on a device, jit/load.c ---------------------------------------------------- */

struct eco_gpu_code {
    int n;
    const char (*name)[ECO_KERNEL_NAME]; /* [n]: extern "C" kernels */
    const void **kernel;                 /* [n], set by eco_gpu_load */
    cudaLibrary_t library;               /* set by eco_gpu_load */
};

enum { ECO_GPU_ARCHITECTURE = 16 };
/* For which architecture a device's code is compiled. */
void eco_gpu_architecture(const struct eco_gpu *gpu, char name[ECO_GPU_ARCHITECTURE]);
/* Loads machine code on the device, which must be current. At plan creation only. On failure
 * returns false and appends the reason to `why`. */
bool eco_gpu_load(const void *data, struct eco_gpu_code *code, struct eco_text *why);
/* Its kernels must not be queued or part of a graph. */
void eco_gpu_unload(cudaLibrary_t library);

#endif /* ECO_GPU_JIT_JIT_H */
