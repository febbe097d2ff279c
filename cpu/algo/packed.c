/*
 * Algorithm packed: weights in panels, read once for each step and row block by our own product
 * kernels. A thread multiplies and finishes the same units, so that a step needs one barrier; or it
 * does all steps of its own rows, which needs none. F32 and BF16.
 */
#include "cpu/algo/force.h"
#include "cpu/gemm/packed/packed.h"

#include <math.h>

/* Are weights in BF16 stored as floats? A kernel widens each vector of R in every step, for half a
 * cycle, and multiplies it by a row in as much. That takes longer than reading twice the bytes if
 * the floats of R stay in a first-level cache, or, without AMX, if a step has a row for each ROW
 * bytes of them, and a run one for each ROW bytes of W's floats; a single step reads weights that
 * are in no cache. It affects bits, so the limits are those of no particular processor. */
static bool is_wide(const struct eco_problem *problem, const struct eco_caps *caps)
{
    enum {
        GROUP = 16,
        FIRST_CACHE = 48 << 10,
        ONE_ROW = 64 << 10,
        ROW = 292 << 10,
        MOST = 4 << 20
    };
    const double units = (problem->H + GROUP - 1) / GROUP * GROUP;
    const double elements = eco_problem_work(problem, 0).recurrent / problem->H * units;
    const double inputs = eco_problem_work(problem, 0).input * sizeof(float),
                 most_inputs = (double)ROW * problem->N * problem->T;
    const bool by_rows =
        !caps->cpu.tiles && !problem->row_invariant && problem->T > 1 && inputs <= most_inputs;
    const double rows = problem->N > 1 ? fmin((double)ROW * problem->N, MOST) : ONE_ROW;
    return problem->type == ECORNN_F32 && problem->weight_type == ECORNN_BF16 &&
           eco_forced(problem, ECO_FORCE_WIDE,
                      elements * sizeof(float) <= (by_rows ? rows : FIRST_CACHE));
}

/* Weights in BF16 or 8 bits, with any rows. */
static bool is_narrow(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return problem->weight_type == ECORNN_S8 ||
           (problem->weight_type == ECORNN_BF16 && !is_wide(problem, caps));
}

/* Can a thread finish the units that it multiplies? */
static bool fuses(const struct eco_problem *problem)
{
    return !problem->cell->lowered.has_means && !problem->projected;
}

/* Checks a forced panel width, which determines the room for copies of a gradient. */
static const char *panels_refuse(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const int32_t vectors = eco_forced(problem, ECO_FORCE_VECTORS, ECO_TILE_VECTORS);
    if (is_narrow(problem, caps))
        return vectors % 2 == 0 ? NULL
                                : "ECORNN_FORCE: vectors is not 2 or 4, with BF16 or int8 weights";
    return vectors >= caps->cpu.vectors
               ? NULL
               : "ECORNN_FORCE: vectors is less than the instruction set's products have";
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (problem->type != ECORNN_F32 && problem->type != ECORNN_BF16)
        return "needs F32 or BF16";
    if (problem->weight_type == ECORNN_F16)
        return "does not support F16 weights";
    if (caps->cpu.lanes == 0)
        return "needs a kernel for products";
    const char *refusal = eco_cpu_force_refuses(problem, eco_algo_packed.name, fuses(problem));
    return refusal != NULL ? refusal : panels_refuse(problem, caps);
}

enum { BACKWARD_ROWS = 1024, PACK_ROWS = 528 };

static int32_t steps_for(int32_t rows, int32_t N)
{
    const int32_t steps = (rows + N - 1) / N;
    return steps < 2 ? 2 : steps;
}

/* Rows from which it pays for a step to read W again, rather than the accumulators of a chunk. */
enum { FUSED_ROWS = 16 };

