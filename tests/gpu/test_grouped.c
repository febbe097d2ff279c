/*
 * Tests without a device which products of few rows are launched together
 * (gpu/gemm/grouped/grouped.c).
 */
#include <check.h>

#include "common/backend.h"
#include "gpu/gemm/grouped/grouped.h"
#include "tests/kit/problems.h"
#include "tests/kit/suite.h"

/* ---- what it calls ----------------------------------------------------------------------------
 */

/* The address of an entry stands for a kernel. */
static const char kernel_of[4][ECO_GROUPED_SHAPES];
#define KERNELS(k)                                                                                 \
    (const void *const[ECO_GROUPED_SHAPES])                                                        \
    {                                                                                              \
        &kernel_of[k][0], &kernel_of[k][1], &kernel_of[k][2]                                       \
    }
const void *const *const eco_grouped_bf16 = KERNELS(0);
const void *const *const eco_grouped_f16 = KERNELS(1);
const void *const *const eco_grouped_f32 = KERNELS(2);
const void *const *const eco_grouped_f32_fast = KERNELS(3);

enum { MOST_LAUNCHES = 8 };
static struct {
    struct eco_grouped_call call;
    const void *kernel;
    unsigned blocks;
    bool overlap;
} launched[MOST_LAUNCHES];
static int launches;

cudaError_t eco_launch(const void *kernel, dim3 blocks, dim3 threads, void **arguments,
                       bool overlap, cudaStream_t stream)
{
    (void)stream;
    ck_assert_int_lt(launches, MOST_LAUNCHES);
    ck_assert_uint_eq(threads.x, ECO_GROUPED_THREADS);
    launched[launches].call = *(const struct eco_grouped_call *)arguments[0];
    launched[launches].kernel = kernel;
    launched[launches].blocks = blocks.x;
    launched[launches++].overlap = overlap;
    return cudaSuccess;
}

void eco_gpu_note_cuda(struct eco_gpu_run *run, cudaError_t error, const char *doing)
{
    (void)run;
    (void)doing;
    ck_assert_int_eq(error, cudaSuccess);
}

void *eco_gpu_after(const void *p, size_t elements, ecornn_type type)
{
    return (char *)(uintptr_t)p + elements * eco_type_bytes(type);
}

/* ---- a run ------------------------------------------------------------------------------------
 */

static struct eco_gpu gpu = {.overlap = true};
static struct ecornn_device device = {.context = &gpu, .caps = {.gpu.fuses = true}};
static struct ecornn_plan plan = {.device = &device, .context = &(struct eco_gpu_plan){0}};
static const struct eco_lowered lowered = {.raw = -1};
static struct eco_layout layout = {.type = ECORNN_F32, .sum = ECORNN_F32};
static char memory[1 << 12];

static struct eco_gpu_run run_of(int lanes)
{
    launches = 0;
    layout.type = plan.problem.type = plan.problem.weight_type = ECORNN_F32;
    return (struct eco_gpu_run){.plan = &plan,
                                .problem = &plan.problem,
                                .lowered = &lowered,
                                .layout = &layout,
                                .launch = {.can = true, .lanes = lanes}};
}

static struct eco_product product_of(enum eco_product_kind kind, int c, int32_t m, int32_t n,
                                     int32_t k, size_t b_row)
{
    return (struct eco_product){.kind = kind,
                                .m = m,
                                .n = n,
                                .k = k,
                                .a = memory,
                                .b = memory,
                                .c = memory + 64 * c,
                                .a_row = 256,
                                .b_row = b_row,
                                .c_row = 136};
}

static struct eco_product gradient(int c, int32_t rows)
{
    return product_of(ECO_TN, c, 256, 130, rows, 130);
}

static struct eco_product back(int c, int32_t rows)
{
    return product_of(ECO_NN, c, rows, 33, 256, 40);
}

static void take(struct eco_gpu_run *run, struct eco_product product)
{
    ck_assert(eco_gpu_grouped_product(run, &product));
}

static int jobs_of(int launch, enum eco_grouped_kind kind)
{
    int n = 0;
    for (int j = 0; j < launched[launch].call.n; j++)
        n += launched[launch].call.job[j].kind == kind;
    return n;
}

/* ---- tests ------------------------------------------------------------------------------------
 */

/* Products of several ops share one launch, which comes before the next op that reads their results
 * or overwrites their operands. */
