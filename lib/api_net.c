/*
 * Nets: creates plans, and checks every argument of a run before anything is written. The arguments
 * of a layer are checked by its plan.
 */
#include <limits.h>
#include <string.h>

#include "common/compose/net.h"
#include "common/compose/sequence.h"
#include "lib/check.h"

/* ---- plans ----------------------------------------------------------------------------------- */

ecornn_status ecornn_net_plan_create(ecornn_net_plan **plan, ecornn_device *device,
                                     const char *text, const ecornn_cell *const *cells)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!device)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device is NULL");
    if (!text)
        return eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL");
    struct ecornn_net_plan *made = eco_alloc_zeroed(sizeof *made);
    if (made == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a plan", sizeof *made);
    made->device = device;
    const ecornn_status status = eco_net_create(made, text, cells);
    if (status == ECORNN_OK)
        *plan = made;
    else
        ecornn_net_plan_free(made);
    return status;
}

void ecornn_net_plan_free(ecornn_net_plan *plan)
{
    if (plan == NULL)
        return;
    for (int k = 0; k < plan->layers; k++)
        ecornn_plan_free(plan->layer[k].plan);
    eco_free(plan);
}

void ecornn_net_plan_sizes(const ecornn_net_plan *plan, ecornn_net_sizes *sizes)
{
    if (eco_check_sizes(plan, sizes))
        *sizes = plan->sizes;
}

/* The rest of a buffer after `length` bytes; NULL: it is full. */
static char *rest_of(char *text, size_t size, size_t length)
{
    return length < size ? text + length : NULL;
}

int ecornn_net_plan_print(const ecornn_net_plan *plan, char *text, size_t size)
{
    if (!eco_check_print(plan, text, size))
        return -1;
    const ecornn_sizes *const blocks = &plan->sizes.blocks;
    struct eco_text words = {text, size, 0};
    eco_text_add(&words,
                 "net %s\n%d layers, %d steps of x to one of y, which is %d wide\n"
                 "weights %zu bytes, workspace %zu, reserve %zu\n",
                 plan->text, plan->layers, plan->sizes.joined, plan->sizes.output, blocks->weights,
                 blocks->workspace, blocks->reserve);
    for (int p = 0; p < plan->pieces; p++) {
        const struct eco_net_piece *const piece = &plan->piece[p];
        if (piece->at_once)
            eco_text_add(&words, "layers %d to %d at once, each in a part of the device\n",
                         piece->first, piece->first + piece->layers - 1);
    }
    for (int k = 0; k < plan->layers; k++) {
        eco_text_add(&words, "layer %d: ", k);
        char *const rest = rest_of(text, size, words.length);
        const int more =
            ecornn_plan_print(plan->layer[k].plan, rest, rest ? size - words.length : 0);
        if (more < 0)
            return -1;
        words.length += (size_t)more;
    }
    return words.length > INT_MAX ? INT_MAX : (int)words.length;
}

ecornn_status ecornn_net_layer_get(const ecornn_net_plan *plan, int index, ecornn_net_layer *layer)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!layer)
        return eco_fail(ECORNN_BAD_ARGUMENT, "layer is NULL");
    if (index < 0 || index >= plan->layers)
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, must be 0 to %d", index,
                        plan->layers - 1);
    const struct eco_net_layer *const from = &plan->layer[index];
    *layer = (ecornn_net_layer){.plan = from->plan,
                                .steps = from->plan->problem.T,
                                .input = from->plan->problem.I,
                                .output = from->width,
                                .first_param = from->first_param,
                                .params = from->params,
                                .weights = from->weights,
                                .dweights = from->dweights};
    return ECORNN_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

static char *part_of(const void *block, size_t bytes)
{
    return (char *)(uintptr_t)block + bytes;
}

ecornn_status ecornn_net_pack(const ecornn_net_plan *plan, const void *const *params, void *weights,
                              void *stream)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!params && plan->sizes.params > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "params is NULL");
    ecornn_status status =
        eco_check_pointer("weights", weights, plan->sizes.blocks.weights > 0, ECO_ALIGNMENT);
    for (int k = 0; status == ECORNN_OK && k < plan->layers; k++) {
        const struct eco_net_layer *const layer = &plan->layer[k];
        status = ecornn_pack(layer->plan, params + layer->first_param,
                             part_of(weights, layer->weights), stream);
        if (status != ECORNN_OK)
            return eco_net_fail(status, k);
    }
    return status;
}

ecornn_status ecornn_net_unpack(const ecornn_net_plan *plan, const void *dweights,
                                void *const *dparams, int add, void *stream)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!dparams && plan->sizes.params > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "dparams is NULL");
    ecornn_status status =
        eco_check_pointer("dweights", dweights, plan->sizes.blocks.dweights > 0, ECO_ALIGNMENT);
    for (int k = 0; status == ECORNN_OK && k < plan->layers; k++) {
        const struct eco_net_layer *const layer = &plan->layer[k];
        status = ecornn_unpack(layer->plan, part_of(dweights, layer->dweights),
                               dparams + layer->first_param, add, stream);
        if (status != ECORNN_OK)
            return eco_net_fail(status, k);
    }
    return status;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_status check_unset(const char *name, const void *pointer)
{
    return pointer == NULL
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT,
                          "%s is %p, must be NULL: a net is given states by layer", name, pointer);
}

