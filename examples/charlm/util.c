/*
 * Error text, numbers from text, random numbers, the checksum and the clock of the charlm example.
 */
#define _POSIX_C_SOURCE 200809L
#include "util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

bool complain(struct complaint *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    for (char *c = why->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return false;
}

bool number_parse(long *number, const char *name, const char *text, const long limits[2],
                  struct complaint *why)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < limits[0] || value > limits[1])
        return complain(why, "%s is %.60s, must be %ld to %ld", name, text, limits[0], limits[1]);
    *number = value;
    return true;
}

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

float random_uniform(uint64_t *state)
{
    return (float)(random_bits(state) >> 40) * 0x1p-24f;
}

uint32_t crc32_add(uint32_t crc, const void *bytes, size_t size)
{
    uint32_t table[256];
    for (uint32_t k = 0; k < 256; k++) {
        table[k] = k;
        for (int bit = 0; bit < 8; bit++)
            table[k] = table[k] >> 1 ^ (table[k] & 1 ? UINT32_C(0xedb88320) : 0);
    }
    crc = ~crc;
    for (const unsigned char *at = bytes, *end = at + size; at < end; at++)
        crc = crc >> 8 ^ table[(crc ^ *at) & 0xff];
    return ~crc;
}

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
