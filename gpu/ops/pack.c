/* Moves parameters to packed weights, and gradients back, in the device's memory. */
#include "gpu/copy/param_moves.h"
#include "gpu/gemm/bytes/bytes.h"
#include "gpu/ops/ops.h"

#include <string.h>

#include "common/util.h"

/* The positions of a parameter, which consists of rows of elements. */
struct position {
    struct eco_param_position
        at; /* in the caller's memory; blocks: heads, each on the diagonal of a matrix of zeros */
    int number, weight_id;
    ecornn_type type, gradient_type;
    size_t weights, gradient; /* bytes */
    size_t row;               /* elements of a row in packed weights and gradient */
    size_t scales;            /* S8: bytes from its weights to their scales */
};

static struct position place_of(const struct ecornn_plan *plan, int i)
{
    const struct eco_layout *layout = &plan->layout[0];
    struct position found = {.number = i, .gradient_type = layout->sum};
    int before = 0;
    eco_problem_param_position(&plan->problem, i, &found.at);
    const struct eco_param_position at = found.at;
    const int part = eco_problem_weight_id(&plan->problem, &at, &before);
    const struct eco_matrix *matrix = eco_layout_matrix(layout, at.layer, part);
    found.weight_id = part;
    const size_t elements = (size_t)before * (size_t)matrix->height * (size_t)matrix->row;
    found.row = (size_t)matrix->row;
    found.scales = eco_matrix_scales(matrix) - elements +
                   (size_t)before * (size_t)matrix->height * sizeof(float);
    found.type = at.vector ? layout->sum : layout->weight;
    found.weights = eco_layout_weights(layout, at.layer, at.direction, part) +
                    elements * eco_type_bytes(found.type);
    found.gradient = eco_layout_gradient(layout, at.layer, at.direction, part) +
                     elements * eco_type_bytes(found.gradient_type);
    return found;
}

/* Moves that are gathered for one launch. Parameters that follow each other on both sides are one
 * move, such as the gates of a framework's tensor. */
struct mover {
    struct eco_param_moves moves;
    int count;
    bool plans;   /* launches nothing and checks no address */
    bool full;    /* plans: there was no room for all moves */
    bool vectors; /* does the last move consist of vectors? */
    const struct ecornn_plan *plan;
    cudaStream_t stream;
};

static size_t bytes_of(const struct eco_plane *plane, const struct eco_param_move *move)
{
    const size_t row = move->rows == 1 ? (size_t)move->width : plane->row;
    return (size_t)move->rows * row * eco_type_bytes(plane->type);
}

static bool follows(const struct eco_plane *next, const struct eco_plane *plane,
                    const struct eco_param_move *move)
{
    return next->data == (char *)plane->data + bytes_of(plane, move) && next->row == plane->row &&
           next->type == plane->type;
}

/* Do the vectors that are added follow each other, too? */
static bool added_follows(const struct eco_param_move *next, const struct eco_param_move *move)
{
    const char *const last = move->added;
    return last ? next->added == last + bytes_of(&move->from, move) : !next->added;
}

/* Extends the last move by this one; false: this one does not follow it. */
static bool extend(struct mover *mover, const struct eco_param_move *next, bool vector)
{
    if (mover->count == 0)
        return false;
    struct eco_param_move *last = &mover->moves.move[mover->count - 1];
    if (mover->vectors != vector || !follows(&next->to, &last->to, last) ||
        !follows(&next->from, &last->from, last) || !added_follows(next, last))
        return false;
    if (vector && next->width <= INT32_MAX - last->width) {
        last->width += next->width;
        return true;
    }
    if (!vector && next->width == last->width && last->rows > 1 && next->rows > 1 &&
        next->rows <= INT32_MAX - last->rows) {
        last->rows += next->rows;
        return true;
    }
    return false;
}

static ecornn_status flush(struct mover *mover)
{
    const int count = mover->count;
    mover->count = 0;
    return count == 0 ? ECORNN_OK
                      : eco_cuda_status(eco_launch_params(&mover->moves, count, mover->stream),
                                        "moving parameters");
}

/* Checks that the pointer is NULL or in memory of the plan's device. */
static ecornn_status check(const struct mover *mover, const struct position *position,
                           const void *caller)
{
    const struct ecornn_plan *plan = mover->plan;
    const ecornn_status status = eco_gpu_check_pointer(plan->device->context, "", caller);
    if (status == ECORNN_OK)
        return status;
    ecornn_param
        param; /* finding its name takes a microsecond, so that is done only for an error */
    eco_problem_param(&plan->problem, position->number, &param);
    eco_gpu_check_pointer(plan->device->context, param.name, caller);
    return status; /* even if the second check succeeds */
}

