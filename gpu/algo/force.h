/*
 * The choices that ECORNN_FORCE takes from the planner of this backend
 * (doc/contributing/testing.md), as the planner asks for them.
 */
#ifndef ECO_GPU_ALGO_FORCE_H
#define ECO_GPU_ALGO_FORCE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/problem.h"
#include "common/util.h"
#include "gpu/gemm/emulated_f32/tiling.h"

/* Use of an alternative product: where it is predicted to be faster, nowhere, everywhere. */
enum eco_use {
    ECO_USE_FASTER,
    ECO_USE_NEVER,
    ECO_USE_ALWAYS,
    ECO_USE_ALWAYS_PRESPLIT /* also with prepared states of steps */
};
/* Padding of rows. */
enum eco_rows { ECO_ROWS_FASTER, ECO_ROWS_PADDED, ECO_ROWS_DENSE };

enum { ECO_NOT_FORCED = -1, ECO_GROUPED_NEVER = -1 };

/* ---- algorithm persistent: the value is an eco_persistent_index(), or: ----------------------- */

enum { ECO_FORCED_STEP = -1 }; /* backward steps are those of algorithm step */

static inline enum eco_forced_key eco_gpu_division_key(bool backward)
{
    return backward ? ECO_FORCE_BACKWARD : ECO_FORCE_FORWARD;
}
static inline bool eco_gpu_divides(const struct eco_problem *problem, bool backward)
{
    return eco_forced(problem, eco_gpu_division_key(backward), ECO_FORCED_STEP) >= 0;
}
/* The divisions that may be used, as bits. */
static inline uint64_t eco_gpu_divisions(const struct eco_problem *problem, bool backward)
{
    enum { ANY = -2 };
    const int32_t place = eco_forced(problem, eco_gpu_division_key(backward), ANY);
    return place == ANY ? UINT64_MAX : place == ECO_FORCED_STEP ? 0 : UINT64_C(1) << place;
}
/* Most groups of blocks; 0: no limit. */
static inline int32_t eco_gpu_groups(const struct eco_problem *problem, bool backward)
{
    const int32_t groups = eco_forced(problem, ECO_FORCE_GROUPS, 0);
    return backward ? eco_forced(problem, ECO_FORCE_GROUPS_BACK, groups) : groups;
}

/* ---- other values ---------------------------------------------------------------------------- */

/* ECO_FORCE_FUSED and ECO_FORCE_PROJECTION: the shapes of blocks that may be used, as bits; wide
 * ones follow the others. */
static inline unsigned eco_gpu_shapes(const struct eco_problem *problem, enum eco_forced_key key)
{
    const int32_t shape = eco_forced(problem, key, ECO_NOT_FORCED);
    return shape < 0 ? UINT_MAX : 1u << shape;
}
static inline enum eco_use eco_gpu_use(const struct eco_problem *problem, enum eco_forced_key key)
{
    return (enum eco_use)(1 + eco_forced(problem, key, ECO_NOT_FORCED));
}
/* Large products in F16 follow emulated F32, unless they are forced. */
static inline enum eco_use eco_gpu_use_scaled_f16(const struct eco_problem *problem)
{
    const int32_t emulated = eco_forced(problem, ECO_FORCE_EMULATED_F32, ECO_NOT_FORCED);
    return (enum eco_use)(1 + eco_forced(problem, ECO_FORCE_SCALED_F16, emulated));
}
static inline enum eco_rows eco_gpu_rows(const struct eco_problem *problem)
{
    return (enum eco_rows)(1 + eco_forced(problem, ECO_FORCE_ROWS, ECO_NOT_FORCED));
}
/* Tiles of products of steps with R prepared. */
static inline struct eco_emulated_choices eco_gpu_step_tiles(const struct eco_problem *problem)
{
    const int32_t tile = eco_forced(problem, ECO_FORCE_STEP_TILE, ECO_NOT_FORCED),
                  width = tile / ECO_EMULATED_SLICES, height = width / ECO_EMULATED_WIDTHS;
    if (tile < 0)
        return ECO_EMULATED_ANY(UINT_MAX);
    return (struct eco_emulated_choices){
        1u << height / ECO_EMULATED_HEIGHTS, 1u << height % ECO_EMULATED_HEIGHTS,
        1u << width % ECO_EMULATED_WIDTHS, 1u << tile % ECO_EMULATED_SLICES, true};
}

#endif /* ECO_GPU_ALGO_FORCE_H */
