/*
 * The calls between the host's side of the CUDA backend and its kernels: pointers, sizes, strides
 * and element types, nothing else.  Strides are in elements.  Every launch only queues; it returns
 * what the launch returned.
 */
#ifndef ECO_GPU_KERNELS_H
#define ECO_GPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "common/cell/cell.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one stage of a cell over the [N,H] plane of one step, cell.cuh ------------------------- */

/*
 * As on a CPU: inside a row, arrays with several H-wide columns (acc, save, operand, dacc,
 * doperand) have them H apart; pointers a stage does not use may be NULL.  Masked rows (t >=
 * length), forward: operands become 0; in the last stage every next state becomes the state before
 * (next[0] becomes 0 if projected) and y 0.  Backward: dacc and operands become 0, carry stays.
 * Elements: save, operand, dacc, y and most states are of the type of rows; acc, carry, dnext,
 * doperand, mean and vector of the type of sums.
 */
struct eco_stage_call {
    int32_t rows, hidden, t;
    int32_t n_states, n_slots, n_dacc;
    uint32_t means;       /* bit m: this stage stores mean m; a row is then one block's */
    uint32_t wide_states; /* bit s: state s is kept as a sum, not in the type of rows */
    bool wide_dy;         /* dy is, too */
    bool last, projected, training;
    uint32_t layer, direction;
    uint64_t seed;
    const int32_t *lengths;
    const void *vector;
    const void *state[ECO_MAX_STATES];
    void *next[ECO_MAX_STATES], *carry[ECO_MAX_STATES];
    size_t state_row[ECO_MAX_STATES], next_row[ECO_MAX_STATES], carry_row[ECO_MAX_STATES];
    void *save, *operand, *mean, *y, *dacc;
    size_t save_row, operand_row, mean_row, y_row, dacc_row;
    const void *acc, *dnext, *dy, *doperand;
    size_t acc_row, dnext_row, dy_row, doperand_row;
};

/* An instruction of a stage that was not compiled; 16 bytes: a program is a kernel's argument. */
struct eco_instruction {
    uint8_t op, index;
    int16_t a, b, c;
    double value;
};
struct eco_interpreted_call {
    struct eco_stage_call call;
    int32_t n;
    struct eco_instruction code[ECO_MAX_CODE];
};

typedef void (*eco_stage_kernel)(const struct eco_stage_call call);
struct eco_cell_kernels {
    eco_stage_kernel forward[ECO_MAX_STAGES], backward[ECO_MAX_STAGES];
};

/* One for each type of rows: cell_f32.cu and so on.  overlap: put in place before the kernel ahead
 * has ended (compute capability 9.0). */
struct eco_stage_launches {
    cudaError_t (*compiled)(int builtin, bool backward, int stage,
                            const struct eco_stage_call *call, bool overlap, cudaStream_t stream);
    cudaError_t (*interpreted)(bool backward, const struct eco_interpreted_call *call, bool overlap,
                               cudaStream_t stream);
};
extern const struct eco_stage_launches eco_stages_f32, eco_stages_f64, eco_stages_bf16,
    eco_stages_f16;

/* ---- moving rows, move.cu -------------------------------------------------------------------- */

/* A block of rows of many steps: element (t, n, i) at t*step + n*row + i. */
struct eco_plane {
    void *data;
    size_t step, row;
    ecornn_type type;
};

/*
 * to[t,n,:] = from[t,n,:], for t in [t0, t0 + steps), all n and `width` elements, one after the
 * other: padding becomes 0 (lengths not NULL), dropout, addition to what is there.  A NULL
 * from.data stands for zeros.  Steps count from t0 in both planes.
 */
struct eco_move_call {
    struct eco_plane to, from;
    int32_t steps, rows, width, t0;
    const int32_t *lengths;
    bool add;
    bool drop; /* dropout by (layer, t, n, i): below the threshold 0, else times scale */
    uint32_t layer;
    uint64_t seed, threshold;
    double scale;
};
cudaError_t eco_launch_move(const struct eco_move_call *call, cudaStream_t stream);

/* h = P u of one step, and the state before: next and y, masked rows as above. */
struct eco_project_call {
    struct eco_plane h, before, next, y; /* y.data NULL: unwanted */
    int32_t rows, width, t;
    const int32_t *lengths;
};
cudaError_t eco_launch_project(const struct eco_project_call *call, cudaStream_t stream);

/* dh = carry + dy, 0 in masked rows; the carry of the others becomes 0. */
struct eco_project_back_call {
    struct eco_plane dh, carry, dy; /* dy.data NULL: 0 */
    int32_t rows, width, t;
    const int32_t *lengths;
};
cudaError_t eco_launch_project_back(const struct eco_project_back_call *call, cudaStream_t stream);

/* ---- columns, column.cu ---------------------------------------------------------------------- */

/* H-wide groups of columns; group k has its own place elsewhere. */
struct eco_columns_call {
    struct eco_plane rows_of; /* acc or dacc: [rows, groups*H], dense in steps */
    void *vectors;            /* [*,H]: biases, or gradients of vectors */
    ecornn_type vector_type;
    int32_t rows, hidden, groups;
    int16_t place[ECO_MAX_PARAMS]; /* group k of the vectors (fill), of a row (sum); -1: zeros */
    bool add;
};
/* Row r, group k = vectors[place[k]], or 0: what products add to. */
cudaError_t eco_launch_fill(const struct eco_columns_call *call, cudaStream_t stream);
/* vectors[k] (+)= sum over rows of group place[k]; in an order that depends on the sizes alone. */
cudaError_t eco_launch_sum(const struct eco_columns_call *call, cudaStream_t stream);

/* Is there code for the current device in this module? */
cudaError_t eco_kernels_load(void);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_KERNELS_H */
