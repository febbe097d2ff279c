/*
 * The algorithms, what they cost, and what plans of them keep.
 */
#ifndef ECO_GPU_ALGO_ALGO_H
#define ECO_GPU_ALGO_ALGO_H

#include "common/backend.h"
#include "common/plan.h"
#include "gpu/view/plan.h"

/* plan.c */
ecornn_status eco_gpu_prepare(struct ecornn_plan *plan);
void eco_gpu_release(struct ecornn_plan *plan);
void eco_gpu_describe(const struct ecornn_plan *plan, struct eco_text *text);
void eco_gpu_choices(const struct ecornn_plan *plan, struct eco_text *text);

/* share.c, as eco_backend.share and share_layers; the part of a device that each of so many models
 * has. */
void eco_gpu_share_out(const struct ecornn_device *device, const struct eco_problem *one,
                       int models, struct eco_models_share *share);
void eco_gpu_share_layers(const struct ecornn_device *device,
                          const struct eco_problem *const layer[], int layers,
                          struct eco_models_share *share);
struct eco_caps eco_gpu_part(const struct eco_caps *caps, int at_once);

/* ---- algorithms ------------------------------------------------------------------------------ */

/* Products that an algorithm leaves to others beside those of gradients: any of these. */
enum eco_outside { ECO_OUTSIDE_INPUT = 1, ECO_OUTSIDE_STEPS = 2 };
/* How F32 is multiplied, or 16 bits. */
enum eco_cost_form { ECO_COST_NARROW, ECO_COST_FAST, ECO_COST_FULL };
enum eco_cost_form eco_cost_form(const struct eco_problem *problem);
/* Accumulators that products with states add to, or with the input, of all units. */
double eco_cost_accs(const struct eco_problem *problem, bool recurrent);
/* algo/products.c; seconds of the products of all rows with the chunks that are wished: of inputs,
 * or of gradients.  Not what they lose where rows are no whole groups. */
double eco_products_time(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward, const struct eco_wishes *wishes);
/* Of a product of a step with all of R, of F32 in full, as large ones are multiplied. */
double eco_full_step_time(const struct eco_problem *problem, const struct eco_caps *caps,
                          bool backward);
/* algo/cost.c; what products lose, or copies cost, where rows are no whole groups. */
double eco_step_lost(const struct eco_problem *problem, const struct eco_caps *caps,
                     unsigned outside);
/* Both, of algorithm step's chunks, forward and in training back. */
double eco_step_products(const struct eco_problem *problem, const struct eco_caps *caps,
                         unsigned outside);
/* Of all steps one way, with their large products; layers may overlap, as is wished. */
double eco_step_time(const struct eco_problem *problem, const struct eco_caps *caps, bool backward,
                     const struct eco_wishes *wishes);
/* The wishes of algorithm step that estimates are asked about: chunks, and whether layers overlap.
 */
struct eco_wishes eco_step_chunks(const struct eco_problem *problem, bool wavefront);
/* Is a wavefront of layers possible, and faster?  steps: of steps forward, too. */
bool eco_step_overlaps(const struct eco_problem *problem, const struct eco_caps *caps,
                       bool forward);
/* Of so many launches for each layer and direction. */
double eco_gpu_launches(const struct eco_problem *problem, const struct eco_caps *caps, int n);
/* Launches that steps back are followed by, and what these write: all but their products. */
double eco_gpu_after_back(const struct eco_problem *problem, const struct eco_caps *caps);
/* Of algorithm step's launches beside its steps: of states, or their gradients, and of products. */
double eco_step_launches(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward);
/* Do products gain more from whole groups than copies of rows cost? */
bool eco_step_gains_by_groups(const struct eco_problem *problem, const struct eco_caps *caps,
                              unsigned outside);
/* Steps of a chunk that are forced; 0: the planner chooses. */
int32_t eco_step_asked(const struct eco_problem *problem, bool backward);
/* Steps of a chunk at least, and rows: enough that the input product runs at full speed, few enough
 * that its result stays in the L2 until the steps read it. */
enum { ECO_STEP_CHUNK = 8, ECO_STEP_ROWS = 4096 };
/* Is what follows a layer's steps back one launch, and all of a run a chunk?  Then layers had
 * better follow each other. */
bool eco_step_is_over_at_once(const struct eco_problem *problem, const struct eco_caps *caps);
/* algo/per_step.c; are rows filled to whole groups?  Where that is forced, or products gain more
 * than copies cost. */
bool eco_step_fills(const struct eco_problem *problem, const struct eco_caps *caps,
                    unsigned outside);
/* Bytes of ECO_SCRATCH_PRODUCT, by what else is wished: a wavefront, chunks. */
size_t eco_step_product_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              const struct eco_wishes *wishes);
/* What of the wishes follows from chunks: eco_algo.fit. */
void eco_step_fit(const struct eco_problem *problem, const struct eco_caps *caps,
                  struct eco_wishes *wishes);
extern const struct eco_algo eco_algo_step;
extern const struct eco_algo eco_algo_persistent; /* algo/persistent.c */
extern const struct eco_algo eco_algo_fused;      /* algo/fused_step.c */
extern const struct eco_algo eco_algo_scan;       /* algo/scan.c */

#endif /* ECO_GPU_ALGO_ALGO_H */
