/*
 * A run of a plan on the GPU, for every algorithm: checks its pointers and queues its operations.
 */
#include "gpu/ops/ops.h"
#include "gpu/run/run.h"

#include <string.h>

ecornn_status eco_gpu_check_waits(const struct eco_gpu *gpu)
{
    if (*(volatile uint32_t *)gpu->failed == 0)
        return ECORNN_OK;
    return eco_gpu_services->fail(
        ECORNN_FAILED,
        "blocks of a persistent kernel waited too long for each other in an earlier run; "
        "open the device again");
}

/* ---- parts of x that are arrays of their own ------------------------------------------------- */

/* [of inputs, of dinputs] the lists of a run, with NULLs to their ends. They are the run's own,
 * because a graph's words are changed there. */
struct parts {
    const void *at[2][ECO_MAX_PARTS];
    size_t rows[2][ECO_MAX_PARTS];
};

static ecornn_status take_parts(const struct eco_gpu *gpu, struct eco_args *args, int n,
                                struct parts *parts)
{
    const void *const *const at[] = {args->inputs, (const void *const *)args->dinputs};
    const size_t *const rows[] = {args->input_rows, args->dinput_rows};
    ecornn_status status = ECORNN_OK;
    if (args->inputs == NULL)
        return ECORNN_OK;
    memset(parts, 0, sizeof *parts);
    for (int i = 0; status == ECORNN_OK && i < 2 * n; i++) {
        const int of = i / n, k = i % n;
        parts->at[of][k] = at[of] != NULL ? at[of][k] : NULL;
        parts->rows[of][k] = rows[of] != NULL ? rows[of][k] : 0;
        status =
            eco_gpu_check_pointer(gpu, of ? "gradient.dinputs" : "io.inputs", parts->at[of][k]);
    }
    args->inputs = parts->at[0], args->input_rows = parts->rows[0];
    args->dinputs = (void *const *)(uintptr_t)parts->at[1], args->dinput_rows = parts->rows[1];
    return status;
}

/* ---- run ------------------------------------------------------------------------------------- */

ecornn_status eco_gpu_run_plan(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args,
                               const eco_gpu_ops *level_ops)
{
    /* by type, without resets and with them */
    static const struct eco_stage_kernels *const stages[ECO_TYPES][2] = {
        [ECORNN_F32] = {&eco_stages_f32, &eco_stages_f32_resets},
        [ECORNN_F64] = {&eco_stages_f64, &eco_stages_f64_resets},
        [ECORNN_BF16] = {&eco_stages_bf16, &eco_stages_bf16_resets},
        [ECORNN_F16] = {&eco_stages_f16, &eco_stages_f16_resets}};
    struct eco_gpu *gpu = plan->device->context;
    struct eco_gpu_scope scope;
    struct eco_gpu_given given;
    struct parts parts;
    struct eco_args inside = *args;
    const bool takes = args->params != NULL && eco_gpu_take_params(&given, plan, args);
    inside.matrices = takes ? given.matrix : NULL;
    struct eco_gpu_run run = {.plan = plan,
                              .problem = &plan->problem,
                              .lowered = &plan->problem.cell->lowered,
                              .layout = layout,
                              .args = &inside,
                              .given = takes ? &given : NULL,
                              .stages = stages[plan->problem.type][plan->problem.resets],
                              .level_ops = level_ops,
                              .launch.can = gpu->overlap,
                              .blas.share = -1};
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_args(gpu, args);
    if (status == ECORNN_OK)
        status = take_parts(gpu, &inside, plan->problem.cell->recipe.n_parts, &parts);
    if (status == ECORNN_OK && args->params != NULL && !takes)
        status = eco_gpu_pack(plan, args->params, args->added, (void *)(uintptr_t)args->weights,
                              args->stream);
    if (status == ECORNN_OK)
        status = eco_gpu_take_set(gpu, &run.set);
    if (status == ECORNN_OK) {
        status = eco_gpu_run_tape(&run, tape, &inside, takes ? &given : NULL);
        eco_gpu_return_set(run.set);
    }
    eco_gpu_leave(&scope);
    return status;
}

ecornn_status eco_gpu_run_step(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args)
{
    return eco_gpu_run_plan(plan, tape, layout, args, NULL);
}
