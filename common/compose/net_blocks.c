/* Places the blocks of a net's layers, and the arrays between layers, in the blocks of the net. */
#include "common/compose/arena.h"
#include "common/compose/net.h"

enum { MOST_ARRAYS = 3 * ECO_NET_LAYERS + ECO_NET_PIECES };

/*
 * Turns in which arrays of the workspace are in use.  Layers take turns, and so do joins; layers
 * that run at the same time share one turn.  An array between two pieces is in use from the first
 * to the last turn of both, in either direction: going forward it has their values if no reserve
 * keeps them, going back their gradients.
 */
struct turns {
    int first[ECO_NET_PIECES], last[ECO_NET_PIECES];
};

static void count_turns(struct turns *turns, const struct eco_net_plan *plan)
{
    int turn = 0;
    for (int p = 0; p < plan->pieces; p++) {
        const struct eco_net_piece *const piece = &plan->piece[p];
        turns->first[p] = turn;
        turn += piece->at_once || piece->layers == 0 ? 1 : piece->layers;
        turns->last[p] = turn - 1;
    }
}

static int turn_of(const struct turns *turns, const struct eco_net_piece *piece, int p, int k)
{
    return turns->first[p] + (piece->at_once ? 0 : k - piece->first);
}

/* Bytes of an array [copies,T,N,width] of elements; p: the piece whose input has these copies and
 * steps. */
static struct eco_size bytes_of(const struct eco_net_plan *plan, int p, size_t element,
                                int32_t width)
{
    const int32_t before = p < plan->pieces ? plan->piece[p].before : plan->sizes.joined,
                  T = eco_joined(plan->sizes.steps, before);
    return eco_size_mul(
        eco_arena_numbers(element, (size_t)T, (size_t)eco_net_problem(plan)->N, (size_t)width),
        (size_t)eco_net_copies(plan, p));
}

/* The other blocks, in which each layer has memory of its own. */
struct blocks {
    struct eco_size params;
    struct eco_arena weights, dweights, reserve;
};

static void place_layers(struct eco_net_plan *plan, struct blocks *blocks)
{
    int first_param = 0;
    for (int k = 0; k < plan->layers; k++) {
        struct eco_net_layer *const layer = &plan->layer[k];
        ecornn_sizes *const sizes = &layer->plan->sizes;
        sizes->first_param = first_param;
        first_param += sizes->param_count;
        sizes->param_offset = blocks->params.value;
        blocks->params = eco_size_add(blocks->params, eco_size_of(sizes->param_elements));
        layer->weights = eco_arena_take(&blocks->weights, eco_size_of(sizes->weight_bytes));
        layer->dweights = eco_arena_take(&blocks->dweights, eco_size_of(sizes->dweight_bytes));
        layer->reserve = eco_arena_take(&blocks->reserve, eco_size_of(sizes->reserve_bytes));
        sizes->weight_offset = layer->weights;
        sizes->dweight_offset = layer->dweights;
        plan->sizes.reads_y |= sizes->reads_y;
    }
    plan->sizes.checks_lengths = !plan->device->caps.own_memory;
    plan->sizes.param_count = first_param;
}

/* Places what a layer of piece p needs in its turn, and its y in the reserve. */
static void place_layer(struct eco_net_plan *plan, int p, int k, int turn,
                        struct eco_arena *workspace, struct eco_arena *reserve)
{
    const struct eco_net_piece *const piece = &plan->piece[p];
    const size_t element = eco_type_bytes(eco_net_problem(plan)->type);
    struct eco_net_layer *const layer = &plan->layer[k];
    const bool training = eco_net_problem(plan)->training;
    const struct eco_size y = eco_size_mul(
        eco_arena_numbers(element, (size_t)eco_joined(plan->sizes.steps, piece->before),
                          (size_t)plan->sizes.batch, (size_t)layer->width),
        (size_t)eco_net_copies(plan, p + 1));
    layer->workspace =
        eco_arena_share(workspace, eco_size_of(layer->plan->sizes.workspace_bytes), turn, turn);
    if (piece->layers == 1)
        return;
    layer->half = eco_arena_share(workspace, y, turn, turn);
    if (training)
        layer->y = eco_arena_take(reserve, y);
    if (training && k > piece->first)
        layer->dx =
            eco_arena_share(workspace, bytes_of(plan, p, element, piece->input), turn, turn);
}

/* Places the array after piece p.  A piece without layers may leave its input where it is, so its
 * input and output are in use as long as either is. */
