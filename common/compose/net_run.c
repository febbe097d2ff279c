/*
 * The program of a net: piece after piece, forward or backward.
 */
#include "common/caller.h"
#include "common/compose/arena.h"
#include "common/compose/net.h"
#include "common/compose/sequence.h"
#include "common/run_arrays.h"
#include "common/seed.h"

/* ---- where things are ------------------------------------------------------------------------ */

static void *in_workspace(const struct eco_net_run *run, size_t bytes)
{
    return eco_after(run->args.workspace, bytes);
}

/* Array a, which joins change, of copy m of piece p's input. */
static const void *joined_of(const struct eco_net_run *run, int p, int a, size_t m)
{
    const struct eco_run_shape shape = eco_run_array_shape(
        &eco_run_array[a], eco_net_problem(run->plan), 0, run->steps[p], run->args.N);
    return eco_after(run->joined[p][a], m * eco_run_shape_bytes(&shape));
}

/* The arguments of a run over the steps of copy m of piece p's input, or, after the last piece, y.
 * It has no arrays but those that joins change. */
static struct eco_args args_at(const struct eco_net_run *run, int p, size_t m)
{
    struct eco_args args = run->args;
    args.T = run->steps[p];
    for (int a = 0; a < ECO_RUN_ARRAYS; a++) {
        const struct eco_run_array *const array = &eco_run_array[a];
        for (int s = 0; s < array->count; s++)
            eco_run_array_set(&args, array, s,
                              array->nets == ECO_NETS_JOINED ? joined_of(run, p, a, m) : NULL);
    }
    return args;
}

/* The field of struct eco_args at this offset, an array that joins change, for piece p. */
static const void *joined_at(const struct eco_net_run *run, int p, size_t at)
{
    int a = 0;
    while (eco_run_array[a].at != at)
        a++;
    return run->joined[p][a];
}

static bool is_last(const struct eco_net_run *run, int p)
{
    return p == run->plan->pieces - 1;
}

/* Is the output of a piece between layers the same memory as its input? Dropout does nothing
 * without a reserve. A join does nothing if the steps of a row are adjacent, groups of steps are
 * complete, and steps that a row does not have are already zero. */
static bool is_view(const struct eco_net_run *run, int p)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    const struct eco_problem *const problem = eco_net_problem(run->plan);
    const bool dense = problem->batch_major || run->args.N == 1;
    if (piece->layers > 0 || is_last(run, p))
        return false;
    if (piece->dropout > 0)
        return run->args.reserve == NULL;
    const bool zeros =
        joined_at(run, p, offsetof(struct eco_args, mask)) == NULL &&
        !(problem->repeats && joined_at(run, p, offsetof(struct eco_args, lengths)) != NULL);
    return p > 0 && dense && run->steps[p] % piece->join == 0 && zeros;
}

static void *output_of(const struct eco_net_run *run, int p)
{
    if (is_last(run, p))
        return run->args.y;
    if (is_view(run, p))
        return run->value[p];
    return run->args.reserve != NULL ? eco_after(run->args.reserve, run->plan->piece[p].value)
                                     : in_workspace(run, run->plan->piece[p].slot);
}

/* Finds the arrays of x that joins change, then those of the output of each piece: as those of its
 * input, or of its own. */
static void begin_joined(struct eco_net_run *run)
{
    const struct eco_args *const args = &run->args;
    for (int a = 0; a < ECO_IO_ARRAYS; a++) {
        const bool any = eco_run_array[a].nets == ECO_NETS_JOINED && args->T > 0 && args->N > 0;
        run->joined[0][a] = any ? eco_run_array_get(args, &eco_run_array[a], 0) : NULL;
        for (int p = 0; p < run->plan->pieces; p++) {
            const struct eco_net_piece *const piece = &run->plan->piece[p];
            run->joined[p + 1][a] = run->joined[p][a] != NULL && piece->counts
                                        ? in_workspace(run, piece->joined[a])
                                        : run->joined[p][a];
        }
    }
}

void eco_net_begin(struct eco_net_run *run)
{
    const struct eco_net_plan *const plan = run->plan;
    run->steps[0] = run->args.T;
    run->value[0] = eco_after(run->args.x, 0);
    begin_joined(run);
    for (int p = 0; p < plan->pieces; p++) {
        const struct eco_net_piece *const piece = &plan->piece[p];
        run->steps[p + 1] = eco_joined(run->steps[p], piece->join);
        run->value[p + 1] = output_of(run, p);
    }
}

