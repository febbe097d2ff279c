/*
 * Which large products of a plan's runs split their operands: chosen for each matrix of the layers,
 * and for the numbers of rows of the planned run and others in between.
 */
#include "gpu/gemm/emulated_f32/emulated_f32.h"

#include <math.h>

#include "gpu/device/rates.h"

/* ---- numbers of rows ------------------------------------------------------------------------- */

struct rows {
    int32_t of[ECO_SPLIT_ROWS]; /* in order */
    int n;
};

static void add_rows(struct rows *rows, int64_t added)
{
    int at = 0;
    while (at < rows->n && rows->of[at] < added)
        at++;
    if (added < 1 || added > INT32_MAX || rows->n == ECO_SPLIT_ROWS ||
        (at < rows->n && rows->of[at] == added))
        return;
    for (int k = rows->n++; k > at; k--)
        rows->of[k] = rows->of[k - 1];
    rows->of[at] = (int32_t)added;
}

/* The rows of a chunk, and of the steps that are left; those of gradients of R lack a step. */
static void add_chunks(struct rows *rows, const struct eco_problem *problem, int32_t chunk)
{
    const int32_t steps = chunk > 0 && chunk < problem->T ? chunk : problem->T,
                  rest = problem->T % steps;
    for (int less = 0; less < 2; less++) {
        add_rows(rows, (int64_t)(steps - less) * problem->N);
        add_rows(rows, (int64_t)(rest - less) * problem->N);
    }
}

/* Others are whole tiles: all numbers of them up to 32, then about eight in each octave. */
static struct rows rows_of(const struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    const int64_t all = (int64_t)problem->T * problem->N;
    struct rows rows = {.n = 0};
    add_rows(&rows, problem->N);
    for (int i = 0; i < ECO_LAYOUTS; i++) {
        const struct eco_layout *layout = &plan->layout[i];
        if (layout->problem == NULL)
            continue;
        add_chunks(&rows, problem, layout->chunk);
        add_chunks(&rows, problem, layout->chunk_backward);
        add_chunks(&rows, problem, layout->weights_steps);
    }
    add_rows(&rows, all);
    for (int64_t tiles = 1; tiles * ECO_EMULATED_TILE < all; tiles += tiles < 32 ? 1 : tiles / 8)
        add_rows(&rows, tiles * ECO_EMULATED_TILE);
    return rows;
}

/* ---- classes of products --------------------------------------------------------------------- */

static struct eco_split_choice choose(const struct ecornn_plan *plan,
                                      const struct eco_split_class *of, int32_t rows)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_caps *caps = &plan->device->caps;
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const struct eco_emulated_size size = of->gradient
                                              ? (struct eco_emulated_size){of->a, of->b, rows}
                                              : (struct eco_emulated_size){rows, of->a, of->b};
    const struct eco_emulated_plan best = eco_emulated_plan(
        rates, size, caps->threads, plan->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT,
        eco_forced(problem, ECO_FORCE_STREAM_K, ECO_NOT_FORCED));
    struct eco_split_choice choice = {.rows = rows, .shared = best.shared};
    if (best.k == 0) /* no room */
        choice.least_work = INFINITY;
    else if (eco_gpu_use(problem, ECO_FORCE_EMULATED_F32) < ECO_USE_ALWAYS)
        choice.least_work = (best.time - rates->full_launch) * rates->full_multiply_adds;
    return choice;
}

static void add_class(struct eco_split_choices *splits, const struct ecornn_plan *plan,
                      const struct rows *rows, struct eco_split_class added)
{
    for (int i = 0; i < splits->n; i++)
        if (splits->of[i].gradient == added.gradient && splits->of[i].a == added.a &&
            splits->of[i].b == added.b)
            return;
    if (splits->n == ECO_SPLIT_CLASSES || added.a == 0 || added.b == 0)
        return;
    struct eco_split_class *const of = &splits->of[splits->n++];
    *of = added;
    for (int i = 0; i < rows->n; i++) {
        of->choice[i] = choose(plan, of, rows->of[i]);
        if (i > 0 && isinf(of->choice[i].least_work)) { /* fewer of these rows may have room */
            of->choice[i] = of->choice[i - 1];
            of->choice[i].rows = rows->of[i];
        }
    }
}

/* Forward, dx, and the gradient; products may include the padding of rows. */
static void add_matrix(struct eco_split_choices *splits, const struct ecornn_plan *plan,
                       const struct rows *rows, int layer, int weight_id)
{
    const struct eco_matrix *matrix = eco_layout_matrix(&plan->layout[0], layer, weight_id);
    const int32_t columns[] = {matrix->columns, matrix->row};
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(&plan->problem.cell->lowered, weight_id, a, &span);
         a = span.end)
        for (int i = 0; i < 2; i++) {
            const int32_t units = (span.end - span.first) * matrix->height;
            add_class(splits, plan, rows, (struct eco_split_class){.a = units, .b = columns[i]});
            if (!plan->problem.training)
                continue;
            add_class(splits, plan, rows, (struct eco_split_class){.a = columns[i], .b = units});
            add_class(splits, plan, rows,
                      (struct eco_split_class){.gradient = true, .a = units, .b = columns[i]});
        }
}

void eco_gpu_choose_splits(const struct ecornn_plan *plan, struct eco_gpu_plan *own)
{
    const struct eco_problem *problem = &plan->problem;
    if (problem->type != ECORNN_F32 || problem->fast || !plan->device->caps.gpu.splits ||
        eco_gpu_use(problem, ECO_FORCE_EMULATED_F32) == ECO_USE_NEVER)
        return;
    own->splits = eco_alloc_zeroed(sizeof *own->splits);
    if (own->splits == NULL) /* then no product is split */
        return;
    const struct rows rows = rows_of(plan);
    own->splits->n_rows = rows.n;
    for (int layer = 0; layer < 2 && layer < problem->L; layer++)
        for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS; weight_id++)
            if (weight_id != ECO_WEIGHT_VECTORS)
                add_matrix(own->splits, plan, &rows, layer, weight_id);
}
