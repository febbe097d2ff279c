/*
 * Rows of a batch, see rows.h.
 */
#include "tests/kit/rows.h"
#include "tests/kit/calls.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t dice = 1;

static double number(void)
{
    return 2 * uniform(&dice) - 1;
}

int32_t rows_length(int32_t most)
{
    return (int32_t)(uniform(&dice) * (most + 1));
}

/* Elements of a state of one row of one layer. */
static int32_t width(const struct rows *rows, int state)
{
    return state == 0 ? rows->P : rows->H;
}

size_t rows_elements(const struct rows *rows, int kind)
{
    const size_t T = (size_t)rows->T, lanes = (size_t)(rows->L * rows->D);
    size_t states = 0;
    for (int s = 0; s < rows->states; s++)
        states += lanes * (size_t)width(rows, s);
    switch (kind) {
    case X:
    case DX:
        return T * (size_t)rows->I;
    case DY:
    case Y:
        return T * (size_t)(rows->D * rows->P);
    default:
        return states;
    }
}

void rows_fill(void *to, ecornn_type type, size_t n, double value)
{
    for (size_t i = 0; i < n; i++)
        eco_type_set(to, i, type, value == 0 ? number() : value);
}

static void make_params(struct rows *rows, const ecornn_desc *desc)
{
    ecornn_device *device;
    ecornn_plan *plan;
    ck_assert_int_eq(ecornn_device_open(&device, "reference"), ECORNN_OK);
    ck_assert_int_eq(ecornn_plan_create_desc(&plan, device, desc), ECORNN_OK);
    rows->params = count_params(plan);
    ck_assert_int_le(rows->params, MOST_PARAMS);
    const ecornn_type type = param_type_of(desc);
    for (int i = 0; i < rows->params; i++) {
        ecornn_param param;
        param_at(plan, i, &param);
        const size_t n = (size_t)param.rows * (size_t)param.cols;
        rows->param[i] = malloc(n * eco_type_bytes(type) + 1);
        for (size_t k = 0; k < n; k++)
            eco_type_set(rows->param[i], k, type, number() * 1.5 / sqrt((double)param.cols));
    }
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}

/* Fills x and dy past a row's length with NaN. */
static void spoil_padding(struct rows *rows, int n)
{
    const size_t element = eco_type_bytes(rows->type);
    for (int kind = X; kind <= DY; kind++) {
        const size_t wide = rows_elements(rows, kind) / (size_t)rows->T;
        const size_t first = (size_t)rows->length[n] * wide;
        rows_fill(rows->row[n] + rows->before[kind] + first * element, rows->type,
                  (size_t)rows->T * wide - first, NAN);
    }
}

