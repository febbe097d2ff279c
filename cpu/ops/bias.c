/*
 * The biases that products add to accumulators.
 */
#include "cpu/cpu.h"

const void *eco_cpu_bias(const struct eco_cpu_run *run, const struct eco_op *op, int acc)
{
    const int param = run->lowered->acc[acc].vector;
    const size_t before = (size_t)eco_vector_number(&run->problem->cell->recipe, param);
    const void *vectors = eco_bind_weights(run->layout, run->args, op, ECO_WEIGHT_VECTORS);
    return param < 0 ? NULL
                     : eco_cpu_after(run->layout->sum, vectors, before * (size_t)run->problem->H);
}
