/*
 * The kernels of every instruction set this machine has: compiled cells against the interpreter bit
 * by bit, sets against each other, rows in another order, row means, random numbers.
 */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/type.h"
#include "common/util.h"
#include "tests/kit/stage.h"
#include "tests/kit/suite.h"

/* ---- cells ---------------------------------------------------------------------------------- */

/* Calls visit for every stage of every built-in cell, in both types, forward and backward. */
static void each_stage(void (*visit)(struct stage *stage))
{
    const struct ecornn_cell *cell;
    for (int k = 0; (cell = eco_cell_builtin(k)); k++)
        for (int way = 0; way < 2; way++)
            for (int index = 0; index < stage_count(cell, way == 1); index++)
                for (size_t element = sizeof(float); element <= sizeof(double); element *= 2) {
                    struct stage stage = {.cell = cell,
                                          .backward = way == 1,
                                          .index = index,
                                          .hidden = 37,
                                          .element = element,
                                          .with_y = true};
                    visit(&stage);
                }
}

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static const char *stage_name(const struct stage *stage)
{
    static char name[120];
    snprintf(name, sizeof name, "%s %s stage %d H %d f%d", stage->cell->recipe.name,
             stage->backward ? "backward" : "forward", stage->index, (int)stage->hidden,
             (int)stage->element * 8);
    return name;
}

static const int32_t some_order[STAGE_ROWS] = {2, 0, 1};

static void compare_interpreter(const struct stage *stage)
{
    const struct eco_isa *isa;
    for (int k = 0; (isa = eco_isa_supported(k)); k++) {
        struct stage_memory *a = stage_memory_new(stage), *b = stage_memory_new(stage);
        stage_kernel(stage, isa, false)(&a->call);
        stage_kernel(stage, isa, true)(&b->call);
        ck_assert_msg(stage_same(a, b), "%s: %s", isa->name, stage_name(stage));
        free(a);
        free(b);
    }
}

static void interpreter_all_widths(struct stage *stage)
{
    for (stage->hidden = 1; stage->hidden <= 40; stage->hidden++)
        compare_interpreter(stage);
    stage->hidden = 150;
    for (int k = 0; k < 16; k++) {
        stage->projected = (k & 1) && stage->cell->lowered.projectable;
        stage->with_y = (k & 2) && !stage->projected;
        stage->in_place = (k & 4) && !stage->backward && !stage->projected;
        stage->order = k & 8 ? some_order : NULL;
        compare_interpreter(stage);
    }
}

START_TEST(interpreter_is_compiled)
{
    each_stage(interpreter_all_widths);
}
END_TEST

/* Calls for parts of the rows and units give the results of one call for all, and write nothing
 * else. */
static void compare_pieces(struct stage *stage)
{
    const bool means = stage->cell->lowered.has_means; /* then only whole rows */
    const struct eco_isa *isa;
    for (int k = 0; (isa = eco_isa_supported(k)); k++) {
        const eco_pointwise_kernel run = stage_kernel(stage, isa, false);
        struct stage_memory *a = stage_memory_new(stage), *b = stage_memory_new(stage);
        run(&a->call);
        static const int32_t row[] = {0, 1, STAGE_ROWS};
        const int32_t unit[] = {0, means ? 0 : 16, means ? 0 : 19, 37};
        for (int r = 0; r < 2; r++)
            for (int u = 0; u < 3; u++) {
                b->call.row0 = row[r], b->call.row1 = row[r + 1];
                b->call.unit0 = unit[u], b->call.unit1 = unit[u + 1];
                run(&b->call);
            }
        ck_assert_msg(stage_same(a, b), "%s: %s", isa->name, stage_name(stage));
        free(a);
        free(b);
    }
}

static void compare_pieces_ordered(struct stage *stage)
{
    compare_pieces(stage);
    stage->order = some_order;
    compare_pieces(stage);
}

START_TEST(pieces_are_the_whole)
{
    each_stage(compare_pieces_ordered);
}
END_TEST

