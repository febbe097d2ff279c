/*
 * Small questions to the library, answered as values.
 */
#ifndef BENCH_NAMED_H
#define BENCH_NAMED_H

#include <ecornn.h>
#include <string.h>

/* The name of a built-in cell; NULL past the last. */
static inline const char *name_of_cell(int index)
{
    const char *name = NULL;
    return ecornn_cell_name(index, &name) == ECORNN_OK ? name : NULL;
}

/* A built-in cell; NULL if there is none of this name. */
static inline const ecornn_cell *cell_named(const char *name)
{
    ecornn_cell *cell = NULL;
    for (int k = 0; !cell && name_of_cell(k); k++)
        if (strcmp(name_of_cell(k), name) == 0 && ecornn_cell_parse(&cell, name) != ECORNN_OK)
            return NULL;
    return cell;
}

/* The text of a cell of the library; NULL if it has none of this name. */
static inline const char *library_text(const char *name)
{
    const char *other, *text;
    for (int k = 0; ecornn_cell_library(k, &other, &text) == ECORNN_OK; k++)
        if (strcmp(other, name) == 0)
            return text;
    return NULL;
}

static inline int states_of_cell(const ecornn_cell *cell)
{
    int count = 0;
    return ecornn_cell_states(cell, &count, NULL) == ECORNN_OK ? count : 0;
}

static inline int count_of_params(const ecornn_plan *plan)
{
    ecornn_sizes sizes = {.size = sizeof sizes};
    return ecornn_plan_sizes(plan, &sizes) == ECORNN_OK ? sizes.param_count : 0;
}

#endif /* BENCH_NAMED_H */
