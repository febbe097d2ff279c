/*
 * What the parts of lowering share.  lower.c cuts the graph into stages, and asks all others:
 * levels.c how soon a value can be had, accumulate.c which products are summed, saved.c what the
 * gradient keeps of forward, program.c for the code of a stage, slots.c where its values lie,
 * carried.c what it hands on.
 */
#ifndef ECO_LOWERING_H
#define ECO_LOWERING_H

#include "common/cell/cell.h"

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

/* What a stage must write: code.op and index as in a program, a, and of two also b, is a node, -1:
 * zero. */
struct eco_demand {
    int n;
    struct eco_node store[ECO_MAX_CODE];
};

/* levels.c: uses by nodes that matter, and by the results; ... */
void eco_lower_uses(struct eco_lowering *lowering);
/* ... the first stage of each value; ... */
void eco_lower_levels(struct eco_lowering *lowering);
/* ... and how many stages that makes each way. */
bool eco_lower_stages(struct eco_lowering *lowering);

/* accumulate.c */
bool eco_lower_accumulators(struct eco_lowering *lowering);
/* The values added to the accumulator of root: returns how many, at most ECO_MAX_SOURCE. */
int eco_lower_addends(const struct eco_lowering *lowering, int root, int16_t *addend);

/* saved.c */
bool eco_lower_saved(struct eco_lowering *lowering);

/* linear.c: fills lowered->linear; graph: the recipe's, which grows meanwhile. */
void eco_lower_linear(struct eco_lowering *lowering, struct eco_recipe *graph);

/* program.c: a node that a stage reads from memory, as that instruction; false: it is computed. */
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

/* Does an instruction write memory?  It has no value. */
static inline bool eco_lower_stores(int op)
{
    return op >= ECO_OP_STORE_OPERAND;
}

/* slots.c: where an interpreter keeps the values of a finished program. */
void eco_lower_slots(struct eco_program *program);

/* carried.c: which values stages hand on to later ones; all programs are finished. */
void eco_lower_carried(struct eco_lowered *lowered);

#endif /* ECO_LOWERING_H */