static void place_slot(struct eco_net_plan *plan, const struct turns *turns, int p,
                       struct eco_arena *workspace, struct eco_arena *reserve)
{
    struct eco_net_piece *const piece = &plan->piece[p];
    int from = p, to = p + 1;
    const struct eco_size bytes =
        bytes_of(plan, p + 1, eco_type_bytes(eco_net_problem(plan)->type), piece->output);
    while (from > 0 && plan->piece[from].layers == 0)
        from--;
    while (to < plan->pieces - 1 && plan->piece[to].layers == 0)
        to++;
    piece->slot = eco_arena_share(workspace, bytes, turns->first[from], turns->last[to]);
    if (eco_net_problem(plan)->training)
        piece->value = eco_arena_take(reserve, bytes);
}

/* Places the arrays of lengths and marks of the output of piece p, of each of its copies. */
static void place_joined(struct eco_net_plan *plan, int p, struct eco_arena *workspace)
{
    const struct eco_problem *const problem = eco_net_problem(plan);
    for (int a = 0; a < ECO_IO_ARRAYS; a++) {
        const struct eco_run_array *const array = &eco_run_array[a];
        const struct eco_run_shape shape =
            eco_run_array_shape(array, problem, 0, 1, plan->sizes.batch);
        const size_t row = eco_run_shape_bytes(&shape),
                     copies = (size_t)eco_net_copies(plan, p + 1);
        if (array->nets == ECO_NETS_JOINED && (array->flag & ~problem->flags) == 0)
            plan->piece[p].joined[a] = eco_arena_take(
                workspace, (array->letters & ECO_T) != 0 ? bytes_of(plan, p + 1, 1, 1)
                                                         : eco_arena_numbers(row, copies, 1, 1));
    }
}

/* Counts the copies of every piece's input, and places these arrays where they change: after a
 * join, and after the first layers if models share what these read. */
static void place_counts(struct eco_net_plan *plan, struct eco_arena *workspace)
{
    const struct eco_problem *const problem = eco_net_problem(plan);
    bool shared = problem->shared;
    for (int p = 0; p < plan->pieces; p++) {
        plan->piece[p].copies = shared ? 1 : problem->models;
        shared = shared && plan->piece[p].layers == 0;
    }
    for (int p = 0; p < plan->pieces; p++) {
        struct eco_net_piece *const piece = &plan->piece[p];
        piece->counts = piece->join > 1 || piece->copies != eco_net_copies(plan, p + 1);
        if (piece->counts)
            place_joined(plan, p, workspace);
    }
}

static void place_pieces(struct eco_net_plan *plan, struct eco_arena *workspace,
                         struct eco_arena *reserve)
{
    struct turns turns;
    count_turns(&turns, plan);
    place_counts(plan, workspace);
    for (int p = 0; p < plan->pieces; p++) {
        const struct eco_net_piece *const piece = &plan->piece[p];
        if (p < plan->pieces - 1)
            place_slot(plan, &turns, p, workspace, reserve);
        for (int k = piece->first; k < piece->first + piece->layers; k++)
            place_layer(plan, p, k, turn_of(&turns, piece, p, k), workspace, reserve);
    }
}

ecornn_status eco_net_place(struct eco_net_plan *plan)
{
    struct eco_shared_array shared[MOST_ARRAYS];
    struct eco_arena workspace = {.shared = shared, .most = MOST_ARRAYS};
    struct blocks blocks = {.params = {0}};
    plan->sizes.batch = eco_net_problem(plan)->N;
    plan->sizes.models = eco_net_problem(plan)->models;
    place_layers(plan, &blocks);
    place_pieces(plan, &workspace, &blocks.reserve);
    plan->sizes.param_elements = blocks.params.value;
    plan->sizes.weight_bytes = blocks.weights.end.value;
    plan->sizes.dweight_bytes = blocks.dweights.end.value;
    plan->sizes.workspace_bytes = workspace.end.value;
    plan->sizes.reserve_bytes = blocks.reserve.end.value;
    plan->sizes.alignment = ECO_ALIGNMENT;
    return blocks.params.overflow || blocks.weights.end.overflow || blocks.dweights.end.overflow ||
                   workspace.end.overflow || blocks.reserve.end.overflow
               ? eco_fail(ECORNN_UNSUPPORTED,
                          "the blocks of the net have more bytes than can be counted")
               : ECORNN_OK;
}
