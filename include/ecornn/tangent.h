/**
 * @file
 * Derivatives along a direction, and gradients of gradients.  Included by ecornn.h, whose letters
 * and rules on errors, threads, floating point and memory apply.
 */
#ifndef ECORNN_TANGENT_H
#define ECORNN_TANGENT_H

#include "ecornn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_tangents Tangents
 * A run computes y and how y changes if x, initial states and parameters change along given
 * directions, their tangents: y_tangent = d/de y(x + e x_tangent, ...) at e = 0.  This is the
 * product of the Jacobian and the tangents (JVP).
 *
 * With ECORNN_TRAINING a run also differentiates all of it: dx, dinitial and dparams are the
 * gradients with respect to x, initial and params of
 *
 *     <dy, y> + <dfinal, final> + <dy_tangent, y_tangent> + <dfinal_tangent, final_tangent>.
 *
 * Three uses, for a backward that gave dx, dinitial and dparams from dy and dfinal:
 * - Double backward.  Pass as tangents the gradients of a loss with respect to those dx, dinitial
 * and dparams, and as dy_tangent and dfinal_tangent that backward's dy and dfinal.  Then y_tangent
 * and final_tangent are the gradients of the loss with respect to dy and dfinal, and dx, dinitial
 * and dparams those with respect to x, initial and parameters.
 * - Hessian-vector product: the same, with the vector as tangents.
 * - Tangents of a backward: the same, with the tangents of that backward's dy and dfinal as dy and
 * dfinal.
 *
 * Each layer runs as two plans, one after the other: the cell, and its tangent, a cell whose states
 * are the cell's states and their derivatives.  Any algorithm that supports cells from text can run
 * it.
 * @{ */

/** All choices for one description on one device; does not change after creation. */
typedef struct ecornn_tangent_plan ecornn_tangent_plan;

/** The size of the block that the caller provides to runs of a plan. */
typedef struct {
    size_t params;    /**< number of parameters: those of a plan of the description, in its order */
    size_t workspace; /**< bytes of scratch for a run; holds nothing between runs */
    size_t alignment; /**< its required alignment, in bytes */
} ecornn_tangent_sizes;

/** Checks the description and makes every choice.  The cell and the device must outlive the plan.
 * UNSUPPORTED: types other than F32 and F64, a projection, dropout together with a mask, cells with
 * more than two states or too many values, bernoulli() in more than one layer. */
ECORNN_API ecornn_status ecornn_tangent_plan_create(ecornn_tangent_plan **plan,
                                                    ecornn_device *device, const ecornn_desc *desc);
/** Frees the plan; NULL is allowed. */
ECORNN_API void ecornn_tangent_plan_free(ecornn_tangent_plan *plan);
/** The block sizes for runs of the planned T and N, which are enough for every smaller run. */
ECORNN_API void ecornn_tangent_plan_sizes(const ecornn_tangent_plan *plan,
                                          ecornn_tangent_sizes *sizes);
/** Prints the plans of its layers as snprintf does.  Returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_tangent_plan_print(const ecornn_tangent_plan *plan, char *text, size_t size);

/** Inputs and outputs of a run, in device memory.  NULL: zeros, or an unneeded output. */
typedef struct {
    size_t size; /**< sizeof(ecornn_tangent_io): later versions may add fields */
    /** This run's T, or ECORNN_ALL.  If steps and batch are both 0, they count as not set and mean
     * the plan's.  One of them alone must not be 0: an empty run has no tangents. */
    int32_t steps;
    int32_t batch;          /**< this run's N, or ECORNN_ALL */
    const int32_t *lengths; /**< as in ecornn_io */
    const void *x;          /**< as in ecornn_io: required */
    const void *x_tangent;
    const void *initial[ECORNN_MAX_STATES]; /**< as in ecornn_io */
    const void *initial_tangent[ECORNN_MAX_STATES];
    const void *const *params;         /**< as for ecornn_pack: all parameters */
    const void *const *param_tangents; /**< shaped as params; any of them may be NULL */
    void *y;                           /**< as in ecornn_io */
    void *y_tangent;
    void *final[ECORNN_MAX_STATES];
    void *final_tangent[ECORNN_MAX_STATES];
    const void *dy;
    const void *dy_tangent;
    const void *dfinal[ECORNN_MAX_STATES];
    const void *dfinal_tangent[ECORNN_MAX_STATES];
    void *dx; /**< this and the next two: only for plans with ECORNN_TRAINING */
    void *dinitial[ECORNN_MAX_STATES];
    void *const *dparams; /**< overwritten; any of them may be NULL */
    void *workspace;      /**< ecornn_tangent_sizes.workspace bytes */
    uint64_t seed; /**< seed of dropout and bernoulli(), which plans with ECORNN_TRAINING draw */
    void *stream;  /**< a cudaStream_t; the CPU ignores it */
    const uint8_t *resets; /**< as in ecornn_io, and so are the next two */
    const uint8_t *mask;
    const void *reset_state[ECORNN_MAX_STATES];
    const void *reset_state_tangent[ECORNN_MAX_STATES];
    void *dreset_state[ECORNN_MAX_STATES]; /**< only for plans with ECORNN_TRAINING */
    uint32_t first_step;                   /**< as in ecornn_io */
    uint32_t first_row;
} ecornn_tangent_io;

/** Runs forward and, if a gradient is requested, backward.  BAD_ARGUMENT if a required pointer is
 * NULL or a pointer is not aligned to its elements. */
ECORNN_API ecornn_status ecornn_tangent_run(const ecornn_tangent_plan *plan,
                                            const ecornn_tangent_io *io);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* ECORNN_TANGENT_H */
