/*
 * A run of a net, from piece to piece, forward or backward. The backend computes joins; layers run
 * through the functions of their plans.
 */
#include "lib/net.h"

#include "common/caller.h"
#include "common/seed.h"
#include "common/util.h"
#include "lib/models.h"

/* ---- where things lie ------------------------------------------------------------------------ */

/* NULL stays NULL. */
static char *after(const void *block, size_t bytes)
{
    return block == NULL ? NULL : (char *)(uintptr_t)block + bytes;
}

static char *in_workspace(const struct eco_net_run *run, size_t bytes)
{
    return after(run->io->workspace, bytes);
}

static bool is_last(const struct eco_net_run *run, int p)
{
    return p == run->plan->pieces - 1;
}

/* Is the output of a join between layers the same memory as its input? That is so if the steps of a
 * row are adjacent, groups of steps are complete, and steps past a row's length are already zero.
 */
static bool is_view(const struct eco_net_run *run, int p)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    const struct eco_problem *const problem = eco_net_problem(run->plan);
    const bool dense = problem->order == ECORNN_BATCH_MAJOR || run->N == 1;
    return piece->layers == 0 && p > 0 && !is_last(run, p) && dense &&
           run->steps[p] % piece->join == 0 && !(problem->repeats && run->lengths[p] != NULL);
}

/* The memory of outputs that no reserve keeps, and of gradients: two slots that are used in turn.
 */
static char *next_slot(const struct eco_net_run *run, const char *taken)
{
    char *const first = in_workspace(run, run->plan->workspace.slot[0]);
    return taken == first ? in_workspace(run, run->plan->workspace.slot[1]) : first;
}

static char *output_of(const struct eco_net_run *run, int p)
{
    if (is_last(run, p))
        return run->io->y;
    if (is_view(run, p))
        return run->value[p];
    return run->io->reserve != NULL ? after(run->io->reserve, run->plan->piece[p].value)
                                    : next_slot(run, run->value[p]);
}

/* Sets the steps, lengths and arrays of every piece. */
static ecornn_status place(struct eco_net_run *run)
{
    const struct ecornn_net_plan *const plan = run->plan;
    const struct eco_backend *const backend = plan->device->backend;
    char *lengths = in_workspace(run, plan->workspace.lengths);
    ecornn_status status = ECORNN_OK;
    run->steps[0] = run->T;
    run->lengths[0] = run->T > 0 && run->N > 0 ? run->io->lengths : NULL;
    run->value[0] = (char *)(uintptr_t)run->io->x;
    for (int p = 0; status == ECORNN_OK && p < plan->pieces; p++) {
        const int32_t join = plan->piece[p].join;
        run->steps[p + 1] = eco_joined(run->steps[p], join);
        run->lengths[p + 1] = run->lengths[p];
        run->value[p + 1] = output_of(run, p);
        if (join == 1 || run->lengths[p] == NULL)
            continue;
        run->lengths[p + 1] = (int32_t *)lengths;
        status = backend->join_lengths(plan->device, (int32_t *)lengths, run->lengths[p], run->N,
                                       join, run->io->stream);
        lengths += (size_t)run->N * sizeof(int32_t);
    }
    return status;
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* The run of a layer of piece p. If layers are side by side, y, dy and dx are the layer's own and
 * not the piece's. If they run concurrently, the stream is not the caller's. */
struct turn {
    int p, k;
    char *y, *dy, *dx;
    void *stream;
};

static ecornn_io io_of(const struct eco_net_run *run, const struct turn *turn)
{
    const struct eco_net_layer *const layer = &run->plan->layer[turn->k];
    ecornn_io io = *run->io;
    io.steps = run->steps[turn->p];
    io.batch = run->N;
    io.lengths = run->lengths[turn->p];
    io.x = run->value[turn->p];
    io.y = turn->y;
    io.stream = turn->stream;
    io.weights = after(io.weights, layer->weights);
    io.reserve = after(io.reserve, layer->reserve);
    io.workspace = after(io.workspace, layer->workspace);
    io.workspace_bytes = io.reserve_bytes = 0; /* checked for all */
    io.seed = eco_seed_of(io.seed, ECO_SEED_LAYER, (uint32_t)turn->k);
    io.first_step /= (uint32_t)run->plan->piece[turn->p].before;
    for (int s = 0; run->states != NULL && s < ECORNN_MAX_STATES; s++) {
        const ecornn_net_states *const states = &run->states[turn->k];
        io.initial[s] = states->initial[s];
        io.final[s] = states->final[s];
        io.reset_state[s] = states->reset_state[s];
        io.states[s] = states->states[s];
    }
    return io;
}

static ecornn_gradient gradient_of(const struct eco_net_run *run, const struct turn *turn)
{
    const struct eco_net_layer *const layer = &run->plan->layer[turn->k];
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = turn->dy,
                                .dx = turn->dx,
                                .dweights = after(run->gradient->dweights, layer->dweights),
                                .accumulate = run->gradient->accumulate};
    for (int s = 0; run->states != NULL && s < ECORNN_MAX_STATES; s++) {
        const ecornn_net_states *const states = &run->states[turn->k];
        gradient.dfinal[s] = states->dfinal[s];
        gradient.dinitial[s] = states->dinitial[s];
        gradient.dreset_state[s] = states->dreset_state[s];
        gradient.dstates[s] = states->dstates[s];
    }
    return gradient;
}

