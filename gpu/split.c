/*
 * Which products are done with split operands (split_product.cu), and by how many blocks.
 */
#include "gpu/split.h"

/* ---- how ------------------------------------------------------------------------------------- */

static double up(double value, int32_t unit)
{
    return (double)(int64_t)((value + unit - 1) / unit);
}

/* How many blocks, whether they share tiles, and seconds. */
struct way {
    int32_t blocks;
    bool shared;
    double time;
};

/*
 * Measured on an H200 (doc/performance.md): a launch, a step of a tile, what parts of shared tiles
 * cost.
 */
static struct way way_of(const struct eco_product *p, int32_t most, bool room)
{
    static const double launch = 6e-6, step = 3e-6, parts = 12e-6;
    const double tiles = up(p->m, ECO_SPLIT_TILE) * up(p->n, ECO_SPLIT_TILE);
    const double steps = up(p->k, ECO_SPLIT_DEPTH), all = tiles * steps;
    const double alone = up(tiles, most) * steps * step;
    const double together = up(all, most) * step + parts;
    const bool shared = room && together < alone;
    const double busy = shared ? all : tiles;
    return (struct way){.blocks = busy < most ? (int32_t)busy : most,
                        .shared = shared,
                        .time = launch + (shared ? together : alone)};
}

/* Seconds with fused multiply-adds: rates of cuBLAS's kernels. */
static double time_of_fma(const struct eco_product *p)
{
    static const double launch = 8e-6, rate = 23e12;
    return launch + (double)p->m * p->n * p->k / rate;
}

bool eco_gpu_product_split(struct eco_gpu_run *run, const struct eco_product *p, const float *bias)
{
    const struct eco_gpu *gpu = run->plan->device->own;
    const struct eco_gpu_plan *own = run->plan->own;
    const int32_t most = run->plan->device->caps.threads;
    const size_t bytes = run->layout->wishes.product_bytes - ECO_ROOM_ALIGNMENT;
    if (run->layout->type != ECORNN_F32 || run->problem->fast || !gpu->splits ||
        own->splits == ECO_SPLIT_NEVER || p->m == 0 || p->n == 0 || p->k == 0)
        return false;
    const struct way way = way_of(p, most, bytes >= (size_t)most * ECO_SPLIT_PART_BYTES);
    if (way.time >= time_of_fma(p) && own->splits != ECO_SPLIT_ALWAYS)
        return false;
    const struct eco_split_call call = {.a = p->a,
                                        .b = p->b,
                                        .bias = bias,
                                        .c = p->c,
                                        .parts = way.shared ? run->room : NULL,
                                        .a_row = p->a_row,
                                        .b_row = p->b_row,
                                        .c_row = p->c_row,
                                        .m = p->m,
                                        .n = p->n,
                                        .k = p->k,
                                        .a_turned = p->kind == ECO_TN,
                                        .b_turned = p->kind != ECO_NT,
                                        .add = p->add};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_split(&call, way.blocks, run->stream),
                          "a product of split operands");
    run->overlap = true;
    return true;
}
