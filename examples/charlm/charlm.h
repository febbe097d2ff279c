/*
 * charlm: a character-level language model over ecornn, from text to weights to made-up text.
 * Errors end the program with one line on standard error.
 */
#ifndef CHARLM_H
#define CHARLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* ---- util.c ---------------------------------------------------------------------------------- */

#if defined(__GNUC__)
#define CHARLM_PRINTF(text, rest) __attribute__((format(printf, text, rest)))
#else
#define CHARLM_PRINTF(text, rest)
#endif

/* Prints "charlm: ..." and ends the program with `status`: 1, or 2 for wrong arguments.  Control
 * characters, which may come out of a hostile file, are printed as '?'. */
_Noreturn void die(int status, const char *format, ...) CHARLM_PRINTF(2, 3);
/* Ends the program with the library's error text unless the status is ECORNN_OK. */
void check(ecornn_status status);
/* A built-in cell; NULL if there is none of this name. */
const ecornn_cell *find_cell(const char *name);
/* count * size bytes, all zero; never NULL. */
void *allocate(size_t count, size_t size);
/* SplitMix64 (Steele, Lea and Flood 2014): 64 random bits; uniform: a number in [0,1). */
uint64_t random_bits(uint64_t *state);
float random_uniform(uint64_t *state);
/* Seconds since some moment in the past; never goes back. */
double clock_seconds(void);
/* The content of a regular file followed by a zero byte; the caller frees it. */
char *file_load(const char *path, size_t *bytes);
/* The text of a cell: that of a file, or of the library's cell if there is no file of this name. */
char *cell_load(const char *word, size_t *bytes);

/* ---- text.c: characters are bytes; the model sees the index of a byte in its alphabet ---------
 */

struct alphabet {
    int size;                /* V */
    unsigned char byte[256]; /* those that occur, rising */
    int index[256];          /* of a byte; -1 for a byte that is not in the alphabet */
};

struct characters {
    unsigned char *byte; /* after text_encode: indices */
    size_t count;
};

struct text {
    struct characters training, held_out; /* the last 5 % of each file are held out */
};

void text_add_file(struct text *text, const char *path);
struct alphabet alphabet_of(const struct text *text);
/* The alphabet of bytes that must rise; its size is 0 if they do not. */
struct alphabet alphabet_from(const unsigned char *bytes, size_t count);
/* Replaces bytes by indices.  Bytes outside the alphabet are dropped; returns their number. */
size_t text_encode(struct text *text, const struct alphabet *alphabet);
/* Bits per character if each character is guessed from its frequency alone. */
double text_entropy(const struct text *text);

/* A batch of N streams: row n reads the text from character n * stride on. */
struct streams {
    const unsigned char *text;
    size_t stride, position; /* characters of a stream; how many are read */
    int batch;               /* N */
};

/* A window of the text as indices, [T,N] each: characters, and those after them. */
struct window {
    unsigned char *input, *target;
    int steps, batch;
    uint64_t seed; /* of dropout */
};

/* At most `batch` streams of at least `steps` characters each, but at least one stream. */
struct streams streams_of(const struct characters *characters, int batch, int steps);
/* Fills the next window: T = min(steps, characters left) steps.  False at the end. */
bool streams_next(struct streams *streams, int steps, struct window *window);

/* ---- model.c: embedding [V,E], L recurrent layers, softmax layer [V,H] ------------------------
 */

struct model_shape {
    const ecornn_cell *cell;
    int alphabet, embedding, hidden, layers; /* V E H L */
    int steps, batch;                        /* the largest T and N of a window */
    float dropout;
    uint64_t memory; /* bytes of reserve and workspace at most; 0: no limit */
};

/* An array that the host and the device both use.  On a CPU the two pointers are equal. */
struct array {
    float *host, *device;
    size_t bytes;
};

/* The states between two windows, [L,N,H] each.  A window reads state[now] and writes state[!now]:
 * the backward pass reads the initial states again. */
struct carry {
    struct array state[2][ECORNN_MAX_STATES];
    int now;
};

