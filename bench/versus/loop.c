/*
 * The loop over steps: its memory, its products, and the loop as an opponent.
 */
#include "loop.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/opponent.h"
#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "versus.h"
#include "bench/core/named.h"

#undef I /* of complex.h, which some cblas.h include */

struct rows loop_h(const struct loop *loop, int t)
{
    const size_t step = (size_t)loop->N * (size_t)loop->H;
    return (struct rows){t ? loop->y + (size_t)(t - 1) * step : loop->zeros, loop->H};
}

struct rows loop_slot(const struct loop *loop, int slot, int t)
{
    const size_t step = (size_t)loop->N * (size_t)loop->H;
    const size_t index = (size_t)slot * (size_t)loop->kept + (size_t)(t % loop->kept);
    return (struct rows){loop->slots + index * step, loop->H};
}

struct rows loop_backward_slot(const struct loop *loop, int slot)
{
    const size_t step = (size_t)loop->N * (size_t)loop->H;
    return (struct rows){loop->backward_slots + (size_t)slot * step, loop->H};
}

struct rows loop_gate(const struct loop *loop, float *gates, int g)
{
    return (struct rows){gates + (size_t)g * (size_t)loop->H, loop->cell->gates * loop->H};
}

void loop_pass(const struct loop *loop, enum pass pass, struct rows to, struct rows a,
               struct rows b)
{
    const struct rectangle rectangle = {loop->N, loop->H, to, a, b};
    pass_run(pass, &rectangle);
}

/* gates [N,G*H] += a [N,K] times the transpose of matrix [G*H,K] */
static void add_product(const struct loop *loop, float *gates, const float *a, int K,
                        const float *matrix)
{
    const int all = loop->cell->gates * loop->H;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, loop->N, all, K, 1, a, K, matrix, K, 1,
                gates, all);
}

/* da [N,K] = dgates [N,G*H] times matrix [G*H,K], or += */
static void back_product(const struct loop *loop, float *da, const float *dgates, int K,
                         const float *matrix, bool add)
{
    const int all = loop->cell->gates * loop->H;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, loop->N, K, all, 1, dgates, all, matrix,
                K, add ? 1 : 0, da, K);
}

/* dmatrix [G*H,K] += the transpose of dgates [N,G*H] times a [N,K] */
static void weight_product(const struct loop *loop, float *dmatrix, const float *dgates,
                           const float *a, int K)
{
    const int all = loop->cell->gates * loop->H;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, all, K, loop->N, 1, dgates, all, a, K, 1,
                dmatrix, K);
}

static void fill_bias(const struct loop *loop, float *gates, float *bias)
{
    for (int g = 0; g < loop->cell->gates; g++) {
        const struct rows row = {bias + (size_t)g * (size_t)loop->H, 0};
        loop_pass(loop, PASS_COPY, loop_gate(loop, gates, g), row, row);
    }
}

static void forward(struct loop *loop, int t)
{
    const float *x = loop->x + (size_t)t * (size_t)loop->N * (size_t)loop->I;
    float *gates_h = loop->cell->separate ? loop->gates_h : loop->gates_x;
    fill_bias(loop, loop->gates_x, loop->bias_x);
    if (loop->cell->separate)
        fill_bias(loop, loop->gates_h, loop->bias_h);
    add_product(loop, loop->gates_x, x, loop->I, loop->W);
    add_product(loop, gates_h, loop_h(loop, t).data, loop->H, loop->R);
    loop->cell->forward(loop, t);
}

