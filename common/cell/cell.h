/*
 * A cell: its text is parsed to a graph (the recipe), the graph is extended by its own gradient,
 * and both are lowered to stages of straight-line programs.  Everything is a plain struct of fixed
 * size, so that a recipe can be copied, compared and kept in static storage.  Knows nothing of
 * plans or devices; cellgen links only this folder and util.
 *
 * Example, gru.cell: the text has 27 nodes, and the gradient adds 17.  Lowering makes four
 * accumulators (n, r, z, q; the last is R_q h + b_q), one operand (h), one stage forward and one
 * backward, and training saves four values per unit.  `ecornn cell gru` prints all of it.
 */
#ifndef ECO_CELL_H
#define ECO_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn/types.h"
#include "common/cell/limits.h"

/* ---- the graph ------------------------------------------------------------------------------ */

enum eco_opcode {
    /* leaves of the text */
    ECO_OP_CONST,  /* value */
    ECO_OP_STATE,  /* previous value of state `index` */
    ECO_OP_VECTOR, /* learned vector: parameter `index` */
    ECO_OP_X,      /* index 0: the layer's input itself, which has H units; else part index - 1 */
    ECO_OP_BERNOULLI, /* random: 1 with probability `value`, else 0, drawn by coordinates; outside
                         training its expectation `value`.  `index` numbers the bernoulli() of the
                         text; ECO_DRAW_ONCE is set in it if the draw is the same for all steps */
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
    /* only in programs: a stage reads memory ... */
    ECO_OP_ACC,   /* accumulator `index` */
    ECO_OP_SAVED, /* saved value `index` */
    ECO_OP_NEXT,  /* next state `index`, as forward computed it */
    /* ... and writes it: the value of instruction a goes to slot `index` */
    ECO_OP_STORE_OPERAND, /* operand of a product: forward for it, backward for its dR */
    ECO_OP_STORE_MEAN,    /* a value whose row mean a later stage reads with ECO_OP_MEAN */
    ECO_OP_STORE_SAVE,    /* forward */
    ECO_OP_STORE_NEXT,    /* forward, last stage only */
    ECO_OP_STORE_DACC, /* backward: gradient of accumulator `index`; from n_accs on, of a vector */
    ECO_OP_STORE_DSTATE, /* backward, last stage: gradient of the previous state, without R^T dacc
                          */
    ECO_OP_STORE_LINEAR, /* scan: the factor a and the term b of state `index` */
    /* stop(a) of a text: the value of a, without a gradient.  A program has a's value instead.  It
     * and what follows come last, so that compiled kernels keep the numbers of theirs. */
    ECO_OP_STOP,
    ECO_OP_STORE_COUPLED, /* scan: the factor a of state v in state s; index: s * ECO_MAX_STATES + v
                           */
    /* of cells with a matrix state */
    ECO_OP_OUTER, /* a b^T of a key and a value */
    ECO_OP_DOT,   /* the sum of a * b over a key or a value */
    ECO_OP_READ,  /* a^T b of a matrix and a key */
    ECO_OPCODES
};

/* What the compiler must know of an opcode; the table is in recipe.c. */
struct eco_opcode_info {
    const char *name; /* in a cell's text and in the vocabulary (v_NAME), or NULL */
    uint8_t arguments;
    bool function; /* written NAME(a, ...) in a text */
};
extern const struct eco_opcode_info eco_opcode_info[ECO_OPCODES];

struct eco_node {
    int16_t op;      /* enum eco_opcode; no padding: compilers compare op to c as one word */
    int16_t a, b, c; /* nodes before this one; -1: none */
    int16_t index;
    double value;
};

enum eco_param_kind { ECO_PARAM_W, ECO_PARAM_R, ECO_PARAM_VECTOR };

struct eco_recipe_param {
    uint8_t kind;                /* enum eco_param_kind */
    int16_t node;                /* its ECO_OP_INPUT, ECO_OP_PRODUCT or ECO_OP_VECTOR */
    char name[ECO_MAX_NAME + 4]; /* "W.i" "R.i" "b.i" "p.i" */
};

/* What a value is: H units of a row, or, in a cell with a matrix state, this much of each head. */
enum eco_kind {
    ECO_KIND_UNITS,
    ECO_KIND_NUMBER, /* also a part of x that is a single number for all units */
    ECO_KIND_KEY,    /* [K] */
    ECO_KIND_VALUE,  /* [V] */
    ECO_KIND_MATRIX  /* [K,V] */
};

/* A part of x, declared in the head of a text: H numbers of a row, one for each unit, or a single
 * one for all units.  Parts stand at the end of a row of x, in the order of the text; the numbers
 * before them, the rest, go through W.  Example: `cell c(h; a[1], u[H])` with H = 4 and I = 8 has a
 * rest of 3 numbers, then a in column 3, then u in columns 4 to 7. */
