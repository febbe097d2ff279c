/*
 * What a division of algorithm persistent depends on, and the divisions that a plan has chosen.
 */
#ifndef ECO_GPU_PERSISTENT_NEED_H
#define ECO_GPU_PERSISTENT_NEED_H

#include "gpu/kernels.h"

struct eco_gpu_rates;

/* The division of runs whose rows are more than those of the choice before it, and at most `rows`.
 * Example: {{16, DIRECT, true}, {64, MMA, false}}: up to 16 rows take the first kernel. */
struct eco_persistent_choice {
    int32_t rows;
    int8_t place; /* eco_persistent_index() of the kernel; -1: none fits */
    bool batched; /* one launch of these jobs is as fast as two launches of half of them */
};
enum { ECO_PERSISTENT_CHOICES = 32 };
struct eco_persistent_choices {
    int n;
    struct eco_persistent_choice of[ECO_PERSISTENT_CHOICES];
};

/* What the division depends on. */
struct eco_persistent_need {
    bool backward;
    uint64_t shapes; /* available kernels: bits eco_persistent_index() */
    int32_t hidden, rows, steps;
    int32_t jobs;                           /* (layer, direction)s of one launch */
    int32_t groups;                         /* limit; 0: none */
    int32_t products;                       /* of a step, one after the other */
    int32_t width[ECO_PERSISTENT_PRODUCTS]; /* numbers that each product gathers for a batch row */
    int32_t recurrent[ECO_PERSISTENT_PRODUCTS]; /* accumulators that each product adds to */
    int32_t accs, states;                       /* all accumulators */
    int32_t means, sums, hand_overs;            /* means of a row; sums of a block; exchanges */
    int32_t fields;                             /* arrays that a backward step may read */
    int32_t operand;                            /* bytes of an operand */
    int32_t instructions;                       /* matrix instructions for a k block */
    bool scaled;                                /* scale blocks have scales */
    bool restarts;                              /* rows may begin again */
    int32_t blocks[ECO_PERSISTENT_CLUSTERS];    /* that run at once, in clusters of 1, 2, 4 */
    int32_t cluster_launch;                     /* see eco_caps.gpu */
    int32_t most_groups[8];                     /* in a partition, of k blocks; [k - 1] */
    size_t block_bytes;                         /* shared memory of a block */
    const struct eco_gpu_rates *rates;          /* clocks of the parts of a step */
};

/* Numbers of each unit that product o gathers. */
static inline int32_t eco_persistent_runs(const struct eco_persistent_need *need, int o)
{
    return need->backward ? need->recurrent[o] : 1;
}

/* Index of a kernel by mainloop, cluster size and units of a block. */
static inline int eco_persistent_index(const struct eco_persistent_shape *shape)
{
    return ECO_PERSISTENT_INDEX(shape->unit_shift, shape->cluster_log2, shape->mainloop);
}

static inline struct eco_persistent_shape eco_persistent_at(int place)
{
    return (struct eco_persistent_shape){.unit_shift = eco_persistent_shift_of(place),
                                         .cluster_log2 = eco_persistent_cluster_log2_of(place),
                                         .mainloop = eco_persistent_mainloop_of(place)};
}

#endif /* ECO_GPU_PERSISTENT_NEED_H */
