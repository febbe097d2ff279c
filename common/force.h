/*
 * Forced choices, which tests, tuning and wisdom set to override the planner:
 * ECORNN_FORCE="algorithm=packed,block=8".  The text is read once when a plan is made, by the table
 * of keys of the plan's backend; everything else looks up the numbers.
 *
 * Example: "chunk=7" sets bit ECO_FORCE_CHUNK of `keys` and value[ECO_FORCE_CHUNK] = 7.
 */
#ifndef ECO_FORCE_H
#define ECO_FORCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

struct eco_text;

enum { ECO_MAX_FORCE = 256, ECO_MAX_ALGORITHM = 16 };

/* The keys of all backends; doc/contributing/testing.md explains them. */
enum eco_forced_key {
    ECO_FORCE_CHUNK,
    ECO_FORCE_CHUNK_BACK,
    /* CPU */
    ECO_FORCE_GRADIENT_ROWS,
    ECO_FORCE_CARRIED,
    ECO_FORCE_GRID,
    ECO_FORCE_VECTORS,
    ECO_FORCE_BLOCK,
    ECO_FORCE_BLOCK_STEPS,
    ECO_FORCE_PACK_ROWS,
    ECO_FORCE_FUSE,
    ECO_FORCE_COPY,
    ECO_FORCE_OWN_UNITS,
    ECO_FORCE_WHOLE_ROWS,
    ECO_FORCE_PASS_AFTER,
    ECO_FORCE_CACHED,
    ECO_FORCE_STRIPS,
    ECO_FORCE_HELP,
    ECO_FORCE_WIDE,
    /* GPU; gpu/algo/force.h explains their values */
    ECO_FORCE_FORWARD,
    ECO_FORCE_BACKWARD,
    ECO_FORCE_GROUPS,
    ECO_FORCE_GROUPS_BACK,
    ECO_FORCE_FUSED,
    ECO_FORCE_PROJECTION,
    ECO_FORCE_GROUPED,
    ECO_FORCE_EMULATED_F32,
    ECO_FORCE_SCALED_F16,
    ECO_FORCE_STREAM_K,
    ECO_FORCE_STEP_TILE,
    ECO_FORCE_WAVEFRONT,
    ECO_FORCE_ROWS,
    ECO_FORCE_AT_ONCE,
    ECO_FORCED_KEYS
};
_Static_assert(ECO_FORCED_KEYS <= 32, "bits of eco_force.keys");

/* All zeros: nothing is forced. */
struct eco_force {
    char text[ECO_MAX_FORCE];
    char algorithm[ECO_MAX_ALGORITHM]; /* the only one allowed; "": any */
    bool by_user;                      /* by the environment; else by wisdom, tuning or a net */
    uint32_t keys;                     /* bit k: key k is forced */
    int32_t value[ECO_FORCED_KEYS];
};

/* A key of a backend; tables end with a name NULL. */
struct eco_force_key {
    const char *name, *variable; /* an environment variable that says the same; or NULL */
    enum eco_forced_key key;
    int32_t least, most; /* numbers; or, if they are 0, */
    bool (*read)(const char *text, int32_t *value);
    const char *values; /* what `read` accepts, for people */
    bool unsaid;        /* a plan prints this choice only if it is forced */
};

/* Fills in everything that follows from force->text and the keys' variables, and adds the latter to
 * the text.  UNSUPPORTED: a key's value is invalid. */
ecornn_status eco_force_read(struct eco_force *force, const struct eco_force_key *keys);
/* Writes the forced keys of a table, each after a comma, as they were read; or only unsaid ones. */
void eco_force_write(const struct eco_force *force, const struct eco_force_key *keys,
                     bool only_unsaid, struct eco_text *text);

/* For texts of choices: copies the value of a key in the text `forced`, which may be NULL, cut off
 * at size - 1 characters; false: the text does not have it. */
bool eco_force_text(const char *forced, const char *key, char *value, size_t size);
/* A number; false also if the value is none. */
bool eco_force_number(const char *forced, const char *key, int *value);

#endif /* ECO_FORCE_H */
