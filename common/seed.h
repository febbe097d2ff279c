/*
 * Seeds derived from the seed of a run: for its models, and for the layers and other pieces of a
 * net.
 */
#ifndef ECO_SEED_H
#define ECO_SEED_H

#include "common/number.h"

/* Not used as a purpose of draws. */
enum eco_seed_part { ECO_SEED_PIECE = 253, ECO_SEED_MODEL = 254, ECO_SEED_LAYER = 255 };

/* The seed of model k, net layer k or net piece k: the run's own for k = 0, else a hash, so that
 * runs with neighbouring seeds share no draws. */
static inline uint64_t eco_seed_of(uint64_t seed, enum eco_seed_part part, uint32_t k)
{
    const struct eco_coordinates at = {seed, 0, 0, (uint32_t)part, 0, k};
    uint32_t word[4];
    eco_random_quad(&at, 0, word);
    return k == 0 ? seed : (uint64_t)word[1] << 32 | word[0];
}

#endif /* ECO_SEED_H */
