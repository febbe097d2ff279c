/*
 * The call between an algorithm and the product kernel of an instruction set: rows of A times one
 * panel of packed weights, added to C. A kernel knows pointers, sizes and strides only. tile.c
 * multiplies weights in F32; tile_narrow.c, tile_dot.c and tile_amx.c weights in BF16; tile_bytes.c
 * and tile_amx.c weights of 8 bits.
 */
#ifndef ECO_TILE_H
#define ECO_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ECO_TILE_VECTORS = 4, /* most vectors of a panel */
    ECO_TILE_PAIRS = 2,   /* most pairs of A and a panel */
    ECO_ROW_VECTORS = 16, /* most vectors of adjacent panels */
    ECO_TILE_COPIES = 8,
    ECO_TILE_LANES = 16 /* most lanes of a vector */
};
/* A panel of BF16 is [groups of 32 k, vectors, 16, lanes, 2]: two neighbouring k of a lane are
 * adjacent, for AMX and the dot product of pairs; other sets widen them with a shift and a mask. */
enum {
    ECO_NARROW_GROUP = 32, /* k of a group, zero-padded */
    ECO_NARROW_TALL = 16,  /* rows of a tile of A */
    ECO_NARROW_TILE = ECO_NARROW_TALL * ECO_NARROW_GROUP
};
/* The parts in BF16 of which a float is the sum, unless it is tiny: tile_amx.c. */
enum { ECO_SPLIT_PARTS = 3 };
/* A panel of bytes has the same form with quads for pairs: [groups of 64 k, vectors, 16, lanes, 4].
 */
enum { ECO_BYTE_GROUP = 64 };

struct eco_row_scale; /* common/quantise.h */

/* A[rows, k] and panel[k, vectors * lanes]. */
struct eco_tile_pair {
    int32_t k;
    const void *a; /* floats; for tile_dot.c BF16; for tile_bytes.c bytes, or floats; for AMX BF16
                      tiles [ceil(rows / height), groups, 16, 32], of split floats
                      [.., groups, 3, 16, 32], or of bytes [.., 16, 64] */
    size_t a_row, a_k;    /* elements from row to row, from k to k; tile_narrow.c: a_k is 1;
                             tile_dot.c: k + 1 is next to an even k, and 0 after the last */
    const void *panel;    /* [k, vectors, lanes] or that of BF16, aligned to 64 bytes */
    size_t panel_k;       /* elements between k, or groups of k */
    const void *prefetch; /* panel of the next tile, or NULL */
    /* weights of 8 bits: for each vector of the panel scales [lanes] as floats, and sums [lanes] of
     * the integers; how rows of 8 bits were made [rows] */
    const char *scales;
    const struct eco_row_scale *rows;
};

/*
 * C[rows, vectors * lanes] = start + the sum of A panel over all pairs, in their order. tile.c: a
 * sum is one chain of fused multiply-adds from 0, in ascending k; start is added to the sum of the
 * first pair, and the result to that of the second. So rounding errors are relative to the sums,
 * and those of h R^T are small compared with accumulators. Bits do not depend on rows, vectors or
 * lanes. tile_narrow.c: one chain from start through all pairs; tile_dot.c too, but odd k before
 * even ones; AMX sums over the k of all pairs first, then adds start. The last two treat denormals
 * as 0. Weights of 8 bits: sums are integers, or of floats times integers from 0; then scaled, and
 * added like those of tile.c.
 */
struct eco_tile {
    int32_t rows, pairs;
    int32_t first_bytes;               /* of the first-level cache */
    int32_t height;                    /* used rows of a tile of A; AMX only */
    int32_t vectors;                   /* 1 .. ECO_TILE_VECTORS */
    int32_t count[ECO_TILE_VECTORS];   /* lanes of each vector that exist in C, 0 to all */
    size_t c_vector[ECO_TILE_VECTORS]; /* elements from c to each vector of row 0 */
    struct eco_tile_pair pair[ECO_TILE_PAIRS];
    float *c;
    size_t c_row;
    const float *next; /* c of the next tile, to be prefetched, or NULL */
    /* [count]: initial C, the same in every row; NULL: C itself */
    const float *start[ECO_TILE_VECTORS];
};

