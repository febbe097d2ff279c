/*
 * Room for values that stages of a cell with means pass on to later ones (common/cell/carried.c).
 */
#include "cpu/algo/force.h"

/* Most rows that go through all stages together: enough to make the overhead of a stage negligible.
 * Their values take this part of a second-level cache. */
enum { MOST_ROWS = 8, PART = 2 };

void eco_cpu_request_carried(const struct eco_problem *problem, const struct eco_caps *caps,
                             struct eco_cpu_request *request)
{
    const size_t column =
        eco_layout_carried_column(problem) * eco_type_bytes(eco_type_sum(problem->type));
    if (!eco_cpu_carries_values(problem) || !eco_forced(problem, ECO_FORCE_CARRIED, true))
        return;
    request->carried_threads = caps->threads;
    for (int way = 0; way < 2; way++) {
        const size_t row = column * (size_t)problem->cell->lowered.n_columns[way];
        const size_t rows = row > 0 ? caps->cpu.cache_bytes / PART / row : 0;
        request->carried_rows[way] = (int32_t)(rows < MOST_ROWS ? rows : MOST_ROWS);
    }
}
