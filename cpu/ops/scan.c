/*
 * Steps of a cell that is linear in its states, in blocks of time. Each thread folds the steps of
 * each of its blocks into factors and a term of each state. It applies these from block to block,
 * which gives the states at the beginning of its blocks, and runs the steps of its blocks from
 * there. Blocks do not depend on the number of threads, hence no bit does.
 */
#include "cpu/ops/scan_blocks.h"

#include <string.h>

/* ---- from block to block --------------------------------------------------------------------- */

/* Copies the incoming values of some rows before the first block, and zeros before all other
 * blocks. */
static void take_values(const struct eco_scan_blocks *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const size_t H = (size_t)run->problem->H;
    const int32_t t = eco_cpu_scan_time(scan, eco_cpu_scan_place(scan, 0), 0),
                  first = eco_cpu_scan_place(scan, 0);
    for (int s = 0; s < scan->call.n_states; s++) {
        const ecornn_type type = scan->type[s];
        const struct eco_view *from = eco_cpu_scan_carried(scan, s, false);
        const size_t bytes = H * eco_type_bytes(type);
        for (int32_t n = 0; n < run->args->N; n++) {
            for (int32_t b = scan->own.from; b < scan->own.to; b++)
                memset(eco_cpu_scan_value(scan, s, eco_cpu_scan_place(scan, b), n), 0, bytes);
            if (scan->own.from > 0 || scan->own.to == 0)
                continue;
            memcpy(eco_cpu_scan_value(scan, s, -1, n), eco_cpu_scan_row(from, t, n), bytes);
            memcpy(eco_cpu_scan_value(scan, s, first, n), eco_cpu_scan_row(from, t, n), bytes);
        }
    }
}

/* The identity: factors 1 on the diagonal, else 0, and terms 0. */
static void clear_linear(const struct eco_scan_blocks *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const ecornn_type sum = run->layout->sum;
    const size_t H = (size_t)run->problem->H, states = (size_t)scan->call.n_states,
                 factors = (size_t)run->lowered->linear.n_factors;
    for (int32_t b = scan->own.from; b < scan->own.to; b++)
        for (int32_t n = 0; n < run->args->N; n++) {
            char *factor = eco_cpu_scan_factors(scan, eco_cpu_scan_place(scan, b), n);
            memset(factor, 0, factors * H * eco_type_bytes(sum));
            memset(eco_cpu_scan_terms(scan, eco_cpu_scan_place(scan, b), n), 0,
                   states * H * eco_type_bytes(sum));
            for (size_t i = 0; i < states * H; i++)
                if (sum == ECORNN_F64)
                    ((double *)(void *)factor)[i] = 1;
                else
                    ((float *)(void *)factor)[i] = 1;
        }
}

/* Backward, an output state has a carried gradient only at the run's last step; clears it
 * afterwards. */
static void clear_outputs(const struct eco_scan_blocks *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const unsigned linear = run->lowered->linear.states;
    for (int s = 0; s < scan->call.n_states; s++)
        for (int32_t n = 0; !(linear >> s & 1) && n < run->args->N; n++)
            memset(eco_cpu_scan_value(scan, s, eco_cpu_scan_place(scan, 0), n), 0,
                   (size_t)run->problem->H * eco_type_bytes(scan->type[s]));
}

/* Numbers in the type of sums. */
union sums {
    float f32[ECO_SCAN_MOST];
    double f64[ECO_SCAN_MOST];
};

/* Adds factor times value. The product of a block's factors may be infinite; a value that is 0 then
 * stays 0.  A factor of 0 forgets even an infinite value: states need not depend on each other. */
static void follow_f32(float *to, const float *value, const float *factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = value[i] == 0 || factor[i] == 0 ? to[i] : factor[i] * value[i] + to[i];
}

static void follow_f64(double *to, const double *value, const double *factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = value[i] == 0 || factor[i] == 0 ? to[i] : factor[i] * value[i] + to[i];
}

/* Computes state s after a block from the values before it. */
static void follow_state(const struct eco_scan_blocks *scan, int s, int32_t place, int32_t n,
                         const union sums *before, union sums *after)
{
    const struct eco_linear *linear = &scan->run->lowered->linear;
    const size_t H = (size_t)scan->run->problem->H;
    const ecornn_type sum = scan->run->layout->sum;
    const char *factors = eco_cpu_scan_factors(scan, place, n);
    memcpy(after, eco_cpu_after(sum, eco_cpu_scan_terms(scan, place, n), (size_t)s * H),
           H * eco_type_bytes(sum));
    for (int v = 0; v < scan->call.n_states; v++) {
        if (!(linear->group[s] >> v & 1))
            continue;
        const void *factor = eco_cpu_after(sum, factors, (size_t)linear->factor[s][v] * H);
        if (sum == ECORNN_F64)
            follow_f64(after->f64, before[v].f64, factor, H);
        else
            follow_f32(after->f32, before[v].f32, factor, H);
    }
}

