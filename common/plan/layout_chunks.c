/*
 * The lengths of a run's chunks.
 */
#include "common/plan/shapes.h"

bool eco_layout_is_replay(const struct eco_layout *layout)
{
    return layout->back && eco_layout_replays(layout);
}

/* A requested chunk, at most all steps; 0: all. */
static int32_t clip_chunk(int32_t chunk, int32_t T)
{
    return chunk > 0 && chunk < T ? chunk : T;
}

int32_t eco_even_chunk(const struct eco_layout *layout, int32_t requested)
{
    const int32_t T = layout->T, planned = layout->problem->T, chunk = clip_chunk(requested, T),
                  all = T > planned - planned / 8 ? planned : T,
                  count = eco_ceil_div(all, clip_chunk(requested, all)),
                  even = eco_ceil_div(T, count);
    return layout->request.gpu.lean && T < planned && even < chunk ? even : chunk;
}

/* Forward chunk: with fewer rows than planned, as many more steps as fit into the plan's arrays. */
static int32_t chunk_of(const struct eco_layout *layout)
{
    const struct eco_layout_request *request = &layout->request;
    if (!request->cpu.by_rows || request->chunk == 0)
        return request->chunk;
    const int64_t steps = request->fuse_input && !layout->fuse_input ? 1 : request->chunk;
    int64_t chunk = steps * layout->problem->N / (layout->N > 0 ? layout->N : 1);
    if (eco_layout_replays(layout) && chunk > request->chunk)
        chunk = request->chunk; /* alternating planes number a power of two, which must not grow */
    return chunk < layout->T ? (int32_t)chunk : layout->T;
}

int32_t eco_backward_chunk(const struct eco_layout *layout)
{
    const int32_t requested = layout->request.chunk_backward,
                  most = clip_chunk(requested, layout->T),
                  every = eco_layout_replays(layout) ? layout->problem->saving.every : 1;
    const int64_t even = (int64_t)eco_ceil_div(eco_even_chunk(layout, requested), every) * every;
    return even < most ? (int32_t)even : most;
}

/* At most as many steps as one of the even parts of the plan's chunk, each of which about fits in
 * the L2 with these values, H-wide ones a row.  The plan's T and N decide: a smaller run needs no
 * more. */
static int32_t fitting_steps(const struct eco_layout *layout, int values, int32_t planned,
                             int32_t steps)
{
    enum { LEAST_STEPS = 4 };
    const double step = (double)layout->problem->N * (double)layout->problem->H * values *
                        (double)eco_type_bytes(layout->sum);
    if (step * planned <= ECO_L2_BYTES)
        return steps;
    const int32_t most = (int32_t)(ECO_L2_BYTES / step),
                  fitting = clip_chunk(most > LEAST_STEPS ? most : LEAST_STEPS, planned),
                  part = eco_ceil_div(planned, (planned + fitting / 2) / fitting);
    return steps < part ? steps : part;
}

int32_t eco_forward_chunk(const struct eco_layout *layout)
{
    const struct eco_layout_request *request = &layout->request;
    const struct eco_lowered *lowered = &layout->problem->cell->lowered;
    int32_t planned = layout->problem->T;
    if (eco_layout_is_replay(layout)) {
        const int32_t steps = clip_chunk(request->chunk, layout->chunk_backward);
        planned = clip_chunk(request->chunk, clip_chunk(request->chunk_backward, planned));
        return eco_layout_is_lean(layout) ? fitting_steps(layout, lowered->n_accs, planned, steps)
                                          : steps;
    }
    const int32_t steps = eco_even_chunk(layout, chunk_of(layout));
    planned = clip_chunk(request->chunk, planned);
    return eco_layout_narrows(layout) ? fitting_steps(layout, lowered->n_saves, planned, steps)
                                      : steps;
}
