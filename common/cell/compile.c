/*
 * Text to stages: parse, gradient, lower.
 */
#include "common/cell/cell.h"

bool eco_cell_compile(struct ecornn_cell *cell, const char *text, struct eco_cell_error *error)
{
    struct eco_adjoint adjoint;
    cell->builtin = -1;
    return eco_cell_parse(&cell->recipe, text, error) &&
           eco_recipe_gradient(&cell->recipe, &adjoint, error) &&
           eco_recipe_lower(&cell->recipe, &adjoint, &cell->lowered, error);
}
