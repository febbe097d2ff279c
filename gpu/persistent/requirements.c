/*
 * What a problem needs of algorithm persistent: the kind of kernels, if there is one, and what
 * their division depends on. A function of the problem and the device alone.
 */
#include "gpu/persistent/persistent.h"
#include "gpu/device/rates.h"

#include <math.h>
#include <string.h>

/* ---- kinds of kernels ------------------------------------------------------------------------ */

/* Operands, accuracy, bytes of an operand, matrix instructions for a k block, scales. */
const struct eco_persistent_kind eco_persistent_kinds[ECO_PERSISTENT_KINDS] = {
    [ECO_BF16_IN_BF16] = {"BF16", "QUICK", 2, ECO_PERSISTENT_PLAIN, false},
    [ECO_F16_IN_F16] = {"F16", "QUICK", 2, ECO_PERSISTENT_PLAIN, false},
    [ECO_F32_IN_F16] = {"F16", "QUICK", 2, ECO_PERSISTENT_PLAIN, false},
    [ECO_F32_IN_SCALED_F16] = {"F16", "QUICK", 2, ECO_PERSISTENT_PLAIN, true},
    [ECO_F32_IN_PAIR] = {"PAIR", "FULL", 4, ECO_PERSISTENT_PAIR, false},
    [ECO_F32_IN_SCALED_PAIR] = {"PAIR", "FULL", 4, ECO_PERSISTENT_PAIR, true},
};

/* F16 has the accuracy that ECORNN_FAST_MATH asks for. States without a bound need scales. */
static const struct eco_persistent_kind *fast_kind(const struct ecornn_cell *cell, bool backward)
{
    return &eco_persistent_kinds[!backward && eco_cell_is_bounded(cell) ? ECO_F32_IN_F16
                                                                        : ECO_F32_IN_SCALED_F16];
}

static const struct eco_persistent_kind *full_kind(const struct ecornn_cell *cell, bool backward)
{
    return &eco_persistent_kinds[!backward && eco_cell_is_bounded(cell) ? ECO_F32_IN_PAIR
                                                                        : ECO_F32_IN_SCALED_PAIR];
}

const struct eco_persistent_kind *eco_persistent_kind(const struct eco_problem *problem,
                                                      bool backward)
{
    switch (problem->type) {
    case ECORNN_BF16:
        return &eco_persistent_kinds[ECO_BF16_IN_BF16];
    case ECORNN_F16:
        return &eco_persistent_kinds[ECO_F16_IN_F16];
    case ECORNN_F32:
        return problem->fast ? fast_kind(problem->cell, backward)
                             : full_kind(problem->cell, backward);
    default:
        return NULL;
    }
}

static const struct {
    int kind;
    bool backward;
    const char *cell;
} made[] = {
#define INSTANCE(symbol, kind, backward, cell) {kind, backward, cell},
#include "gpu/persistent/instances.inc"
#undef INSTANCE
};

bool eco_persistent_is_made(const struct eco_problem *problem, bool backward)
{
    const struct ecornn_cell *cell = problem->cell;
    const struct eco_persistent_kind *kind = eco_persistent_kind(problem, backward);
    for (size_t i = 0; i < sizeof made / sizeof *made && !eco_is_compiled(problem); i++)
        if (&eco_persistent_kinds[made[i].kind] == kind && made[i].backward == backward &&
            strcmp(made[i].cell, cell->recipe.name) == 0)
            return true;
    return false;
}

/* Arrays that a backward step may read. */
static int32_t fields_of(const struct ecornn_cell *cell)
{
    return cell->lowered.n_saves + 2 * cell->recipe.n_states + 1;
}

const char *eco_persistent_refuses(const struct eco_problem *problem, bool backward)
{
    enum { MOST_FIELDS = 32 }; /* bits of call.fields */
    const struct ecornn_cell *cell = problem->cell;
    const struct eco_persistent_kind *kind = eco_persistent_kind(problem, backward);
    char unused[1];
    if (kind == NULL)
        return "does not support this type";
    if (eco_cell_products(cell) == 0)
        return "needs a cell with one product of the output state and, without means, at most one "
               "of a "
               "value computed from it";
    if (cell->recipe.head_means && problem->heads > 1)
        return "does not support means over heads";
    if (backward && problem->states)
        return "does not support gradients of ECORNN_ALL_STATES";
    if (backward && fields_of(cell) > MOST_FIELDS)
        return "needs at most 32 values to read in a backward step";
    if (!eco_persistent_is_made(problem, backward) &&
        !eco_nvrtc_open(&(struct eco_text){unused, sizeof unused, 0}))
        return "needs NVRTC to compile its kernels at run time";
    return NULL;
}