/* Results are the same if the next states overwrite the previous ones. */
static void compare_in_place(struct stage *stage)
{
    const bool last = stage->index == stage_count(stage->cell, false) - 1;
    if (stage->backward)
        return;
    struct stage_memory *a = stage_memory_new(stage);
    stage->in_place = true;
    struct stage_memory *b = stage_memory_new(stage);
    stage_kernel(stage, eco_isa_supported(0), false)(&a->call);
    stage_kernel(stage, eco_isa_supported(0), false)(&b->call);
    for (int s = 0; s < a->call.n_states && last; s++)
        for (int row = 0; row < STAGE_ROWS; row++)
            for (size_t j = 0; j < (size_t)stage->hidden; j++)
                ck_assert(stage_get(stage, a->call.next[s], a->call.next_row[s], row, j) ==
                          stage_get(stage, b->call.next[s], b->call.next_row[s], row, j));
    free(a);
    free(b);
}

START_TEST(in_place)
{
    each_stage(compare_in_place);
}
END_TEST

/* All sets with a fused multiply-add give the same bits, and so do all sets without. The two kinds
 * differ by a few ulp. */
static void compare_sets(struct stage *stage)
{
    const struct eco_isa *isa;
    struct stage_memory *kind[2] = {NULL, NULL}, *first;
    if (stage->element == sizeof(double))
        return;
    for (int k = 0; (isa = eco_isa_supported(k)); k++) {
        struct stage_memory *m = stage_memory_new(stage);
        stage_kernel(stage, isa, false)(&m->call);
        if (!kind[isa->fused])
            kind[isa->fused] = m;
        first = kind[1] ? kind[1] : kind[0];
        ck_assert_msg(stage_same(kind[isa->fused], m), "%s: %s", isa->name, stage_name(stage));
        const float *x = (const float *)(const void *)m->data;
        const float *y = (const float *)(const void *)first->data;
        for (size_t j = 0; j < m->used / sizeof *x; j++)
            ck_assert_msg(
                same_float(x[j], y[j]) || fabsf(x[j] - y[j]) <= 0x1p-20f * (1 + fabsf(y[j])),
                "%s: %s: %a %a", isa->name, stage_name(stage), (double)x[j], (double)y[j]);
        if (m != kind[isa->fused])
            free(m);
    }
    free(kind[0]);
    free(kind[1]);
}

START_TEST(sets_agree)
{
    each_stage(compare_sets);
}
END_TEST

/* ---- rows in another order ------------------------------------------------------------------- */

/* y is written to the row that the order names, and nothing else changes. */
static void check_order(const struct stage *stage, const struct eco_isa *isa)
{
    struct stage ordered = *stage;
    ordered.order = some_order;
    struct stage_memory *a = stage_memory_new(stage), *b = stage_memory_new(&ordered);
    stage_kernel(stage, isa, false)(&a->call);
    stage_kernel(stage, isa, false)(&b->call);
    for (int row = 0; a->call.y && row < STAGE_ROWS; row++)
        for (size_t j = 0; j < (size_t)stage->hidden; j++) {
            ck_assert(stage_get(stage, b->call.y, b->call.y_row, some_order[row], j) ==
                      stage_get(stage, a->call.y, a->call.y_row, row, j));
            ck_assert(stage_get(stage, b->call.next[0], b->call.next_row[0], row, j) ==
                      stage_get(stage, a->call.next[0], a->call.next_row[0], row, j));
        }
    free(a);
    free(b);
}

static void check_ordered_stage(struct stage *stage)
{
    const struct eco_isa *isa;
    stage->with_y = true;
    const bool last = stage->index == stage_count(stage->cell, false) - 1;
    for (int k = 0; last && !stage->backward && (isa = eco_isa_supported(k)); k++)
        check_order(stage, isa);
}

START_TEST(rows_in_order)
{
    each_stage(check_ordered_stage);
}
END_TEST

/* ---- means and random numbers --------------------------------------------------------------- */

static struct ecornn_cell *cell_of(const char *text)
{
    struct eco_cell_error error = {0};
    struct ecornn_cell *cell = calloc(1, sizeof *cell);
    ck_assert_msg(cell && eco_cell_compile(cell, text, &error), "%d:%d: %s", error.line,
                  error.column, error.message);
    return cell;
}

