/*
 * A net from its text, and its run, see stack.h.
 */
#include "tests/kit/stack.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/testing.h"
#include "tests/kit/calls.h"

size_t stack_bytes(const struct stack *stack, int32_t T, int32_t width)
{
    return (size_t)T * (size_t)stack->N * (size_t)width * stack->element;
}

static void open_layer(struct stack *stack, const struct piece *piece, const char *common,
                       const char *words)
{
    struct layer *layer = &stack->layer[stack->layers++];
    snprintf(layer->problem, sizeof layer->problem, "%s/%s/T%d/N%d/I%d", words, common, piece->T,
             stack->N, piece->input);
    check_ok(parse_desc(&layer->desc, layer->problem, NULL));
    check_ok(ecornn_plan_create_desc(&layer->plan, stack->device, &layer->desc));
    get_sizes(layer->plan, &layer->sizes);
    const size_t D = (layer->desc.flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    const size_t L = layer->desc.layers > 1 ? (size_t)layer->desc.layers : 1;
    const size_t H = (size_t)layer->desc.hidden,
                 P = layer->desc.proj ? (size_t)layer->desc.proj : H;
    layer->width = (int32_t)(D * P);
    layer->states = count_states(layer->desc.cell);
    for (int s = 0; s < layer->states; s++)
        layer->state[s] = L * D * (size_t)stack->N * (s == 0 ? P : H) * stack->element;
    layer->params = stack->params;
    layer->param_bytes = layer->sizes.param_elements * stack->param;
    stack->params += layer->param_bytes;
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
    return t < (stack->ragged ? piece->lengths[n] : piece->T) &&
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
        piece->output += stack->layer[piece->first + piece->layers++].width;
    }
    piece[1].T = (piece->T + piece->join - 1) / piece->join;
    piece[1].input = piece->output;
    piece[1].before = piece->before * piece->join;
    count_output(stack, piece, &piece[1]);
}

void stack_open(struct stack *stack, const char *device, const struct stack_case *is)
{
    const char *const common = is->common;
    char pieces[300], words[300], *rest = pieces;
    uint64_t seed = 5;
    *stack = (struct stack){.T = is->T, .N = is->N, .ragged = is->lengths};
    ck_assert_int_le(is->T * is->N, MOST_ROWS);
    check_ok(ecornn_device_open(&stack->device, device));
    snprintf(stack->text, sizeof stack->text, "%s/T%d/N%d/I%d; %s", common, stack->T, stack->N,
             is->I, is->pieces);
    snprintf(pieces, sizeof pieces, "%s", is->pieces);
    stack->type = strstr(common, "bf16")  ? ECORNN_BF16
                  : strstr(common, "f64") ? ECORNN_F64
                  : strstr(common, "f16") ? ECORNN_F16
                                          : ECORNN_F32;
    stack->element = eco_type_bytes(stack->type);
    stack->param = stack->type == ECORNN_F64 ? sizeof(double) : sizeof(float);
    stack->trains = strstr(common, "train") != NULL;
    stack->batch_major = strstr(common, "batch-major") != NULL;
    stack->resets = strstr(common, "resets") != NULL;
    stack->masks = strstr(common, "mask") != NULL;
    stack->piece[0].T = stack->T, stack->piece[0].input = is->I, stack->piece[0].before = 1;
    for (int32_t n = 0; n < stack->N; n++)
        stack->piece[0].lengths[n] =
            n == 1 ? 0 : (int32_t)(uniform(&seed) * (double)(stack->T + 1));
    for (size_t i = 0; i < sizeof stack->piece[0].mask; i++) {
        stack->piece[0].reset[i] = uniform(&seed) < 0.3;
        stack->piece[0].mask[i] = uniform(&seed) < 0.7;
    }
    for (; take_piece(&rest, words); stack->pieces++)
        open_piece(stack, &stack->piece[stack->pieces], common, words);
    const struct piece *const last = &stack->piece[stack->pieces];
    stack->U = last->T, stack->output = last->input;
    stack->x = stack_bytes(stack, stack->T, is->I);
    stack->y = stack_bytes(stack, stack->U, stack->output);
}

void stack_close(struct stack *stack)
{
    for (int k = 0; k < stack->layers; k++)
        ecornn_plan_free(stack->layer[k].plan);
    ecornn_device_close(stack->device);
}

void stack_take_choices(struct stack *stack, const ecornn_plan *plan)
{
    static char text[1 << 14];
    for (int k = 0; k < stack->layers; k++) {
        struct layer *const layer = &stack->layer[k];
        struct net_layer of_net;
        check_ok(net_layer_at(plan, k, &of_net));
        ck_assert_int_lt(ecornn_plan_print(of_net.plan, text, sizeof text), (int)sizeof text);
        char *const choices = strstr(text, "ECORNN_FORCE=");
        if (choices == NULL)
            continue;
        choices[strcspn(choices, "\n")] = '\0';
        ecornn_plan_free(layer->plan);
        setenv("ECORNN_FORCE", strchr(choices, '=') + 1, 1);
        check_ok(ecornn_plan_create_desc(&layer->plan, stack->device, &layer->desc));
        unsetenv("ECORNN_FORCE");
        get_sizes(layer->plan, &layer->sizes);
    }
}

