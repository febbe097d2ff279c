/*
 * Argument checks shared by several public functions.
 */
#ifndef ECO_LIB_CHECK_H
#define ECO_LIB_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn.h"

#include "common/util.h"

/* For a power of two; avoids a division, which would be noticeable in a call of one short step. */
static inline bool eco_is_aligned(const void *pointer, size_t alignment)
{
    return ((uintptr_t)pointer & (alignment - 1)) == 0;
}

/* Checks that a pointer is aligned; it may be NULL unless it is required. */
static inline ecornn_status eco_check_pointer(const char *name, const void *pointer, bool required,
                                              size_t alignment)
{
    if (!pointer && required)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", name);
    if (!eco_is_aligned(pointer, alignment))
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be aligned to %zu bytes", name,
                        pointer, alignment);
    return ECORNN_OK;
}

/* ---- plans of any kind ----------------------------------------------------------------------- */

/* Checks that both are given; a failure is recorded as the thread's last failure, because functions
 * that return sizes have no status. */
static inline bool eco_check_sizes(const void *plan, const void *sizes)
{
    if (plan && sizes)
        return true;
    eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", sizes ? "plan" : "sizes");
    return false;
}

/* The same for the print of a plan, which returns -1 on failure. */
static inline bool eco_check_print(const void *plan, const char *text, size_t size)
{
    if (!plan)
        eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    else if (!text && size > 0)
        eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL, must have %zu bytes", size);
    return plan && (text || size == 0);
}

/* api_cell.c: the text of a user's cell; NULL for a built-in cell or a tangent. */
const char *eco_cell_source_text(const ecornn_cell *cell);

/* ---- runs ------------------------------------------------------------------------------------ */

/* A run's number of steps or rows, which is at most the planned one. */
static inline ecornn_status eco_check_count(const char *name, int32_t given, int32_t planned,
                                            int32_t *count)
{
    if (given != ECORNN_ALL && (given < 0 || given > planned))
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %d, must be 0 to %d or ECORNN_ALL", name,
                        (int)given, (int)planned);
    *count = given == ECORNN_ALL ? planned : given;
    return ECORNN_OK;
}

/* Checks the size that the caller states for a block against what this run needs; 0: not stated. */
static inline ecornn_status eco_check_bytes(const char *name, size_t given, size_t needed)
{
    if (given != 0 && given < needed)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.%s is %zu, must be at least %zu for this run",
                        name, given, needed);
    return ECORNN_OK;
}

#endif /* ECO_LIB_CHECK_H */