/* ---- the division ---------------------------------------------------------------------------- */

/* Distance from one accumulator to the next. */
static int32_t column_of(const struct eco_problem *problem)
{
    return (int32_t)eco_request_row(&(struct eco_layout_request){.gpu.aligned = ECO_GPU_ALIGNED},
                                    (size_t)problem->H);
}

/* The kernels that ECORNN_FORCE allows and for which the device has instructions. */
static uint64_t shapes_of(const struct eco_problem *problem, const struct eco_caps *caps,
                          bool backward)
{
    return (ECO_PERSISTENT_ALL_SHAPES - (caps->gpu.splits ? 0 : ECO_PERSISTENT_WGMMA_SHAPES)) &
           eco_gpu_divisions(problem, backward);
}

double eco_persistent_row(const struct eco_problem *problem)
{
    const double state = (double)problem->D * problem->H;
    return problem->batch_major ? problem->T * state : ECO_MAX_ACCS * state;
}

/* All fields but the allowed shapes and groups. */
static struct eco_persistent_need any_need(const struct eco_problem *problem,
                                           const struct eco_caps *caps, bool backward, int32_t rows,
                                           int32_t steps, int32_t jobs)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const int32_t states = problem->cell->recipe.n_states;
    const struct eco_persistent_kind *kind = eco_persistent_kind(problem, backward);
    struct eco_joined_stages joined = {.n = 1};
    if (lowered->has_means)
        eco_cell_join_stages(lowered, backward, &joined);
    struct eco_persistent_need need = {.backward = backward,
                                       .products = lowered->n_operands,
                                       .hidden = problem->H,
                                       .rows = rows,
                                       .steps = steps,
                                       .jobs = jobs,
                                       .accs = lowered->n_accs,
                                       .states = states,
                                       .means = lowered->n_means[backward],
                                       .sums = joined.n_sums,
                                       .hand_overs = joined.n - 1,
                                       .fields = fields_of(problem->cell),
                                       .operand = kind->bytes,
                                       .instructions = kind->instructions,
                                       .scaled = kind->scaled,
                                       .restarts = problem->resets,
                                       .cluster_launch = caps->gpu.cluster_launch,
                                       .rates = eco_gpu_rates_of(caps),
                                       .block_bytes = caps->gpu.block_bytes -
                                                      eco_persistent_static_bytes(backward)};
    memcpy(need.blocks, caps->gpu.blocks, sizeof need.blocks);
    for (int k = 0; k < need.cluster_launch; k++)
        need.most_groups[k] = caps->gpu.groups[k] / caps->gpu.partitions;
    for (int o = 0; o < need.products; o++) {
        for (int a = 0; a < lowered->n_accs; a++)
            need.recurrent[o] += lowered->acc[a].recurrent[o] >= 0;
        need.width[o] = backward ? need.recurrent[o] * column_of(problem) : problem->H;
    }
    return need;
}

/* Most (layer, direction)s of one level. */
static int32_t lanes(const struct eco_problem *problem)
{
    return problem->L > 1 && problem->D == 1 && !problem->training ? problem->L : problem->D;
}

static uint64_t best_of(const struct eco_persistent_need *need)
{
    struct eco_persistent_shape shape;
    return eco_persistent_shape(need, &shape) > 0 ? UINT64_C(1) << eco_persistent_index(&shape) : 0;
}

/* The kernels to compile: those that a full run takes, alone or together with other jobs in its
 * launch, with and without WGMMA, which smaller runs do without. No run needs others. */
static uint64_t compiled(const struct eco_problem *problem, struct eco_persistent_need need)
{
    const uint64_t any = need.shapes;
    uint64_t shapes = 0;
    for (need.jobs = 1; need.jobs <= ECO_PERSISTENT_JOBS && need.jobs <= lanes(problem);
         need.jobs *= 2) {
        need.shapes = any;
        const uint64_t best = best_of(&need);
        need.shapes -= need.shapes & ECO_PERSISTENT_WGMMA_SHAPES;
        const uint64_t other = best_of(&need);
        if (other != 0)
            shapes |= best | other;
    }
    return shapes;
}

