/*
 * Rows of a batch, each with its inputs and its results, and runs of some of them in any order, for
 * tests of row invariance.
 */
#ifndef ECO_TESTS_ROWS_H
#define ECO_TESTS_ROWS_H

#include "tests/kit/testing.h"

enum { ROWS = 70, MOST_PARAMS = 256, ROWS_TEXT = 200 };

/* Arrays that have a row for each n. */
enum kind { X, DY, INITIAL, DFINAL, Y, DX, FINAL, DINITIAL, KINDS };
enum { INPUTS = Y };

/* A problem without N, and rows for it. Each row has an array of every kind, and a length. */
struct rows {
    const char *text;
    struct test_case test; /* its cell and description */
    int32_t T, I, H, P, D, L;
    int states;
    bool training, by_place; /* by_place: random numbers depend on a row's index */
    ecornn_type type;
    size_t before[KINDS + 1]; /* offset of a kind inside a row, in bytes */
    char *row[ROWS]; /* X to DFINAL are inputs, the others results of a run of the row alone */
    int32_t length[ROWS];
    void *param[MOST_PARAMS];
    int params;
    bool ragged;
};

/* A plan, and memory for its runs. */
struct batch {
    const struct rows *rows;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int32_t T, N; /* of the run */
    void *weights, *workspace, *reserve, *dweights;
    char *array[KINDS][ECORNN_MAX_STATES];
    int32_t length[ROWS];
};

/* Makes rows with random inputs and, if ragged, random lengths. A failure fails the test. */
void rows_make(struct rows *rows, const char *text, bool ragged);
void rows_free(struct rows *rows);
size_t rows_elements(const struct rows *rows, int kind);
/* Fills n numbers with value, or with random numbers if value is 0. */
void rows_fill(void *to, ecornn_type type, size_t n, double value);
/* A random length from 0 to most. */
int32_t rows_length(int32_t most);

void batch_open(struct batch *b, const struct rows *rows, ecornn_device *device, int32_t T,
                int32_t N);
void batch_close(struct batch *b);
/* Runs row[0 .. N) in this order, from step t0 on, and copies the results back to these rows. b has
 * T and N. */
void batch_forward(struct batch *b, char *const *row, const int32_t *length, int32_t t0);
void batch_backward(struct batch *b, char *const *row, int32_t t0);

#endif /* ECO_TESTS_ROWS_H */
