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

/* The keys of all backends, and their names in texts; doc/contributing/testing.md explains them. */
/* clang-format off */
#define ECO_FORCED_LIST(KEY)                                                                       \
    KEY(CHUNK, "chunk")                                                                            \
    KEY(CHUNK_BACK, "chunk-back")                                                                  \
    /* CPU */                                                                                      \
    KEY(GRADIENT_ROWS, "gradient-rows")                                                            \
    KEY(CARRIED, "carried")                                                                        \
    KEY(GRID, "grid")                                                                              \
    KEY(VECTORS, "vectors")                                                                        \
    KEY(BLOCK, "block")                                                                            \
    KEY(BLOCK_STEPS, "block-steps")                                                                \
    KEY(PACK_ROWS, "pack-rows")                                                                    \
    KEY(FUSE, "fuse")                                                                              \
    KEY(COPY, "copy")                                                                              \
    KEY(OWN_UNITS, "own-units")                                                                    \
    KEY(WHOLE_ROWS, "whole-rows")                                                                  \
    KEY(PASS_AFTER, "pass-after")                                                                  \
    KEY(CACHED, "cached")                                                                          \
    KEY(STRIPS, "strips")                                                                          \
    KEY(HELP, "help")                                                                              \
    KEY(WIDE, "wide")                                                                              \
    /* GPU; gpu/algo/force.h explains their values */                                              \
    KEY(FORWARD, "forward")                                                                        \
    KEY(BACKWARD, "backward")                                                                      \
    KEY(GROUPS, "groups")                                                                          \
    KEY(GROUPS_BACK, "groups-back")                                                                \
    KEY(FUSED, "fused")                                                                            \
    KEY(PROJECTION, "projection")                                                                  \
    KEY(GROUPED, "grouped")                                                                        \
    KEY(EMULATED_F32, "emulated-f32")                                                              \
    KEY(SCALED_F16, "scaled-f16")                                                                  \
    KEY(STREAM_K, "stream-k")                                                                      \
    KEY(STEP_TILE, "step-tile")                                                                    \
    KEY(WAVEFRONT, "wavefront")                                                                    \
    KEY(ROWS, "rows")                                                                              \
    KEY(AT_ONCE, "at-once")
/* clang-format on */
#define KEY(key, name) ECO_FORCE_##key,
enum eco_forced_key { ECO_FORCED_LIST(KEY) ECO_FORCED_KEYS };
#undef KEY
_Static_assert(ECO_FORCED_KEYS <= 32, "bits of eco_force.keys");

/* All zeros: nothing is forced. */
struct eco_force {
    char text[ECO_MAX_FORCE];
    char algorithm[ECO_MAX_ALGORITHM]; /* the only one allowed; "": any */
    bool by_user;                      /* by the environment; else by wisdom, tuning or a net */
    uint32_t keys;                     /* bit k: key k is forced */
    int32_t value[ECO_FORCED_KEYS];
};

/* A key of a backend; tables end with ECO_FORCED_KEYS. */
struct eco_force_key {
    const char *variable; /* an environment variable that says the same; or NULL */
    enum eco_forced_key key;
    int32_t least, most; /* numbers; or, if they are 0, */
    bool (*read)(const char *text, int32_t *value);
    const char *values; /* what `read` accepts, for people */
    bool unsaid;        /* a plan prints this choice only if it is forced */
};

/* Fills in everything that follows from force->text and the keys' variables, and adds the latter to
 * the text.  A backend ignores the keys of others.  UNSUPPORTED: no backend has a key, a
 * key occurs twice, or a value is invalid. */
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
