/*
 * How algorithm persistent divides a layer into blocks: whatever the sizes, every unit and batch
 * row belongs to one block, blocks fit the device, and a smaller run never exchanges more than it
 * was given room for.  Which cells from text it takes, with which kernels.  Needs no device.
 */
#include <check.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "gpu/device/rates.h"
#include "gpu/persistent/persistent.h"
#include "tests/kit/calls.h"
#include "tests/kit/problems.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { BLOCKS = 132, CLUSTERED = 120, BLOCK_BYTES = 226 << 10, ACCS = 4, STATES = 2, FIELDS = 9 };

static struct eco_persistent_need need_of(bool backward, int32_t hidden, int32_t rows, int32_t jobs,
                                          int32_t recurrent, int32_t second)
{
    static const int32_t instructions[] = {ECO_PERSISTENT_PAIR, ECO_PERSISTENT_PLAIN,
                                           ECO_PERSISTENT_PAIR};
    return (struct eco_persistent_need){
        .backward = backward,
        .hidden = hidden,
        .rows = rows,
        .steps = 10,
        .products = second > 0 ? 2 : 1,
        .width = {(backward ? recurrent : 1) * hidden, (backward ? second : 1) * hidden},
        .jobs = jobs,
        .shapes = ECO_PERSISTENT_ALL_SHAPES,
        .recurrent = {recurrent, second},
        .accs = ACCS,
        .states = STATES,
        .fields = FIELDS,
        .operand = recurrent % 2 == 0 ? 2 : 4,
        .instructions = instructions[recurrent % 3],
        .scaled = hidden % 2 == 0,
        .restarts = hidden % 3 == 0,
        .blocks = {BLOCKS, BLOCKS, CLUSTERED},
        .block_bytes = BLOCK_BYTES,
        .rates = &eco_gpu_rates_h200};
}

/* The block's rows of one R are divided among its warps, and so is k. */
static void check_part(const struct eco_persistent_need *need,
                       const struct eco_persistent_shape *shape, int o, int32_t rows)
{
    const struct eco_persistent_product *part = &shape->product[o];
    const int32_t k_block = ECO_PERSISTENT_BYTES / need->operand,
                  scale_block = eco_persistent_scale_block(
                      eco_persistent_runs(need, o), shape->unit_shift, k_block, need->backward),
                  k_blocks_of_scale_block = scale_block < k_block ? 1 : scale_block / k_block;
    ck_assert_int_ge(part->k, need->width[o]); /* with scales, k is also a multiple of a bundle */
    ck_assert_int_ge(part->tiles * ECO_PERSISTENT_M, rows);
    ck_assert_int_ge(part->down * eco_persistent_tiles(shape->mainloop), part->tiles);
    ck_assert_int_le(part->down * part->across, ECO_PERSISTENT_WARPS);
    ck_assert_int_ge(part->across * part->k_blocks, part->slice);
    ck_assert_int_ge((part->slice << shape->cluster_log2) * (ECO_PERSISTENT_BYTES / need->operand),
                     part->k);
    ck_assert_int_ge(part->in_shared + eco_persistent_k_blocks(shape->mainloop, need->scaled,
                                                               k_blocks_of_scale_block) /
                                           need->products,
                     part->k_blocks);
    ck_assert_int_ge(shape->room, part->across * part->k_blocks);
    ck_assert_int_ge(
        shape->sums,
        ECO_PERSISTENT_SUM_AT(ECO_PERSISTENT_N, eco_persistent_sum_row(part->tiles, part->parts)));
}

/* Sums reuse the memory of what a block gathered. The memory of the block that gathers least has
 * room for the sums of all rows, and all warps have finished reading it. */
static void check_over(const struct eco_persistent_need *need,
                       const struct eco_persistent_shape *shape)
{
    const struct eco_persistent_product *part = &shape->product[0];
    const int32_t tiles = (shape->group_rows + ECO_PERSISTENT_N - 1) / ECO_PERSISTENT_N,
                  k_blocks = part->k / (ECO_PERSISTENT_BYTES / need->operand),
                  least = k_blocks - ((1 << shape->cluster_log2) - 1) * part->slice;
    ck_assert_int_eq(need->products, 1);
    ck_assert_int_eq(shape->mainloop, ECO_PERSISTENT_MMA_MANY);
    ck_assert_int_gt(shape->cluster_log2, 0);
    ck_assert_int_eq(shape->chunk, tiles);
    ck_assert_int_eq(part->down * part->across, ECO_PERSISTENT_WARPS);
    ck_assert_int_ge(least * tiles * ECO_PERSISTENT_N * ECO_PERSISTENT_BYTES,
                     tiles * shape->sums * (int32_t)sizeof(float));
}

