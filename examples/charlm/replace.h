/*
 * Replacing a file at once or not at all: a reader finds the old one or the new one, never half of
 * one, and a new one keeps the old one's mode, owner and the links that lead to it.  Knows nothing
 * of what is in the file.
 */
#ifndef CHARLM_REPLACE_H
#define CHARLM_REPLACE_H

#include "util.h"

enum { REPLACE_PATH_BYTES = 4096 };

/* The new file while it is written: beside the one it replaces, under a name of its own. */
struct replacement {
    char path[REPLACE_PATH_BYTES], beside[REPLACE_PATH_BYTES]; /* path: behind symbolic links */
    int descriptor;
};

/* Begins: refuses a path that is there and no regular file, or that may not be written.  Commit or
 * abandon must follow. */
bool replacement_open(struct replacement *replacement, const char *path, struct complaint *why);
bool replacement_write(struct replacement *replacement, const void *bytes, size_t size,
                       struct complaint *why);
/* Waits for the disk, then renames.  After a failure the old file is there as before, and nothing
 * beside it. */
bool replacement_commit(struct replacement *replacement, struct complaint *why);
void replacement_abandon(struct replacement *replacement);

/* Whether a file of that size could be put there now.  Also removes what processes that were killed
 * left beside it: a living one holds a lock on its new file. */
bool replacement_possible(const char *path, uint64_t size, struct complaint *why);

#endif /* CHARLM_REPLACE_H */
