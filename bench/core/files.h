/*
 * Files that are given to a benchmark: lists of problems, and the text of a cell.
 */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <stdbool.h>

#include "ecornn.h"

/* The lines under [name] in a file of shapes, or all lines where name is NULL; each without what
 * follows a blank or '#'.  False: one was not good, or there is no such file or list. */
bool list_each(const char *path, const char *name, bool (*each)(void *own, const char *problem),
               void *own);

/* The whole text of a file, of up to 16 KB; false, with a line on standard error, if that cannot
 * be.
 */
enum { CELL_BYTES = 1 << 14 };
bool read_text(const char *path, char text[CELL_BYTES]);
/* Does the problem name this cell, which it would run?  False, with a line on standard error: its
 * results would bear another name.  path: of the cell's file. */
bool names_cell(const char *problem, const ecornn_cell *cell, const char *path);
/* A cell from a file; NULL, with a line on standard error, if there is none. */
ecornn_cell *read_cell(const char *path);

#endif /* BENCH_FILES_H */
