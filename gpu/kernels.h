/*
 * The calls between the host side of the CUDA backend and its kernels: pointers, sizes, strides and
 * element types only. Strides are in elements. Launches are asynchronous and return CUDA's status.
 */
#ifndef ECO_GPU_KERNELS_H
#define ECO_GPU_KERNELS_H

#include <cuda_runtime_api.h>

#include "common/cell/cell.h"
#include "gpu/gemm/grouped/args.h"
#include "gpu/fused_step/args.h"
#include "gpu/persistent/args.h"
#include "gpu/wide_step/args.h"
#include "gpu/cell/args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the stages of cells, cell/stages.cuh and device/device.c -------------------------------- */

typedef void (*eco_stage_kernel)(const struct eco_stage_call call);
typedef void (*eco_interpreter_kernel)(const struct eco_interpreted_call call);
struct eco_cell_kernels {
    eco_stage_kernel forward[ECO_MAX_STAGES], backward[ECO_MAX_STAGES];
};

/* The kernels of one type of rows: instances/table_stages_f32.cu and so on. */
struct eco_stage_kernels {
    const struct eco_cell_kernels *builtin; /* by number of the cell */
    eco_interpreter_kernel interpret[2];    /* [forward, backward] */
};
extern const struct eco_stage_kernels eco_stages_f32, eco_stages_f64, eco_stages_bf16,
    eco_stages_f16;
/* For plans with resets. */
extern const struct eco_stage_kernels eco_stages_f32_resets, eco_stages_f64_resets,
    eco_stages_bf16_resets, eco_stages_f16_resets;

/* overlap: may become resident before its predecessor has ended (compute capability 9.0). */
cudaError_t eco_launch(const void *kernel, dim3 blocks, dim3 threads, void **arguments,
                       bool overlap, cudaStream_t stream);
/* kernel: one of these, or a cudaKernel_t. argument: begins with shape. */
cudaError_t eco_launch_stage(const void *kernel, const struct eco_stage_call *shape,
                             const void *argument, bool overlap, cudaStream_t stream);

/* ---- moving rows, copy/move.cu --------------------------------------------------------------- */

/* Rows of many steps: element (t, n, i) is at t*step + n*row + i. */
struct eco_plane {
    void *data;
    size_t step, row;
    ecornn_type type;
};

/*
 * to[t,n,:] = from[t,n,:] for t in [t0, t0 + steps), all n and `width` elements, with these changes
 * in order: padding (lengths not NULL) becomes padding[n,:]; dropout; addition to the destination.
 * NULL data of from or padding stand for zeros. Steps count from t0 in both planes.
 */
struct eco_move_call {
    struct eco_plane to, from, padding;
    int32_t steps, rows, width, t0;
    int32_t zeros; /* columns of `to` after these, which become 0 */
    const int32_t *lengths;
    bool spreads; /* every column is the first of `from` */
    bool sums;    /* the first column of `to` is the sum of those of `from` */
    bool add;
    bool drop; /* dropout by (layer, t, n, i): below the threshold 0, else multiplied by scale */
    uint32_t layer;
    uint64_t seed, threshold;
    uint32_t draw_step, draw_row; /* random numbers count steps and rows from these */
    double scale;
    bool orders;  /* the next kernel may become resident once all before this one have ended */
    bool overlap; /* as of eco_launch(); only if it orders */
};
cudaError_t eco_launch_move(const struct eco_move_call *call, cudaStream_t stream);

/* Zeroes `width` elements at every `row` elements from data on, `count` times. */
struct eco_gaps_call {
    void *data;
    size_t row;
    int32_t width;
    int64_t times;
    size_t bytes; /* of an element: 2, 4 or 8 */
};
cudaError_t eco_launch_gaps(const struct eco_gaps_call *call, cudaStream_t stream);