/* Do W and R of the widest layer fit in the cache? */
static bool fits_cache(const struct eco_problem *problem, const struct eco_caps *caps)
{
    double most = 0;
    for (int layer = 0; layer < problem->L && layer < 2; layer++) {
        const struct eco_work work = eco_problem_work(problem, layer);
        most = work.input + work.recurrent > most ? work.input + work.recurrent : most;
    }
    const ecornn_type stored = is_wide(problem, caps) ? ECORNN_F32 : problem->weight_type;
    const double element = (double)eco_type_bytes(stored);
    return most * element <= 1.25 * (double)caps->cpu.cache_bytes;
}

/* A single step reads W once in any case; in F32 a pass of its own is as fast. */
static bool steps_once(const struct eco_problem *problem)
{
    return problem->T == 1 && problem->weight_type == ECORNN_S8;
}

/* Does a step multiply x too? */
static bool fuses_input(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return problem->cell->lowered.copies == 0 &&
           (steps_once(problem) || (problem->N >= FUSED_ROWS && fits_cache(problem, caps)));
}

/* Has the cell accumulators without an input product? */
static bool has_own_accs(const struct eco_lowered *lowered)
{
    for (int a = 0; a < lowered->n_accs; a++)
        if (lowered->acc[a].input < 0)
            return true;
    return false;
}

/* Rows of a forward chunk: the accumulators of the input product stay in the second-level caches of
 * the threads. With 16-bit weights bits may depend on the rows of the last product, so those are
 * the same for any number of threads. With a single row accumulators take most of the workspace, in
 * particular if some wait for their step. */
static double forward_rows(const struct eco_problem *problem, const struct eco_caps *caps)
{
    enum { LEAST = 96, UNCACHED = 256, LONE = 48, PART = 4 };
    if (problem->N == 1 && has_own_accs(&problem->cell->lowered))
        return LONE;
    const double row = fmax(1, sizeof(float) * (double)problem->cell->lowered.n_accs * problem->H),
                 threads =
                     problem->weight_type == ECORNN_F32 && !problem->alone ? caps->threads : 1,
                 cached = threads * (double)caps->cpu.cache_bytes / PART / row;
    return fmax(cached, fits_cache(problem, caps) ? LEAST : UNCACHED);
}

/* Steps of a forward chunk. Chunks are equally long: if two directions run at once, one begins with
 * the last chunk, and threads wait for the longer of the two. */
static int32_t forward_steps(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double most = fmax(2, ceil(forward_rows(problem, caps) / problem->N)),
                 chunks = ceil(problem->T / most);
    return (int32_t)ceil(problem->T / chunks);
}

/* Units of a block of accumulators. Without blocks, rows would begin in a page each. */
static int32_t acc_units(const struct eco_problem *problem, const struct eco_caps *caps,
                         int32_t most)
{
    int32_t units = caps->cpu.lanes;
    while (units < problem->H && units < most)
        units *= 2;
    return units;
}

enum { ACC_LANES = 4 }; /* with weights in BF16 or 8 bits */

/* One layout of panels, with and without AMX: vectors that are read together are in one stream. */
static void request_narrow(struct eco_layout_request *request, const struct eco_problem *problem,
                           const struct eco_caps *caps)
{
    request->cpu.lane_groups = 1;
    request->cpu.vectors =
        eco_forced(problem, ECO_FORCE_VECTORS, problem->N > ECO_NARROW_TALL ? 2 : ECO_TILE_VECTORS);
    const bool bytes = problem->weight_type == ECORNN_S8;
    request->cpu.group = bytes ? ECO_BYTE_GROUP : ECO_NARROW_GROUP;
    request->cpu.pair = bytes ? 4 : 2;
    request->cpu.acc_units = acc_units(problem, caps, ACC_LANES * caps->cpu.lanes);
    request->cpu.threads = caps->threads;
}

/* Vectors of a panel. Few rows take the most, as many sums as hide the latency of a chain. Three
 * vectors if they need no more blocks of rows than two, which leave some sums unused; measured, in
 * inference only. */
