/*
 * What the files of algorithm packed share: products in panels, and one thread's work on them. A
 * panel is all of k for some vectors of units. Example: LSTM, H=512, AVX2: R has 2048 rows, so 256
 * vectors of 8; in panels of two vectors it is 128 panels, which the threads divide.
 */
#ifndef ECO_PACKED_H
#define ECO_PACKED_H

#include "cpu/cpu.h"

struct eco_packed_product;

/* How a kernel gets rows of A: rows.c. */
struct eco_packed_form {
    /* Points p->a and p->a_row at those rows: in place, or at a copy of them in `room`. */
    void (*bring)(const struct eco_cpu_run *run, struct eco_packed_product *p,
                  struct eco_range rows, void *room);
    size_t copied; /* bytes of an element of the copy; 0: no copy */
    size_t apart;  /* bytes of a row besides its elements */
    bool together; /* columns of A that are not adjacent become so */
};

/* What C starts from, and its position; `number` counts the matrices of a part. */
struct eco_packed_number {
    int acc;
    size_t column; /* of C, for unit 0 */
    const float *bias;
    bool add; /* to C; else C starts from bias, or 0 */
};

/* One product in panels. */
struct eco_packed_product {
    const struct eco_multiply *multiply;
    const struct eco_panels *panels;
    const struct eco_tile_kernel *kernel;
    const struct eco_packed_form *form;
    const char *weights;
    size_t element;     /* bytes of a weight */
    size_t a_element;   /* of A, as the kernel reads it */
    int32_t group;      /* units of a block */
    int32_t k, skipped; /* columns of A; k of the preceding panels */
    size_t first;       /* column of A */
    int32_t head;       /* units of a head, whose k alone are not zero; 0: all are multiplied */
    int32_t number_k;   /* backward: the k of the current number */
    bool cached;        /* the weights stay in the thread's cache and need no prefetch */
    /* prefetched instead, a part with every panel: rows of the next step */
    const char *later, *later_end;
    bool rounds; /* C is BF16 */
    /* of the current rows */
    const void *a;
    size_t a_row;
    const struct eco_row_scale *scaled; /* rows of bytes: how they were made */
    float *rounded;                     /* [rows, vectors * lanes] of C before rounding, or NULL */
    struct eco_packed_number number[ECO_MAX_ACCS];
};

/* Adjacent panels of a product by which one row is multiplied at a time. */
struct eco_packed_strip {
    struct eco_packed_product *product;
    struct eco_row row;
};
/* A block of units: its strips, followed by its pass. */
struct eco_packed_block {
    struct eco_range units;
    struct eco_packed_strip *first, *end;
};
enum { ECO_MOST_STRIPS = 24 };
/* The strips of all stages of an op. */
struct eco_packed_strips {
    int blocks, strips;
    struct eco_packed_block block[ECO_MOST_STRIPS];
    struct eco_packed_strip strip[ECO_MOST_STRIPS];
};

/* One thread's work: products of the same C, then perhaps a pass, for each block of units. */
struct eco_packed_work {
    const struct eco_cpu_run *run;
    struct eco_packed_product *product;
    int products;
    /* The first two products run together: their panels that add to the same numbers; -1: none. */
    int pairs;
    struct eco_packed_pair {
        int8_t panel[ECO_TILE_PAIRS];
    } pair[ECO_MAX_ACCS];
    struct eco_range rows, units;
    int32_t width;                    /* units of a block */
    int32_t height;                   /* of tiles of the current rows */
    bool backwards;                   /* from the last block to the first */
    bool pass_after;                  /* the pass follows all blocks */
    const struct eco_pointwise *call; /* or NULL */
    eco_pointwise_kernel kernel;
    const struct eco_packed_block *block; /* for one row: its strips */
    int blocks;                           /* 0: panels one by one */
};

/* Rows at multiples of this distance, in floats or bytes, use the same sets of the first-level
 * cache; a copy of them pays if this many columns of C read it. */
