/*
 * One unit of one row in a stage of a cell's text: what the stage stores for means, and the means
 * of earlier stages that it reads. The text runs to the end of its stage, or beyond it with dual
 * numbers (dual.cuh).
 */
#ifndef ECO_GPU_PERSISTENT_MEANS_ELEMENT_CUH
#define ECO_GPU_PERSISTENT_MEANS_ELEMENT_CUH

#include "gpu/persistent/dual.cuh"
#include "gpu/persistent/means_of_cell.cuh"

/* One unit of one row: what its stages store for means, and the means of its row. */
template <class CELL> struct mean_element : element_of<CELL> {
    float summand[means_of::room], slope[means_of::room], mean[means_of::room];
    bool stored[CELL::saves > 0 ? CELL::saves : 1]; /* saved values stored by this stage */
#if PERSISTENT_BACKWARD
    narrow dvector[ECO_MAX_WRITTEN];
    bool has_dvector[ECO_MAX_WRITTEN]; /* of this stage */
#endif
};

template <class CELL> ECO_DEVICE void store_mean(struct mean_element<CELL> *at, int m, vec v)
{
    at->summand[m] = v;
}
/* Vectors stay in registers, because an exchange would make the compiler load them again. */
template <class CELL> ECO_DEVICE vec load_vector(struct mean_element<CELL> *at, int k)
{
    const real *const vector = (const real *)at->job->vector + at->unit;
    const uint64_t bytes = (uint64_t)(uint32_t)at->call->hidden * (uint32_t)(k * sizeof *vector);
    return load_constant((const float *)((const char *)vector + bytes));
}
template <class CELL, int M>
ECO_DEVICE vec load_mean_of(struct mean_element<CELL> *at, struct count<M>)
{
    return at->mean[M];
}

/* The element beyond the end of stage STAGE, with c for the means of that stage. */
template <class CELL, int STAGE> struct element_ahead {
    struct mean_element<CELL> *at;
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

#define CELLS_CASE(k, name) name(at);
#define CELLS_CASES(way)                                                                           \
    if constexpr (STAGE == 0) {                                                                    \
        CELLS_##way##_0(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 1) {                                                             \
        CELLS_##way##_1(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 2) {                                                             \
        CELLS_##way##_2(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 3) {                                                             \
        CELLS_##way##_3(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 4) {                                                             \
        CELLS_##way##_4(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 5) {                                                             \
        CELLS_##way##_5(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 6) {                                                             \
        CELLS_##way##_6(CELLS_CASE)                                                                \
    } else {                                                                                       \
        CELLS_##way##_7(CELLS_CASE)                                                                \
    }
template <int STAGE, class ELEMENT> ECO_DEVICE void run_text(ELEMENT *at)
{
    CELLS_CASES(STAGE)
}
template <int STAGE, class ELEMENT> ECO_DEVICE void run_ahead(ELEMENT *at)
{
    CELLS_CASES(AHEAD)
}
#undef CELLS_CASES
#undef CELLS_CASE

#endif /* ECO_GPU_PERSISTENT_MEANS_ELEMENT_CUH */
