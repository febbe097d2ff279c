/*
 * Text to stages: parse, gradient, lower; or to the form of a step of a matrix state.
 */
#include "common/cell/cell.h"

bool eco_cell_compile(struct ecornn_cell *cell, const char *text, struct eco_cell_error *error)
{
    struct eco_adjoint adjoint;
    cell->builtin = -1;
    if (!eco_cell_parse(&cell->recipe, text, error))
        return false;
    if (cell->recipe.matrix) {
        cell->lowered = (struct eco_lowered){.raw = -1};
        eco_matrix_find(&cell->recipe, &cell->rule);
        return true;
    }
    return eco_recipe_gradient(&cell->recipe, &adjoint, error) &&
           eco_recipe_lower(&cell->recipe, &adjoint, &cell->lowered, error);
}
