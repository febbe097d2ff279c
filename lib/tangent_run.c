/*
 * A run of tangents: forward layer by layer, then backward. The output of a layer's tangent plan is
 * the derivative of the layer's output. The gradient of the output itself goes backward through the
 * cell's own plan. The gradients of both are added, because backward is linear in the incoming
 * gradient.
 */
#include "lib/tangent.h"

/* ---- memory ---------------------------------------------------------------------------------- */

struct arena {
    char *base;
    struct eco_size used;
};

static char *take(struct arena *arena, struct eco_size bytes)
{
    char *at = arena->base == NULL ? NULL : arena->base + arena->used.value;
    arena->used = eco_size_align(eco_size_add(arena->used, eco_size_align(bytes)));
    arena->used.overflow |= bytes.overflow;
    return at;
}

static char *take_numbers(struct arena *arena, const struct ecornn_tangent_plan *plan, size_t a,
                          size_t b, size_t c)
{
    const struct eco_size bytes = eco_size_of(eco_type_bytes(plan->type));
    return take(arena, eco_size_mul(eco_size_mul(eco_size_mul(bytes, a), b), c));
}

static void take_shared(struct arena *arena, const struct ecornn_tangent_plan *plan,
                        struct eco_tangent_areas *areas)
{
    const size_t T = (size_t)plan->T, N = (size_t)plan->N, H = (size_t)plan->H, D = (size_t)plan->D;
    const size_t I = eco_larger((size_t)plan->layer[0].input, (size_t)plan->layer[1].input);
    size_t workspace = 0, dweights = 0;
    for (int k = 0; k < 2; k++) {
        const struct eco_tangent_layer *kind = &plan->layer[k];
        workspace = eco_larger(workspace,
                               eco_larger(kind->cell.sizes.workspace, kind->both.sizes.workspace));
        dweights =
            eco_larger(dweights, eco_larger(kind->cell.sizes.dweights, kind->both.sizes.dweights));
    }
    areas->workspace = take(arena, eco_size_of(workspace));
    areas->zeros = take_numbers(arena, plan, H, H, 1);
    areas->matrices =
        take_numbers(arena, plan, (size_t)plan->tangent->cell.recipe.n_params * D, H, 2 * I);
    if (!plan->training)
        return;
    areas->dweights = take(arena, eco_size_of(dweights));
    areas->dboth = take_numbers(arena, plan, T, N, 2 * I);
    areas->dcell = take_numbers(arena, plan, T, N, I);
    areas->dy = take_numbers(arena, plan, T, N, D * H);
    areas->dy_tangent = take_numbers(arena, plan, T, N, D * H);
    areas->dinitial = take_numbers(arena, plan, (size_t)plan->states * D, N, H);
}

