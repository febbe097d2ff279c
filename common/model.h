/*
 * The data every part agrees on: problem, layout, tape, plan and the arguments of a run.
 * Who computes them: plan/problem.c, plan/layout.c, plan/tape.c, plan/planner.c, lib/api_run.c.
 */
#ifndef ECO_MODEL_H
#define ECO_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/cell/cell.h"
#include "common/type.h"

struct eco_algo;
struct eco_backend;

/* ---- problem: the description made canonical ------------------------------------------------ */

enum { ECO_MAX_PROBLEM_TEXT = 160 };

struct eco_problem {
    const struct ecornn_cell *cell;
    int32_t T, N, I, H, P, L, D;
    bool projected; /* P is a projection; else P == H */
    bool training;
    bool fast; /* ECORNN_FAST_MATH */
    ecornn_direction direction;
    ecornn_order order;
    ecornn_type type, param_type, weight_type; /* as ecornn_desc, defaults filled in */
    float dropout;
    char text[ECO_MAX_PROBLEM_TEXT]; /* "lstm/f32/train/L2/bi/T100/N32/I512/H512" */
};

/* Input width of a layer: I, then D*P. */
int32_t eco_problem_input(const struct eco_problem *problem, int layer);
/* Width of state s: P for the output state, H for the others. */
int32_t eco_problem_width(const struct eco_problem *problem, int state);
/* Columns of R of an operand: P where it is the output state itself, else H. */
int32_t eco_problem_columns(const struct eco_problem *problem, int operand);
/* Is (layer, direction index d) run from the last step to the first? */
bool eco_problem_reversed(const struct eco_problem *problem, int d);

/* Description to problem, with a complete check of it; BAD_ARGUMENT or UNSUPPORTED. */
ecornn_status eco_problem_build(struct eco_problem *problem, const ecornn_desc *desc);
/* Problem string to description (see ecornn_desc_parse). */
ecornn_status eco_problem_parse(ecornn_desc *desc, const char *text, const ecornn_cell *cell);

/* Parameter number index of the block: what ecornn_param_get shows, and where it belongs. */
struct eco_param_place {
    ecornn_param param;
    int layer, direction;
    int recipe_param; /* in cell->recipe.param, or -1: the projection */
};
int eco_problem_params(const struct eco_problem *problem);
void eco_problem_param(const struct eco_problem *problem, int index, struct eco_param_place *place);
/* Elements of the whole block; SIZE_MAX on overflow. */
size_t eco_problem_param_elements(const struct eco_problem *problem);

/* ---- layout: where everything lies ---------------------------------------------------------- */

enum eco_block { ECO_BLOCK_NONE, ECO_BLOCK_WEIGHTS, ECO_BLOCK_WORKSPACE, ECO_BLOCK_RESERVE };

/* An array over steps and rows inside a block. */
struct eco_array {
    enum eco_block block;
    size_t offset; /* bytes from the block's start */
    size_t step;   /* elements from one step to the next; 0: every step the same one */
    size_t row;    /* elements from one batch row to the next */
    size_t wrap;   /* steps are taken modulo this; 0: as they are */
    ecornn_type type;
};

enum { ECO_ALIGNED_ROW = 8 };

/* What the chosen algorithm wants of layout and tape. */
struct eco_wishes {
    bool plain; /* weights are the parameter block itself, no workspace, no reserve (reference) */
    bool wavefront; /* layers overlap in chunks: scratch for each (layer, direction), not direction
                     */
    int32_t chunk, chunk_backward; /* steps of acc and of dacc that are alive at a time; 0: all */
    int32_t weights_chunks; /* backward: weight gradients once in so many chunks, whose dacc stays
                             * alive; 0: in every one */
    int32_t pack_rows; /* most rows of dacc and of operands that ECO_SCRATCH_PACK has room for */
    bool by_length;    /* with lengths, rows lie in their order: dx takes the way through a copy */
    bool lean; /* the reserve keeps no output state of the last layer, which backward reads from y,
                * and all states in the type of rows; forward they lie as in inference */
    size_t product_bytes; /* of ECO_SCRATCH_PRODUCT */
    bool turned[2];       /* forward, back: there is a transposed R, ECO_SCRATCH_TURNED */
    bool aligned; /* units of an accumulator, and rows of what products read, in whole groups of
                   * ECO_ALIGNED_ROW elements, in weights and workspace; the reserve stays dense */
    bool filled;  /* with that: products are of whole groups; what is the caller's or the reserve's
                   * is copied into such rows where its own are not */
    bool widened; /* products read weights in the type of rows: ECO_SCRATCH_WIDENED */
    size_t exchange_bytes; /* of ECO_SCRATCH_EXCHANGE */
    int32_t spans; /* groups of lanes units in a block; of a matrix that is one alone (n == 1):
                    * as many as a panel has vectors */
    int32_t lanes, vectors; /* weights in panels of so many vectors of so many lanes; 0: dense */
    bool fuse_input;        /* a step multiplies its input too: accumulators of one step only */
    int32_t acc_units;      /* of a block of accumulators, a power of two; 0: all */
    int32_t group, pair;    /* in a panel: k in groups of so many, and k of a lane that are
                             * neighbours; 0: 1 */
    int32_t threads;        /* that have scratch of their own for rows of a product; 0: none */
};

