/*
 * Seeds of the parts of a run: of its models, and of the layers of a net.
 */
#ifndef ECO_SEED_H
#define ECO_SEED_H

#include "common/number.h"

/* Whose seed is derived: no purpose of a draw. */
enum eco_seed_part { ECO_SEED_MODEL = 254, ECO_SEED_LAYER = 255 };

/* The seed of model or net layer k of a run with this one: the run's own for the first, and a hash
 * for the others, so that runs of neighbouring seeds share no draws. */
static inline uint64_t eco_seed_of(uint64_t seed, enum eco_seed_part part, uint32_t k)
{
    const struct eco_coordinates at = {seed, 0, 0, (uint32_t)part, 0, k};
    uint32_t word[4];
    eco_random_quad(&at, 0, word);
    return k == 0 ? seed : (uint64_t)word[1] << 32 | word[0];
}

#endif /* ECO_SEED_H */
