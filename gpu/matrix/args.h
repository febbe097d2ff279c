/*
 * The calls between a run of a cell with a matrix state and its kernels.  `real` is the type of
 * sums: float, or double for rows of F64.
 *
 * A head of a row has a state S [K,V].  A step is
 *
 *     u = S^T b    d = v + scale u    S' = (w on the rows of S) + k d^T + a u^T    o = S'^T q
 *
 * (common/cell/cell.h, struct eco_matrix_rule).  A run goes through its steps in slabs.  Of a slab,
 * kernels keep the values of the text, which they compute for all steps at once, in arrays
 * [steps,N,heads,width] of the workspace; a row of them is a slot.
 */
#ifndef ECO_GPU_MATRIX_ARGS_H
#define ECO_GPU_MATRIX_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/args.h"

enum {
    ECO_GPU_MATRIX_NODES = 80,   /* of a text, at most; their numbers are int8_t */
    ECO_GPU_MATRIX_COLUMNS = 32, /* of S in a block: one for each lane */
    ECO_GPU_MATRIX_WARPS = 16,   /* of a block, at most */
    ECO_GPU_MATRIX_CHUNK = 256,  /* steps of a chunk, at most */
    ECO_GPU_MATRIX_TILE = 8      /* steps whose values a forward block loads at once, at most */
};

/* Chunks by products (chunk.cuh). */
enum {
    ECO_GPU_MATRIX_CHUNK_STEPS = 64,
    ECO_GPU_MATRIX_CHUNK_LEAST = 32,   /* steps of a run */
    ECO_GPU_MATRIX_CHUNK_COLUMNS = 64, /* of S in a block */
    ECO_GPU_MATRIX_CHUNK_THREADS = 256,
    ECO_GPU_MATRIX_CHUNK_KEYS = 128,     /* at most */
    ECO_GPU_MATRIX_CHUNK_NUMBERS = 4,    /* of a step in memory: enum chunk_number */
    ECO_GPU_MATRIX_CHUNK_DOTS = 12,      /* of a step for gradients: enum chunk_dot, in parts */
    ECO_GPU_MATRIX_PLANES = 3,           /* of BF16 in a float */
    ECO_GPU_MATRIX_PAIR_ROW = 68,        /* floats of a row of pairs in shared memory */
    ECO_GPU_MATRIX_LOWER_FRAGMENTS = 10, /* of 16 rows and columns in a triangle of pairs */
    ECO_GPU_MATRIX_LOWER_BYTES = ECO_GPU_MATRIX_LOWER_FRAGMENTS * ECO_GPU_MATRIX_PLANES * 512
};

/* Bytes of a thread's numbers of S in forward: the rows of a warp, in one column. */
enum { ECO_GPU_MATRIX_ROW_BYTES = 128 };

/* Values that kernels for steps read, and gradients that they write. */
enum eco_gpu_matrix_term {
    ECO_GPU_MATRIX_DECAY,
    ECO_GPU_MATRIX_READ,
    ECO_GPU_MATRIX_SCALE,
    ECO_GPU_MATRIX_OTHER,
    ECO_GPU_MATRIX_KEY,
    ECO_GPU_MATRIX_QUERY,
    ECO_GPU_MATRIX_VALUE,
    ECO_GPU_MATRIX_TERMS
};

/* A node of the text, renumbered: unused ones are left out. */
struct eco_gpu_matrix_node {
    uint8_t op, kind; /* enum eco_opcode, eco_kind */
    uint8_t orders;   /* bits 1 << enum eco_gpu_matrix_order: those that need its value */
    int8_t a, b, c;   /* -1: none */
    int8_t copied;    /* the node whose value it has (eco_recipe_copies); -1: none */
    int32_t at;       /* of its values in the scratch of a warp, in reals */
};

/* Nodes to evaluate, from the first to the last: those before S that values_of_steps() computes,
 * for terms in slots and other states; those before S that derivatives read; all before S; and
 * those after it. */
enum eco_gpu_matrix_order {
    ECO_GPU_MATRIX_WANTED,
    ECO_GPU_MATRIX_SWEPT,
    ECO_GPU_MATRIX_BEFORE,
    ECO_GPU_MATRIX_AFTER,
    ECO_GPU_MATRIX_ORDERS
};
struct eco_gpu_matrix_nodes {
    int32_t count;
    uint8_t at[ECO_GPU_MATRIX_NODES];
};

/* Rows of the caller's: element j of head h in row r is at r*row + h*width + j. */
struct eco_gpu_matrix_rows {
    void *data; /* NULL: there are none */
    size_t row;
};

struct eco_gpu_matrix_source {
    struct eco_gpu_matrix_rows rows; /* a part of x, of the type of rows */
    void *slots;                     /* or real [slots,width]; both NULL: the rule lacks it */
    void *times;                     /* real [slots]: numbers that a value's rows are times */
    int16_t node;                    /* -1: the rule lacks it */
    int16_t part, by;                /* the nodes of rows and times; -1: none */
    int32_t width;
};

