/*
 * A number that tells whether blocks of the caller's memory changed.  Packed weights are a copy of
 * parameters, and a framework does not always say when it wrote to those.
 */
#include "ecornn.h"

#include <string.h>

#include "common/util.h"

enum {
    WHOLE = 16 * 1024, /* bytes of a block that is read from end to end: some 1 us       */
    SAMPLES = 16,      /* words of a larger one: a change of all its values changes some */
    LANES = 4          /* sums that do not wait for each other                           */
};

static const uint64_t odd = 0x9e3779b97f4a7c15u; /* 2^64 over the golden ratio */

static uint64_t stir(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * odd;
    return sum ^ sum >> 29;
}

static uint64_t word_at(const unsigned char *block, size_t at)
{
    uint64_t word;
    memcpy(&word, block + at, sizeof word);
    return word;
}

static uint64_t of_all(const unsigned char *block, size_t bytes)
{
    uint64_t sum[LANES] = {bytes, 1, 2, 3};
    size_t at = 0;
    for (; at + LANES * sizeof *sum <= bytes; at += LANES * sizeof *sum)
        for (size_t lane = 0; lane < LANES; lane++)
            sum[lane] = stir(sum[lane], word_at(block, at + lane * sizeof *sum));
    for (; at < bytes; at++)
        sum[0] = stir(sum[0], block[at]);
    return stir(stir(sum[0], sum[1]), stir(sum[2], sum[3]));
}

/* At places without a period, so that no row or column is left out by its number. */
static uint64_t of_samples(const unsigned char *block, size_t bytes)
{
    const size_t words = bytes / sizeof(uint64_t), part = words / SAMPLES;
    uint64_t sum = bytes;
    for (size_t k = 0; k < SAMPLES; k++) {
        const size_t word = k * part + (size_t)(k * odd >> 32) % part;
        sum = stir(sum, word_at(block, word * sizeof word));
    }
    return stir(sum, word_at(block, bytes - sizeof(uint64_t)));
}

uint64_t ecornn_fingerprint(const void *const *blocks, const size_t *bytes, int count)
{
    if (!blocks || !bytes || count <= 0) {
        eco_fail(ECORNN_BAD_ARGUMENT, "blocks is %p, bytes %p and count %d: one is nothing",
                 (const void *)blocks, (const void *)bytes, count);
        return 0;
    }
    uint64_t sum = (uint64_t)count;
    for (int k = 0; k < count; k++)
        if (blocks[k])
            sum = stir(sum, bytes[k] <= WHOLE ? of_all(blocks[k], bytes[k])
                                              : of_samples(blocks[k], bytes[k]));
    return sum;
}
