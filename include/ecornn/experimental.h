/**
 * @file
 * What may still change: attention, and derivatives along a direction.  ecornn.h does not include
 * it; its rules on structures, errors, threads, floating point and memory apply.
 */
#ifndef ECORNN_EXPERIMENTAL_H
#define ECORNN_EXPERIMENTAL_H

#include <ecornn.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_attention Attention
 * Additive attention over a source, fused: scores, probabilities and contexts without the array
 * [T,N,S,H] of intermediate values.  Letters for shapes:
 *   T steps, each with a query     S positions of the source     N batch
 *   H width of queries and keys    V width of values and contexts
 *
 * score[t,n,s] is the sum over h of vector[h] tanh(query[t,n,h] + keys[s,n,h]) (Bahdanau et al.
 * 2015). prob[t,n,:] is the softmax over s < lengths[n] of score[t,n,s], and 0 past the length.
 * The context of a query is the sum over s of prob[t,n,s] values[s,n,:].  A source of length 0
 * has the context 0.
 *
 * Forward saves only probs [T,N,S]; backward computes tanh again.
 *
 * ecornn_plan_create makes a plan from
 *
 *     attention/additive[/f32|f64|bf16|f16][/infer|train]/T#/S#/N#/H#[/V#][/batch-major]
 *
 * with T, S and N the largest that a run will have, e.g.
 * "attention/additive/bf16/train/T50/S50/N128/H512".  V is H by default.  The type is that of all
 * arrays except the vector; sums are F32, or F64 with f64.  batch-major: arrays are [N,T,*] and
 * [N,S,*] instead of [T,N,*] and [S,N,*].  Of ecornn_sizes, input is H and output is V.
 * @{ */

/** Inputs and outputs of a run; shapes are those without batch-major. */
typedef struct {
    size_t size; /**< sizeof(ecornn_attention_io) */
    /** [N] in device memory, the length of each source, 0 <= length <= S; NULL: all S. */
    const int32_t *lengths;
    const void *query;  /**< [T,N,H], projected */
    const void *keys;   /**< [S,N,H], projected, with the bias; past a length anything */
    const void *values; /**< [S,N,V], past a length anything; may be the same memory as keys */
    const void *vector; /**< [H], F32, or F64 if type is F64 */
    void *context;      /**< [T,N,V]; NULL if not needed */
    void *probs;        /**< the softmax [T,N,S]; NULL if not needed */
    void *workspace;    /**< ecornn_sizes.workspace_bytes */
    void *reserve;      /**< NULL: inference, also with a training plan */
    void *stream;       /**< a cudaStream_t; the CPU ignores it */
    /** Size of workspace, checked against what this run needs; 0: not checked. */
    size_t workspace_bytes;
    size_t reserve_bytes; /**< the same for reserve */
} ecornn_attention_io;

/** Inputs and outputs of backward. */
typedef struct {
    size_t size;          /**< sizeof(ecornn_attention_gradient) */
    const void *dcontext; /**< shaped as context; NULL: 0 */
    const void *dprobs;   /**< shaped as probs, never read past a length; NULL: 0 */
    void *dquery;         /**< shaped as query; NULL if not needed, as for the others */
    void *dkeys;          /**< shaped as keys; 0 past a length */
    void *dvalues;        /**< shaped as values; 0 past a length; must not be the memory of dkeys */
    void *dvector;        /**< shaped as vector */
    /** Nonzero: add to dvector; the others are always overwritten. */
    int32_t add;
    int32_t reserved; /**< 0 */
} ecornn_attention_gradient;

/** Computes context and probs.  With a reserve it also keeps what backward needs.  If T, S or N
 * is 0, the run reads nothing, and its results, gradients included, are 0; the reserve is not
 * modified. */
ECORNN_API ecornn_status ecornn_attention_forward(const ecornn_plan *plan, int32_t steps,
                                                  int32_t source, int32_t batch,
                                                  const ecornn_attention_io *io);
/** Computes the gradients of one forward run.  The sizes and io must be the same: lengths, query,
 * keys, values, vector and reserve; context and probs are not read.  The reserve is not modified:
 * backward may run again, with the same bits.  A reserve of another plan, or of a run with other
 * sizes or lengths, is refused; on a GPU this is not checked, because the reserve is in device
 * memory. */
ECORNN_API ecornn_status ecornn_attention_backward(const ecornn_plan *plan, int32_t steps,
                                                   int32_t source, int32_t batch,
                                                   const ecornn_attention_io *io,
                                                   const ecornn_attention_gradient *gradient);

/** @} */

/** @defgroup ecornn_tangents Tangents
 * A run computes y and how y changes if x, initial states and parameters change along given
 * directions, their tangents: y_tangent = d/de y(x + e x_tangent, ...) at e = 0.  This is the
 * product of the Jacobian and the tangents (JVP).
 *
 * With ECORNN_TRAINING ecornn_backward also differentiates all of it: dx, dinitial and dparams are
 * the gradients with respect to x, initial and params of
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
 *
 * A plan has ECORNN_TANGENT, "tangent" in its problem string.  UNSUPPORTED: types other than F32
 * and F64, int8, a projection, heads, several models, streams, states of every step, saving less
 * than all, dropout together with a mask, cells with more than two states or too many values,
 * bernoulli() in more than one layer.  A run has no weights and no reserve:
 * - io.params: all parameters; io.tangent->params: their tangents, NULL, all or one: zeros.
 * - io.tangent: the tangents of x, initial, reset_state, and memory for those of y and final; all
 * else in there must be 0.  NULL: zeros, or not needed.
 * - gradient.tangent: only dy and dfinal of the tangents of y and final.  gradient.dparams:
 * overwritten; NULL, all or one: not needed.  dweights must be NULL.
 * ecornn_backward also writes y, final and their tangents, since it computes forward again.  Empty
 * runs are refused: they have no tangents.  ecornn_pack, ecornn_unpack and ecornn_weights_fit are
 * not for these plans.
 */

#ifdef __cplusplus
}
#endif
#endif /* ECORNN_EXPERIMENTAL_H */
