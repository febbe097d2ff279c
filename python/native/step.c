/*
 * The products of a step, forward and backward: by hand for a few rows, which read each weight
 * once, and by torch's own product for more.
 */
#include "python/native/cell.h"

#include <string.h>

enum { FEW = 4, GRAIN = 1 << 15 }; /* rows; elements that are worth a thread */

/* Rows of a weight [count,size] from `first` on, and the column of gates that their products go to.
 * In a GRU the part of n that h has is apart. */
struct part {
    int64_t first, count, column;
};

static struct part part_of(const struct step *step, bool of_x, int k)
{
    const int64_t h = step->hidden;
    if (step->kind != CELL_GRU)
        return (struct part){0, k ? 0 : step->width, 0};
    if (of_x)
        return (struct part){0, k ? 0 : 3 * h, 0};
    return k ? (struct part){2 * h, h, 3 * h} : (struct part){0, 2 * h, 0};
}

/* ---- torch's product ------------------------------------------------------------------------- */

struct matrix {
    const float *data;
    int64_t rows, cols, row_stride, col_stride;
};

static torch_tensor *view(struct matrix m)
{
    const int64_t size[] = {m.rows, m.cols}, stride[] = {m.row_stride, m.col_stride};
    torch_tensor *made = NULL;
    const int32_t error = torch.aoti_torch_create_tensor_from_blob(
        (void *)(uintptr_t)m.data, 2, size, stride, 0, torch_type(ECORNN_F32),
        torch_number.device[0], -1, &made);
    return error == TORCH_OK ? made : NULL;
}