/* Workspace of (layer, d).  Arrays over a chunk are indexed by t - t0 of the op.  What a product
 * reads is of the layout's type, what it adds to of its sum; each array says which. */
enum eco_scratch {
    ECO_SCRATCH_ACC,      /* forward  [chunk,N,accs,H] */
    ECO_SCRATCH_GATHER,   /* both     [chunk,N,I of the layer]: input rows in time order */
    ECO_SCRATCH_DGATHER,  /* backward, the same memory: dx in time order, as sums */
    ECO_SCRATCH_OPERAND,  /* forward [N,slots,H]; backward [chunk,N,slots,H] */
    ECO_SCRATCH_MEAN,     /* both     [N,means] */
    ECO_SCRATCH_DACC,     /* backward [chunk,N,accs + extra,H] */
    ECO_SCRATCH_DOPERAND, /* backward [N,slots,H] */
    ECO_SCRATCH_STEP,     /* if projected: forward [N,P], sums h = P u; backward [chunk,N,P], dh */
    ECO_SCRATCH_DOUTPUT,  /* backward [N,H] if projected: gradient of u */
    ECO_SCRATCH_HISTORY,  /* backward, lean [chunk+1,N,P]: the output state, where y is no matrix of
                           * what steps read */
    ECO_SCRATCH_PACK, /* backward [pack_rows, columns of all parts, a panel of each, + accs*H], room
                       * for sums */
    ECO_SCRATCH_PRODUCT,  /* both: room for whoever multiplies */
    ECO_SCRATCH_WIDENED,  /* both, by wish: the matrices of a layer and direction, as packed */
    ECO_SCRATCH_TURNED,   /* both, by wish: R of each operand, [row, n*height] */
    ECO_SCRATCH_EXCHANGE, /* both: what blocks of a resident kernel tell each other */
    ECO_SCRATCHES
};

/* The parts of one (layer, direction). */
enum eco_part {
    ECO_PART_INPUT,     /* W: one matrix [n*H, I], stacked in the order of the accumulators */
    ECO_PART_PROJECT,   /* P: [P,H] */
    ECO_PART_VECTORS,   /* b, p: [n,H], in the order of the recipe's params */
    ECO_PART_RECURRENT, /* + operand: R of it, [n*H, columns], in the order of the accumulators */
    ECO_PARTS = ECO_PART_RECURRENT + ECO_MAX_OPERANDS
};

/* A part as a product sees it: C[rows, n*units] = A[rows, columns] M^T. */
struct eco_matrix {
    int32_t n, units, columns;
    int32_t height, row; /* as it lies: rows from one of n to the next, elements from row to row;
                          * more than units and columns by wish, then zeros */
};
struct eco_matrix eco_problem_matrix(const struct eco_problem *problem, int layer, int part);

/*
 * A matrix M[n*units, k] in panels for vectors of `lanes` weights: blocks of units; in a block the
 * vectors of all n, `spans` lanes-wide groups of units each; the vectors spread over panels [k,
 * vectors, lanes].  Vector v of a block is group v % spans of number v / spans.  Zeros fill up.
 * With groups of k a panel is [depth / group, vectors, group / pair, lanes, pair].
 */
struct eco_panels {
    int32_t n, units, k;
    int32_t depth;        /* k filled up to whole groups */
    int32_t lanes, spans; /* a block is lanes * spans units; powers of two: 1 << shift spans, */
    int32_t shift, units_shift; /* 1 << units_shift units */
    int32_t group, pair;
    int32_t blocks;
    int32_t panels;         /* of a block */
    int32_t vectors, wider; /* of a panel; the first `wider` panels have one more */
};

/*
 * The layout of one run.  The plan keeps those of its own T and N; that of a smaller run is made on
 * the stack from them.  Arrays are found through the functions below, never through the fields.
 */
