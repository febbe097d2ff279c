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

/* What floats are multiplied as.  Large products have pairs only. */
enum eco_emulated_form {
    ECO_EMULATED_PAIRS,  /* two numbers of F16 each */
    ECO_EMULATED_SINGLES /* the nearest number of F16 */
};

/*
 * An operand is prepared in k tiles: so many rows by so many of k, the rest zeros; of pairs first
 * all the large numbers, then the small ones; a line of 128 bytes for a row, whose groups of 16
 * bytes lie as the matrix instructions of arch/wgmma.cuh want them.  Pieces of a tile of
 * rows follow each other.
 */
enum {
    ECO_EMULATED_TILE = 128,
    ECO_EMULATED_DEPTH = 64,
    ECO_EMULATED_PLANE_BYTES = 2 * ECO_EMULATED_TILE * ECO_EMULATED_DEPTH,
    ECO_EMULATED_K_TILE_BYTES = 2 * ECO_EMULATED_PLANE_BYTES, /* of pairs */
    /* what a block puts aside where blocks share tiles of C */
    ECO_EMULATED_PART_BYTES = 2 * 4 * ECO_EMULATED_TILE * ECO_EMULATED_TILE,
    ECO_EMULATED_MOST_K = 16384,
    ECO_EMULATED_PAIR = 2 /* blocks of a cluster, that read one operand together */
};

/* A [rows,k], turned [k,rows], of floats; of the turned one zeros are before `begin`, where its
 * data begin. */
struct eco_emulated_operand {
    enum eco_emulated_form form;
    const float *data;
    size_t row;
    int32_t rows, k, begin;
    bool turned;
    char *k_tiles; /* [tiles of rows][tiles of the product's k] */
    float *scales; /* [rows, in whole tiles]: what rows were multiplied by; infinite or NaN: a row
                    * that is not finite; NULL: not prepared */
};

/* C[a.rows,b.rows] (+)= A B^T (+ bias). */
struct eco_emulated_call {
    struct eco_emulated_operand a, b;
    const float *bias; /* [b.rows] or NULL */
    float *c, *parts;  /* parts: ECO_EMULATED_PART_BYTES for every block, or NULL */
    size_t c_row;
    int32_t k; /* ECO_EMULATED_MOST_K at most, and at least that of both operands */
    bool add;
    bool from_end; /* of a step's product: k from its end, what the L2 still has of a step before */
};

/* One operand of a product of so many k.  overlap, of one that lies straight: as
 * eco_launch_emulated_step's, which then has it, too. */
cudaError_t eco_launch_emulated_prepare(const struct eco_emulated_operand *operand, int32_t k,
                                        bool overlap, cudaStream_t stream);
/* Both. */
cudaError_t eco_launch_emulated_prepare_both(const struct eco_emulated_call *call,
                                             cudaStream_t stream);
/* The product of prepared operands.  clusters of ECO_EMULATED_PAIR blocks: as many as fit the
 * device at most, nor more than pairs of tiles; with parts, than pairs of pieces. */
cudaError_t eco_launch_emulated(const struct eco_emulated_call *call, int32_t clusters,
                                cudaStream_t stream);

/* How a step's product is computed: what becomes of its rows of B. */
enum eco_emulated_kind {
    ECO_EMULATED_SPLITTING, /* pairs: each block splits those that it needs */
    ECO_EMULATED_PRESPLIT,  /* pairs: they are prepared, by a launch before */
    ECO_EMULATED_PRESPLIT_SINGLES,
    ECO_EMULATED_KINDS
};
/* In tiles of so many rows of A, twice that for each height, and columns of C, for each width; so
 * many blocks, not more than pieces of k, share one. */
enum {
    ECO_EMULATED_LEAST_ROWS = 64,
    ECO_EMULATED_LEAST_COLUMNS = 32,
    ECO_EMULATED_HEIGHTS = 2,
    ECO_EMULATED_WIDTHS = 2,
    ECO_EMULATED_SLICES = 8,
    ECO_EMULATED_MOST_COLUMNS =
        ECO_EMULATED_LEAST_COLUMNS * 65535 /* of a launch, whatever its tiles */
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

/* The same, of few rows of B, which lies straight, C turned [b.rows,a.rows], no bias.  overlap: put
 * in place while the kernel ahead computes B; A is there. */
cudaError_t eco_launch_emulated_step(const struct eco_emulated_call *call,
                                     const struct eco_emulated_cut *cut, bool overlap,
                                     cudaStream_t stream);
/* How many clusters of 1, 2 ... blocks of that kernel run at once; 0: none, or the device cannot
 * say. */
void eco_emulated_step_count(int32_t clusters[ECO_EMULATED_SLICES]);

/* Once for a device.  usable: there is code for it. */
cudaError_t eco_emulated_load(bool *usable);
cudaError_t eco_emulated_prepare_load(void); /* parts of that */
cudaError_t eco_emulated_step_load(bool *usable);
/* Of one kernel. */
cudaError_t eco_emulated_load_kernel(const void *kernel, int shared_bytes, bool *usable);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_GEMM_EMULATED_F32_ARGS_H */
