/**
 * @file
 * Nets: layers of different sizes, cells and directions in one plan.  Included by ecornn.h, whose
 * letters and rules on errors, threads, floating point and memory apply.
 */
#ifndef ECORNN_NET_H
#define ECORNN_NET_H

#include "ecornn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_nets Nets
 * A net is a text of pieces from x to y, separated by ";":
 *
 *     bf16/train/T400/N32/I40; lstm/H256/bi; join:2; lstm/H256/bi; gru/H256 + lstm/H128/rev
 *
 * - The first piece has what all layers share, as in a problem string: T, N, I of the net, and
 * whatever each layer's string would repeat.
 * - A layer is a cell and its own parts of a problem string: all but T, N, I, the type, the order,
 * train, resets, mask, repeat-padding, models and shared-x, which the first piece gives.
 * - Layers joined by "+" run in parallel: they read the same input, each in its own direction, and
 * their outputs are concatenated, [T,N,C1+C2+...].  dx is their sum, added in their order.
 * - join:k turns [T,N,C] into an input [U,N,k*C] with U = ceil(T/k): step u concatenates steps u*k
 * to u*k+k-1, with zeros past a row's length, past T, and for steps that the mask does not count. A
 * row of length l has length ceil(l/k) afterwards.  A joined step counts if any of its steps does,
 * and begins an episode if any of those that count does.
 * - dropout:p, in a run with a reserve, sets elements to 0 with probability p and multiplies the
 * others by 1/(1-p).  Steps are numbered as in its input, also with a mask.
 *
 * With models all arrays have M first, as for a plan; with shared-x this is so after the first
 * layers.  Parameters are those of layer 0, model after model, then of layer 1 and so on.
 *
 * Layers are numbered from 0 in the order of the text.  A net has the bits of its layers run one
 * after the other by plans with the same choices.  Layer 0 uses the run's seed, every other layer a
 * hash of seed and layer number.
 * @{ */

/** All choices for one net on one device; does not change after creation. */
typedef struct ecornn_net_plan ecornn_net_plan;

/** The sizes of a net and of its blocks. */
typedef struct {
    ecornn_sizes blocks; /**< as for a plan: of all layers together */
    int32_t layers;      /**< number of layers */
    int32_t params;      /**< number of pointers that ecornn_net_pack takes */
    int32_t steps;       /**< T of x, as planned */
    int32_t batch;       /**< N */
    int32_t input;       /**< I of x */
    int32_t joined;      /**< product of all k: y has U = ceil(T/joined) steps */
    int32_t output;      /**< width of y */
} ecornn_net_sizes;

/** One layer of a net. */
typedef struct {
    const ecornn_plan
        *plan;           /**< belongs to the net: for ecornn_param_get, ecornn_import and so on */
    int32_t steps;       /**< its T in a run of the net's planned T */
    int32_t input;       /**< its I */
    int32_t output;      /**< width of its y */
    int32_t first_param; /**< number of its parameter 0 among those of the net */
    size_t params;       /**< offset of its parameters in the net's block, in elements */
    size_t weights;      /**< offset of its packed weights, in bytes */
    size_t dweights;     /**< offset of their gradient, in bytes */
} ecornn_net_layer;

/** Parses the text and plans every layer.  cells: own cells that the text may name besides the
 * built-in ones, terminated by NULL; NULL: none.  Cells and device must outlive the plan.
 * UNSUPPORTED: anything that a layer's plan refuses. */
ECORNN_API ecornn_status ecornn_net_plan_create(ecornn_net_plan **plan, ecornn_device *device,
                                                const char *text, const ecornn_cell *const *cells);
/** Frees the plan; NULL is allowed. */
ECORNN_API void ecornn_net_plan_free(ecornn_net_plan *plan);
/** The sizes of the net and of the blocks of its runs, which are enough for every smaller run. */
ECORNN_API void ecornn_net_plan_sizes(const ecornn_net_plan *plan, ecornn_net_sizes *sizes);
/** Prints the plan, first which layers run concurrently, then layer by layer, as snprintf does.
 * Returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_net_plan_print(const ecornn_net_plan *plan, char *text, size_t size);
/** Fills in layer number index, counted from 0. */
ECORNN_API ecornn_status ecornn_net_layer_get(const ecornn_net_plan *plan, int index,
                                              ecornn_net_layer *layer);

/** ecornn_pack for all layers; params: those of layer 0, then of layer 1 and so on. */
ECORNN_API ecornn_status ecornn_net_pack(const ecornn_net_plan *plan, const void *const *params,
                                         void *weights, void *stream);
/** ecornn_unpack for all layers. */
ECORNN_API ecornn_status ecornn_net_unpack(const ecornn_net_plan *plan, const void *dweights,
                                           void *const *dparams, int add, void *stream);

/** States of one layer and their gradients as in ecornn_io, with the layer's T. */
typedef struct {
    const void *initial[ECORNN_MAX_STATES];
    void *final[ECORNN_MAX_STATES];
    const void *reset_state[ECORNN_MAX_STATES];
    void *states[ECORNN_MAX_STATES];
    const void *dfinal[ECORNN_MAX_STATES]; /**< this and the next three are for backward */
    void *dinitial[ECORNN_MAX_STATES];
    void *dreset_state[ECORNN_MAX_STATES];
    const void *dstates[ECORNN_MAX_STATES];
} ecornn_net_states;

/** ecornn_forward for a net.  io: x [T,N,I], y [U,N,output], lengths [N] of x; its states must be
 * NULL, and first_step must be a multiple of `joined`.  states: those of each layer; NULL: none
 * are given and none are needed. */
ECORNN_API ecornn_status ecornn_net_forward(const ecornn_net_plan *plan, const ecornn_io *io,
                                            const ecornn_net_states *states);
/** ecornn_backward for a net, with the forward's io and states; no states in gradient. */
ECORNN_API ecornn_status ecornn_net_backward(const ecornn_net_plan *plan, const ecornn_io *io,
                                             const ecornn_gradient *gradient,
                                             const ecornn_net_states *states);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* ECORNN_NET_H */
