/*
 * A problem to measure: its description, its lengths, random data for it, and the operations it
 * takes.
 */
#ifndef BENCH_PROBLEM_H
#define BENCH_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "type.h"

struct problem {
    char text[200]; /* as given */
    char cell[64];  /* its first part */
    ecornn_desc desc;
    bool training, uniform;                    /* uniform: lengths drawn from 1 to T */
    bool streaming;                            /* one step of inference a call: states stay */
    int directions, width;                     /* D, and D*P of y */
    ecornn_type type, param_type, weight_type; /* of x and y, of the parameter block, of products */
    size_t element, param_element;             /* bytes */
    int32_t *lengths;                          /* [N]; NULL: all T */
    double resets;                             /* of a hundred steps so many; negative: NULL */
    uint8_t *reset;                            /* [T,N] */
    double rows;                               /* sum of the lengths */
    int sets;                                  /* of x, used in turn */
    void *x, *dy;                              /* [sets,T,N,I], [T,N,D*P]: uniform in (-1, 1) */
    void *params;                              /* the parameter block: uniform in +-1/sqrt(H) */
    size_t x_elements, y_elements, param_elements; /* of one set */
    double flops; /* of a run: products only, backward counts twice forward */
};

/* A string of ecornn_desc_parse, with "/lengths:uniform" perhaps, and "/resets:3", which draws the
 * steps before which states begin anew, in percent.  On failure prints why. */
bool problem_parse(struct problem *problem, const char *text, const ecornn_cell *cell);
/* Draws the data of a plan of this problem, as the seed says. */
bool problem_fill(struct problem *problem, const ecornn_plan *plan, uint64_t seed);
void problem_free(struct problem *problem);

#endif /* BENCH_PROBLEM_H */