/* to[columns,rows] = from[rows,columns] transposed, contiguous, elements of 2, 4 or 8 bytes. */
struct eco_transpose_call {
    void *to;
    const void *from;
    int32_t rows, columns;
    size_t bytes;
};
cudaError_t eco_launch_transpose(const struct eco_transpose_call *call, cudaStream_t stream);

/*
 * to[t,n,:] = start[n,:] if resets[t,n] is not 0, else from[t,n,:]; NULL data stand for zeros.
 * Steps count from t0 in planes and bytes. Bytes of rows that have ended are ignored.
 */
struct eco_patch_call {
    struct eco_plane to, from, start;
    const uint8_t *resets;
    const int32_t *lengths;
    int32_t steps, rows, width, t0;
    int32_t end;   /* steps from here on have no bytes */
    int32_t zeros; /* columns of `to` after these, which become 0 */
};
cudaError_t eco_launch_patch(const struct eco_patch_call *call, cudaStream_t stream);

/* Fills `to` with the element of 2, 4 or 8 bytes that `element` begins with. */
cudaError_t eco_launch_set(void *to, uint64_t element, size_t element_bytes, size_t bytes,
                           cudaStream_t stream);

/* sum[n,:] += carry[n,:] and carry[n,:] = 0, if resets[n] is not 0 and row n has a step t. */
struct eco_cut_call {
    struct eco_plane sum, carry; /* sum.data may be NULL */
    const uint8_t *resets;       /* [N], of step t; or NULL */
    const int32_t *lengths;
    int32_t rows, width, t;
};
cudaError_t eco_launch_cut(const struct eco_cut_call *call, cudaStream_t stream);

/* h = P u of one step, and the state before it: next and y, with masked rows as above. If the next
 * step resets a row, next is its start. */
struct eco_project_call {
    struct eco_plane h, before, next, y; /* y.data may be NULL */
    int32_t rows, width, t;
    const int32_t *lengths;
    struct eco_plane start;
    const uint8_t *resets; /* [N], of step then; or NULL */
    int32_t then;
};
cudaError_t eco_launch_project(const struct eco_project_call *call, cudaStream_t stream);

/* dh = carry + dy, 0 in masked rows; carry of other rows becomes 0. First carry is cut. */
struct eco_project_back_call {
    struct eco_plane dh, carry, dy; /* dy.data NULL: 0 */
    int32_t rows, width, t;
    const int32_t *lengths;
    struct eco_cut_call cut; /* same carry, rows and width */
};
cudaError_t eco_launch_project_back(const struct eco_project_back_call *call, cudaStream_t stream);

/* ---- columns, copy/columns.cu ---------------------------------------------------------------- */

/* H-wide groups of columns; group k has position place[k] in the other array. */
struct eco_columns_call {
    struct eco_plane rows_of; /* acc or dacc: [rows, groups*column], steps contiguous */
    void *vectors;            /* [*,H]: biases, or gradients of vectors */
    ecornn_type vector_type;
    int32_t rows, hidden, groups;
    int32_t column;                /* elements from one group to the next; beyond H: zeros */
    int16_t place[ECO_MAX_PARAMS]; /* group k of the vectors (fill), of a row (sum); -1: zeros */
    bool add;
    void *parts; /* sum: room for partial sums, at least one value for each column */
    size_t parts_bytes;
};
/* Row r, group k = vectors[place[k]], or 0: what products add to. */
cudaError_t eco_launch_fill(const struct eco_columns_call *call, cudaStream_t stream);
/* vectors[k] (+)= sum over rows of group place[k], in an order that depends on sizes alone.
 * overlap: the second of two launches becomes resident early. */
cudaError_t eco_launch_sum(const struct eco_columns_call *call, bool overlap, cudaStream_t stream);

/* ---- the exchange of all steps in one launch, persistent/exchange_init.cu -------------------- */

/* Prepares the exchange of n launched (layer, direction)s: all bits of a number are set if a unit
 * will write it, else they are 0. Sizes are those of eco_persistent_call. */
