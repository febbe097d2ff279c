/*
 * Text, alphabets and windows.
 */
#include "charlm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_OUT = 20 };                         /* one byte of 20 is held out: 5 % */
static const size_t TEXT_MAX = (size_t)1 << 30; /* bytes */

static void append(struct characters *to, const char *bytes, size_t count)
{
    if (count > TEXT_MAX - to->count)
        die(1, "the text must be at most %zu bytes", TEXT_MAX);
    unsigned char *larger = realloc(to->byte, to->count + count + 1);
    if (!larger)
        die(1, "no memory for %zu bytes of text", to->count + count);
    memcpy(larger + to->count, bytes, count);
    to->byte = larger;
    to->count += count;
}

void text_add_file(struct text *text, const char *path)
{
    size_t bytes = 0;
    char *content = file_load(path, &bytes);
    const size_t held_out = bytes / HELD_OUT;
    append(&text->training, content, bytes - held_out);
    append(&text->held_out, content + bytes - held_out, held_out);
    free(content);
}

static void count_bytes(size_t count[256], const struct text *text)
{
    const struct characters *const both[] = {&text->training, &text->held_out};
    for (int part = 0; part < 2; part++)
        for (size_t k = 0; k < both[part]->count; k++)
            count[both[part]->byte[k]]++;
}

double text_entropy(const struct text *text)
{
    const double characters = (double)(text->training.count + text->held_out.count);
    size_t count[256] = {0};
    double bits = 0;
    count_bytes(count, text);
    for (int byte = 0; byte < 256; byte++)
        if (count[byte])
            bits -= (double)count[byte] / characters * log2((double)count[byte] / characters);
    return bits;
}

struct alphabet alphabet_from(const unsigned char *bytes, size_t count)
{
    struct alphabet alphabet = {.size = 0};
    memset(alphabet.index, -1, sizeof alphabet.index);
    for (size_t k = 0; k < count; k++) {
        if (k && bytes[k] <= bytes[k - 1])
            return (struct alphabet){.size = 0};
        alphabet.index[bytes[k]] = (int)k;
        alphabet.byte[alphabet.size++] = bytes[k];
    }
    return alphabet;
}

struct alphabet alphabet_of(const struct text *text)
{
    size_t count[256] = {0}, found = 0;
    unsigned char bytes[256];
    count_bytes(count, text);
    for (int byte = 0; byte < 256; byte++)
        if (count[byte])
            bytes[found++] = (unsigned char)byte;
    return alphabet_from(bytes, found);
}

static size_t encode(struct characters *characters, const struct alphabet *alphabet)
{
    size_t kept = 0;
    for (size_t k = 0; k < characters->count; k++)
        if (alphabet->index[characters->byte[k]] >= 0)
            characters->byte[kept++] = (unsigned char)alphabet->index[characters->byte[k]];
    const size_t dropped = characters->count - kept;
    characters->count = kept;
    return dropped;
}

size_t text_encode(struct text *text, const struct alphabet *alphabet)
{
    const size_t dropped = encode(&text->training, alphabet);
    return dropped + encode(&text->held_out, alphabet);
}

struct streams streams_of(const struct characters *characters, int batch, int steps)
{
    const size_t pairs = characters->count ? characters->count - 1 : 0;
    const size_t most = pairs / (size_t)steps;
    struct streams streams = {.text = characters->byte, .batch = batch};
    if (most < (size_t)batch)
        streams.batch = most ? (int)most : 1;
    streams.stride = pairs / (size_t)streams.batch;
    return streams;
}

bool streams_next(struct streams *streams, int steps, struct window *window)
{
    const size_t left = streams->stride - streams->position, N = (size_t)streams->batch;
    window->steps = left < (size_t)steps ? (int)left : steps;
    window->batch = streams->batch;
    for (size_t n = 0; n < N; n++) {
        const unsigned char *from = streams->text + n * streams->stride + streams->position;
        for (size_t t = 0; t < (size_t)window->steps; t++) {
            window->input[t * N + n] = from[t];
            window->target[t * N + n] = from[t + 1];
        }
    }
    streams->position += (size_t)window->steps;
    return window->steps > 0;
}
