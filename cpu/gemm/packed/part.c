/*
 * The units and rows of a product that are one thread's.
 */
#include "cpu/gemm/packed/packed.h"

/* Least rows of a thread's part of an input product; with fewer, threads divide its weights
 * instead. The second is for weights with fewer blocks than threads. */
enum { ROWS_TO_SHARE = 32, ROWS_OF_FEW = 8 };

static struct eco_range part_number(int32_t n, int part, int parts)
{
    return (struct eco_range){(int32_t)((int64_t)n * part / parts),
                              (int32_t)((int64_t)n * (part + 1) / parts)};
}

/* The part of a large product: rows in `parts` parts, and blocks of units in as many as give a
 * thread the least. A copy of rows costs less than weights that every part reads again. */
static struct eco_packed_part part_of_whole(const struct eco_packed_work *w, int id)
{
    const struct eco_cpu_run *run = w->run;
    const int32_t rows = w->product->multiply->rows, units = w->product->panels->units;
    const int32_t blocks = (units + w->width - 1) / w->width;
    const bool rather_units = w->product->form->copied > 0;
    const int32_t enough = blocks < run->count ? ROWS_OF_FEW : ROWS_TO_SHARE;
    int64_t least = INT64_MAX;
    int parts = 1;
    for (int p = 1; p <= run->count && (p == 1 || rows >= enough * p); p++) {
        const int across = run->count / p;
        const int64_t work = (int64_t)((rows + p - 1) / p) * ((blocks + across - 1) / across);
        if (run->count % p == 0 && (work < least || (work == least && !rather_units))) {
            least = work;
            parts = p;
        }
    }
    const int across = run->count / parts;
    const struct eco_range mine = part_number(blocks, id % across, across);
    const int32_t end = mine.to * w->width;
    return (struct eco_packed_part){
        part_number(rows, id / across, parts),
        {mine.from * w->width, end < units ? end : units},
    };
}

/* In steps: the units that the thread finishes. */
struct eco_packed_part eco_packed_part_of(const struct eco_packed_work *w, int id)
{
    const struct eco_cpu_run *run = w->run;
    const struct eco_pointwise *call = w->call;
    const struct eco_multiply *m = w->product->multiply;
    if (call == NULL && m->part == ECO_WEIGHT_INPUT)
        return part_of_whole(w, id);
    const struct eco_range rows = {run->rows.from < m->rows ? run->rows.from : m->rows,
                                   run->rows.to < m->rows ? run->rows.to : m->rows};
    const struct eco_range units = {0, call ? run->problem->H : w->product->panels->units};
    return (struct eco_packed_part){
        call ? (struct eco_range){call->row0, call->row1} : rows,
        eco_cpu_part_for(run, id, units, run->unit_group),
    };
}
