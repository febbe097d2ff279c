/*
 * The operator ecornn::layer: a run without gradients, with states and lengths.  Where Python is,
 * its kernels come first (_op.py); they have the other arguments, too.
 */
#include "python/native/layer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/native/operator.h"
#include "python/native/run.h"
#include "python/native/weights.h"

/* The operator's argument `shape`, in order. */
enum {
    SHAPE_INPUT,
    SHAPE_HIDDEN,
    SHAPE_LAYERS,
    SHAPE_BIAS,
    SHAPE_BOTH,
    SHAPE_PROJ,
    SHAPE_LIMIT,
    SHAPE_HEADS,
    SHAPE_GROUPED,
    SHAPE_MODELS,
    SHAPES
};

/* What a plan is made for. */
struct wish {
    int64_t shape[SHAPES], type, param_type;
    struct job_wish of; /* the run */
    uint32_t threads;
};

/* The arguments, all owned. */
struct arguments {
    struct tensors x, states, weights, ignored;
    torch_tensor *lengths;
    torch_string *cell;
    torch_list *shape;
    int64_t flags;
    bool ok, resets, mask, starts, batch_major, drop, keep;
};

static bool take_tensor(torch_value optional, struct tensors *all)
{
    torch_value value = 0;
    const bool given = torch_take(optional, &value);
    if (given)
        all->tensor[all->count++] = as_pointer(value);
    return given;
}

static bool take_list(torch_value optional, struct tensors *all)
{
    torch_value value = 0;
    return !torch_take(optional, &value) || tensors_take(all, as_pointer(value));
}

/* Takes the arguments of LAYER_SCHEMA off the stack. */
static void take_arguments(struct arguments *is, torch_value *stack)
{
    struct tensors starts = {.count = 0};
    memset(is, 0, sizeof *is);
    is->x.tensor[is->x.count++] = as_pointer(stack[0]);
    if (take_tensor(stack[1], &is->ignored))
        is->lengths = is->ignored.tensor[0];
    is->ok = take_list(stack[2], &is->states);
    is->ok = tensors_take(&is->weights, as_pointer(stack[3])) && is->ok;
    is->resets = take_tensor(stack[4], &is->ignored);
    take_list(stack[5], &starts);
    is->starts = starts.count > 0;
    tensors_end(&starts);
    is->mask = take_tensor(stack[6], &is->ignored);
    is->cell = as_pointer(stack[7]);
    is->shape = as_pointer(stack[8]);
    torch.torch_delete_string(as_pointer(stack[9])); /* what training saves */
    is->batch_major = stack[11];
    is->flags = (int64_t)stack[12];
    is->drop = stack[13];
    take_tensor(stack[14], &is->ignored); /* the seed */
    is->keep = stack[15];
}

static void end_arguments(struct arguments *is)
{
    tensors_end(&is->x);
    tensors_end(&is->states);
    tensors_end(&is->weights);
    tensors_end(&is->ignored);
    torch.torch_delete_list(is->shape);
    torch.torch_delete_string(is->cell);
}

