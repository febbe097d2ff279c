/*
 * Converts the matrices of large products to F16; see scaled_f16.h.
 */
#include "gpu/gemm/scaled_f16/scaled_f16.h"

/* ---- room ------------------------------------------------------------------------------------ */

static int32_t rows_of(const struct eco_gpu_run *run, const struct eco_op *op)
{
    return (op->t1 - op->t0) * run->args->N;
}

/* The room of an op's lane. */
struct room {
    struct eco_scaled_f16_scalars *scalars;
    float *most, *scales, *sums;
    int32_t columns, blocks;
    char *rest;
};

static struct room room_of(const struct eco_gpu_run *run, const struct eco_op *op)
{
    size_t bytes;
    char *const at = eco_gpu_room(run, op, &bytes);
    const struct eco_scaled_f16_places p =
        eco_scaled_f16_places(run->problem, &run->plan->device->caps, rows_of(run, op));
    return (struct room){(struct eco_scaled_f16_scalars *)(at + p.scalars),
                         (float *)(at + p.most),
                         (float *)(at + p.scales),
                         (float *)(at + p.sums),
                         p.columns,
                         p.blocks,
                         at + p.rest};
}

/* Takes `bytes` bytes of the rest. */
static void *take_rest(struct room *room, size_t bytes)
{
    size_t at = 0;
    char *const taken = room->rest;
    eco_scaled_f16_take(&at, bytes);
    room->rest += at;
    return taken;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static void bring(struct eco_gpu_run *run, const struct eco_scaled_f16_call *call)
{
    const bool overlap = eco_launch_after(&run->launch);
    if (run->status == ECORNN_OK && call->n > 0)
        eco_gpu_note_cuda(run, eco_launch_scaled_f16(call, overlap, run->stream),
                          "converting a product's matrices to F16");
    eco_launch_concurrent(&run->launch);
}

/* Blocks that search W while others convert dacc. */
static int32_t searchers_of(const struct eco_gpu_run *run)
{
    const int32_t most = run->plan->device->caps.threads;
    return most < ECO_SCALED_F16_BLOCKS ? most : ECO_SCALED_F16_BLOCKS;
}

/* W of the op's layer; takes its part of the room. */
static struct eco_scaled_f16_matrix weights_of(const struct eco_gpu_run *run,
                                               const struct eco_op *op, struct room *room)
{
    const struct eco_matrix matrix = *eco_layout_matrix(run->layout, op->layer, ECO_WEIGHT_INPUT);
    return (struct eco_scaled_f16_matrix){
        .from = eco_gpu_weights(run, op, ECO_WEIGHT_INPUT),
        .from_row = (size_t)matrix.row,
        .rows = matrix.n * matrix.height,
        .columns = matrix.row,
        .to = take_rest(room, eco_scaled_f16_copy_bytes(matrix.n * matrix.height, matrix.row)),
        .to_row = matrix.row};
}

void eco_gpu_scaled_f16_input(struct eco_gpu_run *run, struct eco_matmul *m,
                              struct eco_scaled_f16 *scaled)
{
    const struct eco_matrix matrix = *eco_layout_matrix(run->layout, m->op->layer, m->weight_id);
    if (m->rows == 0 || matrix.n == 0 || !eco_gpu_scales_input(run, m->op))
        return;
    struct room room = room_of(run, m->op);
    const struct eco_scaled_f16_matrix x = {.from = m->a,
                                            .from_row = m->a_row,
                                            .rows = m->rows,
                                            .columns = eco_gpu_columns(run, m),
                                            .to = take_rest(&room, eco_scaled_f16_copy_bytes(
                                                                       m->rows, matrix.row)),
                                            .to_row = matrix.row},
                                       weights = weights_of(run, m->op, &room);
    bring(run, &(struct eco_scaled_f16_call){.of = {x, weights},
                                             .n = 2,
                                             .together = true,
                                             .most = room.most,
                                             .scalars = room.scalars});
    *scaled = (struct eco_scaled_f16){room.scalars, 0, weights.to};
    m->a = x.to;
    m->a_row = (size_t)x.to_row;
    m->scaled = scaled;
}

/* ---- products with dacc ---------------------------------------------------------------------- */

void eco_gpu_scaled_f16_dacc(struct eco_gpu_run *run, const struct eco_op *op, bool dx)
{
    const bool has_w = eco_layout_matrix(run->layout, op->layer, ECO_WEIGHT_INPUT)->n > 0;
    if (!dx && has_w && eco_gpu_wants_dx(run, op))
        return;
    struct room room = room_of(run, op);
    const struct eco_view dacc = eco_bind_array(run->layout, run->args, op, ECO_INNER_DACC, 0);
    const struct eco_scaled_f16_dacc_call call = {.data = eco_view_at(&dacc, op->t0),
                                                  .row = dacc.row,
                                                  .rows = rows_of(run, op),
                                                  .columns = room.columns,
                                                  .scales = room.scales,
                                                  .sums = room.sums,
                                                  .blocks = room.blocks,
                                                  .narrowed = eco_gpu_halves_back(run),
                                                  .beside = weights_of(run, op, &room),
                                                  .searchers = dx ? searchers_of(run) : 0,
                                                  .most = room.most};
    const bool overlap = eco_launch_after(&run->launch);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_scaled_f16_dacc(&call, overlap, run->stream),
                          "converting dacc to F16");
    eco_launch_concurrent(&run->launch);
}

