/*
 * A net from its text, and its layers, see stack.h.
 */
#include "tests/kit/stack.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/seed.h"
#include "common/type.h"
#include "tests/kit/calls.h"
#include "tests/kit/choices.h"

enum { SEED = 11, FIRST_STEP = 120 };

/* A multiple of every join; a net with a mask has no number that fits all its pieces. */
static uint32_t first_step(const struct stack *stack, const struct piece *piece)
{
    return stack->masks ? 0 : (uint32_t)(FIRST_STEP / piece->before);
}

static void open_layer(struct stack *stack, const struct piece *piece, const char *common,
                       const char *words)
{
    const int k = stack->layers++;
    struct net_layer of_net;
    char problem[200];
    snprintf(problem, sizeof problem, "%s/%s/T%d/N%d/I%d", words, common, piece->T, stack->N,
             piece->input);
    check_ok(net_layer_at(stack->net.plan, k, &of_net));
    choices_take(of_net.plan);
    trial_open(&stack->layer[k], stack->net.device, problem, NULL);
    unsetenv("ECORNN_FORCE");
}

/* Takes the words of the next piece from the rest of the text; false: there is none. */
static bool take_piece(char **rest, char *words)
{
    size_t n = 0;
    for (; **rest != '\0' && **rest != ';'; (*rest)++)
        if (**rest != ' ')
            words[n++] = **rest;
    words[n] = '\0';
    *rest += **rest == ';';
    return n > 0;
}

/* Has row n of the piece's input the step t, and does it count? */
static bool counts(const struct stack *stack, const struct piece *piece, int32_t t, int32_t n)
{
    return t < (stack->net.ragged ? piece->lengths[n] : piece->T) &&
           (!stack->masks || piece->mask[t * stack->N + n]);
}

/* Lengths, mask and resets of what a piece gives: a step counts if one of those that it joins does,
 * and is reset if one of those is. */
static void count_output(const struct stack *stack, const struct piece *piece, struct piece *next)
{
    for (int32_t n = 0; n < stack->N; n++) {
        next->lengths[n] = (piece->lengths[n] + piece->join - 1) / piece->join;
        for (int32_t t = 0; t < piece->T; t++) {
            const int32_t at = t / piece->join * stack->N + n;
            if (t % piece->join == 0)
                next->mask[at] = next->reset[at] = 0;
            next->mask[at] |= counts(stack, piece, t, n);
            next->reset[at] |= counts(stack, piece, t, n) && piece->reset[t * stack->N + n];
        }
    }
}

static void open_piece(struct stack *stack, struct piece *piece, const char *common, char *words)
{
    const bool joins = sscanf(words, "join:%d", &piece->join) == 1;
    piece->first = stack->layers;
    float dropout = 0;
    const bool drops = sscanf(words, "dropout:%f", &dropout) == 1;
    piece->dropout = (double)dropout;
    piece->join = joins ? piece->join : 1;
    piece->output = joins || drops ? piece->join * piece->input : 0;
    for (char *layer = joins || drops ? NULL : strtok(words, "+"); layer != NULL;
         layer = strtok(NULL, "+")) {
        open_layer(stack, piece, common, layer);
        piece->output += stack->layer[piece->first + piece->layers++].sizes.output;
    }
    piece[1].T = (piece->T + piece->join - 1) / piece->join;
    piece[1].input = piece->output;
    piece[1].before = piece->before * piece->join;
    count_output(stack, piece, &piece[1]);
}

/* Copies an array of the net's run to or from a piece. */
static void take(const struct stack *stack, int role, void *to)
{
    const struct trial_array *const array = &stack->net.array[0][role][0];
    if (array->host != NULL)
        memcpy(to, array->host, array->bytes);
}

