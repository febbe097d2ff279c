/*
 * How much work a problem is: for the planner's estimates, and for the teams that its runs take.
 */
#include "cpu/cpu.h"

#include <math.h>

#include "common/util.h"
#include "cpu/algo/rates.h"

double eco_cpu_estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double rows = (double)problem->T * problem->N, peak = caps->flops * caps->threads;
    const double element = (double)eco_type_bytes(problem->weight_type);
    double seconds = 0;
    for (int layer = 0; layer < problem->L; layer++) {
        const struct eco_work work = eco_problem_work(problem, layer);
        const double product = 2 * work.recurrent / (eco_cpu_rates.step_products * peak);
        const double weights = work.recurrent * element / problem->N / caps->bytes_per_s;
        seconds += rows * ((product > weights ? product : weights) +
                           2 * work.input / (eco_cpu_rates.large_products * peak));
    }
    return problem->D * (problem->training ? 3 * seconds : seconds);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Part of a second-level cache that the weights of a step may fill. */
static const double CACHED_PART = 0.75;

/* Seconds that one thread takes to multiply rows by weights. Fetching a weight costs as much as
 * multiplying it by panel_rows rows; tiles take as long for one row as for all of their rows. */
static double product_seconds(const struct eco_cpu_run *run, double rows, double weights)
{
    static const double panel_rows = 2, split_slower = 1.5;
    double rate = eco_cpu_rates.step_products * run->caps->flops;
    if (eco_cpu_has_tiles(run, ECO_WEIGHT_RECURRENT, run->args->N)) {
        rows = ECO_NARROW_TALL * ceil(rows / ECO_NARROW_TALL);
        rate *= eco_cpu_rates.tiles;
        if (run->layout->type == ECORNN_F32 && run->layout->weight == ECORNN_BF16)
            rate /= split_slower;
    } else
        rows += panel_rows;
    return 2 * rows * weights / rate;
}

static int doublings(int threads)
{
    int n = 0;
    while (1 << n < threads)
        n++;
    return n;
}

/* How much longer a barrier takes than in an empty loop if threads come to it from other work: in a
 * step, in a level. */
static const double IN_STEPS = 4, OF_LEVELS = 2.5;

static double waiting_seconds(int threads)
{
    return eco_cpu_rates.barrier * doublings(threads);
}

/* Seconds of a step until its threads have what the others of their part of the batch wrote:
 * states, or backward the gradients of all accumulators. */
static double sharing_seconds(const struct eco_cpu_run *run, double row, int units)
{
    const double values = row * run->problem->H * (run->args->backward ? run->lowered->n_accs : 1);
    return values * sizeof(float) * (units - 1) / units / eco_cpu_rates.exchanged_bytes;
}

/* The share of the busiest of `units` threads. Threads that are done help one with a group more. */
static double share_of_units(const struct eco_cpu_run *run, int units)
{
    static const double uneven = 0.6;
    const int32_t H = run->problem->H, group = run->unit_group;
    const double most = (double)(((H + group - 1) / group + units - 1) / units * group) / H;
    const double share = uneven * most + (1 - uneven) / units;
    return share < 1 ? share : 1;
}

/* Seconds that lines with the ends of two threads' rows take to move between these in a step: one
 * in each array that the step writes. With few units all of a row is in such lines. */
static double crossing_in_steps(const struct eco_cpu_run *run, struct eco_grid grid)
{
    const struct eco_lowered *lowered = run->lowered;
    const int states = run->problem->cell->recipe.n_states,
              arrays = states + (run->args->backward      ? lowered->n_accs
                                 : run->problem->training ? lowered->n_saves
                                                          : 0);
    const double part = (double)run->unit_group / run->problem->H;
    return grid.rows > 1 && run->problem->H % run->unit_group > 0
               ? arrays * eco_cpu_rates.shared_line * (part < 1 ? part : 1)
               : 0;
}

/* Weights that a step of this run reads, on average over the layers. */
static double step_weights(const struct eco_cpu_run *run)
{
    const int32_t L = run->problem->L;
    const double upper = L > 1 ? eco_problem_work(run->problem, 1).input : 0,
                 input = (run->work->input + (L - 1) * upper) / L;
    const bool fused = run->layout->fuse_input && !run->args->backward;
    return run->work->recurrent + (fused ? input : 0);
}