struct eco_recipe_part {
    uint8_t kind; /* enum eco_kind */
    char name[ECO_MAX_NAME];
};

/*
 * The parsed cell.  params are in block order: every W in text order, then every R, then every
 * vector.
 */
struct eco_recipe {
    char name[ECO_MAX_NAME];
    int n_states, n_parts, n_params, n_bernoulli, n_means;
    int n_outputs;   /* y has the first n_outputs states side by side; most cells have 1 */
    bool head_means; /* all means are over one head */
    bool matrix;     /* a state is a matrix, and values are those of a head */
    uint8_t state_kind[ECO_MAX_STATES], kind[ECO_MAX_NODES]; /* enum eco_kind of states and nodes */
    char state[ECO_MAX_STATES][ECO_MAX_NAME];
    struct eco_recipe_part part[ECO_MAX_PARTS];
    int16_t next[ECO_MAX_STATES]; /* node of each next state */
    double start[ECO_MAX_STATES]; /* the value at which a state begins if the run gives none */
    struct eco_recipe_param param[ECO_MAX_PARAMS];
    int n_nodes; /* nodes of the text: node[0 .. n_nodes), each after its arguments */
    struct eco_node node[ECO_MAX_NODES];
};

/* ---- lowered: stages ------------------------------------------------------------------------ */

/*
 * A sum of products and at most one vector, [N,H] per step.  Accumulators are ordered so that those
 * with a W, and those with a product of the same operand, are neighbours as far as possible (GRU
 * with reset after the product: n, r, z, q).
 */
struct eco_accumulator {
    int16_t input;                       /* parameter W, or -1 */
    int16_t recurrent[ECO_MAX_OPERANDS]; /* by operand: parameter R, or -1 */
    int16_t vector;                      /* parameter added as bias, or -1 */
    int16_t
        copy; /* begins as a copy of x, 0, or of part copy - 1, instead of W x; -1: of neither */
    int16_t stage; /* the first forward stage that reads it */
};

/* The e of R e.  Its product runs before forward stage `forward`, R^T dacc before backward stage
 * `backward`.  For a state R^T dacc comes after the last stage and is added to the state's
 * gradient; for a computed operand backward == n_backward means that it is not needed. */
struct eco_operand {
    int16_t node;
    int16_t state; /* index of the previous state; -1: computed, and kept in operand slot `slot` */
    int16_t slot;
    int16_t forward, backward;
};

struct eco_program { /* instruction i may use the values of earlier instructions */
    int n;
    struct eco_node code[ECO_MAX_CODE];
    /* For an interpreter (slots.c), by instruction: is the value the same for all units of a row,
     * or for all rows, and in which slot is it kept?  -1: in none. */
    bool uniform[ECO_MAX_CODE], fixed[ECO_MAX_CODE];
    int16_t slot[ECO_MAX_CODE];
    int n_uniform, n_slots;
    /* For an interpreter that runs several stages on a few rows (carried.c), by instruction: the
     * column of the row that carries the value to later stages, -1: none; and whether this stage
     * skips the instruction, because it takes the value from the column or does not need it. */
    int16_t column[ECO_MAX_CODE];
    bool skipped[ECO_MAX_CODE];
};

/*
 * The form of a cell that is linear in its states, unit by unit.  For each state whose bit is set
 * in `states`, a program computes factors and a term without reading states: next = the sum of
 * factors * before, over the states of its group, + term.  The backward program does the same for
 * the gradient, dbefore from dnext, from saved values, states and the gradients of next states
 * without a bit, which no step reads.  Example: a complex state as a pair (h, g) is a group with
 * four factors, numbers 0 and 1 on the diagonal, then 2 and 3; most cells have groups of one state.
 */
struct eco_linear {
    bool scans; /* the cell is linear, and has one stage each way */
    unsigned states;
    uint8_t group[ECO_MAX_STATES]; /* by state: bits of the states coupled with it, and its own */
    int8_t factor[ECO_MAX_STATES][ECO_MAX_STATES]; /* [s][v]: number of v's factor in s, -1: none */
    int n_factors;                                 /* the first n_states are the diagonal */
    struct eco_program program[2]; /* [forward, backward]: ends with ECO_OP_STORE_LINEAR */
};

/*
 * The lowered cell: how a step is computed.  Forward stage k begins by adding the products of all
 * operands with forward == k to the accumulators; then program forward[k] runs on every (row,
 * unit). A mean that it stores with STORE_MEAN is available in the next stage.  A stage may read
 * states, accumulators and vectors, and recomputes what else it needs; only carried columns, where
 * an interpreter has them, pass other values between stages.  Backward works the same way, from
 * ECO_OP_DNEXT to STORE_DACC.
 *
 * A row of dacc has n_accs accumulators, then n_extra vectors that are not biases (peepholes).  The
 * gradient of a vector is the sum of its column over all rows and steps.
 */
