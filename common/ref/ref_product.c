/*
 * Products of the reference and their gradients, as plain loops over rows and columns.
 */
#include "common/ref/ref.h"

#include "common/quantise.h"

/* The operand as integers times a scale, if products read integers.  exact: a machine has the same
 * numbers. */
static const double *integers(struct eco_reference *run, const double *value, int32_t width,
                              bool exact)
{
    const bool random = run->arithmetic.rounding == ECO_ROUND_RANDOM && !exact;
    float least = 0, most = 0, odd = 0;
    for (int32_t j = 0; j < width; j++) {
        const float x = (float)value[j];
        least = x < least ? x : least;
        most = x > most ? x : most;
        odd += x * 0;
    }
    const struct eco_row_scale row = eco_row_scale(least, most, odd);
    for (int32_t j = 0; j < width; j++) {
        float product = (float)value[j] * eco_row_factor(row.scale);
        if (random && eco_arithmetic_random(&run->arithmetic) >> 56 == 0)
            product += eco_arithmetic_random(&run->arithmetic) >> 63 ? 1 : -1;
        run->operand[j] = (double)row.scale * (eco_row_integer(row, product) - row.zero);
    }
    return run->operand;
}

static bool reads_integers(const struct eco_reference *run)
{
    return run->problem->int8 || run->arithmetic.int8;
}

const double *eco_reference_operand(struct eco_reference *run, const double *value, int32_t width)
{
    if (reads_integers(run))
        return integers(run, value, width, false);
    for (int32_t j = 0; j < width; j++)
        run->operand[j] = eco_round_stored(&run->arithmetic, value[j]);
    return run->operand;
}

/* Values of the type draw no random numbers: all rows of 16-bit runs. */
const double *eco_reference_input_operand(struct eco_reference *run, const double *x)
{
    if (reads_integers(run))
        return integers(run, x, run->input, run->layer == 0);
    for (int32_t k = 0; k < run->input; k++) {
        const bool is_kept = eco_type_round(x[k], run->arithmetic.type) == x[k];
        run->operand[k] = is_kept ? x[k] : eco_round_stored(&run->arithmetic, x[k]);
    }
    return run->operand;
}

void eco_reference_multiply(struct eco_reference *run, double *out, const double *matrix,
                            int32_t rows, const double *in, int32_t cols)
{
    struct eco_arithmetic arithmetic = run->arithmetic; /* a copy, to keep it in registers */
    for (int32_t j = 0; j < rows; j++) {
        double sum = out[j];
        for (int32_t k = 0; k < cols; k++)
            eco_round_add(&arithmetic, &sum, matrix[(size_t)j * (size_t)cols + (size_t)k] * in[k]);
        out[j] = sum;
    }
    run->arithmetic.random = arithmetic.random;
}

/* Everything added to din is one running sum, over all products of that operand. */
void eco_reference_multiply_gradient(struct eco_reference *run,
                                     const struct eco_reference_product *product)
{
    const double *matrix = run->weights + product->matrix;
    double *dmatrix = run->dchain + product->matrix;
    struct eco_arithmetic arithmetic = run->arithmetic;
    for (int32_t j = 0; j < product->rows; j++)
        for (int32_t k = 0; k < product->cols; k++) {
            const size_t at = (size_t)j * (size_t)product->cols + (size_t)k;
            eco_round_add(&arithmetic, &product->din[k], matrix[at] * product->dout[j]);
            eco_round_add(&arithmetic, &dmatrix[at], product->dout[j] * product->in[k]);
        }
    run->arithmetic.random = arithmetic.random;
}

void eco_reference_multiply_heads(struct eco_reference *run, double *out, const double *matrix,
                                  const double *in, int32_t cols)
{
    const int32_t n = eco_problem_head(run->problem);
    for (int32_t j = 0; j < run->problem->H; j += n, in += cols)
        eco_reference_multiply(run, out + j, matrix + (size_t)j * (size_t)cols, n, in, cols);
}

void eco_reference_multiply_heads_gradient(struct eco_reference *run,
                                           const struct eco_reference_product *product)
{
    struct eco_reference_product head = *product;
    for (int32_t k = 0; k < run->problem->heads; k++) {
        eco_reference_multiply_gradient(run, &head);
        head.matrix += (size_t)head.rows * (size_t)head.cols;
        head.in += head.cols;
        head.dout += head.rows;
        head.din += head.cols;
    }
}
