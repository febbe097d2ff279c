/*
 * Messages on standard error.
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

/* Each program defines its name. */
extern const char program_name[];

/* The number of bytes of the UTF-8 character at text, and its code; 0: there is no character. */
size_t shown_character(const char *text, size_t bytes, unsigned long *code);
/* Whether the character moves the cursor, begins an escape or changes the direction of writing. */
bool controls_terminal(unsigned long code);
/* Prints text from a file, which may hold anything: invalid bytes and control characters, except
 * line ends, become "\x9B". */
void print_shown(FILE *file, const char *text, size_t bytes);
/* Prints "PROGRAM: " and a line in this way.  Returns false, for "return say(...)". */
bool say(const char *format, ...) SAY_FORMAT;

#endif /* BENCH_SAY_H */
