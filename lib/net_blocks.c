/* Places the blocks of a net's layers, and the arrays between layers, in the blocks of the net. */
#include "lib/net.h"

#include "common/util.h"

/* Adds a part to a block of the net. Each part is aligned like memory of ecornn_alloc, because a
 * GPU chooses products by alignment. */
static size_t take(struct eco_size *block, struct eco_size bytes)
{
    enum { ALIGNMENT = 256 };
    const size_t at = block->value;
    *block = eco_size_add(eco_size_add(*block, bytes), eco_size_of(ALIGNMENT - 1));
    block->value = block->value / ALIGNMENT * ALIGNMENT;
    return at;
}

/* Bytes of an array [T,N,width] whose steps each stand for several steps of x. */
static struct eco_size bytes_of(const struct ecornn_net_plan *plan, int32_t before, int32_t width)
{
    const struct eco_problem *const problem = eco_net_problem(plan);
    struct eco_size bytes = eco_size_of(eco_type_bytes(problem->type));
    bytes = eco_size_mul(bytes, (size_t)eco_joined(plan->sizes.steps, before));
    return eco_size_mul(eco_size_mul(bytes, (size_t)problem->N), (size_t)width);
}

static void largest(struct eco_size *most, struct eco_size bytes)
{
    most->overflow |= bytes.overflow;
    if (bytes.value > most->value)
        most->value = bytes.value;
}

/* Places the workspace of layers. Layers that are not concurrent use the same memory in turn. */
static struct eco_size place_workspaces(struct ecornn_net_plan *plan)
{
    struct eco_size most = eco_size_of(0);
    for (int p = 0; p < plan->pieces; p++) {
        const struct eco_net_piece *const piece = &plan->piece[p];
        struct eco_size taken = eco_size_of(0);
        for (int k = piece->first; k < piece->first + piece->layers; k++) {
            struct eco_net_layer *const layer = &plan->layer[k];
            taken = piece->at_once ? taken : eco_size_of(0);
            layer->workspace = take(&taken, eco_size_of(layer->plan->sizes.workspace));
            largest(&most, taken);
        }
    }
    return most;
}

/* Places what each layer has for itself; returns the workspace of all. */
static struct eco_size place_layers(struct ecornn_net_plan *plan, struct eco_size *reserve)
{
    struct eco_size params = eco_size_of(0), weights = params, dweights = params,
                    most = place_workspaces(plan);
    int first_param = 0;
    for (int k = 0; k < plan->layers; k++) {
        struct eco_net_layer *const layer = &plan->layer[k];
        const ecornn_sizes *const sizes = &layer->plan->sizes;
        layer->first_param = first_param;
        first_param += eco_problem_params(&layer->plan->problem);
        layer->params = params.value;
        params = eco_size_add(params, eco_size_of(sizes->params));
        layer->weights = take(&weights, eco_size_of(sizes->weights));
        layer->dweights = take(&dweights, eco_size_of(sizes->dweights));
        layer->reserve = take(reserve, eco_size_of(sizes->reserve));
    }
    plan->sizes.params = first_param;
    plan->sizes.blocks = (ecornn_sizes){.params = params.value,
                                        .weights = weights.value,
                                        .dweights = dweights.value,
                                        .alignment = ECO_ALIGNMENT};
    most.overflow |= params.overflow || weights.overflow || dweights.overflow;
    return most;
}

/* The largest arrays between pieces. */
struct between {
    struct eco_size value, half, dx;
};

/* Places the arrays of layers side by side: one that they use in turn, or one for each. */
static void place_halves(struct ecornn_net_plan *plan, const struct eco_net_piece *piece,
                         struct eco_size *reserve, struct between *most)
{
    const bool training = eco_net_problem(plan)->training;
    struct eco_size halves = eco_size_of(0), dxs = halves;
    for (int k = piece->first; k < piece->first + piece->layers; k++) {
        struct eco_net_layer *const layer = &plan->layer[k];
        const struct eco_size y = bytes_of(plan, piece->before, layer->width);
        if (!piece->at_once)
            halves = dxs = eco_size_of(0);
        layer->half = take(&halves, y);
        if (training)
            layer->y = take(reserve, y);
        if (training && k > piece->first)
            layer->dx = take(&dxs, bytes_of(plan, piece->before, piece->input));
        largest(&most->half, halves);
        largest(&most->dx, dxs);
    }
}

static void place_values(struct ecornn_net_plan *plan, struct eco_size *reserve,
                         struct between *most)
{
    const bool training = eco_net_problem(plan)->training;
    for (int p = 0; p < plan->pieces; p++) {
        struct eco_net_piece *const piece = &plan->piece[p];
        const bool last = p == plan->pieces - 1;
        const struct eco_size value =
            bytes_of(plan, last ? plan->sizes.joined : piece[1].before, piece->output);
        if (!last)
            largest(&most->value, value);
        if (!last && training)
            piece->value = take(reserve, value);
        if (piece->layers > 1)
            place_halves(plan, piece, reserve, most);
    }
}

ecornn_status eco_net_place(struct ecornn_net_plan *plan)
{
    struct between most = {eco_size_of(0), eco_size_of(0), eco_size_of(0)};
    plan->sizes.batch = eco_net_problem(plan)->N;
    struct eco_size reserve = eco_size_of(0), workspace = eco_size_of(0);
    const struct eco_size layers = place_layers(plan, &reserve);
    const struct eco_size lengths = eco_size_mul(
        eco_size_of(sizeof(int32_t) * (size_t)plan->pieces), (size_t)plan->sizes.batch);
    place_values(plan, &reserve, &most);
    take(&workspace, layers);
    plan->workspace.lengths = take(&workspace, lengths);
    for (int k = 0; k < 2; k++)
        plan->workspace.slot[k] = take(&workspace, most.value);
    plan->workspace.half = take(&workspace, most.half);
    plan->workspace.dx = take(&workspace, most.dx);
    plan->sizes.blocks.workspace = workspace.value;
    plan->sizes.blocks.reserve = reserve.value;
    return workspace.overflow || reserve.overflow
               ? eco_fail(ECORNN_UNSUPPORTED,
                          "the blocks of the net have more bytes than can be counted")
               : ECORNN_OK;
}