enum { ECO_MOST_EXCHANGES = 4 };
/* Resets of the same launches as words. Bit b of word w is of a launch's step s = 32 w + b - 1, and
 * set if bytes[t + s t_step] of the row is, from time step `first` up to the row's length. */
struct eco_reset_words {
    const uint8_t *bytes;                /* [steps,N]; NULL: none */
    const int32_t *lengths;              /* [N], or NULL */
    int32_t steps;                       /* of the run */
    uint32_t *words[ECO_MOST_EXCHANGES]; /* [(steps of the launch + 2) / 32, rounded up, N] */
    int32_t first[ECO_MOST_EXCHANGES], t[ECO_MOST_EXCHANGES], t_step[ECO_MOST_EXCHANGES];
};
struct eco_exchange_call {
    /* [steps, groups, blocks], each [k blocks, row_tiles, 32] of 16 bytes and, with scales, [scale
     * blocks, row_tiles, 2] */
    void *exchange[ECO_MOST_EXCHANGES];
    int32_t n, steps, groups, blocks, row_tiles;
    int32_t k_blocks[ECO_PERSISTENT_PRODUCTS], width[ECO_PERSISTENT_PRODUCTS]; /* of a block */
    /* with scales: numbers of a scale block, else 0; numbers of each unit; scale blocks; units of
     * each */
    int32_t scale_block[ECO_PERSISTENT_PRODUCTS], runs[ECO_PERSISTENT_PRODUCTS], scale_blocks, run;
    int32_t rows, group_rows, column, hidden;
    int32_t operand; /* bytes of a number */
    int32_t means;   /* sums for means, after all blocks: vectors of 16 bytes, in a group */
    bool whole;      /* every number belongs to a unit of a batch row */
    struct eco_reset_words resets;
};
/* overlap: runs with the preceding kernel, which does not touch the exchange. */
cudaError_t eco_launch_exchange(const struct eco_exchange_call *call, bool overlap,
                                cudaStream_t stream);

/* ---- a step in one launch, instances/table_fused_step_bf16.cu and so on ---------------------- */

/* Kernels of one cell; NULL: no kernel of that shape. The list ends with ECO_FUSED_END. */
struct eco_fused_kernel {
    int cell, accs;
    const void *by_shape[ECO_FUSED_SHAPES];
};
extern const struct eco_fused_kernel *const eco_fused_bf16;
extern const struct eco_fused_kernel *const eco_fused_f16;
extern const struct eco_fused_kernel *const eco_fused_f32;
extern const struct eco_fused_kernel *const eco_fused_f32_fast;

/* ---- a step of many rows in one launch, instances/table_wide_step_bf16.cu -------------------- */

/* Kernels of one cell; NULL: no kernel. step: without and with values that are saved for backward;
 * back: its stage of a step back, for many rows. The list ends with ECO_WIDE_END. */
struct eco_wide_kernel {
    int cell, accs;
    const void *step[2][ECO_WIDE_SHAPES], *back;
};
extern const struct eco_wide_kernel *const eco_wide_bf16;
extern const struct eco_wide_kernel *const eco_wide_f16;
extern const struct eco_wide_kernel *const eco_wide_f32_fast;

/* ---- products of few rows, instances/table_grouped_bf16.cu and so on ------------------------- */

/* [ECO_GROUPED_SHAPES] */
extern const void *const *const eco_grouped_bf16;
extern const void *const *const eco_grouped_f16;
extern const void *const *const eco_grouped_f32;
extern const void *const *const eco_grouped_f32_fast;

/* The compute capability, times ten, of the kernel's code on this device; 0: none. */
cudaError_t eco_kernel_version(const void *kernel, int *version);

/* Has this module code for the current device? overlap: the code waits for preceding kernels
 * itself, so it may become resident before they have ended. */
cudaError_t eco_kernels_load(bool *overlap);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_KERNELS_H */