struct eco_lowered {
    int n_accs, n_operands, n_slots, n_saves, n_extra;
    int raw;          /* the accumulator that is x itself, without a product; -1: none */
    uint32_t copies;  /* bits of the accumulators that begin as copies of x or of parts of x */
    int n_means[2];   /* [0] forward, [1] backward: number of row means */
    int n_columns[2]; /* likewise: number of columns that carry values to later stages */
    int n_forward, n_backward;
    bool has_means;   /* a stage ends in a reduction over the units of a row */
    bool projectable; /* the output state occurs only as an operand of R, its next value nowhere */
    bool remembers;   /* stages read the output state, and no product does */
    struct eco_accumulator acc[ECO_MAX_ACCS];
    struct eco_operand operand[ECO_MAX_OPERANDS];
    int16_t extra[ECO_MAX_PARAMS]; /* parameter of each extra vector */
    int16_t saved[ECO_MAX_SAVES];  /* node of each saved value */
    struct eco_program forward[ECO_MAX_STAGES], backward[ECO_MAX_STAGES];
    struct eco_linear linear;
};

/*
 * A step of a cell with a matrix state S [K,V], by nodes; -1: it has none.
 *
 *     u = S^T read    d = value + scale u    S' = decay S + key d^T + other u^T    out = S'^T query
 *
 * Example, `S' = g * (S - b * outer(k, S^T k)) + b * outer(k, v)`: decay g, read k, scale -(g b),
 * key k, value b v.  What is not a matrix and does not depend on S is computed before, as are the
 * other states; what depends on `out`, afterwards.  matrix.c.
 */
struct eco_matrix_rule {
    const char *refusal; /* why a step of this form cannot do it; NULL: it can */
    int n_nodes;         /* nodes of the text, and those that this form adds */
    int16_t state;       /* S */
    int16_t decay, read, scale, other, key, value, query, out;
    bool remembers; /* there are other states, so a step's values follow those of the one before */
    uint8_t phase[ECO_MAX_NODES]; /* by node: enum eco_matrix_phase */
};
enum eco_matrix_phase { ECO_MATRIX_UNUSED, ECO_MATRIX_BEFORE, ECO_MATRIX_AFTER };

struct ecornn_cell {
    struct eco_recipe recipe;
    struct eco_lowered lowered;  /* of a cell with a matrix state: nothing */
    struct eco_matrix_rule rule; /* of a cell with a matrix state */
    int builtin;                 /* index in the list of built-in cells; -1: parsed at run time */
};

/* The place and the cause of an error in a text. */
struct eco_cell_error {
    int line, column; /* counted from 1 */
    char message[160];
};

/* recipe.c: adds a node, folding constants and reusing an equal node; -1 if the graph is full. */
int eco_recipe_add(struct eco_recipe *recipe, struct eco_node node);
/* recipe.c: the first vector among the parameters, from which stages count. */
int eco_recipe_first_vector(const struct eco_recipe *recipe);

/* bounds.c: the argument whose value a node has and no program computes again; -1: none.  It is a
 * for stop(a), and for a + c * (b - stop(b)), which gives b a gradient of c and costs nothing. */
int eco_recipe_copies(const struct eco_recipe *recipe, int node);

/* parse.c: parses a zero-terminated text.  On false, error is filled in. */
bool eco_cell_parse(struct eco_recipe *recipe, const char *text, struct eco_cell_error *error);

/* gradient.c: the adjoint graph, appended to recipe->node (n_nodes counts the text's only). */
struct eco_adjoint {
    int n_nodes;                       /* including the gradient's */
    int16_t product[ECO_MAX_PARAMS];   /* gradient of the product or vector of each parameter */
    int16_t state[ECO_MAX_STATES];     /* direct gradient of each previous state, -1: none */
    int16_t x[1 + ECO_MAX_PARTS];      /* gradient of x itself, and of its parts; -1: none */
    int n_operands;                    /* operands in order of their first product */
    int16_t operand[ECO_MAX_OPERANDS]; /* node */
};
bool eco_recipe_gradient(struct eco_recipe *recipe, struct eco_adjoint *adjoint,
                         struct eco_cell_error *error);

/* lower.c: lowers graph and gradient to stages; nodes after the gradient's are scratch. */
bool eco_recipe_lower(struct eco_recipe *recipe, const struct eco_adjoint *adjoint,
                      struct eco_lowered *lowered, struct eco_cell_error *error);

/* bounds.c: the first stage after this one that begins with a product, or the number of stages. */
int eco_cell_next_product(const struct eco_lowered *lowered, bool backward, int stage);