struct eco_plane eco_gpu_scaled_f16_sums(const struct eco_gpu_run *run, const struct eco_op *op,
                                         int32_t *rows)
{
    const struct room room = room_of(run, op);
    *rows = room.blocks;
    return (struct eco_plane){.data = room.sums, .row = (size_t)room.columns, .type = ECORNN_F32};
}

void eco_gpu_scaled_f16_dx(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    struct room room = room_of(run, m->op);
    const struct eco_scaled_f16_matrix weights = weights_of(run, m->op, &room);
    const struct eco_scaled_f16 scaled = {room.scalars, 0, weights.to};
    struct eco_matmul dx = *m;
    dx.a_row *= 2;
    dx.c = take_rest(&room, 0);
    dx.c_row = (size_t)weights.to_row;
    dx.add = false;
    dx.scaled = &scaled;
    bring(run, &(struct eco_scaled_f16_call){.of = {weights},
                                             .n = 1,
                                             .searchers = searchers_of(run),
                                             .most = room.most,
                                             .scalars = room.scalars});
    eco_gpu_multiply_back(run, &dx);
    const struct eco_scaled_f16_back_call back = {.from = dx.c,
                                                  .to = m->c,
                                                  .from_row = dx.c_row,
                                                  .to_row = m->c_row,
                                                  .rows = m->rows,
                                                  .columns = eco_gpu_columns(run, m),
                                                  .scales = room.scales,
                                                  .add = m->add};
    const bool overlap = eco_launch_after(&run->launch);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_scaled_f16_back(&back, overlap, run->stream), "dx");
}

/* Is the operand of R bounded, including the run's first states and starts? */
static bool is_bounded(const struct eco_gpu_run *run, int part)
{
    return part >= ECO_WEIGHT_RECURRENT && run->args->initial[0] == NULL &&
           run->args->reset_state[0] == NULL && !run->problem->projected &&
           eco_cell_is_bounded(run->problem->cell);
}

void eco_gpu_scaled_f16_gradients(struct eco_gpu_run *run, struct eco_matmul *m, int n,
                                  struct eco_scaled_f16 scaled[ECO_SCALED_F16_MATRICES])
{
    struct room room = room_of(run, m->op);
    struct eco_scaled_f16_call call = {.n = n, .most = room.most, .scalars = room.scalars};
    for (int i = 0; i < n; i++) {
        const int32_t row = eco_layout_matrix(run->layout, m[i].op->layer, m[i].weight_id)->row;
        call.of[i] = (struct eco_scaled_f16_matrix){
            .from = m[i].c,
            .from_row = m[i].c_row,
            .rows = m[i].rows,
            .columns = eco_gpu_columns(run, &m[i]),
            .scales = room.scales + m[i].first,
            .bounded = is_bounded(run, m[i].weight_id),
            .to = take_rest(&room, eco_scaled_f16_copy_bytes(m[i].rows, row)),
            .to_row = row};
        scaled[i] = (struct eco_scaled_f16){room.scalars, i, NULL};
        m[i].a_row *= 2;
        m[i].c = call.of[i].to;
        m[i].c_row = (size_t)row;
        m[i].scaled = &scaled[i];
    }
    bring(run, &call);
}