static ecornn_status check_no_states(const struct eco_args *args)
{
    ecornn_status status = ECORNN_OK;
    for (int s = 0; status == ECORNN_OK && s < ECORNN_MAX_STATES; s++) {
        const struct {
            const char *name;
            const void *pointer;
        } all[] = {{"io.initial", args->initial[s]},
                   {"io.final", args->final[s]},
                   {"io.reset_state", args->reset_state[s]},
                   {"io.states", args->states[s]},
                   {"gradient.dfinal", args->dfinal[s]},
                   {"gradient.dinitial", args->dinitial[s]},
                   {"gradient.dreset_state", args->dreset_state[s]},
                   {"gradient.dstates", args->dstates[s]}};
        for (size_t i = 0; status == ECORNN_OK && i < sizeof all / sizeof *all; i++)
            status = check_unset(all[i].name, all[i].pointer);
    }
    return status;
}

static ecornn_status check_blocks(const struct eco_net_run *run)
{
    const struct eco_args *const args = &run->args;
    const struct eco_problem *const problem = eco_net_problem(run->plan);
    const ecornn_sizes *const blocks = &run->plan->sizes.blocks;
    const size_t element = eco_type_bytes(problem->type);
    const bool runs = args->T > 0 && args->N > 0;
    const struct {
        const char *name;
        const void *pointer;
        bool required;
        size_t alignment;
    } all[] = {{"io.x", args->x, runs, element},
               {"io.lengths", args->lengths, false, sizeof *args->lengths},
               {"io.y", args->y, false, element},
               {"io.weights", args->weights, runs && blocks->weights > 0, ECO_ALIGNMENT},
               {"io.workspace", args->workspace, runs && blocks->workspace > 0, ECO_ALIGNMENT},
               {"io.reserve", args->reserve, runs && args->backward, ECO_ALIGNMENT},
               {"gradient.dy", args->dy, false, element},
               {"gradient.dx", args->dx, false, element},
               {"gradient.dweights", args->dweights, false, ECO_ALIGNMENT}};
    ecornn_status status = ECORNN_OK;
    if (args->reserve != NULL && !problem->training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.reserve is %p, but the net is without train",
                        args->reserve);
    for (size_t i = 0; status == ECORNN_OK && i < sizeof all / sizeof *all; i++)
        status = eco_check_pointer(all[i].name, all[i].pointer, all[i].required, all[i].alignment);
    if (status == ECORNN_OK)
        status = eco_args_check_bytes(args, blocks->workspace, blocks->reserve);
    if (status == ECORNN_OK && args->first_step % (uint32_t)run->plan->sizes.joined != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.first_step is %u, must be a multiple of the %d steps that are joined",
                        args->first_step, run->plan->sizes.joined);
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

/* The arguments of the run have been read. */
static ecornn_status run_net(struct eco_net_run *run, const ecornn_io *io)
{
    const ecornn_net_sizes *const sizes = &run->plan->sizes;
    ecornn_status status = check_no_states(&run->args);
    if (status == ECORNN_OK)
        status = eco_args_count(&run->args, io, sizes->steps, sizes->batch, run->states != NULL);
    if (status == ECORNN_OK)
        status = check_blocks(run);
    if (status == ECORNN_OK && !run->plan->device->caps.own_memory)
        status = eco_check_lengths(run->args.lengths, run->args.T,
                                   (int64_t)run->args.N * eco_net_copies(run->plan, 0));
    if (status != ECORNN_OK)
        return status;
    eco_net_begin(run);
    status = check_layers(run);
    return status == ECORNN_OK ? eco_net_compute(run) : status;
}

ecornn_status ecornn_net_forward(const ecornn_net_plan *plan, const ecornn_io *io,
                                 const ecornn_net_states *states)
{
    struct eco_net_run run = {.plan = plan, .states = states};
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    const ecornn_status status = eco_args_read_io(&run.args, io);
    return status == ECORNN_OK ? run_net(&run, io) : status;
}

ecornn_status ecornn_net_backward(const ecornn_net_plan *plan, const ecornn_io *io,
                                  const ecornn_gradient *gradient, const ecornn_net_states *states)
{
    struct eco_net_run run = {.plan = plan, .states = states};
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!gradient)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient is NULL");
    ecornn_status status = eco_args_read_io(&run.args, io);
    if (status == ECORNN_OK && !eco_net_problem(plan)->training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "the net is without train");
    if (status == ECORNN_OK)
        status = eco_args_read_gradient(&run.args, gradient);
    return status == ECORNN_OK ? run_net(&run, io) : status;
}
