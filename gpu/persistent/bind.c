/*
 * Finds the arrays of one op for the launch of a persistent kernel.
 */
#include "gpu/persistent/persistent.h"

/* The steps that the kernel takes first and last, and whether t falls. */
struct course {
    int32_t first, last;
    bool falls;
};

static struct course course_of(const struct eco_op *op, bool backward)
{
    const bool falls = op->reversed != backward;
    return (struct course){falls ? op->t1 - 1 : op->t0, falls ? op->t0 : op->t1 - 1, falls};
}

/* Elements from a step to the one that the kernel takes next. */
static int64_t along(const struct course *course, const struct eco_view *view)
{
    const int64_t step = (int64_t)(view->step / eco_type_bytes(view->type));
    return course->falls ? -step : step;
}

/* Forward: state planes, and the copies for backward. */
static void point_at_planes(const struct eco_gpu_run *run, const struct eco_bound *bound,
                            const struct course *course, struct eco_persistent_call *call,
                            struct eco_persistent_job *job)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view *next = &bound->next[s], *copy = &bound->checkpoint[s];
        const bool kept = next->mask == SIZE_MAX;
        job->state[s] = eco_view_at(&bound->before[s], course->first);
        job->next[s] = eco_view_at(next, kept ? course->first : course->last);
        job->next_step[s] = along(course, next);
        call->state_row[s] = (uint32_t)next->row;
        job->kept_states |= (uint32_t)kept << s;
        if (s > 0 && eco_layout_copies_states(run->layout)) {
            job->kept[s] = eco_view_at(copy, course->first);
            job->next_step[s] = along(course, copy);
        }
    }
}

/* Backward: what forward stored. */
static void point_at_kept(const struct eco_bound *bound, const struct course *course,
                          struct eco_persistent_call *call, struct eco_persistent_job *job)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view *next = &bound->next[s];
        void *last = eco_view_at(eco_bound_before(bound, s, course->last), course->last);
        job->state[s] = eco_view_at(eco_bound_before(bound, s, course->first), course->first);
        job->next[s] = eco_view_at(next, course->first);
        job->zeros |= (uint32_t)(last == NULL) << s;
        job->initial[s] = last != NULL ? last : job->next[s]; /* must be readable */
        job->next_step[s] = along(course, next);
        call->state_row[s] = (uint32_t)next->row;
        job->begins |= (uint32_t)(bound->begins[s] && course->last == bound->first) << s;
    }
}

/* R of a product; backward R^T. */
static const void *weights_of(const struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    if (!run->args->backward)
        return eco_gpu_weights(run, op, part);
    return eco_bind_array(run->layout, run->args, op, ECO_INNER_TRANSPOSED, part).first;
}

static void begin_at(int32_t row, struct eco_view *view)
{
    *view = eco_view_column(view, (size_t)row * view->row);
}

/* The arrays of a kernel from a batch row on. */
static struct eco_bound bound_from(const struct eco_gpu_run *run, const struct eco_bound *bound,
                                   int32_t row)
{
    const bool backward = run->args->backward, copies = eco_layout_copies_states(run->layout);
    struct eco_bound rest = *bound;
    if (row == 0)
        return rest;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        begin_at(row, &rest.before[s]);
        begin_at(row, &rest.next[s]);
        if (backward) {
            begin_at(row, &rest.before_first[s]);
            begin_at(row, &rest.carry[s]);
        } else if (copies && s > 0) {
            begin_at(row, &rest.checkpoint[s]);
        }
    }
    begin_at(row, backward ? &rest.dy : &rest.y);
    begin_at(row, &rest.acc);
    begin_at(row, &rest.save);
    begin_at(row, &rest.operand);
    return rest;
}

struct eco_persistent_job eco_persistent_job(const struct eco_gpu_run *run,
                                             const struct eco_bound *all, int32_t row,
                                             struct eco_persistent_call *call)
{
    const bool backward = run->args->backward;
    const struct eco_op *op = all->op;
    const struct eco_bound rest = bound_from(run, all, row), *const bound = &rest;
    const struct course course = course_of(op, backward);
    const struct eco_view *y = backward ? &bound->dy : &bound->y, *acc = &bound->acc;
    struct eco_persistent_job job = {
        .vector = eco_gpu_weights(run, op, ECO_WEIGHT_VECTORS),
        .exchange = eco_bind_array(run->layout, run->args, op, ECO_INNER_EXCHANGE, 0).first,
        .acc_step = along(&course, acc),
        .y = eco_view_at(y, course.first),
        .y_step = along(&course, y),
        .layer = op->layer,
        .direction = op->d,
        .steps = op->t1 - op->t0,
        .t = course.first,
        .t_step = course.falls ? -1 : 1,
        .starts = course.first == (backward ? bound->last : bound->first) &&
                  (backward || !eco_gpu_begins_in_planes(run)),
    };
    for (int o = 0; o < run->lowered->n_operands; o++)
        job.recurrent[o] = weights_of(run, op, ECO_WEIGHT_RECURRENT + o);
    if (backward && run->lowered->n_slots > 0) { /* for the gradient of the second product's R */
        job.operand = eco_view_at(&bound->operand, course.first);
        job.operand_step = along(&course, &bound->operand);
        call->operand_row = (uint32_t)bound->operand.row;
    }
    if (backward)
        job.dacc = eco_view_at(acc, course.first);
    else
        job.acc = eco_view_at(acc, course.first);
    if (run->args->reserve != NULL && run->lowered->n_saves > 0) {
        job.save = eco_view_at(&bound->save, course.first);
        job.save_step = along(&course, &bound->save);
        call->save_row = (uint32_t)bound->save.row;
    }
    call->acc_row = (uint32_t)acc->row;
    call->y_row = (uint32_t)y->row;
    call->wide_dy = y->type != run->layout->type;
    if (backward)
        point_at_kept(bound, &course, call, &job);
    else
        point_at_planes(run, bound, &course, call, &job);
    for (int s = 0; s < call->n_states; s++) {
        const void *given = backward ? run->args->dfinal[s] : run->args->initial[s];
        struct eco_view caller = eco_bind_caller_state(run->layout, run->args, op, s, given);
        begin_at(row, &caller);
        job.caller_state[s] = caller.first;
    }
    for (int s = 0; backward && s < call->n_states; s++) {
        job.carry[s] = (void *)bound->carry[s].first;
        call->carry_row[s] = (uint32_t)bound->carry[s].row;
    }
    return job;
}

