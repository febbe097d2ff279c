/*
 * Files, alphabets and windows of text.
 */
#define _POSIX_C_SOURCE 200809L
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t TEXT_MAX = (size_t)1 << 30; /* bytes */
enum { HELD_OUT = 20 };                         /* one byte in so many */
enum { DEPTH_MAX = 16, PATH_BYTES = 4096 };     /* of folders; of a path */

/* What of the project is text to learn. */
static const char *const source_folders[] = {"doc",   "include",  "common", "cpu",  "lib",
                                             "tools", "examples", "bench",  "tests"};
static const char *const source_endings[] = {".c", ".h", ".inc", ".cell", ".md", ".am", ".ac"};
static const char *const generated[] = {"/cells.inc", "/builtin.inc", "/version.h"};

/* All of an open file; NULL: there is a reason. */
static char *load(FILE *file, size_t *size, struct complaint *why)
{
    struct stat status;
    if (fstat(fileno(file), &status) || !S_ISREG(status.st_mode)) {
        complain(why, "not a regular file");
        return NULL;
    }
    if ((uint64_t)status.st_size > TEXT_MAX) {
        complain(why, "%lld bytes, must be at most %zu", (long long)status.st_size, TEXT_MAX);
        return NULL;
    }
    *size = (size_t)status.st_size;
    char *bytes = calloc(*size + 1, 1);
    if (!bytes || fread(bytes, 1, *size, file) != *size) {
        complain(why, bytes ? "cannot be read" : "no memory for %zu bytes", *size);
        free(bytes);
        return NULL;
    }
    return bytes;
}

char *file_load(const char *path, size_t *size, struct complaint *why)
{
    struct complaint reason;
    FILE *file = fopen(path, "rb");
    if (!file) {
        complain(why, "%.200s: %s", path, strerror(errno));
        return NULL;
    }
    char *bytes = load(file, size, &reason);
    fclose(file);
    if (!bytes)
        complain(why, "%.200s: %.100s", path, reason.text);
    return bytes;
}

static bool append(struct piece *piece, const char *bytes, size_t size, struct complaint *why)
{
    if (size > TEXT_MAX - piece->size)
        return complain(why, "the text has %zu bytes and %zu more, must be at most %zu",
                        piece->size, size, TEXT_MAX);
    unsigned char *larger = realloc(piece->bytes, piece->size + size + 1);
    if (!larger)
        return complain(why, "no memory for %zu bytes of text", piece->size + size);
    memcpy(larger + piece->size, bytes, size);
    piece->bytes = larger;
    piece->size += size;
    return true;
}

bool text_add_file(struct text *text, const char *path, struct complaint *why)
{
    size_t size = 0;
    char *bytes = file_load(path, &size, why);
    const size_t held = size / HELD_OUT;
    const bool good = bytes && append(&text->learnt, bytes, size - held, why) &&
                      append(&text->held, bytes + size - held, held, why);
    free(bytes);
    text->files += good;
    return good;
}

static bool ends_with(const char *path, const char *const *endings, size_t count)
{
    const size_t length = strlen(path);
    for (size_t k = 0; k < count; k++) {
        const size_t ending = strlen(endings[k]);
        if (length > ending && !strcmp(path + length - ending, endings[k]))
            return true;
    }
    return false;
}

static bool is_source(const char *path)
{
    return ends_with(path, source_endings, sizeof source_endings / sizeof *source_endings) &&
           !ends_with(path, generated, sizeof generated / sizeof *generated);
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
    free(text->learnt.bytes);
    free(text->held.bytes);
    *text = (struct text){.files = 0};
}

static void count_bytes(size_t count[256], const struct piece *piece)
{
    for (size_t k = 0; k < piece->size; k++)
        count[piece->bytes[k]]++;
}

struct alphabet alphabet_of(const struct text *text)
{
    size_t count[256] = {0};
    struct alphabet alphabet = {.size = 0};
    count_bytes(count, &text->learnt);
    count_bytes(count, &text->held);
    for (int byte = 0; byte < 256; byte++)
        if (count[byte])
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

static size_t encode(struct piece *piece, const struct alphabet *alphabet)
{
    int place[256];
    size_t kept = 0;
    for (int byte = 0; byte < 256; byte++)
        place[byte] = alphabet_place(alphabet, (unsigned char)byte);
    for (size_t k = 0; k < piece->size; k++)
        if (place[piece->bytes[k]] >= 0)
            piece->bytes[kept++] = (unsigned char)place[piece->bytes[k]];
    const size_t left_out = piece->size - kept;
    piece->size = kept;
    return left_out;
}

size_t text_encode(struct text *text, const struct alphabet *alphabet)
{
    const size_t left_out = encode(&text->learnt, alphabet);
    return left_out + encode(&text->held, alphabet);
}

double text_entropy(const struct text *text)
{
    const double size = (double)(text->learnt.size + text->held.size);
    size_t count[256] = {0};
    double bits = 0;
    count_bytes(count, &text->learnt);
    count_bytes(count, &text->held);
    for (int byte = 0; byte < 256; byte++)
        if (count[byte])
            bits -= (double)count[byte] / size * log2((double)count[byte] / size);
    return bits;
}

struct streams streams_of(const struct piece *piece, int batch, int steps)
{
    const size_t pairs = piece->size ? piece->size - 1 : 0; /* a character and the one after it */
    struct streams streams = {.text = piece->bytes, .batch = batch};
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