static const char *refusal(const struct arguments *is, const struct wish *wish)
{
    const struct {
        bool found;
        const char *why;
    } cases[] = {
        {!is->ok, "too many tensors"},
        {is->drop || is->keep, "training needs Python's ecornn.torch"},
        {is->resets || is->starts || is->mask, "resets and mask need Python's ecornn.torch"},
        {is->flags & ECORNN_ALL_STATES, "all_states needs Python's ecornn.torch"},
        {wish->shape[SHAPE_MODELS] != 0, "an Ensemble needs Python's ecornn.torch"},
        {!library_find(NULL), "there is no libecornn.so.0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].found)
            return cases[i].why;
    return NULL;
}

/* The library's number of a tensor's type; 0: it has none. */
static int64_t type_of(torch_tensor *tensor)
{
    int32_t type = -1;
    torch.aoti_torch_get_dtype(tensor, &type);
    for (int64_t i = 0; i < 4; i++)
        if (torch_number.type[i] == type)
            return i + 1;
    return 0;
}

/* The numbers of `shape`, and what they can be. */
static const struct {
    const char *name;
    int64_t least, most;
} numbers[SHAPES] = {
    [SHAPE_INPUT] = {"input_size", 1, INT32_MAX},   [SHAPE_HIDDEN] = {"hidden_size", 1, INT32_MAX},
    [SHAPE_LAYERS] = {"num_layers", 1, 255},        [SHAPE_BIAS] = {"bias", 0, 1},
    [SHAPE_BOTH] = {"bidirectional", 0, 1},         [SHAPE_PROJ] = {"proj_size", 0, INT32_MAX},
    [SHAPE_LIMIT] = {"memory_limit", 0, INT64_MAX}, [SHAPE_HEADS] = {"heads", 1, INT32_MAX},
    [SHAPE_GROUPED] = {"grouped_input", 0, 1},      [SHAPE_MODELS] = {"models", 0, INT32_MAX}};
/* Bits of `flags`; `shape` has the others. */
static const int64_t FLAGS = ECORNN_FAST_MATH | ECORNN_ROW_INVARIANT | ECORNN_RESETS | ECORNN_MASK |
                             ECORNN_REPEAT_PADDING | ECORNN_ALL_STATES | ECORNN_SHARED_INPUT;

/* Shape and flags; returns what is wrong, or NULL. */
static const char *read_shape(const struct arguments *is, struct wish *wish)
{
    static _Thread_local char why[120];
    size_t count = 0;
    if (torch.torch_list_size(is->shape, &count) != TORCH_OK || count != SHAPES)
        return "shape must have ten numbers";
    for (size_t i = 0; i < SHAPES; i++) {
        torch_value value = 0;
        const bool ok = torch.torch_list_get_item(is->shape, i, &value) == TORCH_OK;
        const int64_t number = wish->shape[i] = (int64_t)value;
        if (!ok || number < numbers[i].least || number > numbers[i].most) {
            snprintf(why, sizeof why, "%s is %" PRId64 ", must be %" PRId64 " to %" PRId64,
                     numbers[i].name, number, numbers[i].least, numbers[i].most);
            return why;
        }
    }
    if ((is->flags & ~FLAGS) == 0)
        return NULL;
    snprintf(why, sizeof why, "flags is %" PRId64 ", must have no bits but those of %" PRId64,
             is->flags, FLAGS);
    return why;
}

static const char *read_wish(const struct arguments *is, struct wish *wish)
{
    torch_tensor *const x = is->x.tensor[0];
    torch_tensor *const first = is->weights.count ? is->weights.tensor[0] : x;
    int64_t rank = 0, *size = NULL;
    int32_t device_type = -1, device = 0;
    memset(wish, 0, sizeof *wish);
    torch.aoti_torch_get_dim(x, &rank);
    torch.aoti_torch_get_sizes(x, &size);
    torch.aoti_torch_get_device_type(x, &device_type);
    torch.aoti_torch_get_device_index(x, &device);
    torch.torch_get_num_threads(&wish->threads);
    const char *const why = read_shape(is, wish);
    if (why)
        return why;
    if (rank != 3 || size[0] < 1 || size[1] < 1 || size[0] > INT32_MAX || size[1] > INT32_MAX ||
        size[2] != wish->shape[SHAPE_INPUT])
        return "x must be [T,N,I] with at least one step and row, I the layer's input size";
    wish->type = type_of(x);
    wish->param_type = type_of(first);
    wish->of.cuda = device_type == torch_number.device[1];
    if (wish->type < 1 || wish->param_type < 1 ||
        (!wish->of.cuda && device_type != torch_number.device[0]))
        return "x and weights must be of floats on a CPU or CUDA device";
    if (wish->param_type != wish->type &&
        (wish->param_type != ECORNN_F32 || wish->type == ECORNN_F64))
        return "weights must have x's type, or float32 with a 16-bit x";
    wish->of.device = wish->of.cuda ? device : 0;
    wish->of.steps = size[is->batch_major];
    wish->of.batch = size[!is->batch_major];
    return NULL;
}

/* The problem's text, for the bucket of T and N. */
static void write_problem(const struct arguments *is, const struct wish *wish, char *text,
                          size_t size)
{
    static const char *const types[] = {"", "f32", "f64", "bf16", "f16"};
    const int64_t *const shape = wish->shape;
    const bool both = shape[SHAPE_BOTH], grouped = shape[SHAPE_GROUPED], proj = shape[SHAPE_PROJ];
    const bool lower = wish->param_type == ECORNN_BF16 || wish->param_type == ECORNN_F16;
    const struct {
        bool is;
        const char *part;
    } parts[] = {{both, "/bi"},
                 {grouped, "/grouped-input"},
                 {is->batch_major, "/batch-major"},
                 {is->flags & ECORNN_FAST_MATH, "/fast"},
                 {is->flags & ECORNN_ROW_INVARIANT, "/row-invariant"},
                 {is->flags & ECORNN_RESETS, "/resets"},
                 {is->flags & ECORNN_MASK, "/mask"},
                 {is->flags & ECORNN_REPEAT_PADDING, "/repeat-padding"},
                 {is->flags & ECORNN_SHARED_INPUT, "/shared-x"}};
    int end = snprintf(text, size, "cell/%s/L%d/T%d/N%d/I%d/H%d", types[wish->type],
                       (int)shape[SHAPE_LAYERS], library.bucket((int32_t)wish->of.steps),
                       library.bucket((int32_t)wish->of.batch), (int)shape[SHAPE_INPUT],
                       (int)shape[SHAPE_HIDDEN]);
    if (proj)
        end += snprintf(text + end, size - (size_t)end, "/P%d", (int)shape[SHAPE_PROJ]);
    if (shape[SHAPE_HEADS] > 1)
        end += snprintf(text + end, size - (size_t)end, "/heads:%d", (int)shape[SHAPE_HEADS]);
    if (lower)
        end += snprintf(text + end, size - (size_t)end, "/%s-params", types[wish->param_type]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].is)
            end += snprintf(text + end, size - (size_t)end, "%s", parts[i].part);
}

/* The tensor, or a plain copy of it, which the caller drops; NULL: it has another type or device.
 */
static torch_tensor *dense(const struct job *job, torch_tensor *tensor, int32_t type)
{
    torch_tensor *found = NULL;
    struct shape shape = {.rank = 0};
    int64_t *size = NULL, stride = 1;
    if (!tensor_fits(job, tensor, type))
        return NULL;
    torch.aoti_torch_get_dim(tensor, &shape.rank);
    torch.aoti_torch_get_sizes(tensor, &size);
    if (tensor_is_plain(tensor, type) || shape.rank > MOST_RANK)
        return torch.aoti_torch_new_tensor_handle(tensor, &found) == TORCH_OK ? found : NULL;
    for (int64_t i = shape.rank; i-- > 0; stride *= size[i]) {
        shape.size[i] = size[i];
        shape.stride[i] = stride;
    }
    found = make(job, &shape, type);
    if (found && torch.aoti_torch_copy_(found, tensor, 0) != TORCH_OK) {
        drop(found);
        return NULL;
    }
    return found;
}

static void push(struct call *call, torch_tensor *tensor, int32_t type)
{
    torch_tensor *const made = call->ok ? dense(call->job, tensor, type) : NULL;
    call->ok = made && call->in.count < MOST_TENSORS;
    if (call->ok)
        call->in.tensor[call->in.count++] = made;
    else
        drop(made);
}

/* Makes the block hold these weights, packed. */
static bool fill(const struct job *job, struct block *block, torch_tensor *const *weights)
{
    enum { ALIGNED = 64 };
    const int64_t bytes = job->packed + job->layout->bytes;
    if (block->memory && weights_hold(job, weights, (struct packed){block->memory, bytes}))
        return true;
    if (!block->memory)
        block->memory = aligned_alloc(ALIGNED, ((size_t)bytes + ALIGNED) / ALIGNED * ALIGNED);
    const bool ok =
        block->memory && pack_weights(job, weights, (struct packed){block->memory, bytes}, NULL);
    if (!ok) {
        free(block->memory);
        block->memory = NULL;
    }
    return ok;
}

/* On a CPU one call at a time uses the packed weights that are kept; others pack for themselves. */
static void run(struct call *call, struct arguments *is)
{
    const struct job *const job = call->job;
    struct block *const block = job->of->block;
    const size_t first = call->in.count;
    const bool locked = !job->cuda && job->packed > 0 && pthread_mutex_trylock(&block->lock) == 0;
    call->ok = is->weights.count == (size_t)job->layout->arrays;
    for (size_t i = 0; i < is->weights.count; i++)
        push(call, is->weights.tensor[i], torch_type(job->of->desc.param_type));
    if (locked && call->ok && fill(job, block, call->in.tensor + first))
        call->packed = block->memory;
    if (call->ok)
        run_forward(call, 0);
    if (locked)
        pthread_mutex_unlock(&block->lock);
}

static const char *forward(struct call *call, struct arguments *is)
{
    const struct job *const job = call->job;
    const int32_t type = torch_type(job->of->desc.type);
    if (is->states.count != 0 && is->states.count != (size_t)job->of->states)
        return "wrong number of initial states";
    call->ok = !job->cuda || torch_stream((int32_t)job->device, &call->stream);
    push(call, is->x.tensor[0], type);
    if (is->lengths) {
        call->given |= GIVEN_LENGTHS;
        push(call, is->lengths, torch_number.int32);
    }
    for (size_t i = 0; i < is->states.count; i++) {
        call->given |= GIVEN_STATE << i;
        push(call, is->states.tensor[i], type);
    }
    if (call->ok)
        run(call, is);
    if (!call->ok)
        return "a tensor has another shape, type or device than the layer, or a length is wrong";
    if (!call->packed) /* the last result is the packed weights */
        drop(call->out.tensor[--call->out.count]);
    for (int i = 0; i < 2; i++) /* what is kept for a gradient: nothing */
        result(&call->out, make_bytes(job, 0), &call->ok);
    return NULL;
}

/* Finds the plan of that cell and makes its job; returns what is wrong, or NULL. */
static const char *find_job(const struct arguments *is, const struct wish *wish, struct plan **plan,
                            struct job *job)
{
    const char *cell = "";
    size_t bytes = 0;
    char device[32], problem[320];
    torch.torch_string_c_str(is->cell, &cell);
    torch.torch_string_length(is->cell, &bytes);
    if (strlen(cell) != bytes)
        return "cell has a zero byte";
    const bool is_text = strpbrk(cell, "\n\v") != NULL;
    /* ecornn/torch/_op.py ends lines by vertical tabs; the string is ours. */
    for (char *at = (char *)(uintptr_t)cell; (at = strchr(at, '\v'));)
        *at = '\n';
    snprintf(device, sizeof device, wish->of.cuda ? "cuda:%d" : "cpu:%d",
             (int)(wish->of.cuda ? wish->of.device : wish->threads));
    write_problem(is, wish, problem, sizeof problem);
    const struct span texts[TEXTS] = {
        {device, strlen(device)}, {problem, strlen(problem)}, {cell, bytes}};
    const ecornn_status status =
        plan_hold(plan, texts, plan_kind(cell, wish->shape[SHAPE_BIAS] != 0));
    if (status != ECORNN_OK)
        return status == ECORNN_BAD_CELL && !is_text ? "there is no such cell"
               : status == ECORNN_NO_MEMORY          ? "no memory"
                                                     : library.error_detail();
    return job_of(job, *plan, &wish->of);
}

void operator_layer(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct arguments is;
    struct wish wish;
    struct job job;
    struct call call = {.job = &job, .ok = false};
    struct plan *plan = NULL;
    (void)arguments;
    (void)count;
    take_arguments(&is, stack);
    const char *why = read_wish(&is, &wish);
    if (!why)
        why = refusal(&is, &wish);
    if (!why)
        why = find_job(&is, &wish, &plan, &job);
    if (!why)
        why = forward(&call, &is);
    char text[600];
    snprintf(text, sizeof text, "ecornn::layer: %s", why ? why : "no memory");
    stack[0] = results_end(&call.out, call.ok);
    tensors_end(&call.in);
    plan_let_go(plan);
    const bool ok = call.ok;
    end_arguments(&is);
    if (!ok)
        torch_raise(text);
}
