/*
 * Decides whether a plan can read weights packed for another.  The answer depends on everything
 * that packing and products know about the block: matrices, panels, types and offsets.
 */
#include "common/layout.h"

#include <assert.h>
#include <string.h>

#include "common/util.h"

/* Compares the parameters of cells; their equations do not matter. */
static bool cells_fit(const struct ecornn_cell *packed, const struct ecornn_cell *used,
                      struct eco_text *why)
{
    const struct eco_recipe *a = &packed->recipe, *b = &used->recipe;
    for (int i = 0; i < a->n_params || i < b->n_params; i++) {
        const char *was = i < a->n_params ? a->param[i].name : "none";
        const char *is = i < b->n_params ? b->param[i].name : "none";
        if (strcmp(was, is) != 0) {
            eco_text_add(why, "parameter %d of its cell is %s, must be %s", i, was, is);
            return false;
        }
    }
    const struct eco_lowered *x = &packed->lowered, *y = &used->lowered;
    const bool same = x->n_accs == y->n_accs && x->n_operands == y->n_operands &&
                      memcmp(x->acc, y->acc, (size_t)x->n_accs * sizeof *x->acc) == 0;
    if (!same)
        eco_text_add(why, "its cell sums other products");
    return same;
}

static bool problems_fit(const struct eco_problem *packed, const struct eco_problem *used,
                         struct eco_text *why)
{
    const struct {
        const char *name;
        int32_t packed, used;
    } number[] = {{"layers", packed->L, used->L},
                  {"directions", packed->D, used->D},
                  {"input", packed->I, used->I},
                  {"hidden", packed->H, used->H},
                  {"heads", packed->heads, used->heads},
                  {"grouped-input", packed->grouped, used->grouped},
                  {"proj", packed->projected ? packed->P : 0, used->projected ? used->P : 0}};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (number[i].packed != number[i].used) {
            eco_text_add(why, "its %s is %d, must be %d", number[i].name, (int)number[i].packed,
                         (int)number[i].used);
            return false;
        }
    return true;
}

static bool types_fit(const struct eco_layout *packed, const struct eco_layout *used,
                      struct eco_text *why)
{
    if (packed->problem->weight_type != used->problem->weight_type)
        eco_text_add(why, "its matrices are %s, must be %s",
                     eco_type_name(packed->problem->weight_type),
                     eco_type_name(used->problem->weight_type));
    else if (packed->weight != used->weight)
        eco_text_add(why, "its matrices are %s, must be %s", eco_type_name(packed->weight),
                     eco_type_name(used->weight));
    else if (packed->sum != used->sum)
        eco_text_add(why, "its vectors are %s, must be %s", eco_type_name(packed->sum),
                     eco_type_name(used->sum));
    else
        return true;
    return false;
}

/* Compares the panels of a weight, or its dense matrix. */
static bool weight_fits(const struct eco_layout *packed, const struct eco_layout *used, int layer,
                        int weight_id, bool back, struct eco_text *why)
{
    const struct eco_matrix *a = eco_layout_matrix(packed, layer, weight_id);
    const struct eco_matrix *b = eco_layout_matrix(used, layer, weight_id);
    if (memcmp(a, b, sizeof *a) != 0) {
        eco_text_add(why, "its rows are padded to %d, must be to %d", (int)a->row, (int)b->row);
        return false;
    }
    const struct eco_panels *x = eco_layout_panels(packed, layer, weight_id, back);
    const struct eco_panels *y = eco_layout_panels(used, layer, weight_id, back);
    if (b->n == 0 || weight_id == ECO_WEIGHT_VECTORS || memcmp(x, y, sizeof *x) == 0)
        return true;
    eco_text_add(why,
                 "its panels have %d vectors of %d lanes, %d a unit, must have %d of %d, %d a unit",
                 (int)packed->request.cpu.vectors, (int)x->lanes, (int)x->lane_groups,
                 (int)used->request.cpu.vectors, (int)y->lanes, (int)y->lane_groups);
    return false;
}

bool eco_layout_weights_fit(const struct eco_layout *packed, const struct eco_layout *used,
                            struct eco_text *why)
{
    const struct eco_problem *problem = used->problem;
    if (!cells_fit(packed->problem->cell, problem->cell, why) ||
        !problems_fit(packed->problem, problem, why) || !types_fit(packed, used, why))
        return false;
    assert(used->request.plain == packed->request.plain); /* true of plans of one backend */
    if (used->request.plain)
        return true;
    const bool backs = used->request.cpu.lanes > 0 && problem->training;
    for (int layer = 0; layer < 2 && layer < problem->L; layer++)
        for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS; weight_id++)
            for (int back = 0; back <= (int)backs; back++)
                if (!weight_fits(packed, used, layer, weight_id, back, why))
                    return false;
    if (backs && !packed->problem->training) {
        eco_text_add(
            why, "it was packed without ECORNN_TRAINING, but backward reads transposed matrices");
        return false;
    }
    return true;
}
