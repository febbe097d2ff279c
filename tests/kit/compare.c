/*
 * The expected results of a case, and the errors that are allowed.
 *
 * F64: the error may be 1e-12 of the array's largest magnitude; for the gradient of a bias also of
 * that of its gate's W.
 *
 * 16-bit types: the reference rounds each value that such a machine keeps in the type to the
 * nearest, and computes all else in double. The bound is made as for F32, from runs that round each
 * kept value to one of its two neighbours at random, with the ulp of the array's own type.
 *
 * F32: the reference also runs the case as an F32 machine would (common/ref/ref.h). Every operand,
 * intermediate value and running sum is rounded, sums are in ascending order, and gradients of
 * weights are sums of chains (common/ref/ref_sum.c), so that a bound does not grow with the number
 * of rows. The largest error of an array may be twice the largest of those runs, plus one ulp of
 * the array's largest magnitude; for the gradient of a bias also of that of its gate's W.
 *
 * One rounded run may be lucky, above all in a small array, where a number may happen to be exact.
 * So there are twelve runs: one rounds to nearest, the others at random, with functions that are
 * off by up to an ulp. Their errors stand for those of other orders of summation and other code for
 * tanh. With three runs about one case in thirty would fail by a few percent although nothing is
 * wrong. If weights have 16 bits, four more runs compute an accumulator as one chain that begins
 * with the bias, as the CPU does. A bound only grows with the number of runs, so a result that is
 * within the bound of a few runs needs no more.
 */
#include "tests/kit/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ref/ref.h"
#include "common/type.h"

enum { FIRST_RUNS = 2, ROUNDED_RUNS = 12, CHAINED_RUNS = 4 };

double array_largest(const struct array *array)
{
    double most = 0;
    for (size_t i = 0; i < array->count; i++)
        if (isfinite(array->value[i]))
            most = fmax(most, fabs(array->value[i]));
    return most;
}

/* The error of a number: 0 for equal NaN or infinities, infinite if only one is such. */
static double error_of(double is, double should)
{
    if (is == should || (isnan(is) && isnan(should)))
        return 0;
    const double error = fabs(is - should);
    return isnan(error) ? INFINITY : error;
}

static double largest_error(const struct array *is, const struct array *should)
{
    double most = 0;
    for (size_t i = 0; i < should->count; i++)
        most = fmax(most, error_of(is->value[i], should->value[i]));
    return most;
}

/* The distance of adjacent numbers at this magnitude; 0 for F64. */
static double ulp(double magnitude, ecornn_type type)
{
    static const int bits[] = {[ECORNN_F32] = 24, [ECORNN_BF16] = 8, [ECORNN_F16] = 11};
    static const int least[] = {[ECORNN_F32] = -149, [ECORNN_BF16] = -133, [ECORNN_F16] = -24};
    int exponent = -1100; /* of 0 */
    if (type == ECORNN_F64)
        return 0;
    if (magnitude > 0)
        frexp(magnitude, &exponent);
    return ldexp(1, exponent - bits[type] > least[type] ? exponent - bits[type] : least[type]);
}

/* ---- what a case should give ----------------------------------------------------------------- */

static bool is_fast(const struct test_case *test)
{
    return (test->desc.flags & ECORNN_FAST_MATH) && test->desc.type == ECORNN_F32;
}

/* With 16-bit matrices, an accumulator may be one chain that begins with the bias. */
static bool may_chain(const struct test_case *test)
{
    const ecornn_type type = test->desc.weight_type ? test->desc.weight_type : test->desc.type;
    return type == ECORNN_BF16 || type == ECORNN_F16;
}

/* The type of the states from which a replay begins; F32: they are not rounded. */
static ecornn_type saved_type(const struct test_case *test)
{
    const ecornn_desc *desc = &test->desc;
    if (desc->save_type != 0)
        return desc->save_type;
    return (desc->flags & ECORNN_SAVE_STATES) || test->lean ? desc->type : ECORNN_F32;
}

