/*
 * Argument checks shared by several public functions.
 */
#ifndef ECO_LIB_CHECK_H
#define ECO_LIB_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn.h"

#include "common/plan.h"

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

/* check_run.c: read a run's arguments and check all of them. */
ecornn_status eco_args_read_forward(struct eco_args *args, const ecornn_plan *plan,
                                    const ecornn_io *io);
ecornn_status eco_args_read_backward(struct eco_args *args, const ecornn_plan *plan,
                                     const ecornn_io *io, const ecornn_gradient *gradient);
/* The parts of both: copy what the caller gives, without T and N; take T and N of the run, which
 * are the plan's if the caller has set neither, unless it gives states; and check all but these. */
ecornn_status eco_args_read_io(struct eco_args *args, const ecornn_io *io);
ecornn_status eco_args_read_gradient(struct eco_args *args, const ecornn_gradient *gradient);
ecornn_status eco_args_count(struct eco_args *args, const ecornn_io *io, int32_t T, int32_t N,
                             bool states);
ecornn_status eco_args_check(const struct ecornn_plan *plan, const struct eco_args *args);
ecornn_status eco_check_lengths(const int32_t *lengths, int32_t T, int64_t count);
/* api_weights.c: checks the parameters that are given to a run; packs them, or leaves that to the
 * run. */
ecornn_status eco_args_take_params(struct eco_args *args, const ecornn_plan *plan,
                                   const void *const *params, const void *const *added);

#endif /* ECO_LIB_CHECK_H */