struct eco_persistent_starts eco_persistent_starts(const struct eco_gpu_run *run,
                                                   const struct eco_bound *bound)
{
    struct eco_persistent_starts starts = {{NULL}, {NULL}, NULL};
    for (int s = 0; s < run->problem->cell->recipe.n_states && run->args->resets != NULL; s++) {
        starts.start[s] = bound->start[s].first;
        starts.dstart[s] = run->args->dreset_state[s] != NULL ? bound->dstart[s].first : NULL;
    }
    return starts;
}

/* Does an array of the caller consist of whole words of 4 bytes? */
static bool is_words(const void *data, size_t elements, ecornn_type type)
{
    return data == NULL || ((uintptr_t)data | elements * eco_type_bytes(type)) % 4 == 0;
}

bool eco_persistent_words(const struct eco_gpu_run *run)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_args *args = run->args;
    const size_t rows = (size_t)args->N * (size_t)problem->D;
    const size_t all = (size_t)args->T * rows * (size_t)problem->P;
    bool words = is_words(args->y, all, problem->type) && is_words(args->dy, all, problem->type);
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        words = words && is_words(args->initial[s],
                                  (size_t)problem->L * rows * (size_t)eco_problem_width(problem, s),
                                  problem->type);
    return words;
}

void eco_persistent_forget(struct eco_gpu_run *run, const struct eco_persistent_call *call,
                           const struct eco_persistent_need *need)
{
    const int n = need->jobs;
    const struct eco_persistent_shape *shape = &call->shape;
    struct eco_exchange_call exchange = {.n = n,
                                         .steps = need->steps,
                                         .groups = shape->groups,
                                         .blocks = need->products,
                                         .row_tiles = (shape->group_rows + ECO_PERSISTENT_N - 1) /
                                                      ECO_PERSISTENT_N,
                                         .rows = call->rows,
                                         .group_rows = shape->group_rows,
                                         .column = call->column,
                                         .hidden = call->hidden,
                                         .operand = need->operand,
                                         .means = eco_persistent_means(need, shape)};
    const int shift = eco_persistent_run_of(shape->unit_shift),
              k_block = ECO_PERSISTENT_BYTES / need->operand;
    exchange.run = 1 << shift;
    exchange.scale_blocks =
        need->scaled ? eco_persistent_scale_blocks(call->hidden, shape->unit_shift) : 0;
    exchange.whole =
        (need->scaled ? call->hidden % (1 << shift) == 0 : call->column == call->hidden) &&
        call->rows == shape->groups * shape->group_rows &&
        shape->group_rows == exchange.row_tiles * ECO_PERSISTENT_N;
    exchange.resets = (struct eco_reset_words){
        .bytes = run->args->resets, .lengths = call->lengths, .steps = run->args->T};
    for (int i = 0; i < n; i++) {
        const struct eco_persistent_job *job = &call->job[i];
        exchange.exchange[i] = job->exchange;
        exchange.resets.words[i] = (uint32_t *)(uintptr_t)call->resets.of[i].words;
        /* a reverse direction restarts after the step that the byte is of */
        exchange.resets.first[i] = (job->t_step < 0) != run->args->backward;
        exchange.resets.t[i] = job->t + exchange.resets.first[i];
        exchange.resets.t_step[i] = job->t_step;
    }
    for (int b = 0; b < need->products;
         b++) { /* in reverse: the first block is read by the last product */
        const int o = need->products - 1 - b;
        exchange.k_blocks[b] = shape->product[o].k / k_block;
        exchange.width[b] = call->width[o];
        exchange.runs[b] = eco_persistent_runs(need, o);
        if (need->scaled)
            exchange.scale_block[b] = eco_persistent_scale_block(
                exchange.runs[b], shape->unit_shift, k_block, need->backward);
        exchange.whole &= need->scaled ? exchange.runs[b] << shift == exchange.scale_block[b] &&
                                             exchange.scale_blocks * exchange.scale_block[b] ==
                                                 shape->product[o].k
                                       : exchange.width[b] == shape->product[o].k;
    }
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(
            run, eco_launch_exchange(&exchange, eco_launch_may_mark(&run->launch), run->stream),
            "preparing an exchange");
}
