/*
 * Elementwise passes for the opponents: one operation over a rectangle of floats, from arrays to an
 * array of its own, as a framework's kernels do it.
 */
#ifndef BENCH_PASSES_H
#define BENCH_PASSES_H

enum pass {
    PASS_ADD,       /* a + b                     */
    PASS_SUB,       /* a - b                     */
    PASS_MUL,       /* a * b                     */
    PASS_ONE_MINUS, /* 1 - a                     */
    PASS_SIGMOID,   /* of a                      */
    PASS_TANH,      /* of a                      */
    PASS_RELU,      /* of a                      */
    PASS_D_SIGMOID, /* a * b * (1 - b)           */
    PASS_D_TANH,    /* a * (1 - b * b)           */
    PASS_D_RELU,    /* a where b > 0, else 0     */
    PASS_COPY,      /* a                         */
    PASS_COUNT
};

/* One pass over a piece of a row; b is not read by passes of one argument. */
typedef void (*pass_function)(float *to, const float *a, const float *b, int count);

/* A family: vector code on several threads where that pays, or plain loops on one. */
struct passes {
    pass_function row[PASS_COUNT];
    int parallel_from; /* elements from which on threads share a pass; 0: never */
};
extern const struct passes passes_vector, passes_scalar;

/* Rows of floats, `stride` apart; stride 0: the same row again and again. */
struct rows {
    float *data;
    int stride;
};
/* to [N,H] from a and b [N,H]. */
struct rectangle {
    int N, H;
    struct rows to, a, b;
};
void pass_run(const struct passes *passes, enum pass pass, const struct rectangle *rectangle);

#endif /* BENCH_PASSES_H */
