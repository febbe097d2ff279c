/*
 * The keys of ECORNN_FORCE for plans on a CPU, and their ranges.
 */
#include "cpu/algo/force.h"

#include "common/util.h"

/* ---- the keys -------------------------------------------------------------------------------- */

enum { GRID_BITS = 8 };

static bool read_grid(const char *text, int32_t *value)
{
    struct eco_grid grid;
    if (!eco_cpu_read_grid(text, &grid))
        return false;
    *value = (grid.ops << GRID_BITS | grid.rows) << GRID_BITS | grid.units;
    return true;
}

struct eco_grid eco_cpu_unpack_grid(int32_t value)
{
    enum { MASK = (1 << GRID_BITS) - 1 };
    return (struct eco_grid){value >> 2 * GRID_BITS, value >> GRID_BITS & MASK, value & MASK};
}

enum { MOST = 1 << 24 };

/* Runs choose `unsaid` ones by their own size, unless they are forced. */
#define NUMBER(key, least, most, unsaid)                                                           \
    {                                                                                              \
        NULL, ECO_FORCE_##key, least, most, NULL, NULL, unsaid                                     \
    }
const struct eco_force_key eco_cpu_keys[] = {
    NUMBER(CHUNK, 1, MOST, false),
    NUMBER(CARRIED, 0, 1, false),
    NUMBER(CHUNK_BACK, 1, MOST, false),
    NUMBER(GRADIENT_ROWS, 1, INT32_MAX, false),
    {NULL, ECO_FORCE_GRID, 0, 0, read_grid, "OPSxROWSxUNITS, 1 to 64 threads in all", false},
    NUMBER(VECTORS, 1, 4, false),
    NUMBER(FUSE, 0, 1, false),
    NUMBER(COPY, 0, 1, false),
    NUMBER(OWN_UNITS, 0, 1, false),
    NUMBER(WIDE, 0, 1, false),
    NUMBER(BLOCK, 1, MOST, true),
    NUMBER(PACK_ROWS, 1, 1 << 16, true),
    NUMBER(WHOLE_ROWS, 0, 1, true),
    NUMBER(PASS_AFTER, 0, 1, true),
    NUMBER(CACHED, 0, 1, true),
    NUMBER(STRIPS, 0, 1, true),
    NUMBER(HELP, 0, 1, true),
    NUMBER(BLOCK_STEPS, 0, MOST, true),
    {.key = ECO_FORCED_KEYS},
};
#undef NUMBER

#define BIT(key) (UINT32_C(1) << ECO_FORCE_##key)
static const uint32_t packed_only = BIT(VECTORS) | BIT(BLOCK) | BIT(PACK_ROWS) | BIT(FUSE) |
                                    BIT(COPY) | BIT(OWN_UNITS) | BIT(WHOLE_ROWS) | BIT(PASS_AFTER) |
                                    BIT(CACHED) | BIT(STRIPS) | BIT(HELP) | BIT(WIDE);
#undef BIT

/* ---- what is impossible ---------------------------------------------------------------------- */

const char *eco_cpu_force_refuses(const struct eco_problem *problem, int algorithm, bool alone)
{
    const int fuse = eco_forced(problem, ECO_FORCE_FUSE, 0),
              own_units = eco_forced(problem, ECO_FORCE_OWN_UNITS, alone);
    if (problem->force.keys == 0)
        return NULL;
    if (algorithm == ECO_FORCED_BLAS && (problem->force.keys & packed_only) != 0)
        return "ECORNN_FORCE asks for what is no choice of it";
    if (eco_forced(problem, ECO_FORCE_BLOCK_STEPS, -1) >= 0 && !problem->cell->lowered.linear.scans)
        return "ECORNN_FORCE asks for block-steps, but the cell is not linear in its states";
    if (own_units > alone)
        return "ECORNN_FORCE: own-units is 1, but the cell has means or a projection";
    if (fuse > 0 && problem->cell->lowered.raw >= 0)
        return "ECORNN_FORCE: fuse is 1, but the cell reads x unit by unit";
    if (eco_forced(problem, ECO_FORCE_CARRIED, 0) > eco_cpu_carries_values(problem))
        return "ECORNN_FORCE: carried is 1, but no stage of the cell carries values";
    return fuse > own_units ? "ECORNN_FORCE: fuse is 1, but threads do not own units" : NULL;
}

/* ---- choices of a plan ----------------------------------------------------------------------- */

static void add(struct eco_text *text, const char *name, int value)
{
    eco_text_add(text, ",%s=%d", name, value);
}

void eco_cpu_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_layout_request *request = &plan->request;
    const int32_t forced = eco_forced(&plan->problem, ECO_FORCE_GRID, 0);
    const struct eco_grid grid = eco_cpu_unpack_grid(forced);
    if (eco_cpu_carries_values(&plan->problem))
        add(text, "carried", request->cpu.carried_threads > 0);
    add(text, "chunk", plan->tape[false][0].chunk);
    if (plan->problem.training)
        add(text, "chunk-back", plan->tape[true][0].chunk);
    if (forced != 0)
        eco_text_add(text, ",grid=%dx%dx%d", grid.ops, grid.rows, grid.units);
    if (request->cpu.lanes == 0)
        return;
    add(text, "vectors", request->cpu.vectors);
    add(text, "own-units", request->cpu.own_units);
    add(text, "fuse", request->fuse_input);
    add(text, "copy", request->cpu.threads > 0);
    if (plan->problem.weight_type == ECORNN_BF16)
        add(text, "wide", request->cpu.wide);
    eco_force_write(&plan->problem.force, eco_cpu_keys, true, text);
}
