/*
 * Custom cells: their printed text is compiled into the same kernels as built-in cells. The device
 * keeps them until it is closed, for all plans with the same text, because a caller's graph may use
 * a kernel after its plan is freed.
 */

#include <assert.h>
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

static const struct eco_own_code *find(const struct eco_gpu *gpu, const char *text)
{
    const struct eco_own_code *own = gpu->own_codes;
    while (own != NULL && strcmp(own->text, text) != 0)
        own = own->next;
    return own;
}

/* Loads the code of a text and takes over the text. */
static const struct eco_own_code *add(struct eco_gpu *gpu, struct eco_own_text *wanted,
                                      const void *data, struct eco_text *why)
{
    struct eco_own_code *own = eco_alloc_zeroed(sizeof *own);
    if (own == NULL) {
        eco_text_add(why, "no memory");
        return NULL;
    }
    struct eco_gpu_code code = {.n = wanted->n, .name = wanted->name, .kernel = own->kernel};
    if (!eco_gpu_load(data, &code, why)) {
        eco_free(own);
        return NULL;
    }
    own->text = wanted->text;
    wanted->text = NULL;
    own->library = code.library;
    own->next = gpu->own_codes;
    gpu->own_codes = own;
    return own;
}

void eco_own_codes_get(struct eco_gpu *gpu, struct eco_own_text *wanted, int n)
{
    struct eco_compilation all[ECO_OWN_TEXTS];
    struct eco_own_text *missing[ECO_OWN_TEXTS];
    char architecture[ECO_GPU_ARCHITECTURE];
    int count = 0;
    assert(n <= ECO_OWN_TEXTS);
    eco_gpu_architecture(gpu, architecture);
    pthread_mutex_lock(&gpu->own_codes_lock);
    for (int i = 0; i < n; i++) {
        wanted[i].code = wanted[i].text != NULL ? find(gpu, wanted[i].text) : NULL;
        if (wanted[i].text == NULL)
            eco_text_add(wanted[i].why, "no memory");
        else if (wanted[i].code == NULL) {
            all[count] = (struct eco_compilation){.source = {wanted[i].text, architecture, NULL},
                                                  .why = wanted[i].why};
            missing[count++] = &wanted[i];
        }
    }
    eco_compile_all(all, count);
    for (int k = 0; k < count; k++) {
        if (all[k].code.data != NULL)
            missing[k]->code = add(gpu, missing[k], all[k].code.data, all[k].why);
        eco_free(all[k].code.data);
    }
    pthread_mutex_unlock(&gpu->own_codes_lock);
    for (int i = 0; i < n; i++)
        eco_free(wanted[i].text);
}

void eco_own_codes_free(struct eco_gpu *gpu)
{
    while (gpu->own_codes != NULL) {
        struct eco_own_code *own = gpu->own_codes;
        gpu->own_codes = own->next;
        eco_gpu_unload(own->library);
        eco_free(own->text);
        eco_free(own);
    }
}

/* ---- stages of a cell ------------------------------------------------------------------------ */

const struct eco_own_code *
eco_own_stages_get(struct eco_gpu *gpu, const struct eco_problem *problem, struct eco_text *why)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    if (!eco_nvrtc_open(why)) /* also if an earlier plan has compiled the cell */
        return NULL;
    struct eco_own_text wanted = {.text = eco_cell_text(problem), .why = why};
    for (int k = 0; k < lowered->n_forward; k++)
        eco_cell_kernel_name(problem->cell, false, k, wanted.name[wanted.n++]);
    for (int k = 0; k < lowered->n_backward; k++)
        eco_cell_kernel_name(problem->cell, true, k, wanted.name[wanted.n++]);
    eco_own_codes_get(gpu, &wanted, 1);
    return wanted.code;
}
