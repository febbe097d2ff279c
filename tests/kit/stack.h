/*
 * A net for tests, parsed here, that runs in two ways: as a net, and layer by layer with joins,
 * dropout and sums written as loops.
 */
#ifndef STACK_H
#define STACK_H

#include "tests/kit/trial.h"

/* The items that all layers share, the sizes of x, and the pieces; do rows have lengths? */
struct stack_case {
    const char *common;
    int32_t T, N, I;
    const char *pieces;
    bool lengths;
};

enum { PIECES = 8, MOST_ROWS = 2048 };

struct piece {
    int32_t join; /* 1: layers, or dropout */
    double dropout;
    int first, layers;
    int32_t T, input, output; /* T: steps of its input, */
    int32_t before;           /* each of which stands for this number of steps of x */
    int32_t lengths[64];
    uint8_t reset[MOST_ROWS], mask[MOST_ROWS]; /* [T,N] */
};

struct stack {
    char text[400];
    struct trial net;
    struct trial layer[TRIAL_LAYERS]; /* a plan of its own for each, with the net's choices */
    int32_t N;
    size_t element; /* bytes */
    ecornn_type type;
    bool batch_major, masks;
    int layers, pieces;
    struct piece piece[PIECES + 1]; /* the last one has T, lengths and so on of y */
};

/* Makes the plans and fills the inputs; force: ECORNN_FORCE of the net, or NULL. */
void stack_open(struct stack *stack, const char *device, const struct stack_case *is,
                const char *force);
void stack_close(struct stack *stack);
/* Runs the net forward once and backward twice. */
void stack_run(struct stack *stack);
/* Runs the layers, and then the net several times. The test fails if bits differ. */
void stack_check(struct stack *stack, int times);

#endif /* STACK_H */