/* A kernel knows its k blocks (eco_persistent_usual), whatever the rows of a run; direct kernels do
 * not ask for them if there are several tiles of rows. There is room for all words of resets. */
static void check_usual(const struct eco_persistent_need *need,
                        const struct eco_persistent_shape *shape)
{
    struct eco_persistent_need one = *need;
    struct eco_persistent_shape other;
    one.rows = one.jobs = 1;
    if ((!eco_persistent_is_direct(shape->mainloop) || shape->group_rows <= ECO_PERSISTENT_N) &&
        eco_persistent_divide(&one, eco_persistent_index(shape), &other))
        for (int o = 0; o < need->products; o++)
            ck_assert_int_eq(other.product[o].k_blocks, shape->product[o].k_blocks);
    const size_t words = need->restarts ? (size_t)(need->steps + 2 + 31) / 32 : 0;
    ck_assert_uint_ge(eco_persistent_reset_bytes(need, shape),
                      words * (size_t)need->rows * sizeof(uint32_t));
}

static void check_shape(const struct eco_persistent_need *need)
{
    struct eco_persistent_shape shape;
    if (!(eco_persistent_shape(need, &shape) > 0))
        return;
    const int32_t units = 1 << shape.unit_shift, cluster = 1 << shape.cluster_log2;
    ck_assert(eco_persistent_made(need->products, need->recurrent[0], need->backward,
                                  need->instructions, need->scaled) >>
                  eco_persistent_index(&shape) &
              1);
    ck_assert_int_eq(shape.members % cluster, 0);
    ck_assert_int_ge(shape.members * units, need->hidden);
    /* Each cluster has a unit to wait for. */
    ck_assert_int_lt((shape.members - cluster) * units, need->hidden);
    ck_assert_int_ge(shape.groups * shape.group_rows, need->rows);
    ck_assert_int_lt((shape.groups - 1) * shape.group_rows, need->rows);
    ck_assert_int_le(shape.groups * shape.members * need->jobs, need->blocks[shape.cluster_log2]);
    ck_assert_int_ge(shape.chunk * ECO_PERSISTENT_N, shape.cluster_log2 > 0 ? 1 : shape.group_rows);
    ck_assert_uint_le(shape.shared_bytes, BLOCK_BYTES);
    ck_assert(shape.mainloop != ECO_PERSISTENT_WGMMA || !need->scaled);
    if (eco_persistent_is_direct(shape.mainloop)) {
        ck_assert_int_le(shape.group_rows,
                         ECO_PERSISTENT_N *
                             eco_persistent_direct_tiles(shape.mainloop, need->instructions));
        ck_assert_int_eq(shape.in_shared, 0);
    }
    if (shape.aliased)
        check_over(need, &shape);
    check_usual(need, &shape);
    int32_t kept = 0;
    for (int o = 0; o < need->products; o++) {
        const int32_t rows = (need->backward ? 1 : need->recurrent[o]) * units * cluster;
        check_part(need, &shape, o, rows);
        kept += shape.product[o].in_shared;
    }
    ck_assert_int_eq(shape.in_shared, kept);
}

START_TEST(covers_everything)
{
    const bool backward = _i;
    const int32_t next = tests_all() ? 37 : 101;
    for (int32_t hidden = 1; hidden < 2600; hidden += hidden < 80 ? 1 : next)
        for (int32_t rows = 1; rows < 200; rows += rows < 20 ? 1 : 13)
            for (int32_t jobs = 1; jobs <= ECO_PERSISTENT_JOBS; jobs++)
                for (int32_t recurrent = 1; recurrent <= ACCS; recurrent++)
                    for (int32_t second = 0; second <= 1 && second + recurrent <= ACCS; second++) {
                        const struct eco_persistent_need need =
                            need_of(backward, hidden, rows, jobs, recurrent, second);
                        check_shape(&need);
                    }
}
END_TEST

