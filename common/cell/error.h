/*
 * What is wrong with a cell as a whole, not at a place of its text.
 */
#ifndef ECO_ERROR_H
#define ECO_ERROR_H

#include "common/cell/cell.h"
#include "common/util.h"

/* Fills error with the text and the first place; false. */
bool eco_cell_fail(struct eco_cell_error *error, const char *format, ...) ECO_PRINTF(2, 3);

#endif /* ECO_ERROR_H */
