/*
 * Collects products with few rows and launches them; see grouped.h.
 */
#include "gpu/gemm/grouped/grouped.h"

/* ---- launches -------------------------------------------------------------------------------- */

/* [type, fast] */
static const void *const *const *const kernels[ECO_TYPES][2] = {
    [ECORNN_F32] = {&eco_grouped_f32, &eco_grouped_f32_fast},
    [ECORNN_BF16] = {&eco_grouped_bf16, &eco_grouped_bf16},
    [ECORNN_F16] = {&eco_grouped_f16, &eco_grouped_f16}};

bool eco_gpu_has_grouped(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return caps->gpu.fuses && kernels[problem->type][0] != NULL &&
           problem->weight_type == problem->type;
}

bool eco_gpu_grouped_follow(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double rows = (double)problem->T * problem->N;
    const double widest = problem->I > problem->P ? problem->I : problem->P;
    return eco_gpu_has_grouped(problem, caps) && problem->D == 1 && rows <= ECO_GROUPED_ROWS &&
           rows * widest * problem->H * problem->cell->lowered.n_accs <= ECO_GROUPED_WORK;
}

/* The shape whose blocks take the rows of all backward jobs at once, if there is one. */
static int shape_of(const struct eco_grouped_call *call, const struct eco_problem *problem)
{
    const int forced = eco_forced(problem, ECO_FORCE_GROUPED, ECO_NOT_FORCED);
    int shape = 0;
    if (forced >= 0)
        return forced;
    for (int j = 0; j < call->n; j++)
        while (call->job[j].kind == ECO_GROUPED_BACK && shape + 1 < ECO_GROUPED_SHAPES &&
               ECO_GROUPED_BACK_ROWS(shape) < call->job[j].m)
            shape++;
    return shape;
}

static int32_t blocks_of(const struct eco_grouped_job *job, int shape)
{
    switch (job->kind) {
    case ECO_GROUPED_BACK:
        return eco_ceil_div(job->n, ECO_GROUPED_BACK_COLUMNS) *
               eco_ceil_div(job->m, ECO_GROUPED_BACK_ROWS(shape));
    case ECO_GROUPED_GRADIENT:
        return eco_ceil_div(job->n, ECO_GROUPED_GRADIENT_COLUMNS) *
               eco_ceil_div(job->m, ECO_GROUPED_GRADIENT_ROWS);
    case ECO_GROUPED_ZERO:
        return eco_ceil_div((int64_t)job->m * job->n, ECO_GROUPED_ZEROS);
    default:
        return eco_ceil_div((int64_t)job->m * job->n, ECO_GROUPED_SUM_COLUMNS);
    }
}

/* Orders blocks by the kinds of their jobs: long ones first, then those that need not wait. */
static unsigned put_in_order(const struct eco_grouped_call *from, int shape,
                             struct eco_grouped_call *to)
{
    unsigned blocks = 0;
    to->n = 0;
    for (enum eco_grouped_kind kind = 0; kind < ECO_GROUPED_KINDS; kind++)
        for (int j = 0; j < from->n; j++)
            if (from->job[j].kind == kind) {
                struct eco_grouped_job *job = &to->job[to->n++];
                *job = from->job[j];
                job->blocks = blocks_of(job, shape);
                blocks += (unsigned)job->blocks;
            }
    return blocks;
}

static void launch(struct eco_gpu_run *run, const struct eco_grouped_call *jobs)
{
    struct eco_grouped_call call;
    const struct eco_problem *problem = run->problem;
    const int shape = shape_of(jobs, problem);
    const dim3 blocks = {put_in_order(jobs, shape, &call), 1, 1},
               threads = {ECO_GROUPED_THREADS, 1, 1};
    const void *kernel = (*kernels[problem->type][problem->fast])[shape];
    void *argument[] = {&call};
    const bool overlap = eco_launch_after(&run->launch);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch(kernel, blocks, threads, argument, overlap, run->stream),
                          "grouped products");
    eco_launch_concurrent(&run->launch);
}

static void flush(struct eco_gpu_run *run)
{
    if (run->grouped.n > 0)
        launch(run, &run->grouped);
    run->grouped.n = 0;
}

/* Launches pending jobs on the same C first; zeros cover all of an op's matrix. */
static void settle(struct eco_gpu_run *run, const void *c)
{
    for (int j = 0; j < run->grouped.n; j++)
        if (run->grouped.job[j].c == c) {
            flush(run);
            return;
        }
}

static void take(struct eco_gpu_run *run, const struct eco_grouped_job *job)
{
    settle(run, job->c);
    if (run->grouped.n == ECO_GROUPED_JOBS)
        flush(run);
    run->grouped.job[run->grouped.n++] = *job;
}