/* Sizes that this algorithm is made for fit. */
START_TEST(fits_what_it_is_for)
{
    static const struct {
        int32_t hidden, rows;
    } size[] = {{64, 64}, {256, 32}, {512, 64}, {1024, 64}, {1024, 1}, {2048, 16}, {650, 32}};
    struct eco_persistent_shape shape;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const struct eco_persistent_need need =
            need_of(false, size[i].hidden, size[i].rows, 1, ACCS - i % 2 * 2, i % 2);
        ck_assert_msg(eco_persistent_shape(&need, &shape) > 0, "H=%d N=%d", size[i].hidden,
                      size[i].rows);
    }
    const struct eco_persistent_need large = need_of(false, 4096, 64, 1, ACCS, 0);
    ck_assert(!(eco_persistent_shape(&large, &shape) > 0)); /* 128 MiB of R */
}
END_TEST

/* In a partition of the device, a group is one cluster-wide launch; a kernel with clusters has one
 * cluster there. */
START_TEST(parts_have_gangs)
{
    enum { PART = 16, MOST_BLOCKS = 8 };
    int found = 0;
    for (int32_t hidden = 8; hidden < 600; hidden += hidden < 80 ? 8 : 37)
        for (int32_t rows = 1; rows < 200; rows += 13) {
            struct eco_persistent_shape shape;
            struct eco_persistent_need need = need_of(_i, hidden, rows, 1, ACCS, 0);
            for (int k = 0; k < ECO_PERSISTENT_CLUSTERS; k++)
                need.blocks[k] = PART;
            need.cluster_launch = MOST_BLOCKS;
            if (!(eco_persistent_shape(&need, &shape) > 0))
                continue;
            found++;
            check_shape(&need);
            ck_assert_int_le(shape.members, MOST_BLOCKS);
            ck_assert(shape.cluster_log2 == 0 || shape.members == 1 << shape.cluster_log2);
        }
    ck_assert_int_gt(found, 50);
}
END_TEST

/* ---- cells from text ------------------------------------------------------------------------- */

static const char *const lstm_like = "cell own(h, c)\n"
                                     "i = sigmoid(W x + R h + b)\n"
                                     "f = sigmoid(W x + R h + b)\n"
                                     "g = tanh(W x + R h + b)\n"
                                     "c' = f * c + i * g\n"
                                     "h' = tanh(c')\n";

/* The result is valid until the next call. */
static struct eco_problem cell_problem(const char *text, const char *rest)
{
    static struct eco_problem problem;
    static ecornn_cell *cell;
    ecornn_desc desc;
    char name[128];
    ecornn_cell_free(cell);
    check_ok(ecornn_cell_parse(&cell, text));
    snprintf(name, sizeof name, "own/%s", rest);
    check_ok(parse_desc(&desc, name, cell));
    check_ok(eco_problem_build(&problem, &desc));
    return problem;
}

static const char *const unbounded = "cell own(h, c)\n"
                                     "i = sigmoid(W x + R h + b)\n"
                                     "f = sigmoid(W x + R h + b)\n"
                                     "g = tanh(W x + R h + b)\n"
                                     "c' = f * c + i * g\n"
                                     "h' = relu(c')\n";

/* The bytes that smaller runs exchange, alone and with other jobs in their launch, are those found
 * by dividing the layer for every number of rows. */
START_TEST(exchanges_by_rows)
{
    static const int32_t hidden[] = {8, 40, 63, 200, 512, 1023, 1536},
                         rows[] = {1, 5, 16, 17, 64, 100, 131, 288, 700};
    for (size_t h = 0; h < sizeof hidden / sizeof *hidden; h++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            const int32_t all = rows[r], recurrent = 1 + (int32_t)(h + r) % 4;
            struct eco_persistent_need need = need_of(_i, hidden[h], all, 1, recurrent, 0);
            struct eco_persistent_shape shape;
            struct eco_by_rows found, right = {.most = 0};
            need.steps = 1;
            eco_persistent_exchange(&need, ECO_PERSISTENT_JOBS, &found);
            for (need.jobs = 1; need.jobs <= ECO_PERSISTENT_JOBS; need.jobs++)
                for (need.rows = 1; need.rows <= all; need.rows++) {
                    const int32_t place = eco_fewer_index(all, need.rows);
                    const size_t bytes =
                        eco_persistent_shape(&need, &shape) > 0 ? shape.exchange_bytes : 0;
                    ck_assert_int_le(need.rows, eco_fewer_rows(all, place));
                    if (place < ECO_FEWER && bytes > right.fewer[place])
                        right.fewer[place] = bytes;
                    if (bytes > right.most)
                        right.most = bytes;
                    ck_assert_uint_le(bytes, eco_bytes_by_rows(&found, all, need.rows));
                }
            ck_assert_msg(memcmp(&found, &right, sizeof found) == 0, "H %d, N %d", (int)hidden[h],
                          (int)all);
        }
}
END_TEST