/* Computes the values before the thread's blocks from those before the op, block by block. Each
 * thread computes them itself, which takes less time than waiting. */
static void follow(const struct eco_scan_blocks *scan, unsigned group, int32_t n)
{
    const size_t H = (size_t)scan->run->problem->H;
    const ecornn_type sum = scan->run->layout->sum;
    union sums value[2][ECO_MAX_STATES];
    for (int s = 0; s < scan->call.n_states; s++)
        if (group >> s & 1)
            eco_type_move(&value[0][s], sum, eco_cpu_scan_value(scan, s, -1, n), scan->type[s], H);
    for (int32_t b = 0; b < scan->own.to; b++) {
        const int32_t place = eco_cpu_scan_place(scan, b);
        for (int s = 0; s < scan->call.n_states; s++) {
            if (!(group >> s & 1))
                continue;
            if (b >= scan->own.from)
                eco_type_move(eco_cpu_scan_value(scan, s, place, n), scan->type[s],
                              &value[b & 1][s], sum, H);
            follow_state(scan, s, place, n, value[b & 1], &value[~b & 1][s]);
        }
    }
}

/* Folding leaves meaningless values of output states, which are cleared. */
static void follow_all(const struct eco_scan_blocks *scan)
{
    const struct eco_linear *linear = &scan->run->lowered->linear;
    const size_t H = (size_t)scan->run->problem->H;
    for (int s = 0; s < scan->call.n_states; s++)
        for (int32_t n = 0; n < scan->run->args->N; n++)
            if (!(linear->states >> s & 1)) {
                if (scan->own.from == 0 && scan->own.to > 0)
                    memcpy(eco_cpu_scan_value(scan, s, eco_cpu_scan_place(scan, 0), n),
                           eco_cpu_scan_value(scan, s, -1, n), H * eco_type_bytes(scan->type[s]));
            } else if (linear->group[s] >> s == 1) { /* the last state of its group */
                follow(scan, linear->group[s], n);
            }
}

/* Copies the last block's values to where the next op reads them, unless they were written there.
 */
static void leave_values(const struct eco_scan_blocks *scan)
{
    const int32_t last = eco_cpu_scan_place(scan, scan->blocks - 1),
                  t = eco_cpu_scan_time(scan, last, scan->odd - 1);
    const size_t H = (size_t)scan->run->problem->H;
    if (scan->own.to < scan->blocks || scan->own.from == scan->own.to)
        return;
    for (int s = 0; s < scan->call.n_states; s++) {
        const struct eco_view *to = eco_cpu_scan_carried(scan, s, true);
        for (int32_t n = 0; n < scan->run->args->N && (scan->back || !eco_cpu_scan_is_apart(to));
             n++)
            memcpy(eco_cpu_scan_row(to, t, n), eco_cpu_scan_value(scan, s, last, n),
                   H * eco_type_bytes(scan->type[s]));
    }
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void run_scan(struct eco_scan_blocks *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const struct eco_lowered *lowered = run->lowered;
    const int builtin = run->problem->cell->builtin;
    const eco_pointwise_kernel fold =
        builtin < 0 ? run->kernels->interpret : run->kernels->cell[builtin].scan[scan->back];
    struct eco_range folded = scan->own; /* the values after the last block are not needed */
    folded.to -= folded.to == scan->blocks;
    take_values(scan);
    clear_linear(scan);
    eco_cpu_scan_run(scan, folded, fold, &lowered->linear.program[scan->back],
                     scan->back ? clear_outputs : NULL);
    eco_cpu_wait(run);
    follow_all(scan);
    eco_cpu_scan_run(scan, scan->own, eco_cpu_stage_kernel(run, scan->back, 0),
                     scan->back ? lowered->backward : lowered->forward, NULL);
    leave_values(scan);
}

void eco_cpu_scan(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    struct eco_scan_blocks scan = eco_cpu_scan_begin(run, bound, false);
    run_scan(&scan);
}

void eco_cpu_scan_back(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    struct eco_scan_blocks scan = eco_cpu_scan_begin(run, bound, true);
    run_scan(&scan);
}
