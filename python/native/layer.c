/*
 * The operator ecornn::layer: a run without gradients, with states and lengths.  Where Python is,
 * its kernels come first (_op.py); they have the other arguments, too.
 */
#include "python/native/layer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "python/native/operator.h"
#include "python/native/run.h"
#include "python/native/stack.h"
#include "python/native/weights.h"

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
        {!planning_find(), "there is no libecornn.so.0"}};
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
    [SHAPE_LAYERS] = {"num_layers", 1, INT32_MAX},  [SHAPE_BIAS] = {"bias", 0, 1},
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
    wish->shape[SHAPE_LIMIT] = 0; /* of training */
    wish->flags = is->flags;
    if ((wish->flags & ~FLAGS) == 0)
        return NULL;
    snprintf(why, sizeof why, "flags is %" PRId64 ", must have no bits but those of %" PRId64,
             wish->flags, FLAGS);
    return why;
}

/* What the plan is for; *size: x's. */
static const char *read_wish(const struct arguments *is, struct wish *wish, int64_t **size)
{
    torch_tensor *const x = is->x.tensor[0];
    torch_tensor *const first = is->weights.count ? is->weights.tensor[0] : x;
    int64_t rank = 0;
    int32_t device_type = -1, device = 0;
    uint32_t threads = 1;
    memset(wish, 0, sizeof *wish);
    torch.aoti_torch_get_dim(x, &rank);
    torch.aoti_torch_get_sizes(x, size);
    torch.aoti_torch_get_device_type(x, &device_type);
    torch.aoti_torch_get_device_index(x, &device);
    torch.torch_get_num_threads(&threads);
    const char *const why = read_shape(is, wish);
    if (why)
        return why;
    if (rank != 3 || (*size)[0] < 1 || (*size)[1] < 1 || (*size)[0] > INT32_MAX ||
        (*size)[1] > INT32_MAX || (*size)[2] != wish->shape[SHAPE_INPUT])
        return "x must be [T,N,I] with at least one step and row, I the layer's input size";
    wish->type = type_of(x);
    wish->param_type = type_of(first);
    wish->cuda = device_type == torch_number.device[1];
    if (wish->type < 1 || wish->param_type < 1 ||
        (!wish->cuda && device_type != torch_number.device[0]))
        return "x and weights must be of floats on a CPU or CUDA device";
    if (wish->param_type != wish->type &&
        (wish->param_type != ECORNN_F32 || wish->type == ECORNN_F64))
        return "weights must have x's type, or float32 with a 16-bit x";
    wish->device = wish->cuda ? device : 0;
    wish->threads = wish->cuda ? 0 : threads;
    wish->batch_major = is->batch_major;
    wish->steps = (*size)[is->batch_major ? 1 : 0];
    wish->batch = (*size)[is->batch_major ? 0 : 1];
    return NULL;
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
    const int64_t bytes = job->packed + job->copy;
    struct packed packed = {data_of(block->packed), bytes};
    if (packed.data && weights_hold(job, weights, packed))
        return true;
    if (!block->packed)
        block->packed = make_bytes(job, bytes);
    packed.data = data_of(block->packed);
    const bool ok = packed.data && pack_weights(job, weights, packed, NULL);
    if (!ok) {
        drop(block->packed);
        block->packed = NULL;
    }
    return ok;
}

/* On a CPU one call at a time uses the packed weights that are kept; others pack for themselves. */
static void run(struct call *call, const struct stack *stack, struct arguments *is)
{
    const struct job *const job = call->job;
    struct block *const block = stack->block;
    const size_t first = call->in.count;
    const bool locked = !job->cuda && job->packed > 0 && pthread_mutex_trylock(&block->lock) == 0;
    call->ok = is->weights.count == (size_t)job->weights;
    for (size_t i = 0; i < is->weights.count; i++)
        push(call, is->weights.tensor[i], torch_type(job->param_type));
    if (locked && call->ok && fill(job, block, call->in.tensor + first)) {
        for (size_t i = first; i < call->in.count; i++)
            drop(call->in.tensor[i]);
        call->in.count = first;
        call->given |= GIVEN_PACKED;
        push(call, block->packed, torch_number.byte);
    }
    if (call->ok)
        run_forward(call, 0);
    if (locked)
        pthread_mutex_unlock(&block->lock);
}

static const char *forward(struct call *call, struct arguments *is, const struct stack *stack)
{
    const struct job *const job = call->job;
    const int32_t type = torch_type(job->type);
    if (is->states.count != 0 && is->states.count != (size_t)job->states)
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
        run(call, stack, is);
    if (!call->ok)
        return "a tensor has another shape, type or device than the layer, or a length is wrong";
    if (!(call->given & GIVEN_PACKED)) /* the last result is the packed weights */
        drop(call->out.tensor[--call->out.count]);
    for (int i = 0; i < 2; i++) /* what is kept for a gradient: nothing */
        result(&call->out, make_bytes(job, 0), &call->ok);
    return NULL;
}

void operator_layer(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct arguments is;
    struct wish wish;
    struct call call = {.ok = false};
    struct stack *held = NULL;
    int64_t *size = NULL, job = 0;
    const char *cell = NULL;
    size_t bytes = 0;
    (void)arguments;
    (void)count;
    take_arguments(&is, stack);
    const char *why = read_wish(&is, &wish, &size);
    if (!why)
        why = refusal(&is, &wish);
    if (!why && torch.torch_string_c_str(is.cell, &cell) == TORCH_OK &&
        torch.torch_string_length(is.cell, &bytes) == TORCH_OK && strlen(cell) != bytes)
        why = "cell has a zero byte";
    if (!why && cell) {
        held = stack_hold(&wish, cell, &why);
        job = held ? stack_job(held, size, wish.steps, wish.batch) : 0;
        call.job = job ? job_hold(job) : NULL;
        if (call.job)
            why = forward(&call, &is, held);
    }
    char text[600];
    snprintf(text, sizeof text, "ecornn::layer: %s", why ? why : "no memory");
    stack[0] = results_end(&call.out, call.ok);
    tensors_end(&call.in);
    job_let_go(call.job);
    if (job)
        job_drop(job);
    stack_let_go(held);
    const bool ok = call.ok;
    end_arguments(&is);
    if (!ok)
        torch_raise(text);
}