static char *half_of(const struct eco_net_run *run, int k)
{
    return in_workspace(run, run->plan->workspace.half + run->plan->layer[k].half);
}

/* y of one of several layers side by side. */
static char *y_of(const struct eco_net_run *run, int k)
{
    return run->io->reserve != NULL ? after(run->io->reserve, run->plan->layer[k].y)
                                    : half_of(run, k);
}

/* Runs a layer, or only checks its arguments. */
static ecornn_status take_turn(const struct eco_net_run *run, const struct turn *turn, bool runs)
{
    const ecornn_plan *const plan = run->plan->layer[turn->k].plan;
    const ecornn_io io = io_of(run, turn);
    const ecornn_gradient gradient =
        run->gradient != NULL ? gradient_of(run, turn) : (ecornn_gradient){.size = 0};
    const ecornn_status status = !runs ? eco_run_check(plan, &io, run->gradient ? &gradient : NULL)
                                 : run->gradient != NULL ? ecornn_backward(plan, &io, &gradient)
                                                         : ecornn_forward(plan, &io);
    return status == ECORNN_OK ? status : eco_net_fail(status, turn->k);
}

/* Checks the arguments of every layer before any layer runs, above all the caller's states and y.
 */
static ecornn_status check_layers(const struct eco_net_run *run)
{
    ecornn_status status = ECORNN_OK;
    for (int p = 0; p < run->plan->pieces; p++) {
        const struct eco_net_piece *const piece = &run->plan->piece[p];
        for (int i = 0; status == ECORNN_OK && i < piece->layers; i++) {
            const int k = piece->first + i;
            char *const y = piece->layers == 1 ? run->value[p + 1] : y_of(run, k);
            status = take_turn(run, &(struct turn){.p = p, .k = k, .y = y}, false);
        }
    }
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static ecornn_status join(const struct eco_net_run *run, int p, const struct eco_join *sizes,
                          void *stream)
{
    const struct ecornn_net_plan *const plan = run->plan;
    const struct eco_backend *const backend = plan->device->backend;
    struct eco_join join = *sizes;
    join.T = run->steps[p];
    join.U = eco_joined(join.T, join.steps);
    join.N = run->N;
    join.batch_major = eco_net_problem(plan)->order == ECORNN_BATCH_MAJOR;
    join.type = eco_net_problem(plan)->type;
    if (join.T == 0 || join.N == 0)
        return ECORNN_OK;
    struct eco_caller caller;
    eco_caller_begin_run(&caller, backend);
    const ecornn_status status = backend->join(plan->device, &join, stream);
    eco_caller_end(&caller);
    return status;
}

/* The join of steps before piece p. */
static struct eco_join join_of(const struct eco_net_run *run, int p)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    return (struct eco_join){.lengths = run->lengths[p],
                             .steps = piece->join,
                             .width = piece->input,
                             .row = piece->output};
}

