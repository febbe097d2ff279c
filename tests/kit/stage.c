/*
 * Memory for one call of a pointwise kernel (stage.h).
 */
#include "tests/kit/stage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 52) / 1024 - 2; /* -2 .. 2, exact in float */
}

static void put(const struct stage *stage, unsigned char *to, double value)
{
    if (stage->element == sizeof(double)) {
        memcpy(to, &value, sizeof value);
    } else {
        const float f = (float)value;
        memcpy(to, &f, sizeof f);
    }
}

/* rows x columns x H, NaN in the padding. */
static void *array_new(struct stage_memory *memory, const struct stage *stage, int columns,
                       size_t *row_stride)
{
    const size_t width = (size_t)columns * (size_t)stage->hidden, row = width + STAGE_PAD;
    unsigned char *base = memory->data + memory->used;
    uint64_t state = memory->used;
    memory->used += (STAGE_ROWS * row * stage->element + 63) / 64 * 64;
    if (memory->used > STAGE_BYTES)
        abort();
    for (size_t k = 0; k < STAGE_ROWS * row; k++) {
        const double number = next_number(&state);
        const bool hole = k % row >= width;
        put(stage, base + k * stage->element, hole ? NAN : number);
    }
    *row_stride = row;
    return base;
}

static int count_vectors(const struct eco_recipe *recipe)
{
    int n = 0;
    for (int k = 0; k < recipe->n_params; k++)
        n += recipe->param[k].kind == ECO_PARAM_VECTOR;
    return n;
}

static void add_forward(struct stage_memory *m, const struct stage *stage)
{
    const struct eco_lowered *lowered = &stage->cell->lowered;
    struct eco_pointwise *call = &m->call;
    call->acc = array_new(m, stage, lowered->n_accs, &call->acc_row);
    call->acc_shift = 31;
    call->acc_column = (size_t)call->hidden;
    if (stage->with_y)
        call->y = array_new(m, stage, 1, &call->y_row);
    for (int s = 0; s < call->n_states && stage->in_place; s++) {
        call->next[s] =
            (unsigned char *)m->data + ((const unsigned char *)call->state[s] - m->data);
        call->next_row[s] = call->state_row[s];
    }
}

static void add_backward(struct stage_memory *m, const struct stage *stage)
{
    const struct eco_lowered *lowered = &stage->cell->lowered;
    struct eco_pointwise *call = &m->call;
    for (int s = 0; s < call->n_states; s++)
        if (s > 0 || !stage->projected)
            call->carry[s] = array_new(m, stage, 1, &call->carry_row[s]);
    if (stage->projected)
        call->dnext = array_new(m, stage, 1, &call->dnext_row);
    else if (stage->with_y)
        call->dy = array_new(m, stage, 1, &call->dy_row);
    call->dacc = array_new(m, stage, lowered->n_accs + lowered->n_extra, &call->dacc_row);
    call->doperand = array_new(m, stage, lowered->n_operands, &call->doperand_row);
}

struct stage_memory *stage_memory_new(const struct stage *stage)
{
    const struct eco_lowered *lowered = &stage->cell->lowered;
    struct stage_memory *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->element = stage->element;
    struct eco_pointwise *call = &m->call;
    size_t unused;
    *call = (struct eco_pointwise){
        .row1 = STAGE_ROWS,
        .unit1 = stage->hidden,
        .hidden = stage->hidden,
        .n_states = stage->cell->recipe.n_states,
        .t = 3,
        .order = stage->order,
        .y_order = stage->order,
        .training = stage->training,
        .seed = 0x123456789abcdef,
        .layer = 1,
        .direction = 1,
        .program = (stage->backward ? lowered->backward : lowered->forward) + stage->index,
    };
    call->vector = array_new(m, stage, count_vectors(&stage->cell->recipe), &unused);
    for (int s = 0; s < call->n_states; s++) {
        call->state[s] = array_new(m, stage, 1, &call->state_row[s]);
        call->next[s] = array_new(m, stage, 1, &call->next_row[s]);
    }
    call->save = array_new(m, stage, lowered->n_saves, &call->save_row);
    call->operand = array_new(m, stage, lowered->n_slots, &call->operand_row);
    if (lowered->has_means)
        call->mean = array_new(m, stage, ECO_MAX_MEANS, &call->mean_row);
    if (stage->backward)
        add_backward(m, stage);
    else
        add_forward(m, stage);
    return m;
}

double stage_get(const struct stage *stage, const void *base, size_t row_stride, int row, size_t j)
{
    const size_t k = row_stride * (size_t)row + j;
    return stage->element == sizeof(double) ? ((const double *)base)[k]
                                            : (double)((const float *)base)[k];
}

eco_pointwise_kernel stage_kernel(const struct stage *stage, const struct eco_isa *isa,
                                  bool interpreted)
{
    const struct eco_pointwise_kernels *kernels =
        stage->element == sizeof(double) ? isa->f64 : isa->f32;
    if (interpreted)
        return kernels->interpret;
    const struct eco_cell_kernels *cell = kernels->cell + stage->cell->builtin;
    return (stage->backward ? cell->backward : cell->forward)[stage->index];
}

int stage_count(const struct ecornn_cell *cell, bool backward)
{
    return backward ? cell->lowered.n_backward : cell->lowered.n_forward;
}

static bool both_nan(const struct stage_memory *a, const struct stage_memory *b, size_t k)
{
    double x, y;
    if (a->element == sizeof(float)) {
        x = (double)((const float *)(const void *)a->data)[k];
        y = (double)((const float *)(const void *)b->data)[k];
    } else {
        x = ((const double *)(const void *)a->data)[k];
        y = ((const double *)(const void *)b->data)[k];
    }
    return isnan(x) && isnan(y);
}

bool stage_same(const struct stage_memory *a, const struct stage_memory *b)
{
    for (size_t at = 0; at < a->used; at += a->element)
        if (memcmp(a->data + at, b->data + at, a->element) != 0 &&
            !both_nan(a, b, at / a->element)) {
            printf("# elements differ from %zu of %zu on\n", at / a->element, a->used / a->element);
            return false;
        }
    return a->used == b->used;
}
