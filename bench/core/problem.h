/*
 * A problem to measure: its description, random data for it, and its number of operations.
 */
#ifndef BENCH_PROBLEM_H
#define BENCH_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "type.h"

struct problem {
    char text[200]; /* as given */
    char cell[64];  /* the first part of text */
    ecornn_desc desc;
    bool training, uniform; /* uniform: lengths are drawn from 1 to T */
    bool streaming;         /* inference by calls of one step, which keep the states */
    int directions, width;  /* D, and D*P, which is the width of y */
    ecornn_type type, param_type, weight_type; /* of x and y, of the parameter block, of products */
    size_t element, param_element;             /* bytes */
    int32_t *lengths;                          /* [N]; NULL: all T */
    double resets;                             /* percent of the steps; negative: none */
    uint8_t *reset;                            /* [T,N] of each model */
    size_t reset_rows;                         /* bytes of reset */
    double rows;                               /* sum of the lengths */
    int sets, most_sets;                       /* inputs that runs take in turn, see problem.c */
    void *x, *dy;                              /* [sets,T,N,I], [T,N,D*P]: uniform in (-1, 1) */
    void *params;                              /* the parameter block: uniform in +-1/sqrt(H) */
    size_t x_elements, y_elements, param_elements; /* of one set, all models */
    double flops; /* operations of a run's products; backward has twice the forward number */
};

/* Parses a string of ecornn_desc_parse, which may end in "/lengths:uniform" and in "/resets:3". The
 * latter resets a row's states before 3 percent of its steps, drawn at random. Prints why it fails.
 */
bool problem_parse(struct problem *problem, const char *text, const ecornn_cell *cell);
/* Draws the data of a plan of this problem; the same seed draws the same data. */
bool problem_fill(struct problem *problem, const ecornn_plan *plan, uint64_t seed);
void problem_free(struct problem *problem);

/* Allocates and draws numbers that are uniform in (-bound, bound); NULL: no memory. */
void *random_array(ecornn_type type, size_t count, double bound, uint64_t *state);

#endif /* BENCH_PROBLEM_H */