struct eco_layout {
    const struct eco_problem *problem;
    bool training; /* this run keeps a reserve */
    int32_t T, N;
    int32_t chunk, chunk_backward; /* steps of acc and of dacc that are alive at a time */
    int32_t weights_steps;         /* of dacc, where weight gradients take several chunks */
    ecornn_type type;              /* of rows that products read, and of the caller's arrays */
    ecornn_type sum;    /* of sums, gradients between steps, vectors, dweights, other states */
    ecornn_type weight; /* of packed matrices */
    size_t weights_bytes, dweights_bytes, workspace_bytes, reserve_bytes;
    size_t order; /* byte of the workspace: rows by length, if wished: int32_t [N], [T+1] */
    struct eco_wishes wishes;
    /* bytes of one direction of layer 0, of a later layer */
    size_t weights_direction[2], dweights_direction[2];
    size_t part[2][3][ECO_PARTS]; /* of layer 0, of a later one: bytes before a part, by its form */
    struct eco_matrix matrix[2][ECO_PARTS];
    struct eco_panels panels[2][2][ECO_PARTS]; /* [layer > 0][transposed] */
    struct eco_series {                        /* equal arrays, one behind the other */
        struct eco_array first;
        size_t bytes;                   /* from one to the next */
        int count;                      /* number k lies at place k % count */
    } state[ECO_MAX_STATES],            /* by layer; inference: of all layers but the last */
        last_state[ECO_MAX_STATES],     /* by layer; inference: of the last layer */
        kept[ECO_MAX_STATES],           /* lean, by layer */
        save, output,                   /* by (layer, direction) */
        scratch[2][ECO_SCRATCHES],      /* [forward, backward], by lane */
        carry[ECO_MAX_STATES],          /* by lane */
        dinput;                         /* by layer */
    size_t thread_offset, thread_bytes; /* scratch of thread 0 in the workspace, of each */
};

/* Sizes in a layout are SIZE_MAX where they overflow; planner.c refuses such a plan. */
void eco_layout_build(struct eco_layout *layout, const struct eco_problem *problem,
                      const struct eco_wishes *wishes, int32_t T, int32_t N, bool training);
/* The same for another T and N: what does not depend on them is copied. */
void eco_layout_resize(struct eco_layout *layout, const struct eco_layout *from, int32_t T,
                       int32_t N);

/* ---- packed weights and their gradient, weights.c */

/* Called by eco_layout_build. */
void eco_layout_build_weights(struct eco_layout *layout);
struct eco_panels eco_panels_of(const struct eco_matrix *matrix, bool transposed,
                                const struct eco_wishes *wishes);
/* The first vector of a panel; of panel number `panels`: all vectors of a block. */
static inline int32_t eco_panels_vector(const struct eco_panels *panels, int32_t panel)
{
    return panel * panels->vectors + (panel < panels->wider ? panel : panels->wider);
}
/* Elements before a panel. */
static inline size_t eco_panels_offset(const struct eco_panels *panels, int32_t block,
                                       int32_t panel)
{
    const size_t vectors = (size_t)(panels->n * panels->spans);
    const size_t vector = (size_t)panels->depth * (size_t)panels->lanes;
    return ((size_t)block * vectors + (size_t)eco_panels_vector(panels, panel)) * vector;
}

/* So many elements, in whole groups if that is wished. */
static inline size_t eco_wishes_row(const struct eco_wishes *wishes, size_t width)
{
    const size_t group = wishes->aligned ? ECO_ALIGNED_ROW : 1;
    return (width + group - 1) / group * group;
}
/* Does a product want a copy of such rows, which are not ours? */
static inline bool eco_wishes_copy(const struct eco_wishes *wishes, size_t width)
{
    return wishes->filled && eco_wishes_row(wishes, width) != width;
}

/* eco_problem_matrix and eco_panels_of of a part, kept from when the layout was built; the former
 * with what the wishes add. */
const struct eco_matrix *eco_layout_matrix(const struct eco_layout *layout, int layer, int part);
const struct eco_panels *eco_layout_panels(const struct eco_layout *layout, int layer, int part,
                                           bool transposed);

/* The next run of neighbouring accumulators [first, end) that have a part, at or after `from`;
 * before: how many with that part come earlier.  The projection has one, of P columns. */
struct eco_span {
    int first, end, before;
};
bool eco_span_next(const struct eco_lowered *lowered, int part, int from, struct eco_span *span);