struct model {
    struct model_shape shape;
    ecornn_device *device; /* owned by the caller */
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int states;
    bool on_host;
    size_t params;                 /* numbers in theta                             */
    float *theta, *dtheta;         /* [params]: recurrent block, embedding, output */
    float *embedding, *dembedding; /* [V,E], inside theta and dtheta               */
    float *weight, *dweight;       /* [V,H], inside                                */
    float *bias, *dbias;           /* [V], inside                                  */
    struct array block, dblock;    /* the recurrent block on the device            */
    struct array x, dx, y, dy;     /* [T,N,E], [T,N,H]                             */
    void **pointers, **dpointers;  /* to each parameter in block and in dblock     */
    void *packed, *dpacked, *workspace, *reserve;
    float *logits;  /* [T,N,V]; after model_loss their gradient */
    double *losses; /* [T,N] */
    struct carry training;
};

/* Makes the plan: sizes and params are known afterwards, and little memory is taken. */
void model_plan(struct model *model, ecornn_device *device, const struct model_shape *shape);
/* Takes the memory; theta is all zero. */
void model_allocate(struct model *model);
/* Random weights; the forget gates of LSTMs start with a bias of 1 (Jozefowicz 2015). */
void model_initialise(struct model *model, uint64_t seed);
void model_free(struct model *model);
void carry_allocate(struct carry *carry, const struct model *model);
void carry_reset(struct carry *carry, const struct model *model);
void carry_free(struct carry *carry, const struct model *model);
/* Packs theta for the plan: after each change of it. */
void model_pack(struct model *model);
/* Computes the logits of a window and moves the carried states on.  With model->training it is a
 * training pass, with any other carry inference. */
void model_forward(struct model *model, struct carry *carry, const struct window *window);
/* Returns the sum of the window's losses in bits; replaces logits by the gradient of the mean loss
 * in nats. */
double model_loss(struct model *model, const struct window *window);
/* After a training pass and its loss: fills dtheta. */
void model_backward(struct model *model, const struct window *window);

/* ---- file.c: a model in a file ----------------------------------------------------------------
 */

struct file {
    char *content; /* of a file that was read */
    size_t bytes;
    char cell_name[64]; /* a built-in cell, or the one in cell_text */
    char *cell_text;    /* "" for a built-in one */
    long hidden, layers, embedding, step;
    struct alphabet alphabet;
};

/* Reads all but theta. */
void file_read(struct file *file, const char *path);
/* Dies unless the file is what file_save writes for this planned model: before memory is taken. */
void file_check(const struct file *file, const struct model *model);
/* Copies theta out of a checked file into the allocated model. */
void file_load_theta(const struct file *file, struct model *model);
/* Replaces a file at once or not at all; keeps its mode and the links that lead to it.  Returns
 * NULL, or why it failed: then the old file is as it was.  theta may be NULL: then nothing is
 * replaced, and the answer is whether a file of this size could be written now. */
const char *file_save(const struct file *file, const struct model *model, const float *theta,
                      const char *path);
void file_free(struct file *file);

/* ---- train.c ----------------------------------------------------------------------------------
 */

struct training {
    const struct text *text; /* encoded */
    struct file *file;       /* what is saved; its step counts up */
    const char *path;        /* where it is saved; "": nowhere */
    long steps;              /* 0: no limit */
    double seconds;          /* 0: no limit */
    long save_every;         /* steps; 0: every 10 seconds */
    float rate;              /* Adam's learning rate */
    uint64_t seed;
};

/* Trains and saves.  Returns the bits per character of the held-out text, negative if unknown.  The
 * learning rate follows the steps if their number is given, else the clock; so the same seed and
 * number of steps give the same losses. */
double train(struct model *model, const struct training *training);
/* From now on Ctrl-C, SIGTERM, SIGHUP and a closed output end the training early, saved. */
void train_catch_signals(void);
bool train_interrupted(void);
/* Prints characters drawn with a temperature, beginning with the prompt. */
void sample(struct model *model, const struct alphabet *alphabet, long characters,
            float temperature, uint64_t seed, const char *prompt);

#endif /* CHARLM_H */
