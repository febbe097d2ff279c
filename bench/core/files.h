/*
 * Files that the command reads: lists of problems, and the text of a cell.
 */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <stdbool.h>
#include <stdio.h>

#include "ecornn.h"

/* A file or a pipe to read; NULL, with a line on standard error, for none, or for a device, which
 * may have no end. */
FILE *file_open(const char *path);

/* Calls `each` for the lines under [name] in a file of shapes, or for all lines if name is NULL;
 * each line ends at a blank or '#'.  False: a call was false, or there is no such file or list. */
bool list_each(const char *path, const char *name, bool (*each)(void *own, const char *problem),
               void *own);

/* Reads a file of up to 16 KB; false, with a line on standard error, if that fails. */
enum { CELL_BYTES = 1 << 14 };
bool read_text(const char *path, char text[CELL_BYTES]);
/* Whether the problem names this cell, from the file `path`.  False, with a line on standard error:
 * results of the cell would have the name of another one. */
bool names_cell(const char *problem, const ecornn_cell *cell, const char *path);
/* Whether a word names a cell of the library; it does not if there is a file of this name. */
bool is_library_cell(const char *word);
/* The built-in cell of this name, or one from a file, or one of the library; NULL, with a line on
 * standard error, if there is none. */
ecornn_cell *read_cell(const char *word);

#endif /* BENCH_FILES_H */