/* How many vectors of the recipe come before that parameter. */
int eco_vector_number(const struct eco_recipe *recipe, int param);
/* Which column of dacc holds the gradient of vector parameter `param`; -1: none. */
int eco_vector_column(const struct eco_lowered *lowered, int param);

/* Byte offsets.  weights: dense, or panels of M where the wishes say so (vectors are always dense);
 * weights_back: panels of M^T, plans for training only; gradient: dense, in dweights. */
size_t eco_layout_weights(const struct eco_layout *layout, int layer, int d, int part);
size_t eco_layout_weights_back(const struct eco_layout *layout, int layer, int d, int part);
size_t eco_layout_gradient(const struct eco_layout *layout, int layer, int d, int part);
/* Multiply-adds of one row in one step of one direction. */
struct eco_work {
    double recurrent; /* with R and the projection */
    double input;     /* with W */
};
struct eco_work eco_problem_work(const struct eco_problem *problem, int layer);
/* Which part a parameter belongs to, and how many blocks of `rows` rows lie before it there. */
int eco_problem_part(const struct eco_problem *problem, const struct eco_param_place *place,
                     int *before);

/* ---- workspace and reserve, arrays.c; acc_blocks: scratch.c; planes and lean: planes.c */

/* States of all steps of (layer, d): plane k is [N, width].  T+2 planes, both directions side by
 * side in a row: step t writes plane t+1 and reads plane t (or t+2 where d runs backwards), so that
 * planes 1..T of the output state are the layer's output [T,N,D*P].  In inference, where no later
 * layer reads the sequence, and in a lean run two planes take turns. */
struct eco_array eco_layout_state(const struct eco_layout *layout, int layer, int d, int state);
size_t eco_layout_state_plane(const struct eco_layout *layout, int d, int32_t t, bool next);
/* Does this run keep what backward reads of states as follows, and no planes? */
bool eco_layout_is_lean(const struct eco_layout *layout);
/* lean: state [T,N,D*width] after each step; of the output state, of all layers but the last: y,
 * with 0 past a row's length. */
struct eco_array eco_layout_kept(const struct eco_layout *layout, int layer, int d, int state);
/* [T,N,saves,H] in the reserve. */
struct eco_array eco_layout_save(const struct eco_layout *layout, int layer, int d);
/* u of h = P u: [T,N,H] in the reserve, one step in the workspace in inference. */
struct eco_array eco_layout_output(const struct eco_layout *layout, int layer, int d);

/* How the H units of an accumulator lie in a row of ECO_SCRATCH_ACC: in one block, or by wish in
 * several, each with all rows of a chunk and all accumulators. */
struct eco_blocks {
    int32_t shift; /* a block is 1 << shift units */
    size_t column; /* elements from one accumulator to the next, */
    size_t block;  /* from one block to the next */
};
struct eco_blocks eco_layout_acc_blocks(const struct eco_layout *layout);
/* May input rows of the first layer have to be copied?  With one row a step's are neighbours in any
 * order, and where rows lie by length those that have ended are left out; training gathers. */
bool eco_layout_gathers(const struct eco_problem *problem, const struct eco_wishes *wishes);
/* Elements before a unit. */
static inline size_t eco_blocks_at(const struct eco_blocks *blocks, size_t unit)
{
    return (unit >> blocks->shift) * blocks->block + (unit & (((size_t)1 << blocks->shift) - 1));
}

struct eco_array eco_layout_scratch(const struct eco_layout *layout, bool backward, int layer,
                                    int d, enum eco_scratch scratch);
/* By wish: the matrix of a part in the type of rows. */
struct eco_array eco_layout_widened(const struct eco_layout *layout, bool backward, int layer,
                                    int d, int part);
/* By wish: the transposed matrix of a part, [row, n*height]. */
struct eco_array eco_layout_turned(const struct eco_layout *layout, bool backward, int layer, int d,
                                   int part);
/* backward [N,width]: gradient of a state between steps. */
struct eco_array eco_layout_carry(const struct eco_layout *layout, int layer, int d, int state);
/* backward [T,N,D*P]: dx of layer (>= 1), which is dy of the layer below. */
struct eco_array eco_layout_dinput(const struct eco_layout *layout, int layer);

/* ---- tape: what happens in which order ------------------------------------------------------ */

