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

static void count_turns(struct turns *turns, const struct ecornn_net_plan *plan)
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

/* Bytes of an array [T,N,width] whose steps each stand for several steps of x. */
static struct eco_size bytes_of(const struct ecornn_net_plan *plan, int32_t before, int32_t width)
{
    const struct eco_problem *const problem = eco_net_problem(plan);
    return eco_arena_numbers(eco_type_bytes(problem->type),
                             (size_t)eco_joined(plan->sizes.steps, before), (size_t)problem->N,
                             (size_t)width);
}

/* The other blocks, in which each layer has memory of its own. */
struct blocks {
    struct eco_size params;
    struct eco_arena weights, dweights, reserve;
};

static void place_layers(struct ecornn_net_plan *plan, struct blocks *blocks)
{
    int first_param = 0;
    for (int k = 0; k < plan->layers; k++) {
        struct eco_net_layer *const layer = &plan->layer[k];
        const ecornn_sizes *const sizes = &layer->plan->sizes;
        layer->first_param = first_param;
        first_param += eco_problem_params(&layer->plan->problem);
        layer->params = blocks->params.value;
        blocks->params = eco_size_add(blocks->params, eco_size_of(sizes->params));
        layer->weights = eco_arena_take(&blocks->weights, eco_size_of(sizes->weights));
        layer->dweights = eco_arena_take(&blocks->dweights, eco_size_of(sizes->dweights));
        layer->reserve = eco_arena_take(&blocks->reserve, eco_size_of(sizes->reserve));
    }
    plan->sizes.params = first_param;
}

/* Places what a layer of piece p needs in its turn, and its y in the reserve. */
static void place_layer(struct ecornn_net_plan *plan, const struct eco_net_piece *piece, int k,
                        int turn, struct eco_arena *workspace, struct eco_arena *reserve)
{
    struct eco_net_layer *const layer = &plan->layer[k];
    const bool training = eco_net_problem(plan)->training;
    const struct eco_size y = bytes_of(plan, piece->before, layer->width);
    layer->workspace =
        eco_arena_share(workspace, eco_size_of(layer->plan->sizes.workspace), turn, turn);
    if (piece->layers == 1)
        return;
    layer->half = eco_arena_share(workspace, y, turn, turn);
    if (training)
        layer->y = eco_arena_take(reserve, y);
    if (training && k > piece->first)
        layer->dx =
            eco_arena_share(workspace, bytes_of(plan, piece->before, piece->input), turn, turn);
}

/* Places the array after piece p.  A join in between may leave its input where it is, so input and
 * output of such joins are in use as long as either is. */
static void place_slot(struct ecornn_net_plan *plan, const struct turns *turns, int p,
                       struct eco_arena *workspace, struct eco_arena *reserve)
{
    struct eco_net_piece *const piece = &plan->piece[p];
    int from = p, to = p + 1;
    const struct eco_size bytes = bytes_of(plan, piece[1].before, piece->output);
    while (from > 0 && plan->piece[from].layers == 0)
        from--;
    while (to < plan->pieces - 1 && plan->piece[to].layers == 0)
        to++;
    piece->slot = eco_arena_share(workspace, bytes, turns->first[from], turns->last[to]);
    if (eco_net_problem(plan)->training)
        piece->value = eco_arena_take(reserve, bytes);
}

static void place_pieces(struct ecornn_net_plan *plan, struct eco_arena *workspace,
                         struct eco_arena *reserve)
{
    const struct eco_size row = eco_arena_numbers(sizeof(int32_t), (size_t)plan->sizes.batch, 1, 1);
    struct turns turns;
    count_turns(&turns, plan);
    for (int p = 0; p < plan->pieces; p++)
        if (plan->piece[p].layers == 0)
            plan->piece[p].lengths = eco_arena_take(workspace, row);
    for (int p = 0; p < plan->pieces; p++) {
        const struct eco_net_piece *const piece = &plan->piece[p];
        if (p < plan->pieces - 1)
            place_slot(plan, &turns, p, workspace, reserve);
        for (int k = piece->first; k < piece->first + piece->layers; k++)
            place_layer(plan, piece, k, turn_of(&turns, piece, p, k), workspace, reserve);
    }
}

ecornn_status eco_net_place(struct ecornn_net_plan *plan)
{
    struct eco_shared_array shared[MOST_ARRAYS];
    struct eco_arena workspace = {.shared = shared, .most = MOST_ARRAYS};
    struct blocks blocks = {.params = {0}};
    plan->sizes.batch = eco_net_problem(plan)->N;
    place_layers(plan, &blocks);
    place_pieces(plan, &workspace, &blocks.reserve);
    plan->sizes.blocks = (ecornn_sizes){.params = blocks.params.value,
                                        .weights = blocks.weights.end.value,
                                        .dweights = blocks.dweights.end.value,
                                        .workspace = workspace.end.value,
                                        .reserve = blocks.reserve.end.value,
                                        .alignment = ECO_ALIGNMENT};
    return blocks.params.overflow || blocks.weights.end.overflow || blocks.dweights.end.overflow ||
                   workspace.end.overflow || blocks.reserve.end.overflow
               ? eco_fail(ECORNN_UNSUPPORTED,
                          "the blocks of the net have more bytes than can be counted")
               : ECORNN_OK;
}