/* The first forward stage stores the mean of its only accumulator. */
START_TEST(row_means)
{
    struct ecornn_cell *cell = cell_of("cell centred(h)\n"
                                       "a = W x + R h + b\n"
                                       "h' = tanh(a - mean(a))\n");
    const struct eco_isa *isa;
    struct stage stage = {.cell = cell, .element = sizeof(float)};
    for (stage.hidden = 1; stage.hidden < 150; stage.hidden++)
        for (int k = 0; (isa = eco_isa_supported(k)); k++) {
            struct stage_memory *m = stage_memory_new(&stage);
            const struct eco_pointwise *call = &m->call;
            stage_kernel(&stage, isa, true)(call);
            for (int row = 0; row < STAGE_ROWS; row++) {
                double sum = 0;
                for (size_t j = 0; j < (size_t)stage.hidden; j++)
                    sum += stage_get(&stage, call->acc, call->acc_row, row, j);
                const float mean = (float)(sum / stage.hidden); /* the sum is exact */
                ck_assert(stage_get(&stage, call->mean, call->mean_row, row, 0) == (double)mean);
            }
            free(m);
        }
    free(cell);
}
END_TEST

static double drawn(int row, int unit, double probability)
{
    const struct eco_coordinates at = {0x123456789abcdef, 1, 1, 1, 3, (uint32_t)row};
    uint32_t word[4];
    eco_random_quad(&at, (uint32_t)unit / 4, word);
    return word[unit % 4] < eco_random_threshold(probability);
}

START_TEST(bernoulli)
{
    struct ecornn_cell *cell = cell_of("cell drop(h)\n"
                                       "h' = bernoulli(0.3) + 0 * (W x + R h)\n");
    const struct eco_isa *isa;
    struct stage stage = {.cell = cell, .element = sizeof(float), .hidden = 151};
    for (int k = 0; (isa = eco_isa_supported(k)); k++)
        for (int training = 0; training < 2; training++) {
            stage.training = training;
            struct stage_memory *m = stage_memory_new(&stage);
            struct eco_pointwise *call = &m->call;
            call->unit1 = 42; /* in two parts, because numbers depend only on the unit */
            stage_kernel(&stage, isa, true)(call);
            call->unit0 = 42, call->unit1 = stage.hidden;
            stage_kernel(&stage, isa, true)(call);
            for (int row = 0; row < STAGE_ROWS; row++)
                for (int j = 0; j < stage.hidden; j++)
                    ck_assert(stage_get(&stage, call->next[0], call->next_row[0], row, (size_t)j) ==
                              (training ? drawn(row, j, 0.3) : (double)0.3f));
            free(m);
        }
    free(cell);
}
END_TEST

/* ---- columns -------------------------------------------------------------------------------- */

/* The sums that the kernel makes: chains of rows, added to a sum with its rounding error. */
static void add_columns(float *sum, float *lost, const float *x, size_t row, int rows)
{
    enum { CHAIN = 64 };
    for (int r = 0; r < rows;) {
        float chain = 0;
        for (const int end = rows - r < CHAIN ? rows : r + CHAIN; r < end; r++)
            chain += x[(size_t)r * row];
        const double exact = (double)*sum + (double)chain;
        *sum = (float)exact;
        *lost += (float)(exact - (double)*sum);
    }
}

START_TEST(columns)
{
    enum { ROWS = 131, STRIDE = 170 };
    static float x[ROWS * STRIDE], y[STRIDE], lost[STRIDE], sum[STRIDE], rest[STRIDE];
    const struct eco_isa *isa;
    for (int j = 0; j < ROWS * STRIDE; j++)
        x[j] = (float)sin(j);
    for (int j = 0; j < STRIDE; j++) {
        sum[j] = (float)(1000 + j), rest[j] = 0.5f;
        add_columns(&sum[j], &rest[j], x + j, STRIDE, ROWS);
    }
    for (int k = 0; (isa = eco_isa_supported(k)); k++)
        for (int32_t n = 1; n < STRIDE; n++) {
            for (int j = 0; j < STRIDE; j++)
                y[j] = (float)(1000 + j), lost[j] = 0.5f;
            isa->f32->add_columns(y, lost, x, STRIDE, ROWS, n);
            for (int j = 0; j < STRIDE; j++)
                ck_assert(j < n ? y[j] == sum[j] && lost[j] == rest[j]
                                : y[j] == (float)(1000 + j) && lost[j] == 0.5f);
        }
}
END_TEST