/* The kernels that are compiled for a plan suffice for every smaller run and for each job alone, on
 * devices with WGMMA and without. */
START_TEST(compiles_what_runs_take)
{
    static const char *const rest[] = {
        "f32/train/bi/T9/N64/I8/H512",   "bf16/infer/L4/T9/N200/I8/H256",
        "f16/train/T9/N20/I8/H800",      "f32/fast/infer/L3/T9/N64/I8/H650",
        "f32/infer/T9/N1/I8/H1024",      "bf16/train/bi/T9/N33/I8/H40",
        "bf16/infer/T9/N64/I8/H1024",    "f16/infer/T9/N32/I8/H1536",
        "f32/fast/infer/T9/N64/I8/H1024"};
    static const char *const of_bounded = "f32/infer/T9/N64/I8/H1024"; /* 8 units a block */
    const struct eco_caps caps = {.gpu.blocks = {BLOCKS, BLOCKS, CLUSTERED},
                                  .gpu.block_bytes = BLOCK_BYTES,
                                  .gpu.splits = _i % 2};
    const size_t n = sizeof rest / sizeof *rest;
    for (size_t i = 0; i < n + (_i / 2 == 0); i++) {
        const struct eco_problem problem =
            cell_problem(_i / 2 ? unbounded : lstm_like, i < n ? rest[i] : of_bounded);
        for (int backward = 0; backward <= (int)problem.training; backward++) {
            struct eco_persistent_need need =
                eco_persistent_need(&problem, &caps, backward, problem.N, 9, 1);
            struct eco_persistent_shape shape;
            ck_assert_uint_ne(need.shapes, 0);
            for (need.rows = 1; need.rows <= problem.N; need.rows++) {
                ck_assert(eco_persistent_shape(&need, &shape) > 0);
                ck_assert(need.shapes >> eco_persistent_index(&shape) & 1);
            }
        }
    }
}
END_TEST

static const char *const normed = "cell own(h, c)\n"
                                  "a = W x + R h + b\n"
                                  "i = sigmoid(a - mean(a))\n"
                                  "g = tanh(W x + R h + b)\n"
                                  "c' = i * c + (1 - i) * g\n"
                                  "h' = tanh(c')\n";

/* Kernels in which a thread has one element at most are of shapes that have no more in any run: of
 * fewer rows, or with other jobs in its launch.  Of three jobs all rows of the first do not fit. */
START_TEST(keeps_single_elements)
{
    static const char *const rest[] = {"f32/train/bi/T9/N21/I8/H937",
                                       "bf16/infer/L4/T9/N200/I8/H256", "f16/train/T9/N64/I8/H800",
                                       "f32/fast/infer/L4/T9/N64/I8/H96"};
    const struct eco_problem problem = cell_problem(normed, rest[_i]);
    const struct eco_caps caps = {.gpu.blocks = {BLOCKS, BLOCKS, CLUSTERED},
                                  .gpu.block_bytes = BLOCK_BYTES,
                                  .gpu.splits = true};
    for (int backward = 0; backward <= (int)problem.training; backward++) {
        struct eco_persistent_need need =
            eco_persistent_need(&problem, &caps, backward, problem.N, 9, 1);
        need.shapes = eco_persistent_kept(&problem, &caps, backward, need.shapes);
        for (need.jobs = 1; need.jobs <= ECO_PERSISTENT_JOBS; need.jobs++)
            for (need.rows = 1; need.rows <= problem.N; need.rows++) {
                struct eco_persistent_shape shape;
                if (!(eco_persistent_shape(&need, &shape) > 0))
                    continue;
                const int32_t tiles = (shape.group_rows + ECO_PERSISTENT_N - 1) / ECO_PERSISTENT_N,
                              elements = tiles * ECO_PERSISTENT_N << shape.unit_shift;
                ck_assert_int_le(elements, ECO_PERSISTENT_THREADS);
            }
    }
}
END_TEST

/* The kernels that a built-in cell takes on devices of several numbers of multiprocessors, a bit
 * for each. */
