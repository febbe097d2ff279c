/*
 * What the parts of lowering share.  lower.c cuts the graph into stages.  It asks levels.c for the
 * first stage that can have a value, accumulate.c for the products that are summed, saved.c for the
 * values that the gradient keeps from forward, program.c for the code of a stage, slots.c for the
 * storage of values and carried.c for values carried between stages.
 */
#ifndef ECO_LOWERING_H
#define ECO_LOWERING_H

#include "common/cell/cell.h"

/* Arrays by node of the graph, the gradient's nodes included; -1: none. */
struct eco_lowering {
    const struct eco_recipe *recipe;
    const struct eco_adjoint *adjoint;
    struct eco_lowered *lowered;
    struct eco_cell_error *error;
    int first_vector;                /* parameter                                            */
    int16_t uses[ECO_MAX_NODES];     /* by nodes and by results */
    int16_t user[ECO_MAX_NODES];     /* the last one                                         */
    int16_t part_of[ECO_MAX_NODES];  /* product or vector: root node of its accumulator      */
    int16_t acc[ECO_MAX_NODES];      /* root of a sum, or a lone product: its accumulator    */
    int16_t save[ECO_MAX_NODES];     /* slot                                                 */
    int16_t mean[ECO_MAX_NODES];     /* slot                                                 */
    int16_t level[2][ECO_MAX_NODES]; /* [forward, backward]: first stage that can have it */
    bool stored[ECO_MAX_NODES];      /* saved by a stage that is written already */
};

/* What a stage must write.  op and index of store[i] are as in a program; its a, and for some also
 * b, is a node, or -1 for zero. */
struct eco_demand {
    int n;
    struct eco_node store[ECO_MAX_CODE];
};

/* levels.c: counts the uses of values, by nodes that matter and by results; ... */
void eco_lower_uses(struct eco_lowering *lowering);
/* ... finds the first stage of each value; ... */
void eco_lower_levels(struct eco_lowering *lowering);
/* ... and counts the stages of each pass. */
bool eco_lower_stages(struct eco_lowering *lowering);

/* accumulate.c */
bool eco_lower_accumulators(struct eco_lowering *lowering);
/* The values added to the accumulator of root.  Returns their number, at most ECO_MAX_SOURCE. */
int eco_lower_addends(const struct eco_lowering *lowering, int root, int16_t *addend);

/* saved.c */
bool eco_lower_saved(struct eco_lowering *lowering);

/* linear.c: fills in lowered->linear.  graph is the recipe's, which grows meanwhile. */
void eco_lower_linear(struct eco_lowering *lowering, struct eco_recipe *graph);

/* program.c: the instruction of a node that a stage reads from memory; false: computed. */
bool eco_lower_leaf(const struct eco_lowering *lowering, bool backward, int at,
                    struct eco_node *leaf);
/* Adds a store to a demand. */
bool eco_lower_store(struct eco_lowering *lowering, struct eco_demand *demand, int op, int index,
                     int node);
/* Marks the nodes that the demand needs, its own included. */
void eco_lower_need(const struct eco_lowering *lowering, bool backward,
                    const struct eco_demand *demand, bool need[ECO_MAX_NODES]);
bool eco_lower_program(struct eco_lowering *lowering, bool backward,
                       const struct eco_demand *demand, struct eco_program *program);

/* Does the instruction write memory?  Such an instruction has no value. */
static inline bool eco_lower_stores(int op)
{
    return op >= ECO_OP_STORE_OPERAND;
}

/* slots.c: assigns the values of a finished program to an interpreter's slots. */
void eco_lower_slots(struct eco_program *program);

/* carried.c: finds the values carried between stages, after all programs are finished. */
void eco_lower_carried(struct eco_lowered *lowered);

#endif /* ECO_LOWERING_H */
