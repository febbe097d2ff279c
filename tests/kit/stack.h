/*
 * A net as tests see it: its text taken apart by hand, arrays of the host that go in and come out,
 * and two ways of running it: as a net (stack.c), and as layers one after the other with joins
 * written out (stack_by_hand.c).
 */
#ifndef STACK_H
#define STACK_H

#include "common/type.h"
#include "tests/kit/status.h"

/* What all layers say, the sizes of x, the pieces; whether rows have lengths. */
struct stack_case {
    const char *common;
    int32_t T, N, I;
    const char *pieces;
    bool lengths;
};

/* Every join that tests have divides the first step. */
enum { LAYERS = 8, PIECES = 8, PARAMS = 256, SEED = 11, FIRST_STEP = 120 };

struct layer {
    char problem[200];
    ecornn_plan *plan;
    ecornn_desc desc;
    ecornn_sizes sizes;
    int32_t width;
    int states;
    size_t params, param_bytes; /* bytes of the block ahead of its own; its own */
    size_t state[ECORNN_MAX_STATES];
};

struct piece {
    int32_t join; /* 1: layers */
    int first, layers;
    int32_t T, input, output; /* T: of what it reads, */
    int32_t before;           /* whose steps are so many of x */
    int32_t lengths[64];
};

/* Arrays of the host: what goes in, then what comes out. */
struct arrays {
    char *x, *params, *initial[LAYERS], *dy, *dfinal[LAYERS];
    char *y, *final[LAYERS], *dx, *dparams, *dinitial[LAYERS];
};

struct stack {
    ecornn_device *device;
    char text[400];
    int32_t T, N, U, output;
    size_t element, param; /* bytes */
    size_t x, y, params;   /* bytes of arrays */
    ecornn_type type;
    bool trains, batch_major, ragged, resets, masks;
    int layers, pieces;
    struct layer layer[LAYERS];
    struct piece piece[PIECES + 1]; /* the last: T and lengths of y */
    uint8_t reset[1024], mask[1024];
};

/* Plans of all layers by themselves. */
void stack_open(struct stack *stack, const char *device, const struct stack_case *is);
void stack_close(struct stack *stack);
/* These plans anew, with the choices that the net's layers say they took. */
void stack_take_choices(struct stack *stack, const ecornn_net_plan *plan);
/* Fills what goes in. */
void stack_arrays(const struct stack *stack, struct arrays *in);
void stack_free(struct arrays *arrays);

/* Forward, and twice back; out is made anew. */
void stack_run(const struct stack *stack, const ecornn_net_plan *plan, const struct arrays *in,
               struct arrays *out);
void stack_by_hand(const struct stack *stack, const struct arrays *in, struct arrays *out);

/* Bytes of [T,N,width]; of the states of a layer, one after the other; and state s of such a block,
 * NULL: there is none. */
size_t stack_bytes(const struct stack *stack, int32_t T, int32_t width);
size_t stack_state_bytes(const struct layer *layer);
char *stack_state_at(const struct layer *layer, char *block, int s);
/* Parameters of a layer's block, of so many bytes each; returns how many. */
int stack_params(const struct layer *layer, char *block, size_t bytes, void **pointer);

/* Memory of the device: from the host (NULL: as it comes), full of NaN, and back and freed. */
void *stack_up(const struct stack *stack, const void *from, size_t bytes);
void *stack_scratch(const struct stack *stack, size_t bytes);
char *stack_down(const struct stack *stack, void *from, size_t bytes);

/* States of a layer there. */
struct states_memory {
    char *initial, *final, *dfinal, *dinitial;
};
struct states_memory stack_states(const struct stack *stack, const struct arrays *in, int k);
/* Its results to out, and freed. */
void stack_take_states(const struct stack *stack, struct states_memory *memory, int k,
                       struct arrays *out);

#endif /* STACK_H */
