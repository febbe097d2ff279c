/*
 * Memory of a run of attention, and conversion of the caller's rows to the type of sums.
 */
#include "cpu/attention/run.h"

#include <string.h>

/* Columns of a gradient's job: as many as keep its rows within this number of bytes. */
enum { GRADIENT_COLUMNS = 64, GRADIENT_BYTES = 256 << 10 };

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Depends on the plan's sizes, so that a smaller run does not use wider blocks. */
static int32_t gradient_columns(const struct eco_attention *problem, size_t number)
{
    const size_t rows = 2 * ((size_t)problem->T + (size_t)problem->S + ECO_ATTENTION_POSITIONS);
    int32_t columns = GRADIENT_COLUMNS;
    while (columns > ECO_ATTENTION_GROUP && rows * (size_t)columns * number > GRADIENT_BYTES)
        columns /= 2;
    return columns;
}

static struct eco_size numbers(size_t rows, size_t columns, size_t number)
{
    return eco_size_align(eco_size_mul(eco_size_mul(eco_size_of(rows), columns), number));
}

static struct eco_size scratch_of(const struct eco_attention_args *args,
                                  struct eco_attention_sizes *sizes)
{
    const size_t number = sizes->number;
    struct eco_size block =
        numbers(3 * ECO_QUERIES_BLOCK + ECO_POSITIONS_BLOCK + 1, ECO_COLUMNS_BLOCK, number);
    block = eco_size_add(block, numbers(ECO_QUERIES_BLOCK, sizes->source, number));
    if (!args->backward)
        return block;
    const size_t rows = 2 * ((size_t)args->T + (size_t)args->S + ECO_ATTENTION_POSITIONS) + 2;
    const struct eco_size columns = numbers(rows, (size_t)sizes->gradient_columns, number);
    return columns.overflow || columns.value > block.value ? columns : block;
}

struct eco_size eco_attention_dscores(const struct eco_attention_args *args,
                                      const struct eco_attention_sizes *sizes)
{
    const struct eco_size row = numbers(1, sizes->source, sizes->number);
    return eco_size_mul(eco_size_mul(row, (size_t)args->T), (size_t)args->N);
}

struct eco_size eco_attention_find_sizes(const struct eco_attention *problem,
                                         const struct eco_caps *caps,
                                         const struct eco_attention_args *args,
                                         struct eco_attention_sizes *sizes)
{
    const size_t number = eco_type_bytes(eco_type_sum(problem->type));
    *sizes = (struct eco_attention_sizes){.number = number,
                                          .source = eco_attention_padded((size_t)args->S),
                                          .gradient_columns = gradient_columns(problem, number)};
    struct eco_size bytes = scratch_of(args, sizes);
    sizes->scratch = bytes.value;
    bytes = eco_size_mul(bytes, (size_t)caps->threads);
    if (!args->backward)
        return bytes;
    bytes = eco_size_add(bytes, eco_attention_dscores(args, sizes));
    return eco_size_add(bytes,
                        numbers((size_t)args->N, eco_attention_padded((size_t)problem->H), number));
}

/* ---- rows ------------------------------------------------------------------------------------ */

size_t eco_attention_place(const struct eco_attention_run *run,
                           const struct eco_attention_part *part, int32_t i)
{
    const size_t row =
        eco_attention_row(run->problem, run->args, part->steps, part->first + i, part->n);
    return (row * (size_t)part->width + (size_t)part->column) * eco_type_bytes(run->problem->type);
}

void eco_attention_load(const struct eco_attention_run *run, const struct eco_attention_part *part,
                        void *to, size_t row)
{
    const size_t rest = eco_attention_padded((size_t)part->some) - (size_t)part->some;
    for (int32_t i = 0; i < part->count; i++) {
        char *at = eco_attention_after(run, to, (size_t)i * row);
        eco_type_move(at, run->sum, (const char *)part->array + eco_attention_place(run, part, i),
                      run->problem->type, (size_t)part->some);
        memset(eco_attention_after(run, at, (size_t)part->some), 0, rest * run->sizes.number);
    }
}

void eco_attention_store(const struct eco_attention_run *run, const struct eco_attention_part *part,
                         const void *from, size_t row)
{
    for (int32_t i = 0; i < part->count; i++)
        eco_type_move((char *)(uintptr_t)part->array + eco_attention_place(run, part, i),
                      run->problem->type, eco_attention_after(run, from, (size_t)i * row), run->sum,
                      (size_t)part->some);
}