static int32_t panel_vectors(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (problem->N <= caps->cpu.sums / ECO_TILE_VECTORS)
        return ECO_TILE_VECTORS;
    const int32_t tall = caps->cpu.sums / 3, blocks = (problem->N + tall - 1) / tall;
    const bool three = !problem->training && caps->cpu.vectors == 2 && blocks <= 2 &&
                       (blocks == 1 || problem->N > caps->cpu.sums / 2);
    return three ? 3 : caps->cpu.vectors;
}

/* Do rows of x alias in the cache? They cannot be padded, and few rows gain nothing. */
static bool aliases(const struct eco_problem *problem)
{
    return problem->N > ECO_TILE_VECTORS && problem->I % ECO_ALIAS == 0;
}

static enum eco_asked asked(const struct eco_problem *problem, enum eco_forced_key key)
{
    const int answer = eco_forced(problem, key, -1);
    return answer < 0 ? ECO_USUAL : answer > 0 ? ECO_ASKED_YES : ECO_ASKED_NO;
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    const int32_t vectors = eco_forced(problem, ECO_FORCE_VECTORS, panel_vectors(problem, caps));
    const bool own_units = eco_forced(problem, ECO_FORCE_OWN_UNITS, fuses(problem));
    const bool fuse = own_units && fuses_input(problem, caps);
    const int32_t spans = vectors == 3 ? 2 : vectors == caps->cpu.vectors ? vectors : 1;
    *request = (struct eco_layout_request){
        .cpu.by_length = true,
        .cpu.wide = is_wide(problem, caps),
        .chunk = eco_forced(problem, ECO_FORCE_CHUNK, forward_steps(problem, caps)),
        .chunk_backward =
            eco_forced(problem, ECO_FORCE_CHUNK_BACK, steps_for(BACKWARD_ROWS, problem->N)),
        .cpu.pack_rows = eco_forced(problem, ECO_FORCE_PACK_ROWS, PACK_ROWS),
        .cpu.gradient_rows = eco_cpu_gradient_group(problem),
        .cpu.sums_vectors = eco_cpu_sums_vectors(problem),
        .cpu.lane_groups = spans,
        .cpu.lanes = caps->cpu.lanes,
        .cpu.vectors = vectors,
        .cpu.acc_units = acc_units(problem, caps, caps->cpu.lanes * (spans > 1 ? spans : vectors)),
        .cpu.threads = eco_forced(problem, ECO_FORCE_COPY, aliases(problem)) ? caps->threads : 0,
        .cpu.run_threads = caps->threads,
        .cpu.team_bytes = eco_cpu_team_bytes(caps->threads),
        .cpu.alias_bytes = ECO_ALIAS_BYTES,
        .cpu.by_rows = true,
        .cpu.fuse_rows =
            eco_forced(problem, ECO_FORCE_FUSE, steps_once(problem)) > 0 ? 0 : FUSED_ROWS,
        .fuse_input = eco_forced(problem, ECO_FORCE_FUSE, fuse),
        .cpu.own_units = own_units,
        .cpu.whole_rows = eco_forced(problem, ECO_FORCE_WHOLE_ROWS, false),
        .cpu.block = eco_forced(problem, ECO_FORCE_BLOCK, 0),
        .cpu.pass_after = asked(problem, ECO_FORCE_PASS_AFTER),
        .cpu.cached = asked(problem, ECO_FORCE_CACHED),
        .cpu.strips = asked(problem, ECO_FORCE_STRIPS),
        .cpu.help = asked(problem, ECO_FORCE_HELP),
    };
    eco_cpu_request_carried(problem, caps, &request->cpu);
    if (is_narrow(problem, caps))
        request_narrow(request, problem, caps);
}

const struct eco_algo eco_algo_packed = {
    "packed", refuses, request, eco_cpu_estimate, eco_cpu_run_tape, NULL, ECO_CELLS_OF_UNITS};
