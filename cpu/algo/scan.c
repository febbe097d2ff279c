/*
 * Algorithm scan: cells that are linear in their states, element by element, have no product in a
 * step.  So each thread goes through all steps of a chunk by itself, with units or rows of its own,
 * and waits for nobody in between: the bits are those of steps, whatever the number of threads.
 * Products over all steps are those of packed, or of blas where that refuses.
 */
#include "cpu/algo/force.h"
#include "cpu/gemm/packed/packed.h"

static const struct eco_algo *base_of(const struct eco_problem *problem,
                                      const struct eco_caps *caps)
{
    return eco_algo_packed.refuses(problem, caps) == NULL ? &eco_algo_packed : &eco_algo_blas;
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (!problem->cell->lowered.linear.scans)
        return "a cell that is not linear in its states";
    if (problem->projected)
        return "a projection";
    if (eco_cpu_forced(problem, "own-units", 0) > 0 || eco_cpu_forced(problem, "fuse", 0) > 0)
        return "ECORNN_FORCE asks for what is no choice of it";
    return base_of(problem, caps)->refuses(problem, caps);
}

static void wishes(const struct eco_problem *problem, const struct eco_caps *caps,
                   struct eco_wishes *wishes)
{
    base_of(problem, caps)->wishes(problem, caps, wishes);
    wishes->fuse_input = false;
    wishes->cpu.own_units = false;
}

/* As the products, which are most of it; a little less, so that it is taken. */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return 0.95 * base_of(problem, caps)->estimate(problem, caps);
}

static ecornn_status run_tape(const struct ecornn_plan *plan, const struct eco_tape *tape,
                              const struct eco_layout *layout, const struct eco_args *args)
{
    struct eco_cpu_run run = eco_cpu_run_of(plan, layout, args);
    run.products = plan->wishes.cpu.lanes > 0 ? &eco_packed_products : &eco_dense_products;
    run.near = 1;
    run.scans = true;
    eco_cpu_sort(&run);
    return eco_cpu_walk(&run, tape, eco_cpu_threads(&run));
}

const struct eco_algo eco_algo_scan = {"scan", refuses, wishes, estimate, run_tape, NULL};
