/*
 * Limits of a cell: the sizes of its structs.  Constants only, so that a kernel compiled at run
 * time can include them.
 */
#ifndef ECO_LIMITS_H
#define ECO_LIMITS_H

enum {
    ECO_MAX_NAME = 24,    /* bytes of a line's, state's or cell's name, with the final 0 */
    ECO_MAX_STATES = 4,   /* as ECORNN_MAX_STATES */
    ECO_MAX_PARTS = 8,    /* parts of x that a text declares */
    ECO_MAX_TEXT = 16384, /* bytes of a cell's text */
    ECO_MAX_SOURCE = 192, /* nodes of a text */
    ECO_MAX_NODES = 512,  /* nodes including the gradient's */
    ECO_MAX_WRITTEN = 32, /* W, R and vectors in a text */
    ECO_MAX_PARAMS =
        64, /* parameters of one layer and direction: a tangent cell has more than a text */
    ECO_MAX_ACCS = 16,    /* accumulators */
    ECO_MAX_OPERANDS = 8, /* different e in R e */
    ECO_MAX_MEANS =
        24, /* row means, forward or backward; those of a stage are bits of a 32-bit word */
    ECO_MAX_SAVES = 24, /* values kept for the gradient, per unit */
    ECO_MAX_STAGES = 8, /* each way */
    ECO_MAX_CODE = 256  /* instructions of one stage */
};

#endif /* ECO_LIMITS_H */
