/*
 * One OpenMP region for each run. Every thread walks the tape, all together, or in steps in groups
 * with a barrier each. Knows nothing of what the ops do.
 */
#include "cpu/cpu.h"

#include <omp.h>

#include "common/caller.h"
#include "common/util.h"

void eco_cpu_wait(const struct eco_cpu_run *run)
{
    if (run->count > 1)
        eco_team_wait(run->team, run->id, run->turn);
}

struct eco_range eco_cpu_part_for(const struct eco_cpu_run *run, int id, struct eco_range all,
                                  int32_t group)
{
    if (run->count == 1) /* no divisions, which would be noticeable in a short step */
        return all;
    const int64_t groups = ((int64_t)all.to - all.from + group - 1) / group;
    const int64_t from = all.from + groups * id / run->count * group;
    const int64_t to = all.from + groups * (id + 1) / run->count * group;
    return (struct eco_range){from < all.to ? (int32_t)from : all.to,
                              to < all.to ? (int32_t)to : all.to};
}

struct eco_range eco_cpu_part_of(const struct eco_cpu_run *run, struct eco_range all, int32_t group)
{
    return eco_cpu_part_for(run, run->id, all, group);
}

struct eco_range eco_cpu_part(const struct eco_cpu_run *run, int32_t n, int32_t group)
{
    return eco_cpu_part_of(run, (struct eco_range){0, n}, group);
}

/* What the threads of a run share, in its workspace: this struct in the first line, then the lines
 * of the groups and of all threads. Idle threads sleep outside the step groups, so the groups need
 * not wake anybody. */
struct shared {
    _Alignas(struct eco_team_line) _Atomic unsigned sleepers, in_steps;
    int spins;
    struct eco_team_line line[];
};

static int step_threads(int threads)
{
    return threads < ECO_STEP_THREADS ? threads : ECO_STEP_THREADS;
}

size_t eco_cpu_team_bytes(int threads)
{
    const size_t lines = (size_t)threads + (size_t)step_threads(threads);
    const size_t room =
        _Alignof(struct shared) - ECO_ALIGNMENT; /* a workspace may begin at a lower alignment */
    return threads > 1 ? sizeof(struct shared) + lines * sizeof(struct eco_team_line) + room : 0;
}

static struct shared *shared_of(const struct eco_cpu_run *run)
{
    const uintptr_t at = (uintptr_t)run->args->workspace + run->layout->team_offset;
    const uintptr_t to = _Alignof(struct shared);
    return (struct shared *)((at + to - 1) / to * to);
}

/* A thread's part in steps. */
struct assignment {
    struct eco_team team;
    unsigned turn;
    uint32_t product;
    struct eco_cpu_run run;
    const struct eco_cpu_run *steps; /* the thread's view in them */
    int op, ops; /* it does every ops-th step of a level, from this one on; op -1: none */
};

static void assign(struct assignment *assigned, const struct eco_cpu_run *run,
                   struct shared *shared)
{
    const struct eco_grid grid = run->steps;
    assigned->op = run->scans ? -1 : 0; /* in a scan all take part */
    assigned->ops = 1;
    assigned->steps = run;
    if (run->count == 1 || run->scans)
        return;
    const int group = run->id / grid.units, part = group % grid.rows;
    assigned->op = group / grid.rows;
    assigned->ops = grid.ops;
    if (assigned->op >= grid.ops) {
        assigned->op = -1;
        return;
    }
    assigned->team = (struct eco_team){.line = shared->line + (size_t)group * (size_t)grid.units,
                                       .sleepers = &shared->in_steps,
                                       .count = grid.units,
                                       .spins = shared->spins,
                                       .waits = run->team->waits};
    assigned->turn = 0;
    assigned->product = 0;
    assigned->steps = &assigned->run;
    assigned->run = *run;
    assigned->run.team = &assigned->team;
    assigned->run.turn = &assigned->turn;
    assigned->run.product = &assigned->product;
    assigned->run.id = run->id % grid.units;
    assigned->run.count = grid.units;
    assigned->run.rows =
        (struct eco_range){(int32_t)((int64_t)run->args->N * part / grid.rows),
                           (int32_t)((int64_t)run->args->N * (part + 1) / grid.rows)};
}