static ecornn_status add_move(struct mover *mover, const struct eco_param_move *next, bool vector)
{
    mover->moves.move[mover->count++] = *next;
    mover->vectors = vector;
    return ECORNN_OK;
}

/* caller: the parameter in the caller's memory. Checking that a GPU can reach it takes a
 * microsecond, so it is done once for parameters that follow each other. */
static ecornn_status move(struct mover *mover, const struct position *position, const void *caller,
                          const void *added, struct eco_plane to, struct eco_plane from)
{
    const struct eco_param_position *at = &position->at;
    const struct eco_param_move next = {.to = to,
                                        .from = from,
                                        .added = added,
                                        .rows = at->vector ? 1 : at->rows / at->blocks,
                                        .width = at->vector ? at->rows : at->cols};
    if (extend(mover, &next, at->vector))
        return ECORNN_OK;
    if (mover->plans && mover->count < ECO_GIVEN_MOVES)
        return add_move(mover, &next, at->vector);
    mover->full = mover->plans;
    if (mover->plans)
        return ECORNN_OK;
    ecornn_status status = check(mover, position, caller);
    if (status == ECORNN_OK)
        status = check(mover, position, added);
    if (status == ECORNN_OK && mover->count == ECO_PARAM_MOVES)
        status = flush(mover);
    return status == ECORNN_OK ? add_move(mover, &next, at->vector) : status;
}

/* Advances to the next head: by its rows, and in packed weights also by its columns. */
static void next_head(const struct position *position, struct eco_plane *packed,
                      struct eco_plane *caller)
{
    const size_t rows = (size_t)(position->at.rows / position->at.blocks),
                 cols = (size_t)position->at.cols;
    packed->data =
        (char *)packed->data + (rows * packed->row + cols) * eco_type_bytes(packed->type);
    caller->data = (char *)caller->data + rows * cols * eco_type_bytes(caller->type);
}

/* Do packed matrices have padding? */
static bool has_gaps(const struct eco_layout *layout)
{
    bool gaps = layout->problem->heads > 1;
    for (int layer = 0; layer < layout->problem->L && layer < 2; layer++)
        for (int part = 0; part < ECO_WEIGHT_IDS; part++) {
            const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, part);
            gaps |= matrix->n > 0 &&
                    (matrix->height != matrix->units || matrix->row != matrix->columns);
        }
    return gaps;
}

/* Quantises a matrix, head by head. */
static ecornn_status pack_bytes(const struct mover *mover, const struct position *position,
                                const void *param, int8_t *to)
{
    const struct eco_param_position *at = &position->at;
    struct eco_bytes_rows rows = {.from = param,
                                  .type = mover->plan->problem.param_type,
                                  .from_row = (size_t)at->cols,
                                  .to_row = position->row,
                                  .to = to,
                                  .scale = (float *)(void *)(to + position->scales),
                                  .rows = at->rows / at->blocks,
                                  .columns = at->cols};
    ecornn_status status = check(mover, position, param);
    for (int k = 0; status == ECORNN_OK && k < at->blocks; k++) {
        status = eco_cuda_status(eco_launch_quantise(&rows, mover->stream), "quantising weights");
        rows.from =
            (const char *)rows.from + (size_t)rows.rows * rows.from_row * eco_type_bytes(rows.type);
        rows.to += (size_t)rows.rows * rows.to_row + (size_t)rows.columns;
        rows.scale += rows.rows;
    }
    return status;
}

/* Moves parameter i of those given into packed weights. */
static ecornn_status pack_param(struct mover *mover, const struct position *position,
                                const void *param, const void *added, void *weights)
{
    struct eco_plane to = {
        .data = (char *)weights + position->weights, .row = position->row, .type = position->type};
    struct eco_plane from = {.data = (void *)(uintptr_t)param,
                             .row = (size_t)position->at.cols,
                             .type = mover->plan->problem.param_type};
    ecornn_status status = ECORNN_OK;
    if (position->type == ECORNN_S8)
        return pack_bytes(mover, position, param, to.data);
    for (int k = 0; status == ECORNN_OK && k < position->at.blocks; k++) {
        status = move(mover, position, param, added, to, from);
        next_head(position, &to, &from);
    }
    return status;
}

ecornn_status eco_gpu_pack(const struct ecornn_plan *plan, const void *const *params,
                           const void *const *added, void *weights, void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_pointer(plan->device->context, "weights", weights);
    if (status == ECORNN_OK && has_gaps(&plan->layout[0]))
        status = eco_cuda_status(cudaMemsetAsync(weights, 0, plan->sizes.weight_bytes, stream),
                                 "clearing packed weights");
    struct mover mover = {.plan = plan, .stream = stream};
    for (int i = 0; status == ECORNN_OK && i < eco_problem_params(&plan->problem); i++) {
        const struct position position = place_of(plan, i);
        status = pack_param(&mover, &position, params[i], added ? added[i] : NULL, weights);
    }
    if (status == ECORNN_OK)
        status = flush(&mover);
    eco_gpu_leave(&scope);
    return status;
}

