/*
 * Makes and keeps the plans of stacks of layers.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* for dladdr */
#endif
#include "python/native/stack.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/native/operator.h"

static const char *const planning_names[] = {
    "ecornn_cell_parse", "ecornn_cell_states", "ecornn_device_open", "ecornn_plan_create_desc",
    "ecornn_plan_free",  "ecornn_cell_free",   "ecornn_plan_sizes",  "ecornn_run_sizes",
    "ecornn_bucket",     "ecornn_param_get",   "ecornn_weights_fit", "ecornn_error_detail"};
static const char *const library_names[] = {"ecornn_forward", "ecornn_backward", "ecornn_pack",
                                            "ecornn_unpack"};
static struct planning planning;
static bool planning_found;

static const char library_name[] = "libecornn.so.0";
static void *library_opened; /* never closed: plans use it */

/* Now, because this module's name may be relative: later it may name another folder. */
__attribute__((constructor)) static void open_library(void)
{
    static const char *const places[] = {"/", "/../"};
    Dl_info self;
    void *found = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    const bool placed = dladdr(planning_names, &self) != 0 && strrchr(self.dli_fname, '/') != NULL;
    for (size_t i = 0; !found && placed && i < sizeof places / sizeof *places; i++) {
        char path[4096];
        const int folder = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
        snprintf(path, sizeof path, "%.*s%s%s", folder, self.dli_fname, places[i], library_name);
        found = dlopen(path, RTLD_NOW);
    }
    library_opened = found ? found : dlopen(library_name, RTLD_NOW);
}

static bool find_all(void *from, const char *const *names, size_t count, void *functions)
{
    void *found[sizeof planning_names / sizeof *planning_names];
    for (size_t i = 0; i < count; i++)
        if (!(found[i] = dlsym(from, names[i])))
            return false;
    memcpy(functions, found, count * sizeof *found);
    return true;
}

static void find_functions(void)
{
    void *const from =
        library_opened ? library_opened : dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    struct library found;
    _Static_assert(sizeof planning == sizeof planning_names, "one function a name");
    _Static_assert(sizeof found == sizeof library_names, "one function a name");
    planning_found =
        from && find_all(from, planning_names, sizeof planning_names / sizeof(char *), &planning) &&
        find_all(from, library_names, sizeof library_names / sizeof(char *), &found);
    if (planning_found && !library.forward) /* else Python gave them */
        library = found;
}

const struct planning *planning_find(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    return pthread_once(&once, find_functions) == 0 && planning_found ? &planning : NULL;
}

/* ---- parameters and torch's tensors ---------------------------------------------------------- */

/* torch's cells have two biases for a gate, the library one, their sum, except gru's n; gate of
 * each of the library's vectors, 's' sum, 'h' of weight_hh's bias, 'i' of weight_ih's. */
static const struct twin {
    const char *cell;
    int64_t gates;
    const char *kind, *gate;
} twins[] = {{"lstm", 4, "ssss", "\0\1\2\3"},
             {"gru", 3, "sshi", "\0\1\2\2"},
             {"rnn-tanh", 1, "s", "\0"},
             {"rnn-relu", 1, "s", "\0"}};

/* Tensors of a pair of layer and direction, in torch's order; without twins BIAS_IH is b, and
 * BIAS_HH is p. */
enum tensor_kind { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, WEIGHT_HR, TENSORS };

struct pair {
    int64_t rows[TENSORS], cols[TENSORS]; /* cols 0: a vector */
    int64_t number[TENSORS];              /* of the tensor in the pair */
    int64_t count;
};

struct param {
    int64_t pair, turn;
    enum tensor_kind kind;
};

static bool read_param(const struct stack *stack, int index, ecornn_param *is, struct param *param)
{
    is->size = sizeof *is;
    int layer = 0;
    char direction[4] = "", kind[8] = "";
    if (planning.param_get(stack->plan, index, is) != ECORNN_OK ||
        sscanf(is->name, "%d.%3[a-z].%7[A-Za-z]", &layer, direction, kind) != 3)
        return false;
    static const char *const kinds[] = {"W", "R", "b", "p"};
    param->kind = WEIGHT_HR;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0)
            param->kind = (enum tensor_kind)i;
    param->pair = layer * (1 + stack->wish.shape[SHAPE_BOTH]) + (strcmp(direction, "fwd") != 0);
    return true;
}

static const struct twin *twin_of(const char *cell)
{
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (strcmp(cell, twins[i].cell) == 0)
            return &twins[i];
    return NULL;
}

