/*
 * The copies that a weight gradient multiplies: rows of dacc by blocks of units, rows of e in
 * panels; as floats, or in AMX's order of BF16.
 */
#include "cpu/gemm/packed/gradient.h"

#include <string.h>

#include "common/util.h"
#include "cpu/isa/isa.h"

enum { GROUP = ECO_NARROW_GROUP, TALL = ECO_NARROW_TALL, TILE = ECO_NARROW_TILE };
/* Row blocks copied together, so that every cache line of dacc is read once. */
enum { BLOCKS_AT_A_TIME = ECO_TILE_COPIES };

/* ---- rows, blocks, panels -------------------------------------------------------------------- */

static size_t row_number(const struct eco_gradient *g, struct eco_gradient_row row)
{
    return (size_t)row.step * (size_t)g->run->args->N + (size_t)row.n;
}

static void go_on(const struct eco_gradient *g, struct eco_gradient_row *row)
{
    if (++row->n < eco_cpu_active(g->run, g->t0 + row->step))
        return;
    row->step++;
    row->n = 0;
}

void eco_gradient_skip(const struct eco_gradient *g, struct eco_gradient_row *row, int32_t rows)
{
    if (g->run->active == NULL) {
        row->step += (row->n + rows) / g->run->args->N;
        row->n = (row->n + rows) % g->run->args->N;
        return;
    }
    for (int32_t k = 0; k < rows; k++)
        go_on(g, row);
}

/* ---- floats ---------------------------------------------------------------------------------- */

static void widen_rows(const struct eco_gradient *g, struct eco_tile_copy *copy,
                       const uint16_t *from, size_t row, int32_t rows)
{
    for (int32_t r = 0; r < rows; r++, from += row)
        for (int32_t i = 0; i < copy->n; i++) {
            const size_t zeros = (size_t)(copy->width[i] - copy->count[i]);
            g->run->isa->narrow_rows->widen(copy->to[i], from + copy->first[i], copy->count[i]);
            memset(copy->to[i] + copy->count[i], 0, zeros * sizeof(float));
            copy->to[i] += copy->width[i];
        }
}

/* Copies the current rows of a matrix; adjacent ones together. */
static void copy_rows(const struct eco_gradient *g, struct eco_tile_copy *copy, const void *matrix,
                      size_t row)
{
    struct eco_gradient_row at = g->first;
    for (int32_t left = g->rows, n; left > 0; left -= n) {
        n = g->run->active == NULL
                ? left
                : eco_least(left, eco_cpu_active(g->run, g->t0 + at.step) - at.n);
        const void *from = eco_cpu_after(g->type, matrix, row_number(g, at) * row);
        if (g->type == ECORNN_BF16)
            widen_rows(g, copy, from, row, n);
        else
            g->form.kernel->copy(copy, from, row, n);
        eco_gradient_skip(g, &at, n);
    }
}

/* In a block, element (k, i) is A[k, its unit i]. */
static void pack_some_blocks(const struct eco_gradient *g, int32_t number, struct eco_range blocks)
{
    struct eco_tile_copy copy = {.n = blocks.to - blocks.from};
    for (int32_t b = 0; b < copy.n; b++) {
        const int32_t block = blocks.from + b;
        copy.to[b] = (float *)(void *)eco_gradient_block(g, number, block);
        copy.first[b] = eco_gradient_unit(g, block);
        copy.count[b] = copy.width[b] = eco_gradient_unit(g, block + 1) - copy.first[b];
    }
    copy_rows(g, &copy, eco_cpu_after(g->type, g->a, (size_t)number * (size_t)g->units), g->a_row);
}

static void pack_blocks(const struct eco_gradient *g, int32_t number, struct eco_range blocks)
{
    for (int32_t b = blocks.from; b < blocks.to; b += BLOCKS_AT_A_TIME)
        pack_some_blocks(g, number,
                         (struct eco_range){b, eco_least(b + BLOCKS_AT_A_TIME, blocks.to)});
}

static void pack_panel(const struct eco_gradient *g, const struct eco_gradient_part *part,
                       int32_t panel)
{
    const int32_t first = panel * g->form.wide, width = eco_gradient_width(g, part, panel);
    struct eco_tile_copy copy = {.n = 1,
                                 .to = {(float *)(void *)eco_gradient_panel(g, part, panel)},
                                 .first = {first},
                                 .count = {eco_least(part->columns - first, width)},
                                 .width = {width}};
    copy_rows(g, &copy, part->e, part->e_row);
}

/* ---- pairs of BF16 --------------------------------------------------------------------------- */

/* Some rows of a matrix; if some of them have ended, the others are first copied together. */
struct rows {
    uint16_t together[GROUP][BLOCKS_AT_A_TIME * TALL];
    const uint16_t *first;
    size_t row;
    int32_t n;
};

