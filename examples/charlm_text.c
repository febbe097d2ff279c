/*
 * Files, alphabets and windows of text.
 */
#define _POSIX_C_SOURCE 200809L
#include "charlm_text.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t TEXT_MAX = (size_t)1 << 30; /* bytes */
enum { DEPTH_MAX = 16, PATH_BYTES = 4096 };     /* of folders; of a path */

/* What of the project is text to learn.  The last 5 % are held out: tests, which are C like most of
 * the rest. */
static const char *const source_folders[] = {"doc",   "include",  "common", "cpu",  "lib",
                                             "tools", "examples", "bench",  "tests"};
static const char *const source_endings[] = {".c", ".h", ".inc", ".cell", ".md", ".am", ".ac"};

static bool read_onto(struct text *text, FILE *file, const char *path, struct complaint *why)
{
    struct stat status;
    if (fstat(fileno(file), &status) || !S_ISREG(status.st_mode))
        return complain(why, "%.200s: not a regular file", path);
    if ((uint64_t)status.st_size > TEXT_MAX - text->size)
        return complain(why, "%.200s: the text has %zu bytes and %lld more, must be at most %zu",
                        path, text->size, (long long)status.st_size, TEXT_MAX);
    const size_t size = (size_t)status.st_size;
    if (!size)
        return true;
    unsigned char *larger = realloc(text->bytes, text->size + size);
    if (!larger)
        return complain(why, "%.200s: no memory for %zu bytes of text", path, text->size + size);
    text->bytes = larger;
    if (fread(text->bytes + text->size, 1, size, file) != size)
        return complain(why, "%.200s: cannot be read", path);
    text->size += size;
    return true;
}

bool text_add_file(struct text *text, const char *path, struct complaint *why)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return complain(why, "%.200s: %s", path, strerror(errno));
    const bool good = read_onto(text, file, path, why);
    fclose(file);
    text->files += good;
    return good;
}

static bool is_source(const char *name)
{
    const size_t length = strlen(name);
    for (size_t k = 0; k < sizeof source_endings / sizeof *source_endings; k++) {
        const size_t ending = strlen(source_endings[k]);
        if (length > ending && !strcmp(name + length - ending, source_endings[k]))
            return true;
    }
    return false;
}

static bool add_folder(struct text *text, const char *folder, int depth, struct complaint *why);

static bool add_entry(struct text *text, const char *path, int depth, struct complaint *why)
{
    struct stat status;
    if (lstat(path, &status)) /* gone since the folder was read */
        return true;
    if (S_ISDIR(status.st_mode))
        return depth == DEPTH_MAX || add_folder(text, path, depth + 1, why);
    return !S_ISREG(status.st_mode) || !is_source(path) || text_add_file(text, path, why);
}

static bool add_folder(struct text *text, const char *folder, int depth, struct complaint *why)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, NULL, alphasort);
    bool good = true;
    for (int k = 0; k < count; k++) {
        char path[PATH_BYTES];
        const bool fits =
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, entries[k]->d_name) < sizeof path;
        if (good && fits && entries[k]->d_name[0] != '.')
            good = add_entry(text, path, depth, why);
        free(entries[k]);
    }
    free(entries);
    return good;
}

bool text_add_sources(struct text *text, const char *folder, struct complaint *why)
{
    bool good = true;
    for (size_t k = 0; good && k < sizeof source_folders / sizeof *source_folders; k++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, source_folders[k]);
        good = add_folder(text, path, 0, why);
    }
    return good;
}

void text_free(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

struct alphabet alphabet_of(const struct text *text)
{
    bool seen[256] = {false};
    struct alphabet alphabet = {.size = 0};
    for (size_t k = 0; k < text->size; k++)
        seen[text->bytes[k]] = true;
    for (int byte = 0; byte < 256; byte++)
        if (seen[byte])
            alphabet.byte[alphabet.size++] = (unsigned char)byte;
    return alphabet;
}

void alphabet_print(const struct alphabet *alphabet, char digits[513])
{
    digits[0] = 0;
    for (int k = 0; k < alphabet->size; k++)
        snprintf(digits + 2 * k, 3, "%02x", alphabet->byte[k]);
}

bool alphabet_parse(struct alphabet *alphabet, const char *digits)
{
    const size_t length = strlen(digits);
    if (length < 2 || length > 512 || length % 2 || strspn(digits, "0123456789abcdef") != length)
        return false;
    alphabet->size = (int)(length / 2);
    for (int k = 0; k < alphabet->size; k++) {
        const char pair[3] = {digits[2 * k], digits[2 * k + 1], 0};
        alphabet->byte[k] = (unsigned char)strtoul(pair, NULL, 16);
        if (k && alphabet->byte[k] <= alphabet->byte[k - 1])
            return false;
    }
    return true;
}

int alphabet_place(const struct alphabet *alphabet, unsigned char byte)
{
    const unsigned char *place = memchr(alphabet->byte, byte, (size_t)alphabet->size);
    return place ? (int)(place - alphabet->byte) : -1;
}

size_t text_encode(struct text *text, const struct alphabet *alphabet)
{
    int place[256];
    size_t kept = 0;
    for (int byte = 0; byte < 256; byte++)
        place[byte] = alphabet_place(alphabet, (unsigned char)byte);
    for (size_t k = 0; k < text->size; k++)
        if (place[text->bytes[k]] >= 0)
            text->bytes[kept++] = (unsigned char)place[text->bytes[k]];
    const size_t left_out = text->size - kept;
    text->size = kept;
    return left_out;
}

double text_entropy(const unsigned char *bytes, size_t size)
{
    size_t count[256] = {0};
    double bits = 0;
    for (size_t k = 0; k < size; k++)
        count[bytes[k]]++;
    for (int byte = 0; byte < 256; byte++)
        if (count[byte])
            bits -= (double)count[byte] / (double)size * log2((double)count[byte] / (double)size);
    return bits;
}

struct streams streams_of(const unsigned char *text, size_t size, int batch, int steps)
{
    const size_t pairs = size ? size - 1 : 0; /* of a character and the one after it */
    struct streams streams = {.text = text, .batch = batch};
    if (pairs / (size_t)steps < (size_t)batch)
        streams.batch = pairs / (size_t)steps ? (int)(pairs / (size_t)steps) : 1;
    streams.stride = pairs / (size_t)streams.batch;
    return streams;
}

int streams_window(struct streams *streams, int steps, unsigned char *now, unsigned char *next)
{
    const size_t left = streams->stride - streams->at;
    const int T = left < (size_t)steps ? (int)left : steps;
    for (int n = 0; n < streams->batch; n++) {
        const unsigned char *from = streams->text + (size_t)n * streams->stride + streams->at;
        for (int t = 0; t < T; t++) {
            now[(size_t)t * (size_t)streams->batch + (size_t)n] = from[t];
            next[(size_t)t * (size_t)streams->batch + (size_t)n] = from[t + 1];
        }
    }
    streams->at += (size_t)T;
    return T;
}