/* ---- arrays ---------------------------------------------------------------------------------- */

size_t stack_state_bytes(const struct layer *layer)
{
    size_t bytes = 0;
    for (int s = 0; s < layer->states; s++)
        bytes += layer->state[s];
    return bytes;
}

/* Fills an array with random numbers in (-most/2, most/2). */
static void fill(char *array, size_t bytes, ecornn_type type, double most, uint64_t *seed)
{
    for (size_t i = 0; i < bytes / eco_type_bytes(type); i++)
        eco_type_set(array, i, type, most * (uniform(seed) - 0.5));
}

static char *numbers(size_t bytes, ecornn_type type, uint64_t *seed)
{
    char *const array = calloc(1, bytes);
    fill(array, bytes, type, 1, seed);
    return array;
}

void stack_arrays(const struct stack *stack, struct arrays *in)
{
    const ecornn_type param = stack->param == sizeof(double) ? ECORNN_F64 : ECORNN_F32;
    uint64_t seed = 3;
    in->x = numbers(stack->x, stack->type, &seed);
    in->dy = numbers(stack->y, stack->type, &seed);
    in->params = calloc(1, stack->params);
    for (int k = 0; k < stack->layers; k++) { /* so small that sums of many stay small */
        const struct layer *const layer = &stack->layer[k];
        fill(in->params + layer->params, layer->param_bytes, param,
             2 / sqrt((double)layer->desc.hidden), &seed);
        in->initial[k] = numbers(stack_state_bytes(layer), stack->type, &seed);
        in->dfinal[k] = numbers(stack_state_bytes(layer), stack->type, &seed);
    }
}

void stack_free(struct arrays *arrays)
{
    char *const all[] = {arrays->x, arrays->params, arrays->dy,
                         arrays->y, arrays->dx,     arrays->dparams};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int k = 0; k < LAYERS; k++) {
        free(arrays->initial[k]), free(arrays->dfinal[k]);
        free(arrays->final[k]), free(arrays->dinitial[k]);
    }
}

/* Memory of the device: host arrays are copied there and back. */
void *stack_up(const struct stack *stack, const void *from, size_t bytes)
{
    void *const memory = ecornn_alloc(stack->device, bytes);
    if (from != NULL && bytes > 0)
        check_ok(ecornn_upload(stack->device, memory, from, bytes));
    return memory;
}

char *stack_down(const struct stack *stack, void *from, size_t bytes)
{
    char *const memory = calloc(1, bytes);
    if (bytes > 0)
        check_ok(ecornn_download(stack->device, memory, from, bytes));
    ecornn_free(stack->device, from);
    return memory;
}

/* A workspace full of NaN. */
void *stack_scratch(const struct stack *stack, size_t bytes)
{
    void *const full = malloc(bytes + 1), *memory;
    memset(full, 0xFF, bytes + 1);
    memory = stack_up(stack, full, bytes);
    free(full);
    return memory;
}

/* State s in a block of states; NULL: there is none. */
char *stack_state_at(const struct layer *layer, char *block, int s)
{
    for (int i = 0; i < s && i < layer->states; i++)
        block += layer->state[i];
    return s < layer->states ? block : NULL;
}

int stack_params(const struct layer *layer, char *block, size_t bytes, void **pointer)
{
    const int count = count_params(layer->plan);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(param_at(layer->plan, k, &param));
        pointer[k] = block + param.offset * bytes;
    }
    return count;
}
/* ---- a run ----------------------------------------------------------------------------------- */

struct states_memory stack_states(const struct stack *stack, const struct arrays *in, int k)
{
    const size_t bytes = stack_state_bytes(&stack->layer[k]);
    return (struct states_memory){
        stack_up(stack, in->initial[k], bytes), stack_up(stack, NULL, bytes),
        stack_up(stack, in->dfinal[k], bytes), stack_up(stack, NULL, bytes)};
}

void stack_take_states(const struct stack *stack, struct states_memory *memory, int k,
                       struct arrays *out)
{
    const size_t bytes = stack_state_bytes(&stack->layer[k]);
    out->final[k] = stack_down(stack, memory->final, bytes);
    out->dinitial[k] = stack_down(stack, memory->dinitial, bytes);
    ecornn_free(stack->device, memory->initial);
    ecornn_free(stack->device, memory->dfinal);
}

static struct net_states states_of(const struct layer *layer, const struct states_memory *memory)
{
    struct net_states states = {.initial = {NULL}};
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        states.initial[s] = stack_state_at(layer, memory->initial, s);
        states.final[s] = stack_state_at(layer, memory->final, s);
        states.dfinal[s] = stack_state_at(layer, memory->dfinal, s);
        states.dinitial[s] = stack_state_at(layer, memory->dinitial, s);
    }
    return states;
}