START_TEST(waits_for_another_op)
{
    struct eco_gpu_run run = run_of(1);
    eco_gpu_grouped_begin(&run, ECO_D_INPUT);
    take(&run, back(0, 20));
    eco_gpu_grouped_end(&run);
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    take(&run, gradient(1, 20));
    ck_assert(eco_gpu_grouped_zeros(&run, memory + 128, 100, 200));
    eco_gpu_grouped_end(&run);
    ck_assert_int_eq(launches, 0);
    eco_gpu_grouped_begin(&run, ECO_D_STEP);
    ck_assert_int_eq(launches, 1);
    ck_assert_int_eq(
        launched[0].call.n,
        3); /* zeros wait for nothing, so they are not queued after products that wait */
    ck_assert_int_eq(launched[0].call.job[0].kind, ECO_GROUPED_BACK);
    ck_assert_int_eq(launched[0].call.job[1].kind, ECO_GROUPED_ZERO);
    ck_assert_int_eq(launched[0].call.job[2].kind, ECO_GROUPED_GRADIENT);
    eco_gpu_grouped_begin(&run, ECO_D_END);
    ck_assert_int_eq(launches, 1);
}
END_TEST

/* With several lanes, an op that waits for another op's stream also waits for its products. */
START_TEST(waits_for_no_other_lane)
{
    struct eco_gpu_run run = run_of(2);
    eco_gpu_grouped_begin(&run, ECO_D_INPUT);
    take(&run, back(0, 20));
    eco_gpu_grouped_end(&run);
    ck_assert_int_eq(launches, 1);
}
END_TEST