/* Finds rows->n of g's rows from `at` on, and `n` columns; advances `at`. */
static void find_rows(const struct eco_gradient *g, struct eco_gradient_row *at,
                      const uint16_t *matrix, size_t row, int32_t n, struct rows *rows)
{
    rows->first = matrix + row_number(g, *at) * row;
    rows->row = row;
    if (g->run->active == NULL) {
        eco_gradient_skip(g, at, rows->n);
        return;
    }
    for (int32_t r = 0; r < rows->n; r++, go_on(g, at))
        memcpy(rows->together[r], matrix + row_number(g, *at) * row, (size_t)n * sizeof *matrix);
    rows->first = rows->together[0];
    rows->row = BLOCKS_AT_A_TIME * TALL;
}

/* A block of A in the kernel's order, [groups, 512]. */
static void pair_some_blocks(const struct eco_gradient *g, int32_t number, struct eco_range blocks)
{
    const struct eco_pair_rows *pairs = g->run->isa->pair_rows;
    const int32_t from = eco_gradient_unit(g, blocks.from), to = eco_gradient_unit(g, blocks.to);
    const uint16_t *a = (const uint16_t *)g->a + (size_t)(number * g->units + from);
    struct eco_gradient_row at = g->first;
    struct rows rows;
    for (int32_t group = 0; group * GROUP < g->depth; group++) {
        rows.n = eco_least(g->rows - group * GROUP, GROUP);
        find_rows(g, &at, a, g->a_row, to - from, &rows);
        for (int32_t block = blocks.from; block < blocks.to; block++) {
            const int32_t unit = eco_gradient_unit(g, block);
            uint16_t *out = (uint16_t *)(void *)eco_gradient_block(g, number, block);
            pairs->block(out + (size_t)group * TILE, rows.first + (unit - from), rows.row, rows.n,
                         eco_gradient_unit(g, block + 1) - unit);
        }
    }
}

static void pair_blocks(const struct eco_gradient *g, int32_t number, struct eco_range blocks)
{
    for (int32_t b = blocks.from; b < blocks.to; b += BLOCKS_AT_A_TIME)
        pair_some_blocks(g, number,
                         (struct eco_range){b, eco_least(b + BLOCKS_AT_A_TIME, blocks.to)});
}

static void pair_panel(const struct eco_gradient *g, const struct eco_gradient_part *part,
                       int32_t panel)
{
    const struct eco_pair_rows *pairs = g->run->isa->pair_rows;
    const int32_t first = panel * g->form.wide, columns = part->columns - first;
    const int32_t width = eco_gradient_width(g, part, panel), lanes = g->form.kernel->lanes;
    uint16_t *to = (uint16_t *)(void *)eco_gradient_panel(g, part, panel);
    struct eco_gradient_row at = g->first;
    struct rows rows;
    for (int32_t group = 0; group * GROUP < g->depth; group++) {
        rows.n = eco_least(g->rows - group * GROUP, GROUP);
        find_rows(g, &at, (const uint16_t *)part->e + first, part->e_row, eco_least(columns, width),
                  &rows);
        for (int32_t v = 0; v < width; v += lanes, to += TILE)
            pairs->vector(to, rows.first + v, rows.row, rows.n, eco_least(columns - v, lanes));
    }
}

/* ---- the form of a gradient ------------------------------------------------------------------ */

/* AMX takes two tiles of rows at a time; the dot product three vectors, and 8 of 16 rows. */
static struct eco_gradient_form form_in_pairs(const struct eco_isa *isa)
{
    const bool amx = isa->amx != NULL;
    const struct eco_tile_kernel *kernel = amx ? isa->amx : isa->dot;
    return (struct eco_gradient_form){.kernel = kernel,
                                      .element = sizeof(uint16_t),
                                      .tall = TALL,
                                      .grain = TALL,
                                      .a_row = 2,
                                      .a_k = TALL,
                                      .wide = (amx ? ECO_TILE_VECTORS : 3) * kernel->lanes,
                                      .group = GROUP,
                                      .calls_blocks = amx ? 2 : 1,
                                      .pack_blocks = pair_blocks,
                                      .pack_panel = pair_panel};
}

struct eco_gradient_form eco_gradient_form(const struct eco_cpu_run *run)
{
    const struct eco_isa *isa = run->isa;
    const bool narrow = run->layout->weight == ECORNN_BF16 && run->layout->type == ECORNN_BF16;
    if (narrow && isa->pair_rows != NULL)
        return form_in_pairs(isa);
    return (struct eco_gradient_form){.kernel = isa->tile,
                                      .element = sizeof(float),
                                      .tall = isa->tile->rows,
                                      .grain = 1,
                                      .a_row = 1,
                                      .wide = isa->tile->vectors * isa->tile->lanes,
                                      .group = 1,
                                      .calls_blocks = 1,
                                      .pack_blocks = pack_blocks,
                                      .pack_panel = pack_panel};
}
