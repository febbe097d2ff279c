/*
 * Cells that are not built in: their printed text, compiled into the kernels that built-in cells
 * have.  The device keeps them until it is closed, for all plans of the same cell and type of rows:
 * a caller's graph may use a kernel for longer than any plan lives.
 */
#include "gpu/gpu.h"

#include <string.h>

#include "gpu/compile.h"

enum { STAGES = 2 * ECO_MAX_STAGES };

struct eco_own_cell {
    struct eco_own_cell *next;
    char *text; /* what was compiled: it tells cells and types apart */
    cudaLibrary_t library;
    int n_forward;
    const void *kernel[STAGES]; /* forward, then backward */
};

const void *eco_own_cell_kernel(const struct eco_own_cell *own, bool backward, int stage)
{
    return own->kernel[backward ? own->n_forward + stage : stage];
}

/* ---- compiling ------------------------------------------------------------------------------- */

static bool compile(const struct eco_gpu *gpu, const struct ecornn_cell *cell,
                    struct eco_own_cell *own, struct eco_text *why)
{
    const struct eco_lowered *lowered = &cell->lowered;
    char name[STAGES][ECO_KERNEL_NAME];
    const char *names[STAGES];
    struct eco_gpu_code code = {.text = own->text, .name = names, .kernel = own->kernel};
    for (int k = 0; k < lowered->n_forward; k++)
        eco_cell_kernel_name(cell, false, k, name[code.n++]);
    for (int k = 0; k < lowered->n_backward; k++)
        eco_cell_kernel_name(cell, true, k, name[code.n++]);
    for (int i = 0; i < code.n; i++)
        names[i] = name[i];
    own->n_forward = lowered->n_forward;
    if (!eco_gpu_load(gpu, &code, why))
        return false;
    own->library = code.library;
    return true;
}

/* ---- the device's list ----------------------------------------------------------------------- */

static void free_cell(struct eco_own_cell *own)
{
    if (own->library != NULL)
        eco_gpu_unload(&(struct eco_gpu_code){.library = own->library});
    eco_free(own->text);
    eco_free(own);
}

static struct eco_own_cell *make(const struct eco_gpu *gpu, const struct eco_problem *problem,
                                 char *text, struct eco_text *why)
{
    struct eco_own_cell *own = eco_alloc_zeroed(sizeof *own);
    if (own == NULL) {
        eco_free(text);
        eco_text_add(why, "no memory");
        return NULL;
    }
    own->text = text;
    if (compile(gpu, problem->cell, own, why))
        return own;
    free_cell(own);
    return NULL;
}

const struct eco_own_cell *eco_own_cell_get(struct eco_gpu *gpu, const struct eco_problem *problem,
                                            struct eco_text *why)
{
    if (!eco_nvrtc_open(why)) /* also where an earlier plan has the cell compiled */
        return NULL;
    char *text = eco_cell_text(problem->cell, problem->type);
    if (text == NULL) {
        eco_text_add(why, "no memory");
        return NULL;
    }
    pthread_mutex_lock(&gpu->own_cells_lock);
    struct eco_own_cell *own = gpu->own_cells;
    while (own != NULL && strcmp(own->text, text) != 0)
        own = own->next;
    if (own != NULL) {
        eco_free(text);
    } else {
        own = make(gpu, problem, text, why);
        if (own != NULL) {
            own->next = gpu->own_cells;
            gpu->own_cells = own;
        }
    }
    pthread_mutex_unlock(&gpu->own_cells_lock);
    return own;
}

void eco_own_cells_free(struct eco_gpu *gpu)
{
    while (gpu->own_cells != NULL) {
        struct eco_own_cell *own = gpu->own_cells;
        gpu->own_cells = own->next;
        free_cell(own);
    }
}
