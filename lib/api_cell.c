/*
 * Cells: built-in ones and those of the library by name or number, and cells from text. Only
 * common/cell knows what a text means.
 */
#include "ecornn.h"

#include "common/cell/cell.h"
#include "common/caller.h"
#include "common/util.h"
#include "lib/check.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

/* A user's cell, followed by its text. */
enum { WITH_TEXT = -2 }; /* its `builtin`, instead of a place in the list */
struct parsed {
    struct ecornn_cell cell;
    atomic_int holders; /* plans, and the program until it frees the cell */
    atomic_bool freed;
    bool kept; /* a cell of the library, which is never freed */
    char text[];
};

static struct parsed *parsed_of(const ecornn_cell *cell)
{
    return cell && cell->builtin == WITH_TEXT ? (struct parsed *)(uintptr_t)cell : NULL;
}

void eco_cell_hold(const ecornn_cell *cell)
{
    struct parsed *const parsed = parsed_of(cell);
    if (parsed)
        atomic_fetch_add(&parsed->holders, 1);
}

void eco_cell_release(const ecornn_cell *cell)
{
    struct parsed *const parsed = parsed_of(cell);
    if (parsed && atomic_fetch_sub(&parsed->holders, 1) == 1)
        eco_free(parsed);
}

const char *eco_cell_source_text(const ecornn_cell *cell)
{
    return parsed_of(cell) ? parsed_of(cell)->text : NULL;
}

static bool is_name(const char *own, const char *name, size_t length)
{
    return strncmp(own, name, length) == 0 && own[length] == '\0';
}

ecornn_status ecornn_cell_name(int index, const char **name)
{
    if (!name)
        return eco_fail(ECORNN_BAD_ARGUMENT, "name is NULL");
    const ecornn_cell *const cell = index < 0 ? NULL : eco_cell_builtin(index);
    if (!cell)
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, but there is no such built-in cell",
                        index);
    *name = cell->recipe.name;
    return ECORNN_OK;
}

ecornn_status ecornn_cell_library(int index, const char **name, const char **text)
{
    const struct eco_library_text *const found = eco_cell_library(index);
    if (!name)
        return eco_fail(ECORNN_BAD_ARGUMENT, "name is NULL");
    if (!found)
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, but the library has no such cell",
                        index);
    *name = found->name;
    if (text)
        *text = found->text;
    return ECORNN_OK;
}

static ecornn_status parse(ecornn_cell **cell, const char *text)
{
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
    parsed->holders = 1;
    memcpy(parsed->text, text, length + 1);
    *cell = &parsed->cell;
    return ECORNN_OK;
}

/* The cells of the library that were named so far, each made once. */
static _Atomic(ecornn_cell *) library[ECO_LIBRARY_CELLS];

static ecornn_status make_library_cell(int index, const ecornn_cell **cell)
{
    ecornn_cell *made = atomic_load(&library[index]), *first = NULL;
    if (!made) {
        const ecornn_status status = parse(&made, eco_cell_library(index)->text);
        if (status != ECORNN_OK)
            return status;
        parsed_of(made)->kept = true;
        if (!atomic_compare_exchange_strong(&library[index], &first, made)) {
            eco_cell_release(made); /* another thread was faster */
            made = first;
        }
    }
    *cell = made;
    return ECORNN_OK;
}

ecornn_status eco_cell_named(const char *name, size_t length, const ecornn_cell **cell)
{
    *cell = NULL;
    for (int k = 0; !*cell && eco_cell_builtin(k); k++)
        if (is_name(eco_cell_builtin(k)->recipe.name, name, length))
            *cell = eco_cell_builtin(k);
    for (int k = 0; !*cell && eco_cell_library(k); k++)
        if (is_name(eco_cell_library(k)->name, name, length))
            return make_library_cell(k, cell);
    return ECORNN_OK;
}

ecornn_status ecornn_cell_parse(ecornn_cell **cell, const char *text)
{
    if (!cell)
        return eco_fail(ECORNN_BAD_ARGUMENT, "cell is NULL");
    if (!text)
        return eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL");
    const ecornn_cell *named;
    const ecornn_status status = eco_cell_named(text, strlen(text), &named);
    if (status != ECORNN_OK)
        return status;
    if (!named)
        return parse(cell, text);
    *cell = (ecornn_cell *)(uintptr_t)named; /* no function changes a cell */
    return ECORNN_OK;
}

int ecornn_cell_print(const ecornn_cell *cell, char *text, size_t size)
{
    struct eco_text words = {text, size, 0};
    if (!cell)
        eco_fail(ECORNN_BAD_ARGUMENT, "cell is NULL");
    else if (eco_check_text(text, size) && !eco_cell_print(cell, &words))
        eco_fail(ECORNN_NO_MEMORY, "no memory to print a cell");
    else if (text || size == 0)
        return words.length > INT_MAX ? INT_MAX : (int)words.length;
    return -1;
}

ecornn_status ecornn_cell_item_get(const ecornn_cell *cell, int index, ecornn_cell_item *item)
{
    ecornn_cell_item own = {0};
    if (!cell)
        return eco_fail(ECORNN_BAD_ARGUMENT, "cell is NULL");
    if (index < 0 || !eco_cell_item(cell, index, &own))
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, but cell %s has no such item", index,
                        cell->recipe.name);
    return eco_give("item", item, &own, sizeof own);
}

ecornn_status ecornn_cell_states(const ecornn_cell *cell, int *count, double *start)
{
    if (!cell || !count)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", cell ? "count" : "cell");
    *count = cell->recipe.n_states;
    for (int s = 0; start && s < ECORNN_MAX_STATES; s++)
        start[s] = s < *count ? cell->recipe.start[s] : 0;
    return ECORNN_OK;
}

void ecornn_cell_free(ecornn_cell *cell)
{
    struct parsed *const parsed = parsed_of(cell);
    if (!parsed || parsed->kept)
        return;
    if (atomic_exchange(&parsed->freed, true))
        eco_fail(ECORNN_BAD_ARGUMENT, "cell %s was freed before", cell->recipe.name);
    else
        eco_cell_release(cell);
}
