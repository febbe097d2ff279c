/*
 * The problem: the description in canonical form, and the list of its parameters.  plan/problem.c.
 */
#ifndef ECO_PROBLEM_H
#define ECO_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/cell/cell.h"
#include "common/force.h"
#include "common/grammar.h"

/* ECO_MAX_EXTENT keeps every index an int32_t and the generator's coordinates (number.h) in range.
 * Sizes in bytes are checked for overflow separately. */
enum {
    ECO_MAX_PROBLEM_TEXT = 320,
    ECO_MAX_EXTENT = 1 << 24,
    ECO_MAX_LAYERS = 255,
    ECO_MAX_MODELS = 4096
};

/* What a training run keeps for its backward. */
enum eco_save {
    ECO_SAVE_ALL,
    ECO_SAVE_STATES,
    ECO_SAVE_EVERY,
    ECO_SAVE_NARROW /* all in fewer bits: a replay copies instead of computing */
};
struct eco_saving {
    enum eco_save policy;
    bool fixed;       /* all may not be replaced by another policy to keep a limit */
    int32_t every;    /* checkpoint interval in steps; 0 with ECO_SAVE_ALL */
    ecornn_type type; /* type of checkpoints, or of all; default filled in */
};

#define ITEM(...)
#define COUNT(field, ...) int32_t field;
#define FLAG(field, ...)  bool field;
struct eco_problem {
    const struct ecornn_cell *cell;
#include "common/option_rows.inc"
    int32_t P, Y, D;                           /* Y: columns of y in a direction: P, or, of a cell
                                                  whose y has several states, that many times H */
    int32_t key;                               /* K: rows of a matrix state; 0: there is none */
    bool projected;                            /* there is a projection; otherwise P == H */
    bool int8;                                 /* ECORNN_INT8 */
    bool alone;                                /* models at once, by a thread each */
    bool reverse;                              /* one direction, from the last step to the first */
    ecornn_type type, param_type, weight_type; /* as in ecornn_desc, with defaults filled in */
    uint32_t flags;                            /* of the description */
    float dropout;
    struct eco_saving saving;
    uint64_t memory_limit;           /* bytes of reserve and workspace; 0: none */
    char text[ECO_MAX_PROBLEM_TEXT]; /* "lstm/f32/train/L2/bi/T100/N32/I512/H512" */
    struct eco_force force;          /* forced choices */
};
#undef ITEM
#undef COUNT
#undef FLAG

/* The forced value of a key; or `usual`. */
static inline int32_t eco_forced(const struct eco_problem *problem, enum eco_forced_key key,
                                 int32_t usual)
{
    return problem->force.keys >> key & 1 ? problem->force.value[key] : usual;
}

/* Input width of a layer: I, then D*Y. */
int32_t eco_problem_input(const struct eco_problem *problem, int layer);
/* Numbers of a row in a value of this kind (enum eco_kind), of all heads. */
int32_t eco_problem_kind(const struct eco_problem *problem, int kind);
/* Columns of a part of x, and of all. */
int32_t eco_problem_part(const struct eco_problem *problem, int part);
int32_t eco_problem_parts(const struct eco_problem *problem);
/* Columns of W in a layer: its input without the parts of x, which are columns after these. */
int32_t eco_problem_rest(const struct eco_problem *problem, int layer);
/* The first column of x itself, 0, or of part copy - 1, in a row of x (eco_accumulator). */
int32_t eco_problem_column(const struct eco_problem *problem, int copy);
/* Is that a part of a single number for all units? */
bool eco_problem_is_single(const struct eco_problem *problem, int copy);
/* Width of state s: P for the output state, H for the others, or what a cell with a matrix state
 * says; and the type of the caller's arrays. */
