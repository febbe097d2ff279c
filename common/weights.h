/*
 * Packed weights and their gradient: the parts of a layer and direction, as products see them and
 * as they lie.  plan/weights.c, plan/acc_range.c.
 */
#ifndef ECO_WEIGHTS_H
#define ECO_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/problem.h"
#include "common/layout_request.h"

struct eco_layout;
struct eco_text;

/* The parts of one (layer, direction). */
enum eco_weight_id {
    ECO_WEIGHT_INPUT,     /* W: one matrix [n*H, I], stacked in the order of the accumulators */
    ECO_WEIGHT_PROJECT,   /* P: [P,H] */
    ECO_WEIGHT_VECTORS,   /* b, p: [n,H], in the order of the recipe's params */
    ECO_WEIGHT_RECURRENT, /* + operand: R of it, [n*H, columns], in the order of the accumulators */
    ECO_WEIGHT_IDS = ECO_WEIGHT_RECURRENT + ECO_MAX_OPERANDS
};

/* The forms of a part.  Packed weights are all parts of all layers in the first form, then all in
 * the second: so a block for training begins as one for inference.  Their gradient is in the third.
 */
enum eco_form {
    ECO_FORM_FORWARD,
    ECO_FORM_BACK, /* panels of M^T, of a plan for training */
    ECO_FORM_DENSE,
    ECO_FORMS
};

/* A part as a product sees it: C[rows, n*units] = A[rows, columns] M^T. */
struct eco_matrix {
    int32_t n, units, columns;
    int32_t height, row; /* as it lies: rows from one of n to the next, elements from row to row;
                          * more than units and columns by wish, then zeros */
};
struct eco_matrix eco_problem_matrix(const struct eco_problem *problem, int layer, int weight_id);
/* The same as it lies by wish. */
struct eco_matrix eco_stored_matrix(const struct eco_problem *problem,
                                    const struct eco_layout_request *request, int layer,
                                    int weight_id);

/*
 * A matrix M[n*units, k] in panels for vectors of `lanes` weights: blocks of units; in a block the
 * vectors of all n, `spans` lanes-wide groups of units each; the vectors spread over panels [k,
 * vectors, lanes].  Vector v of a block is group v % spans of number v / spans.  Zeros fill up.
 * With groups of k a panel is [depth / group, vectors, group / pair, lanes, pair].
 */
struct eco_panels {
    int32_t n, units, k;
    int32_t depth; /* k filled up to whole groups */
    int32_t lanes,
        lane_groups; /* a block is lanes * spans units; powers of two: 1 << shift spans, */
    int32_t shift, units_shift; /* 1 << units_shift units */
    int32_t group, pair;
    int32_t blocks;
    int32_t panels;         /* of a block */
    int32_t vectors, wider; /* of a panel; the first `wider` panels have one more */
};

/* Called by eco_layout_build. */
void eco_layout_build_weights(struct eco_layout *layout);
struct eco_panels eco_panels_of(const struct eco_matrix *matrix, bool transposed,
                                const struct eco_layout_request *request);
/* The first vector of a panel; of panel number `panels`: all vectors of a block. */
static inline int32_t eco_panels_vector(const struct eco_panels *panels, int32_t panel)
{
    return panel * panels->vectors + (panel < panels->wider ? panel : panels->wider);
}
/* Elements before a panel. */
static inline size_t eco_panels_offset(const struct eco_panels *panels, int32_t block,
                                       int32_t panel)
{
    const size_t vectors = (size_t)(panels->n * panels->lane_groups);
    const size_t vector = (size_t)panels->depth * (size_t)panels->lanes;
    return ((size_t)block * vectors + (size_t)eco_panels_vector(panels, panel)) * vector;
}

/* eco_problem_matrix and eco_panels_of of a part, kept from when the layout was built; the former
 * with what the wishes add. */
const struct eco_matrix *eco_layout_matrix(const struct eco_layout *layout, int layer,
                                           int weight_id);
const struct eco_panels *eco_layout_panels(const struct eco_layout *layout, int layer,
                                           int weight_id, bool transposed);

/* The next run of neighbouring accumulators [first, end) that have a part, at or after `from`;
 * before: how many with that part come earlier.  The projection has one, of P columns. */
struct eco_acc_range {
    int first, end, before;
};
bool eco_acc_range_next(const struct eco_lowered *lowered, int weight_id, int from,
                        struct eco_acc_range *span);

/* How many vectors of the recipe come before that parameter. */
int eco_vector_number(const struct eco_recipe *recipe, int param);
/* Which column of dacc holds the gradient of vector parameter `param`; -1: none. */
int eco_vector_column(const struct eco_lowered *lowered, int param);

/* Byte offsets.  weights: dense, or panels of M where the wishes say so (vectors are always dense);
 * weights_back: panels of M^T, plans for training only; gradient: dense, in dweights. */
size_t eco_layout_weights(const struct eco_layout *layout, int layer, int d, int weight_id);
size_t eco_layout_weights_back(const struct eco_layout *layout, int layer, int d, int weight_id);
size_t eco_layout_gradient(const struct eco_layout *layout, int layer, int d, int weight_id);
/* fit.c: may a plan of layout `used` read what was packed for `packed`?  False: why says in what
 * they differ. */
bool eco_layout_weights_fit(const struct eco_layout *packed, const struct eco_layout *used,
                            struct eco_text *why);
/* Which part a parameter belongs to, and how many blocks of `rows` rows lie before it there. */
int eco_problem_weight_id(const struct eco_problem *problem,
                          const struct eco_param_position *position, int *before);

#endif /* ECO_WEIGHTS_H */