enum eco_op_kind {
    /* forward */
    ECO_BEGIN,  /* initial states into their planes */
    ECO_GATHER, /* input rows of the steps into the gather array: order, padding, dropout */
    ECO_INPUT,  /* acc of the steps = W x + bias */
    ECO_STEP,   /* the recurrence over the steps; y of the last layer; projection included */
    ECO_END,    /* final states out */
    /* backward */
    ECO_D_BEGIN,   /* carry = gradient of the final states */
    ECO_D_STEP,    /* the recurrence back over the steps: dacc */
    ECO_D_INPUT,   /* dx of the steps = dacc W; add: to what the other direction left */
    ECO_D_SCATTER, /* dx from the gather array to its place: order, dropout */
    ECO_D_WEIGHTS, /* weight gradients of the steps; add: to what is there */
    ECO_D_END,     /* gradient of the initial states out */
    ECO_OP_KINDS
};

/* One rectangle of work: steps [t0,t1) of one layer and direction.  Ops of equal level do not
 * depend on each other.  Clip to the run's T before use: eco_op_clip. */
struct eco_op {
    uint8_t kind; /* enum eco_op_kind */
    uint8_t layer, d;
    bool reversed; /* steps are taken from t1-1 down to t0 */
    bool add;      /* D_INPUT, D_SCATTER, D_WEIGHTS: to what is there */
    bool gathered; /* INPUT, D_WEIGHTS read, D_INPUT writes the gather array */
    int32_t t0, t1;
    int32_t level;
    int32_t after; /* level of an op of the layer before it that it needs too; -1: of none */
};

struct eco_tape {
    struct eco_op *op;
    int n, levels;
};

/* Builds into memory of its own; NO_MEMORY.  ragged: padding must not be read (lengths given). */
ecornn_status eco_tape_build(struct eco_tape *tape, const struct eco_problem *problem,
                             const struct eco_wishes *wishes, bool backward, bool ragged);
void eco_tape_free(struct eco_tape *tape);
/* The op's steps within a run of T steps; false: none are left, skip it.  Ops without steps
 * (BEGIN, END, D_BEGIN, D_END) always stay. */
bool eco_op_clip(const struct eco_op *op, int32_t T, struct eco_op *clipped);

/* Where rows of operand o lie that the weight gradients of a backward op read: planes of a state,
 * or what backward recomputed, from this plane or step on. */
struct eco_array eco_layout_operand(const struct eco_layout *layout, const struct eco_op *op, int o,
                                    size_t *step);
/* The step at which dacc of a backward op begins, and what lies beside it. */
size_t eco_layout_dacc_step(const struct eco_layout *layout, const struct eco_op *op);

/* ---- plan ----------------------------------------------------------------------------------- */

enum { ECO_MAX_REASON = 600 };

struct ecornn_plan {
    struct eco_problem problem;
    struct ecornn_device *device;
    const struct eco_algo *algo;
    struct eco_wishes wishes;
    struct eco_work work;        /* of layer 0 */
    struct eco_layout layout[2]; /* of a run of T steps and N rows: inference, training */
    struct eco_tape tape[2][2];  /* [forward, backward][whole, ragged] */
    ecornn_sizes sizes;
    void *own;                   /* the backend's; what changes in it is safe from many threads */
    double estimate;             /* seconds of one run of the planned size */
    char reason[ECO_MAX_REASON]; /* why this algorithm: what the others would have taken */
};

ecornn_status eco_plan_create(struct ecornn_plan **plan, struct ecornn_device *device,
                              const struct eco_problem *problem);
void eco_plan_free(struct ecornn_plan *plan);
/* describe.c: as snprintf. */
int eco_plan_describe(const struct ecornn_plan *plan, char *text, size_t size);
/* pack.c, host memory: parameters to packed weights, gradients to those of the parameters.  Each of
 * `count` threads does its part. */
struct eco_portion {
    int id, count;
};
void eco_plan_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                   struct eco_portion part);
void eco_plan_unpack(const struct ecornn_plan *plan, const void *dweights, void *const *params,
                     bool add, struct eco_portion part);

/* ---- a run ---------------------------------------------------------------------------------- */

/* The caller's arguments, checked: T and N filled in, everything else as given. */
struct eco_args {
    int32_t T, N;
    const int32_t *lengths;
    const void *x;
    void *y;
    const void *initial[ECO_MAX_STATES];
    void *final[ECO_MAX_STATES];
    const void *weights;
    void *workspace;
    void *reserve; /* backward: only read */
    uint64_t seed;
    void *stream;
    /* backward */
    bool backward;
    const void *dy;
    const void *dfinal[ECO_MAX_STATES];
    void *dx;
    void *dinitial[ECO_MAX_STATES];
    void *dweights;
    bool accumulate;
};

#endif /* ECO_MODEL_H */