/* 8, 16 or 32 rows to a block; blocks in the order of their kinds. */
START_TEST(counts_blocks)
{
    static const struct {
        int32_t rows, down;
    } all[] = {{1, 1}, {8, 1}, {9, 1}, {17, 1}, {33, 2}, {64, 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct eco_gpu_run run = run_of(1);
        unsigned blocks = 0;
        eco_gpu_grouped_begin(&run, ECO_D_INPUT);
        take(&run, gradient(1, all[i].rows));
        take(&run, back(0, all[i].rows));
        eco_gpu_grouped_begin(&run, ECO_D_END);
        ck_assert_int_eq(launches, 1);
        const struct eco_grouped_job *job = launched[0].call.job;
        ck_assert_int_eq(job[0].kind, ECO_GROUPED_BACK);
        ck_assert_int_eq(job[0].blocks, 3 * all[i].down);
        ck_assert_int_eq(job[1].kind, ECO_GROUPED_GRADIENT);
        ck_assert_int_eq(job[1].blocks, 2 * 2);
        for (int j = 0; j < launched[0].call.n; j++)
            blocks += (unsigned)job[j].blocks;
        ck_assert_uint_eq(blocks, launched[0].blocks);
    }
}
END_TEST

/* Products that add to the same numbers never share a launch, and cuBLAS keeps its place between
 * them. */
START_TEST(keeps_the_order_of_sums)
{
    struct eco_gpu_run run = run_of(1);
    const struct eco_product many = gradient(1, ECO_GROUPED_ROWS + 1);
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    take(&run, gradient(1, 20));
    take(&run, gradient(2, 20));
    ck_assert_int_eq(launches, 0);
    take(&run, gradient(1, 4));
    ck_assert_int_eq(launches, 1);
    ck_assert_int_eq(jobs_of(0, ECO_GROUPED_GRADIENT), 2);
    ck_assert(!eco_gpu_grouped_product(&run, &many));
    ck_assert_int_eq(launches, 2);
    ck_assert_int_eq(jobs_of(1, ECO_GROUPED_GRADIENT), 1);
}
END_TEST

START_TEST(launches_when_full)
{
    struct eco_gpu_run run = run_of(1);
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    for (int i = 0; i <= ECO_GROUPED_JOBS; i++)
        take(&run, gradient(i, 20));
    ck_assert_int_eq(launches, 1);
    ck_assert_int_eq(launched[0].call.n, ECO_GROUPED_JOBS);
    ck_assert(!launched[0].overlap); /* no kernel precedes it */
    eco_gpu_grouped_begin(&run, ECO_D_END);
    ck_assert_int_eq(launched[1].call.n, 1);
    ck_assert(launched[1].overlap);
}
END_TEST

/* The prediction counts all steps together, and no product has more work than grouping takes. */
START_TEST(knows_what_follows)
{
    static const struct {
        const char *text;
        bool follow;
    } all[] = {{"lstm/f32/train/L2/T1/N64/I640/H640", true},
               {"lstm/f32/train/T8/N8/I640/H640", true},
               {"lstm/f32/train/T8/N9/I640/H640", false},   /* rows */
               {"lstm/f32/train/T1/N64/I640/H2048", false}, /* work */
               {"lstm/f32/train/bi/T1/N1/I64/H64", false},  /* a lane for each direction */
               {"gru/f64/train/T1/N1/I64/H64", false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct eco_problem problem;
        problem_of(&problem, all[i].text);
        ck_assert_int_eq(eco_gpu_grouped_follow(&problem, &device.caps), all[i].follow);
    }
}
END_TEST

START_TEST(takes_few_rows_only)
{
    struct eco_gpu_run run = run_of(1);
    struct eco_product product = gradient(0, ECO_GROUPED_ROWS);
    ck_assert(!eco_gpu_takes_grouped(&run, &product)); /* products of other ops are not grouped */
    eco_gpu_grouped_begin(&run, ECO_D_STEP);
    ck_assert(!eco_gpu_takes_grouped(&run, &product));
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    ck_assert(eco_gpu_takes_grouped(&run, &product));
    product.k++;
    ck_assert(!eco_gpu_takes_grouped(&run, &product));
    product = back(0, ECO_GROUPED_ROWS);
    ck_assert(eco_gpu_takes_grouped(&run, &product));
    product.kind = ECO_NT;
    ck_assert(!eco_gpu_takes_grouped(&run, &product));
    product = gradient(0, ECO_GROUPED_ROWS); /* much work */
    product.m = product.n = 1 << 12;
    ck_assert(!eco_gpu_takes_grouped(&run, &product));
    product = gradient(0, 1);
    ck_assert(eco_gpu_takes_grouped(&run, &product));
    plan.problem.type = plan.problem.weight_type = ECORNN_F64;
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    ck_assert(!eco_gpu_takes_grouped(&run, &product));
    run = run_of(1);
    plan.problem.weight_type = ECORNN_BF16;
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    ck_assert(!eco_gpu_takes_grouped(&run, &product));
    run = run_of(1);
    device.caps.gpu.fuses = false;
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    ck_assert(!eco_gpu_takes_grouped(&run, &product));
    device.caps.gpu.fuses = true;
}
END_TEST

/* Takes the kernel for the type of rows; up to 32 rows share a block. */
START_TEST(takes_the_kernel_of_the_type)
{
    static const struct {
        ecornn_type type;
        bool fast;
    } all[] = {{ECORNN_BF16, false}, {ECORNN_F16, true}, {ECORNN_F32, false}, {ECORNN_F32, true}};
    static const int32_t rows[ECO_GROUPED_SHAPES] = {8, 9, 17};
    for (int k = 0; k < 4; k++)
        for (int shape = 0; shape < ECO_GROUPED_SHAPES; shape++) {
            struct eco_gpu_run run = run_of(1);
            layout.type = plan.problem.type = plan.problem.weight_type = all[k].type;
            plan.problem.fast = all[k].fast;
            eco_gpu_grouped_begin(&run, ECO_D_INPUT);
            take(&run, back(0, rows[shape]));
            eco_gpu_grouped_begin(&run, ECO_D_END);
            ck_assert_ptr_eq(launched[0].kernel, &kernel_of[k][shape]);
        }
    plan.problem.fast = false;
}
END_TEST

/* 16 bytes are eight numbers in 16 bits. */
START_TEST(knows_whole_pieces_of_16_bits)
{
    static const struct {
        size_t a_row, b_row;
        bool a_whole, b_whole;
    } all[] = {{136, 136, true, true}, {132, 136, false, true}, {136, 132, true, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct eco_gpu_run run = run_of(1);
        struct eco_product product = gradient(0, 5);
        layout.type = plan.problem.type = plan.problem.weight_type = ECORNN_BF16;
        product.a_row = all[i].a_row;
        product.b_row = all[i].b_row;
        eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
        take(&run, product);
        eco_gpu_grouped_begin(&run, ECO_D_END);
        ck_assert_int_eq(launched[0].call.job[0].a_whole, all[i].a_whole);
        ck_assert_int_eq(launched[0].call.job[0].b_whole, all[i].b_whole);
    }
}
END_TEST

/* A thread reads 16 bytes of floats at once, 8 of B in a backward product, and single numbers if
 * they are not aligned. */
START_TEST(knows_whole_pieces)
{
    static const struct {
        int a, b; /* elements from a multiple of 64 bytes */
        size_t a_row, b_row;
        bool back, a_whole, b_whole;
    } all[] = {{0, 0, 256, 40, true, true, true},    {1, 0, 256, 40, true, false, true},
               {0, 1, 256, 40, true, true, false},   {0, 0, 258, 42, true, false, true},
               {0, 2, 256, 41, true, true, false},   {0, 0, 256, 136, false, true, true},
               {4, 2, 256, 136, false, true, false}, {0, 4, 256, 130, false, true, false}};
    static _Alignas(64) float at[64];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct eco_gpu_run run = run_of(1);
        struct eco_product product = all[i].back ? back(0, 5) : gradient(0, 5);
        product.a = at + all[i].a;
        product.b = at + all[i].b;
        product.a_row = all[i].a_row;
        product.b_row = all[i].b_row;
        product.c_type = i % 2 ? ECORNN_BF16 : ECORNN_F32;
        product.add = i % 3 == 0;
        eco_gpu_grouped_begin(&run, ECO_D_INPUT);
        take(&run, product);
        eco_gpu_grouped_begin(&run, ECO_D_END);
        const struct eco_grouped_job *job = &launched[0].call.job[0];
        ck_assert_int_eq(job->a_whole, all[i].a_whole);
        ck_assert_int_eq(job->b_whole, all[i].b_whole);
        ck_assert_int_eq(job->narrow, i % 2 != 0);
        ck_assert_int_eq(job->add, i % 3 == 0);
    }
}
END_TEST

/* Sums of adjacent groups of dacc share a launch with vectors that have no group and are set to
 * zero. */
START_TEST(groups_sums)
{
    enum { HIDDEN = 6, COLUMN = 8, ROWS = 5 };
    struct eco_gpu_run run = run_of(1);
    struct eco_columns_call call = {.rows_of = {memory, 0, 48, ECORNN_F32},
                                    .vectors = memory + 1024,
                                    .vector_type = ECORNN_F32,
                                    .rows = ROWS,
                                    .hidden = HIDDEN,
                                    .groups = 5,
                                    .column = COLUMN,
                                    .place = {1, 2, -1, 0, 4}};
    static const struct {
        int place, m, k;
    } expected[] = {{1, 2, ROWS}, {0, 1, 0}, {0, 1, ROWS}, {4, 1, ROWS}};
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    ck_assert(eco_gpu_grouped_sums(&run, &call));
    eco_gpu_grouped_begin(&run, ECO_D_END);
    ck_assert_int_eq(jobs_of(0, ECO_GROUPED_SUM), 4);
    for (int j = 0, before = 0; j < 4; j++) {
        const struct eco_grouped_job *job = &launched[0].call.job[j];
        const size_t at = (size_t)(expected[j].place * COLUMN) * sizeof(float);
        ck_assert_ptr_eq(job->a, memory + at);
        ck_assert_ptr_eq(job->c, memory + 1024 + (size_t)(before * HIDDEN) * sizeof(float));
        ck_assert_int_eq(job->m, expected[j].m);
        ck_assert_int_eq(job->n, HIDDEN);
        ck_assert_int_eq(job->k, expected[j].k);
        ck_assert_int_eq(job->b_row, COLUMN);
        before += expected[j].m;
    }
    call.rows = ECO_GROUPED_ROWS + 1;
    eco_gpu_grouped_begin(&run, ECO_D_WEIGHTS);
    ck_assert(!eco_gpu_grouped_sums(&run, &call));
}
END_TEST

TEST_MAIN("grouped", {waits_for_another_op, 1}, {waits_for_no_other_lane, 1}, {counts_blocks, 1},
          {keeps_the_order_of_sums, 1}, {launches_when_full, 1}, {knows_what_follows, 1},
          {takes_few_rows_only, 1}, {takes_the_kernel_of_the_type, 1}, {knows_whole_pieces, 1},
          {knows_whole_pieces_of_16_bits, 1}, {groups_sums, 1})