/* ---- runs that pack -------------------------------------------------------------------------- */

/* The first byte of a matrix that products can read in the caller's memory; NULL if they cannot. */
static const char *start_of(const struct ecornn_plan *plan, const struct position *position,
                            const void *param)
{
    const struct eco_layout *layout = &plan->layout[0];
    const struct eco_param_position *at = &position->at;
    const size_t before = position->weights -
                          eco_layout_weights(layout, at->layer, at->direction, position->weight_id);
    const char *start = (const char *)param - before;
    return plan->problem.param_type == position->type && (uintptr_t)start % ECO_ALIGNMENT == 0
               ? start
               : NULL;
}

static int place_number(const struct ecornn_plan *plan, const struct position *position)
{
    const struct eco_param_position *at = &position->at;
    return (at->layer * plan->problem.D + at->direction) * ECO_WEIGHT_IDS + position->weight_id;
}

/* A matrix whose parameters do not follow each other is packed. */
static void find_matrices(struct eco_gpu_given *given, const struct ecornn_plan *plan,
                          const void *const *params)
{
    bool seen[ECO_GIVEN_PLACES * ECO_WEIGHT_IDS] = {false};
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        const struct position position = place_of(plan, i);
        const int k = place_number(plan, &position);
        const char *start = position.at.vector ? NULL : start_of(plan, &position, params[i]);
        given->matrix[k] = !seen[k] || given->matrix[k] == start ? start : NULL;
        seen[k] = true;
    }
}

bool eco_gpu_take_params(struct eco_gpu_given *given, const struct ecornn_plan *plan,
                         const struct eco_args *args)
{
    struct mover mover = {.plan = plan, .plans = true};
    *given = (struct eco_gpu_given){.count = 0};
    if (plan->problem.L * plan->problem.D > ECO_GIVEN_PLACES ||
        plan->problem.weight_type == ECORNN_S8 || has_gaps(&plan->layout[0]))
        return false;
    find_matrices(given, plan, args->params);
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        const struct position position = place_of(plan, i);
        if (given->matrix[place_number(plan, &position)] == NULL)
            pack_param(&mover, &position, args->params[i], args->added ? args->added[i] : NULL,
                       (void *)(uintptr_t)args->weights);
    }
    given->count = mover.count;
    memcpy(given->move, mover.moves.move, (size_t)mover.count * sizeof *given->move);
    return !mover.full;
}

ecornn_status eco_gpu_check_params(const struct eco_gpu *gpu, const struct eco_gpu_given *given)
{
    ecornn_status status = ECORNN_OK;
    for (size_t k = 0; status == ECORNN_OK && k < sizeof given->matrix / sizeof *given->matrix; k++)
        status = eco_gpu_check_pointer(gpu, "a matrix of params", given->matrix[k]);
    for (int k = 0; status == ECORNN_OK && k < given->count; k++) {
        status = eco_gpu_check_pointer(gpu, "one of params", given->move[k].from.data);
        if (status == ECORNN_OK)
            status = eco_gpu_check_pointer(gpu, "one of added", given->move[k].added);
    }
    return status;
}

ecornn_status eco_gpu_queue_params(const struct ecornn_plan *plan,
                                   const struct eco_gpu_given *given, cudaStream_t stream)
{
    struct mover mover = {.count = given->count, .plan = plan, .stream = stream};
    memcpy(mover.moves.move, given->move, (size_t)given->count * sizeof *given->move);
    return flush(&mover);
}

/* ---- gradients ------------------------------------------------------------------------------- */

ecornn_status eco_gpu_unpack(const struct ecornn_plan *plan, const void *dweights,
                             void *const *params, bool add, void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_pointer(plan->device->context, "dweights", dweights);
    struct mover mover = {.moves.add = add, .plan = plan, .stream = stream};
    for (int i = 0; status == ECORNN_OK && i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        const struct position position = place_of(plan, i);
        struct eco_plane to = {
            .data = params[i], .row = (size_t)position.at.cols, .type = plan->problem.param_type};
        struct eco_plane from = {.data = (void *)((uintptr_t)dweights + position.gradient),
                                 .row = position.row,
                                 .type = position.gradient_type};
        for (int k = 0; status == ECORNN_OK && k < position.at.blocks; k++) {
            status = move(&mover, &position, params[i], NULL, to, from);
            next_head(&position, &from, &to);
        }
    }
    if (status == ECORNN_OK)
        status = flush(&mover);
    eco_gpu_leave(&scope);
    return status;
}
