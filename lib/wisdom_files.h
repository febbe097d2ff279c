/*
 * Files of wisdom, and the file that records what a program plans.
 */
#ifndef ECO_WISDOM_FILES_H
#define ECO_WISDOM_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "ecornn.h"
#include "common/util.h"

enum { ECO_MOST_PATH = 4096 }; /* bytes, with the last zero */
/* Of the files that a process reads by itself, by the later. */
enum eco_wisdom_file { ECO_WISDOM_SYSTEM, ECO_WISDOM_USER, ECO_WISDOM_ASKED, ECO_WISDOM_FILES };
/* Its path, which may be longer than the text; false: there is none, or none is to be read. */
bool eco_wisdom_path(enum eco_wisdom_file which, struct eco_text *path);

/* Reads these files, the first time.  What is wrong with one, plans say. */
void eco_wisdom_open(void);
/* Forgets all; as if these files had been read. */
void eco_wisdom_begin_anew(void);

ecornn_status eco_wisdom_load(const char *path);
ecornn_status eco_wisdom_save(const char *path);

/* ECORNN_RECORD: a line more for the problem of a plan, before it one with the text of a cell of
 * the caller's, "#cell TEXT", whose line ends are "\n" and whose "\" is "\\"; whole, whatever other
 * processes do.  cell: NULL: built in.  note: what plans say where that is not possible. */
void eco_record(const char *problem, const char *cell, struct eco_text *note);

#endif /* ECO_WISDOM_FILES_H */
