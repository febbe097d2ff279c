/**
 * @file
 * Nets: layers of different sizes, cells and directions in one plan.  Included by ecornn.h, whose
 * letters, and words on errors, threads, floating point and memory hold here too.
 */
#ifndef ECORNN_NET_H
#define ECORNN_NET_H

#include "ecornn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_nets Nets
 * A net is a text of pieces, from x to y, with ";" between them and blanks around them:
 *
 *     bf16/train/T400/N32/I40; lstm/H256/bi; join:2; lstm/H256/bi; gru/H256 + lstm/H128/rev
 *
 * - The first piece has the words of a problem string that all layers have in common: T, N, I of
 *   the net, and whatever each layer's string would repeat.
 * - A layer is a cell and the words of its own: all of a problem string but T, N, I, the type, the
 *   order, train, resets, mask, repeat-padding (as in the first piece) and models.
 * - Layers with "+" between them stand side by side: they read the same input, each in its own
 *   direction, and their outputs lie beside one another, [T,N,C1+C2+...].  dx of them is the sum,
 *   added up in their order.
 * - join:k makes of [T,N,C] an input [U,N,k*C] with U = ceil(T/k): step u has the steps u*k to
 *   u*k+k-1 beside one another, with zeros for those past a row's length, or past T.  A row of
 *   length l goes on with ceil(l/k).
 *
 * Layers have numbers from 0 on, as they stand in the text.  The bits of a net are those of its
 * layers run one after the other by plans of the same choices.  Layer 0 has the run's seed, every
 * other layer one hashed from it and the layer's number.
 * @{ */

/** All choices for one net on one device; does not change once created. */
typedef struct ecornn_net_plan ecornn_net_plan;

/** How large a net and its blocks are. */
typedef struct {
    ecornn_sizes blocks; /**< as of a plan: of all layers */
    int32_t layers;      /**< how many */
    int32_t params;      /**< pointers that ecornn_net_pack takes */
    int32_t steps;       /**< T of x, as planned */
    int32_t batch;       /**< N */
    int32_t input;       /**< I of x */
    int32_t joined;      /**< product of all k: y has U = ceil(T/joined) steps */
    int32_t output;      /**< width of y */
} ecornn_net_sizes;

/** One layer of a net. */
typedef struct {
    const ecornn_plan *plan; /**< the net's: for ecornn_param_get, ecornn_import and so on */
    int32_t steps;           /**< its T, of a run of the net's planned T */
    int32_t input;           /**< its I */
    int32_t output;          /**< width of its y */
    int32_t first_param;     /**< its parameter 0 among those of the net */
    size_t params;           /**< where its parameters begin in the net's block, in elements */
    size_t weights;          /**< where its packed weights begin, in bytes */
    size_t dweights;         /**< and their gradient */
} ecornn_net_layer;

/** Reads the text and makes a plan of every layer.  cells: own cells that the text may name beside
 * the built-in ones, ends with NULL; NULL: none.  Cells and device must outlive the plan.
 * UNSUPPORTED: models; resets or masks where steps are joined; what a layer's plan refuses. */
ECORNN_API ecornn_status ecornn_net_plan_create(ecornn_net_plan **plan, ecornn_device *device,
                                                const char *text, const ecornn_cell *const *cells);
/** Frees the plan; NULL is allowed. */
ECORNN_API void ecornn_net_plan_free(ecornn_net_plan *plan);
/** The sizes of the net, and of the blocks of its runs: enough for every smaller run. */
ECORNN_API void ecornn_net_plan_sizes(const ecornn_net_plan *plan, ecornn_net_sizes *sizes);
/** Writes the plan in words, which layers run at once and then layer by layer, as snprintf does;
 * returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_net_plan_print(const ecornn_net_plan *plan, char *text, size_t size);
/** Layer number index, from 0 on. */
ECORNN_API ecornn_status ecornn_net_layer_get(const ecornn_net_plan *plan, int index,
                                              ecornn_net_layer *layer);

/** As ecornn_pack; params: the parameters of layer 0, then those of layer 1 and so on. */
ECORNN_API ecornn_status ecornn_net_pack(const ecornn_net_plan *plan, const void *const *params,
                                         void *weights, void *stream);
/** As ecornn_unpack. */
ECORNN_API ecornn_status ecornn_net_unpack(const ecornn_net_plan *plan, const void *dweights,
                                           void *const *dparams, int add, void *stream);

/** States of one layer and their gradients, as in ecornn_io and ecornn_gradient; T is the layer's.
 */
typedef struct {
    const void *initial[ECORNN_MAX_STATES];
    void *final[ECORNN_MAX_STATES];
    const void *reset_state[ECORNN_MAX_STATES];
    void *states[ECORNN_MAX_STATES];
    const void *dfinal[ECORNN_MAX_STATES]; /**< this and the next three: of backward */
    void *dinitial[ECORNN_MAX_STATES];
    void *dreset_state[ECORNN_MAX_STATES];
    const void *dstates[ECORNN_MAX_STATES];
} ecornn_net_states;

/** As ecornn_forward.  io: x [T,N,I], y [U,N,output], lengths [N] of x; states in it must be NULL,
 * and first_step a multiple of `joined`.  states: those of each layer, or NULL: as in
 * ecornn_io, unwanted. */
ECORNN_API ecornn_status ecornn_net_forward(const ecornn_net_plan *plan, const ecornn_io *io,
                                            const ecornn_net_states *states);
/** As ecornn_backward, with the same io and states as in that run; states in gradient must be NULL.
 */
ECORNN_API ecornn_status ecornn_net_backward(const ecornn_net_plan *plan, const ecornn_io *io,
                                             const ecornn_gradient *gradient,
                                             const ecornn_net_states *states);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* ECORNN_NET_H */
