/*
 * What the parts of lowering share: accumulate.c finds the accumulators, saved.c what the gradient
 * keeps of forward, program.c writes one stage, lower.c cuts the graph into stages.
 */
#ifndef ECO_LOWER_H
#define ECO_LOWER_H

#include "common/cell/cell.h"
#include "common/util.h"

/* By node of the graph, the gradient's included; -1: none. */
struct eco_lowering {
    const struct eco_recipe *recipe;
    const struct eco_adjoint *adjoint;
    struct eco_lowered *lowered;
    struct eco_cell_error *error;
    int first_vector;                /* parameter                                            */
    int16_t uses[ECO_MAX_NODES];     /* by nodes and as results                              */
    int16_t user[ECO_MAX_NODES];     /* the last one                                         */
    int16_t part_of[ECO_MAX_NODES];  /* product or vector: root node of its accumulator      */
    int16_t acc[ECO_MAX_NODES];      /* root of a sum, or a lone product: its accumulator    */
    int16_t save[ECO_MAX_NODES];     /* slot                                                 */
    int16_t mean[ECO_MAX_NODES];     /* slot                                                 */
    int16_t level[2][ECO_MAX_NODES]; /* [forward, backward]: the first stage that can have it */
    bool stored[ECO_MAX_NODES];      /* a stage written so far saves it                      */
};

/* What a stage must write: code.op and index as in a program, a is a node, -1: zero. */
struct eco_demand {
    int n;
    struct eco_node store[ECO_MAX_CODE];
};

bool eco_lower_fail(struct eco_lowering *lowering, const char *format, ...) ECO_PRINTF(2, 3);
bool eco_lower_accumulators(struct eco_lowering *lowering);
bool eco_lower_saved(struct eco_lowering *lowering);
/* The values added to the accumulator of root: returns how many, at most ECO_MAX_SOURCE. */
int eco_lower_addends(const struct eco_lowering *lowering, int root, int16_t *addend);
/* A node that a stage reads from memory, as that instruction; false: it is computed. */
bool eco_lower_leaf(const struct eco_lowering *lowering, bool backward, int at,
                    struct eco_node *leaf);
/* Adds a store to a demand. */
bool eco_lower_store(struct eco_lowering *lowering, struct eco_demand *demand, int op, int index,
                     int node);
/* Which nodes the demand needs, itself included. */
void eco_lower_need(const struct eco_lowering *lowering, bool backward,
                    const struct eco_demand *demand, bool need[ECO_MAX_NODES]);
bool eco_lower_program(struct eco_lowering *lowering, bool backward,
                       const struct eco_demand *demand, struct eco_program *program);

#endif /* ECO_LOWER_H */
