/*
 * A cell: its text parsed to a graph (the recipe), the graph extended by its own gradient, and both
 * lowered to stages of straight-line programs.  Everything is a fixed-size plain struct, so that a
 * recipe can be copied, compared and kept in static storage.  Knows nothing of plans or devices;
 * cellgen links only this folder and util.
 */
#ifndef ECO_CELL_H
#define ECO_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/cell/limits.h"

/* ---- the graph ------------------------------------------------------------------------------ */

enum eco_opcode {
    /* leaves of a text */
    ECO_OP_CONST,     /* value */
    ECO_OP_STATE,     /* previous value of state `index` */
    ECO_OP_VECTOR,    /* learned vector: parameter `index` */
    ECO_OP_X,         /* the layer's input itself, which has H units */
    ECO_OP_BERNOULLI, /* 1 with probability `value`, else 0, by coordinates; when not training its *
                       * expectation `value`; `index` counts the bernoulli() of the text, and has *
                       * ECO_DRAW_ONCE where the draw is the same for all steps */
    /* products and reductions: these end a stage */
    ECO_OP_INPUT,   /* W x: parameter `index` */
    ECO_OP_PRODUCT, /* R a: parameter `index`, operand node a */
    ECO_OP_MEAN,    /* mean of a over the H units of a row, or of a head; `index` counts means */
    /* arithmetic, element by element */
    ECO_OP_ADD,
    ECO_OP_SUB,
    ECO_OP_MUL,
    ECO_OP_DIV,
    ECO_OP_MIN, /* of a and b */
    ECO_OP_MAX,
    ECO_OP_SELECT, /* a > 0 ? b : c; a NaN takes c */
    ECO_OP_NEG,
    ECO_OP_ABS,
    ECO_OP_EXP,
    ECO_OP_LOG,
    ECO_OP_SQRT,
    ECO_OP_TANH,
    ECO_OP_SIGMOID,
    ECO_OP_RELU, /* max(a, 0) */
    /* leaves that the gradient adds */
    ECO_OP_DNEXT,    /* gradient of next state `index`, as it arrives from step t+1 and from dy */
    ECO_OP_DOPERAND, /* gradient of operand `index` (of lowered.operand): sum of R^T dacc */
    /* only in programs: how a stage reads memory ... */
    ECO_OP_ACC,   /* accumulator `index` */
    ECO_OP_SAVED, /* saved value `index` */
    ECO_OP_NEXT,  /* next state `index`, as forward computed it */
    /* ... and writes it: the value of instruction a to slot `index` */
    ECO_OP_STORE_OPERAND, /* operand of a product: forward before it, backward for its dR */
    ECO_OP_STORE_MEAN,    /* a value whose row mean a later stage reads with ECO_OP_MEAN */
    ECO_OP_STORE_SAVE,    /* forward */
    ECO_OP_STORE_NEXT,    /* forward, last stage only */
    ECO_OP_STORE_DACC,    /* backward: gradient of accumulator `index`; from n_accs on of vectors */
    ECO_OP_STORE_DSTATE,  /* backward, last stage only: the gradient of the previous state, less *
                           * what R^T dacc adds */
    ECO_OP_STORE_LINEAR,  /* of a scan: the factor a and the term b of state `index` */
    ECO_OPCODES
};

/* What every part of the compiler must know of an opcode: one table, in recipe.c. */
struct eco_opcode_info {
    const char *name; /* in a cell's text and in the vocabulary (v_NAME), or NULL */
    uint8_t arguments;
    bool function; /* written NAME(a, ...) in a text */
};
extern const struct eco_opcode_info eco_opcode_info[ECO_OPCODES];

struct eco_node {
    int16_t op;      /* enum eco_opcode; no padding before a: compilers compare op to c as one */
    int16_t a, b, c; /* nodes before this one, -1: none */
    int16_t index;
    double value;
};

enum eco_param_kind { ECO_PARAM_W, ECO_PARAM_R, ECO_PARAM_VECTOR };

struct eco_recipe_param {
    uint8_t kind;                /* enum eco_param_kind */
    int16_t node;                /* its ECO_OP_INPUT, ECO_OP_PRODUCT or ECO_OP_VECTOR */
    char name[ECO_MAX_NAME + 4]; /* "W.i" "R.i" "b.i" "p.i" */
};

/*
 * The parsed cell.  params are in block order: every W in text order, then every R, then every
 * vector.  A state that the text never primes does not exist: parse refuses it.
 */
