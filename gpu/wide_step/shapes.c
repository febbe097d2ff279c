/*
 * The shapes of blocks of wide steps; see args.h.
 */
#include "gpu/wide_step/wide_step.h"

#define SHAPE(number, down, across, tiles, units, stages, blocks)                                  \
    {down, across, tiles, units, stages, blocks},
const struct eco_wide_shape eco_wide_shapes[ECO_WIDE_SHAPES] = {ECO_WIDE_LIST(SHAPE)};
#undef SHAPE

int32_t eco_wide_rows(int shape)
{
    const struct eco_wide_shape *s = &eco_wide_shapes[shape];
    return ECO_WIDE_M * s->tiles * s->down;
}

int32_t eco_wide_units(int shape, int32_t accs)
{
    const struct eco_wide_shape *s = &eco_wide_shapes[shape];
    return s->units * s->across * ECO_WIDE_MORE(accs);
}

size_t eco_wide_shared(int shape, int32_t accs)
{
    const size_t columns = (size_t)accs * (size_t)eco_wide_units(shape, accs),
                 lines = (size_t)eco_wide_rows(shape) + columns;
    return (size_t)eco_wide_shapes[shape].stages * (lines * ECO_WIDE_LINE + ECO_WIDE_BARRIERS) +
           columns * sizeof(float);
}

bool eco_wide_has_back(const struct eco_problem *problem, const struct eco_caps *caps, int64_t rows)
{
    enum { LEAST = 1 << 13 }; /* units of all rows; fewer do not fill the device */
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const int64_t units = rows * problem->H;
    return caps->gpu.wide && problem->cell->builtin >= 0 && lowered->n_backward == 1 &&
           eco_cell_products(problem->cell) == 1 && problem->H % ECO_WIDE_QUAD == 0 &&
           lowered->n_accs + lowered->n_extra <= ECO_WIDE_DACCS && !problem->resets &&
           !problem->row_invariant && !problem->projected && lowered->n_slots == 0 &&
           units >= LEAST && units <= INT32_MAX;
}