/* The memory for the gradient of piece p's input. */
static void *dinput_of(const struct eco_net_run *run, int p)
{
    if (p == 0)
        return run->args.dx;
    if (is_view(run, p))
        return run->dvalue[p + 1];
    if (run->plan->piece[p].layers == 0 && run->dvalue[p + 1] == NULL)
        return NULL;
    return in_workspace(run, run->plan->piece[p - 1].slot);
}

/* ---- a layer --------------------------------------------------------------------------------- */

static int piece_of(const struct eco_net_plan *plan, int k)
{
    int p = 0;
    while (k >= plan->piece[p].first + plan->piece[p].layers)
        p++;
    return p;
}

/* y of a layer: its piece's output, or, if other layers are side by side with it, its own. */
static void *y_of(const struct eco_net_run *run, int p, int k)
{
    const struct eco_net_layer *const layer = &run->plan->layer[k];
    if (run->plan->piece[p].layers == 1)
        return run->value[p + 1];
    return run->args.reserve != NULL ? eco_after(run->args.reserve, layer->y)
                                     : in_workspace(run, layer->half);
}

static void *dy_of(const struct eco_net_run *run, int p, int k)
{
    return run->plan->piece[p].layers == 1 || run->dvalue[p + 1] == NULL
               ? run->dvalue[p + 1]
               : in_workspace(run, run->plan->layer[k].half);
}

/* The first layer writes the piece's dx, to which those of the others are added. */
static void *dx_of(const struct eco_net_run *run, int p, int k)
{
    return run->dvalue[p] == NULL || k == run->plan->piece[p].first
               ? run->dvalue[p]
               : in_workspace(run, run->plan->layer[k].dx);
}

/* The layer's arrays of states; backward reads no states of every step. */
static void take_states(const struct eco_net_run *run, int k, struct eco_args *args)
{
    for (int a = 0; run->states != NULL && a < eco_run_arrays(args); a++)
        if (eco_run_array[a].nets == ECO_NETS_LAYERS)
            eco_run_array_copy(args, &run->states[k], &eco_run_array[a]);
    for (int s = 0; args->backward && s < ECO_MAX_STATES; s++)
        args->states[s] = NULL;
}

struct eco_args eco_net_layer_args(const struct eco_net_run *run, int k)
{
    const int p = piece_of(run->plan, k);
    const struct eco_net_layer *const layer = &run->plan->layer[k];
    struct eco_args args = args_at(run, p, 0);
    args.x = run->value[p];
    args.y = y_of(run, p, k);
    args.dy = dy_of(run, p, k);
    args.dx = dx_of(run, p, k);
    args.weights = eco_after(run->args.weights, layer->weights);
    args.dweights = eco_after(run->args.dweights, layer->dweights);
    args.reserve = eco_after(run->args.reserve, layer->reserve);
    args.workspace = in_workspace(run, layer->workspace);
    args.workspace_bytes = args.reserve_bytes = 0; /* checked for all */
    args.seed = eco_seed_of(args.seed, ECO_SEED_LAYER, (uint32_t)k);
    args.first_step /= (uint32_t)run->plan->piece[p].before;
    take_states(run, k, &args);
    return args;
}

ecornn_status eco_net_fail(ecornn_status status, int layer)
{
    char detail[ECO_MAX_DETAIL];
    eco_fail_keep(detail);
    return eco_fail(status, "layer %d of a net: %s", layer, detail);
}

static void run_layer(const struct eco_net_run *run, int k, struct eco_sequence *sequence)
{
    const struct eco_args args = eco_net_layer_args(run, k);
    const bool ran = sequence->status == ECORNN_OK;
    eco_sequence_run(sequence, run->plan->layer[k].plan, &args);
    if (ran && sequence->status != ECORNN_OK)
        eco_net_fail(sequence->status, k);
}

/* ---- pieces without layers ------------------------------------------------------------------- */

/* Bytes of one copy [T,N,width] of the input of piece p, or of y. */
static size_t bytes_of(const struct eco_net_run *run, int p, int32_t width)
{
    return (size_t)run->steps[p] * (size_t)run->args.N * (size_t)width *
           eco_type_bytes(eco_net_problem(run->plan)->type);
}