static uint64_t chosen_of(const struct eco_problem *problem, bool backward)
{
    static const int32_t processors[] = {BLOCKS, 114, 60};
    uint64_t chosen = 0;
    for (int d = 0; d < 3; d++) {
        const int32_t blocks = processors[d];
        const struct eco_caps caps = {.gpu.blocks = {blocks, blocks, blocks * 10 / 11},
                                      .gpu.block_bytes = 227 << 10,
                                      .gpu.splits = true};
        struct eco_persistent_need need = eco_persistent_need(problem, &caps, backward, 1, 9, 1);
        struct eco_persistent_shape shape;
        need.shapes = ECO_PERSISTENT_ALL_SHAPES; /* also where a plan would compile its own */
        for (need.jobs = 1; need.jobs <= ECO_PERSISTENT_JOBS; need.jobs++)
            for (need.rows = 1; need.rows < 2000; need.rows += 1 + need.rows / 6)
                if (eco_persistent_shape(&need, &shape) > 0)
                    chosen |= UINT64_C(1) << eco_persistent_index(&shape);
    }
    return chosen;
}

/* Each kernel is predicted to be the fastest for some size. */
START_TEST(takes_every_kernel_somewhere)
{
    static const char *const type[] = {"bf16", "f32/fast", "f32"};
    uint64_t chosen[2][2][2] = {{{0}}}, made[2][2][2] = {{{0}}}; /* [way][scaled][of one] */
    for (int c = 0; cell_name(c) != NULL; c++)
        for (int backward = 0; backward < 2; backward++) {
            char text[64];
            struct eco_problem problem;
            snprintf(text, sizeof text, "%s/%s/train/T9/N1/I8/H8", cell_name(c), type[_i]);
            problem_of(&problem, text);
            if (eco_cell_products(problem.cell) != 1 || problem.cell->recipe.n_states > 2)
                continue; /* other cells compile the kernels that a plan takes */
            const struct eco_persistent_kind *kind = eco_persistent_kind(&problem, backward);
            const bool one = problem.cell->lowered.n_accs == 1;
            uint64_t *taken = &chosen[backward][kind->scaled][one];
            made[backward][kind->scaled][one] |=
                eco_persistent_made(1, one ? 1 : 3, backward, kind->instructions, kind->scaled);
            for (int32_t h = 1; h < 3600; h += h < 300 ? 16 : h < 1100 ? 21 : 61) {
                problem.H = problem.P = h;
                *taken |= chosen_of(&problem, backward);
            }
        }
    for (int i = 0; i < 8; i++)
        ck_assert_msg(chosen[i / 4][i / 2 % 2][i % 2] == made[i / 4][i / 2 % 2][i % 2],
                      "%s %d: %" PRIx64 " of %" PRIx64, type[_i], i,
                      chosen[i / 4][i / 2 % 2][i % 2], made[i / 4][i / 2 % 2][i % 2]);
}
END_TEST

static const struct {
    const char *text, *rest, *why; /* forward */
} refusal[] = {
    {"cell own(h)\nh' = tanh(W x + R h)", "f64/infer/T2/N2/I4/H4", "this type"},
    {"cell own(h)\nh' = tanh(W x + R h)", "f32/infer/T2/N2/I4/H4", "needs NVRTC"},
    {"cell own(h, c)\nc' = tanh(R h)\nh' = tanh(W x + R c)", "f32/infer/T2/N2/I4/H4",
     "one product of the output state"},
    {"cell own(h)\nh' = tanh(R (h * h))", "f32/infer/T2/N2/I4/H4",
     "one product of the output state"},
    {"cell own(h)\nh' = tanh(R h - mean(h))", "f32/infer/T2/N2/I4/H4", "needs NVRTC"},
    {"cell own(h)\ne = tanh(R h)\nh' = tanh(R e - mean(h))", "f32/infer/T2/N2/I4/H4",
     "one product of the output state"},
    {"cell own(h)\ne = tanh(R h)\na = R h\nh' = tanh(a + R e)", "f32/infer/T2/N2/I4/H4",
     "one product of the output state"},
    {"cell own(h)\ne = tanh(R h)\nf = tanh(R e)\nh' = tanh(R f)", "f32/infer/T2/N2/I4/H4",
     "one product of the output state"},
    {"cell own(h)\ne = tanh(R h)\nh' = tanh(R e)", "f32/infer/T2/N2/I4/H4", "needs NVRTC"},
};

START_TEST(says_why_there_is_none)
{
    const struct eco_problem problem = cell_problem(refusal[_i].text, refusal[_i].rest);
    setenv("ECORNN_NVRTC", "0", 1);
    const char *why = eco_persistent_refuses(&problem, false);
    ck_assert_msg(why != NULL && strstr(why, refusal[_i].why), "%s", why);
}
END_TEST

/* The module has kernels of every type and direction for the most common cells; those of other
 * cells are compiled at run time. */
