/*
 * Steps of a cell that is linear in its states, in blocks of time: threads fold the steps of their
 * blocks into one factor and term of each state, follow those from block to block, and do the steps
 * of their blocks from there.  A kernel takes the same step of all blocks of a thread as rows, so
 * that few units are many.  Blocks do not depend on threads, hence no bit does.
 */
#include "cpu/cpu.h"

#include <string.h>

/* Blocks in the order of time, whichever way steps go: as a kernel counts rows. */
struct scan {
    const struct eco_cpu_run *run;
    const struct eco_bound *bound;
    struct eco_pointwise call;
    bool back;
    bool falls;           /* steps go back in time: the op's first block is the last one here */
    int32_t steps, block; /* of the op, of a block */
    int32_t blocks, odd;  /* odd: steps of the block that is over first */
    struct eco_share own; /* the thread's blocks, in the order of steps */
    /* Of each state, [N,H] before the op and then of each block, in the order of time:
     * [1 + blocks,N,H] of the state's type, or of what is carried. */
    char *value[ECO_MAX_STATES];
    ecornn_type type[ECO_MAX_STATES];
    char *factor, *term; /* [blocks,N,n_states,H] sums */
};

static size_t plane(const struct eco_problem *problem)
{
    return (size_t)problem->N * (size_t)problem->H;
}

size_t eco_cpu_scan_bytes(const struct eco_problem *problem, int32_t chunk, int32_t block_steps)
{
    const size_t blocks = (size_t)(chunk + block_steps - 1) / (size_t)block_steps;
    const size_t states = (size_t)problem->cell->recipe.n_states;
    return (3 * blocks + 1) * states * plane(problem) * eco_type_bytes(eco_type_sum(problem->type));
}

/* ---- places ---------------------------------------------------------------------------------- */

static const struct eco_view *carried(const struct scan *scan, int s, bool after)
{
    const struct eco_bound *bound = scan->bound;
    return scan->back ? &bound->carry[s] : after ? &bound->next[s] : &bound->before[s];
}

static struct scan begin(const struct eco_cpu_run *run, const struct eco_bound *bound, bool back)
{
    const struct eco_op *op = bound->op;
    struct scan scan = {.run = run, .bound = bound, .back = back};
    scan.call = eco_cpu_call(run, bound);
    scan.falls = op->reversed != back;
    scan.steps = op->t1 - op->t0;
    scan.block = run->block_steps;
    scan.blocks = (scan.steps + scan.block - 1) / scan.block;
    scan.odd = scan.steps - (scan.blocks - 1) * scan.block;
    scan.own = eco_cpu_part(run, scan.blocks, 1);
    const size_t sum = eco_type_bytes(run->layout->sum), all = plane(run->problem);
    const size_t blocks = (size_t)scan.blocks, states = (size_t)scan.call.n_states;
    char *room = eco_bind_scratch(run->layout, run->args, op, ECO_SCRATCH_EXCHANGE).first;
    scan.factor = room;
    scan.term = scan.factor + blocks * states * all * sum;
    for (int s = 0; s < scan.call.n_states; s++) {
        scan.value[s] = scan.term + (blocks * states + (size_t)s * (1 + blocks)) * all * sum;
        scan.type[s] = carried(&scan, s, false)->type;
    }
    return scan;
}

/* Where a block, in the order of steps, lies in the order of time. */
static int32_t place_of(const struct scan *scan, int32_t block)
{
    return scan->falls ? scan->blocks - 1 - block : block;
}

/* Step k, in the order of steps, of the block at a place. */
static int32_t time_of(const struct scan *scan, int32_t place, int32_t k)
{
    const int32_t p = place_of(scan, place) * scan->block + k;
    return scan->falls ? scan->bound->op->t1 - 1 - p : scan->bound->op->t0 + p;
}