/* kinds.c: the kind of a node in a cell with a matrix state, by those of its arguments; -1: they do
 * not fit. */
int eco_recipe_kind(const struct eco_recipe *recipe, const struct eco_node *node);
/* matrix.c: finds the form of a step of a cell with a matrix state. */
void eco_matrix_find(struct eco_recipe *recipe, struct eco_matrix_rule *rule);

/* compile.c: parse, gradient and lower; with a matrix state, find its form instead. */
bool eco_cell_compile(struct ecornn_cell *cell, const char *text, struct eco_cell_error *error);

/* emit.c: prints all stages in the neutral vocabulary (doc/internals/stages.md, "the printed
 * interface"), as snprintf does. */
size_t eco_cell_emit(const struct ecornn_cell *cell, char *text, size_t size);
/* The same, followed by the template that makes a kernel of each stage. */
size_t eco_cell_emit_kernels(const struct ecornn_cell *cell, char *text, size_t size);
/* For a linear cell: NAME_scan_0 and NAME_scan_1, factors and terms forward and backward. */
size_t eco_cell_emit_scan(const struct ecornn_cell *cell, char *text, size_t size);
size_t eco_cell_emit_scan_kernels(const struct ecornn_cell *cell, char *text, size_t size);
/* print.c: prints the compiled cell for people.  False: no memory. */
struct eco_text;
bool eco_cell_print(const struct ecornn_cell *cell, struct eco_text *text);
/* items.c: item number index of those in ecornn.h; false: past the last. */
struct ecornn_cell_item;
bool eco_cell_item(const struct ecornn_cell *cell, int index, struct ecornn_cell_item *item);
/* emit.c: an instruction's word in the neutral vocabulary, less v_. */
const char *eco_cell_word(int op);
/* How the cell's products allow it to stay on a chip.  1: one product with the output state, and
 * one stage each way around it (or, for a cell with means, the stages these need).  2: two stages,
 * the second around a product with a value that the first computes.  0: neither. */
int eco_cell_products(const struct ecornn_cell *cell);
/* For such a cell, the arguments of CELLS_PERSISTENT: "CALL(index, accumulators, states, saved
 * values, accumulators with the first product, with the second, for each product which of these
 * each accumulator is, or -1 ...)". */
size_t eco_cell_emit_numbers(const struct ecornn_cell *cell, int place, char *text, size_t size);

/* means.c: the stages of one pass for a kernel whose blocks exchange sums of their units between
 * stages; as few stages as possible. */
struct eco_joined_stage {
    int16_t program, /* the cell's stage */
        again,       /* the stage to repeat before it, because it saves values; -1: none */
        ahead;       /* the stage whose means are computed together with this one's; -1: none */
};
struct eco_joined_mean {
    int16_t stage, with; /* the mean it is computed with, as a polynomial of it; -1: by itself */
    bool leads;          /* another mean is computed with it */
    double curve;        /* coefficient of the square */
};
struct eco_joined_stages {
    int n, n_means,
        n_sums; /* n_sums: sums a block sends per row: one for a mean, four for two together */
    struct eco_joined_stage stage[ECO_MAX_STAGES];
    struct eco_joined_mean mean[ECO_MAX_MEANS];
};
void eco_cell_join_stages(const struct eco_lowered *lowered, bool backward,
                          struct eco_joined_stages *joined);
/* For a cell with means that can stay on a chip: prints the calls of each stage as
 * "CALL(0, stage, function) ..." in CELLS_forward(CALL) or CELLS_backward(CALL), and in
 * CELLS_AHEAD(CALL), then CELLS_STAGES and CELLS_MEANS, and the lists CELLS_MEAN_STAGES,
 * CELLS_MEAN_WITH and CELLS_MEAN_CURVES. */
size_t eco_cell_emit_means(const struct ecornn_cell *cell, bool backward, char *text, size_t size);

/* bounds.c: do the output state and all operands of products stay in [-1, 1] if the initial output
 * state is in it, and within the next power of two (up to 2^20) otherwise, for any values of the
 * other states? */
bool eco_cell_is_bounded(const struct ecornn_cell *cell);

/* bounds.c: can forward be repeated for many steps at once if the output state of every step is
 * known, and with `known` the other states too?  Without it the last stage computes them. */
bool eco_cell_replays_at_once(const struct ecornn_cell *cell, bool known);

/* builtin.c: the built-in cells, compiled once; NULL past the last. */
const struct ecornn_cell *eco_cell_builtin(int index);

/* library.c: the texts of the library of cells, in order of names; NULL past the last. */
struct eco_library_text {
    const char *name, *text;
};
enum { ECO_LIBRARY_CELLS = 128 }; /* the most there can be */
const struct eco_library_text *eco_cell_library(int index);

#endif /* ECO_CELL_H */
