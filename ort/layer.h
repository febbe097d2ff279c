/*
 * A node that this provider computes.
 */
#ifndef ECO_ORT_LAYER_H
#define ECO_ORT_LAYER_H

#include "ort/plans.h"
#include "ort/provider.h"

struct layer;

/* An operator of ONNX. */
struct op {
    const char *domain, *name;
    /* Reads the node into a layer of zeros, whose node and provider are set; it writes problem,
     * cell and size.  false: the reason says why this node is not supported. */
    bool (*describe)(struct layer *layer, struct reason *reason);
    bool (*run)(struct layer *layer, ort_context *context, struct reason *reason);
};
extern const struct op ops[]; /* ops.c; the last has no name */
/* NULL: not one of these. */
const struct op *find_op(const char *domain, const char *name);

struct layer {
    struct ort_compute face;
    const struct provider *provider;
    const struct op *op;
    const struct node *node; /* while it is described */
    char name[128];
    int input[MOST_INPUTS], output[MOST_OUTPUTS]; /* places in the fused node; -1: not given */
    int element;                                  /* of X */
    char problem[128];                            /* the plans' text, without T and N */
    ecornn_cell *cell;                            /* NULL: built-in */
    struct plans plans;
    bool constant;        /* are all weights constant? */
    void *zeros;          /* for a bias that is not given */
    int kind, directions; /* of recurrent.c */
    bool batch_first, reset_after, has_peepholes;
    int64_t width, hidden; /* I, H; of attention.c K, V */
    int64_t heads, shared; /* of keys, and those that share a query */
    int64_t part[6];       /* widths of attention's inputs */
};

/* Makes a layer from a node, or refuses it; the places of inputs and outputs are still unknown. */
struct layer *layer_create(const struct provider *provider, const struct node *node,
                           struct reason *reason);
void layer_free(struct layer *layer);

/* Sizes and data of an input, or an empty tensor. */
bool layer_input(const struct layer *layer, ort_context *context, int index, struct tensor *tensor,
                 struct reason *reason);
/* Memory for an output, or NULL if nobody reads it. */
bool layer_output(const struct layer *layer, ort_context *context, int index, const int64_t *sizes,
                  size_t rank, void **data, struct reason *reason);
/* Is an input that may be left out of this type and these sizes? */
bool check_tensor(const struct tensor *tensor, const char *name, int element, const int64_t *sizes,
                  size_t rank, struct reason *reason);
/* A failed call of the library; always false. */
bool refuse_status(struct reason *reason, ecornn_status status);
/* The words of problem strings for an ort_element, and its bytes; NULL: not supported. */
const char *words_of_element(int element);
size_t bytes_of_element(int element);

#endif /* ECO_ORT_LAYER_H */