/* A row of the values before the op, place -1, or of a block. */
static char *value_at(const struct scan *scan, int s, int32_t place, int32_t n)
{
    const size_t row = (size_t)(1 + place) * (size_t)scan->run->args->N + (size_t)n;
    return eco_cpu_after_mutable(scan->type[s], scan->value[s],
                                 row * (size_t)scan->run->problem->H);
}

static char *linear_at(const struct scan *scan, char *first, int32_t place, int32_t n)
{
    const size_t row = (size_t)place * (size_t)scan->run->args->N + (size_t)n;
    return eco_cpu_after_mutable(scan->run->layout->sum, first,
                                 row * (size_t)scan->call.n_states * (size_t)scan->run->problem->H);
}

/* Row n of step t. */
static void *row_at(const struct eco_view *view, int32_t t, int32_t n)
{
    return view->first == NULL
               ? NULL
               : eco_cpu_after_mutable(view->type, eco_view_at(view, t), (size_t)n * view->row);
}

/* Elements from a row of a block to that of the next. */
static size_t stride(const struct scan *scan, const struct eco_view *view)
{
    return (size_t)scan->block * (view->step / eco_type_bytes(view->type));
}

/* Do all steps have rows of their own in it? */
static bool is_apart(const struct eco_view *view)
{
    return view->mask == SIZE_MAX && view->step > 0;
}

/* ---- a step of several blocks ---------------------------------------------------------------- */

/* What does not depend on the step. */
static void point_at_arrays(struct scan *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const struct eco_bound *bound = scan->bound;
    struct eco_pointwise *call = &scan->call;
    const size_t H = (size_t)run->problem->H, row = (size_t)run->args->N * H;
    const struct eco_blocks units = eco_layout_acc_blocks(run->layout);
    call->unit0 = 0;
    call->unit1 = run->problem->H;
    call->row0 = 0;
    call->acc_shift = units.shift;
    call->acc_block = units.block;
    call->acc_column = units.column;
    call->acc_row = call->dacc_row = stride(scan, &bound->acc);
    call->save_row = stride(scan, &bound->save);
    if (scan->back) {
        call->dy_row = stride(scan, &bound->dy);
        call->wide_dy = bound->dy.type == run->layout->sum;
    } else {
        call->y_row = stride(scan, &bound->y);
    }
    call->linear_row = row * (size_t)call->n_states;
    for (int s = 0; s < call->n_states; s++) {
        call->state_row[s] = call->next_row[s] = call->carry_row[s] = row;
        if (is_apart(&bound->next[s]))
            call->next_row[s] = stride(scan, &bound->next[s]);
    }
}

/* States of forward: before a block's first step, and where there is no plane of each step, its
 * values. */
static void point_at_states(struct scan *scan, int32_t place, int32_t t, int32_t k, int32_t n)
{
    const struct eco_bound *bound = scan->bound;
    struct eco_pointwise *call = &scan->call;
    for (int s = 0; s < call->n_states; s++) {
        const bool apart = is_apart(&bound->next[s]), plane = apart && (k > 0 || scan->back);
        char *value = scan->back ? NULL : value_at(scan, s, place, n);
        call->state[s] = plane ? row_at(&bound->before[s], t, n) : value;
        call->state_row[s] = plane ? stride(scan, &bound->before[s])
                                   : (size_t)scan->run->args->N * (size_t)scan->run->problem->H;
        call->next[s] = apart ? row_at(&bound->next[s], t, n) : value;
        if (scan->back)
            call->carry[s] = value_at(scan, s, place, n);
    }
}

/* Step k of row n in the blocks at places [from, from + rows). */
static void point_at_step(struct scan *scan, int32_t from, int32_t rows, int32_t k, int32_t n)
{
    const struct eco_bound *bound = scan->bound;
    struct eco_pointwise *call = &scan->call;
    const int32_t t = time_of(scan, from, k);
    call->t = t;
    call->row1 = rows;
    point_at_states(scan, from, t, k, n);
    call->save = row_at(&bound->save, t, n);
    call->factor = linear_at(scan, scan->factor, from, n);
    call->term = linear_at(scan, scan->term, from, n);
    if (scan->back) {
        call->dacc = row_at(&bound->acc, t, n);
        call->dy = row_at(&bound->dy, t, n);
    } else {
        call->acc = row_at(&bound->acc, t, n);
        call->y = row_at(&bound->y, t, n);
    }
}

