/*
 * Attention in double, one query after the other, directly from the equations: every other backend
 * is checked against it.  Backward repeats forward; workspace and reserve are not used.
 */
#include "common/ref/ref.h"

#include <math.h>
#include <string.h>

#include "common/util.h"

struct run {
    const struct eco_attention *problem;
    const struct eco_attention_args *args;
    double *weight, *dweight; /* [S] of the current query */
    double *dquery;           /* [H] */
    double *dkeys, *dvalues;  /* [S,N,H], [S,N,V], in the caller's order */
    double *dvector;          /* [H] */
    int32_t t, n, length;
};

static size_t step_row(const struct run *run)
{
    return eco_attention_row(run->problem, run->args, run->args->T, run->t, run->n);
}

static size_t source_row(const struct run *run, int32_t s)
{
    return eco_attention_row(run->problem, run->args, run->args->S, s, run->n);
}

static double get(const struct run *run, const void *array, size_t row, int32_t width, int32_t i)
{
    return eco_type_get(array, row * (size_t)width + (size_t)i, run->problem->type);
}

static void set(const struct run *run, void *array, size_t row, int32_t width, int32_t i,
                double value)
{
    if (array)
        eco_type_set(array, row * (size_t)width + (size_t)i, run->problem->type, value);
}

static double vector(const struct run *run, int32_t h)
{
    return eco_type_get(run->args->vector, (size_t)h, eco_type_sum(run->problem->type));
}

static double query(const struct run *run, int32_t h)
{
    return get(run, run->args->query, step_row(run), run->problem->H, h);
}

static double key(const struct run *run, int32_t s, int32_t h)
{
    return get(run, run->args->keys, source_row(run, s), run->problem->H, h);
}

static double value(const struct run *run, int32_t s, int32_t v)
{
    return get(run, run->args->values, source_row(run, s), run->problem->V, v);
}

/* ---- forward --------------------------------------------------------------------------------- */

static double score(const struct run *run, int32_t s)
{
    double sum = 0;
    for (int32_t h = 0; h < run->problem->H; h++)
        sum += vector(run, h) * tanh(query(run, h) + key(run, s, h));
    return sum;
}

static void find_weights(struct run *run)
{
    double most = -INFINITY, sum = 0;
    for (int32_t s = 0; s < run->length; s++) {
        run->weight[s] = score(run, s);
        most = run->weight[s] > most || isnan(run->weight[s]) ? run->weight[s] : most;
    }
    for (int32_t s = 0; s < run->length; s++)
        sum += run->weight[s] = exp(run->weight[s] - most);
    for (int32_t s = 0; s < run->args->S; s++)
        run->weight[s] = s < run->length ? run->weight[s] / sum : 0;
}