/* Does a group of the threads do this op? */
static bool is_step(const struct eco_cpu_run *run, const struct eco_op *op)
{
    return !run->scans && (op->kind == ECO_STEP || op->kind == ECO_D_STEP);
}

static void do_op(const struct eco_cpu_run *run, const struct eco_op *op)
{
    struct eco_bound bound;
    eco_bind(&bound, run->layout, run->args, op);
    run->ops[op->kind](run, &bound);
}

/* All threads meet after every level, and nowhere else between operations. */
static void walk(const struct eco_cpu_run *run, const struct eco_tape *tape, struct shared *shared)
{
    struct assignment assigned;
    struct eco_walk walk;
    const struct eco_op *op;
    int64_t level = 0;
    int number = 0, mine; /* steps in this level; the next one to do */
    assign(&assigned, run, shared);
    mine = assigned.op;
    eco_walk_begin(&walk, tape);
    while ((op = eco_walk_next(&walk)) != NULL) {
        if (walk.level > level) {
            eco_cpu_wait(run);
            level = walk.level;
            number = 0;
            mine = assigned.op;
        }
        if (!is_step(run, op))
            do_op(run, op);
        else if (number++ == mine) {
            do_op(assigned.steps, op);
            mine += assigned.ops;
        }
    }
    eco_cpu_wait(run);
}

/* One thread without a region, because a region would allocate. */
static void walk_alone(const struct eco_cpu_run *run, const struct eco_tape *tape)
{
    struct eco_cpu_run alone = *run;
    alone.id = alone.thread = 0;
    alone.count = 1;
    walk(&alone, tape, NULL);
}

/* One thread of a region. */
static void walk_as(const struct eco_cpu_run *run, const struct eco_tape *tape,
                    struct shared *shared, struct eco_region *region, struct eco_team team)
{
    struct eco_cpu_run mine = *run;
    struct eco_waits waits;
    unsigned turn = 0;
    uint32_t product = 0;
    mine.id = mine.thread = omp_get_thread_num();
    mine.count = team.count;
    mine.team = &team;
    mine.turn = &turn;
    mine.product = &product;
    team.waits = &waits;
    eco_region_enter(region, &waits);
    walk(&mine, tape, shared);
    eco_region_leave(region, &waits, mine.id);
}

/* The grid on fewer threads than it was chosen for: with half of the units, rows and ops in turn.
 */
static struct eco_grid fit_grid(struct eco_grid grid, int threads)
{
    while (grid.ops * grid.rows * grid.units > threads) {
        int *const part = grid.units > 1 && grid.units >= grid.rows ? &grid.units
                          : grid.rows > 1                           ? &grid.rows
                                                                    : &grid.ops;
        *part /= 2;
    }
    return grid;
}

/* Each thread runs with the floating-point mode of the caller. */
static void walk_in_region(const struct eco_cpu_run *run, const struct eco_tape *tape,
                           struct eco_region *region)
{
    const struct eco_fp mode = eco_fp_get();
    const int steps = step_threads(region->threads);
    struct shared *shared = shared_of(run);
    shared->spins = region->threads <= run->cpu->cpus ? run->cpu->spins : 0;
    atomic_init(&shared->sleepers, 0);
    atomic_init(&shared->in_steps, 0);
    struct eco_team team = {.line = shared->line + steps,
                            .sleepers = &shared->sleepers,
                            .count = region->threads,
                            .spins = shared->spins};
    eco_team_clear(&team);
    eco_team_clear(&(struct eco_team){.line = shared->line, .count = steps});
#pragma omp parallel num_threads(region->opened) firstprivate(team)
    {
        const struct eco_fp before = eco_fp_get();
        struct eco_cpu_run those = *run;
        if (omp_get_num_threads() < team.count) { /* OpenMP gave fewer than announced */
            team.count = omp_get_num_threads();
            those.steps = fit_grid(run->steps, team.count);
        }
        eco_fp_set(mode);
        if (omp_get_thread_num() < team.count)
            walk_as(&those, tape, shared, region, team);
        eco_fp_set(before);
    }
    eco_region_end(region);
}

