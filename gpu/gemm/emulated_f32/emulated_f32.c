/*
 * Queues products of split operands where they are faster.
 */
#include "gpu/gemm/emulated_f32/emulated_f32.h"

static size_t room_bytes(const struct eco_gpu_run *run)
{
    return run->layout->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT;
}

/* ---- products of any operands ---------------------------------------------------------------- */

/* One or two products with the same A. The second one's B is zero for the first `begin` numbers of
 * k. */
struct products {
    const struct eco_product *of[2];
    int n;
    int32_t begin;
    const float *bias;
    struct eco_emulated_plan plan[2]; /* the same k for all */
};

static const float *line(const void *data, int64_t n, size_t row)
{
    return (const float *)data + (size_t)n * row;
}

/* Sets the operands of product j for the `call->k` numbers of k that begin at `k`. */
static void point_at(const struct products *products, int j, int64_t k,
                     struct eco_emulated_call *call)
{
    const struct eco_product *p = products->of[j], *first = products->of[0];
    const int64_t from = (j > 0 ? products->begin : 0) - k, to = from + p->k;
    call->a.data = line(first->a, k, call->a.transposed ? first->a_row : 1);
    call->a.k = call->k;
    call->b.rows = p->n;
    call->b.row = p->b_row;
    call->b.begin = from < 0 ? 0 : from > call->k ? call->k : (int32_t)from;
    call->b.k = to < call->b.begin ? call->b.begin : to > call->k ? call->k : (int32_t)to;
    call->b.data = line(p->b, from < 0 ? -from : 0, call->b.transposed ? p->b_row : 1);
    call->c = p->c;
    call->c_row = p->c_row;
    call->add = p->add || k > 0;
}

static void multiply(struct eco_gpu_run *run, const struct products *products)
{
    const int32_t processors = run->plan->device->caps.threads;
    const struct eco_product *first = products->of[0];
    const int32_t piece = products->plan[0].k;
    char *const b =
        (char *)run->blas.room + eco_emulated_bytes(ECO_EMULATED_PAIRS, first->m, piece);
    struct eco_emulated_call call = {
        .a = {.row = first->a_row, .rows = first->m, .transposed = first->kind == ECO_TN},
        .b = {.transposed = first->kind != ECO_NT}};
    eco_emulated_place(&call.a, run->blas.room);
    for (int64_t k = 0; k < first->k; k += piece)
        for (int j = 0; j < products->n && run->status == ECORNN_OK; j++) {
            const struct eco_product *p = products->of[j];
            const struct eco_emulated_plan *plan = &products->plan[j];
            call.k = first->k - k < piece ? (int32_t)(first->k - k) : piece;
            point_at(products, j, k, &call);
            eco_emulated_place(&call.b, b);
            call.parts = plan->shared
                             ? (float *)(b + eco_emulated_bytes(ECO_EMULATED_PAIRS, p->n, piece))
                             : NULL;
            call.bias = k == 0 ? products->bias : NULL;
            eco_gpu_note_cuda(
                run,
                j == 0 ? eco_launch_emulated_prepare_both(&call, run->stream)
                       : eco_launch_emulated_prepare(&call.b, call.k, false, run->stream),
                "splitting operands");
            const int32_t clusters = eco_emulated_clusters(
                plan, (struct eco_emulated_size){first->m, p->n, first->k}, call.k, processors);
            if (run->status == ECORNN_OK)
                eco_gpu_note_cuda(run, eco_launch_emulated(&call, clusters, run->stream),
                                  "a product of split operands");
        }
    eco_launch_concurrent(&run->launch);
}

/* The plan's choice for a product of `terms` terms, or for more rows; NULL: none. */
static const struct eco_split_choice *choice_for(const struct eco_split_choices *splits,
                                                 const struct eco_product *p, int32_t terms)
{
    const bool gradient = p->kind == ECO_TN;
    const int32_t rows = gradient ? terms : p->m, a = gradient ? p->m : p->n,
                  b = gradient ? p->n : terms;
    for (int i = 0; i < splits->n; i++) {
        const struct eco_split_class *of = &splits->of[i];
        if (of->gradient != gradient || of->a != a || of->b != b)
            continue;
        int k = 0;
        while (k + 1 < splits->n_rows && of->choice[k].rows < rows)
            k++;
        return &of->choice[k];
    }
    return NULL;
}

/* Are all of them split? Plans them if so. */
static bool is_split(const struct eco_gpu_run *run, struct products *products)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const struct eco_product *first = products->of[0];
    for (int j = 0; j < products->n; j++) {
        const struct eco_product *p = products->of[j];
        struct eco_emulated_plan *plan = &products->plan[j];
        if (own->splits == NULL || p->m == 0 || p->n == 0 || p->k < ECO_EMULATED_LEAST_TERMS)
            return false;
        const struct eco_split_choice *choice = choice_for(own->splits, p, first->k);
        if (choice == NULL || (double)p->m * p->n * p->k <= choice->least_work)
            return false;
        plan->shared = choice->shared;
        plan->k =
            eco_emulated_length((struct eco_emulated_size){p->m, p->n, first->k},
                                run->plan->device->caps.threads, room_bytes(run), plan->shared);
        if (plan->k == 0 || plan->k != products->plan[0].k)
            return false;
    }
    return true;
}

bool eco_gpu_product_emulated(struct eco_gpu_run *run, const struct eco_product *p)
{
    struct products products = {.of = {p}, .n = 1, .bias = p->bias};
    if (!is_split(run, &products))
        return false;
    multiply(run, &products);
    return true;
}

bool eco_gpu_products_emulated(struct eco_gpu_run *run, const struct eco_product p[2],
                               int32_t begin)
{
    struct products products = {.of = {&p[0], &p[1]}, .n = 2, .begin = begin};
    if (!is_split(run, &products))
        return false;
    multiply(run, &products);
    return true;
}

/* ---- a product with a prepared operand ------------------------------------------------------- */

void eco_gpu_product_prepared(struct eco_gpu_run *run, const struct eco_prepared_product *prepared)
{
    const struct eco_product *p = prepared->product;
    const bool overlap = run->launch.steps && run->launch.can;
    struct eco_emulated_call call = {.a = prepared->prepared,
                                     .b = {.form = prepared->prepared.form,
                                           .data = p->a,
                                           .row = p->a_row,
                                           .rows = p->m,
                                           .k = p->k},
                                     .c = p->c,
                                     .c_row = p->c_row,
                                     .k = prepared->prepared.k,
                                     .add = p->add,
                                     .from_end = prepared->from_end};
    call.a.rows = p->n;
    if (run->status != ECORNN_OK || p->m == 0)
        return;
    if (prepared->cut->kind != ECO_EMULATED_SPLITTING) {
        eco_emulated_place(&call.b, prepared->room);
        eco_gpu_note_cuda(run, eco_launch_emulated_prepare(&call.b, call.k, overlap, run->stream),
                          "preparing states");
    }
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_emulated_step(&call, prepared->cut, overlap, run->stream),
                          "a product with R as prepared");
    eco_launch_concurrent(&run->launch);
}
