/*
 * Shared by problem strings of layers and of attention, and their descriptions: words, numbers and
 * their limits.  A string may set each item once.  plan/grammar.c.
 */
#ifndef ECO_GRAMMAR_H
#define ECO_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* A number of a description: its name in strings and its limits.  Fields are 32 bits wide. */
struct eco_extent {
    char letter; /* 0: strings have a word for each value instead */
    const char *name;
    size_t field; /* offset in the description */
    int32_t least, most;
};

struct eco_word {
    const char *word;
    int saying; /* the item that it sets */
    size_t field;
    int32_t value;
};

struct eco_grammar {
    const struct eco_word *words;
    const struct eco_extent *extents;
    int n_words, n_extents;
    int sayings;  /* number of items of words and other parts; number i is item sayings + i */
    size_t flags; /* the field whose values are added up */
};

/* A string while it is parsed. */
enum { ECO_SAYINGS = 40 };
struct eco_reading {
    const struct eco_grammar *grammar;
    void *desc;
    const char *text;              /* the whole string */
    const char *said[ECO_SAYINGS]; /* the part that set each item, or NULL */
};

/* Checks all numbers of a description; BAD_ARGUMENT names the field and its limits. */
ecornn_status eco_extents_check(const struct eco_grammar *grammar, const void *desc);

/* Fails: the part is not valid in a string. */
ecornn_status eco_reading_fail(const struct eco_reading *reading, const char *part);
/* Records that a part sets this item; BAD_ARGUMENT if an earlier part did. */
ecornn_status eco_reading_say(struct eco_reading *reading, int saying, const char *part);
/* If the part is one of the words, sets its field. */
bool eco_reading_word(struct eco_reading *reading, const char *part, ecornn_status *status);
/* Parses a letter and a number. */
ecornn_status eco_reading_extent(struct eco_reading *reading, const char *part);

#endif /* ECO_GRAMMAR_H */
