/*
 * Algorithm step: a product and a fused kernel for each step and stage. It runs every cell, option
 * and type; other algorithms have to beat it.
 */
#include "gpu/gemm/bytes/bytes.h"
#include "gpu/gemm/emulated_f32/tiling.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/emulated_f32/presplit.h"
#include "gpu/algo/algo.h"
#include "gpu/run/run.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/wide_step/wide_step.h"

#include <math.h>

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)caps;
    return problem->row_invariant
               ? "does not support ECORNN_ROW_INVARIANT: its rows may depend on others"
               : NULL;
}

/* May layers overlap? */
static bool may_overlap(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return problem->L > 1 && problem->D == 1 &&
           eco_gpu_use(problem, ECO_FORCE_WAVEFRONT) != ECO_USE_NEVER &&
           !eco_step_is_short(problem, caps);
}

static double time_of(const struct eco_problem *problem, const struct eco_caps *caps,
                      bool wavefront, bool forward)
{
    const struct eco_layout_request chunks = eco_step_chunks(problem, caps, wavefront);
    return (forward ? eco_step_time(problem, caps, false, &chunks) : 0) +
           (problem->training ? eco_step_time(problem, caps, true, &chunks) : 0);
}

bool eco_step_overlaps(const struct eco_problem *problem, const struct eco_caps *caps, bool forward)
{
    return may_overlap(problem, caps) &&
           (eco_gpu_use(problem, ECO_FORCE_WAVEFRONT) >= ECO_USE_ALWAYS ||
            time_of(problem, caps, true, forward) < time_of(problem, caps, false, forward));
}

static size_t clamp(double value, double least, double most)
{
    return (size_t)(value < least ? least : value > most ? most : value);
}

/* Gradients of vectors: at least one value for each column (copy/columns.cu). */
static double sums_bytes(const struct eco_problem *problem)
{
    const struct eco_matrix vectors = eco_problem_matrix(problem, 0, ECO_WEIGHT_VECTORS);
    const struct eco_layout_request aligned = {.gpu.aligned = ECO_GPU_ALIGNED};
    const size_t column = eco_request_row(&aligned, (size_t)vectors.units);
    return problem->training ? (double)vectors.n * (double)column *
                                       (double)eco_type_bytes(eco_type_sum(problem->type)) +
                                   ECO_ROOM_ALIGNMENT
                             : 0;
}

/* Room for both operands of a product, prepared completely, and partial sums of C. */
static double split_bytes(const struct eco_caps *caps, double m, double n, double k)
{
    enum { PAIR = 4 /* bytes of a number */ };
    return PAIR * (m + n) * fmin(k, ECO_EMULATED_MOST_K) +
           (double)caps->threads * ECO_EMULATED_PART_BYTES;
}

/* The largest products of a chunk: with W [columns,input] over all its rows. */
struct largest {
    double rows, columns, input;
};

static struct largest largest_of(const struct eco_problem *problem,
                                 const struct eco_layout_request *request)
{
    enum { TILE = ECO_EMULATED_TILE }; /* sizes are rounded up to it */
    const double steps = fmin(problem->T, problem->training
                                              ? fmax(request->chunk, request->chunk_backward)
                                              : request->chunk),
                 below = problem->L > 1 ? (double)problem->D * problem->P : 0;
    return (struct largest){TILE + steps * problem->N,
                            TILE + (double)problem->cell->lowered.n_accs * problem->H,
                            TILE + fmax(problem->P, fmax(problem->I, below))};
}

/* Room for the sums of products that cuBLAS splits along k. If all of them are large: a tile of
 * sums for each multiprocessor, or a sum of some terms each. Measured on an H100. */
static double room_of_sums(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request)
{
    enum { TILE_BYTES = 64 << 10, TERMS = 64 };
    const struct largest size = largest_of(problem, request);
    const double sums = sizeof(float) * size.columns * size.input * ceil(size.rows / TERMS);
    const bool lends = problem->training && problem->fast && problem->D == 1 &&
                       !request->wavefront && size.rows >= ECO_LENT_ROWS;
    return request->gpu.steps_exchange
               ? fmax(ECO_ROOM_OF_MANY, fmin((double)caps->threads * TILE_BYTES, sums))
               : ECO_SPLITTING_BYTES + (lends ? ECO_LENT_BYTES : 0);
}