static void forward(struct run *run)
{
    for (int32_t v = 0; v < run->problem->V; v++) {
        double sum = 0;
        for (int32_t s = 0; s < run->length; s++)
            sum += run->weight[s] * value(run, s, v);
        set(run, run->args->context, step_row(run), run->problem->V, v, sum);
    }
    for (int32_t s = 0; s < run->args->S; s++)
        set(run, run->args->weights, step_row(run), run->args->S, s, run->weight[s]);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Computes the gradient of the scores into dweight. */
static void find_dscores(struct run *run)
{
    const struct eco_attention_args *args = run->args;
    double mean = 0;
    for (int32_t s = 0; s < run->length; s++) {
        double sum = args->dweights ? get(run, args->dweights, step_row(run), args->S, s) : 0;
        for (int32_t v = 0; args->dcontext && v < run->problem->V; v++)
            sum += get(run, args->dcontext, step_row(run), run->problem->V, v) * value(run, s, v);
        run->dweight[s] = sum;
        mean += run->weight[s] * sum;
    }
    for (int32_t s = 0; s < run->length; s++)
        run->dweight[s] = run->weight[s] * (run->dweight[s] - mean);
}

static void add_dvalues(struct run *run, int32_t s)
{
    const int32_t V = run->problem->V;
    double *to = run->dvalues + source_row(run, s) * (size_t)V;
    for (int32_t v = 0; run->args->dcontext && v < V; v++)
        to[v] += run->weight[s] * get(run, run->args->dcontext, step_row(run), V, v);
}

static void add_dscore(struct run *run, int32_t s)
{
    const int32_t H = run->problem->H;
    double *dkey = run->dkeys + source_row(run, s) * (size_t)H;
    const double dscore = run->dweight[s];
    for (int32_t h = 0; h < H; h++) {
        const double y = tanh(query(run, h) + key(run, s, h));
        const double dsum = dscore * vector(run, h) * (1 - y * y);
        run->dquery[h] += dsum;
        dkey[h] += dsum;
        run->dvector[h] += dscore * y;
    }
}

static void backward(struct run *run)
{
    memset(run->dquery, 0, (size_t)run->problem->H * sizeof(double));
    find_dscores(run);
    for (int32_t s = 0; s < run->length; s++) {
        add_dvalues(run, s);
        add_dscore(run, s);
    }
    for (int32_t h = 0; h < run->problem->H; h++)
        set(run, run->args->dquery, step_row(run), run->problem->H, h, run->dquery[h]);
}

static void store(const struct run *run, void *to, const double *from, size_t count)
{
    for (size_t i = 0; to && i < count; i++)
        eco_type_set(to, i, run->problem->type, from[i]);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static ecornn_status allocate(struct run *run, double **block)
{
    const struct eco_attention *problem = run->problem;
    const size_t H = (size_t)problem->H, S = (size_t)run->args->S;
    const size_t rows = S * (size_t)run->args->N, keys = rows * H,
                 values = rows * (size_t)problem->V;
    const size_t bytes = (2 * S + 2 * H + keys + values + 1) * sizeof(double);
    double *at = *block = eco_alloc_zeroed(bytes);
    if (!at)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a reference run", bytes);
    run->weight = at;
    run->dweight = at += S;
    run->dquery = at += S;
    run->dvector = at += H;
    run->dkeys = at += H;
    run->dvalues = at + keys;
    return ECORNN_OK;
}

static void store_gradients(struct run *run)
{
    const struct eco_attention_args *args = run->args;
    const ecornn_type sum = eco_type_sum(run->problem->type);
    const size_t rows = (size_t)args->S * (size_t)args->N;
    store(run, args->dkeys, run->dkeys, rows * (size_t)run->problem->H);
    store(run, args->dvalues, run->dvalues, rows * (size_t)run->problem->V);
    for (size_t h = 0; args->dvector && h < (size_t)run->problem->H; h++)
        eco_type_set(args->dvector, h, sum,
                     run->dvector[h] +
                         (args->accumulate ? eco_type_get(args->dvector, h, sum) : 0));
}

static ecornn_status run_attention(const struct eco_attention_plan *plan,
                                   const struct eco_attention_args *args)
{
    struct run run = {.problem = &plan->problem, .args = args};
    double *block;
    const ecornn_status status = allocate(&run, &block);
    if (status != ECORNN_OK)
        return status;
    for (run.n = 0; run.n < args->N; run.n++) {
        run.length = eco_attention_length(args, run.n);
        for (run.t = 0; run.t < args->T; run.t++) {
            find_weights(&run);
            if (args->backward)
                backward(&run);
            else
                forward(&run);
        }
    }
    if (args->backward)
        store_gradients(&run);
    eco_free(block);
    return ECORNN_OK;
}

static struct eco_size workspace(const struct eco_attention *problem, const struct eco_caps *caps,
                                 const struct eco_attention_args *sizes)
{
    (void)problem;
    (void)caps;
    (void)sizes;
    return eco_size_of(0);
}

static void describe(const struct eco_attention_plan *plan, struct eco_text *text)
{
    (void)plan;
    eco_text_add(text, "in double, one query after the other\n");
}

const struct eco_attention_backend eco_reference_attention = {
    .workspace = workspace, .run = run_attention, .describe = describe};
