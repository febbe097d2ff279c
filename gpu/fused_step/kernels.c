/*
 * The kernels of algorithm fused: of the module, or compiled when a plan is created.
 */
#include "gpu/fused_step/fused_step.h"
#include "gpu/wide_step/wide_step.h"

#include <string.h>

/* [type, fast] */
static const struct eco_fused_kernel *const *const lists[ECO_TYPES][2] = {
    [ECORNN_F32] = {&eco_fused_f32, &eco_fused_f32_fast},
    [ECORNN_BF16] = {&eco_fused_bf16, &eco_fused_bf16},
    [ECORNN_F16] = {&eco_fused_f16, &eco_fused_f16}};

static const struct eco_fused_kernel *kernels_of(const struct eco_problem *problem, int cell)
{
    const struct eco_fused_kernel *kernel = *lists[problem->type][problem->fast];
    while (kernel->cell != cell)
        kernel++;
    return kernel;
}

static cudaError_t give_shared_memory(const void *kernel, int accs, int shape)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                ECO_FUSED_SHARED(accs, shape));
}

ecornn_status eco_fused_load(bool *usable)
{
    int version;
    ecornn_status status = ECO_CUDA(eco_kernel_version(eco_fused_bf16->by_shape[0], &version));
    /* code for older devices only has no such kernels */
    *usable = status == ECORNN_OK && version >= ECO_FUSED_VERSION;
    for (int i = 0; i < 2 * ECO_TYPES && *usable; i++)
        for (const struct eco_fused_kernel *kernel = lists[i / 2][i % 2] ? *lists[i / 2][i % 2]
                                                                         : NULL;
             kernel != NULL && kernel->cell != ECO_FUSED_END && status == ECORNN_OK; kernel++)
            for (int n = 0; n < ECO_FUSED_SHAPES && status == ECORNN_OK; n++)
                if (kernel->by_shape[n] != NULL)
                    status = ECO_CUDA(give_shared_memory(kernel->by_shape[n], kernel->accs, n));
    return status;
}

/* Compiles the kernels of a cell that is not in the module; false: see fused->why. */
static bool compile(const struct ecornn_plan *plan, struct eco_fused_kernels *fused)
{
    const int accs = plan->problem.cell->lowered.n_accs;
    struct eco_text why = {fused->why, sizeof fused->why, 0};
    struct eco_own_text wanted[ECO_FUSED_SHAPES];
    int n = 0;
    for (int shape = 0; shape < ECO_FUSED_SHAPES; shape++)
        if (ECO_FUSED_MADE(accs, shape)) {
            wanted[n] = (struct eco_own_text){
                .text = eco_fused_text(&plan->problem, shape), .n = 1, .why = &why};
            eco_fused_kernel_name(shape, wanted[n++].name[0]);
        }
    eco_own_codes_get(plan->device->context, wanted, n,
                      plan->problem.training ? &plan->problem : NULL);
    n = 0;
    for (int shape = 0; shape < ECO_FUSED_SHAPES; shape++)
        if (ECO_FUSED_MADE(accs, shape)) {
            const struct eco_own_code *code = wanted[n++].code;
            fused->by_shape[shape] = code != NULL ? eco_own_kernel(code, 0) : NULL;
            if (code == NULL ||
                eco_cuda_status(give_shared_memory(fused->by_shape[shape], accs, shape),
                                "setting shared memory") != ECORNN_OK)
                return false;
        }
    return true;
}

void eco_fused_prepare(const struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    const int cell = problem->cell->builtin;
    struct eco_fused_kernels *fused = &((struct eco_gpu_plan *)plan->context)->fused;
    eco_fused_choose_all(plan, fused);
    memcpy(fused->projection, kernels_of(problem, ECO_FUSED_PROJECTION)->by_shape,
           sizeof fused->projection);
    if (!eco_is_compiled(problem)) {
        memcpy(fused->by_shape, kernels_of(problem, cell)->by_shape, sizeof fused->by_shape);
        fused->used = true;
        return;
    }
    fused->used = compile(plan, fused);
}

static void describe(const struct eco_fused_size *size, const struct eco_caps *caps,
                     const char *what, struct eco_text *text)
{
    const struct eco_fused_choice choice = eco_fused_choose(size, caps);
    eco_text_add(text, "%s: one launch, blocks of %d units and %d rows, predicted %.2f us\n", what,
                 ECO_FUSED_UNITS(size->accs), ECO_FUSED_COLUMNS(choice.shape), 1e6 * choice.time);
}

void eco_fused_describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_gpu_plan *own = plan->context;
    const struct eco_fused_kernels *fused = &own->fused;
    const struct eco_step_choice choice =
        eco_step_choose(problem, &plan->device->caps, 0, problem->N);
    const struct eco_fused_size projection = eco_fused_projection(problem, problem->N);
    if (!fused->used) {
        eco_text_add(text, "steps as in algorithm step (%s)\n", fused->why);
        return;
    }
    if (choice.wide >= 0)
        eco_text_add(text, "step: one launch, blocks of %d units and %d rows, predicted %.2f us\n",
                     eco_wide_units(choice.wide, problem->cell->lowered.n_accs),
                     eco_wide_rows(choice.wide), 1e6 * choice.time);
    else
        describe(&choice.size, &plan->device->caps, "step", text);
    if (problem->projected)
        describe(&projection, &plan->device->caps, "projection", text);
}

void eco_fused_write_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
    if (!((const struct eco_gpu_plan *)plan->context)->fused.used)
        return;
    const struct eco_fused_size projection = eco_fused_projection(problem, problem->N);
    struct eco_step_choice choice = eco_step_choose(problem, &plan->device->caps, 0, problem->N);
    for (int32_t layer = 1; layer < problem->L && choice.wide < 0; layer++)
        choice = eco_step_choose(problem, &plan->device->caps, layer, problem->N);
    eco_choice_write(ECO_FORCE_FUSED,
                     choice.wide >= 0 ? ECO_FUSED_SHAPES + choice.wide
                                      : eco_fused_choose(&choice.size, &plan->device->caps).shape,
                     text);
    if (problem->projected)
        eco_choice_write(ECO_FORCE_PROJECTION,
                         eco_fused_choose(&projection, &plan->device->caps).shape, text);
}
