/*
 * Prints the time of one cell update for every built-in cell and instruction set, compiled and
 * interpreted, forward and backward. It is not a test.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/kit/stage.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Nanoseconds per unit: the least of several repetitions of all forward or all backward stages. */
static double unit_time(struct stage *stage, const struct eco_isa *isa, bool interpreted)
{
    double total = 0;
    for (stage->index = 0; stage->index < stage_count(stage->cell, stage->backward);
         stage->index++) {
        struct stage_memory *m = stage_memory_new(stage);
        const eco_pointwise_kernel run = stage_kernel(stage, isa, interpreted);
        m->call.row1 = 1; /* only the first row, which is aligned */
        double best = INFINITY;
        for (int k = 0; k < 300; k++) {
            const double start = seconds();
            run(&m->call);
            best = fmin(best, seconds() - start);
        }
        total += best;
        free(m);
    }
    return 1e9 * total / stage->hidden;
}

int main(void)
{
    const struct ecornn_cell *cell;
    const struct eco_isa *isa;
    printf("ns per unit      forward: compiled, interpreted; backward: compiled, interpreted\n");
    for (int c = 0; (cell = eco_cell_builtin(c)); c++)
        for (int k = 0; (isa = eco_isa_supported(k)); k++) {
            struct stage stage = {.cell = cell, .hidden = 512, .element = sizeof(float)};
            printf("%-16s %-8s", cell->recipe.name, isa->name);
            for (int way = 0; way < 2; way++) {
                stage.backward = way == 1;
                printf(" %7.2f", unit_time(&stage, isa, false));
                printf(" %7.2f", unit_time(&stage, isa, true));
            }
            printf("\n");
        }
    return 0;
}
