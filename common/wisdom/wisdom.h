/*
 * Wisdom: choices that were measured to be the fastest, by problem and device.  A text that may
 * come from an untrusted file is parsed to lines; a process has one store of lines behind a lock,
 * in which each plan is looked up once.  Files are read and written in lib/.
 */
#ifndef ECO_WISDOM_H
#define ECO_WISDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/force.h"
#include "common/problem.h"

/* ---- a text, wisdom/text.c ------------------------------------------------------------------- */

#define ECO_WISDOM_HEAD "ecornn-wisdom 1"

/* The number of words of a line tells its kind. */
enum {
    ECO_WISDOM_REMARK = 1,  /* "#...", blanks included */
    ECO_WISDOM_DEVICE = 3,  /* "device", hash of the rest, what times depend on, with blanks */
    ECO_WISDOM_PROBLEM = 7, /* problem, cell or "-", device, choices, nanoseconds, spread, date */
};
struct eco_wisdom_line {
    const char *word[ECO_WISDOM_PROBLEM];
    int32_t words;
    uint32_t order;  /* the number of the line */
    uint64_t device; /* the hash in a line of a device or problem */
    uint64_t cell;   /* eco_cell_identity; 0: built in */
    uint64_t key;    /* of a problem: eco_wisdom_key */
};

/* A text that was read.  Reading the same facts twice leaves one line: of equal remarks and devices
 * the first, of lines for the same problem, cell and device the last. */
struct eco_wisdom {
    char *text;                            /* holds the words */
    struct eco_wisdom_line *line;          /* [lines], as in the text */
    const struct eco_wisdom_line **by_key; /* [problems]: by key, then as in the text */
    uint32_t lines, problems;
    size_t bytes; /* of the text; writing the lines takes no more */
};

/* Reads a text.  BAD_ARGUMENT: the text is invalid, and the error is "NAME:LINE: reason".  The
 * caller frees the result; freeing {0} does nothing. */
ecornn_status eco_wisdom_read(struct eco_wisdom *wisdom, const char *text, size_t bytes,
                              const char *name);
void eco_wisdom_free(struct eco_wisdom *wisdom);
/* Adds the lines to a text, without the first line of the format. */
void eco_wisdom_write(struct eco_text *text, const struct eco_wisdom *wisdom);

/* ---- problems, wisdom/key.c ------------------------------------------------------------------ */

/* The bucket of a T or N: the number itself up to 16, then the next of 24, 32, 48, 64, 96 ... */
int32_t eco_wisdom_bucket(int32_t count);
/* A hash of a problem and its cell.  Problems share it if T and N are in the same buckets and all
 * else is equal. */
uint64_t eco_wisdom_key(const char *problem, uint64_t cell);
/* A hash of what a cell from text computes; 0: the cell is built in. */
uint64_t eco_cell_identity(const struct ecornn_cell *cell);
/* NULL if the text is a problem as plans print it, else the reason why not, until the next call
 * that fails.  built_in: the cell is. */
const char *eco_wisdom_problem_refuses(const char *problem, bool built_in);

/* ---- devices, wisdom/identity.c -------------------------------------------------------------- */

enum { ECO_MAX_IDENTITY = 320 };
/* Sets what times depend on: "cpu avx512 threads=2 ... version=1.0.0 choices=HASH name=...". */
void eco_device_identify(struct ecornn_device *device);
/* Are these words from this version of the library?  Other versions may have other problems. */
bool eco_identity_of_this_version(const char *words);
/* Adds the first word that differs, as "threads=4, here threads=2". */
void eco_identity_difference(struct eco_text *text, const char *other, const char *here);

/* ---- the store, wisdom/store.c --------------------------------------------------------------- */

/* Adds the lines of a text, which replace earlier ones.  On failure nothing changes. */
ecornn_status eco_wisdom_add(const char *text, size_t bytes, const char *name);
/* Adds the measured choices of a problem on a device, with today's date.  spread: from the first to
 * the third quartile of the time. */
ecornn_status eco_wisdom_learn(const struct ecornn_device *device,
                               const struct eco_problem *problem, const char *choices,
                               double seconds, double spread);
void eco_wisdom_forget(void);
/* Writes all lines, as snprintf does. */
size_t eco_wisdom_print(char *text, size_t size);
/* Records that a file could not be read; plans print it until all is forgotten. */
void eco_wisdom_complain(const char *about);
void eco_wisdom_complaint(struct eco_text *text); /* adds what was recorded */

/* What the store has for a problem on a device. */
struct eco_wisdom_found {
    char choices[ECO_MAX_FORCE]; /* "": nothing */
    char note[ECO_MAX_IDENTITY]; /* for people: what was found, or why nothing was used; or "" */
};
void eco_wisdom_find(const struct eco_problem *problem, const struct ecornn_device *device,
                     struct eco_wisdom_found *found);

#endif /* ECO_WISDOM_H */
