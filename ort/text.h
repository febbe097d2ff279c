/*
 * Texts of cells for the recurrent nodes of ONNX.
 */
#ifndef ECO_ORT_TEXT_H
#define ECO_ORT_TEXT_H

#include "ort/node.h"

enum kind { KIND_LSTM, KIND_GRU, KIND_RNN };

/* What the text depends on. */
struct equations {
    enum kind kind;
    bool peepholes;          /* LSTM: input P is given */
    bool coupled;            /* LSTM: input_forget */
    bool reset_after;        /* GRU: linear_before_reset */
    float clip;              /* of what activations are given; 0: none */
    char activation[3][128]; /* each with "%s" for its argument */
};

/* Reads attributes activations, activation_alpha and activation_beta for all directions.  false:
 * the reason says what is not supported. */
bool read_activations(const struct node *node, int directions, struct equations *equations,
                      struct reason *reason);
/* A built-in cell's name, and "" as text, or the name in a text of its own [bytes]. */
const char *cell_of(const struct equations *equations, char *text, size_t bytes);

#endif /* ECO_ORT_TEXT_H */
