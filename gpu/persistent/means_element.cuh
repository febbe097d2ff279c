/*
 * One unit of one row in a stage of a cell's text: what the stage stores for means, and the means
 * of earlier stages that it reads. The text runs to the end of its stage, or beyond it with dual
 * numbers (dual.cuh).
 */
#ifndef ECO_GPU_PERSISTENT_MEANS_ELEMENT_CUH
#define ECO_GPU_PERSISTENT_MEANS_ELEMENT_CUH

#include "gpu/persistent/dual.cuh"
#include "gpu/persistent/elements.cuh"

/* Part of an element: what its stages store for means, and the means of its row. */
struct row_means {
    float summand[means_of::room], slope[means_of::room], mean[means_of::room];
};

template <class CELL> ECO_DEVICE void store_mean(struct element_of<CELL> *at, int m, vec v)
{
    at->summand[m] = v;
}
template <class CELL, int M>
ECO_DEVICE vec load_mean_of(struct element_of<CELL> *at, struct count<M>)
{
    return at->mean[M];
}

/* The element beyond the end of stage STAGE, with c for the means of that stage. */
template <class CELL, int STAGE> struct element_ahead {
    struct element_of<CELL> *at;
    float center[means_of::room];
};

template <class CELL, int STAGE>
ECO_DEVICE vec load_acc(struct element_ahead<CELL, STAGE> *a, int i)
{
    return load_acc(a->at, i);
}
template <class CELL, int STAGE>
ECO_DEVICE vec load_state(struct element_ahead<CELL, STAGE> *a, int s)
{
    return load_state(a->at, s);
}
template <class CELL, int STAGE>
ECO_DEVICE vec load_vector(struct element_ahead<CELL, STAGE> *a, int k)
{
    return load_vector(a->at, k);
}
template <class CELL, int STAGE>
ECO_DEVICE vec v_bernoulli(struct element_ahead<CELL, STAGE> *a, int which, double probability)
{
    return v_bernoulli(a->at, which, probability);
}
template <class CELL, int STAGE, int M>
ECO_DEVICE auto load_mean_of(struct element_ahead<CELL, STAGE> *a, struct count<M>)
{
    if constexpr (means_of::stage(M) == STAGE && means_of::with(M) < 0)
        return dual{a->center[M], 1};
    else
        return a->at->mean[M];
}
template <class CELL, int STAGE>
ECO_DEVICE void store_mean(struct element_ahead<CELL, STAGE> *a, int m, dual v)
{
    a->at->summand[m] = v.x;
    a->at->slope[m] = v.d;
}
template <class CELL, int STAGE, class VALUE>
ECO_DEVICE void store_save(struct element_ahead<CELL, STAGE> *a, int i, VALUE v)
{
}

#if PERSISTENT_BACKWARD
#define CELLS_TEXT CELLS_backward
#else
#define CELLS_TEXT CELLS_forward
#endif
#define CELLS_CASE(cell, stage, name)                                                              \
    if constexpr (NUMBER == cell && STAGE == stage)                                                \
        name(at);
template <int NUMBER, int STAGE, class ELEMENT> ECO_DEVICE void run_text(ELEMENT *at)
{
    CELLS_TEXT(CELLS_CASE)
}
template <int NUMBER, int STAGE, class ELEMENT> ECO_DEVICE void run_ahead(ELEMENT *at)
{
    CELLS_AHEAD(CELLS_CASE)
}
#undef CELLS_CASE

#endif /* ECO_GPU_PERSISTENT_MEANS_ELEMENT_CUH */
