/*
 * Where the arrays of one op lie, for the launch of a persistent kernel.
 */
#include "gpu/persistent/persistent.h"

/* Which step the kernel takes first, and whether t falls. */
struct course {
    int32_t first, last;
    bool falls;
};

static struct course course_of(const struct eco_op *op, bool backward)
{
    const bool falls = op->reversed != backward;
    return (struct course){falls ? op->t1 - 1 : op->t0, falls ? op->t0 : op->t1 - 1, falls};
}

static int64_t along(const struct course *course, size_t step)
{
    return course->falls ? -(int64_t)step : (int64_t)step;
}

/* Forward: planes, and the copies that backward reads. */
static void point_at_planes(const struct eco_gpu_run *run, const struct eco_op *op,
                            const struct course *course, struct eco_persistent_call *call,
                            struct eco_persistent_job *job)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_array state = eco_layout_state(run->layout, op->layer, op->d, s);
        const bool kept = state.wrap == 0;
        const int32_t t = kept ? course->first : course->last;
        job->state[s] = eco_gpu_at(
            run, &state, eco_layout_state_plane(run->layout, op->d, course->first, false));
        job->next[s] = eco_gpu_at(run, &state, eco_layout_state_plane(run->layout, op->d, t, true));
        job->next_step[s] = along(course, state.step);
        call->state_row[s] = (uint32_t)state.row;
        job->kept_states |= (uint32_t)kept << s;
        if (s > 0 && run->layout->training) {
            const struct eco_plane copy = eco_gpu_next(run, op, s, course->first);
            job->kept[s] = copy.data;
            job->next_step[s] = along(course, copy.step);
        }
    }
}

/* Backward: what forward kept. */
static void point_at_kept(const struct eco_gpu_run *run, const struct eco_op *op,
                          const struct course *course, struct eco_persistent_call *call,
                          struct eco_persistent_job *job)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_plane next = eco_gpu_next(run, op, s, course->first);
        job->state[s] = eco_gpu_before(run, op, s, course->first).data;
        const struct eco_plane last = eco_gpu_before(run, op, s, course->last);
        job->zeros |= (uint32_t)(last.data == NULL) << s;
        job->initial[s] = last.data != NULL ? last.data : next.data; /* read in any case */
        job->next[s] = next.data;
        job->next_step[s] = along(course, next.step);
        call->state_row[s] = (uint32_t)next.row;
        job->begins |= (uint32_t)eco_gpu_begins(run, op, s, course->last) << s;
    }
}

static void point_at_given(const struct eco_gpu_run *run, const struct eco_op *op,
                           const struct course *course, struct eco_persistent_job *job)
{
    const struct eco_args *args = run->args;
    job->starts = course->first == (course->falls ? args->T - 1 : 0);
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++)
        job->given[s] =
            eco_gpu_caller_state(run, op, s, args->backward ? args->dfinal[s] : args->initial[s])
                .data;
}

/* R of a product, backward R^T. */
static const void *weights_of(const struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    if (!run->args->backward)
        return eco_gpu_weights(run, op, part);
    const struct eco_array array = eco_layout_turned(run->layout, true, op->layer, op->d, part);
    return eco_gpu_at(run, &array, 0);
}

/* Backward: the operand of the second product, for the gradient of its R. */
static void point_at_operand(const struct eco_gpu_run *run, const struct eco_op *op,
                             const struct course *course, struct eco_persistent_call *call,
                             struct eco_persistent_job *job)
{
    const struct eco_array operand =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_OPERAND);
    job->operand = eco_gpu_at(run, &operand, (size_t)(course->first - op->t0));
    job->operand_step = along(course, operand.step);
    call->operand_row = (uint32_t)operand.row;
}

