/*
 * Errors of a cell as a whole, which have no place in its text.
 */
#ifndef ECO_ERROR_H
#define ECO_ERROR_H

#include "common/cell/cell.h"
#include "common/util.h"

/* Fills error with the text, at line 1 column 1; returns false. */
bool eco_cell_fail(struct eco_cell_error *error, const char *format, ...) ECO_PRINTF(2, 3);

#endif /* ECO_ERROR_H */
