/*
 * The sums of weight gradients. Every op adds the sum of its rows. If all ops added to dweights,
 * the additions to a sum that has grown large would lose precision. So in a long run the ops add to
 * an array of the workspace. From time to time this array is added to dweights and then keeps the
 * rounding error of that addition, so the error of a gradient does not grow with the number of
 * rows.
 */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"

/* The rows after which the array is added to dweights. More rows make longer chains of additions;
 * fewer cost time (1 << 14 rows cost about 0.8 % of a product). F64 needs no such array. */
enum { GROUP_ROWS = 1 << 16 };

int32_t eco_cpu_gradient_group(const struct eco_problem *problem)
{
    return problem->type == ECORNN_F64 ? 0
                                       : eco_forced(problem, ECO_FORCE_GRADIENT_ROWS, GROUP_ROWS);
}

/* Bytes of dweights before an op's layer and direction. */
static size_t offset_of(const struct eco_cpu_run *run, const struct eco_op *op)
{
    return eco_layout_gradient(run->layout, op->layer, op->d, 0);
}

static void *sums_apart(const struct eco_cpu_run *run, const struct eco_op *op)
{
    return eco_bind_array(run->layout, run->args, op, ECO_INNER_GRADIENT, 0).first;
}

void *eco_cpu_gradient(const struct eco_cpu_run *run, const struct eco_op *op, int part)
{
    const size_t offset = eco_layout_gradient(run->layout, op->layer, op->d, part);
    if (!eco_layout_sums_by_group(run->layout))
        return eco_bind_gradient(run->layout, run->args, op, part);
    return (char *)sums_apart(run, op) + (offset - offset_of(run, op));
}

/* This thread's part of the array of sums, and of dweights. */
struct part {
    char *apart, *dweights;
    size_t bytes;
};

static struct part part_of(const struct eco_cpu_run *run, const struct eco_op *op)
{
    enum { PAGE = 4096 };
    const size_t bytes = run->layout->packing->direction[ECO_FORM_DENSE][op->layer > 0];
    const struct eco_range pages = eco_cpu_part(run, (int32_t)((bytes + PAGE - 1) / PAGE), 1);
    const size_t from = (size_t)pages.from * PAGE, to = (size_t)pages.to * PAGE;
    return (struct part){(char *)sums_apart(run, op) + from,
                         (char *)run->args->dweights + offset_of(run, op) + from,
                         pages.from == pages.to ? 0 : (to < bytes ? to : bytes) - from};
}

bool eco_cpu_gradient_begin(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const bool add = op->add || run->args->accumulate;
    if (!eco_layout_sums_by_group(run->layout))
        return add;
    const struct part part = part_of(run, op);
    if (!op->add)
        memset(part.apart, 0, part.bytes);
    if (!add)
        memset(part.dweights, 0, part.bytes);
    if (!op->add)
        eco_cpu_wait(run);
    return true;
}

/* sum += some; some = the exact rounding error of that (Knuth 1969), or 0 if the sum is infinite.
 */
static void join_floats(float *restrict sum, float *restrict some, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float all = sum[i] + some[i], added = all - sum[i];
        const float lost = (sum[i] - (all - added)) + (some[i] - added);
        sum[i] = all;
        some[i] = isfinite(all) ? lost : 0;
    }
}

void eco_cpu_gradient_join(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const struct part part = part_of(run, op);
    eco_cpu_wait(run);
    join_floats((void *)part.dweights, (void *)part.apart, part.bytes / sizeof(float));
    eco_cpu_wait(run);
}

int32_t eco_cpu_gradient_rows(const struct eco_cpu_run *run)
{
    return eco_layout_sums_by_group(run->layout) ? run->layout->request.cpu.gradient_rows
                                                 : INT32_MAX;
}

void eco_cpu_gradient_end(const struct eco_cpu_run *run, const struct eco_op *op)
{
    if (!eco_layout_sums_by_group(run->layout))
        return;
    const int32_t T = run->args->T, done = op->reversed ? op->t1 : T - op->t0;
    const int64_t rows = (int64_t)done * run->args->N, each = eco_cpu_gradient_rows(run);
    const int64_t before = (int64_t)(done - (op->t1 - op->t0)) * run->args->N;
    if (done == T || rows / each > before / each)
        eco_cpu_gradient_join(run, op);
}
