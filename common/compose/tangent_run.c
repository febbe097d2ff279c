/*
 * A run of tangents: forward layer by layer, then backward. The output of a layer's tangent plan is
 * the derivative of the layer's output. The gradient of the output itself goes backward through the
 * cell's own plan. The gradients of both are added, because backward is linear in the incoming
 * gradient.
 */
#include "common/compose/tangent.h"

#include "common/caller.h"
#include "common/compose/arena.h"
#include "common/run_arrays.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static char *take_numbers(struct eco_arena *arena, const struct eco_tangent_plan *plan, size_t a,
                          size_t b, size_t c)
{
    return eco_arena_array(arena, eco_arena_numbers(eco_type_bytes(plan->problem.type), a, b, c));
}

static void take_shared(struct eco_arena *arena, const struct eco_tangent_plan *plan,
                        struct eco_tangent_areas *areas)
{
    const size_t T = (size_t)plan->problem.T, N = (size_t)plan->problem.N,
                 H = (size_t)plan->problem.H, D = (size_t)plan->problem.D;
    const size_t I = eco_larger((size_t)plan->layer[0].input, (size_t)plan->layer[1].input);
    size_t workspace = 0, dweights = 0;
    for (int k = 0; k < 2; k++) {
        const struct eco_tangent_layer *kind = &plan->layer[k];
        workspace = eco_larger(workspace, eco_larger(kind->cell.sizes.workspace_bytes,
                                                     kind->both.sizes.workspace_bytes));
        dweights = eco_larger(
            dweights, eco_larger(kind->cell.sizes.dweight_bytes, kind->both.sizes.dweight_bytes));
    }
    areas->workspace = eco_arena_array(arena, eco_size_of(workspace));
    areas->zeros = take_numbers(arena, plan, H, H, 1);
    areas->matrices =
        take_numbers(arena, plan, (size_t)plan->tangent->cell.recipe.n_params * D, H, 2 * I);
    if (!plan->problem.training)
        return;
    areas->dweights = eco_arena_array(arena, eco_size_of(dweights));
    areas->dboth = take_numbers(arena, plan, T, N, 2 * I);
    areas->dcell = take_numbers(arena, plan, T, N, I);
    areas->dy = take_numbers(arena, plan, T, N, D * H);
    areas->dy_tangent = take_numbers(arena, plan, T, N, D * H);
    if (plan->problem.dropout > 0)
        areas->dropped = take_numbers(arena, plan, T, N, D * H);
    areas->dreset = take_numbers(arena, plan, (size_t)plan->states * D, N, H);
    areas->dinitial = take_numbers(arena, plan, (size_t)plan->states * D, N, H);
}