enum { ECO_ALIAS = 1024, ECO_ALIAS_BYTES = 4096, ECO_ALIAS_COLUMNS = 512 };

/* Rows and units of a C. */
struct eco_packed_part {
    struct eco_range rows, units;
};
/* part.c: the part of a thread of the team. */
struct eco_packed_part eco_packed_part_of(const struct eco_packed_work *w, int id);
/* First block of some units; number of their blocks. */
static inline int32_t eco_packed_first_block(const struct eco_packed_work *w,
                                             struct eco_range units)
{
    return units.from / w->width;
}
static inline int32_t eco_packed_blocks(const struct eco_packed_work *w, struct eco_range units)
{
    const bool some = units.from < units.to;
    return some ? (units.to + w->width - 1) / w->width - units.from / w->width : 0;
}

/* walk.c: does the work. */
void eco_packed_walk(struct eco_packed_work *w);
/* A part of the pass. */
void eco_packed_pass(const struct eco_packed_work *w, struct eco_range rows,
                     struct eco_range units);
/* Address of a panel. */
const char *eco_packed_panel(const struct eco_packed_product *p, int32_t block, int32_t panel);
extern const float eco_packed_zeros[ECO_TILE_LANES];
/* Position in C of vector number v of a block. */
static inline struct eco_vector eco_packed_vector(const struct eco_packed_product *p, int32_t block,
                                                  int32_t v)
{
    const struct eco_panels *panels = p->panels;
    /* no divisions: with few rows they would take noticeable time */
    const struct eco_packed_number *number = &p->number[v >> panels->shift];
    const int32_t unit = block * p->group + (v & (panels->lane_groups - 1)) * panels->lanes;
    const int32_t left = panels->units - unit;
    return (struct eco_vector){.count = left < 0               ? 0
                                        : left < panels->lanes ? left
                                                               : panels->lanes,
                               .c_vector = number->column +
                                           eco_blocks_at(&p->multiply->blocks, (size_t)unit),
                               .start = number->add                ? NULL
                                        : number->bias && left > 0 ? number->bias + unit
                                                                   : eco_packed_zeros};
}

/* Weights of 8 bits: the scales from vector number v of a block on; else NULL. */
static inline const char *eco_packed_scales(const struct eco_packed_product *p, int32_t block,
                                            int32_t v)
{
    return p->element == 1 ? p->weights + eco_panels_scales(p->panels, block, v) : NULL;
}

/* Elements of a vector's k, or group of k. */
static inline size_t eco_packed_step(const struct eco_packed_product *p)
{
    return (size_t)(p->panels->group * p->panels->lanes);
}

/* strips.c: finds the strips of the work's row and units and stores them in `strips`, if there is
 * room; w->blocks tells. They are valid for any a and c. */
void eco_packed_find_strips(struct eco_packed_work *w, struct eco_packed_strips *strips);
/* Multiplies one row by them. */
void eco_packed_follow(struct eco_packed_work *w);

/* rows.c: rows of a tile of A, if `rows` rows are divided into tiles of equal height. */
int32_t eco_packed_height(int32_t rows);
/* The kernel and the form for a product. */
void eco_packed_choose(const struct eco_cpu_run *run, struct eco_packed_product *p);
/* Rows that pass through all panels together: near-equal pieces, because a short last piece would
 * read all weights for little. */
int32_t eco_packed_piece(const struct eco_packed_work *w, int32_t rows);
/* Provides those rows of A as the kernels read them, in the thread's scratch. */
void eco_packed_bring(struct eco_packed_work *w, struct eco_range rows);

/* product.c: eco_products.multiply, .prepare, .stage and .line. */
void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply);
void eco_packed_prepare(const struct eco_cpu_run *run, const struct eco_stage *stage, int stages,
                        struct eco_prepared *prepared);
void eco_packed_stage(struct eco_prepared *prepared, int stage);
const struct eco_line_kernel *eco_packed_line(const struct eco_prepared *prepared,
                                              struct eco_line *line);
/* gradient.c: eco_products.weights. */
void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

#endif /* ECO_PACKED_H */
