/*
 * How products of split operands are cut: pieces of k, clusters of blocks; what they take of room
 * and time.  Knows no run and no device.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_TILING_H
#define ECO_GPU_GEMM_EMULATED_F32_TILING_H

#include "gpu/gemm/emulated_f32/args.h"

struct eco_gpu_rates;

/* Of so few terms a chain of multiply-adds is more accurate. */
enum { ECO_EMULATED_LEAST_TERMS = 64 };
/* Room that products like, for both operands and parts of C. */
enum { ECO_EMULATED_ROOM_BYTES = 64 << 20 };

/* ---- operands -------------------------------------------------------------------------------- */

/* Bytes that an operand takes, prepared: its scales first, then its k tiles. */
size_t eco_emulated_bytes(enum eco_emulated_form form, int32_t rows, int32_t k);
/* It lies there. */
void eco_emulated_place(struct eco_emulated_operand *operand, void *at);
/* Seconds that it takes. */
double eco_emulated_prepare_time(const struct eco_gpu_rates *rates, enum eco_emulated_form form,
                                 int32_t rows, int32_t k);

/* ---- large products -------------------------------------------------------------------------- */

/* C[m,n] = A[m,k] B[n,k]^T */
struct eco_emulated_size {
    int32_t m, n, k;
};

/* So much of k at a time, a multiple of ECO_EMULATED_DEPTH, or less the last time; 0: there is no
 * room.  Clusters share tiles of C, or each has its own. */
struct eco_emulated_plan {
    int32_t k;
    bool shared;
    double time; /* s */
};
/* On a device with so many multiprocessors; shared: do clusters share tiles, 0 or 1, else as is
 * faster. */
struct eco_emulated_plan eco_emulated_plan(const struct eco_gpu_rates *rates,
                                           struct eco_emulated_size size, int32_t processors,
                                           size_t room, int shared);
/* Clusters for a part of it with so much of k: none without anything to do. */
int32_t eco_emulated_clusters(const struct eco_emulated_plan *plan, struct eco_emulated_size size,
                              int32_t k, int32_t processors);

/* ---- products of steps ----------------------------------------------------------------------- */

struct eco_emulated_step {
    struct eco_emulated_cut cut;
    double time; /* s */
};
/* What there is to choose from: a bit for each, of slices bit 0 for one of them. */
struct eco_emulated_choices {
    unsigned kinds, heights, widths, slices;
    bool any_width; /* also one that the rows do not want */
};
#define ECO_EMULATED_ANY(kinds)                                                                    \
    ((struct eco_emulated_choices){(kinds), (1u << ECO_EMULATED_HEIGHTS) - 1,                      \
                                   (1u << ECO_EMULATED_WIDTHS) - 1,                                \
                                   (1u << ECO_EMULATED_SLICES) - 1, false})
/* Clusters of 1, 2 ... blocks that run at once, of which the first are not 0; so many products
 * beside each other share them. */
struct eco_emulated_on {
    const struct eco_gpu_rates *rates;
    const int32_t *clusters; /* [ECO_EMULATED_SLICES] */
    int32_t lanes;
};
/* Of m rows by a prepared operand of n.  Its time is 0: none of the choices can be. */
struct eco_emulated_step eco_emulated_step(const struct eco_emulated_choices *choices,
                                           struct eco_emulated_size size,
                                           const struct eco_emulated_on *on);

#endif /* ECO_GPU_GEMM_EMULATED_F32_TILING_H */