/* Adds a parameter to its tensor, and finds its turn among those of its kind. */
static void grow(struct pair *pair, const ecornn_param *is, struct param *param, int64_t *turns)
{
    param->turn = turns[param->kind]++;
    pair->rows[param->kind] += is->rows;
    pair->cols[param->kind] = param->kind == BIAS_IH || param->kind == BIAS_HH ? 0 : is->cols;
}

static void number_tensors(const struct stack *stack, struct pair *pair)
{
    const struct twin *const twin = twin_of(stack->cell);
    const bool bias = stack->wish.shape[SHAPE_BIAS];
    if (twin)
        pair->rows[BIAS_IH] = pair->rows[BIAS_HH] =
            bias ? twin->gates * stack->wish.shape[SHAPE_HIDDEN] : 0;
    else if (!bias)
        pair->rows[BIAS_IH] = 0;
    for (int kind = 0; kind < TENSORS; kind++)
        if (pair->rows[kind])
            pair->number[kind] = pair->count++;
}

/* The places of a parameter: source, what is added, and the gradient's, which inference lacks. */
static void place(const struct stack *stack, const struct pair *pair, const struct param *param,
                  int64_t first, int64_t bytes, int64_t size, int64_t *from, int64_t *more)
{
    const struct twin *const twin = twin_of(stack->cell);
    enum tensor_kind kind = param->kind;
    int64_t turn = param->turn;
    from[0] = more[0] = -1;
    from[1] = more[1] = 0;
    if (kind == BIAS_IH && !stack->wish.shape[SHAPE_BIAS])
        return;
    if (kind == BIAS_IH && twin) {
        turn = twin->gate[param->turn];
        if (twin->kind[param->turn] == 'h')
            kind = BIAS_HH;
        if (twin->kind[param->turn] == 's') {
            more[0] = first + pair->number[BIAS_HH];
            more[1] = turn * bytes * size;
        }
    }
    from[0] = first + pair->number[kind];
    from[1] = turn * bytes * size;
}

/* Numbers of shapes of weights, then places of parameters, as struct job reads them. */
static bool find_places(struct stack *stack)
{
    const int64_t pairs = stack->wish.shape[SHAPE_LAYERS] * (1 + stack->wish.shape[SHAPE_BOTH]);
    static const int64_t sizes[] = {0, 4, 8, 2, 2}; /* of each ecornn_type */
    const int count = (int)stack->params;           /* may be 0 */
    struct pair *const pair = calloc((size_t)pairs, sizeof *pair);
    int64_t(*const turns)[TENSORS] = calloc((size_t)pairs, sizeof *turns);
    struct param *const param = calloc((size_t)count + 1, sizeof *param);
    ecornn_param *const is = calloc((size_t)count + 1, sizeof *is);
    bool ok = pair && turns && param && is;
    for (int i = 0; ok && i < count; i++) {
        ok = read_param(stack, i, &is[i], &param[i]) && param[i].pair < pairs;
        if (ok)
            grow(&pair[param[i].pair], &is[i], &param[i], turns[param[i].pair]);
    }
    stack->numbers = ok ? calloc((size_t)(pairs * TENSORS * 3 + count * 8), 8) : NULL;
    int64_t *next = stack->numbers;
    for (int64_t i = 0; next && i < pairs; i++) {
        number_tensors(stack, &pair[i]);
        for (int kind = 0; kind < TENSORS; kind++)
            if (pair[i].rows[kind]) {
                *next++ = pair[i].cols[kind] ? 2 : 1;
                *next++ = pair[i].rows[kind];
                if (pair[i].cols[kind])
                    *next++ = pair[i].cols[kind];
            }
        stack->weights += pair[i].count;
    }
    for (int i = 0; next && i < count; i++) {
        int64_t first = 0;
        for (int64_t before = 0; before < param[i].pair; before++)
            first += pair[before].count;
        place(stack, &pair[param[i].pair], &param[i], first, (int64_t)is[i].rows * is[i].cols,
              sizes[stack->wish.param_type], next + 2 * i, next + 2 * (count + i));
        next[2 * (2 * count + i)] = next[2 * (3 * count + i)] = -1;
    }
    if (next)
        stack->some = next - stack->numbers + 8 * (int64_t)count;
    free(pair);
    free(turns);
    free(param);
    free(is);
    return stack->numbers != NULL;
}

/* ---- plans ----------------------------------------------------------------------------------- */

