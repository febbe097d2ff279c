/*
 * What problem strings and descriptions of layers and of attention have in common: words and
 * numbers, each said once, and their limits.  plan/grammar.c.
 */
#ifndef ECO_GRAMMAR_H
#define ECO_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* A number of the description, how a string calls it, and its limits.  Fields are 32 bits wide. */
struct eco_extent {
    char letter; /* 0: a string has a word for each value */
    const char *name;
    size_t field; /* offset in the description */
    int32_t least, most;
};

struct eco_word {
    const char *word;
    int saying; /* what it says */
    size_t field;
    int32_t value;
};

struct eco_grammar {
    const struct eco_word *words;
    const struct eco_extent *extents;
    int n_words, n_extents;
    int sayings;  /* those of words and of what else there is; number i says sayings + i */
    size_t flags; /* the field whose values add up */
};

/* A string that is being read. */
enum { ECO_SAYINGS = 40 };
struct eco_reading {
    const struct eco_grammar *grammar;
    void *desc;
    const char *text;              /* the whole */
    const char *said[ECO_SAYINGS]; /* the part that said so, or NULL */
};

/* All numbers of a description; BAD_ARGUMENT names the field and its limits. */
ecornn_status eco_extents_check(const struct eco_grammar *grammar, const void *desc);

/* The part is none of a string's. */
ecornn_status eco_reading_fail(const struct eco_reading *reading, const char *part);
/* A part says this; BAD_ARGUMENT: one before did. */
ecornn_status eco_reading_say(struct eco_reading *reading, int saying, const char *part);
/* Is the part one of the words?  Then its field is set. */
bool eco_reading_word(struct eco_reading *reading, const char *part, ecornn_status *status);
/* A letter and a number. */
ecornn_status eco_reading_extent(struct eco_reading *reading, const char *part);

#endif /* ECO_GRAMMAR_H */
