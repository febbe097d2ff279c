/*
 * Where a plan's parameters are in the arrays of a binding, and packing from there.
 *
 * There are two kinds of plans.  Those of torch's layers have arrays of several gates each, in
 * torch's order, perhaps with two biases for a gate, of which the library takes the sum.  All
 * others have one array, a block with all parameters in the library's order.
 */
#ifndef ECO_NATIVE_LAYOUT_H
#define ECO_NATIVE_LAYOUT_H

#include "python/native/plans.h"

enum { MOST_RANK = 3, KIND_BLOCK = -1 };

struct shape {
    int64_t rank, size[MOST_RANK], stride[MOST_RANK];
};

/* Bytes of a dense array of that type, an ecornn_type. */
int64_t shape_bytes(const struct shape *shape, int64_t type);

/* A position in one of the arrays; array -1: none. */
struct place {
    int64_t array, offset; /* bytes */
};

/* Arrays of a pair of layer and direction, in torch's order; a text's BIAS_IH is b, and BIAS_HH p.
 */
enum array_kind { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, WEIGHT_HR, ARRAYS };

struct layout {
    int64_t arrays, bytes, count; /* count: parameters */
    bool adds;                    /* does any parameter have a place in `more`? */
    bool uneven;                  /* matrices of one array differ in width: it cannot hold them */
    struct place *from;    /* [count] source of a parameter, and destination of its gradient */
    struct place *more;    /* [count] what is added to it; has the same gradient */
    int64_t *gradient;     /* [arrays] where packed gradients have a matrix as it is here, in
                              bytes; -1: nowhere */
    const void *zeros;     /* [H] in host memory for parameters in no array; NULL: there are none */
    enum array_kind *kind; /* [arrays] */
    struct shape array[];  /* [arrays]; then the places and the kinds */
};

/* The kind of plans of torch's layers of that cell, by its name or text, with or without biases. */
int plan_kind(const char *cell, bool bias);
/* The layout of a plan, made at the first call; NULL: no memory. */
const struct layout *layout_of(struct plan *plan);

/* Copies arrays, one after the other; start [arrays]: their addresses, afterwards of the copies. */
void layout_copy(const struct plan *plan, char **start, char *copy);
/* Do the arrays have the values of such a copy?  Also false if the library fails. */
bool layout_same(const struct plan *plan, char *const *start, const char *copy);
/* The addresses of parameters, [2][count]: sources, then what is added; to be freed.  zeros: [H]
 * for parameters in no array. */
const void **layout_sources(const struct plan *plan, char *const *start, const void *zeros);
ecornn_status layout_pack(const struct plan *plan, char *const *start, const void *zeros,
                          void *packed, void *stream);
/* Writes the gradients of arrays, or adds to them; start NULL: not of this one. */
ecornn_status layout_unpack(const struct plan *plan, char *const *start, const void *packed,
                            bool add, void *stream);

#endif /* ECO_NATIVE_LAYOUT_H */
