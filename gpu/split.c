/*
 * Queues products of split operands, where they are faster.
 */
#include "gpu/split.h"

enum eco_split_wish eco_gpu_wish_for_splits(void)
{
    const char *asked = eco_environment("ECORNN_SPLIT");
    if (asked == NULL || *asked == '\0')
        return ECO_SPLIT_FASTER;
    return *asked == '0' ? ECO_SPLIT_NEVER : ECO_SPLIT_ALWAYS;
}

static size_t room_bytes(const struct eco_gpu_run *run)
{
    return run->layout->wishes.product_bytes - ECO_ROOM_ALIGNMENT;
}

/* ---- a product of any operands --------------------------------------------------------------- */

/* Seconds with fused multiply-adds: rates of cuBLAS's kernels. */
static double time_of_fma(const struct eco_product *p)
{
    static const double launch = 8e-6, rate = 23e12;
    return launch + (double)p->m * p->n * p->k / rate;
}

static void multiply(struct eco_gpu_run *run, const struct eco_product *p, const float *bias,
                     const struct eco_split_plan *plan)
{
    const int32_t processors = run->plan->device->caps.threads;
    char *const b = (char *)run->room + eco_split_bytes(p->m, plan->k);
    char *const parts = b + eco_split_bytes(p->n, plan->k);
    struct eco_split_call call = {.a = {.row = p->a_row, .rows = p->m, .turned = p->kind == ECO_TN},
                                  .b = {.row = p->b_row, .rows = p->n, .turned = p->kind != ECO_NT},
                                  .bias = bias,
                                  .c = p->c,
                                  .parts = plan->shared ? (float *)parts : NULL,
                                  .c_row = p->c_row,
                                  .add = p->add};
    eco_split_place(&call.a, run->room);
    eco_split_place(&call.b, b);
    for (int64_t k = 0; k < p->k && run->status == ECORNN_OK; k += plan->k) {
        const int64_t left = p->k - k;
        call.k = call.a.k = call.b.k = left < plan->k ? (int32_t)left : plan->k;
        call.a.data = (const float *)p->a + (size_t)k * (call.a.turned ? p->a_row : 1);
        call.b.data = (const float *)p->b + (size_t)k * (call.b.turned ? p->b_row : 1);
        const int32_t clusters =
            eco_split_clusters(plan, (struct eco_split_size){p->m, p->n, p->k}, call.k, processors);
        eco_gpu_note_cuda(run, eco_launch_split_prepare_both(&call, run->stream),
                          "splitting operands");
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
    if (run->layout->type != ECORNN_F32 || run->problem->fast || !caps->splits ||
        own->splits == ECO_SPLIT_NEVER || p->m == 0 || p->n == 0 || p->k < ECO_SPLIT_LEAST_TERMS)
        return false;
    const struct eco_split_plan plan =
        eco_split_plan((struct eco_split_size){p->m, p->n, p->k}, caps->threads, room_bytes(run));
    if (plan.k == 0 || (plan.time >= time_of_fma(p) && own->splits != ECO_SPLIT_ALWAYS))
        return false;
    multiply(run, p, bias, &plan);
    return true;
}

/* ---- a product with a prepared operand ------------------------------------------------------- */

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
    const int32_t slices = eco_split_slices(p->m, p->n, call.k, run->plan->device->caps.threads);
    eco_gpu_note_cuda(run,
                      eco_launch_split_prepare(&call.b, call.k, eco_gpu_overlap(run), run->stream),
                      "splitting states");
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_split_step(&call, slices, gpu->overlap, run->stream),
                          "a product with R as prepared");
    return true;
}