/* Joins each copy of an array whose steps are those of piece p; U: the number of joined steps. */
static void join(const struct eco_net_run *run, int p, struct eco_join join, int copies,
                 struct eco_sequence *sequence)
{
    const struct eco_problem *const problem = eco_net_problem(run->plan);
    const size_t rows = (size_t)run->steps[p] * (size_t)run->args.N;
    join.T = run->steps[p];
    join.U = eco_joined(join.T, join.steps);
    join.N = run->args.N;
    join.batch_major = problem->batch_major;
    join.type = problem->type;
    join.back = run->args.backward;
    for (int m = 0; rows > 0 && m < copies; m++) {
        eco_sequence_calls(sequence, &(struct eco_call){ECO_CALL_JOIN, {.join = join}}, 1);
        join.narrow = eco_after(join.narrow, bytes_of(run, p, join.width));
        join.wide = eco_after(join.wide, bytes_of(run, p, 1) / (size_t)join.T * (size_t)join.U *
                                             (size_t)join.row);
        join.lengths = eco_after(join.lengths, (size_t)join.N * sizeof *join.lengths);
        join.mask = eco_after(join.mask, rows);
    }
}

/* Joins the steps before piece p; backward, takes them apart. */
static void join_steps(const struct eco_net_run *run, int p, void *const *value,
                       struct eco_sequence *sequence)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    const struct eco_join steps = {.narrow = value[p],
                                   .wide = value[p + 1],
                                   .lengths = joined_at(run, p, offsetof(struct eco_args, lengths)),
                                   .mask = joined_at(run, p, offsetof(struct eco_args, mask)),
                                   .steps = piece->join,
                                   .width = piece->input,
                                   .row = piece->output};
    join(run, p, steps, piece->copies, sequence);
}

/* Drops elements of the input of piece p, or of the gradient of its output. */
static void drop(const struct eco_net_run *run, int p, void *const *value,
                 struct eco_sequence *sequence)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    const struct eco_problem *const problem = eco_net_problem(run->plan);
    const size_t bytes = bytes_of(run, p, piece->input);
    const int from = run->args.backward ? p + 1 : p, to = run->args.backward ? p : p + 1;
    const uint64_t seed = eco_seed_of(run->args.seed, ECO_SEED_PIECE, (uint32_t)p + 1);
    for (uint32_t m = 0; bytes > 0 && m < (uint32_t)piece->copies; m++) {
        const struct eco_drop one = {.to = eco_after(value[to], m * bytes),
                                     .from = eco_after(value[from], m * bytes),
                                     .T = run->steps[p],
                                     .N = run->args.N,
                                     .width = piece->input,
                                     .batch_major = problem->batch_major,
                                     .type = problem->type,
                                     .p = run->args.reserve != NULL ? piece->dropout : 0,
                                     .seed = eco_seed_of(seed, ECO_SEED_MODEL, m),
                                     .first_step = run->args.first_step / (uint32_t)piece->before,
                                     .first_row = run->args.first_row};
        eco_sequence_calls(sequence, &(struct eco_call){ECO_CALL_DROP, {.drop = one}}, 1);
    }
}

static void run_between(const struct eco_net_run *run, int p, struct eco_sequence *sequence)
{
    void *const *const value = run->args.backward ? run->dvalue : run->value;
    if (!is_view(run, p) && value[run->args.backward ? p : p + 1] != NULL)
        (run->plan->piece[p].dropout > 0 ? drop : join_steps)(run, p, value, sequence);
}

/* Copies the columns of one of several parallel layers to or from the piece's output. */
static void join_columns(const struct eco_net_run *run, int p, int k, struct eco_sequence *sequence)
{
    const struct eco_net_layer *const layer = &run->plan->layer[k];
    const struct eco_join columns = {
        .narrow = run->args.backward ? dy_of(run, p, k) : y_of(run, p, k),
        .wide = run->args.backward ? run->dvalue[p + 1] : run->value[p + 1],
        .steps = 1,
        .width = layer->width,
        .row = run->plan->piece[p].output,
        .at = layer->column};
    if (columns.wide != NULL)
        join(run, p, columns, eco_net_copies(run->plan, p + 1), sequence);
}

/* ---- parallel layers ------------------------------------------------------------------------- */

struct parallel {
    const struct eco_net_run *run;
    int p;
};

static void run_parallel(const void *program, int i, struct eco_sequence *sequence)
{
    const struct parallel *const parallel = program;
    const struct eco_net_run *const run = parallel->run;
    const int k = run->plan->piece[parallel->p].first + i;
    if (run->args.backward)
        join_columns(run, parallel->p, k, sequence);
    run_layer(run, k, sequence);
    if (!run->args.backward)
        join_columns(run, parallel->p, k, sequence);
}

