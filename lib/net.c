/*
 * Nets: prints plans, packs, and checks every argument of a run before anything is
 * written.  The arguments of a layer are checked by its plan.
 */
#include <stdio.h>
#include <string.h>

#include "common/compose/net.h"
#include "common/compose/sequence.h"
#include "lib/check.h"

/* ---- plans ----------------------------------------------------------------------------------- */

void eco_net_plan_free(struct eco_net_plan *net)
{
    for (int k = 0; k < net->layers; k++)
        eco_layers_free(net->layer[k].plan);
}

void eco_net_plan_describe(const struct eco_net_plan *net, struct eco_text *text)
{
    const ecornn_sizes *const sizes = &net->sizes;
    eco_text_add(text,
                 "net %s\n%d layers, %d steps of x to one of y, which is %d wide\n"
                 "weights %zu bytes, workspace %zu, reserve %zu\n",
                 net->text, net->layers, sizes->joined, sizes->output, sizes->weight_bytes,
                 sizes->workspace_bytes, sizes->reserve_bytes);
    for (int p = 0; p < net->pieces; p++) {
        const struct eco_net_piece *const piece = &net->piece[p];
        if (piece->at_once)
            eco_text_add(text, "layers %d to %d at once, each in a part of the device\n",
                         piece->first, piece->first + piece->layers - 1);
    }
    for (int k = 0; k < net->layers; k++) {
        eco_text_add(text, "layer %d: ", k);
        eco_layers_describe(net->layer[k].plan, text);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Refuses arrays that no net has; then those that only its layers have. */
static ecornn_status check_arrays(const struct eco_args *args, enum eco_array_nets of_nets)
{
    for (int a = 0; a < eco_run_arrays(args); a++)
        for (int s = 0; s < eco_run_array[a].count; s++) {
            const void *const at = eco_run_array_get(args, &eco_run_array[a], s);
            if (at != NULL && eco_run_array[a].nets == of_nets)
                return of_nets == ECO_NETS_NONE
                           ? eco_fail(ECORNN_UNSUPPORTED, "%s is set, which needs a plan of layers",
                                      eco_run_array[a].name)
                           : eco_fail(ECORNN_BAD_ARGUMENT,
                                      "%s is %p, must be NULL: a net is given states by io.layers",
                                      eco_run_array[a].name, at);
        }
    return ECORNN_OK;
}

/* Does a training run draw, and are there pieces whose steps are numbered as they are, not as the
 * mask counts them? Then one number cannot be the first step of all. */
static bool draws_for_both(const struct eco_net_run *run)
{
    const struct eco_net_plan *const net = run->plan;
    bool draws = false, others = false;
    for (int p = 0; p < net->pieces; p++) {
        draws = draws || net->piece[p].dropout > 0;
        others = others || net->piece[p].layers == 0;
    }
    for (int k = 0; k < net->layers; k++) {
        const struct eco_problem *const problem = &net->layer[k].plan->problem;
        draws = draws || problem->dropout > 0 || problem->cell->recipe.n_bernoulli > 0;
    }
    return draws && others && run->args.reserve != NULL;
}

static ecornn_status check_blocks(const struct eco_net_run *run)
{
    const struct eco_args *const args = &run->args;
    const struct eco_problem *const problem = eco_net_problem(run->plan);
    const ecornn_sizes *const blocks = &run->plan->sizes;
    if (args->reserve != NULL && !problem->training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.reserve is %p, but the net is without train",
                        args->reserve);
    struct eco_array_rules rules = eco_array_rules(problem, args, blocks);
    rules.flags = ~0U; /* the plans of the layers check theirs */
    ecornn_status status = eco_check_arrays(&rules, args);
    if (status == ECORNN_OK)
        status = eco_args_check_bytes(args, blocks->workspace_bytes, blocks->reserve_bytes);
    if (status == ECORNN_OK)
        status = eco_check_overlap(args, blocks);
    if (status == ECORNN_OK && args->first_step % (uint32_t)run->plan->sizes.joined != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.first_step is %u, must be a multiple of the %d steps that are joined",
                        args->first_step, run->plan->sizes.joined);
    if (status == ECORNN_OK && args->first_step != 0 && args->mask != NULL && draws_for_both(run))
        return eco_fail(
            ECORNN_BAD_ARGUMENT,
            "io.first_step is %u, must be 0 with io.mask: this net draws for steps that "
            "count and for joined or all steps, whose numbers differ",
            args->first_step);
    return status;
}

/* Checks the arguments of every layer before any layer runs, above all the caller's states and y.
 */
static ecornn_status check_layers(const struct eco_net_run *run)
{
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < run->plan->layers; k++) {
        const ecornn_plan *const plan = run->plan->layer[k].plan;
        struct eco_args args = eco_net_layer_args(run, k);
        args.lengths = NULL; /* follow from the net's, and are not in memory yet */
        status = eco_args_check(plan, &args);
        if (status == ECORNN_OK && args.T > 0 && args.N > 0)
            status = eco_args_check_y(eco_args_layout(plan, &args), &args);
        if (status != ECORNN_OK)
            return eco_net_fail(status, k);
    }
    return status;
}

/* Packs first, if parameters are given. */
static ecornn_status pack_first(const ecornn_plan *plan, const struct eco_args *args,
                                const ecornn_io *io)
{
    if ((!io->params && !io->added) || args->backward || args->T == 0 || args->N == 0)
        return ECORNN_OK;
    return ecornn_pack(plan, io->params, io->added, (void *)(uintptr_t)io->weights, io->stream);
}

/* The arguments of the run have been read from io. */
static ecornn_status run_net(const ecornn_plan *plan, struct eco_net_run *run, const ecornn_io *io)
{
    ecornn_status status = check_arrays(&run->args, ECO_NETS_NONE);
    if (status == ECORNN_OK)
        status = check_arrays(&run->args, ECO_NETS_LAYERS);
    if (status == ECORNN_OK)
        status = check_blocks(run);
    if (status == ECORNN_OK && !run->plan->device->caps.own_memory)
        status = eco_check_lengths(run->args.lengths, run->args.T,
                                   (int64_t)run->args.N * eco_net_copies(run->plan, 0));
    if (status != ECORNN_OK)
        return status;
    eco_net_begin(run);
    status = check_layers(run);
    if (status == ECORNN_OK)
        status = pack_first(plan, &run->args, io);
    return status == ECORNN_OK ? eco_net_compute(run) : status;
}

/* Reads the states of a layer, or their gradients. */
static ecornn_status read_layer(struct eco_args *states, const void *given, bool gradient,
                                int layer)
{
    char name[32];
    snprintf(name, sizeof name, "%s.layers[%d]", gradient ? "gradient" : "io", layer);
    return eco_args_read_part(states, name, given, gradient, ECO_PART_LAYER);
}

ecornn_status eco_net_plan_run(const ecornn_plan *plan, int32_t steps, int32_t batch,
                               const ecornn_io *io, const ecornn_gradient *gradient)
{
    struct eco_args states[ECO_NET_LAYERS];
    struct eco_net_run run = {.plan = plan->net};
    const ecornn_io *const *const of_io = io->layers;
    const ecornn_gradient *const *const of_gradient = gradient != NULL ? gradient->layers : NULL;
    const bool by_layer = of_io != NULL || of_gradient != NULL;
    ecornn_status status = ECORNN_OK;
    if (gradient != NULL && !eco_net_problem(plan->net)->training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "the net is without train");
    for (int k = 0; by_layer && status == ECORNN_OK && k < plan->net->layers; k++) {
        states[k] = (struct eco_args){.backward = gradient != NULL};
        status = read_layer(&states[k], of_io != NULL ? of_io[k] : NULL, false, k);
        if (status == ECORNN_OK)
            status = read_layer(&states[k], of_gradient != NULL ? of_gradient[k] : NULL, true, k);
    }
    if (status != ECORNN_OK)
        return status;
    run.states = by_layer ? states : NULL;
    eco_args_read_io(&run.args, steps, batch, io);
    if (gradient != NULL)
        eco_args_read_gradient(&run.args, gradient);
    return run_net(plan, &run, io);
}
