/*
 * Prints a plan's choices in the form of ECORNN_FORCE. Products that choose a method by their own
 * sizes are printed only if they are forced.
 */
#include "gpu/algo/algo.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/persistent/persistent.h"
#include "gpu/wide_step/wide_step.h"

static void add_divisions(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_gpu_plan *own = plan->context;
    const struct eco_problem *problem = &plan->problem;
    for (int backward = 0; backward <= (int)problem->training; backward++) {
        struct eco_persistent_shape shape;
        const struct eco_persistent_need need = eco_persistent_need_of(
            plan, backward, problem->N, problem->T, eco_persistent_jobs(plan, backward));
        const bool used = own->persistent[backward].used && eco_persistent_shape(&need, &shape) > 0;
        if (used || backward) /* else compiling it failed */
            eco_choice_write(eco_gpu_division_key(backward),
                             used ? eco_persistent_index(&shape) : ECO_FORCED_STEP, text);
        /* A plan for a partition of the GPU has fewer groups than one for the whole GPU. The number
         * of groups is printed because it sets the rows of a group, and these set the order of its
         * sums. */
        if (used && plan->device->caps.gpu.partitions > 0 && eco_gpu_groups(problem, backward) == 0)
            eco_choice_write(backward ? ECO_FORCE_GROUPS_BACK : ECO_FORCE_GROUPS, shape.groups,
                             text);
    }
}

static void add_fused(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
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

/* Prints how rows are padded, if padding changes the length of any row. */
static void add_rows(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_layout_request *request = &plan->request;
    const size_t width[] = {(size_t)plan->problem.I, (size_t)plan->problem.H,
                            (size_t)plan->problem.P};
    for (int i = 0; i < 3; i++)
        if (eco_request_row(request, width[i]) != width[i]) {
            eco_choice_write(ECO_FORCE_ROWS,
                             (request->gpu.padded ? ECO_ROWS_PADDED : ECO_ROWS_DENSE) - 1, text);
            return;
        }
}

void eco_gpu_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_layout_request *request = &plan->request;
    if (plan->algo == &eco_algo_persistent)
        add_divisions(plan, text);
    if (plan->algo == &eco_algo_fused && ((const struct eco_gpu_plan *)plan->context)->fused.used)
        add_fused(plan, text);
    const int wide =
        plan->algo == &eco_algo_step
            ? eco_step_wide_shape(problem, &plan->device->caps, plan->request.wavefront)
            : -1;
    if (wide >= 0)
        eco_choice_write(ECO_FORCE_FUSED, ECO_FUSED_SHAPES + wide, text);
    eco_choice_write(ECO_FORCE_GPU_CHUNK, plan->tape[false][0].chunk, text);
    if (problem->training)
        eco_choice_write(ECO_FORCE_GPU_CHUNK_BACK, plan->tape[true][0].chunk, text);
    if (problem->L > 1 && problem->D == 1)
        eco_choice_write(ECO_FORCE_WAVEFRONT, request->wavefront, text);
    add_rows(plan, text);
    eco_force_write(&problem->force, true, text);
}
