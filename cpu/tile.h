/*
 * The call between an algorithm and the product kernel of an instruction set: rows of A times one
 * panel of packed weights, added to C.  A kernel sees pointers, sizes and strides, nothing else.
 */
#ifndef ECO_TILE_H
#define ECO_TILE_H

#include <stddef.h>
#include <stdint.h>

enum {
    ECO_TILE_VECTORS = 4, /* of a panel, at most */
    ECO_TILE_PAIRS = 2,   /* of A and a panel, at most */
    ECO_TILE_LANES = 16   /* of a vector, at most */
};

/* A[rows, k] and panel[k, vectors * lanes]. */
struct eco_tile_pair {
    int32_t k;
    const float *a;
    size_t a_row, a_k;    /* elements from one row, one k to the next */
    const float *panel;   /* [k, vectors, lanes], aligned to 64 bytes */
    size_t panel_k;       /* elements from one k to the next */
    const void *prefetch; /* panel of the tile after this one, or NULL */
};

/*
 * C[rows, vectors * lanes] = start + the sum of A panel over all pairs, in their order.  Every
 * element of C is one chain of fused multiply-adds in ascending k: its bits do not depend on rows,
 * vectors or lanes.
 */
struct eco_tile {
    int32_t rows, pairs;
    int32_t vectors;                   /* 1 .. ECO_TILE_VECTORS */
    int32_t count[ECO_TILE_VECTORS];   /* lanes of each vector that exist in C, 0 to all */
    size_t c_vector[ECO_TILE_VECTORS]; /* elements from c to each vector of row 0 */
    struct eco_tile_pair pair[ECO_TILE_PAIRS];
    float *c;
    size_t c_row;
    const float *start[ECO_TILE_VECTORS]; /* [count] what C starts from, the same in every row; *
                                           * all NULL: C itself */
};

/* What an instruction set offers. */
struct eco_tile_kernel {
    int32_t lanes;                 /* floats of a vector */
    int32_t rows, vectors;         /* of a block, a panel, as a rule */
    int32_t few_rows, few_vectors; /* up to so many rows panels are better so wide */
    void (*multiply)(const struct eco_tile *tile);
};

#endif /* ECO_TILE_H */
