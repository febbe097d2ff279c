/*
 * The cell of a model: a built-in one by name, or one from a user's text, which goes into the
 * model's file so that the file alone is enough.
 */
#ifndef CHARLM_CELL_H
#define CHARLM_CELL_H

#include "util.h"
#include "ecornn.h"

struct cell_choice {
    const ecornn_cell *cell;
    ecornn_cell *parsed; /* the same, if it is not built in */
    char name[64];
    char *text; /* "" for a built-in cell */
};

/* The name of a built-in cell, or of a file in the cell language. */
bool cell_choose(struct cell_choice *choice, const char *name_or_file, struct complaint *why);
/* From a model's file: text "" for a built-in cell. */
bool cell_restore(struct cell_choice *choice, const char *name, const char *text,
                  struct complaint *why);
/* A zeroed choice is allowed. */
void cell_free(struct cell_choice *choice);

#endif /* CHARLM_CELL_H */
