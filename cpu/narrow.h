/*
 * The call between an algorithm and a product kernel for BF16 weights: rows of A times one panel,
 * added to C.  A panel is [groups of 32 k, vectors, 16, lanes, 2]: two neighbouring k of a lane
 * side by side, as AMX reads them, and as a shift and a mask widen them elsewhere.
 */
#ifndef ECO_NARROW_H
#define ECO_NARROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ECO_NARROW_VECTORS = 4, /* of a panel, at most */
    ECO_NARROW_GROUP = 32,  /* k of a group */
    ECO_NARROW_TALL = 16    /* rows of a tile of A, at most */
};

/* C[rows, vectors * lanes] = start + A[rows, k] panel[k, vectors * lanes]. */
struct eco_narrow {
    int32_t rows, k, vectors;
    int32_t count[ECO_NARROW_VECTORS];   /* lanes of each vector that exist in C, 0 to all */
    size_t c_vector[ECO_NARROW_VECTORS]; /* elements from c to each vector of row 0 */
    const uint16_t *panel;               /* the first of the vectors, aligned to 64 bytes */
    size_t group_step;                   /* elements from one group to the next */
    const float *a; /* rows; or for AMX: tile, [ceil(rows / height), groups, 16, 32] */
    size_t a_row;
    const uint16_t *tile;
    int32_t height; /* rows of a tile that are used */
    float *c;
    size_t c_row;
    const float *start[ECO_NARROW_VECTORS]; /* [count] what C starts from; all NULL: C itself */
    const void *prefetch;                   /* the panel after this one, or NULL */
};

/* What an instruction set offers: tile_narrow.c.  Every element of C is one chain of fused
 * multiply-adds in ascending k, as of tile.h. */
struct eco_narrow_kernel {
    int32_t lanes;
    void (*multiply)(const struct eco_narrow *narrow);
    /* to[0 .. n) = from; and rounded, added to what is there if asked */
    void (*widen)(float *to, const uint16_t *from, int32_t n);
    void (*round)(uint16_t *to, const float *from, int32_t n, bool add);
};

/* AMX: tile_amx.c.  Sums over k first, then start is added; a tile's denormals are 0. */
struct eco_amx_kernel {
    /* On each thread before and after its products; height: as of those. */
    void (*begin)(int32_t height);
    void (*end)(void);
    void (*multiply)(const struct eco_narrow *narrow);
    /* For gradients, of 32 rows: A^T as one tile of 16 columns, and 16 columns as vector of a
     * panel; what is past rows or columns becomes 0. */
    void (*transpose)(uint16_t *tile, const uint16_t *from, size_t row, int32_t rows,
                      int32_t columns);
    void (*pair)(uint16_t *vector, const uint16_t *from, size_t row, int32_t rows, int32_t columns);
};

#endif /* ECO_NARROW_H */
