/*
 * What the programs ask of the operating system besides the C library, as common/os.h has it for
 * the library.
 */
#ifndef BENCH_SYSTEM_H
#define BENCH_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

double system_now(void); /* seconds since some moment */
/* The mean number of busy processors in the last minute; 0: unknown. */
double system_load(void);
size_t system_cache_bytes(void); /* of the second level; 0: unknown */

/* Sets a variable of the environment, or, with NULL, removes it. */
void system_set(const char *name, const char *value);
/* The path of the user's file, where the library looks for it; false: there is none. */
bool system_user_file(char *path, size_t size, int *length);
/* Locks the folder of this file, or, of a link, the folder of the file that it leads to.  -1:
 * errno.
 */
intptr_t system_lock_folder(const char *path);
void system_unlock(intptr_t lock);
/* If the caller closed standard output, a file that is opened must not take its place: printed
 * lines would go there.  Printing to this one fails. */
void system_fill_standard_files(void);
/* POSIX's getline; the caller frees the line. */
bool system_read_line(char **line, size_t *room, FILE *file);

/* Runs this program again, with these words, and waits; false: it failed. */
bool system_run_again(const char *const *words);

/* A process that reads lines and answers them. */
struct system_child {
    FILE *to, *from;
    long id;
};
/* The child is a program of PATH, or, where words is NULL, goes on with serve(). */
bool system_child_start(struct system_child *child, const char *const *words, void (*serve)(void));
void system_child_end(struct system_child *child);

#endif /* BENCH_SYSTEM_H */
