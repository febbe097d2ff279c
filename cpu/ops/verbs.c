/*
 * The verbs of the CPU: this thread's part of each, program/verbs.h.
 */
#include "cpu/cpu.h"

static void wait(void *run)
{
    eco_cpu_wait(run);
}

const struct eco_verbs eco_cpu_verbs = {.move = eco_cpu_move,
                                        .cut = eco_cpu_cut,
                                        .product = eco_cpu_weight_product,
                                        .gradients = eco_cpu_gradients,
                                        .wait = wait};

void eco_cpu_expand(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_target target = {&eco_cpu_verbs, (void *)(uintptr_t)run, run->layout,
                                      run->args, 0};
    eco_expand(&target, bound);
}
