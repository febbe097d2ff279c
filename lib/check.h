/*
 * What public functions share: checks of arguments, holders of devices and cells, and the plans of
 * each kind.
 */
#ifndef ECO_LIB_CHECK_H
#define ECO_LIB_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn.h"

#include "common/run_arrays.h"
#include "lib/sized.h"

/* For a power of two; avoids a division, which would be noticeable in a call of one short step. */
static inline bool eco_is_aligned(const void *pointer, size_t alignment)
{
    return ((uintptr_t)pointer & (alignment - 1)) == 0;
}

/* Refuses the likely mistakes: one array as both input and output, or one block for two. */
ecornn_status eco_check_overlap(const struct eco_args *args, const ecornn_sizes *sizes);

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

/* The same for several. */
struct eco_pointer {
    const char *name;
    const void *at;
    bool required;
    size_t alignment;
};
ecornn_status eco_check_pointers(const struct eco_pointer *pointer, size_t count);

/* ---- handles --------------------------------------------------------------------------------- */

/* Is it a plan?  A freed one often is not. */
static inline ecornn_status eco_check_plan(const ecornn_plan *plan)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (plan->kind < ECO_PLAN_LAYERS || plan->kind > ECO_PLAN_ATTENTION)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is %p, which is no plan: was it freed?",
                        (const void *)plan);
    return ECORNN_OK;
}

/* Does the program still have the device open? */
ecornn_status eco_check_device(const ecornn_device *device);
/* The arguments of a print, which returns -1 if they are wrong. */
bool eco_check_text(const char *text, size_t size);

/* api_device.c, api_cell.c: a device is closed and a cell from text freed when the last holder lets
 * it go. */
void eco_device_hold(ecornn_device *device);
void eco_device_release(ecornn_device *device);
void eco_cell_hold(const ecornn_cell *cell);
void eco_cell_release(const ecornn_cell *cell);
/* The text of a user's cell or of one of the library; NULL for a built-in cell or a tangent. */
const char *eco_cell_source_text(const ecornn_cell *cell);
/* The built-in cell of this name, or else the library's; it is never freed. NULL: there is none. */
ecornn_status eco_cell_named(const char *name, size_t length, const ecornn_cell **cell);

/* ---- plans of each kind ---------------------------------------------------------------------- */

/* layers.c: the plan of one problem, as a part of another plan or to be given to the program. */
ecornn_status eco_layers_create(ecornn_plan **plan, ecornn_device *device, const ecornn_desc *desc);
void eco_layers_free(ecornn_plan *plan);
/* Adds what ecornn_plan_print prints. */
void eco_layers_describe(const ecornn_plan *plan, struct eco_text *text);
/* net.c, tangent.c: fill in what is zero but for its device, and free what that has. */
void eco_net_plan_free(struct eco_net_plan *net);
void eco_net_plan_describe(const struct eco_net_plan *net, struct eco_text *text);
ecornn_status eco_tangent_plan_create(struct eco_tangent_plan *tangent, const ecornn_desc *desc);
void eco_tangent_plan_free(struct eco_tangent_plan *tangent);
void eco_tangent_plan_describe(const struct eco_tangent_plan *tangent, struct eco_text *text);

/* ---- runs ------------------------------------------------------------------------------------ */

/* A run's number of steps or rows, which is at most the planned one. */
static inline ecornn_status eco_check_count(const char *name, int32_t given, int32_t planned)
{
    if (given < 0 || given > planned)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %d, must be 0 to %d", name, (int)given,
                        (int)planned);
    return ECORNN_OK;
}

/* check_run.c: copy what the caller gives, T and N included. */
void eco_args_read_io(struct eco_args *args, int32_t T, int32_t N, const ecornn_io *io);
void eco_args_read_gradient(struct eco_args *args, const ecornn_gradient *gradient);
/* check_run.c: takes and checks a part of the arrays, an ecornn_io or ecornn_gradient that a field
 * of that `name` points at, or NULL.  params: also of a tangent. */
ecornn_status eco_args_read_part(struct eco_args *args, const char *name, const void *given,
                                 bool gradient, enum eco_part part);
/* Checks steps and batch, and what only nets or tangents have.  gradient: NULL forward. */
ecornn_status eco_check_run(const ecornn_plan *plan, int32_t steps, int32_t batch,
                            const ecornn_io *io, const ecornn_gradient *gradient);

/* What the arrays of a run must be like. */
struct eco_array_rules {
    int states;                /* of the cell, */
    const char *cell;          /* which has this name */
    const char *plan, *kind;   /* the problem's text, and what follows it: "", or "/tangent" */
    uint32_t flags;            /* of its description */
    const ecornn_sizes *sizes; /* of the blocks */
    uint8_t required;          /* bits of eco_run_array.required */
    bool without_x;            /* all of x is in io.inputs */
    uint8_t alignment[ECO_ARRAY_ELEMENTS];
    const char *within; /* which struct in io or gradient has them: "", or "tangent->" */
};
/* Those of a run of layers. */
struct eco_array_rules eco_array_rules(const struct eco_problem *problem,
                                       const struct eco_args *args, const ecornn_sizes *sizes);
ecornn_status eco_check_arrays(const struct eco_array_rules *rules, const struct eco_args *args);
/* Checks all arguments of a run of layers but these. */
ecornn_status eco_args_check(const struct ecornn_plan *plan, const struct eco_args *args);
ecornn_status eco_check_lengths(const int32_t *lengths, int32_t T, int64_t count);
/* api_weights.c: checks the parameters that are given to a run; packs them, or leaves that to the
 * run. */
ecornn_status eco_args_take_params(struct eco_args *args, const ecornn_plan *plan,
                                   const void *const *params, const void *const *added);

/* Forward, or, with a gradient, backward; steps and batch have been checked. */
ecornn_status eco_net_plan_run(const ecornn_plan *plan, int32_t steps, int32_t batch,
                               const ecornn_io *io, const ecornn_gradient *gradient);
ecornn_status eco_tangent_plan_run(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                   const ecornn_io *io, const ecornn_gradient *gradient);

#endif /* ECO_LIB_CHECK_H */
