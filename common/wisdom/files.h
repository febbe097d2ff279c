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
/* The files that a process reads by default, in this order. */
enum eco_wisdom_file { ECO_WISDOM_SYSTEM, ECO_WISDOM_USER, ECO_WISDOM_ASKED, ECO_WISDOM_FILES };
/* Adds the path, which may be too long for the text.  False: there is none, or it is not read. */
bool eco_wisdom_path(enum eco_wisdom_file which, struct eco_text *path);

/* Reads these files at the first call.  Plans print what is wrong with them. */
void eco_wisdom_open(void);
/* Forgets all wisdom; these files are not read any more. */
void eco_wisdom_reset(void);

/* path: NULL: the user's file. */
ecornn_status eco_wisdom_load(const char *path);
ecornn_status eco_wisdom_save(const char *path);

/* Adds a line for the problem of a plan to the file of ECORNN_RECORD, if that is set.  cell: the
 * text of a cell of the caller, which goes before it as "#cell TEXT" with "\n" and "\\" for line
 * ends and backslashes; NULL: built in.  Many processes may add to one file.  note: receives a
 * failure, which the plan prints. */
void eco_record(const char *problem, const char *cell, struct eco_text *note);

#endif /* ECO_WISDOM_FILES_H */