static void backward(struct loop *loop, int t)
{
    const int G = loop->cell->gates, I = loop->I, H = loop->H, N = loop->N;
    const size_t W_elements = (size_t)G * (size_t)H * (size_t)I;
    const float *x = loop->x + (size_t)t * (size_t)N * (size_t)I;
    float *dx = loop->dx + (size_t)t * (size_t)N * (size_t)I;
    float *dgates_h = loop->cell->separate ? loop->dgates_h : loop->dgates_x;
    loop->cell->backward(loop, t); /* a GRU leaves in dh the gradient that bypasses R */
    back_product(loop, loop->dh, dgates_h, H, loop->R, loop->cell->separate);
    back_product(loop, dx, loop->dgates_x, I, loop->W, false);
    weight_product(loop, loop->dparams, loop->dgates_x, x, I);
    weight_product(loop, loop->dparams + W_elements, dgates_h, loop_h(loop, t).data, H);
    cblas_sgemv(CblasRowMajor, CblasTrans, N, G * H, 1, loop->dgates_x, G * H, loop->ones, 1, 1,
                loop->dbias_x, 1);
    if (loop->cell->separate)
        cblas_sgemv(CblasRowMajor, CblasTrans, N, G * H, 1, loop->dgates_h, G * H, loop->ones, 1, 1,
                    loop->dbias_h, 1);
}

/* The parameter block has the biases after W and R.  A cell with separate products, the GRU (r z q
 * n), has two for its last gate: first that of the product of h, then that of the product of x. */
static float *vectors_of(const struct loop *loop, float *block)
{
    return block + (size_t)loop->cell->gates * (size_t)loop->H * (size_t)(loop->I + loop->H);
}

static void split_biases(struct loop *loop)
{
    const size_t H = (size_t)loop->H, shared = (size_t)(loop->cell->gates - 1) * H;
    const float *vectors = vectors_of(loop, loop->problem->params);
    memcpy(loop->bias_x, vectors, ((size_t)loop->cell->gates * H) * sizeof(float));
    if (!loop->cell->separate)
        return;
    memcpy(loop->bias_h + shared, vectors + shared, H * sizeof(float));
    memcpy(loop->bias_x + shared, vectors + shared + H, H * sizeof(float));
}

static void join_biases(struct loop *loop)
{
    const size_t H = (size_t)loop->H, shared = (size_t)(loop->cell->gates - 1) * H;
    float *vectors = vectors_of(loop, loop->dparams);
    memcpy(vectors, loop->dbias_x, ((size_t)loop->cell->gates * H) * sizeof(float));
    if (!loop->cell->separate)
        return;
    memcpy(vectors + shared, loop->dbias_h + shared, H * sizeof(float));
    memcpy(vectors + shared + H, loop->dbias_x + shared, H * sizeof(float));
}

static void loop_run(struct loop *loop, int set)
{
    const size_t step = (size_t)loop->N * (size_t)loop->H;
    const size_t gates = (size_t)loop->cell->gates * (size_t)loop->H;
    loop->x = (const float *)loop->problem->x + (size_t)set * loop->problem->x_elements;
    for (int t = 0; t < loop->T; t++)
        forward(loop, t);
    if (!loop->problem->training)
        return;
    memset(loop->dparams, 0, loop->problem->param_elements * sizeof(float));
    memset(loop->dbias_x, 0, gates * sizeof(float));
    memset(loop->dbias_h, 0, gates * sizeof(float));
    memset(loop->dh, 0, step * sizeof(float));
    memset(loop->backward_slots, 0, (size_t)loop->cell->backward_slots * step * sizeof(float));
    for (int t = loop->T - 1; t >= 0; t--)
        backward(loop, t);
    join_biases(loop);
}

static const struct loop_cell *find_cell(const struct problem *problem)
{
    for (int k = 0; k < loop_cell_count; k++)
        if (problem->desc.cell == cell_named(loop_cells[k].name))
            return &loop_cells[k];
    return NULL;
}