struct eco_size eco_tangent_place(const struct ecornn_tangent_plan *plan, char *base, int layer,
                                  struct eco_tangent_areas *areas)
{
    const size_t T = (size_t)plan->T, N = (size_t)plan->N;
    const size_t width = (size_t)plan->D * (size_t)plan->H;
    struct arena arena = {base, eco_size_of(0)};
    take_shared(&arena, plan, areas);
    for (int l = 0; l <= layer; l++) {
        const struct eco_tangent_layer *kind = &plan->layer[l > 0];
        areas->both_weights = take(&arena, eco_size_of(kind->both.sizes.weights));
        areas->cell_weights = take(&arena, eco_size_of(kind->cell.sizes.weights));
        areas->both_reserve = take(&arena, eco_size_of(kind->both.sizes.reserve));
        areas->cell_reserve = take(&arena, eco_size_of(kind->cell.sizes.reserve));
        areas->input = take_numbers(&arena, plan, T, N, 2 * (size_t)kind->input);
        areas->y = take_numbers(&arena, plan, T, N, width);
        areas->y_tangent = take_numbers(&arena, plan, T, N, width);
    }
    return arena.used;
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* The two halves of a sequence [T,N,2I] from, or to, sequences [T,N,I]. */
struct halves {
    char *wide;
    size_t width; /* I */
};

static void put_half(struct eco_tangent_run *run, struct halves to, bool second, const void *from)
{
    const size_t bytes = eco_type_bytes(run->plan->type);
    eco_tangent_move(run, &(struct eco_rows_move){.to = to.wide + second * to.width * bytes,
                                                  .from = from,
                                                  .to_row = 2 * to.width,
                                                  .from_row = to.width,
                                                  .rows = (size_t)run->T * (size_t)run->N,
                                                  .width = to.width});
}

static void get_half(struct eco_tangent_run *run, void *to, struct halves from, bool second)
{
    const size_t bytes = eco_type_bytes(run->plan->type);
    eco_tangent_move(run, &(struct eco_rows_move){.to = to,
                                                  .from = from.wide + second * from.width * bytes,
                                                  .to_row = from.width,
                                                  .from_row = 2 * from.width,
                                                  .rows = (size_t)run->T * (size_t)run->N,
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
    eco_tangent_place(run->plan, run->io->workspace, layer, &run->at);
}

static bool is_last(const struct eco_tangent_run *run)
{
    return run->layer == run->plan->L - 1;
}

static bool goes_back(const ecornn_tangent_io *io)
{
    bool wanted = io->dx != NULL || io->dparams != NULL;
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        wanted |= io->dinitial[s] != NULL;
    return wanted;
}

/* Does the cell itself run, in addition to its tangent? */
static bool runs_cell(const struct eco_tangent_run *run)
{
    const ecornn_tangent_io *io = run->io;
    return !is_last(run) || io->y != NULL || (goes_back(io) && io->dy != NULL);
}

/* The layer's part of a state [L*D,N,H]; NULL stays NULL. */
static void *layer_of(const struct eco_tangent_run *run, const void *states)
{
    const struct ecornn_tangent_plan *plan = run->plan;
    const size_t rows = (size_t)(run->layer * plan->D) * (size_t)run->N;
    return states == NULL
               ? NULL
               : (char *)(uintptr_t)states + rows * (size_t)plan->H * eco_type_bytes(plan->type);
}

/* The arguments of a run of either plan, without x, y, states, weights and reserve. */
static ecornn_io io_of(const struct eco_tangent_run *run)
{
    return (ecornn_io){.size = sizeof(ecornn_io),
                       .steps = run->T,
                       .batch = run->N,
                       .lengths = run->io->lengths,
                       .workspace = run->at.workspace,
                       .seed = run->io->seed,
                       .stream = run->io->stream};
}

static ecornn_io both_io(const struct eco_tangent_run *run)
{
    const int S = run->plan->states;
    ecornn_io io = io_of(run);
    io.x = run->at.input;
    io.y = is_last(run) && run->io->y_tangent ? run->io->y_tangent : run->at.y_tangent;
    io.weights = run->at.both_weights;
    io.reserve = run->plan->training ? run->at.both_reserve : NULL;
    for (int s = 0; s < S; s++) {
        io.initial[s] = layer_of(run, run->io->initial_tangent[s]);
        io.initial[S + s] = layer_of(run, run->io->initial[s]);
        io.final[s] = layer_of(run, run->io->final_tangent[s]);
        io.final[S + s] = layer_of(run, run->io->final[s]);
    }
    return io;
}

static ecornn_io cell_io(const struct eco_tangent_run *run, const void *x)
{
    ecornn_io io = io_of(run);
    io.x = x;
    io.y = is_last(run) && run->io->y ? run->io->y : run->at.y;
    io.weights = run->at.cell_weights;
    io.reserve = run->plan->training ? run->at.cell_reserve : NULL;
    for (int s = 0; s < run->plan->states; s++)
        io.initial[s] = layer_of(run, run->io->initial[s]);
    return io;
}

/* The layer's x: the caller's, or y of the layer below. */
static const void *input_of(const struct eco_tangent_run *run)
{
    struct eco_tangent_areas below;
    if (run->layer == 0)
        return run->io->x;
    eco_tangent_place(run->plan, run->io->workspace, run->layer - 1, &below);
    return below.y;
}

static void forward(struct eco_tangent_run *run, const void *x_tangent)
{
    const void *x = input_of(run);
    const struct halves input = {run->at.input, (size_t)run->kind->input};
    put_half(run, input, false, x);
    put_half(run, input, true, x_tangent);
    eco_tangent_pack(run);
    const ecornn_io both = both_io(run), cell = cell_io(run, x);
    if (run->status == ECORNN_OK)
        run->status = ecornn_forward(run->kind->both.plan, &both);
    if (!runs_cell(run))
        return;
    eco_tangent_pack_cell(run);
    if (run->status == ECORNN_OK)
        run->status = ecornn_forward(run->kind->cell.plan, &cell);
}

/* ---- back ------------------------------------------------------------------------------------ */

static void backward_both(struct eco_tangent_run *run, const void *dy_tangent)
{
    const int S = run->plan->states;
    const ecornn_io io = both_io(run);
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = dy_tangent,
                                .dx = run->at.dboth,
                                .dweights = run->io->dparams ? run->at.dweights : NULL};
    for (int s = 0; s < S; s++) {
        gradient.dfinal[s] = layer_of(run, run->io->dfinal_tangent[s]);
        gradient.dfinal[S + s] = layer_of(run, run->io->dfinal[s]);
        gradient.dinitial[S + s] = layer_of(run, run->io->dinitial[s]);
    }
    if (run->status == ECORNN_OK)
        run->status = ecornn_backward(run->kind->both.plan, &io, &gradient);
    if (run->io->dparams != NULL)
        eco_tangent_unpack(run);
}

/* Runs the cell backward and adds its gradients to those of the tangent. */
static void backward_cell(struct eco_tangent_run *run, const void *dy)
{
    const struct ecornn_tangent_plan *plan = run->plan;
    const size_t rows = (size_t)plan->D * (size_t)run->N, H = (size_t)plan->H;
    const ecornn_io io = cell_io(run, input_of(run));
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = dy,
                                .dx = run->at.dcell,
                                .dweights = run->io->dparams ? run->at.dweights : NULL};
    for (int s = 0; s < plan->states; s++)
        if (run->io->dinitial[s] != NULL)
            gradient.dinitial[s] =
                run->at.dinitial + (size_t)s * rows * H * eco_type_bytes(plan->type);
    if (run->status == ECORNN_OK)
        run->status = ecornn_backward(run->kind->cell.plan, &io, &gradient);
    for (int s = 0; s < plan->states; s++)
        if (run->io->dinitial[s] != NULL)
            add(run, layer_of(run, run->io->dinitial[s]), gradient.dinitial[s], rows, H);
    if (run->io->dparams != NULL)
        eco_tangent_unpack_cell(run);
}

/* dy, dy_tangent: gradients of the layer's output and of its tangent; NULL: zeros. */
static void backward(struct eco_tangent_run *run, const void *dy, const void *dy_tangent)
{
    const struct halves dinput = {run->at.dboth, (size_t)run->kind->input};
    void *dx = run->layer == 0 ? run->io->dx : run->at.dy;
    backward_both(run, dy_tangent);
    if (dy != NULL)
        backward_cell(run, dy);
    if (dx != NULL)
        get_half(run, dx, dinput, false);
    if (dx != NULL && dy != NULL)
        add(run, dx, run->at.dcell, (size_t)run->T * (size_t)run->N, dinput.width);
    if (run->layer > 0)
        get_half(run, run->at.dy_tangent, dinput, true);
}

ecornn_status eco_tangent_compute(struct eco_tangent_run *run)
{
    const ecornn_tangent_io *io = run->io;
    const int last = run->plan->L - 1;
    const size_t H = (size_t)run->plan->H;
    run->status = ECORNN_OK;
    enter_layer(run, 0);
    eco_tangent_move(run, &(struct eco_rows_move){run->at.zeros, NULL, H, H, H, H, false, 0});
    for (int layer = 0; layer <= last; layer++) {
        const void *below = run->at.y_tangent;
        enter_layer(run, layer);
        forward(run, layer == 0 ? io->x_tangent : below);
    }
    for (int layer = last; goes_back(io) && layer >= 0; layer--) {
        enter_layer(run, layer);
        backward(run, layer == last ? io->dy : run->at.dy,
                 layer == last ? io->dy_tangent : run->at.dy_tangent);
    }
    return run->status;
}