/* A join that copies the columns of one of several layers side by side to or from the piece's
 * output. */
static struct eco_join columns_of(const struct eco_net_run *run, int p, int k)
{
    return (struct eco_join){.steps = 1,
                             .width = run->plan->layer[k].width,
                             .row = run->plan->piece[p].output,
                             .at = run->plan->layer[k].column};
}

static ecornn_status forward_beside(const struct eco_net_run *run, int p, int k, void *stream)
{
    struct eco_join columns = columns_of(run, p, k);
    columns.narrow = y_of(run, k);
    columns.wide = run->value[p + 1];
    const struct turn turn = {.p = p, .k = k, .y = columns.narrow, .stream = stream};
    const ecornn_status status = take_turn(run, &turn, true);
    return status == ECORNN_OK && columns.wide != NULL ? join(run, p, &columns, stream) : status;
}

/* dx of one of several layers side by side. The first layer writes the piece's dx, to which those
 * of the others are added. */
static char *dx_of(const struct eco_net_run *run, int p, int k)
{
    return run->dvalue[p] == NULL || k == run->plan->piece[p].first
               ? run->dvalue[p]
               : in_workspace(run, run->plan->workspace.dx + run->plan->layer[k].dx);
}

static ecornn_status backward_beside(const struct eco_net_run *run, int p, int k, void *stream)
{
    struct eco_join columns = columns_of(run, p, k);
    columns.wide = run->dvalue[p + 1];
    columns.narrow = half_of(run, k);
    columns.back = true;
    const struct turn turn = {.p = p,
                              .k = k,
                              .y = y_of(run, k),
                              .dy = columns.wide == NULL ? NULL : columns.narrow,
                              .dx = dx_of(run, p, k),
                              .stream = stream};
    const ecornn_status status = columns.wide == NULL ? ECORNN_OK : join(run, p, &columns, stream);
    return status == ECORNN_OK ? take_turn(run, &turn, true) : status;
}

static ecornn_status add_dx(const struct eco_net_run *run, int p, int k, void *stream)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    const struct eco_join sum = {.narrow = run->dvalue[p],
                                 .wide = dx_of(run, p, k),
                                 .steps = 1,
                                 .width = piece->input,
                                 .row = piece->input,
                                 .back = true,
                                 .add = true};
    return sum.narrow == NULL || sum.wide == sum.narrow ? ECORNN_OK : join(run, p, &sum, stream);
}

/* ---- layers side by side --------------------------------------------------------------------- */

struct beside {
    const struct eco_net_run *run;
    int p;
};

static ecornn_status queue_layer(void *own, int i, int place, void *stream)
{
    const struct beside *const beside = own;
    const int k = beside->run->plan->piece[beside->p].first + i;
    (void)place; /* each layer has its own workspace */
    return (beside->run->gradient != NULL ? backward_beside : forward_beside)(beside->run,
                                                                              beside->p, k, stream);
}

/* Adds up dx in the order of the layers, after all of them have run. */
static ecornn_status queue_sums(void *own, void *stream)
{
    const struct beside *const beside = own;
    const struct eco_net_piece *const piece = &beside->run->plan->piece[beside->p];
    ecornn_status status = ECORNN_OK;
    for (int i = 0; beside->run->gradient != NULL && status == ECORNN_OK && i < piece->layers; i++)
        status = add_dx(beside->run, beside->p, piece->first + i, stream);
    return status;
}