/* The position of a vector in C: the lanes that exist, elements from c, and what C starts from. */
struct eco_vector {
    int32_t count;
    size_t c_vector;
    const float *start;
};

/*
 * One row of A times adjacent panels of `vectors` vectors each: C = start + A panel, with the bits
 * of struct eco_tile. Several chains of sums run at a time, because each addition waits for the
 * last of its chain.
 */
struct eco_row {
    int32_t k, panels, vectors;
    const void *a, *panel;      /* see struct eco_tile_pair; a_k is 1 */
    size_t panel_k, panel_step; /* elements between k, or groups of k; from panel to panel */
    const char *scales;         /* see struct eco_tile_pair; for all panels */
    const struct eco_row_scale *rows;
    float *c;
    struct eco_vector vector[ECO_ROW_VECTORS];
};

/* Copies columns of rows for a gradient: to[i] gets [rows, width[i]] of columns first[i] ..
 * first[i] + count[i], zero-padded; then it points to the next element. */
struct eco_tile_copy {
    int32_t n; /* up to ECO_TILE_COPIES */
    float *to[ECO_TILE_COPIES];
    int32_t first[ECO_TILE_COPIES], count[ECO_TILE_COPIES], width[ECO_TILE_COPIES];
};

/* The product kernels of an instruction set. */
struct eco_tile_kernel {
    int32_t lanes;         /* floats of a vector */
    int32_t rows, vectors; /* usual rows of a block and vectors of a panel */
    int32_t sums;          /* of a block of any shape, in vectors */
    /* rows that `multiply` takes in one block, by vectors minus one; there is code for this and
     * every smaller number */
    int32_t most[ECO_TILE_VECTORS];
    void (*multiply)(const struct eco_tile *tile);
    void (*row)(const struct eco_row *row); /* NULL: use multiply */
    int32_t row_panels[ECO_TILE_VECTORS];   /* most panels, by their vectors */
    void (*copy)(struct eco_tile_copy *copy, const float *from, size_t row, int32_t rows); /* F32 */
    /* NULL, or called on each thread before and after its products; height: of their tiles. */
    void (*begin)(int32_t height);
    void (*end)(void);
};

/* Rows of floats in three parts, times weights in BF16; split makes a row of a group's tiles from
 * its 32 floats. */
struct eco_split_kernel {
    struct eco_tile_kernel tile;
    void (*split)(uint16_t *to, const float *from);
};

/* Rows in BF16: tile_narrow.c. */
struct eco_narrow_rows {
    /* to[0 .. n) = from; and rounded, added to the destination if `add` */
    void (*widen)(float *to, const uint16_t *from, int32_t n);
    void (*round)(uint16_t *to, const float *from, int32_t n, bool add);
};

/* Weights of 8 bits: kernels for rows of bytes and of floats. */
struct eco_byte_kernels {
    struct eco_tile_kernel bytes, floats;
    /* Makes n floats bytes (common/quantise.h), in groups of ECO_BYTE_GROUP, `group` bytes apart,
     * the last one filled up. */
    void (*quantise)(uint8_t *to, size_t group, const float *from, int32_t n,
                     struct eco_row_scale *scale);
};

/* For gradients: 16 columns of 32 rows, in pairs of rows, as a vector of a panel, [16, 16, 2]; or
 * in the kernel's order of A^T, the same or a tile. What is beyond the rows or columns becomes
 * 0. */
struct eco_pair_rows {
    void (*vector)(uint16_t *to, const uint16_t *from, size_t row, int32_t rows, int32_t columns);
    void (*block)(uint16_t *to, const uint16_t *from, size_t row, int32_t rows, int32_t columns);
};

#endif /* ECO_TILE_H */
