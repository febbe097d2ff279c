/*
 * A weight gradient of algorithm packed, for its walk (gradient.c) and for the copies of rows that
 * it multiplies (gradient_copies.c).
 */
#ifndef ECO_PACKED_GRADIENT_H
#define ECO_PACKED_GRADIENT_H

#include "cpu/gemm/packed/packed.h"

struct eco_gradient;
struct eco_gradient_part;

/* A kernel, and how rows are copied for it. */
struct eco_gradient_form {
    const struct eco_tile_kernel *kernel;
    size_t element;       /* bytes of a copied element */
    int32_t tall, grain;  /* most units of a block; blocks end at multiples of grain */
    int32_t a_row, a_k;   /* strides of a copied block as in eco_tile_pair; a_k 0: its units */
    int32_t wide;         /* columns of a panel */
    int32_t group;        /* rows are padded to a multiple */
    int32_t calls_blocks; /* of a call */
    /* A of neighbouring blocks of one matrix; columns of E */
    void (*pack_blocks)(const struct eco_gradient *g, int32_t number, struct eco_range blocks);
    void (*pack_panel)(const struct eco_gradient *g, const struct eco_gradient_part *part,
                       int32_t panel);
};

/* C[numbers * units, columns] += A[rows, numbers * units]^T E[rows, columns] for some numbers. */
struct eco_gradient_part {
    const void *e; /* of the op's first row */
    size_t e_row;
    float *c;                     /* [m, columns] */
    int32_t number[ECO_MAX_ACCS]; /* the row of C that begins with number i of A; -1: none */
    int32_t columns;
    int32_t head; /* units and columns of a head, other products are 0; 0: no heads */
    char *e_pack; /* [panels, depth, wide] */
};

/* A row among an op's steps [steps,N]; rows that have ended are left out. */
struct eco_gradient_row {
    int32_t step, n;
};

struct eco_gradient {
    const struct eco_cpu_run *run;
    struct eco_gradient_form form;
    const void *a; /* of the op's first row, [rows, numbers * units] */
    size_t a_row;
    ecornn_type type; /* of a and e */
    int32_t t0;
    struct eco_gradient_row first; /* of the current ones */
    int32_t numbers, units;
    int32_t rows, depth;  /* current ones; padded */
    int32_t blocks;       /* of the units of a number, of `tall` units; */
    int32_t tall, taller; /* the first `taller` have one more, the last may have fewer */
    char *a_pack;         /* of the current units: [numbers, units, depth], by blocks */
    struct eco_range units_at_hand;
    bool add;
    int parts;
    struct eco_gradient_part part[1 + ECO_MAX_OPERANDS];
};

/* gradient_copies.c */
struct eco_gradient_form eco_gradient_form(const struct eco_cpu_run *run);
/* Advances by `rows` rows. */
void eco_gradient_skip(const struct eco_gradient *g, struct eco_gradient_row *row, int32_t rows);

static inline int32_t eco_least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The number of pieces of size `each` that cover n. */
static inline int32_t eco_pieces(int32_t n, int32_t each)
{
    return (n + each - 1) / each;
}

/* The first unit of a block; its copy. */
static inline int32_t eco_gradient_unit(const struct eco_gradient *g, int32_t block)
{
    return eco_least(block * g->tall + eco_least(block, g->taller), g->units);
}

static inline char *eco_gradient_block(const struct eco_gradient *g, int32_t number, int32_t block)
{
    const int32_t at_hand = g->units_at_hand.to - g->units_at_hand.from;
    const int32_t units = eco_pieces(at_hand, g->form.grain) * g->form.grain;
    const int32_t before = number * units + eco_gradient_unit(g, block) - g->units_at_hand.from;
    return g->a_pack + (size_t)before * (size_t)g->depth * g->form.element;
}

/* Columns of a panel as whole vectors; how many of them the last panel lacks; its copy. */
static inline int32_t eco_gradient_width(const struct eco_gradient *g,
                                         const struct eco_gradient_part *part, int32_t panel)
{
    const int32_t lanes = g->form.kernel->lanes;
    const int32_t left = eco_least(part->columns - panel * g->form.wide, g->form.wide);
    return eco_pieces(left, lanes) * lanes;
}

static inline char *eco_gradient_panel(const struct eco_gradient *g,
                                       const struct eco_gradient_part *part, int32_t panel)
{
    return part->e_pack + (size_t)panel * (size_t)(g->form.wide * g->depth) * g->form.element;
}

#endif /* ECO_PACKED_GRADIENT_H */
