/*
 * Steps of a cell that is linear in its states, in blocks of time. Each thread folds the steps of
 * each of its blocks into one factor and one term of each state. It applies these from block to
 * block, which gives the states at the beginning of its blocks, and runs the steps of its blocks
 * from there. Blocks do not depend on the number of threads, hence no bit does.
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

/* Factors 1, terms 0. */
static void clear_linear(const struct eco_scan_blocks *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const ecornn_type sum = run->layout->sum;
    const size_t width = (size_t)scan->call.n_states * (size_t)run->problem->H;
    for (int32_t b = scan->own.from; b < scan->own.to; b++)
        for (int32_t n = 0; n < run->args->N; n++) {
            char *factor = eco_cpu_scan_linear(scan, scan->factor, eco_cpu_scan_place(scan, b), n);
            memset(eco_cpu_scan_linear(scan, scan->term, eco_cpu_scan_place(scan, b), n), 0,
                   width * eco_type_bytes(sum));
            for (size_t i = 0; i < width; i++)
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

/* The product of a block's factors may be infinite; a value that is 0 then stays 0. */
static void follow_f32(float *value, const float *factor, const float *term, size_t n)
{
    for (size_t i = 0; i < n; i++)
        value[i] = value[i] == 0 ? term[i] : factor[i] * value[i] + term[i];
}

static void follow_f64(double *value, const double *factor, const double *term, size_t n)
{
    for (size_t i = 0; i < n; i++)
        value[i] = value[i] == 0 ? term[i] : factor[i] * value[i] + term[i];
}

/* Computes the values before the thread's blocks from those before the op, block by block. Each
 * thread computes them itself, which takes less time than waiting. */
static void follow(const struct eco_scan_blocks *scan, int s, int32_t n)
{
    const struct eco_cpu_run *run = scan->run;
    const size_t H = (size_t)run->problem->H, before = (size_t)s * H;
    const ecornn_type sum = run->layout->sum, type = scan->type[s];
    union sums value;
    eco_type_move(&value, sum, eco_cpu_scan_value(scan, s, -1, n), type, H);
    for (int32_t b = 0; b < scan->own.to; b++) {
        const int32_t place = eco_cpu_scan_place(scan, b);
        const char *factor = eco_cpu_after(sum, eco_cpu_scan_linear(scan, scan->factor, place, n),
                                           before),
                   *term =
                       eco_cpu_after(sum, eco_cpu_scan_linear(scan, scan->term, place, n), before);
        if (b >= scan->own.from)
            eco_type_move(eco_cpu_scan_value(scan, s, place, n), type, &value, sum, H);
        if (sum == ECORNN_F64)
            follow_f64(value.f64, (const void *)factor, (const void *)term, H);
        else
            follow_f32(value.f32, (const void *)factor, (const void *)term, H);
    }
}

/* Folding leaves meaningless values of output states, which are cleared. */
static void follow_all(const struct eco_scan_blocks *scan)
{
    const unsigned linear = scan->run->lowered->linear.states;
    const size_t H = (size_t)scan->run->problem->H;
    for (int s = 0; s < scan->call.n_states; s++)
        for (int32_t n = 0; n < scan->run->args->N; n++)
            if (linear >> s & 1)
                follow(scan, s, n);
            else if (scan->own.from == 0 && scan->own.to > 0)
                memcpy(eco_cpu_scan_value(scan, s, eco_cpu_scan_place(scan, 0), n),
                       eco_cpu_scan_value(scan, s, -1, n), H * eco_type_bytes(scan->type[s]));
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