/* Copies two parts of rows: one of 1 to 40 columns, the other padded with zeros to 48. */
START_TEST(copies_of_rows)
{
    enum { ROWS = 9, STRIDE = 100, OTHER = 50, WIDE = 48 };
    static float x[ROWS * STRIDE], a[ROWS * WIDE + 1], b[ROWS * WIDE + 1];
    const struct eco_isa *isa;
    for (int j = 0; j < ROWS * STRIDE; j++)
        x[j] = (float)(j + 1);
    for (int k = 0; (isa = eco_isa_supported(k)); k++)
        for (int32_t n = 1; n <= 40; n++) {
            struct eco_tile_copy copy = {2, {a, b}, {3, OTHER}, {n, n}, {n, WIDE}};
            a[ROWS * n] = b[ROWS * WIDE] = -1;
            isa->tile->copy(&copy, x, STRIDE, 2);
            isa->tile->copy(&copy, x + 2 * STRIDE, STRIDE, ROWS - 2);
            for (int r = 0; r < ROWS; r++)
                for (int32_t j = 0; j < WIDE; j++) {
                    ck_assert(j >= n || a[r * n + j] == x[r * STRIDE + 3 + j]);
                    ck_assert(b[r * WIDE + j] == (j < n ? x[r * STRIDE + OTHER + j] : 0));
                }
            ck_assert(a[ROWS * n] == -1 && b[ROWS * WIDE] == -1);
            ck_assert(copy.to[0] == a + ROWS * n && copy.to[1] == b + ROWS * WIDE);
        }
}
END_TEST

/* ---- one row by panels side by side ---------------------------------------------------------- */

enum { ROW_K = 70, ROW_DEPTH = 96, ROW_LANES = ECO_TILE_LANES, ROW_WIDTH = 20 };

/* Panels for one kernel, and memory for two results. */
struct row_case {
    const struct eco_tile_kernel *kernel;
    bool narrow, narrow_a; /* weights, A in BF16 */
    int32_t k, panels, vectors;
    _Alignas(64) char panel[ECO_ROW_VECTORS * ROW_DEPTH * ROW_LANES * sizeof(float)];
    _Alignas(64) char a[(ROW_K + 2) * sizeof(float)];
    float bias[ECO_ROW_VECTORS * ROW_LANES];
    float c[2][ECO_ROW_VECTORS * ROW_WIDTH];
};

static void fill(void *to, size_t n, bool narrow, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float value = (float)(int32_t)seed * 0x1p-31f;
        const uint16_t half = (uint16_t)(eco_float_bits(value) >> 16);
        if (narrow)
            memcpy((uint16_t *)to + i, &half, sizeof half);
        else
            memcpy((float *)to + i, &value, sizeof value);
    }
}

/* The destination of vector i of all panels. Some vectors are short, the last one is missing, and
 * every second one starts from a bias. */
static struct eco_vector vector_at(const struct row_case *test, int32_t i)
{
    const int32_t lanes = test->kernel->lanes, n = test->panels * test->vectors;
    const bool last = n > 1 && i == n - 1;
    return (struct eco_vector){.count = last         ? 0
                                        : i % 3 == 1 ? lanes / 2
                                                     : lanes,
                               .c_vector = (size_t)(i * ROW_WIDTH),
                               .start = i % 2 == 0 ? test->bias + i * lanes : NULL};
}

