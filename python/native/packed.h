/*
 * Packed weights that follow what they are packed from.
 *
 * Each block of them keeps a copy of the arrays that it was packed from; a run compares that copy
 * with the arrays, all bytes, and so notices every write.  A block does not change as long as a run
 * holds it.  For example a training loop packs once a step: the block of the step before leaves the
 * list, and its memory is used again unless a backward still reads it.
 */
#ifndef ECO_NATIVE_PACKED_H
#define ECO_NATIVE_PACKED_H

#include "python/native/lent.h"

struct plan;

struct packed {
    struct packed *next;
    atomic_int users;
    struct plan *plan; /* they were packed for; NULL: all plans of the list pack alike */
    struct memory *weights, *copy; /* copy: of the arrays */
    bool frozen;                   /* is that the copy of struct packing? */
};

/* Those that are kept, the newest first. */
struct packs {
    struct packed *first;
    bool alike; /* does each serve all plans that use the list? */
};

/* The source of a run's weights. */
struct packing {
    char *const *start;    /* [arrays]: addresses of the arrays, as the plan's layout has them */
    struct memory *frozen; /* a copy of the only array that is used instead; NULL: none */
    ecornn_device *device; /* for the packed weights */
    bool on_gpu;           /* then there is one array, in host memory */
};

/* Holds the packed weights for a run of the plan until packed_drop.  Any thread may call it. */
ecornn_status packs_hold(struct packs *packs, struct plan *plan, const struct packing *from,
                         struct packed **found);
void packed_drop(struct packed *packed); /* NULL is allowed */
void packs_end(struct packs *packs);     /* what runs hold stays */

#endif /* ECO_NATIVE_PACKED_H */
