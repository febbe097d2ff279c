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

static bool has(enum eco_part part, const struct eco_run_array *array, bool gradient)
{
    return array->gradient == gradient &&
           (part == ECO_PART_LAYER ? array->nets == ECO_NETS_LAYERS
                                   : array->tangents == ECO_WITH_TANGENT);
}

static ecornn_status refuse_part(const char *name, size_t byte, bool gradient, enum eco_part part)
{
    const char *names[ECO_RUN_ARRAYS + 1];
    char text[120];
    int count = 0;
    struct eco_text list = {text, sizeof text, 0};
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        if (has(part, &eco_run_array[a], gradient))
            names[count++] = eco_run_array_field(&eco_run_array[a]);
    if (part == ECO_PART_TANGENT && !gradient)
        names[count++] = "params";
    for (int i = 0; i < count; i++)
        eco_text_add(&list, "%s%s", i == 0 ? "" : i == count - 1 ? " and " : ", ", names[i]);
    return eco_fail(ECORNN_BAD_ARGUMENT, "%s sets byte %zu, but may only have %s", name,
                    byte / 4 * 4 /* of a field */, text);
}

ecornn_status eco_check_part(const char *name, const void *given, bool gradient, enum eco_part part)
{
    const size_t bytes = gradient ? sizeof(ecornn_gradient) : sizeof(ecornn_io);
    union eco_given rest;
    memcpy(&rest, given, bytes);
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        if (has(part, &eco_run_array[a], gradient))
            memset((char *)&rest + eco_run_array[a].given, 0,
                   eco_run_array[a].count * sizeof(void *));
    if (part == ECO_PART_TANGENT && !gradient)
        rest.io.params = NULL;
    for (size_t byte = sizeof(size_t) /* after the size */; byte < bytes; byte++)
        if (((const char *)&rest)[byte] != 0)
            return refuse_part(name, byte, gradient, part);
    return ECORNN_OK;
}

ecornn_status eco_give(const char *name, void *given, const void *own, size_t bytes)
{
    const size_t size = size_of(name, given, bytes), start = sizeof size;
    if (size == 0)
        return ECORNN_BAD_ARGUMENT;
    memcpy((char *)given + start, (const char *)own + start, (size < bytes ? size : bytes) - start);
    return ECORNN_OK;
}