static size_t panel_elements(const struct row_case *test)
{
    const int32_t groups = (test->k + ECO_NARROW_GROUP - 1) / ECO_NARROW_GROUP;
    const int32_t depth = test->narrow ? groups * ECO_NARROW_GROUP : test->k;
    return (size_t)(depth * test->vectors * test->kernel->lanes);
}

static size_t element_of(const struct row_case *test)
{
    return test->narrow ? sizeof(uint16_t) : sizeof(float);
}

static void multiply_together(struct row_case *test)
{
    struct eco_row row = {.k = test->k, .panels = test->panels, .vectors = test->vectors};
    row.a = test->a;
    row.panel = test->panel;
    row.panel_k =
        (size_t)(test->vectors * test->kernel->lanes * (test->narrow ? ECO_NARROW_GROUP : 1));
    row.panel_step = panel_elements(test);
    row.c = test->c[0];
    for (int32_t i = 0; i < test->panels * test->vectors; i++)
        row.vector[i] = vector_at(test, i);
    test->kernel->row(&row);
}

static void multiply_apart(struct row_case *test)
{
    for (int32_t panel = 0; panel < test->panels; panel++) {
        struct eco_tile tile = {.rows = 1, .pairs = 1, .vectors = test->vectors, .c = test->c[1]};
        tile.pair[0] = (struct eco_tile_pair){.k = test->k, .a = test->a, .a_k = 1};
        tile.pair[0].panel = test->panel + (size_t)panel * panel_elements(test) * element_of(test);
        tile.pair[0].panel_k =
            (size_t)(test->vectors * test->kernel->lanes * (test->narrow ? ECO_NARROW_GROUP : 1));
        for (int32_t v = 0; v < test->vectors; v++) {
            const struct eco_vector vector = vector_at(test, panel * test->vectors + v);
            tile.count[v] = vector.count;
            tile.c_vector[v] = vector.c_vector;
            tile.start[v] = vector.start;
        }
        test->kernel->multiply(&tile);
    }
}

static void compare_row(struct row_case *test)
{
    const size_t n = sizeof test->c[0] / sizeof test->c[0][0];
    fill(test->panel, panel_elements(test) * (size_t)test->panels, test->narrow, 1);
    fill(test->a, (size_t)test->k, test->narrow_a, 2);
    if (test->narrow_a) /* pairs are whole */
        memset(test->a + (size_t)test->k * sizeof(uint16_t), 0, sizeof(uint16_t));
    fill(test->bias, sizeof test->bias / sizeof test->bias[0], false, 3);
    for (int i = 0; i < 2; i++)
        fill(test->c[i], n, false, 4);
    multiply_together(test);
    multiply_apart(test);
    ck_assert_msg(memcmp(test->c[0], test->c[1], sizeof test->c[0]) == 0,
                  "k %d: %d panels of %d vectors", (int)test->k, (int)test->panels,
                  (int)test->vectors);
}

static void compare_rows(struct row_case *test)
{
    static const int32_t ks[] = {1, 2, 31, 32, 33, 50, ROW_K - 1, ROW_K};
    if (test->kernel == NULL)
        return;
    for (test->vectors = 1; test->vectors <= ECO_TILE_VECTORS; test->vectors++) {
        const int32_t most = test->kernel->row_panels[test->vectors - 1];
        ck_assert_int_le(1, most);
        ck_assert_int_le(most * test->vectors, ECO_ROW_VECTORS);
        for (test->panels = 1; test->panels <= most; test->panels++)
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
                test->k = ks[i];
                compare_row(test);
            }
    }
}

/* Every kernel for one row, with every number of panels, gives the bits that it gives for each
 * panel alone. */
START_TEST(one_row)
{
    static struct row_case test;
    const struct eco_isa *isa;
    for (int k = 0; (isa = eco_isa_supported(k)); k++) {
        test.kernel = isa->tile, test.narrow = test.narrow_a = false;
        compare_rows(&test);
        test.kernel = isa->narrow, test.narrow = true;
        compare_rows(&test);
        test.kernel = isa->dot, test.narrow_a = true;
        compare_rows(&test);
    }
}
END_TEST

/* ---- rows in blocks ------------------------------------------------------------------------- */

