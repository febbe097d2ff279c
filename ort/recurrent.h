/*
 * What the files of the recurrent nodes share.
 */
#ifndef ECO_ORT_RECURRENT_H
#define ECO_ORT_RECURRENT_H

#include "ort/layer.h"

enum { X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, P, W_SCALE, W_ZERO, R_SCALE, R_ZERO, INPUTS };

struct kind {
    const char *name;
    const char *gates; /* in ONNX's order, by our letters */
    int states;
};
extern const struct kind kinds[]; /* recurrent.c */

/* What weights are given. */
struct given {
    const struct layer *layer;
    struct run *run; /* NULL: before the first run, when the graph has the weights */
    struct reason *reason;
    struct tensor is[INPUTS]; /* weights are read when they are packed */
    float *real[2];           /* of integers: W and R [D,4*H,columns], made when they are packed */
};

/* Finds the parameters of a plan for owner, a struct given, and reads the weights if it must. */
bool find_params(void *owner, const ecornn_plan *plan, int count, struct params *params);
void given_end(struct given *given);

#endif /* ECO_ORT_RECURRENT_H */
