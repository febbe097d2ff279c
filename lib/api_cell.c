/*
 * Cells: built-in ones by name or number, and cells from text.  Only common/cell knows what a text
 * means.
 */
#include "ecornn.h"

#include "common/cell/cell.h"
#include "common/caller.h"
#include "common/util.h"
#include "lib/check.h"

#include <limits.h>
#include <string.h>

const ecornn_cell *ecornn_cell_find(const char *name)
{
    const struct ecornn_cell *cell = NULL;
    for (int k = 0; name && (cell = eco_cell_builtin(k)); k++)
        if (strcmp(cell->recipe.name, name) == 0)
            break;
    return cell;
}

const char *ecornn_cell_name(int index)
{
    const struct ecornn_cell *cell = index < 0 ? NULL : eco_cell_builtin(index);
    return cell ? cell->recipe.name : NULL;
}

/* A user's cell, followed by its text. */
enum { WITH_TEXT = -2 }; /* its `builtin`, instead of a place in the list */
struct parsed {
    struct ecornn_cell cell;
    char text[];
};

const char *eco_cell_source_text(const ecornn_cell *cell)
{
    return cell->builtin == WITH_TEXT ? ((const struct parsed *)cell)->text : NULL;
}

ecornn_status ecornn_cell_parse(ecornn_cell **cell, const char *text)
{
    if (!cell)
        return eco_fail(ECORNN_BAD_ARGUMENT, "cell is NULL");
    if (!text)
        return eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL");
    const size_t length = strlen(text), bytes = sizeof(struct parsed) + length + 1;
    struct parsed *parsed = eco_alloc_zeroed(bytes);
    if (!parsed)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a cell", bytes);
    struct eco_cell_error error;
    struct eco_caller caller;
    eco_caller_begin(&caller); /* because constants are folded */
    const bool compiled = eco_cell_compile(&parsed->cell, text, &error);
    eco_caller_end(&caller);
    if (!compiled) {
        eco_free(parsed);
        return eco_fail(ECORNN_BAD_CELL, "%d:%d: %s", error.line, error.column, error.message);
    }
    parsed->cell.builtin = WITH_TEXT;
    memcpy(parsed->text, text, length + 1);
    *cell = &parsed->cell;
    return ECORNN_OK;
}

int ecornn_cell_print(const ecornn_cell *cell, char *text, size_t size)
{
    struct eco_text words = {text, size, 0};
    if (!cell)
        eco_fail(ECORNN_BAD_ARGUMENT, "cell is NULL");
    else if (!text && size > 0)
        eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL, must have %zu bytes", size);
    else if (!eco_cell_print(cell, &words))
        eco_fail(ECORNN_NO_MEMORY, "no memory to print a cell");
    else
        return words.length > INT_MAX ? INT_MAX : (int)words.length;
    return -1;
}

int ecornn_cell_states(const ecornn_cell *cell)
{
    return cell ? cell->recipe.n_states : 0;
}

double ecornn_cell_start(const ecornn_cell *cell, int state)
{
    return state >= 0 && state < ecornn_cell_states(cell) ? cell->recipe.start[state] : 0;
}

void ecornn_cell_free(ecornn_cell *cell)
{
    if (cell && cell->builtin < 0)
        eco_free(cell);
}