/* All arrays of a run in memory of the device. */
struct memory {
    char *x, *y, *dy, *dx, *params, *dparams, *lengths, *resets, *mask;
    void *weights, *dweights, *workspace, *reserve;
    struct states_memory states[LAYERS];
};

static void make_memory(const struct stack *stack, const ecornn_sizes *blocks,
                        const struct arrays *in, struct memory *memory)
{
    const size_t N = (size_t)stack->N, rows = (size_t)stack->T * N;
    *memory = (struct memory){
        .x = stack_up(stack, in->x, stack->x),
        .y = stack_up(stack, NULL, stack->y),
        .dy = stack_up(stack, in->dy, stack->y),
        .dx = stack_up(stack, NULL, stack->x),
        .params = stack_up(stack, in->params, stack->params),
        .dparams = stack_up(stack, NULL, stack->params),
        .lengths =
            stack->ragged ? stack_up(stack, stack->piece[0].lengths, N * sizeof(int32_t)) : NULL,
        .resets = stack->resets ? stack_up(stack, stack->piece[0].reset, rows) : NULL,
        .mask = stack->masks ? stack_up(stack, stack->piece[0].mask, rows) : NULL,
        .weights = stack_up(stack, NULL, blocks->weight_bytes),
        .dweights = stack_up(stack, NULL, blocks->dweight_bytes),
        .workspace = stack_scratch(stack, blocks->workspace_bytes),
        .reserve = stack_scratch(stack, blocks->reserve_bytes)};
    for (int k = 0; k < stack->layers; k++)
        memory->states[k] = stack_states(stack, in, k);
}

static void take_memory(const struct stack *stack, struct memory *memory, struct arrays *out)
{
    *out = (struct arrays){.y = stack_down(stack, memory->y, stack->y),
                           .dx = stack_down(stack, memory->dx, stack->x),
                           .dparams = stack_down(stack, memory->dparams, stack->params)};
    for (int k = 0; k < stack->layers; k++)
        stack_take_states(stack, &memory->states[k], k, out);
    void *const all[] = {memory->x,         memory->dy,     memory->params,  memory->lengths,
                         memory->resets,    memory->mask,   memory->weights, memory->dweights,
                         memory->workspace, memory->reserve};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ecornn_free(stack->device, all[i]);
}

static void point(const struct stack *stack, const ecornn_plan *plan, char *block, void **pointer)
{
    int count = 0;
    for (int k = 0; k < stack->layers; k++) {
        struct net_layer layer;
        check_ok(net_layer_at(plan, k, &layer));
        ck_assert_int_eq(layer.sizes.first_param, count);
        ck_assert_uint_eq(layer.sizes.param_offset * stack->param, stack->layer[k].params);
        count += stack_params(&stack->layer[k], block + stack->layer[k].params, stack->param,
                              pointer + count);
    }
}

void stack_run(const struct stack *stack, const ecornn_plan *plan, const struct arrays *in,
               struct arrays *out)
{
    struct memory memory;
    ecornn_sizes sizes;
    struct net_states states[LAYERS];
    void *params[PARAMS], *dparams[PARAMS];
    get_sizes(plan, &sizes);
    make_memory(stack, &sizes, in, &memory);
    point(stack, plan, memory.params, params), point(stack, plan, memory.dparams, dparams);
    for (int k = 0; k < stack->layers; k++)
        states[k] = states_of(&stack->layer[k], &memory.states[k]);
    const ecornn_io io = {.size = sizeof io,
                          .lengths = (const int32_t *)(void *)memory.lengths,
                          .resets = (const uint8_t *)memory.resets,
                          .mask = (const uint8_t *)memory.mask,
                          .x = memory.x,
                          .y = memory.y,
                          .weights = memory.weights,
                          .workspace = memory.workspace,
                          .reserve = memory.reserve,
                          .seed = SEED,
                          .first_step = stack_first_step(stack),
                          .workspace_bytes = sizes.workspace_bytes,
                          .reserve_bytes = sizes.reserve_bytes};
    const ecornn_gradient gradient = {
        .size = sizeof gradient, .dy = memory.dy, .dx = memory.dx, .dweights = memory.dweights};
    check_ok(ecornn_pack(plan, (const void *const *)params, NULL, memory.weights, NULL));
    check_ok(net_forward_all(plan, &io, states));
    for (int twice = 0; stack->trains && twice < 2; twice++)
        check_ok(net_backward_all(plan, &io, &gradient, states));
    if (stack->trains)
        check_ok(ecornn_unpack(plan, memory.dweights, dparams, 0, NULL));
    check_ok(ecornn_wait(stack->device, NULL));
    take_memory(stack, &memory, out);
}
