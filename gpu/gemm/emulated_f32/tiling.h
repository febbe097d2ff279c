/*
 * How products of split operands are cut: pieces of k, clusters of blocks; what they take of room
 * and time.  Knows no run and no device.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_TILING_H
#define ECO_GPU_GEMM_EMULATED_F32_TILING_H

#include "gpu/gemm/emulated_f32/args.h"

/* Of so few terms a chain of multiply-adds is more accurate. */
enum { ECO_SPLIT_LEAST_TERMS = 64 };
/* Room that products like, for both operands and parts of C. */
enum { ECO_SPLIT_ROOM_BYTES = 64 << 20 };

/* ---- operands -------------------------------------------------------------------------------- */

/* Bytes that an operand takes, prepared: its scales first, then its pieces. */
size_t eco_split_bytes(enum eco_split_form form, int32_t rows, int32_t k);
/* It lies there. */
void eco_split_place(struct eco_split_operand *operand, void *at);
/* Seconds that it takes. */
double eco_split_prepare_time(enum eco_split_form form, int32_t rows, int32_t k);

/* ---- large products -------------------------------------------------------------------------- */

/* C[m,n] = A[m,k] B[n,k]^T */
struct eco_split_size {
    int32_t m, n, k;
};

/* So much of k at a time, a multiple of ECO_SPLIT_DEPTH, or less the last time; 0: there is no
 * room.  Clusters share tiles of C, or each has its own. */
struct eco_split_plan {
    int32_t k;
    bool shared;
    double time; /* s */
};
/* On a device with so many multiprocessors; shared: do clusters share tiles, 0 or 1, else as is
 * faster. */
struct eco_split_plan eco_split_plan(struct eco_split_size size, int32_t processors, size_t room,
                                     int shared);
/* Clusters for a part of it with so much of k: none without anything to do. */
int32_t eco_split_clusters(const struct eco_split_plan *plan, struct eco_split_size size, int32_t k,
                           int32_t processors);

/* ---- products of steps ----------------------------------------------------------------------- */

struct eco_split_step {
    struct eco_split_cut cut;
    double time; /* s */
};
/* What there is to choose from: a bit for each, of slices bit 0 for one of them. */
struct eco_split_choices {
    unsigned kinds, heights, widths, slices;
    bool any_width; /* also one that the rows do not want */
};
#define ECO_SPLIT_ANY(kinds)                                                                       \
    ((struct eco_split_choices){(kinds), (1u << ECO_SPLIT_HEIGHTS) - 1,                            \
                                (1u << ECO_SPLIT_WIDTHS) - 1, (1u << ECO_SPLIT_SLICES) - 1,        \
                                false})
/* Of m rows by a prepared operand of n; clusters of 1, 2 ... blocks that run at once, which so many
 * such products beside each other share; clusters[0] is not 0.  Its time is 0: none of the choices
 * can be. */
struct eco_split_step eco_split_step(const struct eco_split_choices *choices,
                                     struct eco_split_size size,
                                     const int32_t clusters[ECO_SPLIT_SLICES], int32_t lanes);

#endif /* ECO_GPU_GEMM_EMULATED_F32_TILING_H */