enum { BLOCK_ROWS = 101, BLOCK_K = 600, BLOCK_WIDTH = ECO_TILE_VECTORS * ECO_TILE_LANES };

/* Two pairs of one panel; the last vector of C is short, and the first starts from a bias. */
struct block_case {
    const struct eco_tile_kernel *kernel;
    int32_t vectors, k;
    float a[BLOCK_ROWS * BLOCK_K], bias[ECO_TILE_LANES], c[3][BLOCK_ROWS * BLOCK_WIDTH];
    _Alignas(64) float panel[BLOCK_K * BLOCK_WIDTH];
};

static void multiply_rows(struct block_case *test, int which, int32_t first, int32_t rows,
                          int32_t first_bytes)
{
    const int32_t lanes = test->kernel->lanes;
    const float *const a = test->a + first * BLOCK_K;
    struct eco_tile tile = {.rows = rows,
                            .pairs = 2,
                            .first_bytes = first_bytes,
                            .vectors = test->vectors,
                            .c = test->c[which] + first * BLOCK_WIDTH,
                            .c_row = BLOCK_WIDTH,
                            .start = {test->bias}};
    for (int32_t p = 0; p < tile.pairs; p++)
        tile.pair[p] = (struct eco_tile_pair){.k = p == 0 ? test->k : test->k / 2,
                                              .a = a + p,
                                              .a_row = BLOCK_K,
                                              .a_k = 1,
                                              .panel = test->panel,
                                              .panel_k = (size_t)(test->vectors * lanes),
                                              .prefetch = test->panel};
    for (int32_t v = 0; v < test->vectors; v++) {
        tile.c_vector[v] = (size_t)(v * lanes);
        tile.count[v] = v > 0 && v == test->vectors - 1 ? lanes - 1 : lanes;
    }
    test->kernel->multiply(&tile);
}

static void compare_blocks(struct block_case *test, int32_t rows)
{
    for (int i = 0; i < 3; i++)
        fill(test->c[i], BLOCK_ROWS * BLOCK_WIDTH, false, 4);
    multiply_rows(test, 0, 0, rows, 16 << 10);
    multiply_rows(test, 1, 0, rows, 1 << 20);
    for (int32_t r = 0; r < rows; r++)
        multiply_rows(test, 2, r, 1, 16 << 10);
    for (int i = 1; i < 3; i++)
        ck_assert_msg(memcmp(test->c[0], test->c[i], sizeof test->c[0]) == 0,
                      "%d rows, k %d, %d vectors", (int)rows, (int)test->k, (int)test->vectors);
}

/* Many rows give the bits of each row alone, whether the first-level cache is so small that they go
 * through panels in parts or not. */
START_TEST(rows_in_blocks)
{
    static const int32_t all_rows[] = {1, 7, 13, 32, BLOCK_ROWS}, ks[] = {0, 1, 257, BLOCK_K - 1};
    static struct block_case test;
    const struct eco_isa *isa;
    fill(test.a, sizeof test.a / sizeof test.a[0], false, 1);
    fill(test.panel, sizeof test.panel / sizeof test.panel[0], false, 2);
    fill(test.bias, ECO_TILE_LANES, false, 3);
    for (int set = 0; (isa = eco_isa_supported(set)); set++)
        for (test.vectors = 1; test.vectors <= ECO_TILE_VECTORS; test.vectors++)
            for (size_t i = 0; i < sizeof all_rows / sizeof all_rows[0]; i++)
                for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++) {
                    test.kernel = isa->tile, test.k = ks[j];
                    compare_blocks(&test, all_rows[i]);
                }
}
END_TEST

/* ---- floats in parts ------------------------------------------------------------------------- */

enum { PARTS = ECO_SPLIT_PARTS, GROUP = ECO_NARROW_GROUP };

static const float some_floats[] = {
    INFINITY,          -INFINITY, FLT_MAX,   -FLT_MAX,          0x1p-126f, 0x1p-149f,
    -0x1.fffffcp-127f, 0,         0x1p-100f, -0x1.ffff02p-100f, 1};

