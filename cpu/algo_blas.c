/*
 * Algorithm blas: large products through CBLAS, one fused pointwise pass per step and stage.  Runs
 * every cell and option; what an algorithm of its own must beat.
 */
#include "cpu/cpu.h"

static const eco_cpu_kernel kernel[ECO_OP_KINDS] = {
    [ECO_BEGIN] = eco_cpu_begin,
    [ECO_GATHER] = eco_cpu_gather,
    [ECO_INPUT] = eco_blas_input,
    [ECO_STEP] = eco_blas_step,
    [ECO_END] = eco_cpu_end,
    [ECO_D_BEGIN] = eco_cpu_d_begin,
    [ECO_D_STEP] = eco_blas_d_step,
    [ECO_D_INPUT] = eco_blas_d_input,
    [ECO_D_SCATTER] = eco_cpu_d_scatter,
    [ECO_D_WEIGHTS] = eco_blas_d_weights,
    [ECO_D_END] = eco_cpu_d_end,
};

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem;
    (void)caps;
    return NULL;
}

/* Enough rows that the input product runs at full speed, few enough that its result stays in the
 * shared cache until the steps read it; more for weight gradients, whose result is rewritten. */
enum { FORWARD_ROWS = 1024, BACKWARD_ROWS = 2048 };

static int32_t steps_for(int32_t rows, int32_t N)
{
    const int32_t steps = (rows + N - 1) / N;
    return steps < 16 ? 16 : steps;
}

static void wishes(const struct eco_problem *problem, const struct eco_caps *caps,
                   struct eco_wishes *wishes)
{
    (void)caps;
    *wishes = (struct eco_wishes){
        .chunk = steps_for(FORWARD_ROWS, problem->N),
        .chunk_backward = steps_for(BACKWARD_ROWS, problem->N),
    };
}

/* Multiply-adds of one step's recurrent products, one layer and direction. */
static double recurrent_work(const struct eco_problem *problem)
{
    double columns = 0;
    for (int a = 0; a < problem->cell->lowered.n_accs; a++)
        for (int o = 0; o < problem->cell->lowered.n_operands; o++)
            if (problem->cell->lowered.acc[a].recurrent[o] >= 0)
                columns += eco_problem_columns(problem, o);
    return (columns + (problem->projected ? problem->P : 0)) * problem->N * problem->H;
}

static double input_work(const struct eco_problem *problem, int layer)
{
    double inputs = 0;
    for (int a = 0; a < problem->cell->lowered.n_accs; a++)
        inputs += problem->cell->lowered.acc[a].input >= 0;
    return inputs * problem->N * problem->H * eco_problem_input(problem, layer);
}

/* Rates seen of OpenBLAS 0.3.21: 0.6 of the peak for the large products, 0.3 for those of a step,
 * never faster than the weights come from memory. */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double rate = caps->flops * caps->threads;
    const double step = 2 * recurrent_work(problem) / (0.3 * rate);
    const double weights = recurrent_work(problem) / problem->N *
                           (double)eco_type_bytes(problem->type) / caps->bytes_per_s;
    double seconds = 0;
    for (int layer = 0; layer < problem->L; layer++)
        seconds +=
            problem->D * (double)problem->T *
            ((step > weights ? step : weights) + 2 * input_work(problem, layer) / (0.6 * rate));
    return problem->training ? 3 * seconds : seconds;
}

/* Below this many multiply-adds a step is over before a second thread has heard of it. */
enum { LEAST_WORK_PER_THREAD = 1 << 15 };

static ecornn_status run_tape(const struct ecornn_plan *plan, const struct eco_tape *tape,
                              const struct eco_layout *layout, const struct eco_args *args)
{
    const struct eco_cpu *cpu = plan->device->own;
    const double work = recurrent_work(&plan->problem) / plan->problem.N * args->N;
    const double useful = work / LEAST_WORK_PER_THREAD;
    const struct eco_cpu_run run = {
        .cpu = cpu,
        .problem = &plan->problem,
        .lowered = &plan->problem.cell->lowered,
        .layout = layout,
        .args = args,
        .kernels = plan->problem.type == ECORNN_F64 ? cpu->isa->f64 : cpu->isa->f32,
    };
    return eco_cpu_walk(&run, tape, kernel,
                        useful < 1              ? 1
                        : useful < cpu->threads ? (int)useful
                                                : cpu->threads);
}

const struct eco_algo eco_algo_blas = {"blas", refuses, wishes, estimate, run_tape};
