/*
 * Runs a net layer by layer, see stack.h: layers by their plans, joins and sums as loops.
 */
#include "tests/kit/stack.h"
#include "tests/kit/calls.h"

#include "common/seed.h"

#include <stdlib.h>
#include <string.h>

/* Device memory of a layer between forward and backward, and of its results. */
struct hand {
    void *weights, *workspace, *reserve, *x, *y, *lengths, *resets, *mask;
    uint32_t first_step;
    struct states_memory states;
};

static ecornn_io io_of(const struct stack *stack, const struct hand *hand, int k)
{
    ecornn_io io = {.size = sizeof io,
                    .lengths = hand->lengths,
                    .resets = hand->resets,
                    .mask = hand->mask,
                    .x = hand->x,
                    .y = hand->y,
                    .weights = hand->weights,
                    .workspace = hand->workspace,
                    .reserve = hand->reserve,
                    .seed = eco_seed_of(SEED, ECO_SEED_LAYER, (uint32_t)k),
                    .first_step = hand->first_step};
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        io.initial[s] = stack_state_at(&stack->layer[k], hand->states.initial, s);
        io.final[s] = stack_state_at(&stack->layer[k], hand->states.final, s);
    }
    return io;
}

/* Returns y. */
static char *forward_layer(const struct stack *stack, struct hand *hand, const struct piece *piece,
                           int k, const struct arrays *in, const char *x)
{
    const struct layer *const layer = &stack->layer[k];
    const size_t rows = (size_t)piece->T * (size_t)stack->N,
                 y_bytes = stack_bytes(stack, piece->T, layer->width);
    void *params[PARAMS];
    char *const block = stack_up(stack, in->params + layer->params, layer->param_bytes);
    *hand = (struct hand){
        .weights = stack_up(stack, NULL, layer->sizes.weight_bytes),
        .workspace = stack_scratch(stack, layer->sizes.workspace_bytes),
        .reserve = stack_scratch(stack, layer->sizes.reserve_bytes),
        .x = stack_up(stack, x, stack_bytes(stack, piece->T, piece->input)),
        .y = stack_up(stack, NULL, y_bytes),
        .lengths = stack->ragged ? stack_up(stack, piece->lengths, (size_t)stack->N * 4) : NULL,
        .resets = stack->resets ? stack_up(stack, piece->reset, rows) : NULL,
        .mask = stack->masks ? stack_up(stack, piece->mask, rows) : NULL,
        .first_step = stack_first_step(stack) / (uint32_t)piece->before,
        .states = stack_states(stack, in, k)};
    stack_params(layer, block, stack->param, params);
    check_ok(ecornn_pack(layer->plan, (const void *const *)params, NULL, hand->weights, NULL));
    const ecornn_io io = io_of(stack, hand, k);
    check_ok(forward_all(layer->plan, &io));
    check_ok(ecornn_wait(stack->device, NULL));
    char *const y = calloc(1, y_bytes);
    check_ok(ecornn_download(stack->device, y, hand->y, y_bytes));
    ecornn_free(stack->device, block);
    return y;
}

/* Returns dx; the layer's other results go to `out`. */
static char *backward_layer(const struct stack *stack, struct hand *hand, const struct piece *piece,
                            int k, struct arrays *out, const char *dy)
{
    const struct layer *const layer = &stack->layer[k];
    const size_t x_bytes = stack_bytes(stack, piece->T, piece->input);
    void *dparams[PARAMS];
    void *const dx = stack_up(stack, NULL, x_bytes);
    void *const dweights = stack_up(stack, NULL, layer->sizes.dweight_bytes);
    void *const dy_there = stack_up(stack, dy, stack_bytes(stack, piece->T, layer->width));
    char *const dblock = stack_up(stack, NULL, layer->param_bytes);
    const ecornn_io io = io_of(stack, hand, k);
    ecornn_gradient gradient = {
        .size = sizeof gradient, .dy = dy_there, .dx = dx, .dweights = dweights};
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        gradient.dfinal[s] = stack_state_at(layer, hand->states.dfinal, s);
        gradient.dinitial[s] = stack_state_at(layer, hand->states.dinitial, s);
    }
    stack_params(layer, dblock, stack->param, dparams);
    check_ok(backward_all(layer->plan, &io, &gradient));
    check_ok(ecornn_unpack(layer->plan, dweights, dparams, 0, NULL));
    check_ok(ecornn_wait(stack->device, NULL));
    char *const gradients = stack_down(stack, dblock, layer->param_bytes);
    memcpy(out->dparams + layer->params, gradients, layer->param_bytes);
    free(gradients);
    ecornn_free(stack->device, dweights);
    ecornn_free(stack->device, dy_there);
    return stack_down(stack, dx, x_bytes);
}

static void close_hand(const struct stack *stack, struct hand *hand, int k, struct arrays *out)
{
    void *const all[] = {hand->weights, hand->workspace, hand->reserve, hand->x,
                         hand->y,       hand->lengths,   hand->resets,  hand->mask};
    stack_take_states(stack, &hand->states, k, out);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ecornn_free(stack->device, all[i]);
}

static char *row_of(const struct stack *stack, char *array, int32_t T, int32_t width, int32_t t,
                    int32_t n)
{
    const int32_t row = stack->batch_major ? n * T + t : t * stack->N + n;
    return array + (size_t)row * (size_t)width * stack->element;
}

/* Columns [at, at + width) of wide step t / join are narrow step t; back: the other way. */
struct copy {
    char *narrow, *wide;
    int32_t T, join, width, row, at;
    const int32_t *lengths; /* NULL: all are copied */
    const uint8_t *mask;
};

