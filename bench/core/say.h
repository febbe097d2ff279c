/*
 * What a program says on standard error.
 */
#ifndef BENCH_SAY_H
#define BENCH_SAY_H

#include <stdbool.h>

#if defined(__GNUC__)
#define SAY_FORMAT __attribute__((format(printf, 1, 2)))
#else
#define SAY_FORMAT
#endif

/* Of the program, which defines it. */
extern const char program_name[];

/* "PROGRAM: " and a line; false: return say(...). */
bool say(const char *format, ...) SAY_FORMAT;

#endif /* BENCH_SAY_H */
