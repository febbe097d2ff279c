/*
 * What differs between the two programs that are the command ecornn: the installed one, and
 * bench/ecornn of the build tree, which links opponents that need other libraries.
 */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include "opponent.h"

struct program {
    const char *shapes; /* the file that @LIST is looked up in */
    const char *peers;  /* the Python script with the opponents that only Python has */
    const struct opponent *const *opponents; /* NULL ends the list */
    /* Times `repeats` runs, which `queue` puts on a stream of this GPU, by the GPU's clock. Returns
     * the mean seconds of a run, negative on failure. NULL: the host's clock is used. */
    double (*time_queued)(const char *device, bool (*queue)(void *self, void *stream), void *self,
                          int repeats);
};
extern const struct program program;

/* The program's opponent of this name; NULL: it has none. */
const struct opponent *program_opponent(const char *name);

#endif /* BENCH_PROGRAM_H */