struct eco_size eco_tangent_place(const struct eco_tangent_plan *plan, char *base, int layer,
                                  struct eco_tangent_areas *areas)
{
    const size_t T = (size_t)plan->problem.T, N = (size_t)plan->problem.N;
    const size_t width = (size_t)plan->problem.D * (size_t)plan->problem.H;
    struct eco_arena arena = {.base = base};
    take_shared(&arena, plan, areas);
    for (int l = 0; l <= layer; l++) {
        const struct eco_tangent_layer *kind = &plan->layer[l > 0];
        areas->both_weights = eco_arena_array(&arena, eco_size_of(kind->both.sizes.weight_bytes));
        areas->cell_weights = eco_arena_array(&arena, eco_size_of(kind->cell.sizes.weight_bytes));
        areas->both_reserve = eco_arena_array(&arena, eco_size_of(kind->both.sizes.reserve_bytes));
        areas->cell_reserve = eco_arena_array(&arena, eco_size_of(kind->cell.sizes.reserve_bytes));
        areas->input = take_numbers(&arena, plan, T, N, 2 * (size_t)kind->input);
        areas->y = take_numbers(&arena, plan, T, N, width);
        areas->y_tangent = take_numbers(&arena, plan, T, N, width);
        if (plan->problem.dropout > 0 && plan->problem.training && l > 0)
            areas->x = take_numbers(&arena, plan, T, N, width);
    }
    return arena.end;
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* The two halves of a sequence [T,N,2I] from, or to, sequences [T,N,I]. */
struct halves {
    char *wide;
    size_t width; /* I */
};

static void put_half(struct eco_tangent_run *run, struct halves to, bool second, const void *from)
{
    const size_t bytes = eco_type_bytes(run->plan->problem.type);
    eco_tangent_move(run, &(struct eco_rows_move){.to = to.wide + second * to.width * bytes,
                                                  .from = from,
                                                  .to_row = 2 * to.width,
                                                  .from_row = to.width,
                                                  .rows = (size_t)run->args.T * (size_t)run->args.N,
                                                  .width = to.width});
}

static void get_half(struct eco_tangent_run *run, void *to, struct halves from, bool second)
{
    const size_t bytes = eco_type_bytes(run->plan->problem.type);
    eco_tangent_move(run, &(struct eco_rows_move){.to = to,
                                                  .from = from.wide + second * from.width * bytes,
                                                  .to_row = from.width,
                                                  .from_row = 2 * from.width,
                                                  .rows = (size_t)run->args.T * (size_t)run->args.N,
                                                  .width = from.width});
}

static void add(struct eco_tangent_run *run, void *to, const void *from, size_t rows, size_t width)
{
    eco_tangent_move(run, &(struct eco_rows_move){to, from, width, width, rows, width, true, 0});
}

static void enter_layer(struct eco_tangent_run *run, int layer)
{
    run->layer = layer;
    run->kind = &run->plan->layer[layer > 0];
    eco_tangent_place(run->plan, run->args.workspace, layer, &run->at);
}

static bool is_last(const struct eco_tangent_run *run)
{
    return run->layer == run->plan->problem.L - 1;
}

static bool goes_back(const struct eco_tangent_run *run)
{
    bool wanted = run->dparams != NULL;
    for (int a = ECO_IO_ARRAYS; a < eco_run_arrays(&run->args); a++)
        for (int s = 0; eco_run_array[a].output && s < eco_run_array[a].count; s++)
            wanted |= eco_run_array_get(&run->args, &eco_run_array[a], s) != NULL;
    return wanted;
}

/* Does the cell itself run, in addition to its tangent? */
static bool runs_cell(const struct eco_tangent_run *run)
{
    return !is_last(run) || run->args.y != NULL || (goes_back(run) && run->args.dy != NULL);
}

/* The layer's part of a state [L*D,N,H]; NULL stays NULL. */
static void *layer_of(const struct eco_tangent_run *run, const void *states)
{
    const struct eco_tangent_plan *plan = run->plan;
    const size_t rows = (size_t)(run->layer * plan->problem.D) * (size_t)run->args.N;
    return states == NULL ? NULL
                          : (char *)(uintptr_t)states +
                                rows * (size_t)plan->problem.H * eco_type_bytes(plan->problem.type);
}

/* The arguments of a run of either plan, without x, y, states, weights and reserve. */
static struct eco_args args_of(const struct eco_tangent_run *run)
{
    struct eco_args args = {.T = run->args.T,
                            .N = run->args.N,
                            .first_step = run->args.first_step,
                            .first_row = run->args.first_row,
                            .workspace = run->at.workspace,
                            .seed = run->args.seed};
    for (int a = 0; a < ECO_IO_ARRAYS; a++)
        if (eco_run_array[a].nets == ECO_NETS_JOINED)
            eco_run_array_copy(&args, &run->args, &eco_run_array[a]);
    return args;
}

static struct eco_args both_args(const struct eco_tangent_run *run, bool backward)
{
    const int S = run->plan->states;
    struct eco_args args = args_of(run);
    args.backward = backward;
    args.x = run->at.input;
    args.y = is_last(run) && run->tangent.y ? run->tangent.y : run->at.y_tangent;
    args.weights = run->at.both_weights;
    args.reserve = run->plan->problem.training ? run->at.both_reserve : NULL;
    for (int a = 0; a < eco_run_arrays(&args); a++)
        for (int s = 0; s < S && eco_is_state(&eco_run_array[a]); s++) {
            const struct eco_run_array *const array = &eco_run_array[a];
            eco_run_array_set(&args, array, s,
                              layer_of(run, eco_run_array_get(&run->tangent, array, s)));
            eco_run_array_set(&args, array, S + s,
                              layer_of(run, eco_run_array_get(&run->args, array, s)));
        }
    return args;
}

static struct eco_args cell_args(const struct eco_tangent_run *run, const void *x)
{
    struct eco_args args = args_of(run);
    args.x = x;
    args.y = is_last(run) && run->args.y ? run->args.y : run->at.y;
    args.weights = run->at.cell_weights;
    args.reserve = run->plan->problem.training ? run->at.cell_reserve : NULL;
    for (int a = 0; a < ECO_IO_ARRAYS; a++) {
        const struct eco_run_array *const array = &eco_run_array[a];
        for (int s = 0; s < run->plan->states && eco_is_state(array); s++)
            if (!array->output)
                eco_run_array_set(&args, array, s,
                                  layer_of(run, eco_run_array_get(&run->args, array, s)));
    }
    return args;
}

/* Does dropout act on the input of this layer? */
static bool drops(const struct eco_tangent_run *run)
{
    return run->layer > 0 && run->plan->problem.training && run->plan->problem.dropout > 0;
}

/* The dropout before this layer, with the draws that a plan of all layers has. */
static void drop(struct eco_tangent_run *run, void *to, const void *from)
{
    const struct eco_tangent_plan *plan = run->plan;
    const struct eco_drop all = {.to = to,
                                 .from = from,
                                 .T = run->args.T,
                                 .N = run->args.N,
                                 .width = plan->problem.D * plan->problem.H,
                                 .batch_major = plan->problem.batch_major,
                                 .type = plan->problem.type,
                                 .p = plan->problem.dropout,
                                 .seed = run->args.seed,
                                 .layer = (uint32_t)run->layer,
                                 .first_step = run->args.first_step,
                                 .first_row = run->args.first_row};
    if (drops(run) && from != NULL)
        eco_sequence_calls(&run->sequence, &(struct eco_call){ECO_CALL_DROP, {.drop = all}}, 1);
}

/* y of the layer below this one. */
static const void *below_of(const struct eco_tangent_run *run)
{
    struct eco_tangent_areas below;
    eco_tangent_place(run->plan, run->args.workspace, run->layer - 1, &below);
    return below.y;
}

/* The layer's x: the caller's, or y of the layer below, or what dropout leaves of it. */
static const void *input_of(const struct eco_tangent_run *run)
{
    return run->layer == 0 ? run->args.x : drops(run) ? run->at.x : below_of(run);
}

static void forward(struct eco_tangent_run *run, const void *x_tangent)
{
    const void *x = input_of(run);
    const struct halves input = {run->at.input, (size_t)run->kind->input};
    if (drops(run)) {
        drop(run, run->at.x, below_of(run));
        drop(run, run->at.dropped, x_tangent);
        x_tangent = run->at.dropped;
    }
    put_half(run, input, false, x);
    put_half(run, input, true, x_tangent);
    eco_tangent_pack(run);
    const struct eco_args both = both_args(run, false), cell = cell_args(run, x);
    eco_sequence_run(&run->sequence, run->kind->both.plan, &both);
    if (!runs_cell(run))
        return;
    eco_tangent_pack_cell(run);
    eco_sequence_run(&run->sequence, run->kind->cell.plan, &cell);
}

/* ---- back ------------------------------------------------------------------------------------ */

static void backward_both(struct eco_tangent_run *run, const void *dy_tangent)
{
    struct eco_args args = both_args(run, true);
    args.dy = dy_tangent;
    args.dx = run->at.dboth;
    args.dweights = run->dparams ? run->at.dweights : NULL;
    eco_sequence_run(&run->sequence, run->kind->both.plan, &args);
    if (run->dparams != NULL)
        eco_tangent_unpack(run);
}

/* Runs the cell backward and adds its gradients to those of the tangent. */
static void backward_cell(struct eco_tangent_run *run, const void *dy)
{
    const struct eco_tangent_plan *plan = run->plan;
    const size_t rows = (size_t)plan->problem.D * (size_t)run->args.N, H = (size_t)plan->problem.H;
    struct eco_args args = cell_args(run, input_of(run));
    args.backward = true;
    args.dy = dy;
    args.dx = run->at.dcell;
    args.dweights = run->dparams ? run->at.dweights : NULL;
    for (int s = 0; s < plan->states; s++) {
        const size_t at = (size_t)s * rows * H * eco_type_bytes(plan->problem.type);
        args.dinitial[s] = run->args.dinitial[s] != NULL ? run->at.dinitial + at : NULL;
        args.dreset_state[s] = run->args.dreset_state[s] != NULL ? run->at.dreset + at : NULL;
    }
    eco_sequence_run(&run->sequence, run->kind->cell.plan, &args);
    for (int s = 0; s < plan->states; s++) {
        if (args.dinitial[s] != NULL)
            add(run, layer_of(run, run->args.dinitial[s]), args.dinitial[s], rows, H);
        if (args.dreset_state[s] != NULL)
            add(run, layer_of(run, run->args.dreset_state[s]), args.dreset_state[s], rows, H);
    }
    if (run->dparams != NULL)
        eco_tangent_unpack_cell(run);
}

/* dy, dy_tangent: gradients of the layer's output and of its tangent; NULL: zeros. */
static void backward(struct eco_tangent_run *run, const void *dy, const void *dy_tangent)
{
    const struct halves dinput = {run->at.dboth, (size_t)run->kind->input};
    void *dx = run->layer == 0 ? run->args.dx : run->at.dy;
    backward_both(run, dy_tangent);
    if (dy != NULL)
        backward_cell(run, dy);
    if (dx != NULL)
        get_half(run, dx, dinput, false);
    if (dx != NULL && dy != NULL)
        add(run, dx, run->at.dcell, (size_t)run->args.T * (size_t)run->args.N, dinput.width);
    if (run->layer > 0)
        get_half(run, run->at.dy_tangent, dinput, true);
    if (drops(run)) {
        drop(run, run->at.dy, run->at.dy);
        drop(run, run->at.dy_tangent, run->at.dy_tangent);
    }
}

ecornn_status eco_tangent_compute(struct eco_tangent_run *run)
{
    const int last = run->plan->problem.L - 1;
    const size_t H = (size_t)run->plan->problem.H;
    struct eco_caller caller;
    eco_caller_begin_run(&caller, run->plan->device->backend);
    run->sequence = eco_sequence_on(run->plan->device, run->args.stream);
    enter_layer(run, 0);
    eco_tangent_move(run, &(struct eco_rows_move){run->at.zeros, NULL, H, H, H, H, false, 0});
    for (int layer = 0; layer <= last; layer++) {
        const void *below = run->at.y_tangent;
        enter_layer(run, layer);
        forward(run, layer == 0 ? run->tangent.x : below);
    }
    for (int layer = last; goes_back(run) && layer >= 0; layer--) {
        enter_layer(run, layer);
        backward(run, layer == last ? run->args.dy : run->at.dy,
                 layer == last ? run->tangent.dy : run->at.dy_tangent);
    }
    eco_caller_end(&caller);
    return run->sequence.status;
}
