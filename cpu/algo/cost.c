/*
 * How much work a problem is: for the planner's estimates and the number of threads.
 */
#include "cpu/cpu.h"

#include <math.h>

#include "cpu/algo/rates.h"

double eco_cpu_estimate(const struct eco_problem *problem, const struct eco_caps *caps, double step,
                        double large)
{
    const double rows = (double)problem->T * problem->N;
    const double element = (double)eco_type_bytes(problem->weight_type);
    double seconds = 0;
    for (int layer = 0; layer < problem->L; layer++) {
        const struct eco_work work = eco_problem_work(problem, layer);
        const double product = 2 * work.recurrent / step;
        const double weights = work.recurrent * element / problem->N / caps->bytes_per_s;
        seconds += rows * ((product > weights ? product : weights) + 2 * work.input / large);
    }
    return problem->D * (problem->training ? 3 * seconds : seconds);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Seconds of so many rows times so many weights by one thread; tiles take as long for one row as
 * for all that they have. */
static double product_seconds(const struct eco_cpu_run *run, double rows, double weights)
{
    const double rate = eco_cpu_rates_of(run->caps)->grid_step *
                        (eco_cpu_rate_of(run->problem, run->caps) * run->caps->flops);
    if (eco_cpu_has_tiles(run, run->args->N))
        rows = ECO_NARROW_TALL * ceil(rows / ECO_NARROW_TALL);
    return 2 * rows * weights / rate;
}

/* Seconds of one step by the slowest of its threads, if the batch goes in `rows` parts and the
 * units in `units`: arithmetic or the way of its weights from the second-level cache and beyond,
 * the pointwise pass, barriers. */
static double step_seconds(const struct eco_cpu_run *run, int rows, int units)
{
    const struct eco_caps *caps = run->caps;
    const struct eco_cpu_rates *rates = eco_cpu_rates_of(caps);
    const struct eco_problem *problem = run->problem;
    const int32_t N = run->args->N, H = problem->H, group = run->unit_group;
    const int32_t groups = (H + group - 1) / group;
    const double row = (N + rows - 1) / rows, unit = (groups + units - 1) / units * group;
    const double share = unit < H ? unit / H : 1;
    const double weights = run->work->recurrent * share;
    const double bytes = weights * (double)eco_type_bytes(problem->weight_type);
    const double near = 0.75 * (double)caps->cpu.cache_bytes, far = bytes > near ? bytes - near : 0;
    const double reading = (bytes - far) / rates->from_cache + far / caps->bytes_per_s;
    const double computing = product_seconds(run, row, weights);
    const double cells = row * share * H * run->lowered->n_accs;
    const int stages = run->args->backward ? run->lowered->n_backward : run->lowered->n_forward;
    const int barriers = run->own_units ? stages : 2 * stages + 2 * problem->projected;
    double waiting = 0;
    for (int threads = 1; threads < units; threads *= 2)
        waiting += rates->barrier * barriers;
    return (reading > computing ? reading : computing) + rates->pass * cells + waiting;
}

static double grid_seconds(const struct eco_cpu_run *run, int together, struct eco_grid grid)
{
    return (together + grid.ops - 1) / grid.ops * step_seconds(run, grid.rows, grid.units);
}

/* More threads must bring so much. */
static const double WORTH = 0.96;

/* The best of one operation at a time on `threads` threads or fewer, in no more parts than rows. */
static struct eco_grid grid_of(const struct eco_cpu_run *run, int threads)
{
    struct eco_grid best = {1, 1, 1};
    double least = step_seconds(run, 1, 1);
    const int most = run->whole_rows ? 1 : run->args->N < threads ? run->args->N : threads;
    for (int rows = 1; rows <= most; rows++)
        for (int units = 1; rows * units <= threads; units++) {
            const double seconds = step_seconds(run, rows, units);
            if (seconds < WORTH * least ||
                (seconds < least && rows * units <= best.rows * best.units)) {
                least = seconds;
                best = (struct eco_grid){1, rows, units};
            }
        }
    return best;
}

struct eco_grid eco_cpu_grid(const struct eco_cpu_run *run, int threads)
{
    const struct eco_problem *problem = run->problem;
    struct eco_grid wanted = run->grid;
    if (run->whole_rows)
        wanted.rows = 1;
    if (wanted.ops > 0 && (int64_t)wanted.ops * wanted.rows * wanted.units <= threads)
        return wanted;
    const int together = problem->D;
    struct eco_grid best = grid_of(run, threads);
    double least = grid_seconds(run, together, best);
    for (int ops = 2; ops <= together && ops <= threads; ops++) {
        struct eco_grid grid = grid_of(run, threads / ops);
        grid.ops = ops;
        const double seconds = grid_seconds(run, together, grid);
        if (seconds < WORTH * least) {
            least = seconds;
            best = grid;
        }
    }
    return best;
}

/* Do the steps of this run, with what is read of W for them, gain more by a grid than it takes to
 * wake the other threads, if they are not asleep for long? */
static bool worth_waking(const struct eco_cpu_run *run, struct eco_grid grid)
{
    const struct eco_problem *problem = run->problem;
    const int together = problem->D;
    const double alone = grid_seconds(run, together, (struct eco_grid){1, 1, 1});
    const double gain = alone - grid_seconds(run, together, grid);
    const double steps = (double)run->args->T * problem->L * problem->D / together;
    const double both = (run->work->recurrent + run->work->input) / run->work->recurrent;
    return run->grid.ops > 0 || gain * steps * both > eco_cpu_rates_of(run->caps)->wake;
}

/* Seconds of a thread's part of a step's products from which others look after it. */
static const double HELP = 10e-6;

bool eco_cpu_helps(const struct eco_cpu_run *run, int threads)
{
    return product_seconds(run, run->args->N, run->work->recurrent) >= HELP * threads;
}

/* Below so many multiply-adds of large products for each thread, a run is over before the others
 * are awake. */
enum { RUN_WORK = 1 << 20 };

int eco_cpu_threads(const struct eco_cpu_run *run)
{
    const double large = run->work->input * run->args->N * run->args->T;
    const int most = run->cpu->threads;
    if (most == 1)
        return 1;
    const struct eco_grid grid = eco_cpu_grid(run, most);
    const int steps = worth_waking(run, grid) ? grid.ops * grid.rows * grid.units : 1;
    const int others = large < (double)RUN_WORK * most ? (int)(large / RUN_WORK) : most;
    return others > steps ? others : steps;
}
