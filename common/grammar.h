/*
 * Options of the problems of layers and of attention: rows that parse and print a problem string,
 * check a description, and fill in the problem.  A string may set each option once.
 * plan/grammar.c.
 *
 * Example: {.key = "T", .name = "steps", .least = 1, .most = 100, .at = ...}: "T7" sets steps,
 * which must be 1 to 100, and the problem's number of steps, which is printed as "T7".
 */
#ifndef ECO_GRAMMAR_H
#define ECO_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

struct eco_text;
struct eco_reading;

/* A word that sets a field of the description to a value, or adds a flag. */
struct eco_word {
    const char *word, *flag; /* flag: its name, or NULL */
    size_t field;            /* offset in the description; fields are 32 bits wide */
    int32_t value;
};

enum { ECO_WORDS = 4 };
struct eco_option {
    struct eco_word word[ECO_WORDS]; /* one of them may be said */
    const char *key;                 /* or this and a number: "T", "heads:"; or NULL */
    const char *name;                /* of a number or type in the description, ... */
    size_t field;
    int32_t least, most, usual; /* ... its limits there, and what 0 stands for */
    size_t at;  /* offset in the problem of this number, or of a flag's bool; 0: none, so the
                   problem's first field belongs to no option */
    bool alike; /* the layers of a net agree on it */
    /* For other options: parse a value after the key, ... */
    ecornn_status (*parse)(struct eco_reading *reading, const char *part, const char *value);
    /* ... and print "/" and what the problem has, or nothing. */
    void (*print)(struct eco_text *text, const void *problem);
};

struct eco_grammar {
    const struct eco_option *option;
    int options;
    size_t flags; /* the description's field of flags */
};

/* A string while it is parsed. */
enum { ECO_OPTIONS = 40 };
struct eco_reading {
    const struct eco_grammar *grammar;
    void *desc;
    const char *text;              /* the whole string */
    const char *said[ECO_OPTIONS]; /* the part that set each option, or NULL */
};

/* Parses parts that "/" separates, in place. */
ecornn_status eco_options_parse(struct eco_reading *reading, char *parts);
/* Fails: the part is not valid in a string. */
ecornn_status eco_reading_fail(const struct eco_reading *reading, const char *part);
/* Checks numbers and flags of a description; BAD_ARGUMENT names the field and its limits. */
ecornn_status eco_options_check(const struct eco_grammar *grammar, const void *desc);
/* Sets the problem's field of each option that has one. */
void eco_options_build(const struct eco_grammar *grammar, void *problem, const void *desc);
void eco_options_print(const struct eco_grammar *grammar, struct eco_text *text,
                       const void *problem);
/* The problem's field of an option: a number, or 0 or 1. */
int32_t eco_option_get(const struct eco_option *option, const void *problem);

#endif /* ECO_GRAMMAR_H */
