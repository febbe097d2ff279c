/*
 * ecornn's side of a measurement.
 */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include "problem.h"

struct ours {
    const struct problem *problem;
    ecornn_device *device;
    ecornn_device_info info;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    void *x, *y, *dx, *dy, *params, *dparams; /* in the device's memory */
    void *weights, *dweights, *workspace, *reserve, *lengths, *resets;
    void *states[ECORNN_MAX_STATES]; /* streaming: initial and final */
    void **pointers, **dpointers;
    int turn;                     /* of the addresses of queued runs */
    double seconds, core_seconds; /* of the last ours_run: with and without pack and unpack */
};

/* Opens the device and makes the plan.  Afterwards problem_fill can draw the data, and ours_upload
 * prepares runs.  All functions print the reason when they fail. */
bool ours_plan(struct ours *ours, const struct problem *problem, const char *device);
bool ours_upload(struct ours *ours);
/* Runs input `set` and waits.  Inference: forward.  Training: pack, forward, backward, unpack. */
bool ours_run(struct ours *ours, int set);
/* Queues a run of input 0 on a GPU's stream; packs: training packs and unpacks, too. moves: all
 * arrays but weights are elsewhere than in the last runs, as a caching allocator gives them. */
bool ours_queue(struct ours *ours, bool packs, bool moves, void *stream);
/* Copies an array of the device to the host; the caller frees it.  NULL: no memory. */
void *ours_download(const struct ours *ours, const void *from, size_t bytes);
void ours_free(struct ours *ours);

#endif /* BENCH_OURS_H */
