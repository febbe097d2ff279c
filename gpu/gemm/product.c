/*
 * One product, offered to a list of methods, the last of which is cuBLAS; see gemm.h.
 */
#include "gpu/gemm/emulated_f32/emulated_f32.h"
#include "gpu/gemm/grouped/grouped.h"

static const struct eco_gemm gemms[] = {
    {"grouped", false, false, eco_gpu_grouped_product},
    {"emulated-f32", true, false, eco_gpu_product_emulated},
    {"cublaslt", true, true, eco_gpu_product_lt},
    {"cublas", false, false, eco_gpu_product_cublas},
};

/* What is left of a product of a long sum: only its first piece adds the bias. */
static void multiply_rest(struct eco_gpu_run *run, const struct eco_product *p)
{
    const int32_t piece = eco_gpu_piece(run, p);
    if (piece >= p->k)
        return;
    struct eco_product rest = eco_gpu_product_after(run, p, piece);
    rest.piece = piece;
    eco_gpu_product(run, &rest);
}

bool eco_gpu_product(struct eco_gpu_run *run, const struct eco_product *p)
{
    for (size_t i = 0; i < sizeof gemms / sizeof *gemms; i++)
        if ((p->bias == NULL || gemms[i].biased) && gemms[i].take(run, p)) {
            if (gemms[i].first_piece)
                multiply_rest(run, p);
            return true;
        }
    return false;
}
