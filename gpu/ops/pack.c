/* Moves parameters to packed weights, and gradients back, in the device's memory. */
#include "gpu/copy/param_moves.h"
#include "gpu/ops/ops.h"

/* The positions of a parameter, which consists of rows of elements. */
struct position {
    struct eco_param_position
        at; /* in the caller's memory; blocks: heads, each on the diagonal of a matrix of zeros */
    int number;
    ecornn_type type, gradient_type;
    size_t weights, gradient; /* bytes */
    size_t row;               /* elements of a row in packed weights and gradient */
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
    const size_t elements = (size_t)before * (size_t)matrix->height * (size_t)matrix->row;
    found.row = (size_t)matrix->row;
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
    ecornn_status status = check(mover, position, caller);
    if (status == ECORNN_OK)
        status = check(mover, position, added);
    if (status == ECORNN_OK && mover->count == ECO_PARAM_MOVES)
        status = flush(mover);
    if (status != ECORNN_OK)
        return status;
    mover->moves.move[mover->count++] = next;
    mover->vectors = at->vector;
    return ECORNN_OK;
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
            gaps |= matrix->height != matrix->units || matrix->row != matrix->columns;
        }
    return gaps;
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
        status = eco_cuda_status(cudaMemsetAsync(weights, 0, plan->sizes.weights, stream),
                                 "clearing packed weights");
    struct mover mover = {.plan = plan, .stream = stream};
    for (int i = 0; status == ECORNN_OK && i < eco_problem_params(&plan->problem); i++) {
        const struct position position = place_of(plan, i);
        struct eco_plane to = {
            .data = (char *)weights + position.weights, .row = position.row, .type = position.type};
        struct eco_plane from = {.data = (void *)(uintptr_t)params[i],
                                 .row = (size_t)position.at.cols,
                                 .type = plan->problem.param_type};
        for (int k = 0; status == ECORNN_OK && k < position.at.blocks; k++) {
            status = move(&mover, &position, params[i], added ? added[i] : NULL, to, from);
            next_head(&position, &to, &from);
        }
    }
    if (status == ECORNN_OK)
        status = flush(&mover);
    eco_gpu_leave(&scope);
    return status;
}

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