int32_t eco_problem_width(const struct eco_problem *problem, int state);
ecornn_type eco_problem_state_type(const struct eco_problem *problem, int state);
/* Columns of R for an operand: P for the output state itself, else H. */
int32_t eco_problem_columns(const struct eco_problem *problem, int operand);
/* Units of a head; H without heads. */
int32_t eco_problem_head(const struct eco_problem *problem);
/* Number of units in a mean: those of a row, or of a head. */
int32_t eco_problem_mean(const struct eco_problem *problem);
/* Does direction index d run from the last step to the first? */
bool eco_problem_reversed(const struct eco_problem *problem, int d);
/* Is the output state F32 inside a run of 16-bit rows?  So it is if the steps read it and no
 * product does: then it is a memory, like an LSTM's c, and y is a rounded copy of it.  Planes of a
 * y of several states are apart from it, too. */
bool eco_problem_wide_output(const struct eco_problem *problem);
/* Does a run write y of every layer separately from planes, if it is lean or the planes are wide?
 */
bool eco_problem_writes_y(const struct eco_problem *problem);
/* Does a training run use random numbers, for dropout or a bernoulli() in the text? */
bool eco_problem_draws(const struct eco_problem *problem);

/* May kernels that know neither rows that restart nor rows whose bits are the same in any batch
 * take its steps? */
bool eco_problem_is_plain(const struct eco_problem *problem);

/* The type of x and y of a description; 0 is F32. */
static inline ecornn_type eco_problem_type(const ecornn_desc *desc)
{
    return desc->type != 0 ? desc->type : ECORNN_F32;
}
/* Checks a description completely and makes it a problem; BAD_ARGUMENT or UNSUPPORTED. */
ecornn_status eco_problem_build(struct eco_problem *problem, const ecornn_desc *desc);
/* The problem of one of several models. */
void eco_problem_of_one(struct eco_problem *one, const struct eco_problem *problem);
/* Parses a problem string to a description (see ecornn_desc_parse). */
ecornn_status eco_problem_parse(ecornn_desc *desc, const char *text, const ecornn_cell *cell);

/* The same number in every locale; false: it is none. */
bool eco_problem_parse_decimal(const char *text, float *value);
/* The rows of option_rows.inc. */
extern const struct eco_grammar eco_problem_grammar;

/* saving.c: backward chunk length near `steps` such that chunks begin at checkpoints. */
int32_t eco_saving_chunk(const struct eco_problem *problem, int32_t steps);
/* Checks the fields of a description that limit training memory, ... */
ecornn_status eco_saving_check(const ecornn_desc *desc);
struct eco_saving eco_saving_of(const ecornn_desc *desc);
/* ... writes a policy as strings have it: "all", "states", "every:16"; ... */
void eco_saving_name(struct eco_text *text, enum eco_save policy, int32_t every);
/* ... prints these options of a problem, and parses the value after "memory:". */
void eco_saving_print(struct eco_text *text, const void *problem);
ecornn_status eco_saving_parse_memory(struct eco_reading *reading, const char *part,
                                      const char *value);

/* parameters.c: what parameter number `index` of the block belongs to, and its shape. */
struct eco_param_position {
    int layer, direction;
    int recipe_param; /* index in cell->recipe.param, or -1: the projection */
    bool vector;      /* a vector, not a matrix */
    int32_t rows, cols;
    int32_t blocks; /* blocks, rows / blocks by cols, on a packed diagonal; 1: no heads */
    size_t elements;
};
int eco_problem_params(const struct eco_problem *problem);
void eco_problem_param_position(const struct eco_problem *problem, int index,
                                struct eco_param_position *position);
/* The same in the form of ecornn_param_get.  Name and offset take longer to find. */
void eco_problem_param(const struct eco_problem *problem, int index, ecornn_param *param);
/* Elements of the whole block; SIZE_MAX on overflow. */
size_t eco_problem_param_elements(const struct eco_problem *problem);

/* weights.c: multiply-adds of one row in one step of one direction. */
struct eco_work {
    double recurrent; /* multiply-adds with R and the projection */
    double input;     /* with W */
};
struct eco_work eco_problem_work(const struct eco_problem *problem, int layer);

#endif /* ECO_PROBLEM_H */
