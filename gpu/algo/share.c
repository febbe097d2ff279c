/*
 * How concurrent models or layers share a device. With algorithm persistent each gets a part of its
 * multiprocessors; other kernels take what is free.
 */
#include "gpu/algo/algo.h"

#include "gpu/device/rates.h"
#include "gpu/persistent/persistent.h"
#include "gpu/run/run.h"

/* Models at once if multiprocessors are not divided: enough to keep a device busy. */
enum { OF_ALL = 8 };

/* Most blocks of a cluster: four if that was counted; more if kernels for steps have so many. */
static int32_t cluster_launch_of(const struct eco_caps *caps)
{
    enum { COUNTED = 4, MOST = sizeof caps->gpu.clusters / sizeof *caps->gpu.clusters };
    int32_t most = COUNTED;
    for (int32_t blocks = COUNTED; blocks < MOST; blocks++)
        if (caps->gpu.clusters[blocks] > 0)
            most = blocks + 1;
    return most;
}

static struct eco_caps part_of(const struct eco_caps *caps, int concurrent)
{
    const bool has_clusters = caps->gpu.blocks[2] > 0;
    const int32_t all = caps->gpu.blocks[has_clusters ? 2 : 0];
    struct eco_caps part = *caps;
    for (int log2 = 0; log2 < 3; log2++) {
        const int32_t blocks = caps->gpu.blocks[log2] < all ? caps->gpu.blocks[log2] : all;
        part.gpu.blocks[log2] = blocks / concurrent >> log2 << log2;
    }
    part.gpu.partitions = concurrent;
    part.gpu.cluster_launch = has_clusters ? cluster_launch_of(caps) : 0;
    return part;
}

/* Seconds of all models one after the other, by the fastest algorithm; 0 if there is none. */
static double time_of_all(const struct eco_problem *one, const struct eco_caps *caps, int models,
                          bool *persistent)
{
    double least = 0;
    for (const struct eco_algo *const *algo = eco_gpu_algos; *algo != NULL; algo++) {
        if ((*algo)->refuses(one, caps) != NULL)
            continue;
        const double time = models * (*algo)->estimate(one, caps);
        if (least > 0 && time >= least)
            continue;
        least = time;
        *persistent = *algo == &eco_family_persistent.algo;
    }
    return least;
}

/* Seconds with `concurrent` models at a time: steps overlap, but products of many rows use the
 * whole device and do not. */
static double time_of_parts(const struct eco_problem *one, const struct eco_caps *part, int models,
                            int concurrent)
{
    const int rounds = (models + concurrent - 1) / concurrent;
    return rounds * eco_family_persistent.algo.estimate(one, part) +
           (models - rounds) * eco_step_products(one, part, ECO_OUTSIDE_INPUT);
}

/* Do backward steps stay on the chip? */
static bool has_back(const struct eco_problem *one, const struct eco_caps *caps)
{
    struct eco_persistent_shape shape;
    if (eco_persistent_refuses(one, true) != NULL)
        return false;
    const struct eco_persistent_need need = eco_persistent_need(one, caps, true, one->N, 1, 1);
    return eco_persistent_shape(&need, &shape) > 0;
}

/* Is the part too small for backward steps? Those of algorithm step use the whole device in
 * turn. */
static bool loses_back(const struct eco_problem *one, const struct eco_caps *all,
                       const struct eco_caps *part)
{
    return one->training && !has_back(one, part) && has_back(one, all);
}

static void share_models(const struct ecornn_device *device, const struct eco_problem *one,
                         int models, struct eco_models_share *share)
{
    const int asked = eco_forced(one, ECO_FORCE_AT_ONCE, 0);
    bool persistent = false;
    double least = time_of_all(one, &device->caps, models, &persistent);
    *share = (struct eco_models_share){.concurrent = persistent        ? 1
                                                     : models < OF_ALL ? models
                                                                       : OF_ALL};
    for (int n = models < ECO_GPU_LANES ? models : ECO_GPU_LANES; n > 1 && asked != 1; n /= 2) {
        const int concurrent = asked == 0 ? n : asked < models ? asked : models;
        const struct eco_caps part = part_of(&device->caps, concurrent);
        if (eco_family_persistent.algo.refuses(one, &part) != NULL ||
            (asked == 0 && loses_back(one, &device->caps, &part)))
            continue;
        const double time = time_of_parts(one, &part, models, concurrent);
        if (least > 0 && time >= least && asked == 0)
            continue;
        least = time;
        *share = (struct eco_models_share){concurrent, &eco_family_persistent.algo, part};
    }
    if (asked > 0)
        share->concurrent = asked < models ? asked : models;
}

/* Seconds of all layers at once, with products as in time_of_parts(): the steps take as long as the
 * slowest layer's. A lane that forks and joins costs about a launch. */
static double time_of_layers(const struct eco_problem *const layer[], int layers,
                             const struct eco_caps *part)
{
    double products = 0, slowest = 0;
    const double forks = (layers - 1) * eco_gpu_rates_of(part)->launch;
    for (int k = 0; k < layers; k++) {
        const double of_rows = eco_step_products(layer[k], part, ECO_OUTSIDE_INPUT),
                     steps = eco_family_persistent.algo.estimate(layer[k], part) - of_rows;
        products += of_rows;
        slowest = steps > slowest ? steps : slowest;
    }
    return products + slowest + forks;
}

static void share_layers(const struct ecornn_device *device,
                         const struct eco_problem *const layer[], int layers,
                         struct eco_models_share *share)
{
    const struct eco_caps part = part_of(&device->caps, layers);
    const int asked = eco_forced(layer[0], ECO_FORCE_AT_ONCE, 0);
    bool fits = layers <= ECO_GPU_LANES && asked != 1, persistent;
    double in_order = 0;
    for (int k = 0; k < layers; k++) {
        fits = fits && eco_family_persistent.algo.refuses(layer[k], &part) == NULL;
        in_order += time_of_all(layer[k], &device->caps, 1, &persistent);
    }
    *share = (struct eco_models_share){.concurrent = 1};
    if (fits && (asked > 0 || time_of_layers(layer, layers, &part) < in_order))
        *share = (struct eco_models_share){layers, &eco_family_persistent.algo, part};
}

void eco_gpu_share_device(const struct ecornn_device *device,
                          const struct eco_problem *const layer[], int layers, int models,
                          struct eco_models_share *share)
{
    if (models > 1)
        share_models(device, layer[0], models, share);
    else
        share_layers(device, layer, layers, share);
}
