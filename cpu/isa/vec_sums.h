/*
 * Sums of the lanes of several vectors at once, in the same order for every set: a lane is added to
 * the one half a group of 16 further on, then to the one a quarter further on, and so on.
 */
#ifndef ECO_VEC_SUMS_H
#define ECO_VEC_SUMS_H

/* Inline in every copy of a loop; but the checks of a sanitizer in each would take minutes to
 * compile.
 */
#if defined(__SANITIZE_ADDRESS__)
#define COPIED static inline
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define COPIED static inline
#endif
#endif
#ifndef COPIED
#define COPIED ALWAYS_INLINE
#endif

enum { VEC_GROUP = 16, VEC_GROUP_VECS = VEC_GROUP / VEC_LANES };

/* Lane i is lanes i and i + h of a, or where i has the bit h, lanes i - h and i of b. */
#ifndef VEC_HAS_HALVES
#if defined(__clang__) || __GNUC__ >= 12
#define VEC_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define VEC_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (veci){i, j, k, l})
#endif
ALWAYS_INLINE vec v_halves(vec a, vec b, int h)
{
    return h == 2 ? VEC_SHUFFLE(a, b, 0, 1, 6, 7) + VEC_SHUFFLE(a, b, 2, 3, 4, 5)
                  : VEC_SHUFFLE(a, b, 0, 5, 2, 7) + VEC_SHUFFLE(a, b, 1, 4, 3, 6);
}
#endif

/* Adds the vectors of a group, down to one vector. */
COPIED vec v_fold(vec part[VEC_GROUP_VECS])
{
#pragma GCC unroll 16
    for (int k = 0; k < VEC_GROUP_VECS / 2; k++)
        part[k] = v_add(part[k], part[k + VEC_GROUP_VECS / 2]);
#pragma GCC unroll 16
    for (int k = 0; k < VEC_GROUP_VECS / 4; k++)
        part[k] = v_add(part[k], part[k + VEC_GROUP_VECS / 4]);
#pragma GCC unroll 16
    for (int k = 0; k < VEC_GROUP_VECS / 8; k++)
        part[k] = v_add(part[k], part[k + VEC_GROUP_VECS / 8]);
    return VEC_GROUP_VECS > 8 ? v_add(part[0], part[1 % VEC_GROUP_VECS]) : part[0];
}

COPIED void v_halve_kept(vec *kept, int h)
{
    if (VEC_LANES > h)
#pragma GCC unroll 4
        for (int r = 0; r < h; r++)
            kept[r] = v_halves(kept[r], kept[r + h], h);
}

/* to[i] += the sum of the lanes of row i, which was folded; with 16 lanes, kept[i] is rows i and i
 * + 8 halved, i < 8. */
COPIED void v_add_kept(real to[VEC_GROUP], vec kept[VEC_GROUP])
{
#pragma GCC unroll 16
    for (int k = 0; k < VEC_GROUP; k += VEC_LANES) {
        v_halve_kept(kept + k, 4);
        v_halve_kept(kept + k, 2);
        v_halve_kept(kept + k, 1);
        v_store(to + k, v_add(v_load(to + k), kept[k]));
    }
}

/* The sum of all lanes of a group's vectors, which are overwritten. */
ALWAYS_INLINE real v_total(vec part[VEC_GROUP_VECS])
{
    real lane[VEC_LANES];
    vec sum = v_fold(part);
#pragma GCC unroll 4
    for (int h = 8; h > 0; h /= 2)
        if (h < VEC_LANES)
            sum = v_halves(sum, sum, h);
    v_store(lane, sum);
    return lane[0];
}

#endif /* ECO_VEC_SUMS_H */
