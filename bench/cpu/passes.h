/*
 * Elementwise passes: one operation over a rectangle of floats, from one or two arrays to another,
 * as the kernels of a framework compute it.  The loop (versus/loop.c) is made of them.
 */
#ifndef BENCH_PASSES_H
#define BENCH_PASSES_H

enum pass {
    PASS_ADD,       /* a + b                     */
    PASS_SUB,       /* a - b                     */
    PASS_MUL,       /* a * b                     */
    PASS_ONE_MINUS, /* 1 - a                     */
    PASS_SIGMOID,   /* sigmoid(a)                */
    PASS_TANH,      /* tanh(a)                   */
    PASS_RELU,      /* max(a, 0)                 */
    PASS_D_SIGMOID, /* a * b * (1 - b)           */
    PASS_D_TANH,    /* a * (1 - b * b)           */
    PASS_D_RELU,    /* a where b > 0, else 0     */
    PASS_COPY,      /* a                         */
    PASS_COUNT
};

/* Each pass over `count` floats of a row.  Passes of one argument do not read b. */
typedef void pass_function(float *to, const float *a, const float *b, int count);
extern pass_function *const pass_row[PASS_COUNT];

/* Rows of floats, `stride` apart; stride 0 repeats one row. */
struct rows {
    float *data;
    int stride;
};
/* to, a and b are [N,H]. */
struct rectangle {
    int N, H;
    struct rows to, a, b;
};
/* Several threads share a pass that is large enough. */
void pass_run(enum pass pass, const struct rectangle *rectangle);

#endif /* BENCH_PASSES_H */
