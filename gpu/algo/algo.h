/*
 * The algorithms, their costs, and the data of their plans.
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

/* share.c: eco_backend.share. */
void eco_gpu_share_device(const struct ecornn_device *device,
                          const struct eco_problem *const layer[], int layers, int models,
                          struct eco_models_share *share);

/* ---- families -------------------------------------------------------------------------------- */

/* A family of kernels for steps: all that the planner asks of it. A plan's algo is that of its
 * family. */
struct eco_gpu_family {
    struct eco_algo algo;
    /* Finds kernels and chooses what runs look up by their rows. */
    void (*prepare)(const struct ecornn_plan *plan);
    void (*describe)(const struct ecornn_plan *plan, struct eco_text *text);
    /* Writes the choices that it alone has, in the form of ECORNN_FORCE; NULL: none. */
    void (*choices)(const struct ecornn_plan *plan, struct eco_text *text);
};
extern const struct eco_gpu_family eco_family_persistent, eco_family_fused, eco_family_scan,
    eco_family_step, eco_family_matrix;
/* plan.c: all of them, ended by NULL; of equal estimates the first is chosen. */
extern const struct eco_algo *const eco_gpu_algos[];

/* Products that an algorithm leaves to others, besides gradients: a set of these. */
enum eco_outside { ECO_OUTSIDE_INPUT = 1, ECO_OUTSIDE_STEPS = 2 };
/* The arithmetic of products: 16 bits, fast F32 or full F32. */
enum eco_cost_form { ECO_COST_NARROW, ECO_COST_FAST, ECO_COST_FULL };
enum eco_cost_form eco_cost_form(const struct eco_problem *problem);
/* Accumulators of all units that products add to: with states (recurrent), or with the input. */
double eco_cost_accs(const struct eco_problem *problem, bool recurrent);
/* algo/products.c; seconds of the products over all rows, in the requested chunks: of inputs, or of
 * gradients. Without the losses of eco_step_lost(). */
double eco_products_time(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward, const struct eco_layout_request *request);
/* Seconds of one product C[m,n] of k terms, by the methods of large products. */
double eco_product_time(const struct eco_problem *problem, const struct eco_caps *caps, double m,
                        double n, double k);
/* algo/cost.c; seconds lost by rows that are no multiple of 16 bytes, or spent on padding. */
double eco_step_lost(const struct eco_problem *problem, const struct eco_caps *caps,
                     unsigned outside);
/* Both, with algorithm step's chunks, forward and in training backward. */
double eco_step_products(const struct eco_problem *problem, const struct eco_caps *caps,
                         unsigned outside);
/* Seconds of all forward or backward steps with large products. Layers overlap if requested. */
double eco_step_time(const struct eco_problem *problem, const struct eco_caps *caps, bool backward,
                     const struct eco_layout_request *request);
/* The shape of wide steps of algorithm step; -1: a product and the cell are faster. */
int eco_step_wide_shape(const struct eco_problem *problem, const struct eco_caps *caps,
                        bool wavefront);
/* The requests of algorithm step that estimates depend on: chunks, and whether layers overlap. */
struct eco_layout_request eco_step_chunks(const struct eco_problem *problem,
                                          const struct eco_caps *caps, bool wavefront);
/* Is a wavefront of layers possible, and faster? forward: for forward steps, too. */
bool eco_step_overlaps(const struct eco_problem *problem, const struct eco_caps *caps,
                       bool forward);
/* Seconds of `n` launches for each layer and direction; after backward steps, besides products, one
 * for the gradients of vectors or of everything. */
enum { ECO_AFTER_BACK = 1 };
double eco_gpu_launches(const struct eco_problem *problem, const struct eco_caps *caps, int n);
/* Seconds of algorithm step's launches outside its steps: of states and of products. */
double eco_step_launches(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward);
/* Do products gain more from padded rows than copying the rows costs? */
bool eco_step_gains_by_groups(const struct eco_problem *problem, const struct eco_caps *caps,
                              unsigned outside);
/* Steps of a chunk that ECORNN_FORCE sets; 0: the planner chooses. */
int32_t eco_step_asked(const struct eco_problem *problem, bool backward);
/* Least steps of a chunk, and rows: enough for the input product to run at full speed, few enough
 * for its result to stay in the L2 until the steps read it. */
enum { ECO_STEP_CHUNK = 8, ECO_STEP_ROWS = 4096 };
/* Is a layer's backward followed by one launch, in a single chunk? Then layers do not overlap. */
bool eco_step_is_short(const struct eco_problem *problem, const struct eco_caps *caps);
/* algo/per_step.c; are rows padded? Yes if forced, or if products gain more than copies cost. */
bool eco_step_fills(const struct eco_problem *problem, const struct eco_caps *caps,
                    unsigned outside);
/* Bytes of ECO_INNER_PRODUCT, given the other requests: a wavefront, chunks. */
size_t eco_step_product_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              const struct eco_layout_request *request);
/* Updates the requests that follow from chunks: eco_algo.fit. */
void eco_step_fit(const struct eco_problem *problem, const struct eco_caps *caps,
                  struct eco_layout_request *request);
/* Does a plan of algorithm step multiply and finish a full run's steps in one launch? */
bool eco_step_is_wide(const struct ecornn_plan *plan);

#endif /* ECO_GPU_ALGO_ALGO_H */
