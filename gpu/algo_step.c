/*
 * Algorithm step: cuBLAS products and one fused kernel per step and stage.  Runs every cell, option
 * and type; what an algorithm of its own must beat.
 */
#include "gpu/gpu.h"

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem;
    (void)caps;
    return NULL;
}

/* Rows of a chunk: enough that the input product runs at full speed, few enough that its result
 * stays in the L2 until the steps read it. */
enum { ROWS = 4096, LEAST_STEPS = 8, MOST_CHUNKS = 8 };

static int32_t steps_for(const struct eco_problem *problem, bool wavefront)
{
    int32_t steps = (ROWS + problem->N - 1) / problem->N;
    if (wavefront && steps > problem->T / MOST_CHUNKS)
        steps = problem->T / MOST_CHUNKS;
    return steps < LEAST_STEPS ? LEAST_STEPS : steps;
}

static size_t clamp(double value, double least, double most)
{
    return (size_t)(value < least ? least : value > most ? most : value);
}

static void wishes(const struct eco_problem *problem, const struct eco_caps *caps,
                   struct eco_wishes *wishes)
{
    const bool wavefront = problem->L > 1 && problem->D == 1;
    const double accs = problem->cell->lowered.n_accs * (double)problem->H;
    (void)caps;
    *wishes = (struct eco_wishes){
        .wavefront = wavefront,
        .widened = problem->weight_type != problem->type,
        /* cuBLAS multiplies in TF32 twice as fast where k is contiguous in both operands */
        .turned = problem->training && problem->type == ECORNN_F32 && problem->fast,
        .chunk = steps_for(problem, wavefront),
        .chunk_backward = steps_for(problem, wavefront),
        .weights_chunks = wavefront ? ROWS / (steps_for(problem, true) * problem->N) : 0,
        /* partial sums of a step's product, split some ways */
        .product_bytes = clamp(32 * accs * problem->N, 65536, 8 << 20),
    };
}

/* Seconds: a launch every 3 us, products at half the peak of float arithmetic. */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double accs = problem->cell->lowered.n_accs * (double)problem->H;
    const double steps = (double)problem->T * problem->L * problem->D;
    const double work = 4 * accs * (problem->H + (double)problem->I) * problem->N;
    const double seconds = steps * (2 * 3e-6 + work / (0.5 * caps->flops * (double)caps->threads));
    return problem->training ? 3 * seconds : seconds;
}

/* ---- pointers -------------------------------------------------------------------------------- */

ecornn_status eco_gpu_check_pointer(const struct eco_gpu *gpu, const char *name,
                                    const void *pointer)
{
    struct cudaPointerAttributes attributes;
    if (pointer == NULL)
        return ECORNN_OK;
    const ecornn_status status = ECO_CUDA(cudaPointerGetAttributes(&attributes, pointer));
    if (status != ECORNN_OK)
        return status;
    if (attributes.type == cudaMemoryTypeUnregistered)
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT, "%s is %p, no memory of device cuda:%d",
                                      name, pointer, gpu->device);
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != gpu->device)
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT,
                                      "%s is memory of cuda:%d, must be of cuda:%d", name,
                                      attributes.device, gpu->device);
    return ECORNN_OK;
}

static ecornn_status check_pointers(const struct eco_gpu *gpu, const struct eco_args *args)
{
    const struct {
        const char *name;
        const void *pointer;
    } all[] = {{"io.x", args->x},
               {"io.y", args->y},
               {"io.lengths", args->lengths},
               {"io.weights", args->weights},
               {"io.workspace", args->workspace},
               {"io.reserve", args->reserve},
               {"gradient.dy", args->dy},
               {"gradient.dx", args->dx},
               {"gradient.dweights", args->dweights}};
    ecornn_status status = ECORNN_OK;
    for (size_t i = 0; status == ECORNN_OK && i < sizeof all / sizeof *all; i++)
        status = eco_gpu_check_pointer(gpu, all[i].name, all[i].pointer);
    for (int s = 0; status == ECORNN_OK && s < ECO_MAX_STATES; s++) {
        status = eco_gpu_check_pointer(gpu, "io.initial", args->initial[s]);
        if (status == ECORNN_OK)
            status = eco_gpu_check_pointer(gpu, "io.final", args->final[s]);
        if (status == ECORNN_OK)
            status = eco_gpu_check_pointer(gpu, "gradient.dfinal", args->dfinal[s]);
        if (status == ECORNN_OK)
            status = eco_gpu_check_pointer(gpu, "gradient.dinitial", args->dinitial[s]);
    }
    return status;
}

/* ---- run ------------------------------------------------------------------------------------- */

static ecornn_status run_tape(const struct ecornn_plan *plan, const struct eco_tape *tape,
                              const struct eco_layout *layout, const struct eco_args *args)
{
    static const struct eco_stage_kernels *const stages[ECO_TYPES] = {
        [ECORNN_F32] = &eco_stages_f32,
        [ECORNN_F64] = &eco_stages_f64,
        [ECORNN_BF16] = &eco_stages_bf16,
        [ECORNN_F16] = &eco_stages_f16};
    struct eco_gpu *gpu = plan->device->own;
    struct eco_gpu_scope scope;
    struct eco_gpu_run run = {.plan = plan,
                              .problem = &plan->problem,
                              .lowered = &plan->problem.cell->lowered,
                              .layout = layout,
                              .args = args,
                              .stages = stages[plan->problem.type]};
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = check_pointers(gpu, args);
    if (status == ECORNN_OK)
        status = eco_gpu_take_set(gpu, &run.set);
    if (status == ECORNN_OK) {
        status = eco_gpu_run_tape(&run, tape);
        eco_gpu_return_set(run.set);
    }
    eco_gpu_leave(&scope);
    return status;
}

const struct eco_algo eco_algo_step = {"step", refuses, wishes, estimate, run_tape};