/* Seconds of one step by the slowest of its threads, if `ops` steps run at once, the batch in
 * `rows` parts and the units in `units`: arithmetic or loading weights from the second-level cache
 * and beyond, the pointwise pass, barriers. */
static double step_seconds(const struct eco_cpu_run *run, struct eco_grid grid)
{
    const struct eco_caps *caps = run->caps;
    const struct eco_problem *problem = run->problem;
    const bool backward = run->args->backward;
    const double row = (run->args->N + grid.rows - 1) / grid.rows;
    const double share = share_of_units(run, grid.units);
    const double weights = step_weights(run) * share;
    const double bytes = weights * (double)eco_type_bytes(problem->weight_type);
    const double cached = CACHED_PART * (double)caps->cpu.cache_bytes,
                 uncached = bytes > cached ? bytes - cached : 0;
    const double reading =
        (bytes - uncached) / eco_cpu_rates.cache_bytes + uncached / caps->bytes_per_s;
    const double computing = product_seconds(run, row, weights);
    const double cells = row * share * problem->H * run->lowered->n_accs;
    const int stages = backward ? run->lowered->n_backward : run->lowered->n_forward;
    const int barriers = run->own_units ? stages : 2 * stages + 2 * problem->projected;
    const double products = reading > computing ? reading : computing;
    const double busy = products +
                        (backward ? eco_cpu_rates.pass_back : eco_cpu_rates.pass) * cells +
                        stages * (eco_cpu_rates.row * row + eco_cpu_rates.stage);
    const double late = eco_cpu_rates.late * doublings(grid.ops * grid.rows * grid.units);
    return busy * (1 + late) + crossing_in_steps(run, grid) +
           barriers * IN_STEPS * waiting_seconds(grid.units) +
           sharing_seconds(run, row, grid.units);
}

/* With W of the widest layer. */
static double input_work(const struct eco_cpu_run *run)
{
    const double first = run->work->input;
    const double upper = run->problem->L > 1 ? eco_problem_work(run->problem, 1).input : 0;
    return first > upper ? first : upper;
}

/* The share of work that remains with `threads` threads: memory and serial work do not scale. */
static double part_of(int threads)
{
    static const double alone = 0.07;
    return alone + (1 - alone) / threads;
}

/* Seconds of the products over all steps. Weight gradients are divided by units, in large parts. */
static double large_seconds(const struct eco_cpu_run *run, int threads)
{
    enum { UNITS = 32 };
    const struct eco_problem *problem = run->problem;
    const double rate = eco_cpu_rates.large_products * run->caps->flops;
    const double rows = (double)run->args->T * run->args->N * problem->D * problem->L;
    const int parts = (problem->H + UNITS - 1) / UNITS;
    const double computing = 2 * rows * input_work(run) / rate;
    const double reading = input_work(run) * problem->L * problem->D *
                           (double)eco_type_bytes(problem->weight_type) / eco_cpu_rates.cache_bytes;
    const double input = computing > reading ? computing : reading;
    if (!run->args->backward)
        return run->layout->fuse_input ? 0 : input * part_of(threads);
    const double products = input + 2 * rows * run->work->recurrent / rate;
    const double sums = (input_work(run) + run->work->recurrent) * problem->L * problem->D;
    const double adding = 2 * sums * sizeof(float) / eco_cpu_rates.cache_bytes;
    const double weights = products > adding ? products : adding;
    return input * part_of(threads) + weights * part_of(parts < threads ? parts : threads);
}

/* Seconds of waiting: after each level of the tape, and twice in weight gradients. */
static double waiting_of_levels(const struct eco_cpu_run *run, int threads)
{
    enum { AROUND = 2, FORWARD = 2, BACKWARD = 5 };
    const struct eco_layout *layout = run->layout;
    const int32_t chunk = run->args->backward ? layout->chunk_backward : layout->chunk;
    const int chunks = chunk > 0 ? (run->args->T + chunk - 1) / chunk : 1;
    const double levels = (double)chunks * run->problem->L;
    return (AROUND + levels * (run->args->backward ? BACKWARD : FORWARD)) * OF_LEVELS *
           waiting_seconds(threads);
}

/* With less work in large products for each thread, a run is over before the others are awake. */
enum { RUN_WORK = 1 << 20 };

