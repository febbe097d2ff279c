/*
 * Takes and fills in structures of the caller; see sized.h.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded" /* without padding, a new field always makes them longer   \
                                         */
#include "ecornn/experimental.h"
#pragma GCC diagnostic pop

#include "lib/sized.h"

#include <string.h>

#include "common/util.h"
#include "lib/check.h"

/* The structure's size; 0, with BAD_ARGUMENT, if that cannot be one. */
static size_t size_of(const char *name, const void *given, size_t bytes)
{
    enum { LEAST = 2 * sizeof(size_t), MOST = 1 << 16 };
    size_t size = 0;
    if (eco_check_pointer(name, given, true, sizeof size) != ECORNN_OK)
        return 0;
    memcpy(&size, given, sizeof size);
    const bool good = size >= LEAST && size <= MOST && size % sizeof(size_t) == 0;
    if (!good)
        eco_fail(ECORNN_BAD_ARGUMENT, "%s.size is %zu, must be its sizeof, %zu in this version",
                 name, size, bytes);
    return good ? size : 0;
}

static const void *refuse(const char *name, size_t size, size_t at, size_t bytes)
{
    eco_fail(ECORNN_BAD_ARGUMENT,
             "%s has %zu bytes and sets byte %zu, but libecornn " ECORNN_VERSION_STRING
             " knows only the first %zu: the program needs a later version",
             name, size, at, bytes);
    return NULL;
}

const void *eco_take(const char *name, const void *given, void *own, size_t bytes)
{
    const size_t size = size_of(name, given, bytes);
    if (size == bytes || size == 0)
        return size == 0 ? NULL : given;
    for (size_t i = bytes; i < size; i++)
        if (((const char *)given)[i] != 0)
            return refuse(name, size, i, bytes);
    memset(own, 0, bytes);
    memcpy(own, given, size < bytes ? size : bytes);
    return own;
}

ecornn_status eco_check_only(const char *name, const void *given, const void *only, size_t bytes,
                             const char *fields)
{
    size_t at = sizeof(size_t); /* after the size */
    while (at < bytes && ((const char *)given)[at] == ((const char *)only)[at])
        at++;
    return at == bytes ? ECORNN_OK
                       : eco_fail(ECORNN_BAD_ARGUMENT, "%s sets byte %zu, but may only have %s",
                                  name, at / 4 * 4 /* of a field */, fields);
}

ecornn_status eco_give(const char *name, void *given, const void *own, size_t bytes)
{
    const size_t size = size_of(name, given, bytes), start = sizeof size;
    if (size == 0)
        return ECORNN_BAD_ARGUMENT;
    memcpy((char *)given + start, (const char *)own + start, (size < bytes ? size : bytes) - start);
    return ECORNN_OK;
}