/* A kernel over all steps of some blocks, all blocks' first ones first. */
static void run_some(struct scan *scan, struct eco_share blocks, eco_pointwise_kernel kernel,
                     void (*after)(const struct scan *))
{
    for (int32_t k = 0; k < scan->block && blocks.from < blocks.to; k++) {
        if (blocks.to == scan->blocks && k == scan->odd)
            blocks.to--;
        const int32_t rows = blocks.to - blocks.from,
                      from = place_of(scan, scan->falls ? blocks.to - 1 : blocks.from);
        for (int32_t n = 0; rows > 0 && n < scan->run->args->N; n++) {
            point_at_step(scan, from, rows, k, n);
            kernel(&scan->call);
        }
        if (k == 0 && after != NULL && blocks.from == 0)
            after(scan);
    }
}

/* Some blocks at a time: enough to make a call worth its while, few enough for a processor to
 * fetch what lies in so many places ahead. */
static void run_steps(struct scan *scan, struct eco_share blocks, eco_pointwise_kernel kernel,
                      const struct eco_program *program, void (*after)(const struct scan *))
{
    enum { TOGETHER = 16 };
    scan->call.program = program;
    for (struct eco_share some = blocks; some.from < blocks.to; some.from = some.to) {
        some.to = blocks.to - some.from < TOGETHER ? blocks.to : some.from + TOGETHER;
        run_some(scan, some, kernel, after);
    }
}

/* ---- from block to block --------------------------------------------------------------------- */

/* The values of some rows as they come in, and zeros before all blocks but the first. */
static void take_values(const struct scan *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const size_t H = (size_t)run->problem->H;
    const int32_t t = time_of(scan, place_of(scan, 0), 0), first = place_of(scan, 0);
    for (int s = 0; s < scan->call.n_states; s++) {
        const ecornn_type type = scan->type[s];
        const struct eco_view *from = carried(scan, s, false);
        const size_t bytes = H * eco_type_bytes(type);
        for (int32_t n = 0; n < run->args->N; n++) {
            for (int32_t b = scan->own.from; b < scan->own.to; b++)
                memset(value_at(scan, s, place_of(scan, b), n), 0, bytes);
            if (scan->own.from > 0 || scan->own.to == 0)
                continue;
            memcpy(value_at(scan, s, -1, n), row_at(from, t, n), bytes);
            memcpy(value_at(scan, s, first, n), row_at(from, t, n), bytes);
        }
    }
}

/* Factors 1, terms 0. */
static void clear_linear(const struct scan *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const ecornn_type sum = run->layout->sum;
    const size_t width = (size_t)scan->call.n_states * (size_t)run->problem->H;
    for (int32_t b = scan->own.from; b < scan->own.to; b++)
        for (int32_t n = 0; n < run->args->N; n++) {
            char *factor = linear_at(scan, scan->factor, place_of(scan, b), n);
            memset(linear_at(scan, scan->term, place_of(scan, b), n), 0,
                   width * eco_type_bytes(sum));
            for (size_t i = 0; i < width; i++)
                if (sum == ECORNN_F64)
                    ((double *)(void *)factor)[i] = 1;
                else
                    ((float *)(void *)factor)[i] = 1;
        }
}

/* Back, outputs have what is carried into the run's last step only; then nothing. */
static void clear_outputs(const struct scan *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const unsigned linear = run->lowered->linear.states;
    for (int s = 0; s < scan->call.n_states; s++)
        for (int32_t n = 0; !(linear >> s & 1) && n < run->args->N; n++)
            memset(value_at(scan, s, place_of(scan, 0), n), 0,
                   (size_t)run->problem->H * eco_type_bytes(scan->type[s]));
}

