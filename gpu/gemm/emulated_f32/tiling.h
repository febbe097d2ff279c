/*
 * How products of split operands are divided into pieces of k and clusters of blocks, and the room
 * and time they take. Knows no run and no device.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_TILING_H
#define ECO_GPU_GEMM_EMULATED_F32_TILING_H

#include "common/util.h"
#include "gpu/gemm/emulated_f32/args.h"

struct eco_gpu_rates;

/* With fewer terms a chain of multiply-adds is more accurate. */
enum { ECO_EMULATED_LEAST_TERMS = 64 };
/* Preferred room, for both operands and parts of C. */
enum { ECO_EMULATED_ROOM_BYTES = 64 << 20 };

/* ---- operands, operands.c ---------------------------------------------------------------------
 */

/* C[m,n] = A[m,k] B[n,k]^T */
struct eco_emulated_size {
    int32_t m, n, k;
};

/* Tiles of an operand's rows, stages of k, and pairs of tiles of C. */
static inline int32_t eco_emulated_tiles(int32_t rows)
{
    return eco_ceil_div(rows, ECO_EMULATED_TILE);
}

static inline int32_t eco_emulated_stages(int32_t k)
{
    return eco_ceil_div(k, ECO_EMULATED_DEPTH);
}

static inline int64_t eco_emulated_pairs(struct eco_emulated_size size)
{
    return (int64_t)eco_ceil_div(eco_emulated_tiles(size.m), ECO_EMULATED_PAIR) *
           eco_emulated_tiles(size.n);
}

/* Bytes of the scales of an operand, and of its k tiles for k terms. */
size_t eco_emulated_scale_bytes(int32_t rows);
size_t eco_emulated_piece_bytes(enum eco_emulated_form form, int32_t rows, int32_t k);

/* Bytes of a prepared operand: its scales, then its k tiles. */
size_t eco_emulated_bytes(enum eco_emulated_form form, int32_t rows, int32_t k);
/* Sets the operand's addresses. */
void eco_emulated_place(struct eco_emulated_operand *operand, void *at);
/* Seconds of preparing it. */
double eco_emulated_prepare_time(const struct eco_gpu_rates *rates, enum eco_emulated_form form,
                                 int32_t rows, int32_t k);

/* ---- large products -------------------------------------------------------------------------- */

/* Pieces of k, multiples of ECO_EMULATED_DEPTH except the last; 0: there is no room. Clusters share
 * tiles of C, or each has its own. */
struct eco_emulated_plan {
    int32_t k;
    bool shared;
    double time; /* s */
};
/* operands.c: the part of k for which there is room; 0: none. */
int32_t eco_emulated_length(struct eco_emulated_size size, int32_t processors, size_t room,
                            bool shared);
/* On `processors` multiprocessors. shared: clusters share tiles (0 or 1), or whatever is faster. */
struct eco_emulated_plan eco_emulated_plan(const struct eco_gpu_rates *rates,
                                           struct eco_emulated_size size, int32_t processors,
                                           size_t room, int shared);
/* Clusters for a piece of this k; no cluster is idle. */
int32_t eco_emulated_clusters(const struct eco_emulated_plan *plan, struct eco_emulated_size size,
                              int32_t k, int32_t processors);

/* ---- products of steps ----------------------------------------------------------------------- */

struct eco_emulated_step {
    struct eco_emulated_cut cut;
    double time; /* s */
};
/* The available choices, a bit for each; in slices bit 0 stands for one. */
struct eco_emulated_choices {
    unsigned kinds, heights, widths, slices;
    bool any_width; /* also widths that do not suit the rows */
};
#define ECO_EMULATED_ANY(kinds)                                                                    \
    ((struct eco_emulated_choices){(kinds), (1u << ECO_EMULATED_HEIGHTS) - 1,                      \
                                   (1u << ECO_EMULATED_WIDTHS) - 1,                                \
                                   (1u << ECO_EMULATED_SLICES) - 1, false})
/* Clusters of 1, 2 ... blocks that run at once (0 at the end), shared by `lanes` lanes. */
struct eco_emulated_on {
    const struct eco_gpu_rates *rates;
    const int32_t *clusters; /* [ECO_EMULATED_SLICES] */
    int32_t lanes;
};
/* m rows times a prepared operand of n rows. Time 0: none of the choices is possible. */
struct eco_emulated_step eco_emulated_step(const struct eco_emulated_choices *choices,
                                           struct eco_emulated_size size,
                                           const struct eco_emulated_on *on);

#endif /* ECO_GPU_GEMM_EMULATED_F32_TILING_H */
