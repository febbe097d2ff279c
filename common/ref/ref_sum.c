/*
 * Sums of gradients of weights.  There are too many rows to add in one chain on a machine that
 * rounds: a chain has a limited number of rows, some chains are added up, and their sums are added
 * exactly (cpu/ops/gradient_sums.c, doc/numerics.md).  In double the order does not matter.
 */
#include "common/ref/ref.h"

enum { CHAIN_ROWS = 528, CHAINS = 124 };

void eco_reference_sum_begin(struct eco_reference *run, const void *before, ecornn_type type)
{
    const size_t elements = eco_problem_param_elements(run->problem);
    for (size_t i = 0; i < elements; i++) {
        run->dsome[i] = before ? eco_type_get(before, i, type) : 0;
        run->dchain[i] = run->dweights[i] = 0;
    }
    run->chain_rows = run->chains = 0;
}

static void add_chain(struct eco_reference *run)
{
    const size_t elements = eco_problem_param_elements(run->problem);
    for (size_t i = 0; i < elements; i++) {
        run->dsome[i] = eco_round(&run->arithmetic, run->dsome[i] + run->dchain[i]);
        run->dchain[i] = 0;
    }
    run->chain_rows = 0;
}

static void add_some(struct eco_reference *run)
{
    const size_t elements = eco_problem_param_elements(run->problem);
    for (size_t i = 0; i < elements; i++) {
        run->dweights[i] += run->dsome[i];
        run->dsome[i] = 0;
    }
    run->chains = 0;
}

void eco_reference_sum_row(struct eco_reference *run)
{
    if (++run->chain_rows < CHAIN_ROWS)
        return;
    add_chain(run);
    if (++run->chains == CHAINS)
        add_some(run);
}

void eco_reference_sum_pair(struct eco_reference *run)
{
    add_chain(run);
    run->chains = 0;
}

void eco_reference_sum_end(struct eco_reference *run)
{
    add_some(run);
}
