/*
 * Which products are skinny (skinny_product.cu), and how they are cut.
 */
#include "gpu/skinny.h"

#include "common/util.h"

/* ---- how ------------------------------------------------------------------------------------- */

enum { MOST_SLICES = 16 };

static int32_t up(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

/* Those there is a kernel for. */
static int32_t row_tiles_for(int32_t m)
{
    static const int32_t made[] = {1, 2, 4};
    int i = 0;
    while (made[i] * ECO_SKINNY_BATCH < m)
        i++;
    return made[i];
}

static size_t shared_bytes(const struct eco_skinny_shape *s)
{
    const size_t rows = (size_t)s->row_tiles * ECO_SKINNY_BATCH;
    return rows * (size_t)s->slice_items * ECO_SKINNY_ITEM * sizeof(float) +
           ECO_SKINNY_WARPS * rows * (ECO_SKINNY_TILE + 1) * sizeof(float);
}

/* Items that a warp multiplies one after the other, and what goes with them in their time. */
static double cost(const struct eco_skinny_shape *s)
{
    static const double round = 5, row = 0.12, slices = 20;
    const int32_t rounds = up(s->group_tiles, ECO_SKINNY_WARPS / s->across);
    return rounds * (up(s->slice_items, s->across) + round) +
           row * s->slice_items * s->row_tiles / 2 + (s->slices > 1 ? slices : 0);
}

/* C[m,n] = A[m,k] B^T on so many multiprocessors.  False: it does not fit. */
static bool cut(int32_t m, int32_t n, int32_t k, const struct eco_caps *caps, size_t room,
                struct eco_skinny_shape *best)
{
    double least = 0;
    for (int32_t slices = 1; slices <= MOST_SLICES && slices <= caps->threads; slices++)
        for (int32_t across = 1; across <= ECO_SKINNY_WARPS; across *= 2) {
            struct eco_skinny_shape s = {.tiles = up(n, ECO_SKINNY_TILE),
                                         .items = up(k, ECO_SKINNY_ITEM),
                                         .row_tiles = row_tiles_for(m),
                                         .across = across};
            s.slice_items = up(s.items, slices);
            s.slices = up(s.items, s.slice_items);
            s.group_tiles = up(s.tiles, caps->threads / s.slices);
            s.groups = up(s.tiles, s.group_tiles);
            s.shared_bytes = shared_bytes(&s);
            const size_t rows_of_parts = (size_t)s.slices * (size_t)s.tiles * ECO_SKINNY_TILE;
            const size_t parts = rows_of_parts * (size_t)s.row_tiles * ECO_SKINNY_BATCH * 4;
            if (s.shared_bytes > caps->block_bytes - ECO_SKINNY_STATIC_BYTES ||
                (s.slices > 1 && parts > room))
                continue;
            if (least == 0 || cost(&s) < least) {
                least = cost(&s);
                *best = s;
            }
        }
    return least > 0;
}

/* ---- which ----------------------------------------------------------------------------------- */

/* Rows of R of an operand as they lie, and its columns. */
struct size {
    int32_t rows, columns;
};

static struct size size_of(const struct eco_problem *problem, int operand)
{
    const struct eco_wishes aligned = {.aligned = ECO_GPU_ALIGNED};
    int32_t accs = 0;
    for (int a = 0; a < problem->cell->lowered.n_accs; a++)
        accs += problem->cell->lowered.acc[a].recurrent[operand] >= 0;
    return (struct size){
        accs * (int32_t)eco_wishes_row(&aligned, (size_t)problem->H),
        (int32_t)eco_wishes_row(&aligned,
                                (size_t)(problem->P > problem->H ? problem->P : problem->H))};
}

/* Of one operand, either way. */
static size_t bytes_of_one(const struct eco_problem *problem)
{
    size_t most = 0;
    for (int o = 0; o < problem->cell->lowered.n_operands; o++) {
        const struct size size = size_of(problem, o);
        const size_t forward = eco_skinny_bytes(size.rows, size.columns),
                     backward = eco_skinny_bytes(size.columns, size.rows);
        const size_t bytes = forward > backward ? forward : backward;
        most = bytes > most ? bytes : most;
    }
    return (most + ECO_ALIGNMENT - 1) / ECO_ALIGNMENT * ECO_ALIGNMENT;
}

/* Does an operand have accumulators between which there is one that does without? */
static bool has_spans(const struct eco_problem *problem)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    for (int o = 0; o < lowered->n_operands; o++) {
        struct eco_span span = {0, 0, 0};
        if (!eco_span_next(lowered, ECO_PART_RECURRENT + o, 0, &span) ||
            eco_span_next(lowered, ECO_PART_RECURRENT + o, span.end, &(struct eco_span){0, 0, 0}))
            return true;
    }
    return false;
}

