/*
 * How packed weights are written: every way of filling lanes, next to what lanes.h says an element
 * is and where it lies, for all counts of lanes and k, with NaNs and infinities among the numbers.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/plan/lanes.h"
#include "tests/suite.h"

enum { MOST_K = 80, MOST_UNITS = 70, GROUP = 32, UNTOUCHED = 0x5A };

static const struct form {
    ecornn_type from, to;
    size_t group, pair;
} form[] = {{ECORNN_F32, ECORNN_F32, 1, 1},       {ECORNN_F64, ECORNN_F64, 1, 1},
            {ECORNN_BF16, ECORNN_F32, 1, 1},      {ECORNN_F32, ECORNN_BF16, GROUP, 2},
            {ECORNN_BF16, ECORNN_BF16, GROUP, 2}, {ECORNN_F64, ECORNN_BF16, GROUP, 2},
            {ECORNN_F32, ECORNN_BF16, 1, 1}};
enum { FORMS = sizeof form / sizeof *form };

static double number(void)
{
    const int kind = rand() % 40, exponent = rand() % 40 - 20;
    return kind == 0 ? NAN : kind == 1 ? -INFINITY : ldexp(rand() % 20001 - 10000, exponent);
}

static void fill(char *data, size_t n, ecornn_type type)
{
    for (size_t i = 0; i < n; i++)
        eco_type_set(data, i, type, number());
}

/* Where element k of lane j lies. */
static const char *element(const struct eco_lanes *lanes, size_t j, size_t k)
{
    const size_t inside = k % lanes->group;
    return lanes->to + k / lanes->group * lanes->stride +
           (inside / lanes->pair * lanes->width * lanes->pair + j * lanes->pair +
            inside % lanes->pair) *
               eco_type_bytes(lanes->type);
}

static bool is_right(const struct eco_lanes *lanes, size_t j, size_t k, const char *from, size_t at,
                     ecornn_type type)
{
    char expected[sizeof(double)];
    eco_type_set(expected, 0, lanes->type, eco_type_get(from, at, type));
    const double x = eco_type_get(element(lanes, j, k), 0, lanes->type),
                 y = eco_type_get(expected, 0, lanes->type);
    return x == y || (isnan(x) && isnan(y));
}

static bool is_untouched(const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != UNTOUCHED)
            return false;
    return true;
}

/* As panels have them: `extra` other lanes between one k and the next; nothing is written there. */
static void check(const struct form *f, size_t k, size_t unit, size_t count, bool columns)
{
    static char room[2 * MOST_K * 2 * ECO_MOST_LANES * sizeof(double)];
    static char data[MOST_K * MOST_UNITS * sizeof(double)];
    const size_t width = (count + 15) / 16 * 16, extra = 16, bytes = eco_type_bytes(f->to);
    const size_t first = columns ? 3 : 0, groups = (first + k + f->group - 1) / f->group;
    const struct eco_lanes lanes = {.to = room,
                                    .stride = f->group * (width + extra) * bytes,
                                    .group = f->group,
                                    .pair = f->pair,
                                    .width = width,
                                    .count = count,
                                    .unit = unit,
                                    .type = f->to};
    const struct eco_lanes_source source = {.data = data,
                                            .rows = columns ? k : unit + count,
                                            .cols = columns ? unit + count : k,
                                            .type = f->from};
    fill(data, source.rows * source.cols, f->from);
    memset(room, UNTOUCHED, sizeof room);
    if (columns)
        eco_lanes_put_columns(&lanes, &source, first);
    else
        eco_lanes_put_rows(&lanes, &source);
    bool right = true, alone = true;
    for (size_t j = 0; j < count; j++)
        for (size_t i = 0; i < k; i++)
            right &= is_right(&lanes, j, first + i, data,
                              columns ? i * source.cols + unit + j : (unit + j) * k + i, f->from);
    const size_t ours = f->group * width * bytes, end = groups * lanes.stride;
    for (size_t g = 0; g < groups; g++)
        alone &= is_untouched(room + g * lanes.stride + ours, lanes.stride - ours);
    alone &= is_untouched(room + end, sizeof room - end);
    ck_assert_msg(right, "%zu lanes from unit %zu, %zu k", count, unit, k);
    ck_assert_msg(alone, "%zu lanes from unit %zu, %zu k: others written", count, unit, k);
}

START_TEST(puts_what_it_says)
{
    const struct form *f = &form[_i % FORMS];
    srand(1);
    for (size_t count = 1; count <= ECO_MOST_LANES; count += count < 20 ? 1 : 11)
        for (size_t k = 1; k <= MOST_K - 3; k += k < 12 ? 1 : 7)
            check(f, k, k % 5, count, _i >= FORMS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lanes");
    TCase *tests = tcase_create("lanes");
    tcase_add_loop_test(tests, puts_what_it_says, 0, 2 * FORMS);
    suite_add_tcase(suite, tests);
    return suite_run(suite, true);
}