void eco_gpu_grouped_begin(struct eco_gpu_run *run, enum eco_op_kind kind)
{
    const bool never = eco_forced(run->problem, ECO_FORCE_GROUPED, 0) == ECO_GROUPED_NEVER;
    const bool copies = kind == ECO_D_INPUT && run->lowered->copies != 0; /* to what is there */
    const bool may_wait = (kind == ECO_D_INPUT && !copies) || kind == ECO_D_WEIGHTS;
    if (!may_wait)
        flush(run);
    run->collects =
        may_wait && !never && eco_gpu_has_grouped(run->problem, &run->plan->device->caps);
}

/* With several lanes an op's stream may be waited for. */
void eco_gpu_grouped_end(struct eco_gpu_run *run)
{
    if (run->launch.lanes > 1)
        flush(run);
    run->collects = false;
}

/* ---- products that are grouped --------------------------------------------------------------- */

static bool is_whole(const void *data, size_t row, size_t elements, size_t bytes)
{
    return (uintptr_t)data % (elements * bytes) == 0 && row % elements == 0;
}

/* With row invariance all other backward products are grouped: their order depends on k alone. */
static bool must_be_few(const struct eco_gpu_run *run, const struct eco_product *p)
{
    return run->problem->row_invariant && p->kind == ECO_NN;
}

bool eco_gpu_takes_grouped(const struct eco_gpu_run *run, const struct eco_product *p)
{
    const double work = (double)p->m * p->n * p->k;
    const int32_t rows = p->kind == ECO_TN ? p->k : p->m;
    if (eco_gpu_is_fixed(run, p))
        return false;
    if (must_be_few(run, p))
        return work > 0;
    return run->collects && p->scaled == NULL && p->kind != ECO_NT && rows <= ECO_GROUPED_ROWS &&
           work > 0 && work <= ECO_GROUPED_WORK;
}

bool eco_gpu_grouped_product(struct eco_gpu_run *run, const struct eco_product *p)
{
    const size_t bytes = eco_type_bytes(run->layout->type);
    const bool back = p->kind == ECO_NN;
    const size_t piece = 16 / bytes, columns = back ? ECO_GROUPED_BACK_UNITS : piece;
    if (!eco_gpu_takes_grouped(run, p)) {
        settle(run, p->c);
        return false;
    }
    take(run, &(struct eco_grouped_job){.kind = back ? ECO_GROUPED_BACK : ECO_GROUPED_GRADIENT,
                                        .a = p->a,
                                        .b = p->b,
                                        .c = p->c,
                                        .a_row = p->a_row,
                                        .b_row = p->b_row,
                                        .c_row = p->c_row,
                                        .m = p->m,
                                        .n = p->n,
                                        .k = p->k,
                                        .add = p->add,
                                        .narrow = eco_type_narrow(p->c_type),
                                        .a_whole = is_whole(p->a, p->a_row, piece, bytes) &&
                                                   (!back || (size_t)p->k % piece == 0),
                                        .b_whole = is_whole(p->b, p->b_row, columns, bytes)});
    if (!run->collects)
        flush(run);
    return true;
}

/* Groups at consecutive positions are one job. */
bool eco_gpu_grouped_sums(struct eco_gpu_run *run, const struct eco_columns_call *call)
{
    if (!run->collects || call->rows > ECO_GROUPED_ROWS)
        return false;
    for (int g = 0, end; g < call->groups; g = end) {
        const bool any = call->place[g] >= 0; /* else zeros */
        for (end = g + 1;
             any && end < call->groups && call->place[end] == call->place[end - 1] + 1;)
            end++;
        take(run, &(struct eco_grouped_job){
                      .kind = ECO_GROUPED_SUM,
                      .a = eco_gpu_after(call->rows_of.data,
                                         (any ? (size_t)call->place[g] : 0) * (size_t)call->column,
                                         call->rows_of.type),
                      .c = eco_gpu_after(call->vectors, (size_t)g * (size_t)call->hidden,
                                         call->vector_type),
                      .a_row = call->rows_of.row,
                      .b_row = (size_t)call->column,
                      .c_row = (size_t)call->hidden,
                      .m = end - g,
                      .n = call->hidden,
                      .k = any ? call->rows : 0,
                      .add = call->add});
    }
    return true;
}

bool eco_gpu_grouped_zeros(struct eco_gpu_run *run, void *to, int32_t m, int32_t n)
{
    if (!run->collects || m == 0 || n == 0)
        return false;
    take(
        run,
        &(struct eco_grouped_job){
            .kind = ECO_GROUPED_ZERO, .c = to, .m = m, .n = n, .a_whole = (uintptr_t)to % 16 == 0});
    return true;
}
