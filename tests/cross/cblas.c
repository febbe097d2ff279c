/*
 * Products by their definition: C = beta C + alpha op(A) op(B), row-major; with beta 0, C is not
 * read.
 */
#include "cblas.h"

#include <stddef.h>

#define GEMM(name, real)                                                                           \
    void name(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k,      \
              real alpha, const real *a, int lda, const real *b, int ldb, real beta, real *c,      \
              int ldc)                                                                             \
    {                                                                                              \
        const int ai = ta == CblasTrans ? 1 : lda, ap = ta == CblasTrans ? lda : 1;                \
        const int bp = tb == CblasTrans ? 1 : ldb, bj = tb == CblasTrans ? ldb : 1;                \
        (void)order;                                                                               \
        for (int i = 0; i < m; i++)                                                                \
            for (int j = 0; j < n; j++) {                                                          \
                real sum = 0, *to = c + (size_t)i * (size_t)ldc + j;                               \
                for (int p = 0; p < k; p++)                                                        \
                    sum += a[i * ai + p * ap] * b[p * bp + j * bj];                                \
                *to = (beta == 0 ? 0 : beta * *to) + alpha * sum;                                  \
            }                                                                                      \
    }

GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