static struct matrix transposed(struct matrix m)
{
    return (struct matrix){m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

/* out = beta * out + a b */
static void multiply(struct step *step, struct matrix out, struct matrix a, struct matrix b,
                     double beta)
{
    torch_tensor *const o = view(out), *const left = view(a), *const right = view(b);
    step->ok = step->ok && o && left && right &&
               torch.aoti_torch_cpu_addmm_out(o, o, left, right, beta, 1.0) == TORCH_OK;
    drop(o);
    drop(left);
    drop(right);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void set_bias(struct step *step)
{
    for (int64_t n = 0; n < step->rows; n++) {
        float *const row = step->gates + n * step->width;
        memset(row, 0, (size_t)step->width * sizeof *row);
        for (int side = 0; side < 2 && step->bias_x; side++)
            for (int k = 0; k < 2; k++) {
                const struct part part = part_of(step, side == 0, k);
                const float *const bias = (side ? step->bias_h : step->bias_x) + part.first;
                for (int64_t i = 0; i < part.count; i++)
                    row[part.column + i] += bias[i];
            }
    }
}

/* Products of rows begin..end of both weights' parts, as torch's thread pool calls it. */
static void few_products(int64_t begin, int64_t end, void *data)
{
    struct step *const step = data;
    for (int side = 0; side < 2; side++)
        for (int k = 0; k < 2; k++) {
            const struct part part = part_of(step, side == 0, k);
            const int64_t size = side ? step->hidden : step->input;
            const int64_t from = begin > part.first ? begin : part.first;
            const int64_t to = end < part.first + part.count ? end : part.first + part.count;
            const float *const rows = side ? step->h : step->x;
            /* Four rows of a weight stay in the cache while each row of x passes. */
            for (int64_t i = from; i < to; i += 4)
                for (int64_t n = 0; n < step->rows; n++)
                    add_dots(step->gates + n * step->width + part.column + i - part.first,
                             (side ? step->r : step->w) + i * size, rows + n * size,
                             to - i < 4 ? to - i : 4, size);
        }
}

int64_t step_weight_rows(const struct step *step)
{
    return step->kind == CELL_GRU ? 3 * step->hidden : step->width;
}

static int64_t grain(int64_t elements)
{
    return elements < GRAIN ? (GRAIN + elements - 1) / elements : 1;
}

static void products(struct step *step)
{
    set_bias(step);
    if (step->rows <= FEW) {
        const int64_t each = (step->input + step->hidden) * step->rows;
        torch.torch_parallel_for(0, step_weight_rows(step), (grain(each) + 3) / 4 * 4, few_products,
                                 step);
        return;
    }
    for (int side = 0; side < 2; side++)
        for (int k = 0; k < 2; k++) {
            const struct part part = part_of(step, side == 0, k);
            const int64_t size = side ? step->hidden : step->input;
            const struct matrix rows = {side ? step->h : step->x, step->rows, size, size, 1};
            const struct matrix weights = {(side ? step->r : step->w) + part.first * size,
                                           part.count, size, size, 1};
            const struct matrix out = {step->gates + part.column, step->rows, part.count,
                                       step->width, 1};
            if (part.count)
                multiply(step, out, rows, transposed(weights), 1.0);
        }
}

static struct point row_of(const struct step *step, int64_t n)
{
    const int64_t at = n * step->hidden, gate = n * step->width;
    return (struct point){.hidden = step->hidden,
                          .gates = step->gates ? step->gates + gate : NULL,
                          .h = step->h + at,
                          .c = step->c ? step->c + at : NULL,
                          .new_h = step->new_h ? step->new_h + at : NULL,
                          .new_c = step->new_c ? step->new_c + at : NULL,
                          .dh = step->dh ? step->dh + at : NULL,
                          .dc = step->dc ? step->dc + at : NULL,
                          .dgates = step->dgates ? step->dgates + gate : NULL,
                          .old_dh = step->old_dh ? step->old_dh + at : NULL,
                          .old_dc = step->old_dc ? step->old_dc + at : NULL};
}

static void forward_rows(int64_t begin, int64_t end, void *data)
{
    struct step *const step = data;
    for (int64_t n = begin; n < end; n++) {
        const struct point row = row_of(step, n);
        point_forward(step->kind, &row);
    }
}

void step_forward(struct step *step)
{
    products(step);
    torch.torch_parallel_for(0, step->rows, grain(step->width), forward_rows, step);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void backward_rows(int64_t begin, int64_t end, void *data)
{
    struct step *const step = data;
    for (int64_t n = begin; n < end; n++) {
        const struct point row = row_of(step, n);
        point_backward(step->kind, &row);
    }
}

/* The gradient of one part of a weight, or of the rows that were multiplied with it. */
struct back {
    const struct step *step;
    struct part part;
    int64_t size; /* of a row */
    float *to;
    const float *from;
};

/* Columns begin..end of to [N,size] += dgates * from [count,size]. */
static void few_back_rows(int64_t begin, int64_t end, void *data)
{
    const struct back *const back = data;
    const float *const gates = back->step->dgates + back->part.column;
    for (int64_t i = 0; i < back->part.count; i++)
        for (int64_t n = 0; n < back->step->rows; n++)
            add_scaled(back->to + n * back->size + begin, gates[n * back->step->width + i],
                       back->from + i * back->size + begin, end - begin);
}

/* Rows begin..end of to [count,size] = transposed dgates * from [N,size]. */
static void few_back_weights(int64_t begin, int64_t end, void *data)
{
    const struct back *const back = data;
    const float *const gates = back->step->dgates + back->part.column;
    for (int64_t i = begin; i < end; i++) {
        float *const row = back->to + i * back->size;
        set_scaled(row, gates[i], back->from, back->size);
        for (int64_t n = 1; n < back->step->rows; n++)
            add_scaled(row, gates[n * back->step->width + i], back->from + n * back->size,
                       back->size);
    }
}

static struct matrix gradient_of(const struct step *step, struct part part)
{
    return (struct matrix){step->dgates + part.column, step->rows, part.count, step->width, 1};
}

static void back_rows(struct step *step, float *d, const float *weights, struct part part,
                      int64_t size)
{
    struct back back = {step, part, size, d, weights + part.first * size};
    if (step->rows <= FEW)
        torch.torch_parallel_for(0, size, (grain(part.count) + 63) / 64 * 64, few_back_rows, &back);
    else
        multiply(step, (struct matrix){d, step->rows, size, size, 1}, gradient_of(step, part),
                 (struct matrix){back.from, part.count, size, size, 1}, 1.0);
}

static void back_weights(struct step *step, float *dweights, const float *rows, struct part part,
                         int64_t size)
{
    struct back back = {step, part, size, dweights + part.first * size, rows};
    if (step->rows <= FEW)
        torch.torch_parallel_for(0, part.count, grain(size), few_back_weights, &back);
    else
        multiply(step, (struct matrix){back.to, part.count, size, size, 1},
                 transposed(gradient_of(step, part)),
                 (struct matrix){rows, step->rows, size, size, 1}, 0.0);
}

static void back_bias(const struct step *step, float *dbias, struct part part)
{
    memset(dbias + part.first, 0, (size_t)part.count * sizeof *dbias);
    for (int64_t n = 0; n < step->rows; n++)
        add_scaled(dbias + part.first, 1.0f, step->dgates + n * step->width + part.column,
                   part.count);
}

void step_backward(struct step *step)
{
    const size_t float_bytes = sizeof(float);
    if (step->dx)
        memset(step->dx, 0, (size_t)(step->rows * step->input) * float_bytes);
    if (step->old_dh && step->kind != CELL_GRU)
        memset(step->old_dh, 0, (size_t)(step->rows * step->hidden) * float_bytes);
    torch.torch_parallel_for(0, step->rows, grain(step->width), backward_rows, step);
    for (int side = 0; side < 2; side++)
        for (int k = 0; k < 2; k++) {
            const struct part part = part_of(step, side == 0, k);
            const int64_t size = side ? step->hidden : step->input;
            float *const d = side ? step->old_dh : step->dx;
            float *const dweights = side ? step->dr : step->dw;
            float *const dbias = side ? step->dbias_h : step->dbias_x;
            if (part.count && d)
                back_rows(step, d, side ? step->r : step->w, part, size);
            if (part.count && dweights)
                back_weights(step, dweights, side ? step->h : step->x, part, size);
            if (part.count && dbias)
                back_bias(step, dbias, part);
        }
}
