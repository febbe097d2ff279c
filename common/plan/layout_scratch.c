/*
 * Appends what operations use while they run: copies of weights, room, the exchange.
 */
#include "common/plan/cursor.h"

/* Copies of weights for products, each as large as the largest layer needs. */
static void put_weights(struct eco_layout *layout, struct eco_cursor *cursor, bool backward,
                        int lanes)
{
    struct eco_size widened = eco_size_of(0);
    for (int layer = 0; layout->request.gpu.widened && layer < 2 && layer < layout->problem->L;
         layer++) {
        const struct eco_size bytes = eco_layout_matrix_bytes(layout, layer, 0, ECO_WEIGHT_IDS);
        if (bytes.overflow || bytes.value > widened.value)
            widened = bytes;
    }
    layout->scratch[backward][ECO_SCRATCH_WIDENED] = eco_put_bytes(cursor, lanes, widened);
    layout->scratch[backward][ECO_SCRATCH_TRANSPOSED] =
        eco_put_bytes(cursor, lanes,
                      layout->request.gpu.transposed[backward]
                          ? eco_layout_matrix_bytes(layout, 0, ECO_WEIGHT_RECURRENT, ECO_WEIGHT_IDS)
                          : eco_size_of(0));
    layout->scratch[backward][ECO_SCRATCH_PREPARED] =
        eco_put_bytes(cursor, lanes, eco_size_of(layout->request.gpu.prepared_bytes[backward]));
}

static void put_resets(struct eco_layout *layout, struct eco_cursor *cursor, bool backward,
                       int lanes)
{
    const struct eco_problem *problem = layout->problem;
    for (int s = 0; problem->resets && s < problem->cell->recipe.n_states; s++) {
        const size_t width = (size_t)eco_problem_width(problem, s);
        const struct eco_layout_rows sums = {layout->sum, 0,
                                             eco_request_row(&layout->request, width)};
        if (!backward && !layout->request.gpu.lean)
            layout->replaced[s] = eco_put(cursor, lanes, eco_layout_reset_rows(layout, s, false));
        if (!backward)
            continue;
        layout->with_resets[s] = eco_put(cursor, lanes, eco_layout_reset_rows(layout, s, true));
        layout->dstart[s] = eco_put(cursor, lanes, sums);
    }
}

bool eco_layout_shares_exchange(const struct eco_layout *layout, bool backward)
{
    return layout->request.gpu.steps_exchange && layout->request.gpu.shares[backward];
}

static struct eco_size longer(struct eco_size a, struct eco_size b)
{
    return a.overflow || (!b.overflow && a.value > b.value) ? a : b;
}

static struct eco_size exchange_bytes(const struct eco_layout *layout, bool backward)
{
    const struct eco_layout_request *request = &layout->request;
    const int32_t steps =
        backward ? layout->chunk_backward : eco_even_chunk(layout, request->chunk);
    const size_t step =
        eco_bytes_by_rows(&request->exchange[backward], layout->problem->N, (int32_t)layout->N);
    return longer(eco_size_of(request->exchange_bytes),
                  eco_size_mul(eco_size_of(step), (size_t)steps));
}

/* Room of products and the exchange. */
static void put_rooms(struct eco_layout *layout, struct eco_cursor *cursor, bool backward,
                      int lanes)
{
    struct eco_series *scratch = layout->scratch[backward];
    scratch[ECO_SCRATCH_PRODUCT] =
        eco_put_bytes(cursor, lanes, eco_size_of(layout->request.gpu.product_bytes));
    scratch[ECO_SCRATCH_EXCHANGE] = eco_put_bytes(cursor, lanes, exchange_bytes(layout, backward));
}

/* The same with gathered rows, where they share their memory: for each lane the exchange, or room
 * and behind it gathered rows. */
static void put_shared(struct eco_layout *layout, struct eco_cursor *cursor, bool backward,
                       int lanes)
{
    struct eco_series *scratch = layout->scratch[backward];
    struct eco_cursor between = {.block = cursor->block, .N = cursor->N, .end = eco_size_of(0)},
                      steps = between;
    eco_put_bytes(&between, 1, eco_size_of(layout->request.gpu.product_bytes));
    scratch[ECO_SCRATCH_GATHER] =
        eco_put(&between, 1, eco_layout_scratch_rows(layout, backward, ECO_SCRATCH_GATHER));
    eco_put_bytes(&steps, 1, exchange_bytes(layout, backward));
    const struct eco_series all = eco_put_bytes(cursor, lanes, longer(steps.end, between.end));
    scratch[ECO_SCRATCH_PRODUCT] = scratch[ECO_SCRATCH_EXCHANGE] = all;
    scratch[ECO_SCRATCH_GATHER].first.offset += all.first.offset;
    scratch[ECO_SCRATCH_GATHER].bytes = all.bytes;
    scratch[ECO_SCRATCH_GATHER].count = lanes;
}

