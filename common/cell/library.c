/*
 * The library of cells, folder cells: its texts, printed by cellgen during the build. Knows nothing
 * of what they mean.
 */
#include "common/cell/cell.h"

#include "common/cell/library.inc"

enum { CELLS = sizeof library_text / sizeof *library_text };
_Static_assert((int)CELLS <= (int)ECO_LIBRARY_CELLS, "ECO_LIBRARY_CELLS is too small");

const struct eco_library_text *eco_cell_library(int index)
{
    return index < 0 || index >= CELLS ? NULL : &library_text[index];
}
