/*
 * Random numbers by coordinates, for dropout and bernoulli().  Plain C with static functions only,
 * so that all backends, GPU compilers included, draw the same bits.
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
 */
#ifndef ECO_NUMBER_H
#define ECO_NUMBER_H

#include <stdint.h>

#ifndef ECO_DEVICE_FUNCTION
#define ECO_DEVICE_FUNCTION static inline
#endif

/* The coordinates of a number.  purpose: 0 for dropout between layers, 1 + k for the cell's k-th
 * bernoulli(); t is 0 if that is drawn once for all steps. */
struct eco_coordinates {
    uint64_t seed;
    uint32_t layer, direction, purpose; /* direction 0 for dropout */
    uint32_t t, n;
};

/* Set in the index of a bernoulli() that is drawn once. */
enum { ECO_DRAW_ONCE = 128 };

/* Purpose and t of the bernoulli() with this index. */
ECO_DEVICE_FUNCTION uint32_t eco_draw_purpose(int index)
{
    return 1u + ((uint32_t)index & (ECO_DRAW_ONCE - 1));
}

ECO_DEVICE_FUNCTION uint32_t eco_draw_step(int index, uint32_t t)
{
    return index & ECO_DRAW_ONCE ? 0 : t;
}

/* The four words for units 4*quad .. 4*quad+3. */
ECO_DEVICE_FUNCTION void eco_random_quad(const struct eco_coordinates *at, uint32_t quad,
                                         uint32_t word[4])
{
    uint32_t c0 = quad, c1 = at->n, c2 = at->t;
    uint32_t c3 = (at->layer << 9) | (at->direction << 8) | at->purpose;
    uint32_t k0 = (uint32_t)at->seed, k1 = (uint32_t)(at->seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

/* A word is below the threshold with the given probability, 0 <= p <= 1 (p = 1: always). */
ECO_DEVICE_FUNCTION uint64_t eco_random_threshold(double probability)
{
    return (uint64_t)(probability * 4294967296.0);
}

#endif /* ECO_NUMBER_H */
