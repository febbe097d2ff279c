/*
 * How much work a problem is: for the planner's estimates and the number of threads.
 */
#include "cpu/cpu.h"

double eco_cpu_estimate(const struct eco_problem *problem, const struct eco_caps *caps, double step,
                        double large)
{
    const double rows = (double)problem->T * problem->N;
    const double element = (double)eco_type_bytes(problem->type);
    double seconds = 0;
    for (int layer = 0; layer < problem->L; layer++) {
        const struct eco_work work = eco_problem_work(problem, layer);
        const double product = 2 * work.recurrent / step;
        const double weights = work.recurrent * element / problem->N / caps->bytes_per_s;
        seconds += rows * ((product > weights ? product : weights) + 2 * work.input / large);
    }
    return problem->D * (problem->training ? 3 * seconds : seconds);
}

/* Below so many multiply-adds for each thread, a step is over before the others have heard of it; a
 * run, before they are awake. */
enum { STEP_WORK = 1 << 16, RUN_WORK = 1 << 20 };

static int threads_for(const struct ecornn_plan *plan, double work, double each)
{
    const struct eco_cpu *cpu = plan->device->own;
    const double useful = work / each;
    return useful < 1 ? 1 : useful < cpu->threads ? (int)useful : cpu->threads;
}

int eco_cpu_step_threads(const struct ecornn_plan *plan, const struct eco_args *args)
{
    return threads_for(plan, plan->work.recurrent * args->N, STEP_WORK);
}

int eco_cpu_threads(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const double large = plan->work.input * args->N * args->T;
    const int run = threads_for(plan, large, RUN_WORK), step = eco_cpu_step_threads(plan, args);
    return run > step ? run : step;
}

struct eco_cpu_run eco_cpu_run_of(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                  const struct eco_args *args)
{
    const struct eco_cpu *cpu = plan->device->own;
    return (struct eco_cpu_run){
        .cpu = cpu,
        .problem = &plan->problem,
        .lowered = &plan->problem.cell->lowered,
        .layout = layout,
        .args = args,
        .kernels = plan->problem.type == ECORNN_F64 ? cpu->isa->f64 : cpu->isa->f32,
        .tile = cpu->isa->tile,
        .step_threads = eco_cpu_step_threads(plan, args),
        .unit_group = 16,
    };
}
