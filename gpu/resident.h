/*
 * Algorithm resident on the host's side: the division into blocks and the launches.
 */
#ifndef ECO_GPU_RESIDENT_H
#define ECO_GPU_RESIDENT_H

#include "gpu/gpu.h"
#include "gpu/resident_call.h"

/* What the division depends on. */
struct eco_resident_need {
    bool backward;
    int32_t hidden, rows, steps;
    int32_t width;                        /* of what is exchanged, for a batch row */
    int32_t jobs;                         /* of one launch */
    int32_t recurrent, accs, states;      /* accumulators with R, all of them, states */
    int32_t fields;                       /* that a step back may read */
    int32_t operand;                      /* bytes of an operand of products */
    bool split;                           /* products of full float accuracy, four for each */
    int32_t blocks[ECO_RESIDENT_SPREADS]; /* that run at once, in clusters of 1, 2, 4 */
    size_t block_bytes;                   /* of shared memory */
};

/* What a problem needs, for so many jobs at once. */
struct eco_resident_need eco_resident_need(const struct eco_problem *problem,
                                           const struct eco_caps *caps, bool backward, int32_t rows,
                                           int32_t steps, int32_t jobs);
/* Microseconds of a step by prediction; 0: it does not fit. */
double eco_resident_shape(const struct eco_resident_need *need, struct eco_resident_shape *shape);

/* The division of a plan's runs, in words. */
void eco_resident_describe(const struct ecornn_plan *plan, struct eco_text *text);

/* Is there a kernel for this cell and type? */
bool eco_resident_has(const struct eco_problem *problem, bool backward);

/* Once per device: its kernels get all the shared memory there is; caps.block_bytes becomes 0 where
 * this module has none for it. */
ecornn_status eco_resident_load(struct ecornn_device *device);

/* Where the arrays of one op lie; what is the same for all ops is set in the call. */
struct eco_resident_job eco_resident_job(const struct eco_gpu_run *run, const struct eco_op *op,
                                         struct eco_resident_call *call);

/* May a step back copy all that it reads in words of 4 bytes, also what is the caller's? */
bool eco_resident_words(const struct eco_gpu_run *run);
/* What was exchanged before a launch of n jobs. */
void eco_resident_forget(struct eco_gpu_run *run, const struct eco_resident_call *call,
                         struct eco_resident_need need, int n);

/* Queues ops of one level, all ECO_STEP, or all ECO_D_STEP; ECO_RESIDENT_JOBS at most. */
void eco_resident_run(struct eco_gpu_run *run, const struct eco_op *ops, int n);

#endif /* ECO_GPU_RESIDENT_H */
