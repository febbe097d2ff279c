/*
 * The text a charlm model learns: files put together, their alphabet, and windows of many places
 * of it at a time.  Characters are bytes; a model sees their place in the alphabet.
 */
#ifndef CHARLM_TEXT_H
#define CHARLM_TEXT_H

#include "util.h"

struct piece {
    unsigned char *bytes; /* after text_encode: places in the alphabet */
    size_t size;
};
struct text {
    struct piece learnt, held; /* the last 5 % of each file are held out, to measure with */
    size_t files;
};

/* A regular file's bytes and a zero behind them; the caller frees them.  NULL: there is a reason.
 */
char *file_load(const char *path, size_t *size, struct complaint *why);
/* Adds a file's bytes.  The last function frees what the others added. */
bool text_add_file(struct text *text, const char *path, struct complaint *why);
/* Adds the sources of this project, in a fixed order: below a folder that holds them. */
bool text_add_sources(struct text *text, const char *folder, struct complaint *why);
void text_free(struct text *text);

struct alphabet {
    int size;
    unsigned char byte[256]; /* rising */
};
/* The bytes that occur. */
struct alphabet alphabet_of(const struct text *text);
/* As digits, two per byte, for a file's metadata; and back: false for anything else. */
void alphabet_print(const struct alphabet *alphabet, char digits[513]);
bool alphabet_parse(struct alphabet *alphabet, const char *digits);
/* Place of a byte, -1 if it is not there. */
int alphabet_place(const struct alphabet *alphabet, unsigned char byte);

/* Replaces bytes by places and leaves out those without; returns how many were left out. */
size_t text_encode(struct text *text, const struct alphabet *alphabet);
/* Bits per character when each is drawn by its frequency alone. */
double text_entropy(const struct text *text);

/* N streams through a text, side by side: stream n reads characters n * stride onwards. */
struct streams {
    const unsigned char *text;
    size_t stride, at; /* characters of a stream, and where it is */
    int batch;         /* N */
};
/* At most `batch` streams of at least `steps` characters each, one at least. */
struct streams streams_of(const struct piece *piece, int batch, int steps);
/* The next window: T = min(steps, what is left), in [T,N], and in `next` the character after each.
 * 0 at the end. */
int streams_window(struct streams *streams, int steps, unsigned char *now, unsigned char *next);

#endif /* CHARLM_TEXT_H */
