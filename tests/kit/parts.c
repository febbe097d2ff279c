/*
 * Parts of the arrays of runs, see trial.h.
 */
#include "tests/kit/trial.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "common/type.h"

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The row of an array that a place in a part stands for. */
static char *row_of(const struct part *part, const struct trial_array *array, const int32_t at[4])
{
    const int32_t model = (array->models > 1 ? part->model : 0) + at[0];
    const int32_t t = (array->joined > 0 ? part->step / array->joined : 0) + at[2];
    const int32_t n = (array->rows > 1 ? part->row : 0) + at[3];
    const size_t lane = (size_t)model * (size_t)array->lanes + (size_t)at[1];
    const size_t T = (size_t)array->steps, N = (size_t)array->rows;
    return array->host + (lane * T * N + (array->batch_major ? (size_t)n * T + (size_t)t
                                                             : (size_t)t * N + (size_t)n)) *
                             array->row;
}

/* The number of models, lanes, steps and rows from where the part begins. */
static void count(const struct part *part, const struct trial_array *array, int32_t n[4])
{
    n[0] = array->models - (array->models > 1 ? part->model : 0);
    n[1] = array->lanes;
    n[2] = array->joined > 0 ? array->steps - part->step / array->joined : 1;
    n[3] = array->rows - (array->rows > 1 ? part->row : 0);
    if (array->joined > 0 && part->steps > 0)
        n[2] = least(n[2], (part->steps + array->joined - 1) / array->joined);
    if (part->rows > 0)
        n[3] = least(n[3], part->rows);
}

char *part_at(struct part part, int role)
{
    return row_of(&part, &part.of->array[0][role][0], (const int32_t[4]){0});
}

static bool each_row(const struct part *a, const struct trial_array *from, const struct part *b,
                     const struct trial_array *to, part_visit *visit, void *context)
{
    int32_t most[4], other[4], at[4];
    count(a, from, most), count(b, to, other);
    for (int i = 0; i < 4; i++)
        most[i] = least(most[i], other[i]);
    ck_assert_uint_eq(from->row / from->element, to->row / to->element);
    for (at[0] = 0; at[0] < most[0]; at[0]++)
        for (at[1] = 0; at[1] < most[1]; at[1]++)
            for (at[2] = 0; at[2] < most[2]; at[2]++)
                for (at[3] = 0; at[3] < most[3]; at[3]++)
                    if (!visit((struct part_row){from, row_of(a, from, at)},
                               (struct part_row){to, row_of(b, to, at)}, context))
                        return false;
    return true;
}

bool part_each(struct part a, int a_role, struct part b, int b_role, part_visit *visit,
               void *context)
{
    bool ok = true;
    if (a.of->without >> a_role & 1 || b.of->without >> b_role & 1)
        return true;
    for (int k = 0; k < a.of->layers && ok; k++)
        for (int s = 0; ok && s < TRIAL_STATES; s++) {
            const struct trial_array *const from = &a.of->array[k][a_role][s],
                                            *const to = &b.of->array[k][b_role][s];
            if (from->host && to->host)
                ok = each_row(&a, from, &b, to, visit, context);
        }
    return ok;
}

static size_t width(struct part_row row)
{
    return row.array->row / row.array->element;
}

static double number(struct part_row row, size_t i)
{
    return eco_type_get(row.at, i, row.array->type);
}

static bool copy(struct part_row a, struct part_row b, void *context)
{
    (void)context;
    if (a.array->type == b.array->type)
        memcpy(a.at, b.at, a.array->row);
    else
        eco_type_move(a.at, a.array->type, b.at, b.array->type, width(a));
    return true;
}

void part_copy(struct part to, int to_role, struct part from, int from_role)
{
    part_each(to, to_role, from, from_role, copy, NULL);
}

void part_copy_inputs(struct part to, struct part from)
{
    for (int role = 0; role < Y; role++)
        part_copy(to, role, from, role);
}

static bool add(struct part_row a, struct part_row b, void *scale)
{
    for (size_t i = 0; i < width(a); i++)
        eco_type_set(a.at, i, a.array->type, number(a, i) + *(double *)scale * number(b, i));
    return true;
}

void part_add(struct part to, double scale, struct part from, int role)
{
    part_each(to, role, from, role, add, &scale);
}

static bool multiply(struct part_row a, struct part_row b, void *sum)
{
    for (size_t i = 0; i < width(a); i++)
        *(double *)sum += number(a, i) * number(b, i);
    return true;
}

double part_product(struct part a, int a_role, struct part b, int b_role)
{
    double sum = 0;
    part_each(a, a_role, b, b_role, multiply, &sum);
    return sum;
}

static bool equal(struct part_row a, struct part_row b, void *context)
{
    const size_t element = a.array->element;
    bool same = true;
    (void)context;
    if (memcmp(a.at, b.at, a.array->row) == 0)
        return true;
    for (size_t i = 0; same && i < width(a); i++)
        same = memcmp(a.at + i * element, b.at + i * element, element) == 0 ||
               (a.array->type != 0 && isnan(number(a, i)) && isnan(number(b, i)));
    return same;
}

bool part_same(struct part a, int a_role, struct part b, int b_role)
{
    return part_each(a, a_role, b, b_role, equal, NULL);
}

const char *part_differs(struct part a, struct part b, int first, int last)
{
    for (int role = first; role <= last; role++)
        if (!part_same(a, role, b, role))
            return trial_role(role);
    return NULL;
}

void part_check(struct part a, struct part b, int first, int last, const char *what)
{
    const char *const name = part_differs(a, b, first, last);
    ck_assert_msg(name == NULL, "%s: other %s", what, name);
}
