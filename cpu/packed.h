/*
 * What the files of algorithm packed share: products in panels, and one thread's work on them.
 */
#ifndef ECO_PACKED_H
#define ECO_PACKED_H

#include "cpu/cpu.h"

struct eco_packed_product;

/* How rows of A come to a kernel: packed_rows.c. */
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
    int32_t group;      /* units of a block */
    int32_t k, skipped; /* columns of A; k of the panels before them */
    size_t first;       /* column of A */
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
};

/* Rows so many floats apart, or bytes, share places in the first-level cache; a copy of them pays
 * if so many columns of C read it. */
enum { ECO_CROWDED = 1024, ECO_CROWDED_BYTES = 4096, ECO_CROWDED_COLUMNS = 512 };

/* packed_walk.c: does it. */
void eco_packed_walk(struct eco_packed_work *w);

/* packed_rows.c: the kernel and the form for a product. */
void eco_packed_choose(const struct eco_cpu_run *run, struct eco_packed_product *p);
/* Rows that go through all panels together: near-equal pieces of so many, since a short last one
 * would read all weights for little. */
int32_t eco_packed_piece(const struct eco_packed_work *w, int32_t rows);
/* Those rows of A as the kernels read them, one product's after the other's in the thread's
 * scratch.
 */
void eco_packed_bring(struct eco_packed_work *w, struct eco_share rows);

/* packed_product.c: as eco_products.multiply and .stage. */
void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply);
void eco_packed_stage(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n,
                      const struct eco_pointwise *call, eco_pointwise_kernel kernel);
/* packed_weights.c: as eco_products.weights. */
void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

#endif /* ECO_PACKED_H */
