/*
 * Packed weights and their gradient: the matrices and vectors of a layer and direction, as products
 * see them and as they are stored.  plan/weights.c.
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

/* The weights of one (layer, direction). */
enum eco_weight_id {
    ECO_WEIGHT_INPUT,   /* W: one matrix [n*H, I], stacked in the order of the accumulators */
    ECO_WEIGHT_PROJECT, /* P: [P,H] */
    /* b, p: [n,H], in the order of the recipe's params.  A GPU's wide step reads up to a block's
     * units beyond the last row, which is in RECURRENT then. */
    ECO_WEIGHT_VECTORS,
    ECO_WEIGHT_RECURRENT, /* + operand: its R, [n*H, columns], in the order of the accumulators */
    ECO_WEIGHT_IDS = ECO_WEIGHT_RECURRENT + ECO_MAX_OPERANDS
};

/* The forms in which weights are stored.  Packed weights are those of all layers in the first form,
 * then all in the second, so that a training block begins like one for inference.  Their gradient
 * has the third form. */
enum eco_form {
    ECO_FORM_FORWARD,
    ECO_FORM_BACK, /* panels of M^T, for training */
    ECO_FORM_DENSE,
    ECO_FORMS
};

/* A matrix as a product sees it: C[rows, n*units] = A[rows, columns] M^T. */
struct eco_matrix {
    int32_t n, units, columns;
    int32_t height, row; /* as stored: rows from one of n to the next, elements from row to row; on
                            request more than units and columns, with zeros as padding */
};
struct eco_matrix eco_problem_matrix(const struct eco_problem *problem, int layer, int weight_id);
/* The same with the requested padding. */
struct eco_matrix eco_stored_matrix(const struct eco_problem *problem,
                                    const struct eco_layout_request *request, int layer,
                                    int weight_id);

/*
 * A matrix M[n*units, k] stored in panels for vectors of `lanes` weights.  Units are cut into
 * blocks of lanes * lane_groups.  A block has for each of the n gates lane_groups vectors; vector v
 * is group v % lane_groups of gate v / lane_groups.  The vectors are divided over panels [k,
 * vectors, lanes], padded with zeros.  With groups of k a panel is [depth / group, vectors, group /
 * pair, lanes, pair].
 *
 * Example: R of an LSTM with H = 512, 16 lanes, one lane group, panels of four vectors.  There are
 * 32 blocks of 16 units; a block has the vectors i, f, g, o, which make one panel [512, 4, 16].
 */
struct eco_panels {
    int32_t n, units, k;
    int32_t depth;              /* k padded to whole groups */
    int32_t lanes, lane_groups; /* a block has lanes * lane_groups units; 1 << shift groups, */
    int32_t shift, units_shift; /* 1 << units_shift units */
    int32_t group, pair;
    int32_t blocks;
    int32_t panels;         /* in a block */
    int32_t vectors, wider; /* in a panel; the first `wider` panels have one more */
};

/* Called by eco_layout_build. */
void eco_layout_build_weights(struct eco_layout *layout);
struct eco_panels eco_panels_of(const struct eco_matrix *matrix, bool transposed,
                                const struct eco_layout_request *request);
/* The first vector of a panel; for panel number `panels` the number of vectors of a block. */
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

/* S8 without panels: byte offset of the scales of a matrix's rows [n*height], as floats. */
static inline size_t eco_matrix_scales(const struct eco_matrix *matrix)
{
    const size_t group = sizeof(float), rows = (size_t)matrix->n * (size_t)matrix->height;
    return (rows * (size_t)matrix->row + group - 1) / group * group;
}

/* S8: behind the panels there are for each vector of each block, in this order, the scales of its
 * lanes [lanes] as floats and the sums of their integers [lanes] as int32_t. */
static inline size_t eco_panels_elements(const struct eco_panels *panels)
{
    return eco_panels_offset(panels, panels->blocks, 0);
}
static inline size_t eco_panels_scales(const struct eco_panels *panels, int32_t block, int32_t v)
{
    const size_t vector = (size_t)block * (size_t)(panels->n * panels->lane_groups) + (size_t)v;
    return eco_panels_elements(panels) +
           vector * (size_t)panels->lanes * (sizeof(float) + sizeof(int32_t));
}

/* The results of eco_stored_matrix and eco_panels_of, kept since the layout was built. */
const struct eco_matrix *eco_layout_matrix(const struct eco_layout *layout, int layer,
                                           int weight_id);
const struct eco_panels *eco_layout_panels(const struct eco_layout *layout, int layer,
                                           int weight_id, bool transposed);

/* The next range of neighbouring accumulators [first, end) that have this weight, at or after
 * `from`. before: how many earlier accumulators have it.  A projection has one range, with P
 * columns. */
struct eco_acc_range {
    int first, end, before;
};
bool eco_acc_range_next(const struct eco_lowered *lowered, int weight_id, int from,
                        struct eco_acc_range *range);

/* The number of vectors in the recipe before this parameter. */
int eco_vector_number(const struct eco_recipe *recipe, int param);
/* The column of dacc with the gradient of vector parameter `param`; -1: none. */
int eco_vector_column(const struct eco_lowered *lowered, int param);

/* Byte offsets.  weights: dense matrices, or panels of M on request (vectors are always dense);
 * weights_back: panels of M^T, in training; gradient: dense, in dweights. */
size_t eco_layout_weights(const struct eco_layout *layout, int layer, int d, int weight_id);
size_t eco_layout_weights_back(const struct eco_layout *layout, int layer, int d, int weight_id);
size_t eco_layout_gradient(const struct eco_layout *layout, int layer, int d, int weight_id);
/* fit.c: can a plan of layout `used` read weights of `packed`?  why: how they differ. */
bool eco_layout_weights_fit(const struct eco_layout *packed, const struct eco_layout *used,
                            struct eco_text *why);
/* The weight of a parameter; before: blocks of `rows` rows before it there. */
int eco_problem_weight_id(const struct eco_problem *problem,
                          const struct eco_param_position *position, int *before);

#endif /* ECO_WEIGHTS_H */
