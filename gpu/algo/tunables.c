/*
 * The choices of GPU plans that are worth measuring, largest gain first. All change last bits.
 * Row-invariant plans use fused steps and grouped products, whose blocks add in an order that
 * depends on k alone (doc/numerics.md); only the shapes of such blocks may be varied for them.
 */
#include "gpu/algo/algo.h"
#include "gpu/algo/force.h"
#include "gpu/persistent/persistent.h"
#include "gpu/wide_step/wide_step.h"

/* Every division that may have code; plans refuse most of them. */
static void list_divisions(const struct ecornn_plan *plan, struct eco_text *text)
{
    enum { PLACES = ECO_PERSISTENT_MAINLOOPS * ECO_PERSISTENT_CLUSTERS * ECO_PERSISTENT_SHIFTS };
    (void)plan;
    for (int place = 0; place < PLACES; place++) {
        eco_text_add(text, place > 0 ? " " : "");
        eco_gpu_write_division(place, text);
    }
}

static void list_divisions_back(const struct ecornn_plan *plan, struct eco_text *text)
{
    eco_text_add(text, "step ");
    list_divisions(plan, text);
}

/* Rows of a block, and blocks of wide steps. */
static void list_fused(const struct ecornn_plan *plan, struct eco_text *text)
{
    eco_text_add(text, "8 16 32");
    for (int shape = 0; plan->device->caps.gpu.wide && shape < ECO_WIDE_SHAPES; shape++)
        eco_text_add(text, " wgmma:%dx%d", eco_wide_rows(shape),
                     eco_wide_units(shape, ECO_WIDE_ACCS));
}

/* If there are such products. */
static void list_emulated_f32(const struct ecornn_plan *plan, struct eco_text *text)
{
    if (plan->problem.type == ECORNN_F32 && !plan->problem.fast)
        eco_text_add(text, "0 1 2");
}

static void list_scaled_f16(const struct ecornn_plan *plan, struct eco_text *text)
{
    if (plan->problem.type == ECORNN_F32 && plan->problem.fast)
        eco_text_add(text, "0 1");
}

const struct eco_choice eco_gpu_tunables[] = {
    {"algorithm", NULL, "persistent fused step scan", NULL, false, false},
    {"forward", "persistent", NULL, list_divisions, false, true},
    {"backward", "persistent", NULL, list_divisions_back, true, true},
    {"fused", "fused", NULL, list_fused, false, false},
    {"projection", "fused", "8 16 32", NULL, false, false},
    {"chunk", NULL, "/4 /2 *2 *4", NULL, false, true},
    {"chunk-back", NULL, "/4 /2 *2 *4", NULL, true, true},
    {"wavefront", "persistent step", "0 1", NULL, false, true},
    {"emulated-f32", NULL, NULL, list_emulated_f32, false, true},
    {"scaled-f16", NULL, NULL, list_scaled_f16, false, true},
    {"grouped", NULL, "0 8 16 32", NULL, true, true},
    {"rows", NULL, "padded dense", NULL, false, true},
    {NULL, NULL, NULL, NULL, false, false},
};
