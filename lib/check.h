/*
 * Checks of arguments that several public functions have in common.
 */
#ifndef ECO_LIB_CHECK_H
#define ECO_LIB_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn.h"

#include "common/util.h"

/* To a power of two: a call of one short step would notice divisions. */
static inline bool eco_is_aligned(const void *pointer, size_t alignment)
{
    return ((uintptr_t)pointer & (alignment - 1)) == 0;
}

/* A pointer may be NULL where it is not required; otherwise it must be aligned. */
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

/* Are both there?  Else that is the thread's last failure: functions of sizes return no status. */
static inline bool eco_check_sizes(const void *plan, const void *sizes)
{
    if (plan && sizes)
        return true;
    eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", sizes ? "plan" : "sizes");
    return false;
}

/* Likewise of a plan's print, which then is -1. */
static inline bool eco_check_print(const void *plan, const char *text, size_t size)
{
    if (!plan)
        eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    else if (!text && size > 0)
        eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL, must have %zu bytes", size);
    return plan && (text || size == 0);
}

/* The text that a caller's cell was parsed from; NULL: it is built in, or a tangent.  api_cell.c.
 */
const char *eco_cell_given_text(const ecornn_cell *cell);

/* ---- runs ------------------------------------------------------------------------------------ */

/* How many of the planned a run has. */
static inline ecornn_status eco_check_count(const char *name, int32_t given, int32_t planned,
                                            int32_t *count)
{
    if (given != ECORNN_ALL && (given < 0 || given > planned))
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %d, must be 0 to %d or ECORNN_ALL", name,
                        (int)given, (int)planned);
    *count = given == ECORNN_ALL ? planned : given;
    return ECORNN_OK;
}

/* What the caller says a block holds against what this run needs; 0: nothing is said. */
static inline ecornn_status eco_check_bytes(const char *name, size_t given, size_t needed)
{
    if (given != 0 && given < needed)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.%s is %zu, must be at least %zu for this run",
                        name, given, needed);
    return ECORNN_OK;
}

#endif /* ECO_LIB_CHECK_H */