enum { LEAST_STEPS = 6 }; /* for which preparing R pays */

/* Measured on an H200 (doc/performance.md): of fewer rows, and of matrices that the L2 holds, the
 * other products are as fast; of more rows, faster. */
size_t eco_gpu_skinny_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                            bool backward)
{
    enum { LEAST_ROWS = 5, LEAST_BYTES = 24 << 20, VERSION = 80 };
    const enum eco_split_wish wish = eco_gpu_wish_for_splits();
    const int32_t operands = problem->cell->lowered.n_operands;
    if (problem->type != ECORNN_F32 || problem->fast || caps->version < VERSION ||
        caps->block_bytes == 0 || wish == ECO_SPLIT_NEVER || problem->N > ECO_SKINNY_ROWS ||
        operands == 0 || has_spans(problem) || (backward && !problem->training))
        return 0;
    const size_t bytes = bytes_of_one(problem);
    const bool faster =
        problem->N >= LEAST_ROWS && problem->T >= LEAST_STEPS && bytes >= LEAST_BYTES;
    return faster || wish == ECO_SPLIT_ALWAYS ? bytes * (size_t)operands : 0;
}

/* ---- a run ----------------------------------------------------------------------------------- */

bool eco_gpu_skinny_prepares(const struct eco_gpu_run *run)
{
    const struct eco_gpu_plan *own = run->plan->own;
    return run->layout->wishes.prepared_bytes[run->args->backward] > 0 &&
           (run->args->T >= LEAST_STEPS || own->splits == ECO_SPLIT_ALWAYS);
}

static void *prepared_at(const struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const struct eco_array array = eco_layout_scratch(run->layout, run->args->backward, op->layer,
                                                      op->d, ECO_SCRATCH_PREPARED);
    return (char *)eco_gpu_at(run, &array, 0) +
           (size_t)(part - ECO_PART_RECURRENT) * bytes_of_one(run->problem);
}

void eco_gpu_skinny_prepare(struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    const int32_t rows = matrix->n * matrix->height;
    const bool backward = run->args->backward;
    const struct eco_skinny_prepare call = {.b = eco_gpu_weights(run, op, part),
                                            .prepared = prepared_at(run, op, part),
                                            .b_row = backward ? 1 : (size_t)matrix->row,
                                            .b_step = backward ? (size_t)matrix->row : 1,
                                            .n = backward ? matrix->row : rows,
                                            .k = backward ? rows : matrix->row};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_skinny_prepare(&call, run->stream), "preparing R");
}

bool eco_gpu_skinny(struct eco_gpu_run *run, const struct eco_matmul *m,
                    const struct eco_span *span, const struct eco_product *p)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, m->op->layer, m->part);
    const int32_t rows = matrix->n * matrix->height;
    const bool backward = run->args->backward;
    const int operand = m->part - ECO_PART_RECURRENT;
    if (!eco_gpu_skinny_prepares(run) || operand < 0 || operand >= run->lowered->n_operands ||
        span->end - span->first != matrix->n)
        return false;
    struct eco_skinny_call call = {.a = p->a,
                                   .prepared = prepared_at(run, m->op, m->part),
                                   .c = p->c,
                                   .parts = run->room,
                                   .a_row = p->a_row,
                                   .c_row = p->c_row,
                                   .m = p->m,
                                   .n = p->n,
                                   .k = p->k,
                                   .add = p->add};
    const size_t room = run->layout->wishes.product_bytes - ECO_ROOM_ALIGNMENT;
    if (p->m > ECO_SKINNY_ROWS ||
        !cut(p->m, backward ? matrix->row : rows, backward ? rows : matrix->row,
             &run->plan->device->caps, room, &call.shape))
        return false;
    if (run->status == ECORNN_OK && p->m > 0)
        eco_gpu_note_cuda(run, eco_launch_skinny(&call, run->stream), "a skinny product");
    run->overlap = true;
    return true;
}