START_TEST(has_kernels_of_common_cells)
{
    static const char *const types[] = {"f32", "f32/fast", "bf16", "f16"};
    setenv("ECORNN_NVRTC", "0", 1);
    for (int c = 0; cell_name(c) != NULL; c++) {
        const char *cell = cell_name(c);
        const bool common =
            strcmp(cell, "lstm") == 0 || strcmp(cell, "gru") == 0 || strncmp(cell, "rnn-", 4) == 0;
#ifdef CUDA_PTX
        if (common && strcmp(cell, "lstm") != 0)
            continue;
#endif
        for (int i = 0; i < 8; i++) {
            char text[64];
            struct eco_problem problem;
            snprintf(text, sizeof text, "%s/%s/train/T9/N1/I8/H8", cell, types[i / 2]);
            problem_of(&problem, text);
            ck_assert_int_eq(eco_persistent_is_made(&problem, i % 2), common);
            ck_assert_int_eq(eco_persistent_refuses(&problem, i % 2) == NULL, common);
        }
    }
}
END_TEST

/* F16 holds the states of some cells in F32 only. */
START_TEST(takes_operands_that_hold_states)
{
    static const struct {
        const char *text;
        int forward, backward, full;
    } is[] = {
        {"cell own(h)\nh' = tanh(W x + R h)", ECO_F32_IN_F16, ECO_F32_IN_SCALED_F16,
         ECO_F32_IN_PAIR},
        {"cell own(h)\nh' = W x + R h", ECO_F32_IN_SCALED_F16, ECO_F32_IN_SCALED_F16,
         ECO_F32_IN_SCALED_PAIR},
    };
    for (int i = 0; i < 2; i++) {
        const struct eco_problem fast = cell_problem(is[i].text, "f32/fast/train/T2/N2/I4/H4");
        ck_assert_ptr_eq(eco_persistent_kind(&fast, false), &eco_persistent_kinds[is[i].forward]);
        ck_assert_ptr_eq(eco_persistent_kind(&fast, true), &eco_persistent_kinds[is[i].backward]);
        const struct eco_problem full = cell_problem(is[i].text, "f32/train/T2/N2/I4/H4");
        ck_assert_ptr_eq(eco_persistent_kind(&full, false), &eco_persistent_kinds[is[i].full]);
        ck_assert_ptr_eq(eco_persistent_kind(&full, true),
                         &eco_persistent_kinds[ECO_F32_IN_SCALED_PAIR]);
    }
}
END_TEST

/* A row-invariant plan has one division of H, whatever the rows of a run, which fit in a launch. */
START_TEST(rows_have_one_kernel)
{
    static const int32_t hidden[] = {40, 256, 512, 1000};
    const struct eco_caps caps = {.threads = BLOCKS,
                                  .gpu = {.version = 90,
                                          .splits = true,
                                          .blocks = {BLOCKS, BLOCKS, CLUSTERED},
                                          .block_bytes = 227 << 10}};
    for (int h = 0; h < 4; h++)
        for (int backward = 0; backward < 2; backward++) {
            uint64_t shapes = 0;
            for (int32_t rows = 1; rows < 5000; rows = 2 * rows + 1) {
                struct eco_persistent_shape shape;
                struct eco_problem problem;
                char text[80];
                snprintf(text, sizeof text, "lstm/bf16/row-invariant/train/T9/N%d/I8/H%d",
                         (int)rows, (int)hidden[h]);
                problem_of(&problem, text);
                const struct eco_persistent_need need =
                    eco_persistent_need(&problem, &caps, backward, rows, 1, 1);
                ck_assert(need.shapes == shapes || shapes == 0);
                ck_assert_double_gt(eco_persistent_shape(&need, &shape), 0);
                ck_assert(shape.mainloop == ECO_PERSISTENT_MMA ||
                          shape.mainloop == ECO_PERSISTENT_MMA_MANY);
                ck_assert_int_le(need.rows, rows);
                shapes = need.shapes;
            }
        }
}
END_TEST

TEST_MAIN("persistent", {covers_everything, 2}, {fits_what_it_is_for, 1}, {exchanges_by_rows, 2},
          {parts_have_gangs, 2}, {takes_every_kernel_somewhere, 3}, {compiles_what_runs_take, 4},
          {keeps_single_elements, 4}, {says_why_there_is_none, sizeof refusal / sizeof *refusal},
          {has_kernels_of_common_cells, 1}, {takes_operands_that_hold_states, 1},
          {rows_have_one_kernel, 1})
