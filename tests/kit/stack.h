/*
 * A net for tests: its text is parsed here, its inputs and results are arrays of the host, and it
 * runs in two ways: as a net (stack.c), and layer by layer with joins written as loops
 * (stack_by_hand.c).
 */
#ifndef STACK_H
#define STACK_H

#include "common/type.h"
#include "tests/kit/status.h"

/* The items that all layers share, the sizes of x, and the pieces; do rows have lengths? */
struct stack_case {
    const char *common;
    int32_t T, N, I;
    const char *pieces;
    bool lengths;
};

enum { LAYERS = 8, PIECES = 8, PARAMS = 256, SEED = 11, FIRST_STEP = 120, MOST_ROWS = 2048 };

struct layer {
    char problem[200];
    ecornn_plan *plan;
    ecornn_desc desc;
    ecornn_sizes sizes;
    int32_t width;
    int states;
    size_t params, param_bytes; /* bytes before its parameters in the block, and bytes of these */
    size_t state[ECORNN_MAX_STATES];
};

struct piece {
    int32_t join; /* 1: layers, or dropout */
    double dropout;
    int first, layers;
    int32_t T, input, output; /* T: steps of its input, */
    int32_t before;           /* each of which stands for this number of steps of x */
    int32_t lengths[64];
    uint8_t reset[MOST_ROWS], mask[MOST_ROWS]; /* [T,N] */
};

/* Arrays of the host: inputs, then results. */
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
    struct piece piece[PIECES + 1]; /* the last one has T, lengths and so on of y */
};

/* A multiple of every join; a net with a mask has no number that fits all its pieces. */
static inline uint32_t stack_first_step(const struct stack *stack)
{
    return stack->masks ? 0 : FIRST_STEP;
}

/* Makes a separate plan for each layer. */
void stack_open(struct stack *stack, const char *device, const struct stack_case *is);
void stack_close(struct stack *stack);
/* Makes these plans again, with the choices that the net's plan printed. */
void stack_take_choices(struct stack *stack, const ecornn_plan *plan);
/* Fills the inputs. */
void stack_arrays(const struct stack *stack, struct arrays *in);
void stack_free(struct arrays *arrays);

/* Runs forward once and backward twice; allocates `out`. */
void stack_run(const struct stack *stack, const ecornn_plan *plan, const struct arrays *in,
               struct arrays *out);
void stack_by_hand(const struct stack *stack, const struct arrays *in, struct arrays *out);

/* Bytes of [T,N,width]; of the states of a layer, one after the other; and state s of such a block,
 * NULL: there is none. */
size_t stack_bytes(const struct stack *stack, int32_t T, int32_t width);
size_t stack_state_bytes(const struct layer *layer);
char *stack_state_at(const struct layer *layer, char *block, int s);
/* Finds the parameters in a layer's block, given the bytes of an element; returns their number. */
int stack_params(const struct layer *layer, char *block, size_t bytes, void **pointer);

/* Memory of the device: copied from the host (NULL: uninitialized), filled with NaN, or copied back
 * and freed. */
void *stack_up(const struct stack *stack, const void *from, size_t bytes);
void *stack_scratch(const struct stack *stack, size_t bytes);
char *stack_down(const struct stack *stack, void *from, size_t bytes);

/* The states of a layer in memory of the device. */
struct states_memory {
    char *initial, *final, *dfinal, *dinitial;
};
struct states_memory stack_states(const struct stack *stack, const struct arrays *in, int k);
/* Copies the results to `out` and frees the memory. */
void stack_take_states(const struct stack *stack, struct states_memory *memory, int k,
                       struct arrays *out);

#endif /* STACK_H */
