/*
 * Which products are done with split operands (split_product.cu), in how many pieces of k, and by
 * how many blocks.
 */
#include "gpu/split.h"

#include <math.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

static int32_t up(int64_t a, int32_t b)
{
    return (int32_t)((a + b - 1) / b);
}

static int32_t tiles(int32_t rows)
{
    return up(rows, ECO_SPLIT_TILE);
}

static size_t scale_bytes(int32_t rows)
{
    return (size_t)tiles(rows) * ECO_SPLIT_TILE * sizeof(float);
}

static size_t piece_bytes(int32_t rows, int32_t k)
{
    return (size_t)tiles(rows) * (size_t)up(k, ECO_SPLIT_DEPTH) * ECO_SPLIT_PIECE_BYTES;
}

size_t eco_split_bytes(int32_t rows, int32_t k)
{
    return scale_bytes(rows) + piece_bytes(rows, k);
}

void eco_split_place(struct eco_split_operand *operand, void *at)
{
    operand->scales = at;
    operand->pieces = (char *)at + scale_bytes(operand->rows);
}

/* Of tiles of C, below each other. */
static int64_t pairs_of(const struct eco_product *p)
{
    return (int64_t)up(tiles(p->m), ECO_SPLIT_PAIR) * tiles(p->n);
}

static size_t part_bytes(int32_t clusters)
{
    return (size_t)clusters * ECO_SPLIT_PAIR * ECO_SPLIT_PART_BYTES;
}

static int32_t clusters_of(const struct eco_caps *caps)
{
    return caps->threads / ECO_SPLIT_PAIR;
}