static void check_parts(const struct eco_split_kernel *kernel, const float *x)
{
    uint16_t tile[PARTS * ECO_NARROW_TILE];
    kernel->split(tile, x);
    for (int i = 0; i < GROUP; i++) {
        float sum = 0;
        for (int part = PARTS - 1; part >= 0; part--)
            sum += eco_bf16_to_float(tile[part * ECO_NARROW_TILE + i]);
        ck_assert_msg(sum == x[i] || (isnan(sum) && isnan(x[i])) ||
                          (fabsf(x[i]) < 0x1p-103f && fabsf(sum - x[i]) < FLT_MIN),
                      "%a, not %a", (double)sum, (double)x[i]);
    }
}

/* The parts of a float add up to it. Then five rows whose x[0] has 3 parts or 1 are multiplied by
 * an infinite weight of the first of 16 units: times parts of 0 it is NaN. */
START_TEST(floats_in_parts)
{
    enum { N = 5, LANES = 16 };
    const struct eco_split_kernel *const kernel = eco_isa_with_tiles(eco_isa_supported(0))->split;
    static _Alignas(64) uint16_t a[PARTS * ECO_NARROW_TILE], panel[GROUP * LANES] = {0x7f80};
    float x[GROUP], c[N * LANES];
    if (suite_skips(kernel == NULL, "no AMX"))
        return;
    for (uint32_t seed = 0; seed < 100; seed++) {
        fill(x, GROUP, false, seed);
        memcpy(x, some_floats, sizeof some_floats);
        x[GROUP - 1] = eco_float_of_bits(0x7f800001);
        check_parts(kernel, x);
    }
    for (int i = 2; i < GROUP * LANES; i++)
        panel[i] = i % 2 == 0 ? 0x3f80 : 0; /* 1 for even k */
    for (int n = 0; n < N; n++) {
        memset(x, 0, sizeof x);
        x[0] = n % 2 == 0 ? 1 + 0x1p-9f + 0x1p-18f : 1;
        kernel->split(a + n * GROUP, x);
    }
    struct eco_tile tile = {.rows = N, .height = N, .pairs = 1, .vectors = 1, .c = c};
    tile.c_row = LANES, tile.count[0] = LANES, tile.start[0] = (const float[LANES]){0};
    tile.pair[0] = (struct eco_tile_pair){.k = GROUP, .a = a, .panel = panel};
    kernel->tile.begin(N);
    kernel->tile.multiply(&tile);
    kernel->tile.end();
    for (int i = 0; i < N * LANES; i++) {
        const bool even = i / LANES % 2 == 0;
        ck_assert(i % LANES != 0 ? c[i] == (even ? 1 + 0x1p-9f + 0x1p-18f : 1)
                                 : (even ? c[i] == INFINITY : isnan(c[i])));
    }
}
END_TEST

/* ---- the environment ------------------------------------------------------------------------ */

START_TEST(chosen_set)
{
    const struct eco_isa *isa;
    for (int k = 0; (isa = eco_isa_supported(k)); k++) {
        ck_assert_int_eq(setenv("ECORNN_ISA", isa->name, 1), 0);
        ck_assert_ptr_eq(eco_isa_choose(), isa);
    }
    ck_assert_int_eq(setenv("ECORNN_ISA", "nonsense", 1), 0);
    ck_assert_ptr_null(eco_isa_choose());
    ck_assert_ptr_nonnull(strstr(eco_fail_detail(), "\"nonsense\", must be one of plain, sse2, "));
    ck_assert_int_eq(unsetenv("ECORNN_ISA"), 0);
    ck_assert_ptr_eq(eco_isa_choose(), eco_isa_supported(0));
}
END_TEST

TEST_MAIN("kernels", {interpreter_is_compiled, 1}, {pieces_are_the_whole, 1}, {in_place, 1},
          {sets_agree, 1}, {rows_in_order, 1}, {row_means, 1}, {bernoulli, 1}, {columns, 1},
          {copies_of_rows, 1}, {one_row, 1}, {rows_in_blocks, 1}, {floats_in_parts, 1},
          {chosen_set, 1})
