/*
 * Structures of the caller, which were compiled with an earlier or a later header and so may be
 * shorter or longer than ours.  Each begins with its size in bytes; fields are only ever added at
 * the end.  An older program's io of 400 bytes, for example, gets zeros for the fields from byte
 * 400 on; a newer one's of 424 bytes is taken if the bytes that we do not know are 0.
 */
#ifndef ECO_LIB_SIZED_H
#define ECO_LIB_SIZED_H

#include <stddef.h>

#include "ecornn.h"

/* The structure with our size, `bytes`: `given` itself, or a copy in `own`.  NULL, with
 * BAD_ARGUMENT, if it is NULL, its size is none, or it uses what we do not have. */
const void *eco_take(const char *name, const void *given, void *own, size_t bytes);
/* Checks that `given`, already taken, has nothing but what `only` has, a structure with copies of
 * some fields, which `fields` names. */
ecornn_status eco_check_only(const char *name, const void *given, const void *only, size_t bytes,
                             const char *fields);
/* Fills in the caller's structure up to its size, which stays. */
ecornn_status eco_give(const char *name, void *given, const void *own, size_t bytes);

#endif /* ECO_LIB_SIZED_H */
