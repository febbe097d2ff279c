/*
 * What the files of algorithm packed share: products in panels, and one thread's work on them.
 */
#ifndef ECO_PACKED_H
#define ECO_PACKED_H

#include "cpu/cpu.h"

struct eco_packed_product;

/* How rows of A come to a kernel: rows.c. */
struct eco_packed_form {
    /* Points p->a and p->a_row at those rows: where they are, or at a copy of them in `room`. */
    void (*bring)(const struct eco_cpu_run *run, struct eco_packed_product *p,
                  struct eco_share rows, void *room);
    size_t copied; /* bytes of an element of the copy, 0: none is made */
    bool together; /* columns of A that are not neighbours become so */
};

/* What C starts from, and where: number i of a part is one of its matrices. */
struct eco_packed_number {
    int acc;
    size_t column; /* of C, for unit 0 */
    const float *bias;
    bool add; /* to C; else bias, or 0 */
};

/* One product in panels. */
struct eco_packed_product {
    const struct eco_multiply *multiply;
    const struct eco_panels *panels;
    const struct eco_tile_kernel *kernel;
    const struct eco_packed_form *form;
    const char *weights;
    size_t element;     /* bytes of a weight */
    size_t a_element;   /* and of A, as the kernel reads it */
    int32_t group;      /* units of a block */
    int32_t k, skipped; /* columns of A; k of the panels before them */
    size_t first;       /* column of A */
    int32_t head;       /* units of a head, whose k alone are no zeros; 0: all are multiplied */
    int32_t number_k;   /* back: of the k of its numbers that at hand */
    bool near;          /* the weights stay in the thread's cache: no need to fetch them */
    /* what is fetched instead, a part with every panel: rows of the next step */
    const char *later, *later_end;
    bool rounds; /* C is BF16 */
    /* of the rows at hand */
    const void *a;
    size_t a_row;
    float *rounded; /* [rows, vectors * lanes] of C before it is rounded, or NULL */
    struct eco_packed_number number[ECO_MAX_ACCS];
};

/* Panels of a product side by side that one row is multiplied with at a time. */
struct eco_packed_strip {
    struct eco_packed_product *product;
    struct eco_row row;
};
/* A block of units: their strips; then comes their pass. */
struct eco_packed_block {
    struct eco_share units;
    struct eco_packed_strip *first, *end;
};
enum { ECO_MOST_STRIPS = 24 };
/* Those of all stages of an op. */
struct eco_packed_strips {
    int blocks, strips;
    struct eco_packed_block block[ECO_MOST_STRIPS];
    struct eco_packed_strip strip[ECO_MOST_STRIPS];
};

/* What one thread does: products of the same C, then perhaps a pointwise pass, of each block of
 * units. */
struct eco_packed_work {
    const struct eco_cpu_run *run;
    struct eco_packed_product *product;
    int products;
    /* The first two products go together: their panels that add to the same numbers, -1: none. */
    int pairs;
    struct eco_packed_pair {
        int8_t panel[ECO_TILE_PAIRS];
    } pair[ECO_MAX_ACCS];
    struct eco_share rows, units;
    int32_t width;                    /* units of a block */
    int32_t height;                   /* of tiles of the rows at hand */
    bool backwards;                   /* from the last block to the first */
    bool pass_after;                  /* the pass comes after all blocks */
    const struct eco_pointwise *call; /* NULL: none */
    eco_pointwise_kernel kernel;
    const struct eco_packed_block *block; /* of one row: what it goes through */
    int blocks;                           /* 0: panels one by one */
};

/* Rows so many floats apart, or bytes, share places in the first-level cache; a copy of them pays
 * if so many columns of C read it. */
enum { ECO_CROWDED = 1024, ECO_CROWDED_BYTES = 4096, ECO_CROWDED_COLUMNS = 512 };

/* Rows and units of a C. */
struct eco_packed_part {
    struct eco_share rows, units;
};
/* product.c: the part of a thread of the team. */
struct eco_packed_part eco_packed_part_of(const struct eco_packed_work *w, int id);
/* Blocks of some units. */
static inline int32_t eco_packed_first_block(const struct eco_packed_work *w,
                                             struct eco_share units)
{
    return units.from / w->width;
}
static inline int32_t eco_packed_blocks(const struct eco_packed_work *w, struct eco_share units)
{
    const bool some = units.from < units.to;
    return some ? (units.to + w->width - 1) / w->width - units.from / w->width : 0;
}

/* walk.c: does it. */
void eco_packed_walk(struct eco_packed_work *w);
/* A part of the pass. */
void eco_packed_pass(const struct eco_packed_work *w, struct eco_share rows,
                     struct eco_share units);
/* Where a panel lies. */
const char *eco_packed_panel(const struct eco_packed_product *p, int32_t block, int32_t panel);
extern const float eco_packed_zeros[ECO_TILE_LANES];
/* Where vector number v of a block goes in C. */
static inline struct eco_vector eco_packed_vector(const struct eco_packed_product *p, int32_t block,
                                                  int32_t v)
{
    const struct eco_panels *panels = p->panels;
    /* no divisions where rows are few and a panel is soon done */
    const struct eco_packed_number *number = &p->number[v >> panels->shift];
    const int32_t unit = block * p->group + (v & (panels->spans - 1)) * panels->lanes;
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

/* Elements of a vector's k, or group of k. */
static inline size_t eco_packed_step(const struct eco_packed_product *p)
{
    return (size_t)(p->panels->group * p->panels->lanes);
}

/* strips.c: finds the strips of the work's row and units and keeps them in `strips`, if
 * there is room: w->blocks says so.  They hold for any a and c. */
void eco_packed_find_strips(struct eco_packed_work *w, struct eco_packed_strips *strips);
/* One row goes through them. */
void eco_packed_follow(struct eco_packed_work *w);

/* rows.c: rows of a tile of A, where so many rows go in tiles of equal height. */
int32_t eco_packed_height(int32_t rows);
/* The kernel and the form for a product. */
void eco_packed_choose(const struct eco_cpu_run *run, struct eco_packed_product *p);
/* Rows that go through all panels together: near-equal pieces of so many, since a short last one
 * would read all weights for little. */
int32_t eco_packed_piece(const struct eco_packed_work *w, int32_t rows);
/* Those rows of A as the kernels read them, one product's after the other's in the thread's
 * scratch.
 */
void eco_packed_bring(struct eco_packed_work *w, struct eco_share rows);

/* product.c: as eco_products.multiply, .prepare and .stage. */
void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply);
void eco_packed_prepare(const struct eco_cpu_run *run, const struct eco_stage *stage, int stages,
                        struct eco_prepared *prepared);
void eco_packed_stage(struct eco_prepared *prepared, int stage);
extern const struct eco_products eco_packed_products; /* algo/packed.c */
/* gradient.c: as eco_products.weights. */
void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

#endif /* ECO_PACKED_H */