/* Room for the largest product of a chunk with W; with less room, products are split into parts. */
static size_t room_of_splits(const struct eco_problem *problem, const struct eco_caps *caps,
                             const struct eco_layout_request *request)
{
    /* Few multiply-adds with a small matrix gain nothing by more, measured on an H100. */
    enum { LITTLE_BYTES = 12 << 20, SMALL = 1 << 18 };
    static const double little = 0.55e9;
    const struct largest size = largest_of(problem, request);
    const double rows = size.rows, columns = size.columns, input = size.input,
                 tile = ECO_EMULATED_TILE, matrix = (columns - tile) * (input - tile);
    const bool small = matrix <= SMALL && matrix * (rows - tile) <= little;
    double bytes = split_bytes(caps, rows, columns, input);
    if (problem->training)
        bytes = fmax(bytes, fmax(split_bytes(caps, rows, input, columns),
                                 split_bytes(caps, columns, input, rows)));
    return clamp(bytes, room_of_sums(problem, caps, request),
                 small && request->gpu.steps_exchange ? LITTLE_BYTES : ECO_EMULATED_ROOM_BYTES);
}

/* Room for partial sums of a step's product. F32 has products that can use more, but it should not
 * dominate a small plan. In full F32 with few lanes: room for split operands. */
static size_t sums_or_splits(const struct eco_problem *problem, const struct eco_caps *caps,
                             const struct eco_layout_request *request)
{
    static const double least_work = 1e6;
    const double accs = problem->cell->lowered.n_accs * (double)problem->H,
                 rows = request->gpu.scans ? largest_of(problem, request).rows : problem->N,
                 work = accs * problem->H * rows;
    const bool used =
        problem->training || !(problem->fast || eco_gpu_is_short((int32_t)rows, work));
    const bool splits = caps->gpu.splits && !problem->fast && !request->wavefront &&
                        eco_gpu_use(problem, ECO_FORCE_EMULATED_F32) != ECO_USE_NEVER;
    if (problem->type == ECORNN_F32 && used && work >= least_work)
        return ECO_ROOM_ALIGNMENT + (splits ? room_of_splits(problem, caps, request)
                                            : (size_t)room_of_sums(problem, caps, request));
    const double least = fmax(65536, sums_bytes(problem));
    return clamp(32 * accs * problem->N, least, fmax(least, ECO_NARROW_BYTES));
}

size_t eco_step_product_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              const struct eco_layout_request *request)
{
    if (problem->weight_type == ECORNN_S8 && !request->gpu.widened)
        return ECO_ROOM_ALIGNMENT; /* no product needs room */
    const size_t bytes = sums_or_splits(problem, caps, request),
                 halves = eco_scaled_f16_bytes(problem, caps, request);
    return bytes > halves ? bytes : halves;
}

/* In full F32 with enough batch rows, cuBLAS reads R^T by rows faster than R, as measured for large
 * H. Not if layers of a wavefront share the chip. The copy pays after some steps. */
static bool turns_forward(const struct eco_problem *problem, bool wavefront)
{
    enum { ROWS_ALIVE = 32, UNITS = 512, STEPS = 16 };
    const enum eco_rows asked = eco_gpu_rows(problem);
    if (asked != ECO_ROWS_FASTER)
        return asked == ECO_ROWS_PADDED;
    return !wavefront && problem->type == ECORNN_F32 && !problem->fast &&
           problem->N >= ROWS_ALIVE && problem->H >= UNITS && problem->T >= STEPS;
}

/* In TF32 cuBLAS is twice as fast if k is contiguous in both operands. */
static bool turns_back(const struct eco_problem *problem)
{
    enum { STEPS = 4 };
    return problem->type == ECORNN_F32 && problem->fast && problem->T >= STEPS;
}

/* Steps back in F16 have no other kernel if room lacks, and some places in it go by the plan's
 * rows: runs of fewer rows have the same room. */
