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

/* Finds the code of some texts, or notes those that are missing. Returns the number of these. */
static int find_or_note(const struct eco_gpu *gpu, struct eco_own_text *wanted, int n,
                        struct eco_own_text *missing[])
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        wanted[i].code = wanted[i].text != NULL ? find(gpu, wanted[i].text) : NULL;
        if (wanted[i].text == NULL)
            eco_text_add(wanted[i].why, "no memory");
        else if (wanted[i].code == NULL)
            missing[count++] = &wanted[i];
    }
    return count;
}

static void compile(struct eco_gpu *gpu, struct eco_own_text *const missing[], int n)
{
    struct eco_compilation all[ECO_OWN_TEXTS];
    char architecture[ECO_GPU_ARCHITECTURE];
    eco_gpu_architecture(gpu, architecture);
    for (int i = 0; i < n; i++)
        all[i] = (struct eco_compilation){.source = {missing[i]->text, architecture, NULL},
                                          .why = missing[i]->why};
    eco_compile_all(all, n);
    for (int i = 0; i < n; i++) {
        if (all[i].code.data != NULL)
            missing[i]->code = add(gpu, missing[i], all[i].code.data, all[i].why);
        eco_free(all[i].code.data);
    }
}

/* The texts of the problem's stages; returns their number. */
static int print_stages(const struct eco_problem *problem, struct eco_own_text wanted[2],
                        struct eco_text *why)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    for (int way = 0; way <= (int)problem->training; way++) {
        const int stages = way ? lowered->n_backward : lowered->n_forward;
        wanted[way] = (struct eco_own_text){.text = eco_cell_text(problem, way), .why = why};
        while (wanted[way].n < stages) {
            eco_cell_kernel_name(problem->cell, way, wanted[way].n,
                                 wanted[way].name[wanted[way].n]);
            wanted[way].n++;
        }
    }
    return 1 + problem->training;
}

void eco_own_codes_get(struct eco_gpu *gpu, struct eco_own_text *wanted, int n,
                       const struct eco_problem *stages)
{
    struct eco_own_text more[2], *missing[ECO_OWN_TEXTS];
    char unused[1];
    struct eco_text why = {unused, sizeof unused, 0}; /* eco_own_stages_get() tries again */
    const int n_more =
        stages != NULL && stages->cell->builtin < 0 ? print_stages(stages, more, &why) : 0;
    assert(n + n_more <= ECO_OWN_TEXTS);
    pthread_mutex_lock(&gpu->own_codes_lock);
    int count = find_or_note(gpu, wanted, n, missing);
    count += find_or_note(gpu, more, n_more, missing + count);
    compile(gpu, missing, count);
    pthread_mutex_unlock(&gpu->own_codes_lock);
    for (int i = 0; i < n; i++)
        eco_free(wanted[i].text);
    for (int i = 0; i < n_more; i++)
        eco_free(more[i].text);
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

void eco_own_stages_get(struct eco_gpu *gpu, const struct eco_problem *problem,
                        const struct eco_own_code *code[2], struct eco_text *why)
{
    struct eco_own_text wanted[2];
    code[0] = code[1] = NULL;
    if (!eco_nvrtc_open(why)) /* also if an earlier plan has compiled the cell */
        return;
    const int n = print_stages(problem, wanted, why);
    eco_own_codes_get(gpu, wanted, n, NULL);
    for (int way = 0; way < n && wanted[0].code != NULL && wanted[n - 1].code != NULL; way++)
        code[way] = wanted[way].code;
}
