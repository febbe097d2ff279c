/*
 * Blocks of time of a scan: their positions, and a kernel over their steps. The kernel takes the
 * same step of all blocks of a thread as its rows, so that a call has enough elements even if the
 * layer is small.
 */
#include "cpu/ops/scan_blocks.h"

static size_t plane(const struct eco_problem *problem)
{
    return (size_t)problem->N * (size_t)problem->H;
}

size_t eco_cpu_scan_bytes(const struct eco_problem *problem, int32_t chunk, int32_t block_steps)
{
    const size_t blocks = (size_t)(chunk + block_steps - 1) / (size_t)block_steps;
    const size_t states = (size_t)problem->cell->recipe.n_states,
                 factors = (size_t)problem->cell->lowered.linear.n_factors;
    return (blocks * (factors + states) + (1 + blocks) * states) * plane(problem) *
           eco_type_bytes(eco_type_sum(problem->type));
}

/* ---- places ---------------------------------------------------------------------------------- */

const struct eco_view *eco_cpu_scan_carried(const struct eco_scan_blocks *scan, int s, bool after)
{
    const struct eco_bound *bound = scan->bound;
    return scan->back ? &bound->carry[s] : after ? &bound->next[s] : &bound->before[s];
}

int32_t eco_cpu_scan_place(const struct eco_scan_blocks *scan, int32_t block)
{
    return scan->falls ? scan->blocks - 1 - block : block;
}

int32_t eco_cpu_scan_time(const struct eco_scan_blocks *scan, int32_t place, int32_t k)
{
    const int32_t p = eco_cpu_scan_place(scan, place) * scan->block + k;
    return scan->falls ? scan->bound->op->t1 - 1 - p : scan->bound->op->t0 + p;
}

char *eco_cpu_scan_value(const struct eco_scan_blocks *scan, int s, int32_t place, int32_t n)
{
    const size_t row = (size_t)(1 + place) * (size_t)scan->run->args->N + (size_t)n;
    return eco_cpu_after_mutable(scan->type[s], scan->value[s],
                                 row * (size_t)scan->run->problem->H);
}

static char *row_of(const struct eco_scan_blocks *scan, char *first, int width, int32_t place,
                    int32_t n)
{
    const size_t row = (size_t)place * (size_t)scan->run->args->N + (size_t)n;
    return eco_cpu_after_mutable(scan->run->layout->sum, first,
                                 row * (size_t)width * (size_t)scan->run->problem->H);
}

char *eco_cpu_scan_factors(const struct eco_scan_blocks *scan, int32_t place, int32_t n)
{
    return row_of(scan, scan->factor, scan->run->lowered->linear.n_factors, place, n);
}

char *eco_cpu_scan_terms(const struct eco_scan_blocks *scan, int32_t place, int32_t n)
{
    return row_of(scan, scan->term, scan->call.n_states, place, n);
}

void *eco_cpu_scan_row(const struct eco_view *view, int32_t t, int32_t n)
{
    return view->first == NULL
               ? NULL
               : eco_cpu_after_mutable(view->type, eco_view_at(view, t), (size_t)n * view->row);
}

/* Elements from a row of a block to the same row of the next block. */
static size_t stride(const struct eco_scan_blocks *scan, const struct eco_view *view)
{
    return (size_t)scan->block * (view->step / eco_type_bytes(view->type));
}

bool eco_cpu_scan_is_apart(const struct eco_view *view)
{
    return view->mask == SIZE_MAX && view->step > 0;
}

/* ---- a step of several blocks ---------------------------------------------------------------- */

/* Sets the pointers that do not depend on the step. */
static void point_at_arrays(struct eco_scan_blocks *scan)
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
    call->linear = &run->lowered->linear;
    call->factor_row = row * (size_t)call->linear->n_factors;
    call->term_row = row * (size_t)call->n_states;
    for (int s = 0; s < call->n_states; s++) {
        call->state_row[s] = call->next_row[s] = call->carry_row[s] = row;
        if (eco_cpu_scan_is_apart(&bound->next[s]))
            call->next_row[s] = stride(scan, &bound->next[s]);
    }
}