/* ---- row invariance -------------------------------------------------------------------------- */

/*
 * The order of a row's sums depends on the kernel alone if that multiplies any number of batch
 * tiles in the same way: not where warps gather few rows themselves, nor with WGMMA, which has no
 * code for one tile.  So a row-invariant plan takes one such kernel for all numbers of rows, and
 * runs with more rows than fit have several launches.
 */
enum { NUMBERS = 3, FIRST_NUMBER = 8, NEXT_NUMBER = 8 }; /* of rows, for which it is chosen */

/* Most rows of a launch; 0: the kernel does not fit. */
static int32_t most_rows(const struct eco_persistent_need *need, int place)
{
    struct eco_persistent_shape shape = eco_persistent_at(place);
    const int32_t groups = eco_persistent_most_groups(need, &shape);
    const struct eco_persistent_shape begun = shape;
    for (int32_t rows = 0; groups > 0; rows += ECO_PERSISTENT_N) {
        shape = begun;
        shape.groups = 1;
        shape.group_rows = rows + ECO_PERSISTENT_N;
        if (!eco_persistent_divide_groups(need, &shape))
            return rows * groups;
    }
    return 0;
}

/* Microseconds of a step of some rows, by as many launches as needed; 0: it does not fit. */
static double time_of_rows(struct eco_persistent_need need, int place, int32_t rows)
{
    struct eco_persistent_shape shape;
    const int32_t most = most_rows(&need, place);
    need.shapes = UINT64_C(1) << place;
    need.rows = rows < most ? rows : most;
    return most == 0 ? 0 : eco_persistent_shape(&need, &shape) * eco_ceil_div(rows, need.rows);
}

/* The kernel that a row-invariant plan takes: the least sum of times, each in proportion to the
 * fastest kernel's for that number of rows. */
static uint64_t fixed(const struct eco_persistent_need *need)
{
    double time[ECO_PERSISTENT_SHAPES][NUMBERS], fastest[NUMBERS] = {0}, least = 0;
    uint64_t best = 0;
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++) {
        const int mainloop = eco_persistent_mainloop_of(place);
        const bool any = mainloop == ECO_PERSISTENT_MMA || mainloop == ECO_PERSISTENT_MMA_MANY;
        for (int i = 0, rows = FIRST_NUMBER; i < NUMBERS; i++, rows *= NEXT_NUMBER) {
            time[place][i] =
                any && need->shapes >> place & 1 ? time_of_rows(*need, place, rows) : 0;
            if (time[place][i] > 0 && (fastest[i] == 0 || time[place][i] < fastest[i]))
                fastest[i] = time[place][i];
        }
    }
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++) {
        double sum = 0;
        for (int i = 0; i < NUMBERS && time[place][i] > 0; i++)
            sum += time[place][i] / fastest[i];
        if (sum > 0 && (best == 0 || sum < least)) {
            least = sum;
            best = UINT64_C(1) << place;
        }
    }
    return best;
}

/* Limits rows to those of a launch, whose elements are within 32 bits of each other. */
static void limit_rows(const struct eco_problem *problem, struct eco_persistent_need *need)
{
    const double row = eco_persistent_row(problem) + 1;
    for (int place = 0; place < ECO_PERSISTENT_SHAPES && problem->row_invariant; place++)
        if (need->shapes >> place & 1) {
            const double whole = ECO_PERSISTENT_N, /* rows of a tile, so that words stay aligned */
                rows = fmin(most_rows(need, place), floor(UINT32_MAX / row / whole) * whole);
            need->rows = rows > 0 ? (int32_t)fmin(need->rows, rows) : need->rows;
        }
}

struct eco_persistent_need eco_persistent_need(const struct eco_problem *problem,
                                               const struct eco_caps *caps, bool backward,
                                               int32_t rows, int32_t steps, int32_t jobs)
{
    struct eco_persistent_need need = any_need(problem, caps, backward, problem->N, 1, 1);
    need.shapes = shapes_of(problem, caps, backward);
    need.groups = eco_gpu_groups(problem, backward);
    if (problem->row_invariant)
        need.shapes = fixed(&need);
    if (!eco_persistent_is_made(problem, backward))
        need.shapes = compiled(problem, need);
    need.rows = rows;
    need.steps = steps;
    need.jobs = jobs;
    limit_rows(problem, &need);
    return need;
}