void eco_step_fit(const struct eco_problem *problem, const struct eco_caps *caps,
                  struct eco_layout_request *request)
{
    struct eco_by_rows *bytes = &request->gpu.product;
    struct eco_problem fewer = *problem;
    bytes->most = eco_step_product_bytes(problem, caps, request);
    for (int place = 0; place < ECO_FEWER; place++) {
        fewer.N = eco_fewer_rows(problem->N, place);
        bytes->fewer[place] = request->gpu.half_back ? bytes->most
                              : fewer.N > 0          ? eco_step_product_bytes(&fewer, caps, request)
                                                     : 0;
    }
    request->gpu.product_bytes = bytes->most;
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    const bool wavefront = eco_step_overlaps(problem, caps, true);
    const struct eco_layout_request chunks = eco_step_chunks(problem, caps, wavefront);
    const bool bytes = problem->weight_type == ECORNN_S8 && problem->N <= ECO_BYTES_MOST_ROWS;
    /* backward products are grouped; bytes are multiplied as they are */
    const bool alone = wavefront || problem->row_invariant || bytes;
    const bool halves = eco_scaled_f16_halves(problem, caps, &chunks);
    const size_t prepared[2] = {alone ? 0 : eco_gpu_prepared_bytes(problem, caps, false),
                                halves  ? eco_scaled_f16_recurrent_bytes(problem)
                                : alone ? 0
                                        : eco_gpu_prepared_bytes(problem, caps, true)};
    *request = (struct eco_layout_request){
        .wavefront = wavefront,
        .gpu.lean = true,
        .gpu.widened = problem->weight_type != problem->type && !bytes,
        .gpu.prepared_bytes = {prepared[0], prepared[1]},
        .gpu.transposed = {prepared[0] == 0 && !bytes && turns_forward(problem, wavefront),
                           (halves || prepared[1] == 0) && problem->training &&
                               turns_back(problem) && !problem->row_invariant},
        .gpu.rows_independent = problem->type != ECORNN_F32 || !problem->fast, /* gemm/scaled_f16 */
        .gpu.aligned = ECO_GPU_ALIGNED,
        .gpu.padded = eco_step_fills(problem, caps, ECO_OUTSIDE_INPUT | ECO_OUTSIDE_STEPS),
        .chunk = chunks.chunk,
        .chunk_backward = chunks.chunk_backward,
        .gpu.half_back = halves,
        .gpu.carry_planes = wavefront ? 0 : eco_wide_carry_planes(problem, caps),
        .gpu.weights_chunks = chunks.gpu.weights_chunks,
    };
    eco_step_fit(problem, caps, request);
}

bool eco_step_fills(const struct eco_problem *problem, const struct eco_caps *caps,
                    unsigned outside)
{
    const enum eco_rows asked = eco_gpu_rows(problem);
    if (asked != ECO_ROWS_FASTER)
        return asked == ECO_ROWS_PADDED;
    return problem->row_invariant || eco_step_gains_by_groups(problem, caps, outside);
}

/* ---- estimate -------------------------------------------------------------------------------- */

static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_step_launches(problem, caps, false) +
           (problem->training ? eco_step_launches(problem, caps, true) : 0) +
           time_of(problem, caps, eco_step_overlaps(problem, caps, true), true) +
           eco_step_lost(problem, caps, ECO_OUTSIDE_INPUT | ECO_OUTSIDE_STEPS);
}

/* ---- wide steps ------------------------------------------------------------------------------ */

bool eco_step_is_wide(const struct ecornn_plan *plan)
{
    return plan->algo == &eco_family_step.algo &&
           eco_step_wide_shape(&plan->problem, &plan->device->caps, plan->request.wavefront) >= 0;
}

/* Their shapes by rows. */
static void prepare(const struct ecornn_plan *plan)
{
    struct eco_gpu_plan *own = plan->context;
    struct eco_problem fewer = plan->problem;
    for (fewer.N = 0; own->wide != NULL && fewer.N < plan->problem.N;) {
        fewer.N = eco_next_rows(fewer.N, plan->problem.N);
        const int shape = eco_step_wide_shape(&fewer, &plan->device->caps, plan->request.wavefront);
        eco_step_shapes_add(&own->steps, (struct eco_step_shape){fewer.N, -1, (int8_t)shape});
    }
}

static void describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    if (eco_step_is_wide(plan))
        eco_text_add(text, "steps: the product with the state and the cell in one launch\n");
}

static void choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const int wide =
        eco_step_wide_shape(&plan->problem, &plan->device->caps, plan->request.wavefront);
    if (wide >= 0)
        eco_choice_write(ECO_FORCE_FUSED, ECO_FUSED_SHAPES + wide, text);
}

const struct eco_gpu_family eco_family_step = {
    {"step", refuses, request, estimate, eco_gpu_run_step, eco_step_fit, ECO_CELLS_OF_UNITS},
    prepare,
    describe,
    choices};
