/*
 * The keys of ECORNN_FORCE for plans on a CPU, and their ranges.
 */
#include "cpu/algo/force.h"

#include <stddef.h>
#include <string.h>

#include "common/force.h"
#include "common/util.h"

enum { BOTH = ECO_FORCED_BLAS | ECO_FORCED_PACKED, STEPS = 1 << 24 };

static const struct key {
    const char *name;
    int algorithms, least, most; /* the algorithms that have the choice */
    const char *wrong;
} key[] = {
    {"chunk", BOTH, 1, STEPS, "ECORNN_FORCE: chunk is not 1 to 16777216"},
    {"carried", BOTH, 0, 1, "ECORNN_FORCE: carried is not 0 or 1"},
    {"chunk-back", BOTH, 1, STEPS, "ECORNN_FORCE: chunk-back is not 1 to 16777216"},
    {"vectors", ECO_FORCED_PACKED, 1, 4, "ECORNN_FORCE: vectors is not 1 to 4"},
    {"block", ECO_FORCED_PACKED, 1, STEPS, "ECORNN_FORCE: block is not 1 to 16777216"},
    {"block-steps", BOTH, 0, STEPS, "ECORNN_FORCE: block-steps is not 0 to 16777216"},
    {"pack-rows", ECO_FORCED_PACKED, 1, 1 << 16, "ECORNN_FORCE: pack-rows is not 1 to 65536"},
    {"fuse", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: fuse is not 0 or 1"},
    {"copy", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: copy is not 0 or 1"},
    {"own-units", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: own-units is not 0 or 1"},
    {"whole-rows", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: whole-rows is not 0 or 1"},
    {"pass-after", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: pass-after is not 0 or 1"},
    {"cached", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: cached is not 0 or 1"},
    {"strips", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: strips is not 0 or 1"},
    {"help", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: help is not 0 or 1"},
    {"wide", ECO_FORCED_PACKED, 0, 1, "ECORNN_FORCE: wide is not 0 or 1"},
};
enum { KEYS = sizeof key / sizeof *key };

static const char *key_refuses(const char *forced, const struct key *k, int algorithm)
{
    char text[2];
    int value;
    if (!eco_force_text(forced, k->name, text, sizeof text))
        return NULL;
    if (!(k->algorithms & algorithm))
        return "ECORNN_FORCE asks for what is no choice of it";
    const bool right =
        eco_force_number(forced, k->name, &value) && value >= k->least && value <= k->most;
    return right ? NULL : k->wrong;
}

bool eco_cpu_forced_grid(const struct eco_problem *problem, struct eco_grid *grid)
{
    char text[16];
    return eco_force_text(problem->forced, "grid", text, sizeof text) &&
           eco_cpu_read_grid(text, grid);
}

static const char *grid_refuses(const struct eco_problem *problem)
{
    char text[2];
    return eco_force_text(problem->forced, "grid", text, sizeof text) &&
                   !eco_cpu_forced_grid(problem, &(struct eco_grid){0})
               ? "ECORNN_FORCE: grid is not OPSxROWSxUNITS, 1 to 64 threads in all"
               : NULL;
}

const char *eco_cpu_force_refuses(const struct eco_problem *problem, int algorithm, bool alone)
{
    const char *refusal = grid_refuses(problem);
    if (problem->forced[0] == '\0')
        return NULL;
    for (int i = 0; refusal == NULL && i < KEYS; i++)
        refusal = key_refuses(problem->forced, &key[i], algorithm);
    if (refusal != NULL)
        return refusal;
    if (eco_cpu_forced(problem, "block-steps", -1) >= 0 && !problem->cell->lowered.linear.scans)
        return "ECORNN_FORCE asks for block-steps, but the cell is not linear in its states";
    const int fuse = eco_cpu_forced(problem, "fuse", 0),
              own_units = eco_cpu_forced(problem, "own-units", alone);
    if (own_units > alone)
        return "ECORNN_FORCE: own-units is 1, but the cell has means or a projection";
    if (fuse > 0 && problem->cell->lowered.raw >= 0)
        return "ECORNN_FORCE: fuse is 1, but the cell reads x unit by unit";
    if (eco_cpu_forced(problem, "carried", 0) > eco_cpu_carries_values(problem))
        return "ECORNN_FORCE: carried is 1, but no stage of the cell carries values";
    return fuse > own_units ? "ECORNN_FORCE: fuse is 1, but threads do not own units" : NULL;
}

int eco_cpu_forced(const struct eco_problem *problem, const char *name, int usual)
{
    int value = usual;
    return eco_force_number(problem->forced, name, &value) ? value : usual;
}

/* ---- choices of a plan ----------------------------------------------------------------------- */

static void add(struct eco_text *text, const char *name, int value)
{
    eco_text_add(text, ",%s=%d", name, value);
}

/* Each run chooses these by its own size, unless they are forced. */
static const char *const unsaid[] = {"block",  "pack-rows", "whole-rows", "pass-after",
                                     "cached", "strips",    "help",       "block-steps"};

void eco_cpu_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_layout_request *request = &plan->request;
    struct eco_grid grid;
    int value;
    if (eco_cpu_carries_values(&plan->problem))
        add(text, "carried", request->cpu.carried_threads > 0);
    add(text, "chunk", plan->tape[false][0].chunk);
    if (plan->problem.training)
        add(text, "chunk-back", plan->tape[true][0].chunk);
    if (eco_cpu_forced_grid(&plan->problem, &grid))
        eco_text_add(text, ",grid=%dx%dx%d", grid.ops, grid.rows, grid.units);
    if (request->cpu.lanes == 0)
        return;
    add(text, "vectors", request->cpu.vectors);
    add(text, "own-units", request->cpu.own_units);
    add(text, "fuse", request->fuse_input);
    add(text, "copy", request->cpu.threads > 0);
    if (eco_type_narrow(plan->problem.weight_type))
        add(text, "wide", request->cpu.wide);
    for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++)
        if (eco_force_number(plan->problem.forced, unsaid[i], &value))
            add(text, unsaid[i], value);
}
