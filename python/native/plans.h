/*
 * The plans of bindings, and the packed weights that runs of several plans share.  Knows no
 * framework.
 *
 * A plan is what three texts say: a device, a problem (ecornn_desc_parse) and the text of a cell,
 * so a program that is stored and run in another process finds it again.  The 4096 plans that were
 * used last are kept; a call holds the one that it runs.
 */
#ifndef ECO_NATIVE_PLANS_H
#define ECO_NATIVE_PLANS_H

#include "python/native/packed.h"

struct span { /* text without an end */
    const char *at;
    size_t bytes;
};
enum {
    OF_DEVICE,
    OF_PROBLEM,
    OF_CELL,
    TEXTS
}; /* no text of a cell: the problem names a built-in one */

/* A parameter of the first model. */
struct param {
    int64_t pair;   /* number of its layer and direction */
    char kind;      /* W, R, b, p; else a projection */
    bool is_vector; /* then cols is 1 */
    int32_t rows, cols;
    int64_t gradient; /* offset in packed gradients if it is dense there; else -1 */
};

/* Packed weights that plans share which differ in T and N only. */
struct block {
    int users; /* plans that have it */
    struct packs packs;
};

struct plan {
    struct plan *next;
    atomic_int users; /* those that hold it, and the list */
    struct span text[TEXTS];
    int kind;
    ecornn_device *device;
    ecornn_cell *cell;
    const ecornn_plan *plan;
    bool is_own;      /* freed with this; else it is the caller's */
    ecornn_desc desc; /* layers and models are at least 1, types are set */
    ecornn_sizes sizes;
    int states, count;   /* count: parameters of one model */
    struct param *param; /* [count] */
    struct block *block;
    void *more; /* a binding's own, freed with the plan; NULL at first */
};

/* Holds the plan of these texts until plan_let_go.  kind: a binding's number; plans of different
 * kinds share nothing.  Any thread may call it.  Fails as the library does, with its detail, and
 * with NO_MEMORY. */
ecornn_status plan_hold(struct plan **found, const struct span texts[TEXTS], int kind);
/* The same for a plan that the caller made and keeps as long. */
ecornn_status plan_adopt(struct plan **found, const ecornn_plan *plan, const ecornn_desc *desc,
                         int kind);
/* The same for a new plan of that description, which is freed with it. */
ecornn_status plan_create(struct plan **found, ecornn_device *device, const ecornn_desc *desc,
                          int kind);
void plan_let_go(struct plan *plan); /* NULL is allowed */

#endif /* ECO_NATIVE_PLANS_H */