struct eco_scan_blocks eco_cpu_scan_begin(const struct eco_cpu_run *run,
                                          const struct eco_bound *bound, bool back)
{
    const struct eco_op *op = bound->op;
    struct eco_scan_blocks scan = {.run = run, .bound = bound, .back = back};
    scan.call = eco_cpu_call(run, bound);
    scan.falls = op->reversed != back;
    scan.steps = op->t1 - op->t0;
    scan.block = run->block_steps;
    scan.blocks = (scan.steps + scan.block - 1) / scan.block;
    scan.odd = scan.steps - (scan.blocks - 1) * scan.block;
    scan.own = eco_cpu_part(run, scan.blocks, 1);
    const size_t sum = eco_type_bytes(run->layout->sum), all = plane(run->problem);
    const size_t blocks = (size_t)scan.blocks, states = (size_t)scan.call.n_states;
    char *room = eco_bind_array(run->layout, run->args, op, ECO_INNER_EXCHANGE, 0).first;
    scan.factor = room;
    scan.term = scan.factor + blocks * (size_t)run->lowered->linear.n_factors * all * sum;
    for (int s = 0; s < scan.call.n_states; s++) {
        scan.value[s] = scan.term + (blocks * states + (size_t)s * (1 + blocks)) * all * sum;
        scan.type[s] = eco_cpu_scan_carried(&scan, s, false)->type;
    }
    point_at_arrays(&scan);
    return scan;
}

/* Sets the states of forward: the values before a block's first step, and at all steps if there is
 * no plane for each step. */
static void point_at_states(struct eco_scan_blocks *scan, int32_t place, int32_t t, int32_t k,
                            int32_t n)
{
    const struct eco_bound *bound = scan->bound;
    struct eco_pointwise *call = &scan->call;
    for (int s = 0; s < call->n_states; s++) {
        const bool apart = eco_cpu_scan_is_apart(&bound->next[s]),
                   plane = apart && (k > 0 || scan->back);
        char *value = scan->back ? NULL : eco_cpu_scan_value(scan, s, place, n);
        call->state[s] = plane ? eco_cpu_scan_row(&bound->before[s], t, n) : value;
        call->state_row[s] = plane ? stride(scan, &bound->before[s])
                                   : (size_t)scan->run->args->N * (size_t)scan->run->problem->H;
        call->next[s] = apart ? eco_cpu_scan_row(&bound->next[s], t, n) : value;
        if (scan->back)
            call->carry[s] = eco_cpu_scan_value(scan, s, place, n);
    }
}

/* Points the kernel at step k of row n in the blocks [from, from + rows), in the order of time. */
static void point_at_step(struct eco_scan_blocks *scan, int32_t from, int32_t rows, int32_t k,
                          int32_t n)
{
    const struct eco_bound *bound = scan->bound;
    struct eco_pointwise *call = &scan->call;
    const int32_t t = eco_cpu_scan_time(scan, from, k);
    call->t = t;
    call->row1 = rows;
    point_at_states(scan, from, t, k, n);
    call->save = eco_cpu_scan_row(&bound->save, t, n);
    call->factor = eco_cpu_scan_factors(scan, from, n);
    call->term = eco_cpu_scan_terms(scan, from, n);
    if (scan->back) {
        call->dacc = eco_cpu_scan_row(&bound->acc, t, n);
        call->dy = eco_cpu_scan_row(&bound->dy, t, n);
    } else {
        call->acc = eco_cpu_scan_row(&bound->acc, t, n);
        call->y = eco_cpu_scan_row(&bound->y, t, n);
    }
}

/* Runs a kernel over all steps of some blocks: first over the first step of all blocks, and so on.
 */
static void run_some(struct eco_scan_blocks *scan, struct eco_range blocks,
                     eco_pointwise_kernel kernel, void (*after)(const struct eco_scan_blocks *))
{
    for (int32_t k = 0; k < scan->block && blocks.from < blocks.to; k++) {
        if (blocks.to == scan->blocks && k == scan->odd)
            blocks.to--;
        const int32_t rows = blocks.to - blocks.from,
                      from = eco_cpu_scan_place(scan, scan->falls ? blocks.to - 1 : blocks.from);
        for (int32_t n = 0; rows > 0 && n < scan->run->args->N; n++) {
            point_at_step(scan, from, rows, k, n);
            kernel(&scan->call);
        }
        if (k == 0 && after != NULL && blocks.from == 0)
            after(scan);
    }
}

/* Takes some blocks at a time: enough to make a call worth its while, and few enough that the
 * processor prefetches the rows of all of them. */
void eco_cpu_scan_run(struct eco_scan_blocks *scan, struct eco_range blocks,
                      eco_pointwise_kernel kernel, const struct eco_program *program,
                      void (*after)(const struct eco_scan_blocks *))
{
    enum { TOGETHER = 16 };
    scan->call.program = program;
    for (struct eco_range some = blocks; some.from < blocks.to; some.from = some.to) {
        some.to = blocks.to - some.from < TOGETHER ? blocks.to : some.from + TOGETHER;
        run_some(scan, some, kernel, after);
    }
}
