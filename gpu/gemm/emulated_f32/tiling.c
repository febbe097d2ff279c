/*
 * How products of split operands are divided; times come from rates.h.
 */
#include "gpu/gemm/emulated_f32/tiling.h"
#include "common/util.h"
#include "gpu/device/rates.h"

#include <math.h>

double eco_emulated_prepare_time(const struct eco_gpu_rates *rates, enum eco_emulated_form form,
                                 int32_t rows, int32_t k)
{
    return (double)eco_emulated_piece_bytes(form, rows, k) / rates->split_bytes;
}

/* ---- large products -------------------------------------------------------------------------- */

/* Seconds of a piece of `steps` stages: launches and the end of the last tile; a stage; how much
 * longer other ends are than the stages that overlap them; the cost of partial sums. */
static double piece_time(const struct eco_gpu_rates *rates, int64_t pairs, int32_t steps,
                         int32_t clusters, bool shared)
{
    const double fixed = rates->split_piece, step = rates->split_stage,
                 parts = rates->split_partial_sums, pair = steps * step + rates->split_tile_end;
    const int64_t whole = pairs / clusters, rest = pairs - whole * clusters;
    if (shared)
        return fixed + (double)whole * pair + ceil((double)rest * steps / clusters) * step + parts;
    return fixed + (double)(whole + (rest > 0)) * pair;
}

static struct eco_emulated_plan plan_of(const struct eco_gpu_rates *rates,
                                        struct eco_emulated_size size, int32_t processors,
                                        size_t room, bool shared)
{
    struct eco_emulated_plan plan = {.k = eco_emulated_length(size, processors, room, shared),
                                     .shared = shared};
    const double pieces = plan.k > 0 ? eco_ceil_div(size.k, plan.k) : 0,
                 sums = (double)size.m * size.n * sizeof(float);
    if (plan.k > 0) /* each piece writes C, and all but the first read it */
        plan.time =
            (2 * pieces - 1) * sums / rates->memory_bytes +
            pieces * (piece_time(rates, eco_emulated_pairs(size), eco_emulated_stages(plan.k),
                                 processors / ECO_EMULATED_PAIR, shared) +
                      eco_emulated_prepare_time(rates, ECO_EMULATED_PAIRS, size.m, plan.k) +
                      eco_emulated_prepare_time(rates, ECO_EMULATED_PAIRS, size.n, plan.k));
    return plan;
}

struct eco_emulated_plan eco_emulated_plan(const struct eco_gpu_rates *rates,
                                           struct eco_emulated_size size, int32_t processors,
                                           size_t room, int shared)
{
    const struct eco_emulated_plan apart = plan_of(rates, size, processors, room, false),
                                   together = plan_of(rates, size, processors, room, true);
    if (shared == 0 || shared == 1)
        return shared == 1 ? together : apart;
    return together.k > 0 && together.time < apart.time ? together : apart;
}

/* ---- products of steps ----------------------------------------------------------------------- */

/* Launches, including the cell's; stages, copied and multiplied; bytes from memory. */
static double step_time(const struct eco_gpu_rates *rates, struct eco_emulated_size size,
                        const struct eco_emulated_cut *cut, int32_t clusters)
{
    _Static_assert(sizeof rates->split_step_stage / sizeof(double) == ECO_EMULATED_KINDS &&
                       ECO_EMULATED_SPLITTING == 0 && ECO_EMULATED_PRESPLIT == 1,
                   "as in the table");
    const enum eco_emulated_form form =
        cut->kind == ECO_EMULATED_PRESPLIT_SINGLES ? ECO_EMULATED_SINGLES : ECO_EMULATED_PAIRS;
    const int64_t tiles_of_c = (int64_t)eco_ceil_div(size.n, eco_emulated_rows(cut)) *
                               eco_ceil_div(size.m, eco_emulated_columns(cut));
    const double stage = rates->split_step_stage[cut->kind] *
                         (cut->height > 0 ? rates->split_step_high : 1) *
                         (cut->width > 0 ? rates->split_step_broad : 1),
                 waves = (double)((tiles_of_c + clusters - 1) / clusters),
                 multiplying =
                     waves * eco_ceil_div(eco_emulated_stages(size.k), cut->slices) * stage,
                 reading =
                     (double)eco_emulated_piece_bytes(form, size.n, size.k) / rates->stream_bytes;
    return rates->split_step_launch[cut->kind != ECO_EMULATED_SPLITTING] +
           rates->split_step_slice * cut->slices + rates->split_step_wave * (waves - 1) +
           (reading > multiplying ? reading : multiplying);
}

/* With narrow tiles several would read the same R. */
static bool is_offered(const struct eco_emulated_choices *choices, int32_t m,
                       const struct eco_emulated_cut *cut)
{
    const struct eco_emulated_cut narrow = {.width = 0};
    return choices->kinds >> cut->kind & choices->heights >> cut->height &
               choices->widths >> cut->width & 1 &&
           (choices->any_width || cut->width == (m > eco_emulated_columns(&narrow)));
}

/* Replaces `best` by the best choice with these tiles, if it is faster. */
static void try_slices(struct eco_emulated_cut cut, unsigned slices,
                       const struct eco_emulated_on *on, struct eco_emulated_size size,
                       struct eco_emulated_step *best)
{
    static const int8_t measured[] = {1, 2, 3, 4, 6, 8};
    for (size_t i = 0; i < sizeof measured && measured[i] <= eco_emulated_stages(size.k); i++) {
        cut.slices = measured[i];
        const int32_t all = on->clusters[cut.slices - 1], share = all / on->lanes;
        if (all == 0 || !(slices >> (cut.slices - 1) & 1))
            continue;
        const double time = step_time(on->rates, size, &cut, share > 0 ? share : 1);
        if (best->time == 0 || time < best->time)
            *best = (struct eco_emulated_step){cut, time};
    }
}

struct eco_emulated_step eco_emulated_step(const struct eco_emulated_choices *choices,
                                           struct eco_emulated_size size,
                                           const struct eco_emulated_on *on)
{
    enum { TILES = ECO_EMULATED_HEIGHTS * ECO_EMULATED_WIDTHS };
    struct eco_emulated_step best = {.time = 0};
    for (int i = 0; i < ECO_EMULATED_KINDS * TILES; i++) {
        const struct eco_emulated_cut cut = {.kind = (enum eco_emulated_kind)(i / TILES),
                                             .height = i % TILES / ECO_EMULATED_WIDTHS,
                                             .width = i % ECO_EMULATED_WIDTHS};
        if (is_offered(choices, size.m, &cut))
            try_slices(cut, choices->slices, on, size, &best);
    }
    return best;
}
