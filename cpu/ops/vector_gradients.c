/*
 * Gradients of vectors: sums of columns of dacc over all rows of an op. In a cell with means the
 * steps add them up themselves, one sum for each row of the batch. Such a cell may have many
 * vectors, and their columns of all steps would be larger than everything else that backward
 * writes. Bits do not depend on the thread that takes a row.
 */
#include "cpu/cpu.h"

#include <math.h>
#include <string.h>

/* Compiled stages store columns. */
bool eco_cpu_sums_vectors(const struct eco_problem *problem)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    return lowered->has_means && lowered->n_extra > 0 && eco_cpu_is_interpreted(problem);
}

void eco_cpu_point_at_sums(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t i,
                           struct eco_pointwise *call)
{
    call->dvector = eco_view_at(&bound->dvector, i / ECO_SUM_STEPS);
    call->dvector_row = bound->dvector.row;
    call->first_vector = run->lowered->n_accs;
    if (i % ECO_SUM_STEPS == 0)
        call->summed = 0;
}

/* The number of rows of the sum that begins with the op's step i in backward's order: that of the
 * earliest of its steps, which has the most rows. */
static int32_t summed_rows(const struct eco_cpu_run *run, const struct eco_op *op, int32_t i)
{
    const int32_t left = op->t1 - op->t0 - i, steps = left < ECO_SUM_STEPS ? left : ECO_SUM_STEPS;
    return eco_cpu_active(run, op->reversed ? op->t0 + i : op->t1 - i - steps);
}

/* The sums of some columns, with their rounding errors. */
enum { COLUMNS = 64 };
struct column_sums {
    union {
        float f32[COLUMNS];
        double f64[COLUMNS];
    } sum, lost;
};

/* The rounding error of an infinite sum is NaN, and is not added. */
static double whole(double sum, double lost)
{
    return isfinite(sum) ? sum + lost : sum;
}

/* to (+)= the sums. */
static void take_sums(void *to, const struct column_sums *sums, int32_t n, ecornn_type type,
                      bool add)
{
    float *f32 = to;
    double *f64 = to;
    for (int32_t i = 0; type == ECORNN_F32 && i < n; i++) {
        const double all = whole((double)sums->sum.f32[i], (double)sums->lost.f32[i]);
        f32[i] = (float)(add ? (double)f32[i] + all : all);
    }
    for (int32_t i = 0; type == ECORNN_F64 && i < n; i++) {
        const double all = whole(sums->sum.f64[i], sums->lost.f64[i]);
        f64[i] = add ? f64[i] + all : all;
    }
}

/* The gradients of vectors; unit: the first unit of the thread. */
struct source {
    const struct eco_cpu_run *run;
    const struct eco_multiply *multiply;
    const struct eco_view *dvector;
    size_t unit;
};

/* Adds some adjacent units of a column of dacc over all rows of the op. */
static void add_column(const struct source *source, size_t from, int32_t some,
                       struct column_sums *sums)
{
    const struct eco_cpu_run *run = source->run;
    const struct eco_multiply *multiply = source->multiply;
    for (struct eco_row_range at = {0}; eco_cpu_next_row_range(run, multiply->op, &at);) {
        const size_t row = (size_t)at.step * (size_t)run->args->N;
        run->kernels->add_columns(
            &sums->sum, &sums->lost,
            eco_cpu_after(run->layout->type, multiply->a, row * multiply->a_row + from),
            multiply->a_row, at.rows, some);
    }
}

/* The same for the sums that steps have made. */
static void add_step_sums(const struct source *source, size_t from, int32_t some,
                          struct column_sums *sums)
{
    const struct eco_cpu_run *run = source->run;
    const struct eco_op *op = source->multiply->op;
    const struct eco_pointwise_kernels *kernels =
        run->layout->sum == ECORNN_F64 ? run->isa->f64 : run->isa->f32;
    for (int32_t i = 0; i < op->t1 - op->t0; i += ECO_SUM_STEPS)
        kernels->add_columns(
            &sums->sum, &sums->lost,
            eco_cpu_after(run->layout->sum, eco_view_at(source->dvector, i / ECO_SUM_STEPS), from),
            source->dvector->row, summed_rows(run, op, i), some);
}

/* Sums n units of a column, COLUMNS at a time. */
static void sum_columns(const struct source *source, int column, int32_t n, void *to)
{
    const struct eco_cpu_run *run = source->run;
    const ecornn_type type = run->layout->sum;
    const int extra = column - run->lowered->n_accs;
    const bool summed = extra >= 0 && source->dvector->first != NULL;
    const size_t first = (size_t)(summed ? extra : column) * (size_t)run->problem->H + source->unit;
    for (int32_t j = 0; j < n; j += COLUMNS) {
        struct column_sums sums;
        const int32_t some = n - j < COLUMNS ? n - j : COLUMNS;
        memset(&sums.sum, 0, (size_t)some * eco_type_bytes(type));
        memset(&sums.lost, 0, (size_t)some * eco_type_bytes(type));
        (summed ? add_step_sums : add_column)(source, first + (size_t)j, some, &sums);
        take_sums(eco_cpu_after_mutable(type, to, (size_t)j), &sums, some, type,
                  source->multiply->add);
    }
}

void eco_cpu_d_vectors(const struct eco_cpu_run *run, const struct eco_view *dvector,
                       const struct eco_multiply *multiply)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const size_t H = (size_t)run->problem->H;
    const struct eco_range share = eco_cpu_part(run, run->problem->H, 16);
    const struct source source = {run, multiply, dvector, (size_t)share.from};
    const int32_t n = share.to - share.from;
    const ecornn_type type = run->layout->sum;
    void *sum = eco_cpu_after_mutable(type, eco_cpu_gradient(run, multiply->op, ECO_WEIGHT_VECTORS),
                                      (size_t)share.from);
    for (int i = 0; i < recipe->n_params; i++) {
        if (recipe->param[i].kind != ECO_PARAM_VECTOR)
            continue;
        const int column = eco_vector_column(run->lowered, i);
        if (column >= 0)
            sum_columns(&source, column, n, sum);
        else if (!multiply->add)
            memset(sum, 0, (size_t)n * eco_type_bytes(type));
        sum = eco_cpu_after_mutable(type, sum, H);
    }
}
