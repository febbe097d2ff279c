/*
 * What tests of wisdom share: a CPU of two threads, texts for it, and what its plans print.
 */
#ifndef KIT_WISDOM_H
#define KIT_WISDOM_H

#include <stdbool.h>

#include "ecornn.h"

#define WISDOM_HEAD "ecornn-wisdom 1\n"
/* A problem, and the rest of its line. */
#define LSTM     "lstm/f32/infer/T100/N20/I64/H64"
#define CHUNK(n) " - @ algorithm=packed,chunk=" #n " 1000 10 2026-01-31\n"
enum { WISDOM_PRINT = 1 << 14, WISDOM_TEXT = 1 << 12 };

/* Opened and closed around each test; no file is read. */
extern ecornn_device *wisdom_device;
void wisdom_open(void);
void wisdom_close(void);

/* The print of a plan of this problem; good until the next. */
extern char wisdom_print[WISDOM_PRINT];
const char *plan_of(const char *problem, const ecornn_cell *cell);
bool says(const char *problem, const char *words);
/* A text for a device of these words, with lines, in which "@" is that device; until the next. */
const char *text_of(const char *words, const char *lines);
/* Lines for the device that is open. */
void learn(const char *lines);
/* All that is known; until the next. */
const char *whole(void);

/* A folder, which is the user's of configurations; around each test, with a device. */
extern char wisdom_folder[];
void make_folder(void);
void remove_folder(void);
const char *in_folder(const char *name); /* one of the last four */
void write_file(const char *path, const char *text);

#endif /* KIT_WISDOM_H */