/* Elements of a thread: a group's rows in tiles of 8, divided by the rows taken at once. */
static int32_t rounds_of(const struct eco_persistent_shape *shape)
{
    const int32_t tiles = (shape->group_rows + ECO_PERSISTENT_N - 1) / ECO_PERSISTENT_N,
                  at_once = ECO_PERSISTENT_THREADS >> shape->unit_shift;
    return (tiles * ECO_PERSISTENT_N + at_once - 1) / at_once;
}

/* Do threads have one element in all runs of at most need.rows rows, whatever the number of jobs?
 * Smaller runs may need more rounds, because they may take divisions that do not fit all rows. It
 * suffices to check one run for each number of tiles. */
static bool has_single_rounds(struct eco_persistent_need need)
{
    const int32_t rows = need.rows;
    struct eco_persistent_shape shape;
    for (need.jobs = 1; need.jobs <= ECO_PERSISTENT_JOBS; need.jobs++)
        for (need.rows = rows; need.rows > 0; need.rows -= ECO_PERSISTENT_N)
            if (eco_persistent_shape(&need, &shape) > 0 && rounds_of(&shape) > 1)
                return false;
    return true;
}

uint64_t eco_persistent_kept(const struct eco_problem *problem, const struct eco_caps *caps,
                             bool backward, uint64_t shapes)
{
    struct eco_persistent_need need =
        eco_persistent_need(problem, caps, backward, problem->N, 1, 1);
    uint64_t kept = 0;
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++) {
        need.shapes = shapes & UINT64_C(1) << place;
        if (need.shapes != 0 && has_single_rounds(need))
            kept |= need.shapes;
    }
    return kept;
}

/* Pieces that a thread of a full run gathers: up to 2, 4 or 8, or 16 for more. */
static int pieces_of(const struct eco_persistent_need *need,
                     const struct eco_persistent_shape *shape)
{
    int32_t most = 0;
    for (int o = 0; o < need->products; o++)
        if (shape->product[o].slice > most)
            most = shape->product[o].slice;
    const int32_t each = eco_ceil_div(most * eco_persistent_row_tiles(shape), ECO_PERSISTENT_WARPS);
    return each <= 2 ? 2 : each <= 4 ? 4 : each <= 8 ? 8 : 16;
}

struct eco_persistent_usual eco_persistent_usual(const struct eco_problem *problem,
                                                 const struct eco_caps *caps, bool backward,
                                                 int place)
{
    struct eco_persistent_usual usual = {.even = problem->H % 2 == 0};
    struct eco_persistent_shape shape;
    struct eco_persistent_need need = eco_persistent_need(problem, caps, backward, 1, 1, 1);
    if (eco_persistent_divide(&need, place, &shape)) /* other rows have the same k blocks */
        for (int o = 0; o < need.products; o++)
            usual.k_blocks[o] = shape.product[o].k_blocks;
    need.rows = problem->N;
    if (eco_persistent_divide(&need, place, &shape)) {
        const int tiles = eco_persistent_row_tiles(&shape);
        const bool means = problem->cell->lowered.has_means;
        usual.tiles = means || tiles == 1 ? tiles : 2 + tiles % 2; /* plans share texts */
        usual.rounds = rounds_of(&shape) > 1 ? 2 : 1;
        usual.parts = means ? eco_persistent_parts(&shape) : 0; /* other rows have as many */
        usual.pieces = pieces_of(&need, &shape);
    }
    return usual;
}

struct eco_persistent_need eco_persistent_need_of(const struct ecornn_plan *plan, bool backward,
                                                  int32_t rows, int32_t steps, int32_t jobs)
{
    const struct eco_gpu_plan *own = plan->context;
    struct eco_persistent_need need =
        any_need(&plan->problem, &plan->device->caps, backward, rows, steps, jobs);
    need.shapes = own->persistent[backward].shapes;
    need.groups = eco_gpu_groups(&plan->problem, backward);
    limit_rows(&plan->problem, &need);
    return need;
}