struct eco_recipe {
    char name[ECO_MAX_NAME];
    int n_states, n_params, n_bernoulli, n_means;
    bool head_means; /* all means are over a head */
    char state[ECO_MAX_STATES][ECO_MAX_NAME];
    int16_t next[ECO_MAX_STATES]; /* node of each next state */
    double start[ECO_MAX_STATES]; /* where one begins that nobody gives */
    struct eco_recipe_param param[ECO_MAX_PARAMS];
    int n_nodes; /* of the text: node[0 .. n_nodes), each after its arguments */
    struct eco_node node[ECO_MAX_NODES];
};

/* ---- lowered: stages ------------------------------------------------------------------------ */

/*
 * An accumulator: a sum of products and at most one vector, [N,H] per step.  Order in a row: such
 * that those with a W, and those with a product of the same operand, are next to each other where
 * possible (GRU, reset after: n, r, z, q).
 */
struct eco_accumulator {
    int16_t input;                       /* parameter W, or -1 */
    int16_t recurrent[ECO_MAX_OPERANDS]; /* by operand: parameter R, or -1 */
    int16_t vector;                      /* parameter, or -1: added as bias */
    int16_t stage;                       /* the first forward stage that reads it */
};

/* e of R e.  Its product runs before forward stage `forward`; R^T dacc before backward stage
 * `backward` (for a state: after the last one, into the state's gradient; a computed operand with
 * backward == n_backward has no use for it). */
struct eco_operand {
    int16_t node;
    int16_t
        state; /* which previous state it is, or -1: computed, and kept in operand slot `slot` */
    int16_t slot;
    int16_t forward, backward;
};

struct eco_program { /* instruction i may use the values of instructions before it */
    int n;
    struct eco_node code[ECO_MAX_CODE];
    /* For an interpreter, by instruction (slots.c): is its value the same for all units of a row,
     * and which of so many places has it?  -1: it has none. */
    bool uniform[ECO_MAX_CODE];
    int16_t slot[ECO_MAX_CODE];
    int n_uniform, n_slots;
    /* For one that takes rows through neighbouring stages (carried.c): in which column of a row
     * does the value lie for later stages, -1: in none; is it taken from there, or of no use then?
     */
    int16_t column[ECO_MAX_CODE];
    bool skipped[ECO_MAX_CODE];
};

/*
 * Linear in its states, element by element: of each of `states` a program gives factor and term
 * without reading states, next = factor * before + term; backward those of its gradient, dbefore =
 * factor * dnext + term, from saved values, states and the gradients of other next states.  What
 * is no bit of `states` is read by no step.
 */
struct eco_linear {
    bool scans; /* it is, and has one stage each way */
    unsigned states;
    struct eco_program program[2]; /* [forward, backward]: ends with ECO_OP_STORE_LINEAR */
};

/*
 * Forward stage k: products of the operands with forward == k are added to the accumulators, then
 * program forward[k] runs on every (row, unit).  Row means of STORE_MEAN are ready for the stage
 * after.  Every stage may read states, accumulators and vectors and recompute what it needs; other
 * values cross a stage in columns only, where somebody has them.  Backward likewise, from
 * ECO_OP_DNEXT to STORE_DACC.
 * Row layout of dacc: n_accs accumulators, then n_extra vectors that are not a bias (peepholes);
 * the gradient of a vector is the sum of its column over all rows and steps.
 */
struct eco_lowered {
    int n_accs, n_operands, n_slots, n_saves, n_extra;
    int raw;          /* the accumulator that is x itself, without a product; -1: none */
    int n_means[2];   /* [0] forward, [1] backward: slots of the row means */
    int n_columns[2]; /* likewise, of values that stages hand on to later ones */
    int n_forward, n_backward;
    bool has_means;   /* a stage ends in a reduction over the units of a row */
    bool projectable; /* the output state occurs only as operand of R, its next value nowhere */
    struct eco_accumulator acc[ECO_MAX_ACCS];
    struct eco_operand operand[ECO_MAX_OPERANDS];
    int16_t extra[ECO_MAX_PARAMS]; /* parameter of each extra vector */
    int16_t saved[ECO_MAX_SAVES];  /* node of each saved value */
    struct eco_program forward[ECO_MAX_STAGES], backward[ECO_MAX_STAGES];
    struct eco_linear linear;
};

struct ecornn_cell {
    struct eco_recipe recipe;
    struct eco_lowered lowered;
    int builtin; /* its place in the list of built-in cells, -1: parsed at run time */
};

/* Where and why a text is wrong. */
struct eco_cell_error {
    int line, column; /* from 1 */
    char message[160];
};

/* recipe.c: adds a node, folding constants and finding an equal one; -1 when the graph is full. */
int eco_recipe_add(struct eco_recipe *recipe, struct eco_node node);

/* parse.c: text (zero-terminated) to graph.  False: error is filled. */
bool eco_cell_parse(struct eco_recipe *recipe, const char *text, struct eco_cell_error *error);