enum { MOST_STACKS = 4096 };
static struct {
    pthread_mutex_t lock;
    struct stack *stack[MOST_STACKS];
    size_t count, oldest;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Is it a text, not a name?  ecornn/torch/_op.py ends its lines by vertical tabs. */
static bool is_text(const char *cell)
{
    return strpbrk(cell, "\n\v") != NULL;
}

static bool find_cell(struct stack *stack)
{
    char *const text = strdup(stack->cell);
    for (char *at = text; at && (at = strchr(at, '\v'));)
        *at = '\n';
    const bool found = text && planning.cell_parse(&stack->recipe, text) == ECORNN_OK;
    free(text);
    return found;
}

static bool plan(struct stack *stack)
{
    const struct wish *const wish = &stack->wish;
    char name[32];
    snprintf(name, sizeof name, wish->cuda ? "cuda:%d" : "cpu:%d",
             (int)(wish->cuda ? wish->device : wish->threads));
    const ecornn_desc desc = {.size = sizeof desc,
                              .cell = stack->recipe,
                              .input = (int32_t)wish->shape[SHAPE_INPUT],
                              .hidden = (int32_t)wish->shape[SHAPE_HIDDEN],
                              .proj = (int32_t)wish->shape[SHAPE_PROJ],
                              .layers = (int32_t)wish->shape[SHAPE_LAYERS],
                              .steps = (int32_t)wish->steps,
                              .batch = (int32_t)wish->batch,
                              .type = (ecornn_type)wish->type,
                              .param_type = (ecornn_type)wish->param_type,
                              .flags =
                                  (uint32_t)wish->flags |
                                  (wish->shape[SHAPE_BOTH] ? (uint32_t)ECORNN_BIDIRECTIONAL : 0) |
                                  (wish->batch_major ? (uint32_t)ECORNN_BATCH_MAJOR : 0) |
                                  (wish->shape[SHAPE_GROUPED] ? (uint32_t)ECORNN_GROUPED_INPUT : 0),
                              .heads = (int32_t)wish->shape[SHAPE_HEADS]};
    ecornn_device *device = NULL;
    ecornn_sizes sizes = {.size = sizeof sizes};
    int states = 0;
    if (planning.device_open(&device, name) != ECORNN_OK ||
        planning.plan_create(&stack->plan, device, &desc) != ECORNN_OK ||
        planning.plan_sizes(stack->plan, &sizes) != ECORNN_OK ||
        planning.cell_states(desc.cell, &states, NULL) != ECORNN_OK)
        return false;
    stack->packed = sizes.weight_bytes;
    stack->params = sizes.param_count;
    stack->states = states;
    return find_places(stack);
}

/* The block of a stack that differs in T and N only and packs alike, or a new one. */
static struct block *block_of(const struct stack *stack)
{
    for (size_t i = 0; i < kept.count; i++)
        if (memcmp(&kept.stack[i]->wish, &stack->wish, offsetof(struct wish, steps)) == 0 &&
            strcmp(kept.stack[i]->cell, stack->cell) == 0 &&
            planning.weights_fit(kept.stack[i]->plan, stack->plan) == ECORNN_OK)
            return kept.stack[i]->block;
    struct block *const block = calloc(1, sizeof *block);
    if (block)
        pthread_mutex_init(&block->lock, NULL);
    return block;
}

static void free_stack(struct stack *stack)
{
    struct block *const block = stack->block;
    if (block && --block->users == 0) {
        drop(block->packed);
        pthread_mutex_destroy(&block->lock);
        free(block);
    }
    if (!stack->wish.cuda) /* else a queued run may still read them: some bytes are left */
        drop(stack->zeros);
    planning.plan_free(stack->plan);
    planning.cell_free(stack->recipe);
    free(stack->numbers);
    free(stack->cell);
    free(stack);
}

/* NULL: the cell is known and everything else could be made. */
static const char *fill_stack(struct stack *stack, const char *cell)
{
    const struct job on = {.cuda = stack->wish.cuda, .device = stack->wish.device};
    static _Thread_local char detail[500]; /* the library's may change when the stack is freed */
    if (!(stack->cell = strdup(cell)))
        return "no memory";
    const bool known = find_cell(stack);
    if (!known && !is_text(cell))
        return "there is no such cell";
    if (!known || !plan(stack)) {
        snprintf(detail, sizeof detail, "%s", planning.error_detail());
        return *detail ? detail : "no memory";
    }
    if (stack->weights > MOST_WEIGHTS || stack->params > MOST_PARAMS)
        return "so many layers need Python's ecornn.torch";
    if (!(stack->block = block_of(stack)))
        return "no memory";
    stack->block->users++;
    stack->zeros = make_bytes(&on, stack->wish.shape[SHAPE_HIDDEN] * 8);
    const bool ok = stack->zeros && torch.aoti_torch_zero_(stack->zeros) == TORCH_OK;
    return ok ? NULL : "no memory";
}

static void release(struct stack *stack)
{
    if (--stack->users == 0)
        free_stack(stack);
}

/* Keeps the stack, in the place of the oldest if there is no other. */
static void keep(struct stack *stack)
{
    stack->users++;
    if (kept.count < MOST_STACKS) {
        kept.stack[kept.count++] = stack;
        return;
    }
    release(kept.stack[kept.oldest]);
    kept.stack[kept.oldest] = stack;
    kept.oldest = (kept.oldest + 1) % MOST_STACKS;
}

static struct stack *make_stack(const struct wish *wish, const char *cell, const char **why)
{
    struct stack *const stack = calloc(1, sizeof *stack);
    *why = "no memory";
    if (!stack)
        return NULL;
    stack->wish = *wish;
    if ((*why = fill_stack(stack, cell)) != NULL) {
        free_stack(stack);
        return NULL;
    }
    keep(stack);
    return stack;
}

struct stack *stack_hold(const struct wish *wish, const char *cell, const char **why)
{
    struct stack *found = NULL;
    struct wish in = *wish;
    in.steps = planning.bucket((int32_t)wish->steps);
    in.batch = planning.bucket((int32_t)wish->batch);
    pthread_mutex_lock(&kept.lock);
    for (size_t i = 0; !found && i < kept.count; i++)
        if (memcmp(&kept.stack[i]->wish, &in, sizeof in) == 0 &&
            strcmp(kept.stack[i]->cell, cell) == 0)
            found = kept.stack[i];
    if (!found)
        found = make_stack(&in, cell, why);
    if (found)
        found->users++;
    pthread_mutex_unlock(&kept.lock);
    return found;
}

void stack_let_go(struct stack *stack)
{
    if (!stack)
        return;
    pthread_mutex_lock(&kept.lock);
    release(stack);
    pthread_mutex_unlock(&kept.lock);
}

int64_t stack_job(const struct stack *stack, const int64_t *x, int64_t steps, int64_t batch)
{
    const int64_t *const shape = stack->wish.shape;
    const int64_t directions = 1 + shape[SHAPE_BOTH];
    const int64_t width = shape[SHAPE_PROJ] ? shape[SHAPE_PROJ] : shape[SHAPE_HIDDEN];
    ecornn_sizes sizes = {.size = sizeof sizes};
    void *zeros = data_of(stack->zeros);
    int64_t head[23 + 4 * ECORNN_MAX_STATES] = {0};
    if (planning.run_sizes(stack->plan, (int32_t)steps, (int32_t)batch, &sizes) != ECORNN_OK)
        return 0;
    const int64_t first[] = {(int64_t)(intptr_t)stack->plan,
                             0, /* no reserve */
                             (int64_t)sizes.workspace_bytes,
                             (int64_t)stack->packed,
                             0, /* no gradient */
                             stack->wish.cuda,
                             stack->wish.device,
                             stack->wish.type,
                             stack->wish.param_type,
                             steps,
                             batch,
                             stack->states,
                             stack->weights,
                             stack->params,
                             (int64_t)(intptr_t)zeros,
                             3,
                             x[0],
                             x[1],
                             x[2],
                             3,
                             x[0],
                             x[1],
                             directions * width};
    memcpy(head, first, sizeof first);
    size_t count = sizeof first / sizeof *first;
    for (int64_t i = 0; i < stack->states; i++) {
        const int64_t state[] = {3, shape[SHAPE_LAYERS] * directions, batch,
                                 i ? shape[SHAPE_HIDDEN] : width};
        memcpy(head + count, state, sizeof state);
        count += 4;
    }
    int64_t *const numbers = malloc((count + (size_t)stack->some) * sizeof *numbers);
    if (!numbers)
        return 0;
    memcpy(numbers, head, count * sizeof *numbers);
    memcpy(numbers + count, stack->numbers, (size_t)stack->some * sizeof *numbers);
    const int64_t job = job_make(numbers, count + (size_t)stack->some);
    free(numbers);
    return job;
}