/* Are all saved values of fewer bits? */
static bool narrows(const struct test_case *test)
{
    const ecornn_desc *desc = &test->desc;
    return desc->save_type != 0 && desc->save_type != desc->type && desc->save_every == 0 &&
           (desc->flags & ECORNN_SAVE_STATES) == 0;
}

static void set_rounding(const struct test_case *test, const struct machine *reference,
                         enum eco_rounding rounding, int run)
{
    const ecornn_desc *desc = &test->desc;
    /* TF32 has as many significant bits as F16. */
    const ecornn_type type = is_fast(test) && rounding != ECO_ROUND_NOT ? ECORNN_F16 : desc->type;
    const bool int8 = (desc->flags & ECORNN_INT8) != 0;
    const struct eco_machine machine = {.type = type,
                                        .weight_type = int8                ? ECORNN_S8
                                                       : desc->weight_type ? desc->weight_type
                                                                           : type,
                                        .int8 = int8,
                                        .saved = saved_type(test),
                                        .narrows = narrows(test),
                                        .lean = test->lean,
                                        .chained = run >= ROUNDED_RUNS};
    eco_reference_rounding(reference->device, rounding, machine, test->seed + (uint64_t)run);
}

static bool open_reference(struct machine *reference)
{
    *reference = (struct machine){.type = ECORNN_F64, .backwards = 1};
    if (ecornn_device_open(&reference->device, "reference") == ECORNN_OK)
        return true;
    fprintf(stderr, "reference: %s\n", ecornn_error_detail());
    return false;
}

static bool bounds_are_finite(const struct test_case *test, const struct data *expected)
{
    for (int i = 0; i < expected->n; i++)
        if (!isfinite(expected->array[i].bound)) { /* every result would agree */
            fprintf(stderr, "%s: %s may be anything\n", test->text, expected->array[i].name);
            return false;
        }
    return true;
}

struct rounds {
    struct test_case test;
    const struct data *inputs;
    int done, all;
};

/* The magnitude of the terms whose sums are an array's numbers. The terms of a bias' gradient may
 * cancel, as in slstm's input gate, so the gradient of the same gate's W is used for it too. */
static double largest_term(const struct data *expected, const struct array *array)
{
    char name[sizeof array->name];
    snprintf(name, sizeof name, "%s", array->name);
    char *const bias = strncmp(name, "d:", 2) == 0 ? strstr(name, ".b.") : NULL;
    if (bias)
        bias[1] = 'W';
    const struct array *const matrix = bias ? data_find(expected, name) : NULL;
    return fmax(array_largest(array), matrix ? array_largest(matrix) : 0);
}

/* Extends the bounds by another rounded run. */
static bool expect_round(const struct data *expected)
{
    struct rounds *rounds = expected->rounds;
    const struct test_case *test = &rounds->test;
    static const enum eco_rounding first[] = {ECO_ROUND_NEAREST, ECO_ROUND_RANDOM},
                                   first_fast[] = {ECO_ROUND_NEAREST, ECO_ROUND_CUT};
    const int k = rounds->done++;
    const enum eco_rounding rounding = k >= 2          ? ECO_ROUND_RANDOM
                                       : is_fast(test) ? first_fast[k]
                                                       : first[k];
    struct machine reference;
    if (!open_reference(&reference))
        return false;
    struct data rounded = {0};
    set_rounding(test, &reference, rounding, k);
    const bool ok = case_run(test, &reference, rounds->inputs, &rounded);
    for (int i = 0; ok && i < expected->n; i++) {
        struct array *exact = &expected->array[i];
        const double error = largest_error(data_find(&rounded, exact->name), exact);
        const double unit = ulp(largest_term(expected, exact), case_type(test, exact->name));
        exact->bound = fmax(exact->bound, 2 * error + unit);
    }
    data_free(&rounded);
    ecornn_device_close(reference.device);
    return ok && bounds_are_finite(test, expected);
}