static void add_dx(const struct eco_net_run *run, int p, int k, struct eco_sequence *sequence)
{
    const size_t width = (size_t)run->plan->piece[p].input;
    const struct eco_rows_move sum = {.to = run->dvalue[p],
                                      .from = dx_of(run, p, k),
                                      .to_row = width,
                                      .from_row = width,
                                      .rows = bytes_of(run, p, run->plan->piece[p].copies) /
                                              eco_type_bytes(eco_net_problem(run->plan)->type),
                                      .width = width,
                                      .add = true,
                                      .type = eco_net_problem(run->plan)->type};
    if (run->args.backward && sum.to != NULL && sum.to != sum.from && sum.rows > 0)
        eco_sequence_move(sequence, &sum);
}

/* Adds up dx in the order of the layers, after all of them have run. */
static void add_all(const void *program, struct eco_sequence *sequence)
{
    const struct parallel *const parallel = program;
    const struct eco_net_piece *const piece = &parallel->run->plan->piece[parallel->p];
    for (int i = 0; i < piece->layers; i++)
        add_dx(parallel->run, parallel->p, piece->first + i, sequence);
}

/* Layers in order use the same memory in turn, so each dx is added before the next layer runs. */
static void run_layers(const struct eco_net_run *run, int p, struct eco_sequence *sequence)
{
    const struct eco_net_piece *const piece = &run->plan->piece[p];
    const struct parallel parallel = {run, p};
    if (piece->at_once && run->steps[p] > 0 && run->args.N > 0) {
        eco_sequence_jobs(sequence, &(struct eco_program_jobs){.jobs = piece->layers,
                                                               .lanes = piece->layers,
                                                               .one = run_parallel,
                                                               .last = add_all,
                                                               .program = &parallel});
        return;
    }
    for (int i = 0; i < piece->layers; i++) {
        if (piece->layers == 1)
            run_layer(run, piece->first, sequence);
        else
            run_parallel(&parallel, i, sequence);
        add_dx(run, p, piece->first + i, sequence);
    }
}

/* ---- forward and back ------------------------------------------------------------------------ */

/* Fills the step arrays of the output of piece p for one of its copies. */
static void count_copy(const struct eco_net_run *run, int p, size_t m,
                       struct eco_sequence *sequence)
{
    const struct eco_args in = args_at(run, p, eco_net_copies(run->plan, p) > 1 ? m : 0),
                          out = args_at(run, p + 1, m);
    const int32_t steps = run->plan->piece[p].join;
    const struct eco_join_lengths lengths = {
        .to = eco_after(out.lengths, 0), .from = in.lengths, .N = in.N, .steps = steps};
    struct eco_join_bytes bytes = {
        .mask = in.mask, .lengths = in.lengths, .T = in.T, .U = out.T, .N = in.N, .steps = steps};
    if (lengths.to != NULL)
        eco_sequence_calls(sequence, &(struct eco_call){ECO_CALL_LENGTHS, {.lengths = lengths}}, 1);
    for (int a = 0; a < ECO_IO_ARRAYS; a++) {
        bytes.to = eco_after(eco_run_array_get(&out, &eco_run_array[a], 0), 0);
        bytes.from = eco_run_array_get(&in, &eco_run_array[a], 0);
        if (eco_run_array[a].element == ECO_ARRAY_MARK && bytes.to != NULL)
            eco_sequence_calls(sequence, &(struct eco_call){ECO_CALL_BYTES, {.bytes = bytes}}, 1);
    }
}

static void count(const struct eco_net_run *run, struct eco_sequence *sequence)
{
    bool any = false;
    for (int a = 0; a < ECO_IO_ARRAYS; a++)
        any = any || run->joined[0][a] != NULL;
    for (int p = 0; any && p < run->plan->pieces; p++)
        for (int m = 0; run->plan->piece[p].counts && m < eco_net_copies(run->plan, p + 1); m++)
            count_copy(run, p, (size_t)m, sequence);
}

static void run_piece(struct eco_net_run *run, int p, struct eco_sequence *sequence)
{
    if (run->args.backward)
        run->dvalue[p] = dinput_of(run, p);
    (run->plan->piece[p].layers == 0 ? run_between : run_layers)(run, p, sequence);
}

ecornn_status eco_net_compute(struct eco_net_run *run)
{
    const int pieces = run->plan->pieces;
    const bool backward = run->args.backward;
    struct eco_sequence sequence = eco_sequence_on(run->plan->device, run->args.stream);
    struct eco_caller caller;
    eco_caller_begin_run(&caller, run->plan->device->backend);
    run->dvalue[pieces] = eco_after(run->args.dy, 0);
    count(run, &sequence);
    for (int p = 0; p < pieces; p++)
        run_piece(run, backward ? pieces - 1 - p : p, &sequence);
    eco_caller_end(&caller);
    return sequence.status;
}