/* Threads of a region: fewer than it wants if other work occupies some CPUs, or if the system has
 * no more, because OpenMP would then end the process. */
static void begin_region(struct eco_region *region, const struct eco_cpu *cpu, int threads,
                         bool adapts)
{
    const bool overloaded = cpu->busy == NULL;
    eco_region_begin(region, threads > 1 && adapts ? cpu->busy : NULL, threads);
    const int have = region->threads, most = have < threads || overloaded ? have : cpu->threads;
    region->opened = have == 1 || eco_cpu_forked() ? 1 : eco_cpu_try_threads(have, most);
    region->threads = region->opened < have ? region->opened : have;
}

static void work_as(struct eco_region *region, void (*work)(void *own, int id, int count),
                    void *own, int given)
{
    const int id = omp_get_thread_num();
    struct eco_waits waits;
    eco_region_enter(region, &waits);
    work(own, id, given < region->threads ? given : region->threads);
    eco_region_leave(region, &waits, id);
}

void eco_cpu_run_on_threads(const struct eco_cpu *cpu, int threads,
                            void (*work)(void *own, int id, int count), void *user_data)
{
    const struct eco_fp mode = eco_fp_get();
    struct eco_region region;
    if (threads == 1 || omp_in_parallel()) {
        work(user_data, 0, 1);
        return;
    }
    const int held = eco_cancel_hold();
    begin_region(&region, cpu, threads, true);
    if (region.threads == 1)
        work(user_data, 0, 1);
    else {
#pragma omp parallel num_threads(region.opened)
        {
            const struct eco_fp before = eco_fp_get();
            const int given = omp_get_num_threads();
            eco_fp_set(mode);
            if (omp_get_thread_num() < region.threads)
                work_as(&region, work, user_data, given);
            eco_fp_set(before);
        }
        eco_region_end(&region);
    }
    eco_cancel_release(held);
}

/* wanted: the threads of the run's grid of steps; threads: how many of them it may have. */
static void walk_on(const struct eco_cpu_run *run, const struct eco_tape *tape, int wanted,
                    int threads)
{
    /* CBLAS asks OpenMP how many threads it may use: one, because each of our threads calls it. */
    const int before = omp_get_max_threads();
    struct eco_region region;
    struct eco_cpu_run those = *run;
    begin_region(&region, run->cpu, threads,
                 run->grid.ops == 0); /* a forced grid is taken as it is */
    if (region.threads < wanted && !run->scans)
        those.steps = fit_grid(run->steps, region.threads);
    omp_set_num_threads(1);
    if (region.threads == 1)
        walk_alone(&those, tape);
    else
        walk_in_region(&those, tape, &region);
    omp_set_num_threads(before);
}

/* If products use the CBLAS, takes no more threads than it has memory for. Done before stacks of
 * threads are made, because OpenMP ends the process if there is no room for them. */
static ecornn_status walk_with_blas(const struct eco_cpu_run *run, const struct eco_tape *tape,
                                    int threads)
{
    const int taken = eco_cpu_blas_take(threads);
    if (taken == 0)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for the CBLAS, which takes up to 128 MiB of "
                                          "address space for each thread of a run");
    walk_on(run, tape, threads, taken);
    eco_cpu_blas_give(taken);
    return ECORNN_OK;
}

ecornn_status eco_cpu_walk(const struct eco_cpu_run *run, const struct eco_tape *tape, int threads)
{
    const bool dense = run->products->uses_cblas;
    const bool alone = run->cpu->blas_threads && dense, waits = dense || threads > 1;
    const int held = waits ? eco_cancel_hold() : 0;
    ecornn_status status = ECORNN_OK;
    if (alone)
        eco_cpu_blas_alone();
    const int most = run->args->alone ? 1 : threads;
    if (dense)
        status = walk_with_blas(run, tape, most);
    else
        walk_on(run, tape, most, most);
    if (alone)
        eco_cpu_blas_as_before();
    if (waits)
        eco_cancel_release(held);
    return status;
}
