/**
 * @file
 * Derivatives along a direction, and gradients of gradients.  Included by ecornn.h, whose letters,
 * and words on errors, threads, floating point and memory hold here too.
 */
#ifndef ECORNN_TANGENT_H
#define ECORNN_TANGENT_H

#include "ecornn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_tangents Tangents
 * A run computes y, and how y changes when x, initial states and parameters change along a given
 * direction, their tangents: y_tangent = d/de y(x + e x_tangent, ...) at e = 0.  That is the
 * product of the Jacobian and the tangents (JVP).
 *
 * With ECORNN_TRAINING a run also goes back through all of it: dx, dinitial and dparams are the
 * gradients by x, initial and params of
 *
 *     <dy, y> + <dfinal, final> + <dy_tangent, y_tangent> + <dfinal_tangent, final_tangent>.
 *
 * Three uses of that, of a backward that gave dx, dinitial and dparams from dy and dfinal:
 * - Double backward.  Tangents: what the gradients of a loss by those dx, dinitial, dparams are.
 *   dy_tangent, dfinal_tangent: that backward's dy and dfinal.  Then y_tangent and final_tangent
 *   are the gradients of the loss by dy and dfinal; dx, dinitial, dparams those by x, initial and
 *   parameters.
 * - Product of the Hessian and a vector: the same, with the vector as tangents.
 * - Tangents of a backward: the same, and dy, dfinal are the tangents of that backward's.
 *
 * Layers run one after the other as two plans each: of the cell, and of its tangent, a cell whose
 * states are the cell's and their derivatives.  Any algorithm that takes cells from text runs it.
 * @{ */

/** All choices for one description on one device; does not change once created. */
typedef struct ecornn_tangent_plan ecornn_tangent_plan;

/** How large the block is that the caller gives to runs of a plan. */
typedef struct {
    size_t params;    /**< how many parameters: those of a plan of the description, in its order */
    size_t workspace; /**< bytes of a run; nothing between runs */
    size_t alignment; /**< of it, in bytes */
} ecornn_tangent_sizes;

/** Checks the description, and makes every choice.  The cell and the device must outlive the plan.
 * UNSUPPORTED: types other than F32 and F64, a projection, dropout, resets, masks, cells of more
 * than two states or too many values, bernoulli() in more than one layer. */
ECORNN_API ecornn_status ecornn_tangent_plan_create(ecornn_tangent_plan **plan,
                                                    ecornn_device *device, const ecornn_desc *desc);
/** Frees the plan; NULL is allowed. */
ECORNN_API void ecornn_tangent_plan_free(ecornn_tangent_plan *plan);
/** The sizes of its runs, of the planned T and N: enough for every smaller run. */
ECORNN_API void ecornn_tangent_plan_sizes(const ecornn_tangent_plan *plan,
                                          ecornn_tangent_sizes *sizes);
/** Writes the plans of its layers in words, as snprintf does; returns the length it needs, -1 on
 * failure. */
ECORNN_API int ecornn_tangent_plan_print(const ecornn_tangent_plan *plan, char *text, size_t size);

/** What a run reads and writes, all in the device's memory.  NULL: zeros, or unwanted. */
typedef struct {
    size_t size; /**< sizeof(ecornn_tangent_io): later versions may add fields */
    /** This run's T, or ECORNN_ALL.  steps and batch both 0, as not set: the plan's.  One of them
     * alone is refused: an empty run has no tangents. */
    int32_t steps;
    int32_t batch;          /**< this run's N, or ECORNN_ALL */
    const int32_t *lengths; /**< as in ecornn_io */
    const void *x;          /**< as in ecornn_io: required */
    const void *x_tangent;
    const void *initial[ECORNN_MAX_STATES]; /**< as in ecornn_io */
    const void *initial_tangent[ECORNN_MAX_STATES];
    const void *const *params;         /**< as for ecornn_pack: all of them */
    const void *const *param_tangents; /**< shapes as params; any of them may be NULL */
    void *y;                           /**< as in ecornn_io */
    void *y_tangent;
    void *final[ECORNN_MAX_STATES];
    void *final_tangent[ECORNN_MAX_STATES];
    const void *dy;
    const void *dy_tangent;
    const void *dfinal[ECORNN_MAX_STATES];
    const void *dfinal_tangent[ECORNN_MAX_STATES];
    void *dx; /**< this and the next two: of plans with ECORNN_TRAINING only */
    void *dinitial[ECORNN_MAX_STATES];
    void *const *dparams; /**< overwritten; any of them may be NULL */
    void *workspace;      /**< ecornn_tangent_sizes.workspace bytes */
    uint64_t seed;        /**< of bernoulli, drawn by plans with ECORNN_TRAINING */
    void *stream;         /**< a cudaStream_t; the CPU ignores it */
} ecornn_tangent_io;

/** One run, forward and, where a gradient is wanted, back.  BAD_ARGUMENT where a required pointer
 * is NULL or one is not aligned to its elements. */
ECORNN_API ecornn_status ecornn_tangent_run(const ecornn_tangent_plan *plan,
                                            const ecornn_tangent_io *io);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* ECORNN_TANGENT_H */
