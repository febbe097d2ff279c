/*
 * Launches of products of split operands: split_operands.cu, gemm.cu, step_gemm.cu.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_ARGS_H
#define ECO_GPU_GEMM_EMULATED_F32_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How floats are represented. Large products use pairs only. */
enum eco_emulated_form {
    ECO_EMULATED_PAIRS,  /* two F16 numbers each */
    ECO_EMULATED_SINGLES /* the nearest F16 number */
};

/*
 * A prepared operand consists of k tiles: ECO_EMULATED_TILE rows by ECO_EMULATED_DEPTH numbers of
 * k, zero-padded. A k tile of pairs has all large numbers, then the small ones. A row takes a line
 * of 128 bytes, whose groups of 16 bytes are swizzled for arch/wgmma_rows.cuh. The k tiles of a
 * tile of rows follow each other.
 */
enum {
    ECO_EMULATED_TILE = 128,
    ECO_EMULATED_DEPTH = 64,
    ECO_EMULATED_PLANE_BYTES = 2 * ECO_EMULATED_TILE * ECO_EMULATED_DEPTH,
    ECO_EMULATED_K_TILE_BYTES = 2 * ECO_EMULATED_PLANE_BYTES, /* of pairs */
    /* the partial sums that a block stores where blocks share tiles of C */
    ECO_EMULATED_PART_BYTES = 2 * 4 * ECO_EMULATED_TILE * ECO_EMULATED_TILE,
    ECO_EMULATED_MOST_K = 16384,
    ECO_EMULATED_PAIR = 2 /* blocks of a cluster, which share one operand */
};

/* A [rows,k], or transposed [k,rows], of floats, where data begin at `begin` after zeros. */
struct eco_emulated_operand {
    enum eco_emulated_form form;
    const float *data;
    size_t row;
    int32_t rows, k, begin;
    bool transposed;
    char *k_tiles; /* [tiles of rows][k tiles] */
    float *scales; /* [rows, padded to tiles]: the factor of each row, infinite or NaN if the row is
                      not finite; NULL: not prepared */
};

/* C[a.rows,b.rows] (+)= A B^T (+ bias). */
struct eco_emulated_call {
    struct eco_emulated_operand a, b;
    const float *bias; /* [b.rows] or NULL */
    float *c, *parts;  /* parts: ECO_EMULATED_PART_BYTES for every block, or NULL */
    size_t c_row;
    int32_t k; /* at most ECO_EMULATED_MOST_K, and at least the k of both operands */
    bool add;
    bool from_end; /* of a step's product: goes through k backwards, beginning with what the L2
                      still has of the last step */
};

/* Prepares one operand of a product with this k. overlap, for an operand that is not transposed: as
 * for eco_launch_emulated_step, which must then use it, too. */
cudaError_t eco_launch_emulated_prepare(const struct eco_emulated_operand *operand, int32_t k,
                                        bool overlap, cudaStream_t stream);
/* Prepares both. */
cudaError_t eco_launch_emulated_prepare_both(const struct eco_emulated_call *call,
                                             cudaStream_t stream);
/* The product of prepared operands. clusters of ECO_EMULATED_PAIR blocks: at most as many as fit
 * the device, and as there are pairs of tiles, or with parts pairs of pieces. */
cudaError_t eco_launch_emulated(const struct eco_emulated_call *call, int32_t clusters,
                                cudaStream_t stream);

/* How a step's product gets the rows of B. */
enum eco_emulated_kind {
    ECO_EMULATED_SPLITTING, /* pairs: each block splits the rows that it needs */
    ECO_EMULATED_PRESPLIT,  /* pairs: an earlier launch has prepared the rows */
    ECO_EMULATED_PRESPLIT_SINGLES,
    ECO_EMULATED_KINDS
};
/* Tiles: their rows of A (doubled for each height), their columns of C (for each width), and the
 * blocks that share a tile, at most one for each piece of k. */
enum {
    ECO_EMULATED_LEAST_ROWS = 64,
    ECO_EMULATED_LEAST_COLUMNS = 32,
    ECO_EMULATED_HEIGHTS = 2,
    ECO_EMULATED_WIDTHS = 2,
    ECO_EMULATED_SLICES = 8,
    ECO_EMULATED_MOST_COLUMNS = ECO_EMULATED_LEAST_COLUMNS * 65535 /* of a launch with any tiles */
};
struct eco_emulated_cut {
    enum eco_emulated_kind kind;
    int32_t height, width, slices;
};
static inline int32_t eco_emulated_rows(const struct eco_emulated_cut *cut)
{
    return ECO_EMULATED_LEAST_ROWS << cut->height;
}
static inline int32_t eco_emulated_columns(const struct eco_emulated_cut *cut)
{
    return ECO_EMULATED_LEAST_COLUMNS << cut->width;
}

/* The same for few rows of B, which is not transposed; C is transposed [b.rows,a.rows], without
 * bias. overlap: becomes resident while the preceding kernel computes B; A is complete. */
cudaError_t eco_launch_emulated_step(const struct eco_emulated_call *call,
                                     const struct eco_emulated_cut *cut, bool overlap,
                                     cudaStream_t stream);
/* Clusters of 1, 2 ... blocks of that kernel that run at once; 0: none, or unknown. */
void eco_emulated_step_count(int32_t clusters[ECO_EMULATED_SLICES]);

/* Once for a device. usable: there is code for it. */
cudaError_t eco_emulated_load(bool *usable);
cudaError_t eco_emulated_prepare_load(void); /* parts of that */
cudaError_t eco_emulated_step_load(bool *usable);
/* For one kernel. */
cudaError_t eco_emulated_load_kernel(const void *kernel, int shared_bytes, bool *usable);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_GEMM_EMULATED_F32_ARGS_H */
