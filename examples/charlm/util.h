/*
 * Small tools of the charlm example: an error text that a failing function fills, random numbers,
 * a checksum, a clock.  Knows nothing of models or files.
 */
#ifndef CHARLM_UTIL_H
#define CHARLM_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CHARLM_PRINTF(text, rest) __attribute__((format(printf, text, rest)))
#else
#define CHARLM_PRINTF(text, rest)
#endif

/* Why something failed, in one line, for people. */
struct complaint {
    char text[400];
};
/* Sets the text and returns false: return complain(why, "...", ...).  Bytes that a terminal would
 * act on are shown as '?', so that names out of a hostile file do no harm. */
bool complain(struct complaint *why, const char *format, ...) CHARLM_PRINTF(2, 3);

/* Writes "NAME is VALUE, must be LOW to HIGH" unless text is a whole number in that range. */
bool number_parse(long *number, const char *name, const char *text, const long limits[2],
                  struct complaint *why);

/* SplitMix64 (Steele, Lea and Flood 2014): 64 random bits; uniform: in [0,1). */
uint64_t random_bits(uint64_t *state);
float random_uniform(uint64_t *state);

/* CRC-32 of bytes (that of zlib and gzip), going on from that of the bytes before; of none: 0. */
uint32_t crc32_add(uint32_t crc, const void *bytes, size_t size);

/* Seconds from an arbitrary moment on; never goes back. */
double clock_seconds(void);

#endif /* CHARLM_UTIL_H */