/* Threads of a run whose steps take a grid; large products may take more. */
static int threads_with(const struct eco_cpu_run *run, struct eco_grid grid)
{
    const double large = input_work(run) * run->args->N * run->args->T;
    const int most = run->layout->request.cpu.run_threads,
              steps = grid.ops * grid.rows * grid.units;
    const int others = large < (double)RUN_WORK * most ? (int)(large / RUN_WORK) : most;
    return others > steps ? others : steps;
}

/* Seconds of the run. */
static double grid_seconds(const struct eco_cpu_run *run, struct eco_grid grid)
{
    const int threads = threads_with(run, grid), D = run->problem->D;
    const double steps = (double)run->args->T * run->problem->L * ((D + grid.ops - 1) / grid.ops);
    const double together = threads > 1 ? eco_cpu_rates.wake + waiting_of_levels(run, threads) : 0;
    return steps * step_seconds(run, grid) + large_seconds(run, threads) + together;
}

/* More threads must reduce the time to this. */
static const double WORTH = 0.96;

/* Is a number of parts worth trying? Others leave threads idle, or load them unevenly. */
static bool is_even(int parts, int threads, int32_t most)
{
    return (parts & (parts - 1)) == 0 || threads % parts == 0 || parts == most;
}

/* The best grid with `ops` operations at a time on at most `threads` threads each. */
static struct eco_grid grid_of(const struct eco_cpu_run *run, int ops, int threads)
{
    struct eco_grid best = {ops, 1, 1};
    double least = grid_seconds(run, best);
    const int most = run->whole_rows ? 1 : run->args->N < threads ? run->args->N : threads;
    const int32_t groups = (run->problem->H + run->unit_group - 1) / run->unit_group;
    for (int rows = 1; rows <= most; rows++)
        for (int units = 1; rows * units <= threads && units <= groups; units++) {
            if (!is_even(rows, threads, run->args->N) || !is_even(units, threads, groups))
                continue;
            const struct eco_grid grid = {ops, rows, units};
            const double seconds = grid_seconds(run, grid);
            if (seconds < WORTH * least ||
                (seconds < least && rows * units <= best.rows * best.units)) {
                least = seconds;
                best = grid;
            }
        }
    return best;
}

/* The fastest grid of `threads` threads for the steps; it may use fewer. */
static struct eco_grid choose_grid(const struct eco_cpu_run *run, int threads)
{
    const struct eco_problem *problem = run->problem;
    struct eco_grid wanted = run->grid;
    if (run->whole_rows)
        wanted.rows = 1;
    if (wanted.ops > 0 && (int64_t)wanted.ops * wanted.rows * wanted.units <= threads)
        return wanted;
    const int together = problem->D;
    threads = threads < ECO_STEP_THREADS ? threads : ECO_STEP_THREADS;
    struct eco_grid best = grid_of(run, 1, threads);
    double least = grid_seconds(run, best);
    for (int ops = 2; ops <= together && ops <= threads; ops++) {
        const struct eco_grid grid = grid_of(run, ops, threads / ops);
        const double seconds = grid_seconds(run, grid);
        if (seconds < WORTH * least) {
            least = seconds;
            best = grid;
        }
    }
    return best;
}

/* Seconds of a thread's part of a step's products from which other threads help it. */
static const double HELP = 10e-6;

static bool helps(const struct eco_cpu_run *run, int threads)
{
    return product_seconds(run, run->args->N, run->work->recurrent) >= HELP * threads;
}

/* ---- scans ----------------------------------------------------------------------------------- */

/* All layers; backward twice as long as forward. Blocks of time are folded first. */
static double scan_steps(const struct eco_cpu_run *run)
{
    const int times = (run->args->backward ? 2 : 1) * (run->block_steps > 0 ? 2 : 1);
    return (double)run->args->T * run->problem->L * run->problem->D * times;
}

/* Seconds of the passes of all steps by one thread. */
static double passes_of(const struct eco_cpu_run *run)
{
    const double cells = (double)run->args->N * run->problem->H * run->lowered->n_accs;
    return scan_steps(run) * (eco_cpu_rates.scan * cells + eco_cpu_rates.scan_row * run->args->N);
}

/* The same for threads that write units of the same row: with odd rows the same lines. */
static double crossing_of(const struct eco_cpu_run *run, int threads)
{
    const bool apart = run->block_steps > 0 || eco_cpu_by_rows(run, run->args->N, threads);
    const double row =
        run->problem->H % run->unit_group > 0 ? eco_cpu_rates.shared_line : eco_cpu_rates.next_line;
    return apart ? 0 : scan_steps(run) * run->args->N * row;
}

