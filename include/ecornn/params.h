/**
 * @file params.h
 * Inference with parameters that may change between runs, in one call.  ecornn.h does not include
 * it.
 */
#ifndef ECORNN_PARAMS_H
#define ECORNN_PARAMS_H

#include <ecornn.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * ecornn_pack_sums into io->weights, then ecornn_forward: the same bits, in less time.  added may
 * be NULL.
 *
 * A GPU need not copy a matrix whose parameters follow each other as its gates do in PyTorch, whose
 * address is a multiple of 64, whose rows need no padding, and which has the packed type: the run
 * reads it where it is.  So params must stay unchanged until the run has ended, and afterwards
 * io->weights must not be used for other runs.  Of a run with a reserve io->weights is complete,
 * for backward.
 *
 * io->weights, [ecornn_sizes.weights] bytes, is written.
 */
ECORNN_API ecornn_status ecornn_forward_params(const ecornn_plan *plan, const ecornn_io *io,
                                               const void *const *params, const void *const *added);

#ifdef __cplusplus
}
#endif

#endif /* ECORNN_PARAMS_H */