void stack_open(struct stack *stack, const char *device, const struct stack_case *is,
                const char *force)
{
    char pieces[300], words[300], *rest = pieces;
    *stack = (struct stack){.N = is->N};
    ck_assert_int_le(is->T * is->N, MOST_ROWS);
    snprintf(stack->text, sizeof stack->text, "%s/T%d/N%d/I%d; %s", is->common, is->T, is->N, is->I,
             is->pieces);
    snprintf(pieces, sizeof pieces, "%s", is->pieces);
    if (force != NULL)
        setenv("ECORNN_FORCE", force, 1);
    trial_open_on(&stack->net, device, stack->text);
    unsetenv("ECORNN_FORCE");
    trial_fill(&stack->net, 3);
    if (is->N > 1)
        ((int32_t *)(void *)stack->net.array[0][LENGTHS][0].host)[1] = 0;
    stack->net.ragged = is->lengths;
    trial_point(&stack->net);
    stack->type = stack->net.array[0][X][0].type;
    stack->element = eco_type_bytes(stack->type);
    stack->batch_major = strstr(is->common, "batch-major") != NULL;
    stack->masks = strstr(is->common, "mask") != NULL;
    struct piece *const first = &stack->piece[0];
    first->T = is->T, first->input = is->I, first->before = 1;
    take(stack, LENGTHS, first->lengths), take(stack, RESETS, first->reset);
    take(stack, MASK, first->mask);
    stack->net.io.seed = SEED, stack->net.io.first_step = first_step(stack, first);
    for (; take_piece(&rest, words); stack->pieces++)
        open_piece(stack, &stack->piece[stack->pieces], is->common, words);
}

void stack_close(struct stack *stack)
{
    for (int k = 0; k < stack->layers; k++)
        trial_close(&stack->layer[k]);
    trial_close(&stack->net);
}

void stack_run(struct stack *stack)
{
    struct trial *const net = &stack->net;
    trial_send(net);
    check_ok(trial_queue(net));
    if (net->trains)
        check_ok(ecornn_backward(net->plan, net->T, net->N, &net->io, &net->gradient));
    trial_fetch(net);
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* Runs layer k of the piece by its own plan; dy: NULL forward. */
static struct trial_array *run_layer(struct stack *stack, const struct piece *piece, int k,
                                     const char *x, const char *dy)
{
    struct trial *const layer = &stack->layer[k];
    struct trial_array(*const array)[TRIAL_STATES] = layer->array[0];
    const struct {
        int role;
        const void *from;
    } in[] = {{X, x},
              {DY, dy},
              {PARAMS, stack->net.array[k][PARAMS][0].host},
              {LENGTHS, piece->lengths},
              {RESETS, piece->reset},
              {MASK, piece->mask}};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        if (array[in[i].role][0].host != NULL && in[i].from != NULL)
            memcpy(array[in[i].role][0].host, in[i].from, array[in[i].role][0].bytes);
    for (int role = INITIAL; role <= START; role++)
        for (int s = 0; s < TRIAL_STATES; s++)
            if (array[role][s].host != NULL)
                memcpy(array[role][s].host, stack->net.array[k][role][s].host,
                       array[role][s].bytes);
    layer->ragged = stack->net.ragged;
    trial_point(layer);
    layer->io.seed = eco_seed_of(SEED, ECO_SEED_LAYER, (uint32_t)k);
    layer->io.first_step = first_step(stack, piece);
    trial_run(layer);
    return &array[dy != NULL ? DX : Y][0];
}

static size_t bytes_of(const struct stack *stack, int32_t T, int32_t width)
{
    return (size_t)T * (size_t)stack->N * (size_t)width * stack->element;
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
                                                    : stack->layer[piece->first + i].sizes.output,
                        .row = piece->output,
                        .lengths = piece->layers == 0 && stack->net.ragged ? piece->lengths : NULL,
                        .mask = piece->layers == 0 && stack->masks ? piece->mask : NULL};
    for (int j = 0; j < i; j++)
        copy.at += stack->layer[piece->first + j].sizes.output;
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
                at.t = first_step(stack, piece) + (uint32_t)t, at.n = (uint32_t)n;
                eco_random_quad(&at, (uint32_t)j / 4, word);
                const bool drops = word[j % 4] < piece->dropout * 4294967296.0;
                const double value = eco_type_get(of, (size_t)j, stack->type);
                eco_type_set(into, (size_t)j, stack->type,
                             drops ? 0 : value * (1 / (1 - piece->dropout)));
            }
}