/* Accumulators of a replay in the memory of gradients of accumulators, which steps back write when
 * the chunk's replay has ended. Not on a CPU, where threads may be at different operations, nor if
 * the gradients' rows end with zeros. */
static bool replays_in_dacc(const struct eco_layout *layout)
{
    const size_t H = (size_t)layout->problem->H;
    return eco_layout_is_replay(layout) && layout->request.gpu.lean &&
           eco_request_row(&layout->request, H) == H;
}

static void put_replayed(struct eco_layout *layout, struct eco_cursor *cursor, int lanes)
{
    struct eco_series *const scratch[2] = {&layout->scratch[0][ECO_SCRATCH_ACC],
                                           &layout->scratch[1][ECO_SCRATCH_DACC]};
    struct eco_size bytes = eco_size_of(0);
    for (int back = 0; back < 2; back++) {
        struct eco_cursor end = {.block = cursor->block, .N = cursor->N, .end = eco_size_of(0)};
        *scratch[back] = eco_put(
            &end, 1,
            eco_layout_scratch_rows(layout, back == 1, back ? ECO_SCRATCH_DACC : ECO_SCRATCH_ACC));
        bytes = longer(bytes, end.end);
    }
    const struct eco_series all = eco_put_bytes(cursor, lanes, bytes);
    for (int back = 0; back < 2; back++) {
        scratch[back]->first.offset = all.first.offset;
        scratch[back]->bytes = all.bytes;
        scratch[back]->count = lanes;
    }
}

void eco_put_scratch(struct eco_layout *layout, struct eco_cursor *cursor, bool backward)
{
    const struct eco_problem *problem = layout->problem;
    const int lanes = eco_layout_overlaps(layout, backward) ? problem->L * problem->D : problem->D;
    const bool rooms = backward || !eco_layout_is_replay(layout),
               shared = rooms && eco_layout_shares_exchange(layout, backward),
               replayed = replays_in_dacc(layout);
    for (int i = 0; i < ECO_SCRATCHES; i++)
        if (!(shared && i == ECO_SCRATCH_GATHER) &&
            !(replayed && i == (backward ? ECO_SCRATCH_DACC : ECO_SCRATCH_ACC)))
            layout->scratch[backward][i] =
                eco_put(cursor, lanes, eco_layout_scratch_rows(layout, backward, i));
    if (replayed && backward)
        put_replayed(layout, cursor, lanes);
    if (rooms)
        (shared ? put_shared : put_rooms)(layout, cursor, backward, lanes);
    put_weights(layout, cursor, backward, lanes);
    put_resets(layout, cursor, backward, lanes);
    if (!backward)
        return;
    layout->scratch[1][ECO_SCRATCH_PACK] =
        eco_put_bytes(cursor, lanes, eco_layout_pack_bytes(layout));
    layout->scratch[1][ECO_SCRATCH_PACK].first.type = layout->sum;
    layout->scratch[1][ECO_SCRATCH_GRADIENT] =
        eco_put_bytes(cursor, lanes, eco_layout_gradient_bytes(layout));
    layout->scratch[1][ECO_SCRATCH_GRADIENT].first.type = layout->sum;
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        layout->carry[s] =
            eco_put(cursor, lanes,
                    (struct eco_layout_rows){
                        layout->sum, s == 0 ? layout->request.gpu.carry_planes : 0,
                        eco_request_row(&layout->request, (size_t)eco_problem_width(problem, s))});
        layout->carry[s].first.step = 0;
    }
    /* With one direction a layer writes dx where it has read dy, of the same steps. With two, one
     * direction still reads dy when the other writes. */
    const int upper = problem->L - 1;
    if (upper > 0)
        layout->dinput = eco_put(
            cursor,
            problem->D == 1                          ? 1
            : layout->request.wavefront || upper < 2 ? upper
                                                     : 2,
            (struct eco_layout_rows){
                layout->sum, layout->T,
                eco_request_row(&layout->request, (size_t)problem->D * (size_t)problem->P)});
    if (eco_layout_sums_dx(problem))
        layout->dx = eco_put(cursor, 1,
                             (struct eco_layout_rows){layout->sum, layout->T, (size_t)problem->I});
}
