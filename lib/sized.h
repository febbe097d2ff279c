/*
 * Structures of the caller, which were compiled with an earlier or a later header and so may be
 * shorter or longer than ours.  Each begins with its size in bytes; fields are only ever added at
 * the end.  An older program's io of 400 bytes, for example, gets zeros for the fields from byte
 * 400 on; a newer one's of 424 bytes is taken if the bytes that we do not know are 0.
 */
#ifndef ECO_LIB_SIZED_H
#define ECO_LIB_SIZED_H

#include <stdbool.h>
#include <stddef.h>

#include "ecornn.h"

/* The structure with our size, `bytes`: `given` itself, or a copy in `own`.  NULL, with
 * BAD_ARGUMENT, if it is NULL, its size is none, or it uses what we do not have. */
const void *eco_take(const char *name, const void *given, void *own, size_t bytes);
/* One of the structures that may be in another of its type: for a layer, with states only; or for
 * tangents. */
enum eco_part { ECO_PART_LAYER, ECO_PART_TANGENT };
union eco_given {
    ecornn_io io;
    ecornn_gradient gradient;
};
/* Checks that a part, already taken, has nothing but the arrays and parameters that it may have. */
ecornn_status eco_check_part(const char *name, const void *given, bool gradient,
                             enum eco_part part);
/* Fills in the caller's structure up to its size, which stays. */
ecornn_status eco_give(const char *name, void *given, const void *own, size_t bytes);

#endif /* ECO_LIB_SIZED_H */
