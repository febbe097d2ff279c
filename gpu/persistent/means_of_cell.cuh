/*
 * What is known of a cell's means when its kernel is compiled: their number, the stage of each, and
 * the order in which a block sends its sums.
 */
#ifndef ECO_GPU_PERSISTENT_MEANS_OF_CELL_CUH
#define ECO_GPU_PERSISTENT_MEANS_OF_CELL_CUH

#include "gpu/persistent/block.cuh"

/* In the text of a cell, the index of a mean is a compile-time constant. */
#define load_mean(at, m) load_mean_of(at, count<m>())
#include "gpu/cell/templates.cuh"

/* Cells that define nothing have no means. */
#ifndef CELLS_STAGES
#define CELLS_STAGES      1
#define CELLS_MEANS       0
#define CELLS_MEAN_STAGES 0
#define CELLS_MEAN_WITH   -1
#define CELLS_MEAN_CURVES 0
#define CELLS_AHEAD(CALL)
#endif

/* From the cell compiler: the number of means; the stage of each; the mean on which it depends, or
 * -1, and the coefficient of that one's square. */
struct means_of {
    enum { stages = CELLS_STAGES, means = CELLS_MEANS, room = means > 0 ? means : 1 };
    static __device__ constexpr int stage(int m)
    {
        constexpr int of[] = {CELLS_MEAN_STAGES};
        return of[m];
    }
    static __device__ constexpr int with(int m)
    {
        constexpr int of[] = {CELLS_MEAN_WITH};
        return of[m];
    }
    static __device__ constexpr float curve(int m)
    {
        constexpr double of[] = {CELLS_MEAN_CURVES};
        return (float)of[m];
    }
    /* Does another mean depend on it? */
    static __device__ constexpr bool leads(int mean)
    {
        bool any = false;
        for (int m = 0; m < means; m++)
            any = any || with(m) == mean;
        return any;
    }
    static __device__ constexpr bool joins(int of_stage)
    {
        bool any = false;
        for (int m = 0; m < means; m++)
            any = any || (stage(m) == of_stage && with(m) >= 0);
        return any;
    }

    /* The sums that a block sends for a row, by stage: one for each mean, or two for a mean and its
     * dependent mean, in the order of means; then c for each. */
    static __device__ constexpr int sums(int of_stage)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += stage(m) != of_stage ? 0 : with(m) < 0 ? 1 : 2;
        return n;
    }
    static __device__ constexpr int sent(int before_stage)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += stage(m) >= before_stage ? 0 : with(m) >= 0 || leads(m) ? 2 : 1;
        return n;
    }
    static __device__ constexpr int sum(int mean)
    {
        int n = 0;
        for (int m = 0; m < mean; m++)
            n += stage(m) != stage(mean) ? 0 : with(m) < 0 ? 1 : 2;
        return n;
    }
    static __device__ constexpr int center(int mean)
    {
        int n = sums(stage(mean));
        for (int m = 0; m < mean; m++)
            n += stage(m) == stage(mean) && leads(m);
        return n;
    }

    /* Items of a stage: a mean alone, or with its dependent mean. */
    static __device__ constexpr int items(int of_stage)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += stage(m) == of_stage && !leads(m);
        return n;
    }
    static __device__ constexpr int item(int of_stage, int k)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            if (stage(m) == of_stage && !leads(m) && n++ == k)
                return m;
        return 0;
    }
};

/* Calls what(count<M>()) for M up to END, as compile-time constants. */
template <int M, int END, class WHAT> ECO_DEVICE void for_each_of(WHAT what)
{
    if constexpr (M < END) {
        what(count<M>());
        for_each_of<M + 1, END>(what);
    }
}

#endif /* ECO_GPU_PERSISTENT_MEANS_OF_CELL_CUH */