static bool allocate(struct loop *loop)
{
    const size_t step = (size_t)loop->N * (size_t)loop->H;
    const size_t gates = (size_t)loop->cell->gates * (size_t)loop->H, rows = (size_t)loop->N;
    const struct {
        float **array;
        size_t count;
    } arrays[] = {{&loop->y, loop->problem->y_elements},
                  {&loop->dx, loop->problem->x_elements},
                  {&loop->dparams, loop->problem->param_elements},
                  {&loop->bias_x, gates},
                  {&loop->bias_h, gates},
                  {&loop->dbias_x, gates},
                  {&loop->dbias_h, gates},
                  {&loop->gates_x, rows * gates},
                  {&loop->gates_h, rows * gates},
                  {&loop->dgates_x, rows * gates},
                  {&loop->dgates_h, rows * gates},
                  {&loop->slots, (size_t)loop->cell->slots * (size_t)loop->kept * step},
                  {&loop->backward_slots, (size_t)loop->cell->backward_slots * step},
                  {&loop->dh, step},
                  {&loop->zeros, step},
                  {&loop->ones, rows}};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        if (!(*arrays[k].array = calloc(arrays[k].count ? arrays[k].count : 1, sizeof(float))))
            return false;
    for (size_t n = 0; n < rows; n++)
        loop->ones[n] = 1;
    return true;
}

/* ---- the opponent ---------------------------------------------------------------------------- */

static const char *refuses(const struct problem *problem)
{
    const ecornn_desc *desc = &problem->desc;
    const bool plain = desc->layers <= 1 &&
                       !(desc->flags & (ECORNN_REVERSE | ECORNN_BIDIRECTIONAL)) && !desc->proj &&
                       desc->models <= 1 && !problem->uniform && problem->resets < 0 &&
                       !(desc->flags & ECORNN_BATCH_MAJOR) && desc->type == ECORNN_F32 &&
                       problem->weight_type == ECORNN_F32;
    return plain && find_cell(problem)
               ? NULL
               : "supports lstm, gru, rnn-tanh and rnn-relu in f32, one "
                 "layer forward, time major, without projection and lengths";
}

static bool prepare(struct side *side)
{
    const struct problem *problem = side->problem;
    struct loop *loop = side->context = calloc(1, sizeof *loop);
    if (!loop)
        return say("%s: no memory for the loop", problem->text);
    *loop = (struct loop){.problem = problem,
                          .cell = find_cell(problem),
                          .T = problem->desc.steps,
                          .N = problem->desc.batch,
                          .I = problem->desc.input,
                          .H = problem->desc.hidden,
                          .kept = problem->training ? problem->desc.steps : 2};
    if (!allocate(loop))
        return say("%s: no memory for the loop", problem->text);
    loop->W = problem->params;
    loop->R = loop->W + (size_t)loop->cell->gates * (size_t)loop->H * (size_t)loop->I;
    split_biases(loop);
    return true;
}

static bool run_once(struct side *side, int set)
{
    const double start = now();
    loop_run(side->context, set);
    side->seconds = side->core_seconds = now() - start;
    return true;
}

static bool run(struct side *side, int repeats)
{
    return side_repeat(side, repeats, run_once);
}

static bool results(struct side *side)
{
    const struct loop *loop = side->context;
    loop_run(side->context, 0);
    side->y = loop->y;
    side->dx = loop->dx;
    side->dparams = loop->dparams;
    return true;
}

static void destroy(struct side *side)
{
    struct loop *loop = side->context;
    if (!loop)
        return;
    float *const arrays[] = {loop->y,       loop->dx,       loop->dparams,  loop->bias_x,
                             loop->bias_h,  loop->dbias_x,  loop->dbias_h,  loop->gates_x,
                             loop->gates_h, loop->dgates_x, loop->dgates_h, loop->slots,
                             loop->dh,      loop->zeros,    loop->ones,     loop->backward_slots};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        free(arrays[k]);
    free(loop);
}

const struct opponent opponent_loop = {
    .name = "loop",
    .about = "a loop of two CBLAS products a step and vector passes",
    .refuses = refuses,
    .prepare = prepare,
    .run = run,
    .results = results,
    .free = destroy,
};