void rows_make(struct rows *rows, const char *text, bool ragged)
{
    char whole[ROWS_TEXT];
    *rows = (struct rows){.text = text, .ragged = ragged};
    snprintf(whole, sizeof whole, "%s/N1", text);
    ck_assert_msg(case_parse(&rows->test, whole), "%s", text);
    const ecornn_desc *desc = &rows->test.desc;
    rows->T = desc->steps, rows->I = desc->input, rows->H = desc->hidden;
    rows->P = desc->proj ? desc->proj : desc->hidden;
    rows->L = desc->layers ? desc->layers : 1;
    rows->D = (desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    rows->states = count_states(desc->cell);
    rows->training = desc->flags & ECORNN_TRAINING;
    rows->by_place = desc->dropout > 0 || strstr(text, "zoneout") != NULL;
    rows->type = desc->type;
    for (int kind = 0; kind < KINDS; kind++)
        rows->before[kind + 1] =
            rows->before[kind] + rows_elements(rows, kind) * eco_type_bytes(rows->type);
    make_params(rows, desc);
    for (int n = 0; n < ROWS; n++) {
        rows->row[n] = calloc(1, rows->before[KINDS]);
        rows_fill(rows->row[n], rows->type, rows->before[INPUTS] / eco_type_bytes(rows->type), 0);
        rows->length[n] = ragged && n % 3 != 0 ? rows_length(rows->T) : rows->T;
        spoil_padding(rows, n);
    }
}

void rows_free(struct rows *rows)
{
    for (int n = 0; n < ROWS; n++)
        free(rows->row[n]);
    for (int i = 0; i < rows->params; i++)
        free(rows->param[i]);
    case_free(&rows->test);
}

/* ---- a run of some of them ------------------------------------------------------------------- */

static void *memory(size_t bytes)
{
    void *p = NULL;
    ck_assert_int_eq(posix_memalign(&p, 64, bytes + 64), 0);
    memset(p, 0xff, bytes); /* NaN */
    return p;
}

static bool is_state(int kind)
{
    return kind == INITIAL || kind == DFINAL || kind == FINAL || kind == DINITIAL;
}

void batch_open(struct batch *b, const struct rows *rows, ecornn_device *device, int32_t T,
                int32_t N)
{
    ecornn_desc desc = rows->test.desc;
    *b = (struct batch){.rows = rows};
    desc.steps = T;
    desc.batch = N;
    ck_assert_msg(ecornn_plan_create_desc(&b->plan, device, &desc) == ECORNN_OK, "%s/N%d: %s",
                  rows->text, N, ecornn_error_detail());
    get_sizes(b->plan, &b->sizes);
    b->weights = memory(b->sizes.weight_bytes);
    b->workspace = memory(b->sizes.workspace_bytes);
    b->reserve = memory(b->sizes.reserve_bytes);
    b->dweights = memory(b->sizes.dweight_bytes);
    for (int kind = 0; kind < KINDS; kind++)
        for (int s = 0; s < (is_state(kind) ? rows->states : 1); s++)
            b->array[kind][s] =
                memory(rows_elements(rows, kind) * eco_type_bytes(rows->type) * (size_t)N);
    ck_assert_int_eq(ecornn_pack(b->plan, (const void *const *)rows->param, NULL, b->weights, NULL),
                     ECORNN_OK);
}

void batch_close(struct batch *b)
{
    ecornn_plan_free(b->plan);
    free(b->weights);
    free(b->workspace);
    free(b->reserve);
    free(b->dweights);
    for (int kind = 0; kind < KINDS; kind++)
        for (int s = 0; s < ECORNN_MAX_STATES; s++)
            free(b->array[kind][s]);
}

/* Copies steps [t0, t0 + T) between row n of a run and a separate row. */
static void move(const struct batch *b, int kind, int32_t n, char *row, int32_t t0, bool in)
{
    const struct rows *rows = b->rows;
    const size_t element = eco_type_bytes(rows->type), N = (size_t)b->N, T = (size_t)b->T;
    const bool outer = (rows->test.desc.flags & ECORNN_BATCH_MAJOR) != 0;
    const size_t wide = is_state(kind) ? 0 : rows_elements(rows, kind) / (size_t)rows->T * element;
    char *alone = row + rows->before[kind] + (size_t)t0 * wide;
    for (size_t t = 0; !is_state(kind) && t < T; t++, alone += wide) {
        char *at = b->array[kind][0] + (outer ? (size_t)n * T + t : t * N + (size_t)n) * wide;
        memcpy(in ? at : alone, in ? alone : at, wide);
    }
    for (int s = 0; is_state(kind) && s < rows->states; s++) {
        const size_t bytes = (size_t)width(rows, s) * element;
        for (int lane = 0; lane < rows->L * rows->D; lane++, alone += bytes) {
            char *at = b->array[kind][s] + ((size_t)lane * N + (size_t)n) * bytes;
            memcpy(in ? at : alone, in ? alone : at, bytes);
        }
    }
}

static ecornn_io io_of(struct batch *b)
{
    ecornn_io io = {.size = sizeof io,
                    .lengths = b->rows->ragged ? b->length : NULL,
                    .x = b->array[X][0],
                    .y = b->array[Y][0],
                    .weights = b->weights,
                    .workspace = b->workspace,
                    .reserve = b->rows->training ? b->reserve : NULL,
                    .seed = 5};
    for (int s = 0; s < b->rows->states; s++) {
        io.initial[s] = b->array[INITIAL][s];
        io.final[s] = b->array[FINAL][s];
    }
    return io;
}

void batch_forward(struct batch *b, char *const *row, const int32_t *length, int32_t t0)
{
    for (int32_t n = 0; n < b->N; n++) {
        b->length[n] = length[n];
        for (int kind = 0; kind < INPUTS; kind++)
            move(b, kind, n, row[n], t0, true);
    }
    const ecornn_io io = io_of(b);
    memset(b->workspace, 0xff, b->sizes.workspace_bytes);
    ck_assert_msg(ecornn_forward(b->plan, b->T, b->N, &io) == ECORNN_OK, "%s",
                  ecornn_error_detail());
    for (int32_t n = 0; n < b->N; n++) {
        move(b, Y, n, row[n], t0, false);
        move(b, FINAL, n, row[n], t0, false);
    }
}

void batch_backward(struct batch *b, char *const *row, int32_t t0)
{
    ecornn_io io = io_of(b);
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = b->array[DY][0],
                                .dx = b->array[DX][0],
                                .dweights = b->dweights};
    if (!b->rows->training)
        return;
    for (int s = 0; s < b->rows->states; s++) {
        io.final[s] = NULL;
        gradient.dfinal[s] = b->array[DFINAL][s];
        gradient.dinitial[s] = b->array[DINITIAL][s];
    }
    for (int32_t n = 0; n < b->N; n++)
        move(b, DFINAL, n, row[n], t0, true);
    memset(b->workspace, 0xff, b->sizes.workspace_bytes);
    ck_assert_msg(ecornn_backward(b->plan, b->T, b->N, &io, &gradient) == ECORNN_OK, "%s",
                  ecornn_error_detail());
    for (int32_t n = 0; n < b->N; n++) {
        move(b, DX, n, row[n], t0, false);
        move(b, DINITIAL, n, row[n], t0, false);
    }
}
