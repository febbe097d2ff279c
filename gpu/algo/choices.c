/*
 * Prints a plan's choices in the form of ECORNN_FORCE (force.c reads it). Products that choose a
 * method by their own sizes are printed only if they are forced.
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
        const bool used = own->persistent[backward].used;
        if (!used && !backward)
            continue; /* compiling it failed */
        eco_text_add(text, ",%s=", backward ? "backward" : "forward");
        if (used && eco_persistent_shape(&need, &shape) > 0)
            eco_gpu_write_division(eco_persistent_index(&shape), text);
        else
            eco_text_add(text, "step");
        /* A plan for a partition of the GPU has fewer groups than one for the whole GPU. The number
         * of groups is printed because it sets the rows of a group, and these set the order of its
         * sums. */
        if (used && plan->device->caps.gpu.partitions > 0 && eco_gpu_groups(problem, backward) == 0)
            eco_text_add(text, ",groups%s=%d", backward ? "-back" : "", shape.groups);
    }
}

static void add_wide(int shape, struct eco_text *text)
{
    eco_text_add(text, ",fused=wgmma:%dx%d", eco_wide_rows(shape),
                 eco_wide_units(shape, ECO_WIDE_ACCS));
}

static void add_fused(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_fused_size projection = eco_fused_projection(problem, problem->N);
    struct eco_step_choice choice = eco_step_choose(problem, &plan->device->caps, 0, problem->N);
    for (int32_t layer = 1; layer < problem->L && choice.wide < 0; layer++)
        choice = eco_step_choose(problem, &plan->device->caps, layer, problem->N);
    if (choice.wide >= 0)
        add_wide(choice.wide, text);
    else
        eco_text_add(text, ",fused=%d",
                     ECO_FUSED_COLUMNS(eco_fused_choose(&choice.size, &plan->device->caps).shape));
    if (problem->projected)
        eco_text_add(text, ",projection=%d",
                     ECO_FUSED_COLUMNS(eco_fused_choose(&projection, &plan->device->caps).shape));
}

/* Prints how rows are padded, if padding changes the length of any row. */
static void add_rows(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_layout_request *request = &plan->request;
    const size_t width[] = {(size_t)plan->problem.I, (size_t)plan->problem.H,
                            (size_t)plan->problem.P};
    for (int i = 0; i < 3; i++)
        if (eco_request_row(request, width[i]) != width[i]) {
            eco_text_add(text, ",rows=%s", request->gpu.padded ? "padded" : "dense");
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
        add_wide(wide, text);
    eco_text_add(text, ",chunk=%d", plan->tape[false][0].chunk);
    if (problem->training)
        eco_text_add(text, ",chunk-back=%d", plan->tape[true][0].chunk);
    if (problem->L > 1 && problem->D == 1)
        eco_text_add(text, ",wavefront=%d", request->wavefront);
    add_rows(plan, text);
    eco_force_write(&problem->force, eco_gpu_keys, true, text);
}