struct eco_persistent_job eco_persistent_job(const struct eco_gpu_run *run, const struct eco_op *op,
                                             struct eco_persistent_call *call)
{
    const bool backward = run->args->backward;
    const struct course course = course_of(op, backward);
    const struct eco_array exchange =
        eco_layout_scratch(run->layout, backward, op->layer, op->d, ECO_SCRATCH_EXCHANGE);
    const struct eco_array acc = eco_layout_scratch(run->layout, backward, op->layer, op->d,
                                                    backward ? ECO_SCRATCH_DACC : ECO_SCRATCH_ACC);
    const struct eco_plane y =
        backward ? eco_gpu_dy(run, op, course.first) : eco_gpu_y(run, op, course.first);
    struct eco_persistent_job job = {
        .vector = eco_gpu_weights(run, op, ECO_PART_VECTORS),
        .exchange = eco_gpu_at(run, &exchange, 0),
        .acc_step = along(&course, acc.step),
        .y = y.data,
        .y_step = along(&course, y.step),
        .layer = op->layer,
        .direction = op->d,
        .steps = op->t1 - op->t0,
        .t = course.first,
        .t_step = course.falls ? -1 : 1,
    };
    void *accs = eco_gpu_at(run, &acc, (size_t)(course.first - op->t0));
    for (int o = 0; o < run->lowered->n_operands; o++)
        job.recurrent[o] = weights_of(run, op, ECO_PART_RECURRENT + o);
    if (backward && run->lowered->n_slots > 0)
        point_at_operand(run, op, &course, call, &job);
    if (backward)
        job.dacc = accs;
    else
        job.acc = accs;
    if (run->args->reserve != NULL && run->lowered->n_saves > 0) {
        const struct eco_array save = eco_layout_save(run->layout, op->layer, op->d);
        job.save = eco_gpu_at(run, &save, (size_t)course.first);
        job.save_step = along(&course, save.step);
        call->save_row = (uint32_t)save.row;
    }
    call->acc_row = (uint32_t)acc.row;
    call->y_row = (uint32_t)y.row;
    call->wide_dy = y.type != run->layout->type;
    point_at_given(run, op, &course, &job);
    (backward ? point_at_kept : point_at_planes)(run, op, &course, call, &job);
    for (int s = 0; backward && s < call->n_states; s++) {
        const struct eco_array carry = eco_layout_carry(run->layout, op->layer, op->d, s);
        job.carry[s] = eco_gpu_at(run, &carry, 0);
        call->carry_row[s] = (uint32_t)carry.row;
    }
    return job;
}

/* Is an array of the caller's all of the words of 4 bytes that it touches? */
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
                           struct eco_persistent_need need, int n)
{
    const struct eco_persistent_shape *shape = &call->shape;
    struct eco_exchange_call exchange = {.n = n,
                                         .steps = need.steps,
                                         .groups = shape->groups,
                                         .blocks = need.products,
                                         .row_tiles = (shape->group_rows + ECO_PERSISTENT_N - 1) /
                                                      ECO_PERSISTENT_N,
                                         .rows = call->rows,
                                         .group_rows = shape->group_rows,
                                         .column = call->column,
                                         .hidden = call->hidden,
                                         .operand = need.operand};
    const int shift = ECO_PERSISTENT_RUN_OF(shape->unit_shift),
              item = ECO_PERSISTENT_BYTES / need.operand;
    exchange.run = 1 << shift;
    exchange.scale_blocks =
        need.scaled ? ECO_PERSISTENT_SCALE_BLOCKS(call->hidden, shape->unit_shift) : 0;
    exchange.whole =
        (need.scaled ? call->hidden % (1 << shift) == 0 : call->column == call->hidden) &&
        call->rows == shape->groups * shape->group_rows &&
        shape->group_rows == exchange.row_tiles * ECO_PERSISTENT_N;
    for (int i = 0; i < n; i++)
        exchange.exchange[i] = call->job[i].exchange;
    for (int b = 0; b < need.products; b++) { /* the last is what the first product reads */
        const int o = need.products - 1 - b;
        exchange.items[b] = shape->part[o].k / item;
        exchange.width[b] = call->width[o];
        exchange.runs[b] = eco_persistent_runs(&need, o);
        if (need.scaled)
            exchange.scale_block[b] = ECO_PERSISTENT_SCALE_BLOCK(
                exchange.runs[b], shape->unit_shift, item, need.backward);
        exchange.whole &=
            need.scaled ? exchange.runs[b] << shift == exchange.scale_block[b] &&
                              exchange.scale_blocks * exchange.scale_block[b] == shape->part[o].k
                        : exchange.width[b] == shape->part[o].k;
    }
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(
            run, eco_launch_exchange(&exchange, eco_launch_marks_beside(&run->launch), run->stream),
            "preparing an exchange");
}