struct eco_gpu_matrix_call {
    struct eco_args args; /* the caller's */
    int32_t heads, K, V;
    int32_t first, steps, chunk; /* the slab; steps between states that are kept */
    int32_t blocks;              /* of columns */
    int32_t partials;            /* sums of gradients of a term: one, or one for each block */
    int32_t chunks;              /* of the run */
    int32_t resident;            /* blocks of backward */
    int32_t tile;                /* forward: steps whose values are loaded at once */
    /* decode: teams of warps of a block, and bytes of shared memory: the text's, and each team's */
    int32_t teams, values_bytes, team_bytes;
    bool one_block; /* decode: a block has all columns of a head */
    bool batch_major, reverse, repeats, training;
    bool remembers;  /* values of a step depend on those before it */
    bool numbers;    /* all WANTED values are numbers of a head, without sums or other states */
    bool direct;     /* y is what the step reads of S' */
    bool again;      /* forward for backward: from a kept state, and o alone is written */
    bool by_chunks;  /* by products */
    bool gates_keys; /* chunks: rows of keys are times their gates in memory */
    bool same_key;   /* what is read is the key, too */
    bool whole;      /* chunks: K is 64 or 128, V a multiple of 64, rows are aligned */
    bool retry;      /* of steps: columns where chunks gave up */
    bool of_other;   /* gradients of chunks: those of OTHER, and what it adds to the others */
    /* the text */
    int32_t nodes, node_values;         /* and the reals of their values */
    int32_t values;                     /* with what is carried; gradients follow */
    int32_t carried_at[ECO_MAX_STATES]; /* in a warp's scratch: other states between steps */
    int16_t out, y_node;                /* nodes: what is read of S', and y */
    int16_t next[ECO_MAX_STATES], previous[ECO_MAX_STATES]; /* -1: not used */
    uint8_t states, matrix;                                 /* their number; which is S */
    int32_t width[ECO_MAX_STATES];                          /* of a head */
    double start[ECO_MAX_STATES];
    struct eco_gpu_matrix_node node[ECO_GPU_MATRIX_NODES];
    double value[ECO_GPU_MATRIX_NODES]; /* of nodes that are constants */
    struct eco_gpu_matrix_nodes order[ECO_GPU_MATRIX_ORDERS];
    /* parts of x, in x or in arrays of their own */
    struct eco_gpu_matrix_rows part[ECO_MAX_PARTS], dpart[ECO_MAX_PARTS];
    int16_t part_node[ECO_MAX_PARTS]; /* -1: without effect */
    int32_t part_width[ECO_MAX_PARTS];
    uint8_t parts;
    /* in the reserve, real: of each head before each chunk */
    void *kept_matrix;          /* [N,heads,chunks,K,V] */
    void *kept[ECO_MAX_STATES]; /* the other states [N,heads,chunks,width] */
    /* in the workspace, real */
    struct eco_gpu_matrix_source term[ECO_GPU_MATRIX_TERMS];
    void *before[ECO_MAX_STATES];   /* other states before each step [slots,width] */
    void *carried[ECO_MAX_STATES];  /* states between slabs [N,heads,width]; S, too */
    void *dcarried[ECO_MAX_STATES]; /* their gradients */
    void *asked_other, *heard;      /* likewise, of a rule with `other` */
    void *asked, *solved;           /* pairs of a chunk [N,heads,chunks of the slab] */
    /* with a gate of each row: rows times gates, and the product of a chunk's */
    struct eco_gpu_matrix_source gated[ECO_GPU_MATRIX_TERMS];
    float *chunk_decay;      /* [N,heads,chunks of the slab,CHUNK_KEYS]; NULL: none */
    float *chunk_numbers;    /* likewise, [CHUNK_NUMBERS,STEPS] each */
    int32_t *chunk_large;    /* likewise: has it a number near the end of the range? */
    int32_t *retries;        /* [N,heads,blocks of CHUNK_COLUMNS] */
    void *chunk_gradients;   /* backward: of S after each chunk [N,heads,chunks of the slab,K,V] */
    void *o, *dout, *dvalue; /* [slots,V] */
    void *du;                /* likewise: with `other`, by chunks; else dvalue */
    void *dterm[ECO_GPU_MATRIX_TERMS]; /* [partials,slots,width], but of VALUE */
    void *room;                        /* backward: S after each step of a chunk, of each block of
                                          threads [chunk,columns,threads] */
    void *room_u;                      /* and u [chunk,columns] */
};

/* The kernels for a type of rows. */
struct eco_gpu_matrix_kernels {
    const void *values, *numbers, *after, *seed, *sweep, *begin, *finish;
    const void *forward[2][3], *backward[2][3],
        *decode[2][3]; /* [decay by rows][reads: not, u, u in a u^T] */
    /* [keys: 64, 128][planes of a key: 1, 3] */
    const void *pairs[2][2], *chunks[2][2], *chunks_back[2][2], *gradients[2][2];
    const void *gated_pairs[2], *gated_gradients[2]; /* [keys] */
};
extern const struct eco_gpu_matrix_kernels eco_gpu_matrix_f32, eco_gpu_matrix_f64,
    eco_gpu_matrix_bf16, eco_gpu_matrix_f16;

#endif /* ECO_GPU_MATRIX_ARGS_H */