/* The type of sums. */
union sums {
    float f32[ECO_SCAN_MOST];
    double f64[ECO_SCAN_MOST];
};

/* Factors of a block together may be infinite, where a value that is 0 stays so. */
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

/* The values before the thread's blocks: those before the op, from block to block.  Each thread
 * follows them by itself, which is less than to wait. */
static void follow(const struct scan *scan, int s, int32_t n)
{
    const struct eco_cpu_run *run = scan->run;
    const size_t H = (size_t)run->problem->H, before = (size_t)s * H;
    const ecornn_type sum = run->layout->sum, type = scan->type[s];
    union sums value;
    eco_type_move(&value, sum, value_at(scan, s, -1, n), type, H);
    for (int32_t b = 0; b < scan->own.to; b++) {
        const int32_t place = place_of(scan, b);
        const char *factor = eco_cpu_after(sum, linear_at(scan, scan->factor, place, n), before),
                   *term = eco_cpu_after(sum, linear_at(scan, scan->term, place, n), before);
        if (b >= scan->own.from)
            eco_type_move(value_at(scan, s, place, n), type, &value, sum, H);
        if (sum == ECORNN_F64)
            follow_f64(value.f64, (const void *)factor, (const void *)term, H);
        else
            follow_f32(value.f32, (const void *)factor, (const void *)term, H);
    }
}

/* What folding left of outputs' values is none. */
static void follow_all(const struct scan *scan)
{
    const unsigned linear = scan->run->lowered->linear.states;
    const size_t H = (size_t)scan->run->problem->H;
    for (int s = 0; s < scan->call.n_states; s++)
        for (int32_t n = 0; n < scan->run->args->N; n++)
            if (linear >> s & 1)
                follow(scan, s, n);
            else if (scan->own.from == 0 && scan->own.to > 0)
                memcpy(value_at(scan, s, place_of(scan, 0), n), value_at(scan, s, -1, n),
                       H * eco_type_bytes(scan->type[s]));
}

/* The last block's values to where the next op finds them, if it did not write there. */
static void leave_values(const struct scan *scan)
{
    const int32_t last = place_of(scan, scan->blocks - 1), t = time_of(scan, last, scan->odd - 1);
    const size_t H = (size_t)scan->run->problem->H;
    if (scan->own.to < scan->blocks || scan->own.from == scan->own.to)
        return;
    for (int s = 0; s < scan->call.n_states; s++) {
        const struct eco_view *to = carried(scan, s, true);
        for (int32_t n = 0; n < scan->run->args->N && (scan->back || !is_apart(to)); n++)
            memcpy(row_at(to, t, n), value_at(scan, s, last, n), H * eco_type_bytes(scan->type[s]));
    }
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void run_scan(struct scan *scan)
{
    const struct eco_cpu_run *run = scan->run;
    const struct eco_lowered *lowered = run->lowered;
    const int builtin = run->problem->cell->builtin;
    const eco_pointwise_kernel fold =
        builtin < 0 ? run->kernels->interpret : run->kernels->cell[builtin].scan[scan->back];
    struct eco_share folded = scan->own; /* what comes after the last block nobody asks */
    folded.to -= folded.to == scan->blocks;
    point_at_arrays(scan);
    take_values(scan);
    clear_linear(scan);
    run_steps(scan, folded, fold, &lowered->linear.program[scan->back],
              scan->back ? clear_outputs : NULL);
    eco_cpu_wait(run);
    follow_all(scan);
    run_steps(scan, scan->own, eco_cpu_stage_kernel(run, scan->back, 0),
              scan->back ? lowered->backward : lowered->forward, NULL);
    leave_values(scan);
}

void eco_cpu_scan(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    struct scan scan = begin(run, bound, false);
    run_scan(&scan);
}

void eco_cpu_scan_back(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    struct scan scan = begin(run, bound, true);
    run_scan(&scan);
}