/* The share of the busiest of `threads` threads. */
static double share_of(const struct eco_cpu_run *run, int threads)
{
    const bool by_rows = eco_cpu_by_rows(run, run->args->N, threads);
    const int32_t groups = (run->problem->H + run->unit_group - 1) / run->unit_group,
                  parts = by_rows ? run->args->N : groups;
    return run->block_steps > 0 ? 1. / threads : (double)((parts + threads - 1) / threads) / parts;
}

static int scan_threads(const struct eco_cpu_run *run)
{
    const int most = run->layout->request.cpu.run_threads;
    const double passes = passes_of(run);
    double most_saved = 0;
    int best = 1;
    if (run->grid.ops > 0) {
        const int64_t asked = (int64_t)run->grid.ops * run->grid.rows * run->grid.units;
        return asked < most ? (int)asked : most;
    }
    for (int threads = 2; threads <= most; threads++) {
        const double saved = passes * (1 - share_of(run, threads)) + large_seconds(run, 1) -
                             large_seconds(run, threads) - eco_cpu_rates.wake -
                             waiting_of_levels(run, threads) - crossing_of(run, threads);
        if (saved > most_saved) {
            most_saved = saved;
            best = threads;
        }
    }
    return best;
}

/* ---- the teams of a plan --------------------------------------------------------------------- */

static struct eco_cpu_team team_of(const struct eco_cpu_run *run)
{
    const struct eco_cpu_request *request = &run->layout->request.cpu;
    const int most = request->run_threads;
    struct eco_cpu_team team = {.threads = 1, .grid = {1, 1, 1}};
    if (most == 1)
        return team;
    if (run->scans)
        team.threads = scan_threads(run);
    else {
        team.grid = choose_grid(run, most);
        team.threads = threads_with(run, team.grid);
    }
    if (request->lanes > 0 && !run->scans)
        team.helps =
            request->help == ECO_USUAL ? helps(run, team.threads) : request->help == ECO_ASKED_YES;
    return team;
}

/* Part of a thread's cache that weights may fill and still be there in the next step. */
enum { CACHED_PERCENT = 65 };

static int32_t cached_threads(const struct ecornn_plan *plan, bool fused)
{
    const double element = (double)eco_type_bytes(plan->layout->weight),
                 step = plan->work.recurrent + (fused ? plan->work.input : 0),
                 room = CACHED_PERCENT / 100.0 * (double)plan->device->caps.cpu.cache_bytes;
    return plan->request.cpu.scans ? 1 : 1 + (int32_t)fmin(step * element / room, INT16_MAX);
}

/* layout: for the run's size. */
static void choose_for_size(const struct ecornn_plan *plan, struct eco_cpu_plan *own,
                            const struct eco_layout *layout, int rows, int steps)
{
    static const int32_t some = 1;
    struct eco_args args = {.T = layout->T, .N = layout->N};
    for (int backward = 0; backward <= (int)plan->problem.training; backward++)
        for (int ragged = 0; ragged < 2; ragged++) {
            args.backward = backward;
            args.lengths = ragged ? &some : NULL;
            const struct eco_cpu_run run = eco_cpu_run_of(plan, layout, &args);
            own->team[backward][ragged][rows][steps] = team_of(&run);
        }
}

void eco_cpu_choose_teams(const struct ecornn_plan *plan, struct eco_cpu_plan *own)
{
    const struct eco_problem *problem = &plan->problem;
    struct eco_layout layout =
        plan->layout[problem->training ? ECO_LAYOUT_TRAIN : ECO_LAYOUT_INFER];
    const bool alone = plan->request.cpu.run_threads == 1; /* every team is this thread */
    for (int fused = 0; fused < 2; fused++)
        own->cached_threads[fused] = cached_threads(plan, fused);
    for (int rows = 0; rows < ECO_TEAM_ROWS && problem->N >> rows > 0; rows++)
        for (int steps = 0; steps < ECO_TEAM_STEPS && eco_team_steps(problem->T, steps) > 0;
             steps++) {
            if (!alone)
                eco_layout_resize(&layout, &layout, eco_team_steps(problem->T, steps),
                                  problem->N >> rows);
            choose_for_size(plan, own, &layout, rows, steps);
        }
}
