/*
 * The problem: the description made canonical, and the list of its parameters.  plan/problem.c.
 */
#ifndef ECO_PROBLEM_H
#define ECO_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/cell/cell.h"
#include "common/force.h"

enum { ECO_MAX_PROBLEM_TEXT = 320, ECO_MAX_LAYERS = 255, ECO_MAX_MODELS = 4096 };

/* What a training run keeps for its backward. */
struct eco_saving {
    ecornn_save policy;
    int32_t every;    /* states before every so many steps; 0 with ECORNN_SAVE_ALL */
    ecornn_type type; /* of these; default filled in */
};

struct eco_problem {
    const struct ecornn_cell *cell;
    int32_t T, N, I, H, P, L, D;
    int32_t heads;  /* R reads H / heads units, those of a unit's own head */
    bool grouped;   /* ECORNN_GROUPED_INPUT: W reads such a part of the input */
    bool projected; /* P is a projection; else P == H */
    bool training;
    bool fast;          /* ECORNN_FAST_MATH */
    bool row_invariant; /* ECORNN_ROW_INVARIANT */
    bool resets;        /* ECORNN_RESETS */
    bool masks;         /* ECORNN_MASK */
    bool repeats;       /* ECORNN_REPEAT_PADDING */
    bool states;        /* ECORNN_ALL_STATES */
    bool shared;        /* ECORNN_SHARED_INPUT */
    int32_t models;     /* 1 or more */
    ecornn_direction direction;
    ecornn_order order;
    ecornn_type type, param_type, weight_type; /* as ecornn_desc, defaults filled in */
    float dropout;
    struct eco_saving saving;
    uint64_t memory_limit;           /* bytes of reserve and workspace; 0: none */
    char text[ECO_MAX_PROBLEM_TEXT]; /* "lstm/f32/train/L2/bi/T100/N32/I512/H512" */
    char forced[ECO_MAX_FORCE];      /* choices that the planner does not make, as ECORNN_FORCE */
};

/* Input width of a layer: I, then D*P. */
int32_t eco_problem_input(const struct eco_problem *problem, int layer);
/* Width of state s: P for the output state, H for the others. */
int32_t eco_problem_width(const struct eco_problem *problem, int state);
/* Columns of R of an operand: P where it is the output state itself, else H. */
int32_t eco_problem_columns(const struct eco_problem *problem, int operand);
/* Units of a head: H, without. */
int32_t eco_problem_head(const struct eco_problem *problem);
/* So many units are in a mean: those of a row, or of a head. */
int32_t eco_problem_mean(const struct eco_problem *problem);
/* Is (layer, direction index d) run from the last step to the first? */
bool eco_problem_reversed(const struct eco_problem *problem, int d);
/* Does a lean run write y of every layer apart from planes? */
bool eco_problem_writes_y(const struct eco_problem *problem);
/* Does a training run draw random numbers: is there dropout, or a bernoulli() in the text? */
bool eco_problem_draws(const struct eco_problem *problem);

/* Description to problem, with a complete check of it; BAD_ARGUMENT or UNSUPPORTED. */
ecornn_status eco_problem_build(struct eco_problem *problem, const ecornn_desc *desc);
/* The problem of one of its models. */
void eco_problem_of_one(struct eco_problem *one, const struct eco_problem *problem);
/* Problem string to description (see ecornn_desc_parse). */
ecornn_status eco_problem_parse(ecornn_desc *desc, const char *text, const ecornn_cell *cell);

/* Decimals of a string, the same in every locale: 0 < value < 2^24. */
struct eco_text;
void eco_problem_write_decimal(struct eco_text *text, float value);
/* false: it is no number. */
bool eco_problem_parse_decimal(const char *text, float *value);

/* saving.c: so many steps of a chunk back, or near them: one begins where states are kept. */
int32_t eco_saving_chunk(const struct eco_problem *problem, int32_t steps);
/* The fields that say how much memory training takes: their check, ... */
ecornn_status eco_saving_check(const ecornn_desc *desc);
struct eco_saving eco_saving_of(const ecornn_desc *desc);
/* ... a policy as strings have it: "all", "states", "every:16"; ... */
void eco_saving_name(struct eco_text *text, ecornn_save policy, int32_t every);
/* ... their parts of a problem string; ... */
void eco_saving_write(struct eco_text *text, const struct eco_problem *problem);
/* ... and "save:..." or "memory:..." read.  False: it is something else, or malformed. */
bool eco_saving_parse(ecornn_desc *desc, const char *part);

/* parameters.c: where number index of the block belongs, and its shape. */
struct eco_param_position {
    int layer, direction;
    int recipe_param; /* in cell->recipe.param, or -1: the projection */
    bool vector;      /* else a matrix */
    int32_t rows, cols;
    int32_t blocks; /* a matrix: so many lie on the diagonal of a packed one, rows / blocks by cols
                     * each; 1: it is that */
    size_t elements;
};
int eco_problem_params(const struct eco_problem *problem);
void eco_problem_param_position(const struct eco_problem *problem, int index,
                                struct eco_param_position *position);
/* The same as ecornn_param_get shows it: its name and offset, which take longer to find. */
void eco_problem_param(const struct eco_problem *problem, int index, ecornn_param *param);
/* Elements of the whole block; SIZE_MAX on overflow. */
size_t eco_problem_param_elements(const struct eco_problem *problem);

/* weights.c: multiply-adds of one row in one step of one direction. */
struct eco_work {
    double recurrent; /* with R and the projection */
    double input;     /* with W */
};
struct eco_work eco_problem_work(const struct eco_problem *problem, int layer);

#endif /* ECO_PROBLEM_H */