static char *forward_piece(struct stack *stack, const struct piece *piece, char *x)
{
    char *const y = calloc(1, bytes_of(stack, piece[1].T, piece->output));
    struct copy copy = columns_of(stack, piece, 0, y);
    copy.narrow = x;
    if (piece->dropout > 0 && stack->net.trains)
        drop(stack, piece, y, x);
    else if (piece->layers == 0)
        copy_columns(stack, &copy, false);
    for (int i = 0; i < piece->layers; i++) {
        copy = columns_of(stack, piece, i, y);
        copy.narrow = run_layer(stack, piece, piece->first + i, x, NULL)->host;
        copy_columns(stack, &copy, false);
    }
    return y;
}

static char *backward_piece(struct stack *stack, const struct piece *piece, const char *x, char *dy)
{
    const size_t bytes = bytes_of(stack, piece->T, piece->input);
    char *const dx = calloc(1, bytes);
    struct copy copy = columns_of(stack, piece, 0, dy);
    copy.narrow = dx;
    if (piece->dropout > 0)
        drop(stack, piece, dx, dy);
    else if (piece->layers == 0)
        copy_columns(stack, &copy, true);
    for (int i = 0; i < piece->layers; i++) {
        copy = columns_of(stack, piece, i, dy);
        copy.narrow = calloc(1, bytes_of(stack, piece->T, copy.width));
        copy_columns(stack, &copy, true);
        const struct trial_array *const own =
            run_layer(stack, piece, piece->first + i, x, copy.narrow);
        if (i == 0)
            memcpy(dx, own->host, bytes);
        else
            eco_type_add(dx, stack->type, own->host, stack->type, bytes / stack->element);
        free(copy.narrow);
    }
    return dx;
}

/* Compares an array of the net's run, of layer k. */
static void same(const struct stack *stack, int k, int role, int s, const char *must)
{
    const struct trial_array *const is = &stack->net.array[k][role][s];
    for (size_t i = 0; is->host != NULL && i < is->bytes; i += is->element)
        ck_assert_msg(memcmp(is->host + i, must + i, is->element) == 0,
                      "%s: layer %d: array %d[%zu] is %g, must be %g", stack->text, k, role,
                      i / is->element, eco_type_get(is->host + i, 0, is->type),
                      eco_type_get(must + i, 0, is->type));
}

static void same_all(struct stack *stack, const char *y, const char *dx)
{
    static const int roles[] = {FINAL, STATES, DINITIAL, DSTART, DPARAMS};
    stack_run(stack);
    same(stack, 0, Y, 0, y);
    same(stack, 0, DX, 0, dx);
    for (int k = 0; k < stack->layers; k++)
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
            for (int s = 0; s < TRIAL_STATES; s++)
                same(stack, k, roles[i], s, stack->layer[k].array[0][roles[i]][s].host);
}

void stack_check(struct stack *stack, int times)
{
    char *const x = stack->net.array[0][X][0].host, *const dy = stack->net.array[0][DY][0].host;
    char *value[PIECES + 1] = {x}, *dvalue = dy;
    for (int p = 0; p < stack->pieces; p++)
        value[p + 1] = forward_piece(stack, &stack->piece[p], value[p]);
    for (int p = stack->pieces - 1; stack->net.trains && p >= 0; p--) {
        char *const below = backward_piece(stack, &stack->piece[p], value[p], dvalue);
        if (dvalue != dy)
            free(dvalue);
        dvalue = below;
    }
    for (int time = 0; time < times; time++)
        same_all(stack, value[stack->pieces], dvalue);
    for (int p = 1; p <= stack->pieces; p++)
        free(value[p]);
    if (dvalue != dy)
        free(dvalue);
}
