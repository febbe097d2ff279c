/*
 * A node of ONNX Runtime's graph, as far as providers may look at it before it runs.
 */
#ifndef ECO_ORT_NODE_H
#define ECO_ORT_NODE_H

#include "ort/ort_abi.h"

enum { MOST_INPUTS = 16, MOST_OUTPUTS = 4, MOST_ATTRIBUTES = 32, MOST_RANK = 5, MOST_TEXT = 512 };

struct node {
    const struct ort_api *api;
    const char *name, *operator_name, *domain;
    const ort_value_info *input[MOST_INPUTS], *output[MOST_OUTPUTS]; /* NULL: not given */
    size_t inputs, outputs, attributes;
    const ort_attribute *attribute[MOST_ATTRIBUTES];
};

/* A tensor, or what the graph says about one. */
struct tensor {
    const void *data; /* NULL: not given, or only its type is known */
    int element;      /* an ort_element; 0: not given */
    size_t rank;
    int64_t size[MOST_RANK]; /* -1: not known */
};

/* Why something cannot be done, in one line; "" so far. */
struct reason {
    char text[MOST_TEXT];
};
/* Writes the reason, unless there is one already; always false. */
__attribute__((format(printf, 2, 3))) bool refuse(struct reason *reason, const char *format, ...);
/* The same with the text of a status, which it releases; true if there is none. */
bool passed(const struct ort_api *api, ort_status *status, struct reason *reason);

bool node_read(struct node *node, const struct ort_api *api, const ort_node *handle,
               struct reason *reason);

/* Attributes by name; one that is not there leaves what is written to as it is. */
bool node_int(const struct node *node, const char *name, int64_t *value, struct reason *reason);
bool node_float(const struct node *node, const char *name, float *value, struct reason *reason);
bool node_floats(const struct node *node, const char *name, float *values, size_t most,
                 size_t *count, struct reason *reason);
/* One string, or several one after the other, each with its 0; text [MOST_TEXT]. */
bool node_text(const struct node *node, const char *name, enum ort_kind kind, char *text,
               size_t *bytes, struct reason *reason);

/* What the graph says about an input, and whether it is constant. */
bool node_input(const struct node *node, size_t index, struct tensor *tensor, bool *constant,
                struct reason *reason);
bool info_name(const struct ort_api *api, const ort_value_info *info, const char **name,
               struct reason *reason);
/* Type and sizes; the data is the caller's to ask for. */
bool value_read(const struct ort_api *api, const ort_value *value, struct tensor *tensor,
                struct reason *reason);

#endif /* ECO_ORT_NODE_H */
