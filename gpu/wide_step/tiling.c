/*
 * How a wide step is divided into blocks, and how long that takes (rates.h).
 */
#include "gpu/wide_step/wide_step.h"
#include "gpu/device/rates.h"

#include <limits.h>
#include <math.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Do kernels exist for the accumulators that add a product with each matrix? */
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

bool eco_wide_pads(const struct eco_problem *problem)
{
    const bool is_whole = problem->H == eco_wide_whole(problem->H) &&
                          problem->P == eco_wide_whole(problem->P) &&
                          problem->I == eco_wide_whole(problem->I);
    return !is_whole && problem->projected && !problem->training && problem->D == 1 &&
           eco_gpu_rows(problem) != ECO_ROWS_DENSE;
}

/* The shape whose blocks form clusters: only for algorithm step, unless it is forced. */
#define CLUSTERED (1u << (ECO_WIDE_SHAPES - 1))

struct eco_wide_size eco_wide_size(const struct eco_problem *problem, const struct eco_caps *caps,
                                   unsigned forced, int32_t layer, int32_t rows)
{
    enum { CLUSTERS_OF_TWO = 1 };
    static const double l2 = 50e6; /* its bytes */
    const struct ecornn_cell *cell = problem->cell;
    struct eco_wide_size size = {
        .accs = cell->lowered.n_accs,
        .units = problem->H,
        .rows = rows,
        .ops = 1,
        .element = (int32_t)eco_type_bytes(problem->type),
        .saved = problem->training ? cell->lowered.n_saves : 0,
        .k = {eco_wide_whole(eco_problem_input(problem, layer)), eco_wide_whole(problem->P)},
        .first = problem->T == 1,
        .between = problem->projected};
    const double row = size.k[0] + (double)problem->D * problem->P;
    size.far = row * problem->T * rows * size.element > l2;
    const bool tensor = problem->type == ECORNN_BF16 || problem->type == ECORNN_F16 ||
                        (problem->type == ECORNN_F32 && problem->fast);
    if (caps->gpu.wide && tensor && problem->weight_type == problem->type && cell->builtin >= 0 &&
        eco_cell_products(cell) == 1 && ECO_WIDE_MADE(size.accs) &&
        is_known(&cell->lowered, &size.apart) &&
        ((problem->H == eco_wide_whole(problem->H) && problem->P == size.k[1] &&
          eco_problem_input(problem, layer) == size.k[0]) ||
         eco_wide_pads(problem)) &&
        eco_problem_is_plain(problem))
        size.shapes = forced & ((1u << ECO_WIDE_SHAPES) - 1);
    /* no other is asked for, and there are clusters */
    const bool clustered = size.shapes == CLUSTERED && caps->gpu.blocks[CLUSTERS_OF_TWO] > 0;
    size.shapes &= clustered ? CLUSTERED : ~CLUSTERED;
    return size;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Numbers here and in rates.c are fitted to 259 shapes on an H100. */

/* A step loads again what does not stay in the part of the L2 close to its multiprocessors, and x
 * if it comes from memory. */
static double loads_time(const struct eco_wide_size *size, const struct eco_gpu_rates *rates)
{
    static const double stays = 16e6;
    const double bytes = (double)size->ops * size->element * size->accs * size->units *
                         (size->k[0] + (size->first ? 0. : size->k[1]));
    const double x = size->far ? (double)size->ops * size->element * size->rows * size->k[0] : 0;
    return (fmax(0, bytes - stays) + x) / rates->stream_bytes;
}

/* Rows that are not aligned to a sector of the L2 are read more slowly. */
static double stages_of(int32_t k, int32_t element)
{
    enum { SECTOR = 32 };
    static const double ragged = 1.6;
    const double stages = ceil((double)k * element / ECO_WIDE_LINE);
    return k * element % SECTOR == 0 ? stages : ragged * stages;
}

/* What training saves. */
static double saved_time(const struct eco_wide_size *size, const struct eco_gpu_rates *rates)
{
    enum { NARROW = 2 };
    return rates->wide_saved * size->element / NARROW * size->saved * size->units * size->rows;
}

/* The time of a multiprocessor's blocks in units of one block's.  `blocks` is their mean number,
 * and the multiprocessor with one more decides.  If two blocks share a multiprocessor, the others
 * finish theirs faster, and a part of that block's time is lost. */
static double waves_of(int shape, double blocks)
{
    static const double is_lost = 0.16;
    if (eco_wide_shapes[shape].cluster > 1) /* bounded by latency: a second block costs nothing */
        return ceil(blocks / 2);
    const double last = fmod(blocks, 2), whole = blocks - last + ceil(last);
    return eco_wide_shapes[shape].blocks == 1 ? ceil(blocks)
                                              : fmax(1, blocks + is_lost * (whole - blocks));
}

/* Microseconds that a step waits for its first rows and its last stores, where its blocks are so
 * few that none hides the latency of another; and as long again for what is not in the L2. */
static double exposed_of(const struct eco_wide_size *size, const struct eco_caps *caps)
{
    static const double enough = 2048; /* units of all rows, for each multiprocessor */
    const double units = (double)size->ops * size->units * size->rows,
                 full = fmin(1, units / enough / caps->threads);
    return eco_gpu_rates_of(caps)->wide_exposed * (1 - full + (size->far ? 1 - pow(full, 4) : 0));
}

/* How crowded the way to the L2 is, from 0 to 1.  Two multiprocessors share a part of it, which
 * counts as soon as there are more blocks than such pairs, or blocks start while another kernel
 * still occupies some multiprocessors. */
static double crowd_of(const struct eco_wide_size *size, double blocks)
{
    static const double of_pair = 0.16;
    return of_pair * (blocks > 0.5 || size->between ? 1 : 0) + (1 - of_pair) * fmin(1, blocks);
}

/* The time of a stage, as a share of that for a cell whose four accumulators add both products.
 * Multiplication bounds blocks that have a multiprocessor alone, and loads bound pairs of them. */
static double part_of(const struct eco_wide_size *size, int shape)
{
    static const double without_one = 0.72;
    const double rows = eco_wide_rows(shape), units = eco_wide_units(shape, ECO_WIDE_ACCS);
    if (!size->apart && size->accs != ECO_WIDE_ACCS - 1)
        return 1;
    return eco_wide_shapes[shape].blocks == 1
               ? without_one
               : (rows + (ECO_WIDE_ACCS - 1) * units) / (rows + ECO_WIDE_ACCS * units);
}

static double time_of(const struct eco_wide_size *size, const struct eco_caps *caps, int shape)
{
    /* If there is one step only, launches before and after it count, and no step before it hides
     * the first loads. */
    enum { AROUND = 2 };
    static const double not_hidden = 2.8;
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    _Static_assert(sizeof rates->wide_wave / sizeof(double) == ECO_WIDE_SHAPES, "one of each");
    const double units = eco_wide_units(shape, size->accs), rows = eco_wide_rows(shape),
                 blocks = size->ops * ceil(size->units / units) * ceil(size->rows / rows) /
                          caps->threads,
                 stages = stages_of(size->k[0], size->element) +
                          (size->first ? 0 : stages_of(size->k[1], size->element)),
                 stage =
                     rates->wide_stage[shape] + rates->wide_crowded[shape] * crowd_of(size, blocks),
                 wave = rates->wide_wave[shape] +
                        part_of(size, shape) * stages * stage * (size->first ? not_hidden : 1);
    const double alone = eco_wide_shapes[shape].cluster > 1 ? 0 : exposed_of(size, caps);
    const double time = 1e-6 * (rates->wide_launch + alone + waves_of(shape, blocks) * wave);
    return (time + loads_time(size, rates)) / size->ops + saved_time(size, rates) +
           (size->first ? AROUND * rates->launch : 0);
}

struct eco_wide_choice eco_wide_choose(const struct eco_wide_size *size,
                                       const struct eco_caps *caps)
{
    enum { MOST_BLOCKS = 65535 }; /* along the batch, of a launch */
    struct eco_wide_choice best = {-1, 0};
    for (int shape = 0; shape < ECO_WIDE_SHAPES; shape++) {
        if (!(size->shapes >> shape & 1) ||
            ceil((double)size->rows / eco_wide_rows(shape)) > MOST_BLOCKS)
            continue;
        const double time = time_of(size, caps, shape);
        if (best.shape < 0 || time < best.time)
            best = (struct eco_wide_choice){shape, time};
    }
    return best;
}

struct eco_wide_choice eco_wide_choose_adding(const struct eco_problem *problem,
                                              const struct eco_caps *caps)
{
    /* Measured on an H100: faster if R does not stay in the L2 and one block has all rows, which
     * take at least half of it. In training a smaller R suffices, because the cell's own kernel
     * takes longer if it saves values. */
    enum { ROWS = 128 };
    const double least = problem->training ? 32e6 : 100e6; /* bytes of R */
    const unsigned shapes = eco_gpu_shapes(problem, ECO_FORCE_FUSED);
    struct eco_wide_size size =
        eco_wide_size(problem, caps, shapes >> ECO_FUSED_SHAPES & CLUSTERED, 0, problem->N);
    const double bytes = (double)size.element * (size.accs - size.apart) * problem->H * problem->P;
    const bool good = eco_type_narrow(problem->type) && problem->N > ROWS / 2 &&
                      problem->N <= ROWS && bytes >= least;
    if (problem->T == 1 || (shapes == UINT_MAX && !good))
        size.shapes = 0;
    size.k[0] = 0;
    return eco_wide_choose(&size, caps);
}

/* between: other kernels run between the steps of layers. */
int32_t eco_wide_ops(const struct eco_problem *problem)
{
    const bool between = problem->projected || (problem->training && problem->dropout > 0) ||
                         (problem->batch_major && problem->N > 1),
               saves_all = !problem->training || problem->saving.policy == ECO_SAVE_ALL;
    const int32_t layers = problem->L < ECO_WIDE_OPS ? problem->L : ECO_WIDE_OPS;
    if (problem->D > 1)
        return problem->D;
    return !between && saves_all && problem->T > ECO_WIDE_LAG * problem->L ? layers : 1;
}

/* Slices of a product back, measured on an H100 with 16 bits: enough that tiles of 64 by 64 fill
 * the device and sums are not long. Beside another lane's products slices gain nothing. */
static int32_t slices_of(const struct eco_problem *problem, const struct eco_caps *caps, int32_t k)
{
    enum { TILE = 64, LONG = 2048, MOST = 4 };
    const double tiles = ceil((double)problem->N / TILE) * ceil((double)problem->H / TILE);
    int32_t slices = 1;
    if (problem->D > 1 || tiles >= caps->threads || (tiles >= 0.9 * caps->threads && k <= LONG))
        return 1;
    do
        slices *= 2;
    while (slices < MOST && (tiles * slices < 0.7 * caps->threads || k / slices > LONG));
    return k / slices > LONG ? 1 : slices;
}

int32_t eco_wide_carry_planes(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    if (!problem->training || problem->T < ECO_WIDE_CUT_STEPS || !eco_type_narrow(problem->type) ||
        !eco_gpu_has_wide_back(problem, caps, problem->N) || problem->H % ECO_WIDE_UNITS != 0 ||
        !eco_gpu_has_one_span(lowered))
        return 0;
    struct eco_acc_range span;
    eco_acc_range_next(lowered, ECO_WEIGHT_RECURRENT, 0, &span);
    const int32_t k = (span.end - span.first) * problem->H, slices = slices_of(problem, caps, k);
    if (slices == 1 || k % (slices * ECO_WIDE_UNITS) != 0)
        return 0;
    return slices + !eco_wide_leaves_zero(lowered, 0);
}

void eco_wide_choose_replays(const struct ecornn_plan *plan, struct eco_gpu_plan *own)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_layout *back = &plan->layout[ECO_LAYOUT_BACK];
    if (problem->saving.policy == ECO_SAVE_ALL || own->wide == NULL)
        return;
    const int64_t all = (int64_t)back->chunk_backward * problem->N;
    const int32_t most = all < INT32_MAX ? (int32_t)all : INT32_MAX;
    for (int upper = 0; upper < 2 && upper < problem->L; upper++)
        for (int32_t rows = 0; rows < most;) {
            rows = eco_next_rows(rows, most);
            const struct eco_wide_size size =
                eco_wide_size(problem, &plan->device->caps, UINT_MAX, upper, rows);
            eco_step_shapes_add(
                &own->replays[upper],
                (struct eco_step_shape){rows, -1,
                                        (int8_t)eco_wide_choose(&size, &plan->device->caps).shape});
        }
}
