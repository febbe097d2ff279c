/*
 * The language model: embedding [V,E], L recurrent layers of ecornn, softmax over [V,H] weights.
 * All learned numbers lie in one host array, so that the optimiser is one loop.  Knows no files.
 */
#ifndef CHARLM_MODEL_H
#define CHARLM_MODEL_H

#include "util.h"
#include "ecornn.h"

struct model_shape {
    const ecornn_cell *cell;
    int alphabet, embedding, hidden, layers; /* V E H L */
    int steps, batch;                        /* the largest T and N of a window */
    float dropout;
    bool training;
    uint64_t memory; /* bytes of reserve and workspace at most; 0: no limit */
};

/* An array that the device and we both use: one piece of memory where the device computes in ours,
 * else two. */
struct array {
    float *host, *device;
    size_t bytes;
};

/* The states between two windows, [L,N,H] each: read from [now], written to [!now], because a
 * backward pass reads the initial ones again. */
struct carry {
    struct array state[2][ECORNN_MAX_STATES];
    int now;
};

struct model {
    struct model_shape shape;
    ecornn_device *device; /* not ours */
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int states;
    bool on_host;
    size_t params;                 /* of the whole model                                 */
    float *theta, *dtheta;         /* [params]: recurrent block, embedding, output       */
    float *embedding, *dembedding; /* [V,E] inside them                                  */
    float *weight, *dweight;       /* [V,H]                                              */
    float *bias, *dbias;           /* [V]                                                */
    struct array block, dblock;    /* the recurrent block as ecornn_pack wants it        */
    struct array x, dx, y, dy;     /* [T,N,E], [T,N,H]                                   */
    void **pointers, **dpointers;  /* to each parameter in block and dblock              */
    void *packed, *dpacked, *workspace, *reserve;
    float *logits;      /* [T,N,V]; then their gradient                       */
    double *losses;     /* [T,N]                                              */
    struct carry carry; /* of the training text, or of a sample               */
};

/* One window of text in places of the alphabet, [T,N] each. */
struct window {
    const unsigned char *now, *next;
    int steps, batch;
    uint64_t seed; /* of dropout */
};

/* Plans: sizes.params and params are known then, and no large memory is taken. */
bool model_plan(struct model *model, ecornn_device *device, const struct model_shape *shape,
                struct complaint *why);
/* Takes the memory.  theta is all zeros then. */
bool model_allocate(struct model *model, struct complaint *why);
/* Random weights; a bias of 1 for the forget gates of LSTMs (Jozefowicz 2015). */
void model_initialise(struct model *model, uint64_t seed);
/* Frees what the two above took; a zeroed model is allowed. */
void model_free(struct model *model);

bool carry_allocate(struct carry *carry, const struct model *model, struct complaint *why);
void carry_reset(struct carry *carry, const struct model *model);
void carry_free(struct carry *carry, const struct model *model);

/* Brings a changed theta into the packed weights. */
bool model_pack(struct model *model, struct complaint *why);
/* logits [T,N,V] of a window; moves the carried states on. */
bool model_forward(struct model *model, struct carry *carry, const struct window *window,
                   struct complaint *why);
/* Sum of the window's losses in bits; turns logits into their gradient of the mean in nats. */
double model_loss(struct model *model, const struct window *window);
/* After forward and loss: dtheta. */
bool model_backward(struct model *model, const struct window *window, struct complaint *why);

/* ---- the output layer and the embedding: output.c -------------------------------------------- */

void embedding_gather(const struct model *model, const struct window *window);  /* x */
void embedding_scatter(const struct model *model, const struct window *window); /* dembedding */
void output_forward(const struct model *model, size_t rows);                    /* logits */
void output_backward(const struct model *model, size_t rows); /* dweight, dbias, dy */

#endif /* CHARLM_MODEL_H */
