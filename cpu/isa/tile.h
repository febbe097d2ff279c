/*
 * The call between an algorithm and the product kernel of an instruction set: rows of A times one
 * panel of packed weights, added to C.  A kernel sees pointers, sizes and strides, nothing else.
 * tile.c multiplies weights in F32; tile_narrow.c, tile_dot.c and tile_amx.c those in BF16.
 */
#ifndef ECO_TILE_H
#define ECO_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ECO_TILE_VECTORS = 4, /* of a panel, at most */
    ECO_TILE_PAIRS = 2,   /* of A and a panel, at most */
    ECO_ROW_VECTORS = 16, /* of panels side by side, at most */
    ECO_TILE_COPIES = 8,
    ECO_TILE_LANES = 16 /* of a vector, at most */
};
/* A panel of BF16 is [groups of 32 k, vectors, 16, lanes, 2]: two neighbouring k of a lane side by
 * side, as AMX and the dot product of pairs read them, and as a shift and a mask widen them
 * elsewhere. */
enum {
    ECO_NARROW_GROUP = 32, /* k of a group; past the last k there are zeros */
    ECO_NARROW_TALL = 16,  /* rows of a tile of A */
    ECO_NARROW_TILE = ECO_NARROW_TALL * ECO_NARROW_GROUP
};

/* A[rows, k] and panel[k, vectors * lanes]. */
struct eco_tile_pair {
    int32_t k;
    const void *a;        /* floats; for tile_dot.c BF16; for AMX tiles of it, [ceil(rows / height),
                           * groups, 16, 32] */
    size_t a_row, a_k;    /* elements from one row, one k to the next; tile_narrow.c: a_k is 1;
                           * tile_dot.c: k + 1 is beside an even k, and 0 past the last */
    const void *panel;    /* [k, vectors, lanes] or that of BF16, aligned to 64 bytes */
    size_t panel_k;       /* elements from one k, one group to the next */
    const void *prefetch; /* panel of the tile after this one, or NULL */
};

/*
 * C[rows, vectors * lanes] = start + the sum of A panel over all pairs, in their order.  tile.c: a
 * sum is one chain of fused multiply-adds from 0, in ascending k; start is added to that of the
 * first pair, and what came of it to that of the second: rounding errors go with the sums, and
 * those of h R^T are small beside accumulators.  Bits do not depend on rows, vectors or lanes.
 * tile_narrow.c: one chain from start through all pairs; tile_dot.c too, but odd k before even
 * ones; AMX sums over the k of all pairs first, then adds start; to both denormals are 0.
 */
struct eco_tile {
    int32_t rows, pairs;
    int32_t height;                    /* rows of a tile of A that are used; AMX only */
    int32_t vectors;                   /* 1 .. ECO_TILE_VECTORS */
    int32_t count[ECO_TILE_VECTORS];   /* lanes of each vector that exist in C, 0 to all */
    size_t c_vector[ECO_TILE_VECTORS]; /* elements from c to each vector of row 0 */
    struct eco_tile_pair pair[ECO_TILE_PAIRS];
    float *c;
    size_t c_row;
    const float *next;                    /* c of the tile after this one, to be fetched, or NULL */
    const float *start[ECO_TILE_VECTORS]; /* [count] what C starts from, the same in every row; *
                                           * NULL: C itself */
};

/* Where a vector goes: the lanes that exist in C, elements from c, and what C starts from. */
struct eco_vector {
    int32_t count;
    size_t c_vector;
    const float *start;
};

/*
 * One row of A by panels side by side, each of `vectors` vectors: C = start + A panel, the same
 * bits as of struct eco_tile.  A chain of sums waits for its last one: as many chains as fill the
 * wait go on at a time.
 */
struct eco_row {
    int32_t k, panels, vectors;
    const void *a, *panel; /* as of struct eco_tile_pair; a_k is 1 */
    size_t panel_k,
        panel_step; /* elements from one k, one group to the next; from panel to panel */
    float *c;
    struct eco_vector vector[ECO_ROW_VECTORS];
};

/* Columns of rows, brought together for a gradient: to[i] gets [rows, width[i]] of columns
 * first[i] .. first[i] + count[i], and zeros; it then points past them. */
struct eco_tile_copy {
    int32_t n; /* up to ECO_TILE_COPIES */
    float *to[ECO_TILE_COPIES];
    int32_t first[ECO_TILE_COPIES], count[ECO_TILE_COPIES], width[ECO_TILE_COPIES];
};

/* What an instruction set offers. */
struct eco_tile_kernel {
    int32_t lanes;         /* floats of a vector */
    int32_t rows, vectors; /* of a block, a panel, as a rule */
    int32_t sums;          /* of a block of any shape, in vectors */
    /* rows that `multiply` takes in one block, by vectors less one: a piece of code for each of
     * them and of fewer */
    int32_t most[ECO_TILE_VECTORS];
    void (*multiply)(const struct eco_tile *tile);
    void (*row)(const struct eco_row *row); /* NULL: with multiply only */
    int32_t row_panels[ECO_TILE_VECTORS];   /* at most, by their vectors */
    void (*copy)(struct eco_tile_copy *copy, const float *from, size_t row, int32_t rows); /* F32 */
    /* NULL, or called on each thread before and after its products; height: as of those. */
    void (*begin)(int32_t height);
    void (*end)(void);
};

/* Rows in BF16: tile_narrow.c. */
struct eco_narrow_rows {
    /* to[0 .. n) = from; and rounded, added to what is there if asked */
    void (*widen)(float *to, const uint16_t *from, int32_t n);
    void (*round)(uint16_t *to, const float *from, int32_t n, bool add);
};

/* For gradients: 16 columns of 32 rows, in pairs of rows, as vector of a panel, [16, 16, 2]; or as
 * the kernel reads A^T, the same or a tile.  What is past rows or columns becomes 0. */
struct eco_pair_rows {
    void (*vector)(uint16_t *to, const uint16_t *from, size_t row, int32_t rows, int32_t columns);
    void (*block)(uint16_t *to, const uint16_t *from, size_t row, int32_t rows, int32_t columns);
};

#endif /* ECO_TILE_H */