static ecornn_status run_at_once(struct beside *runs)
{
    struct ecornn_device *const device = runs->run->plan->device;
    const int layers = runs->run->plan->piece[runs->p].layers;
    const struct eco_concurrent_runs all = {.runs = layers,
                                            .concurrent = layers,
                                            .one = queue_layer,
                                            .last = queue_sums,
                                            .user_data = runs};
    return device->backend->run_concurrently(device, &all, runs->run->io->stream);
}

/* Layers use the same memory in turn, so each dx is added before the next layer runs. */
static ecornn_status run_in_order(struct beside *runs)
{
    const struct eco_net_run *const run = runs->run;
    const struct eco_net_piece *const piece = &run->plan->piece[runs->p];
    ecornn_status status = ECORNN_OK;
    for (int i = 0; status == ECORNN_OK && i < piece->layers; i++) {
        status = queue_layer(runs, i, 0, run->io->stream);
        if (status == ECORNN_OK && run->gradient != NULL)
            status = add_dx(run, runs->p, piece->first + i, run->io->stream);
    }
    return status;
}

static ecornn_status run_beside(const struct eco_net_run *run, int p)
{
    struct beside beside = {run, p};
    const bool runs = run->steps[p] > 0 && run->N > 0;
    return (run->plan->piece[p].at_once && runs ? run_at_once : run_in_order)(&beside);
}

/* ---- forward and back ------------------------------------------------------------------------ */

static ecornn_status forward(const struct eco_net_run *run, int p)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    if (piece->layers == 0) {
        struct eco_join steps = join_of(run, p);
        steps.narrow = run->value[p];
        steps.wide = run->value[p + 1];
        return steps.wide == NULL || is_view(run, p) ? ECORNN_OK
                                                     : join(run, p, &steps, run->io->stream);
    }
    if (piece->layers > 1)
        return run_beside(run, p);
    return take_turn(
        run,
        &(struct turn){
            .p = p, .k = piece->first, .y = run->value[p + 1], .stream = run->io->stream},
        true);
}

/* The memory for the gradient of piece p's input. */
static char *dinput_of(const struct eco_net_run *run, int p)
{
    if (p == 0)
        return run->gradient->dx;
    if (is_view(run, p))
        return run->dvalue[p + 1];
    if (run->plan->piece[p].layers == 0 && run->dvalue[p + 1] == NULL)
        return NULL;
    return next_slot(run, run->dvalue[p + 1]);
}

static ecornn_status backward(struct eco_net_run *run, int p)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    run->dvalue[p] = dinput_of(run, p);
    if (piece->layers == 0) {
        struct eco_join steps = join_of(run, p);
        steps.narrow = run->dvalue[p];
        steps.wide = run->dvalue[p + 1];
        steps.back = true;
        return steps.narrow == NULL || is_view(run, p) ? ECORNN_OK
                                                       : join(run, p, &steps, run->io->stream);
    }
    if (piece->layers > 1)
        return run_beside(run, p);
    return take_turn(run,
                     &(struct turn){.p = p,
                                    .k = piece->first,
                                    .y = run->value[p + 1],
                                    .dy = run->dvalue[p + 1],
                                    .dx = run->dvalue[p],
                                    .stream = run->io->stream},
                     true);
}

ecornn_status eco_net_compute(struct eco_net_run *run)
{
    const int pieces = run->plan->pieces;
    ecornn_status status = place(run);
    if (status == ECORNN_OK)
        status = check_layers(run);
    for (int p = 0; run->gradient == NULL && status == ECORNN_OK && p < pieces; p++)
        status = forward(run, p);
    if (run->gradient != NULL)
        run->dvalue[pieces] = (char *)(uintptr_t)run->gradient->dy;
    for (int p = pieces - 1; run->gradient != NULL && status == ECORNN_OK && p >= 0; p--)
        status = backward(run, p);
    return status;
}
