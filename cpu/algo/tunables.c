/*
 * The choices of CPU plans that are worth measuring, largest gain first. Those that divide sums
 * differently may change last bits: chunk-back, and pack-rows of gradients; chunk with F64, with
 * blas, and with scans in blocks of time. Row-invariant plans do not vary them. The others change
 * no bits, so the algorithm is not among them, nor are wide and gradient-rows.
 */
#include "cpu/algo/force.h"
#include "common/backend.h"

/* With all threads, and with half of them. */
static void list_grids(const struct ecornn_plan *plan, struct eco_text *text)
{
    const int most = plan->device->caps.threads < ECO_STEP_THREADS ? plan->device->caps.threads
                                                                   : ECO_STEP_THREADS;
    eco_text_add(text, "1x1x1");
    for (int threads = most; threads > 1; threads = threads > most / 2 ? threads / 2 : 1)
        for (int ops = 1; ops <= plan->problem.D && ops <= threads; ops++)
            for (int rows = 1; ops * rows <= threads; rows++)
                if (threads % (ops * rows) == 0 && rows <= plan->problem.N)
                    eco_text_add(text, " %dx%dx%d", ops, rows, threads / ops / rows);
}

const struct eco_choice eco_cpu_tunables[] = {
    {"grid", NULL, NULL, list_grids, false, false},
    {"vectors", "packed", "1 2 3 4", NULL, false, false},
    {"own-units", "packed", "0 1", NULL, false, false},
    {"fuse", "packed", "0 1", NULL, false, false},
    {"chunk", NULL, "/4 /2 *2 *4", NULL, false, true},
    {"chunk-back", NULL, "/4 /2 *2 *4", NULL, true, true},
    {"block", "packed", "6 12 24 48", NULL, false, false},
    {"copy", "packed", "0 1", NULL, false, false},
    {"pass-after", "packed", "0 1", NULL, false, false},
    {"cached", "packed", "0 1", NULL, false, false},
    {"strips", "packed", "0", NULL, false, false},
    {"whole-rows", "packed", "1", NULL, false, false},
    {"help", "packed", "0 1", NULL, false, false},
    {"pack-rows", "packed", "132 264 1056", NULL, true, true},
    {NULL, NULL, NULL, NULL, false, false},
};