static void copy_columns(const struct stack *stack, const struct copy *copy, bool back)
{
    const int32_t U = (copy->T + copy->join - 1) / copy->join;
    const size_t bytes = (size_t)copy->width * stack->element;
    for (int32_t t = 0; t < copy->T; t++)
        for (int32_t n = 0; n < stack->N; n++) {
            char *const narrow = row_of(stack, copy->narrow, copy->T, copy->width, t, n);
            char *const wide = row_of(stack, copy->wide, U, copy->row, t / copy->join, n) +
                               (size_t)copy->at * stack->element + (size_t)(t % copy->join) * bytes;
            if ((copy->lengths == NULL || t < copy->lengths[n]) &&
                (copy->mask == NULL || copy->mask[t * stack->N + n]))
                memcpy(back ? narrow : wide, back ? wide : narrow, bytes);
        }
}

static struct copy columns_of(const struct stack *stack, const struct piece *piece, int i,
                              char *wide)
{
    struct copy copy = {.wide = wide,
                        .T = piece->T,
                        .join = piece->join,
                        .width = piece->layers == 0 ? piece->input
                                                    : stack->layer[piece->first + i].width,
                        .row = piece->output,
                        .lengths = piece->layers == 0 && stack->ragged ? piece->lengths : NULL,
                        .mask = piece->layers == 0 && stack->masks ? piece->mask : NULL};
    for (int j = 0; j < i; j++)
        copy.at += stack->layer[piece->first + j].width;
    return copy;
}

/* to = from without the elements that are drawn. */
static void drop(const struct stack *stack, const struct piece *piece, char *to, char *from)
{
    const uint32_t number = 1 + (uint32_t)(piece - stack->piece);
    struct eco_coordinates at = {.seed = eco_seed_of(SEED, ECO_SEED_PIECE, number)};
    for (int32_t t = 0; t < piece->T; t++)
        for (int32_t n = 0; n < stack->N; n++)
            for (int32_t j = 0; j < piece->input; j++) {
                uint32_t word[4];
                char *const into = row_of(stack, to, piece->T, piece->input, t, n);
                const char *const of = row_of(stack, from, piece->T, piece->input, t, n);
                at.t = stack_first_step(stack) / (uint32_t)piece->before + (uint32_t)t,
                at.n = (uint32_t)n;
                eco_random_quad(&at, (uint32_t)j / 4, word);
                const bool drops = word[j % 4] < piece->dropout * 4294967296.0;
                const double value = eco_type_get(of, (size_t)j, stack->type);
                eco_type_set(into, (size_t)j, stack->type,
                             drops ? 0 : value * (1 / (1 - piece->dropout)));
            }
}

static char *forward_piece(const struct stack *stack, struct hand *hand, const struct piece *piece,
                           const struct arrays *in, char *x)
{
    char *const y = calloc(1, stack_bytes(stack, piece[1].T, piece->output));
    struct copy copy = columns_of(stack, piece, 0, y);
    copy.narrow = x;
    if (piece->dropout > 0 && stack->trains)
        drop(stack, piece, y, x);
    else if (piece->layers == 0)
        copy_columns(stack, &copy, false);
    for (int i = 0; i < piece->layers; i++) {
        const int k = piece->first + i;
        copy = columns_of(stack, piece, i, y);
        copy.narrow = forward_layer(stack, &hand[k], piece, k, in, x);
        copy_columns(stack, &copy, false);
        free(copy.narrow);
    }
    return y;
}

static char *backward_piece(const struct stack *stack, struct hand *hand, const struct piece *piece,
                            struct arrays *out, char *dy)
{
    const size_t bytes = stack_bytes(stack, piece->T, piece->input);
    char *dx = calloc(1, bytes);
    struct copy copy = columns_of(stack, piece, 0, dy);
    copy.narrow = dx;
    if (piece->dropout > 0)
        drop(stack, piece, dx, dy);
    else if (piece->layers == 0)
        copy_columns(stack, &copy, true);
    for (int i = 0; i < piece->layers; i++) {
        const int k = piece->first + i;
        copy = columns_of(stack, piece, i, dy);
        copy.narrow = calloc(1, stack_bytes(stack, piece->T, copy.width));
        copy_columns(stack, &copy, true);
        char *const own = backward_layer(stack, &hand[k], piece, k, out, copy.narrow);
        if (i == 0)
            memcpy(dx, own, bytes);
        else
            eco_type_add(dx, stack->type, own, stack->type, bytes / stack->element);
        free(own), free(copy.narrow);
    }
    return dx;
}

void stack_by_hand(const struct stack *stack, const struct arrays *in, struct arrays *out)
{
    struct hand hand[LAYERS];
    char *value[PIECES + 1] = {in->x};
    *out = (struct arrays){.dparams = calloc(1, stack->params)};
    for (int p = 0; p < stack->pieces; p++)
        value[p + 1] = forward_piece(stack, hand, &stack->piece[p], in, value[p]);
    char *dvalue = in->dy;
    for (int p = stack->pieces - 1; stack->trains && p >= 0; p--) {
        char *const below = backward_piece(stack, hand, &stack->piece[p], out, dvalue);
        if (dvalue != in->dy)
            free(dvalue);
        dvalue = below;
    }
    out->y = value[stack->pieces];
    out->dx = dvalue == in->dy ? NULL : dvalue;
    for (int p = 1; p < stack->pieces; p++)
        free(value[p]);
    for (int k = 0; k < stack->layers; k++)
        close_hand(stack, &hand[k], k, out);
}