static size_t room_bytes(const struct eco_gpu_run *run)
{
    return run->layout->wishes.product_bytes - ECO_ROOM_ALIGNMENT;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Measured on an H200 (doc/performance.md), in seconds: launches, a step of a tile, its end, what
 * parts of shared tiles cost; bytes of operands prepared in a second. */
static const double launches = 4e-6, step_time = 1.25e-6, end_time = 5e-6, parts_time = 7e-6;
static const double prepared_in_a_second = 1.5e12;

double eco_split_prepare_time(int32_t rows, int32_t k)
{
    return (double)piece_bytes(rows, k) / prepared_in_a_second;
}

/* No more than have something to do: pairs of tiles, or of pieces where tiles are shared. */
static int32_t clusters_for(int64_t pairs, int32_t steps, int32_t most, bool shares)
{
    const int64_t busy = shares ? pairs * steps : pairs;
    return busy < most ? (int32_t)busy : most;
}

/* By how many clusters, that share tiles or not; and seconds. */
struct way {
    int32_t clusters;
    bool shared;
    double time;
};

static struct way way_of(int64_t pairs, int32_t steps, int32_t most, bool shares)
{
    const double alone = ceil((double)pairs / most) * (steps * step_time + end_time);
    const double together = ceil((double)pairs * steps / most) * step_time + end_time + parts_time;
    return (struct way){.clusters = clusters_for(pairs, steps, most, shares),
                        .shared = shares,
                        .time = launches + (shares ? together : alone)};
}

/* ---- a product of any operands --------------------------------------------------------------- */

/* The most of k that there is room for, in even pieces; 0: none. */
static int32_t length(const struct eco_product *p, size_t room)
{
    const size_t scales = scale_bytes(p->m) + scale_bytes(p->n),
                 step = piece_bytes(p->m, 1) + piece_bytes(p->n, 1);
    if (room < scales + step)
        return 0;
    const size_t steps = (room - scales) / step, most_steps = ECO_SPLIT_MOST_K / ECO_SPLIT_DEPTH;
    const int32_t most = (int32_t)(steps < most_steps ? steps : most_steps) * ECO_SPLIT_DEPTH;
    return up(up(p->k, up(p->k, most)), ECO_SPLIT_DEPTH) * ECO_SPLIT_DEPTH;
}

/* So much of k at a time. */
struct plan {
    int32_t k;
    struct way way;
    double time;
};

static struct plan plan_of(const struct eco_product *p, int32_t most, size_t room, bool shares)
{
    const size_t aside = shares ? part_bytes(most) : 0;
    struct plan plan = {.k = room > aside ? length(p, room - aside) : 0};
    if (plan.k == 0)
        return plan;
    plan.way = way_of(pairs_of(p), up(plan.k, ECO_SPLIT_DEPTH), most, shares);
    plan.time = up(p->k, plan.k) * (plan.way.time + eco_split_prepare_time(p->m, plan.k) +
                                    eco_split_prepare_time(p->n, plan.k));
    return plan;
}

/* Seconds with fused multiply-adds: rates of cuBLAS's kernels. */
static double time_of_fma(const struct eco_product *p)
{
    static const double launch = 8e-6, rate = 23e12;
    return launch + (double)p->m * p->n * p->k / rate;
}

static void multiply(struct eco_gpu_run *run, const struct eco_product *p, const float *bias,
                     const struct plan *plan)
{
    char *const b = (char *)run->room + eco_split_bytes(p->m, plan->k);
    char *const parts = b + eco_split_bytes(p->n, plan->k);
    struct eco_split_call call = {.a = {.row = p->a_row, .rows = p->m, .turned = p->kind == ECO_TN},
                                  .b = {.row = p->b_row, .rows = p->n, .turned = p->kind != ECO_NT},
                                  .bias = bias,
                                  .c = p->c,
                                  .parts = plan->way.shared ? (float *)parts : NULL,
                                  .c_row = p->c_row,
                                  .add = p->add};
    eco_split_place(&call.a, run->room);
    eco_split_place(&call.b, b);
    for (int32_t k = 0; k < p->k && run->status == ECORNN_OK; k += plan->k) {
        call.k = call.a.k = call.b.k = p->k - k < plan->k ? p->k - k : plan->k;
        call.a.data = (const float *)p->a + (size_t)k * (call.a.turned ? p->a_row : 1);
        call.b.data = (const float *)p->b + (size_t)k * (call.b.turned ? p->b_row : 1);
        eco_gpu_note_cuda(run, eco_launch_split_prepare_both(&call, run->stream),
                          "splitting operands");
        /* the last piece of k may be shorter, and busy fewer */
        const int32_t clusters = clusters_for(pairs_of(p), up(call.k, ECO_SPLIT_DEPTH),
                                              plan->way.clusters, plan->way.shared);
        if (run->status == ECORNN_OK)
            eco_gpu_note_cuda(run, eco_launch_split(&call, clusters, run->stream),
                              "a product of split operands");
        call.bias = NULL;
        call.add = true;
    }
    run->overlap = true;
}

bool eco_gpu_product_split(struct eco_gpu_run *run, const struct eco_product *p, const float *bias)
{
    const struct eco_caps *caps = &run->plan->device->caps;
    const struct eco_gpu_plan *own = run->plan->own;
    const int32_t most = clusters_of(caps);
    if (run->layout->type != ECORNN_F32 || run->problem->fast || !caps->splits ||
        own->splits == ECO_SPLIT_NEVER || p->m == 0 || p->n == 0 || p->k == 0)
        return false;
    if (p->k < ECO_SPLIT_LEAST_TERMS)
        return false;
    const struct plan whole = plan_of(p, most, room_bytes(run), false),
                      shared = plan_of(p, most, room_bytes(run), true);
    const struct plan *plan = shared.k > 0 && shared.time < whole.time ? &shared : &whole;
    if (plan->k == 0 || (plan->time >= time_of_fma(p) && own->splits != ECO_SPLIT_ALWAYS))
        return false;
    multiply(run, p, bias, plan);
    return true;
}

/* ---- a product with a prepared operand ------------------------------------------------------- */

/* Blocks that share a tile: not so many that some wait for others to end; of large clusters fewer
 * fit the device. */
static int32_t slices_for(const struct eco_caps *caps, int32_t m, int32_t rows, int32_t k)
{
    static const int32_t twelfths[] = {12, 11, 10}; /* of the device, in clusters of 2, 4, 8 */
    const int64_t all = (int64_t)tiles(rows) * tiles(m);
    int32_t slices = 1;
    for (int i = 0; i < 3 && 2 * slices <= up(k, ECO_SPLIT_DEPTH) &&
                    2 * slices * all <= caps->threads * twelfths[i] / 12;
         i++)
        slices *= 2;
    return slices;
}

/* Measured on an H200 (doc/performance.md): what comes from memory, or is multiplied, whichever
 * takes longer. */
double eco_split_time(const struct eco_caps *caps, int32_t m, int32_t rows, int32_t k)
{
    static const double fixed = 9e-6, stage = 0.9e-6, wide_stage = 1.3e-6, bytes_in_a_second = 4e12;
    const int32_t slices = slices_for(caps, m, rows, k);
    const double all = (double)tiles(rows) * tiles(m) * slices;
    const double steps = up(up(k, ECO_SPLIT_DEPTH), slices) * ceil(all / caps->threads);
    const double reading = (double)piece_bytes(rows, k) / bytes_in_a_second,
                 multiplying = steps * (m <= ECO_SPLIT_TILE / 2 ? stage : wide_stage);
    return fixed + (reading > multiplying ? reading : multiplying);
}

bool eco_gpu_product_prepared(struct eco_gpu_run *run, const struct eco_product *p,
                              const struct eco_split_operand *prepared)
{
    const struct eco_gpu *gpu = run->plan->device->own;
    struct eco_split_call call = {.a = *prepared,
                                  .b = {.data = p->a, .row = p->a_row, .rows = p->m, .k = p->k},
                                  .c = p->c,
                                  .c_row = p->c_row,
                                  .k = prepared->k,
                                  .add = p->add};
    call.a.rows = p->n;
    if (room_bytes(run) < eco_split_bytes(p->m, call.k))
        return false;
    if (run->status != ECORNN_OK || p->m == 0)
        return true;
    eco_split_place(&call.b, run->room);
    const int32_t slices = slices_for(&run->plan->device->caps, p->m, p->n, call.k);
    eco_gpu_note_cuda(run,
                      eco_launch_split_prepare(&call.b, call.k, eco_gpu_overlap(run), run->stream),
                      "splitting states");
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_split_step(&call, slices, gpu->overlap, run->stream),
                          "a product with R as prepared");
    return true;
}
