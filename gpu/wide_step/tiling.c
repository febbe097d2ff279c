/*
 * How a wide step is cut into blocks, and how long that takes (rates.h;
 * doc/measurements/gpu-wide.md).
 */
#include "gpu/wide_step/wide_step.h"
#include "gpu/device/rates.h"

#include <math.h>

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

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The accumulators that add a product with one of the matrices: are they those that kernels take?
 */
static bool is_known(const struct eco_lowered *lowered, bool *apart)
{
    const int accs = lowered->n_accs;
    *apart = lowered->acc[0].recurrent[0] < 0;
    for (int a = 0; a < accs; a++)
        if ((lowered->acc[a].recurrent[0] >= 0) != (!*apart || a > 0) ||
            (lowered->acc[a].input >= 0) != (!*apart || a < accs - 1))
            return false;
    return !*apart || accs == ECO_WIDE_ACCS;
}

struct eco_wide_size eco_wide_size(const struct eco_problem *problem, const struct eco_caps *caps,
                                   unsigned forced, int32_t layer, int32_t rows)
{
    const struct ecornn_cell *cell = problem->cell;
    struct eco_wide_size size = {.accs = cell->lowered.n_accs,
                                 .units = problem->H,
                                 .rows = rows,
                                 .k = {eco_problem_input(problem, layer), problem->P}};
    const bool narrow = problem->type == ECORNN_BF16 || problem->type == ECORNN_F16;
    if (caps->gpu.wide && narrow && problem->weight_type == problem->type && cell->builtin >= 0 &&
        eco_cell_products(cell) == 1 && ECO_WIDE_MADE(size.accs) &&
        is_known(&cell->lowered, &size.apart) && problem->H % ECO_WIDE_UNITS == 0 &&
        size.k[0] % ECO_WIDE_UNITS == 0 && problem->P % ECO_WIDE_UNITS == 0 &&
        !problem->row_invariant && !problem->resets)
        size.shapes = forced & ((1u << ECO_WIDE_SHAPES) - 1);
    return size;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double up(double a, double b)
{
    return ceil(a / b);
}

static double time_of(const struct eco_wide_size *size, const struct eco_caps *caps, int shape)
{
    static const double without_one = 0.85; /* of four accumulators in a product */
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    _Static_assert(sizeof rates->wide / sizeof *rates->wide == ECO_WIDE_SHAPES, "one of each");
    const double units = eco_wide_units(shape, size->accs), rows = eco_wide_rows(shape),
                 blocks = up(size->units, units) * up(size->rows, rows) / caps->threads,
                 waves = eco_wide_shapes[shape].blocks == 1 ? ceil(blocks) : fmax(1, blocks),
                 part = size->apart || size->accs == 3 ? without_one : 1,
                 stages = up(size->k[0], ECO_WIDE_K) + up(size->k[1], ECO_WIDE_K),
                 stage = rates->wide[shape].stage + rates->wide[shape].busy * fmin(1, blocks);
    return 1e-6 *
           (rates->wide[shape].launch + waves * (rates->wide[shape].wave + part * stages * stage));
}

struct eco_wide_choice eco_wide_choose(const struct eco_wide_size *size,
                                       const struct eco_caps *caps)
{
    enum { MOST_BLOCKS = 65535 }; /* along the batch, of a launch */
    struct eco_wide_choice best = {-1, 0};
    for (int shape = 0; shape < ECO_WIDE_SHAPES; shape++) {
        if (!(size->shapes >> shape & 1) || up(size->rows, eco_wide_rows(shape)) > MOST_BLOCKS)
            continue;
        const double time = time_of(size, caps, shape);
        if (best.shape < 0 || time < best.time)
            best = (struct eco_wide_choice){shape, time};
    }
    return best;
}
