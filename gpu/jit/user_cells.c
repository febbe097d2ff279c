/*
 * Custom cells: their printed text is compiled into the same kernels as built-in cells. The device
 * keeps them until it is closed, for all plans with the same text, because a caller's graph may use
 * a kernel after its plan is freed.
 */

#include <string.h>

#include "gpu/jit/compile.h"
#include "gpu/jit/jit.h"

struct eco_own_code {
    struct eco_own_code *next;
    char *text; /* the compiled text, which identifies the code */
    cudaLibrary_t library;
    const void *kernel[ECO_OWN_KERNELS];
};

const void *eco_own_kernel(const struct eco_own_code *own, int k)
{
    return own->kernel[k];
}

/* ---- the device's list ----------------------------------------------------------------------- */

static bool compile(const struct eco_gpu *gpu, const struct eco_own_text *wanted,
                    struct eco_own_code *own, struct eco_text *why)
{
    const char *names[ECO_OWN_KERNELS];
    struct eco_gpu_code code = {
        .text = own->text, .n = wanted->n, .name = names, .kernel = own->kernel};
    for (int i = 0; i < wanted->n; i++)
        names[i] = wanted->name[i];
    if (!eco_gpu_load(gpu, &code, why))
        return false;
    own->library = code.library;
    return true;
}

static void free_code(struct eco_own_code *own)
{
    if (own->library != NULL)
        eco_gpu_unload(&(struct eco_gpu_code){.library = own->library});
    eco_free(own->text);
    eco_free(own);
}

static struct eco_own_code *make(const struct eco_gpu *gpu, const struct eco_own_text *wanted,
                                 struct eco_text *why)
{
    struct eco_own_code *own = eco_alloc_zeroed(sizeof *own);
    if (own == NULL) {
        eco_free(wanted->text);
        eco_text_add(why, "no memory");
        return NULL;
    }
    own->text = wanted->text;
    if (compile(gpu, wanted, own, why))
        return own;
    free_code(own);
    return NULL;
}

const struct eco_own_code *eco_own_code_get(struct eco_gpu *gpu, const struct eco_own_text *wanted,
                                            struct eco_text *why)
{
    if (wanted->text == NULL) {
        eco_text_add(why, "no memory");
        return NULL;
    }
    pthread_mutex_lock(&gpu->own_codes_lock);
    struct eco_own_code *own = gpu->own_codes;
    while (own != NULL && strcmp(own->text, wanted->text) != 0)
        own = own->next;
    if (own != NULL) {
        eco_free(wanted->text);
    } else {
        own = make(gpu, wanted, why);
        if (own != NULL) {
            own->next = gpu->own_codes;
            gpu->own_codes = own;
        }
    }
    pthread_mutex_unlock(&gpu->own_codes_lock);
    return own;
}

void eco_own_codes_free(struct eco_gpu *gpu)
{
    while (gpu->own_codes != NULL) {
        struct eco_own_code *own = gpu->own_codes;
        gpu->own_codes = own->next;
        free_code(own);
    }
}

/* ---- stages of a cell ------------------------------------------------------------------------ */

const struct eco_own_code *
eco_own_stages_get(struct eco_gpu *gpu, const struct eco_problem *problem, struct eco_text *why)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    if (!eco_nvrtc_open(why)) /* also if an earlier plan has compiled the cell */
        return NULL;
    struct eco_own_text wanted = {.text =
                                      eco_cell_text(problem->cell, problem->type, problem->resets)};
    for (int k = 0; k < lowered->n_forward; k++)
        eco_cell_kernel_name(problem->cell, false, k, wanted.name[wanted.n++]);
    for (int k = 0; k < lowered->n_backward; k++)
        eco_cell_kernel_name(problem->cell, true, k, wanted.name[wanted.n++]);
    return eco_own_code_get(gpu, &wanted, why);
}
