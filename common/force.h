/*
 * Forced choices, which tests, tuning and wisdom set to override the planner:
 * ECORNN_FORCE="algorithm=packed,block=8".  The text is read once when a plan is made, by the rows
 * of the plan's backend in common/choice_rows.inc; everything else looks up the numbers.
 *
 * Example: "block=7" sets bit ECO_FORCE_BLOCK of `keys` and value[ECO_FORCE_BLOCK] = 7.
 */
#ifndef ECO_FORCE_H
#define ECO_FORCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

struct eco_backend;
struct eco_text;

enum { ECO_MAX_FORCE = 256, ECO_MAX_ALGORITHM = 16 };

#define ROW(id, ...) ECO_FORCE_##id,
enum eco_forced_key {
#include "common/choice_rows.inc"
    ECO_FORCED_KEYS
};
#undef ROW
_Static_assert(ECO_FORCED_KEYS <= 64, "bits of eco_force.keys");

/* All zeros: nothing is forced. */
struct eco_force {
    char text[ECO_MAX_FORCE];
    char algorithm[ECO_MAX_ALGORITHM]; /* the only one allowed; "": any */
    bool by_user;                      /* by the environment; else by wisdom, tuning or a net */
    uint64_t keys;                     /* bit k: key k is forced */
    int32_t value[ECO_FORCED_KEYS];
};

enum {
    ECO_CHOICE_TRAINING = 1, /* tried only in training */
    ECO_CHOICE_FULL_F32 = 2, /* only in F32 without ECORNN_FAST_MATH */
    ECO_CHOICE_FAST_F32 = 4, /* only in F32 with it */
    /* It changes the order of sums, so last bits; it is not tried for row-invariant plans, nor
     * taken from wisdom. */
    ECO_CHOICE_SUMS = 8,
    ECO_CHOICE_UNSAID = 16,  /* runs choose it by their own size: plans print it if it is forced */
    ECO_CHOICE_WORDS = 32,   /* only `values` can be forced; they are numbered from `least` */
    ECO_CHOICE_UNTRIED = 64, /* `values` are not tried */
    ECO_CHOICE_ELSEWHERE = 128 /* the code that acts on it reads the text */
};
/* A row. */
struct eco_choice {
    const char *backend, *key;
    const char *algorithms; /* that have the key, separated by blanks; NULL: all */
    /* Values that tuning tries, separated by blanks; NULL: none.  "/2" and "*2" are relative to the
     * plan's value, "GRIDS" stands for all grids of threads. */
    const char *values;
    int flags;
    int32_t least, most;  /* numbers; or, if `said` is not NULL, */
    const char *said;     /* words, or texts that the backend reads, for people */
    const char *variable; /* an environment variable that says the same; or NULL */
};
extern const struct eco_choice eco_choices[]; /* by key; ends with a key NULL */

/* Fills in everything that follows from force->text and the variables of the backend's rows, and
 * adds the latter to the text.  Keys of other backends are ignored.  UNSUPPORTED: no backend has a
 * key, a key occurs twice, or a value is invalid. */
ecornn_status eco_force_read(struct eco_force *force, const struct eco_backend *backend);
/* Writes the forced keys, each after a comma, as they were read; or only unsaid ones. */
void eco_force_write(const struct eco_force *force, bool only_unsaid, struct eco_text *text);
/* The first forced key that an algorithm does not have; NULL: it has all. */
const struct eco_choice *eco_force_unfit(const struct eco_force *force, const char *algorithm);
/* Writes ",KEY=VALUE", where words have their numbers. */
void eco_choice_write(enum eco_forced_key key, int32_t value, struct eco_text *text);

/* Is it a row of this backend? */
bool eco_choice_is_of(const struct eco_choice *choice, const struct eco_backend *backend);
/* The index of a word in a list separated by blanks; -1: it is not there. */
int eco_word_index(const char *list, const char *word);

/* For texts of choices: copies the value of a key in the text `forced`, which may be NULL, cut off
 * at size - 1 characters; false: the text does not have it. */
bool eco_force_text(const char *forced, const char *key, char *value, size_t size);
/* A number; false also if the value is none. */
bool eco_force_number(const char *forced, const char *key, int *value);

#endif /* ECO_FORCE_H */
