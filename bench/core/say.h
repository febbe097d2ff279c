/*
 * What a program says on standard error.
 */
#ifndef BENCH_SAY_H
#define BENCH_SAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#if defined(__GNUC__)
#define SAY_FORMAT __attribute__((format(printf, 1, 2)))
#else
#define SAY_FORMAT
#endif

/* Of the program, which defines it. */
extern const char program_name[];

/* Bytes of the character in UTF-8 at text, and its code; 0: it is none. */
size_t shown_character(const char *text, size_t bytes, unsigned long *code);
/* Would it move the cursor, begin an escape, or turn the direction of writing? */
bool controls_terminal(unsigned long code);
/* Text out of a file, which may hold anything: controls but line ends, and what is no character, as
 * "\x9B". */
void print_shown(FILE *file, const char *text, size_t bytes);
/* "PROGRAM: " and a line, shown so; false: return say(...). */
bool say(const char *format, ...) SAY_FORMAT;

#endif /* BENCH_SAY_H */