/* gradient.c: the adjoint graph, appended to recipe->node (n_nodes stays the text's). */
struct eco_adjoint {
    int n_nodes;                       /* with the gradient's */
    int16_t product[ECO_MAX_PARAMS];   /* gradient of the product or vector of each parameter */
    int16_t state[ECO_MAX_STATES];     /* direct gradient of each previous state, -1: none */
    int16_t x;                         /* of x itself, -1: none */
    int n_operands;                    /* operands in order of their first product */
    int16_t operand[ECO_MAX_OPERANDS]; /* node */
};
bool eco_recipe_gradient(struct eco_recipe *recipe, struct eco_adjoint *adjoint,
                         struct eco_cell_error *error);

/* lower.c: graph and gradient to stages; nodes behind the gradient's are scratch. */
bool eco_recipe_lower(struct eco_recipe *recipe, const struct eco_adjoint *adjoint,
                      struct eco_lowered *lowered, struct eco_cell_error *error);

/* carried.c: the first stage after this one that begins with a product, or the number of stages. */
int eco_cell_next_product(const struct eco_lowered *lowered, bool backward, int stage);

/* compile.c: the three above in a row. */
bool eco_cell_compile(struct ecornn_cell *cell, const char *text, struct eco_cell_error *error);

/* emit.c: the neutral text of all stages (doc/internals/stages.md, "the printed interface"), as
 * snprintf. */
size_t eco_cell_emit(const struct ecornn_cell *cell, char *text, size_t size);
/* The same, and after it for each stage the template that makes a kernel of it. */
size_t eco_cell_emit_kernels(const struct ecornn_cell *cell, char *text, size_t size);
/* Of a cell that is linear: NAME_scan_0 and NAME_scan_1, which give factors and terms forward and
 * back. */
size_t eco_cell_emit_scan(const struct ecornn_cell *cell, char *text, size_t size);
size_t eco_cell_emit_scan_kernels(const struct ecornn_cell *cell, char *text, size_t size);
/* print.c: all of it for people.  False: no memory. */
struct eco_text;
bool eco_cell_print(const struct ecornn_cell *cell, struct eco_text *text);
/* 1: one product with the output state, around which is one stage each way, or, of a cell with
 * means, as many as these make; 2: two stages, the second around a product with a value that the
 * first computes: what can stay on a chip.  0: another cell. */
int eco_cell_products(const struct ecornn_cell *cell);
/* Of such a cell, for CELLS_PERSISTENT: "CALL(place, accumulators, states, saved values,
 * accumulators with the first product, with the second, for each product which of these each
 * accumulator is, or -1 ...)". */
size_t eco_cell_emit_numbers(const struct ecornn_cell *cell, int place, char *text, size_t size);

/* means.c: the stages of one way where sums of blocks of units go round between them, with as few
 * of them as may be. */
struct eco_joined_stage {
    int16_t program, /* its stage of the cell */
        again,       /* the one that runs before it, since it came ahead and saves values; -1 */
        ahead;       /* the one whose means come with those of this one; -1: none */
};
struct eco_joined_mean {
    int16_t stage, with; /* the mean that it comes with, a polynomial of that; -1: by itself */
    bool leads;          /* another one comes with it */
    double curve;        /* its coefficient of the square */
};
struct eco_joined_stages {
    int n, n_means, n_sums; /* that a block sends of a row: of a mean one, of two together four */
    struct eco_joined_stage stage[ECO_MAX_STAGES];
    struct eco_joined_mean mean[ECO_MAX_MEANS];
};
void eco_cell_join_stages(const struct eco_lowered *lowered, bool backward,
                          struct eco_joined_stages *joined);
/* Of a cell with means that can stay on a chip: what each stage calls, CELLS_STAGE_k(CALL) and
 * CELLS_AHEAD_k(CALL); CELLS_STAGES and CELLS_MEANS; and of each mean lists of what is above, as
 * CELLS_MEAN_STAGES, CELLS_MEAN_WITH and CELLS_MEAN_CURVES. */
size_t eco_cell_emit_means(const struct ecornn_cell *cell, bool backward, char *text, size_t size);

/* bounds.c: do the output state and the operands of products stay in [-1, 1], where the initial
 * output state is in it, or, where it is not, within the next power of two (up to 2^20), whatever
 * other states are? */
bool eco_cell_is_bounded(const struct ecornn_cell *cell);

/* replay.c: can forward be done again for many steps at once, where the output state of every step
 * is known, and, `known`, the other states too?  An unknown one then follows by the last stage. */
bool eco_cell_replays_at_once(const struct ecornn_cell *cell, bool known);

/* builtin.c: the cells compiled in, parsed once; NULL past the last. */
const struct ecornn_cell *eco_cell_builtin(int index);

#endif /* ECO_CELL_H */