/* ---- steps back that store F16 --------------------------------------------------------------- */

/* Positions in ECO_INNER_PREPARED. */
struct recurrent_places {
    size_t scalars, most, last[2], matrix, end;
};

static struct recurrent_places recurrent_places(const struct eco_problem *problem)
{
    const struct eco_scaled_f16_size r =
        eco_scaled_f16_size(problem, 0, ECO_WEIGHT_RECURRENT, problem->N);
    struct recurrent_places p;
    size_t at = 0;
    p.scalars = eco_scaled_f16_take(&at, sizeof(struct eco_scaled_f16_scalars));
    p.most =
        eco_scaled_f16_take(&at, sizeof(float) * ECO_SCALED_F16_MATRICES * ECO_SCALED_F16_BLOCKS);
    for (int odd = 0; odd < 2; odd++)
        p.last[odd] = eco_scaled_f16_take(&at, sizeof(float) * (size_t)problem->N);
    p.matrix = at;
    p.end = at + eco_scaled_f16_copy_bytes(r.accs, r.row);
    return p;
}

size_t eco_scaled_f16_recurrent_bytes(const struct eco_problem *problem)
{
    return recurrent_places(problem).end + ECO_ROOM_ALIGNMENT;
}

static char *recurrent_room(const struct eco_gpu_run *run, const struct eco_op *op)
{
    const uintptr_t at =
        (uintptr_t)eco_bind_array(run->layout, run->args, op, ECO_INNER_PREPARED, 0).first;
    return (char *)((at + ECO_ROOM_ALIGNMENT - 1) / ECO_ROOM_ALIGNMENT * ECO_ROOM_ALIGNMENT);
}

void eco_gpu_scaled_f16_recurrent(struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct recurrent_places p = recurrent_places(run->problem);
    char *const room = recurrent_room(run, op);
    const struct eco_matrix r = *eco_layout_matrix(run->layout, op->layer, ECO_WEIGHT_RECURRENT);
    bring(run, &(struct eco_scaled_f16_call){
                   .of = {{.from = eco_gpu_weights(run, op, ECO_WEIGHT_RECURRENT),
                           .from_row = (size_t)r.row,
                           .rows = r.n * r.height,
                           .columns = r.row,
                           .to = room + p.matrix,
                           .to_row = r.row}},
                   .n = 1,
                   .most = (float *)(room + p.most),
                   .scalars = (struct eco_scaled_f16_scalars *)(room + p.scalars)});
}

struct eco_scaled_f16_steps eco_gpu_scaled_f16_steps(const struct eco_gpu_run *run,
                                                     const struct eco_op *op)
{
    const struct recurrent_places p = recurrent_places(run->problem);
    char *const room = recurrent_room(run, op);
    return (struct eco_scaled_f16_steps){
        .recurrent = {(struct eco_scaled_f16_scalars *)(room + p.scalars), 0, room + p.matrix},
        .scales = room_of(run, op).scales,
        .last = {(float *)(room + p.last[0]), (float *)(room + p.last[1])}};
}

void eco_gpu_scaled_f16_unscale(struct eco_gpu_run *run, const struct eco_plane *c, int32_t columns,
                                const float *scales)
{
    const struct eco_scaled_f16_back_call call = {.from = c->data,
                                                  .to = c->data,
                                                  .from_row = c->row,
                                                  .to_row = c->row,
                                                  .rows = run->args->N,
                                                  .columns = columns,
                                                  .scales = scales};
    const bool overlap = eco_launch_after(&run->launch);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_scaled_f16_back(&call, overlap, run->stream),
                          "the gradient of a state");
}
