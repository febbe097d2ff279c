/*
 * Errors, memory, random numbers and the clock of the charlm example.
 */
#define _POSIX_C_SOURCE 200809L
#include "charlm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const size_t FILE_MAX = (size_t)1 << 31; /* bytes */

void die(int status, const char *format, ...)
{
    char text[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "charlm: %s\n", text);
    exit(status);
}

const ecornn_cell *find_cell(const char *name)
{
    const char *other;
    ecornn_cell *cell = NULL;
    for (int k = 0; !cell && ecornn_cell_name(k, &other) == ECORNN_OK; k++)
        if (strcmp(other, name) == 0)
            check(ecornn_cell_parse(&cell, name));
    return cell;
}

void check(ecornn_status status)
{
    if (status != ECORNN_OK)
        die(1, "%s: %s", ecornn_status_name(status), ecornn_error_detail());
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die(1, "no memory for %zu elements of %zu bytes", count, size);
    return memory;
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

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

char *file_load(const char *path, size_t *bytes)
{
    struct stat status;
    FILE *file = fopen(path, "rb");
    if (!file)
        die(1, "%.200s: %s", path, strerror(errno));
    if (fstat(fileno(file), &status) || !S_ISREG(status.st_mode))
        die(1, "%.200s: not a regular file", path);
    if ((uint64_t)status.st_size > FILE_MAX)
        die(1, "%.200s: %lld bytes, must be at most %zu", path, (long long)status.st_size,
            FILE_MAX);
    *bytes = (size_t)status.st_size;
    char *content = allocate(*bytes + 1, 1);
    if (fread(content, 1, *bytes, file) != *bytes)
        die(1, "%.200s: cannot be read", path);
    fclose(file);
    return content;
}

char *cell_load(const char *word, size_t *bytes)
{
    const char *name, *text;
    struct stat status;
    for (int k = 0;
         (stat(word, &status) || S_ISDIR(status.st_mode)) && !ecornn_cell_library(k, &name, &text);
         k++)
        if (strcmp(name, word) == 0) {
            *bytes = strlen(text);
            return memcpy(allocate(*bytes + 1, 1), text, *bytes);
        }
    return file_load(word, bytes);
}
