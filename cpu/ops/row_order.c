/*
 * Rows in the order of their lengths, so that at every step the rows that have not ended come
 * first. All arrays inside a run have this order; the caller's arrays and random numbers have not.
 */
#include "cpu/cpu.h"

/* A stable counting sort that finds the row of the batch at each index. count[t] is the number of
 * rows longer than t; it is built one element higher. */
static void sort(const int32_t *lengths, int32_t T, int32_t N, int32_t *order, int32_t *longer)
{
    int32_t before = 0;
    for (int32_t length = 0; length <= T; length++)
        longer[length] = 0;
    for (int32_t n = 0; n < N; n++)
        longer[lengths[n]]++;
    for (int32_t length = T; length >= 0; length--) {
        const int32_t equal = longer[length];
        longer[length] = before;
        before += equal;
    }
    /* Now longer[length] is the first index for rows of this length; at the end, it is the index
     * after them. */
    for (int32_t n = 0; n < N; n++)
        order[longer[lengths[n]]++] = n;
}

void eco_cpu_sort(struct eco_cpu_run *run)
{
    const struct eco_args *args = run->args;
    if (args->lengths == NULL)
        return;
    int32_t *order = (int32_t *)(void *)((char *)args->workspace + run->layout->order);
    int32_t *longer = order + args->N;
    sort(args->lengths, args->T, args->N, order, longer);
    run->order = order;
    run->active = longer + 1;
}

int32_t eco_cpu_active(const struct eco_cpu_run *run, int32_t t)
{
    return run->active ? run->active[t] : run->args->N;
}

int32_t eco_cpu_row(const struct eco_cpu_run *run, int32_t place)
{
    return run->order ? run->order[place] : place;
}

struct eco_range eco_cpu_step_rows(const struct eco_cpu_run *run, int32_t t)
{
    const int32_t n = eco_cpu_active(run, t);
    return (struct eco_range){run->rows.from < n ? run->rows.from : n,
                              run->rows.to < n ? run->rows.to : n};
}

bool eco_cpu_next_row_range(const struct eco_cpu_run *run, const struct eco_op *op,
                            struct eco_row_range *stretch)
{
    const int32_t N = run->args->N;
    int32_t t = op->t0 + stretch->steps, n;
    stretch->step = stretch->steps;
    stretch->rows = 0;
    do {
        if (t == op->t1)
            break;
        n = eco_cpu_active(run, t++);
        stretch->rows += n;
    } while (n == N);
    stretch->steps = t - op->t0;
    return stretch->rows > 0;
}