bool case_expect(const struct test_case *test, const struct data *inputs, struct data *expected)
{
    struct machine reference;
    if (!open_reference(&reference))
        return false;
    set_rounding(test, &reference, ECO_ROUND_NOT, 0);
    bool ok = case_run(test, &reference, inputs, expected);
    ecornn_device_close(reference.device);
    const bool exact = test->desc.type == ECORNN_F64;
    for (int i = 0; i < expected->n; i++)
        expected->array[i].bound = exact ? 1e-12 * largest_term(expected, &expected->array[i]) : 0;
    if (!ok || exact)
        return ok && bounds_are_finite(test, expected);
    expected->rounds = malloc(sizeof *expected->rounds);
    if (!expected->rounds)
        return false;
    *expected->rounds =
        (struct rounds){*test, inputs, 0, ROUNDED_RUNS + (may_chain(test) ? CHAINED_RUNS : 0)};
    for (int k = 0; ok && k < FIRST_RUNS; k++)
        ok = expect_round(expected);
    return ok;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void print_element(const struct test_case *test, const char *who, const struct array *is,
                          size_t i)
{
    size_t rest = i, place[3] = {0};
    for (int k = is->rank - 1; k >= 0; k--) {
        place[k] = rest % (size_t)is->extent[k];
        rest /= (size_t)is->extent[k];
    }
    fprintf(stderr, "%s: %s: %s[%zu,%zu,%zu] is %.17g, ", test->text, who, is->name, place[0],
            place[1], place[2], is->value[i]);
}

static bool array_agrees(const struct test_case *test, const char *who, const struct array *is,
                         const struct array *should, double bound)
{
    for (size_t i = 0; i < should->count; i++)
        if (!(error_of(is->value[i], should->value[i]) <= bound)) {
            print_element(test, who, is, i);
            fprintf(stderr, "should be %.17g; largest error %.3g, allowed %.3g\n", should->value[i],
                    largest_error(is, should), bound);
            return false;
        }
    return true;
}

/* The result that is compared with an expected array; NULL, with a message: there is none. */
static const struct array *match(const struct test_case *test, const char *who,
                                 const struct data *results, const struct array *expected)
{
    const struct array *found = data_find(results, expected->name);
    if (found && found->count == expected->count)
        return found;
    fprintf(stderr, "%s: %s: %s %s\n", test->text, who, expected->name,
            found ? "has another size" : "is missing");
    return NULL;
}

static bool has_rounds(const struct data *expected)
{
    return expected->rounds && expected->rounds->done < expected->rounds->all;
}

bool results_agree(const struct test_case *test, const char *who, const struct data *expected,
                   const struct data *results)
{
    for (int i = 0; i < expected->n; i++) {
        const struct array *should = &expected->array[i];
        const struct array *is = match(test, who, results, should);
        if (!is)
            return false;
        const double error = largest_error(is, should);
        while (error > should->bound && has_rounds(expected))
            if (!expect_round(expected))
                return false;
        if (!array_agrees(test, who, is, should, should->bound))
            return false;
    }
    return true;
}

bool results_agree_within(const struct test_case *test, const char *who,
                          const struct data *expected, const struct data *results, double relative)
{
    for (int i = 0; i < expected->n; i++) {
        const struct array *should = &expected->array[i];
        const struct array *is = match(test, who, results, should);
        if (!is)
            return false;
        if (!array_agrees(test, who, is, should, relative * array_largest(should)))
            return false;
    }
    return true;
}

bool results_same(const struct test_case *test, const char *who, const struct data *expected,
                  const struct data *results)
{
    for (int i = 0; i < expected->n; i++) {
        const struct array *should = &expected->array[i];
        const struct array *is = match(test, who, results, should);
        if (!is)
            return false;
        for (size_t j = 0; j < should->count; j++)
            if (memcmp(&is->value[j], &should->value[j], sizeof(double)) != 0 &&
                !(isnan(is->value[j]) && isnan(should->value[j]))) { /* doc/numerics.md */
                print_element(test, who, is, j);
                fprintf(stderr, "not the same bits: %.17g\n", should->value[j]);
                return false;
            }
    }
    return true;
}
