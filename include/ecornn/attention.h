/**
 * @file
 * Additive attention over a source, fused: scores, weights and contexts without the array [T,N,S,H]
 * of intermediate values.  Included by ecornn.h, whose rules on errors, threads, floating point and
 * memory apply.
 *
 * Letters for shapes:
 *   T steps, each with a query     S positions of the source     N batch
 *   H width of queries and keys    V width of values and contexts
 */
#ifndef ECORNN_ATTENTION_H
#define ECORNN_ATTENTION_H

#include "ecornn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_attention Attention
 * score[t,n,s] is the sum over h of vector[h] tanh(query[t,n,h] + keys[s,n,h]) (Bahdanau et al.
 * 2015). weight[t,n,:] is the softmax over s < lengths[n] of score[t,n,s], and 0 past the length.
 * The context of a query is the sum over s of weight[t,n,s] values[s,n,:].  A source of length 0
 * has the context 0.
 *
 * Forward saves only the weights [T,N,S]; backward computes tanh again.
 * @{ */

/** The attention that a plan is made for.  A field that is 0 takes its default. */
typedef struct {
    int32_t steps;      /**< the largest T a run will have: required */
    int32_t source;     /**< the largest S: required */
    int32_t batch;      /**< the largest N: required */
    int32_t hidden;     /**< H: required */
    int32_t value;      /**< V; 0: H */
    ecornn_order order; /**< order of all arrays: [T,N,*] and [S,N,*], or [N,T,*] and [N,S,*] */
    ecornn_type type;   /**< type of all arrays except the vector; sums are F32, or F64 with F64 */
    uint32_t flags;     /**< ECORNN_TRAINING: plan the backward pass too */
    uint32_t reserved[8]; /**< zero */
} ecornn_attention_desc;

/**
 * A description from a problem string, as ecornn_attention_plan_print shows one; parts in any order
 * after "additive", defaults left out:
 *
 *     attention/additive[/f32|f64|bf16|f16][/infer|train]/T#/S#/N#/H#[/V#][/batch-major]
 *
 * e.g. "attention/additive/bf16/train/T50/S50/N128/H512".
 */
ECORNN_API ecornn_status ecornn_attention_desc_parse(ecornn_attention_desc *desc,
                                                     const char *problem);

/** All choices for one description on one device; does not change after creation. */
typedef struct ecornn_attention_plan ecornn_attention_plan;

/** The sizes of the blocks that the caller provides to runs of a plan, in bytes. */
typedef struct {
    size_t workspace; /**< scratch for a forward or backward; holds nothing between runs */
    size_t reserve;   /**< written by forward and read by its backward; 0 for inference */
    size_t alignment; /**< required alignment of both */
} ecornn_attention_sizes;

/** Checks the description and makes every choice.  The device must outlive the plan.  UNSUPPORTED
 * if the device does not support it. */
ECORNN_API ecornn_status ecornn_attention_plan_create(ecornn_attention_plan **plan,
                                                      ecornn_device *device,
                                                      const ecornn_attention_desc *desc);
/** Frees the plan; NULL is allowed. */
ECORNN_API void ecornn_attention_plan_free(ecornn_attention_plan *plan);
/** The block sizes for runs of the planned T, S and N, which are enough for smaller runs. */
ECORNN_API void ecornn_attention_plan_sizes(const ecornn_attention_plan *plan,
                                            ecornn_attention_sizes *sizes);
/** Prints the plan as snprintf does.  Returns the length it needs. */
ECORNN_API int ecornn_attention_plan_print(const ecornn_attention_plan *plan, char *text,
                                           size_t size);

/** Inputs and outputs of a run; shapes are those of ECORNN_TIME_MAJOR. */
typedef struct {
    size_t size;    /**< sizeof(ecornn_attention_io): later versions may add fields */
    int32_t steps;  /**< This run's T, or ECORNN_ALL.  If all three are 0, they count as not set and
                       mean the plan's. */
    int32_t source; /**< its S */
    int32_t batch;  /**< its N */
    /** [N] in device memory, the length of each source, 0 <= length <= S; NULL: all S.  Not checked
     * on a GPU. */
    const int32_t *lengths;
    const void *query;  /**< [T,N,H], projected */
    const void *keys;   /**< [S,N,H], projected, with the bias; past a length anything */
    const void *values; /**< [S,N,V], past a length anything; may be the same memory as keys */
    const void *vector; /**< [H], F32, or F64 if type is F64 */
    void *context;      /**< [T,N,V]; NULL if not needed */
    void *weights;      /**< [T,N,S]; NULL if not needed */
    void *workspace;    /**< ecornn_attention_sizes.workspace bytes */
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
    const void *dweights; /**< shaped as weights, never read past a length; NULL: 0 */
    void *dquery;         /**< shaped as query; NULL if not needed, as for the others */
    void *dkeys;          /**< shaped as keys; 0 past a length */
    void *dvalues;        /**< shaped as values; 0 past a length; must not be the memory of dkeys */
    void *dvector;        /**< shaped as vector */
    /** Nonzero: add to dvector; the others are always overwritten. */
    int32_t accumulate;
} ecornn_attention_gradient;

/** Computes context and weights.  With a reserve it also keeps what backward needs.  If T, S or N
 * is 0, the run reads nothing, and its results, gradients included, are 0; the reserve is not
 * modified. */
ECORNN_API ecornn_status ecornn_attention_forward(const ecornn_attention_plan *plan,
                                                  const ecornn_attention_io *io);
/** Computes the gradients of one forward run.  io must have the same sizes, lengths, query, keys,
 * values, vector and reserve as in that run; context and weights are not read.  The reserve is not
 * modified: backward may run again, with the same bits.  A reserve of another plan, or of a run
 * with other sizes or lengths, is refused; on a GPU this is not checked, because the reserve is in
 * device memory. */
ECORNN_API ecornn_status ecornn_attention_backward(const ecornn_attention_plan *plan,
                                                   const ecornn_attention_io *io,
                                                   const ecornn_attention_gradient *gradient);

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ECORNN_ATTENTION_H */
