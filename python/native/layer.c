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

/* What a plan is made for, but for the problem's text. */
struct wish {
    int64_t type, param_type;
    struct job_wish of; /* the run */
    uint32_t threads;
};

/* The arguments, all owned. */
struct arguments {
    struct tensors x, states, weights, ignored;
    torch_tensor *lengths;
    torch_string *cell, *problem;
    bool ok, resets, mask, starts, drop, keep;
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
    is->problem = as_pointer(stack[8]);
    torch.torch_delete_string(as_pointer(stack[9])); /* parts of training runs */
    is->drop = stack[11];
    take_tensor(stack[12], &is->ignored); /* the seed */
    is->keep = stack[13];
}

static void end_arguments(struct arguments *is)
{
    tensors_end(&is->x);
    tensors_end(&is->states);
    tensors_end(&is->weights);
    tensors_end(&is->ignored);
    torch.torch_delete_string(is->cell);
    torch.torch_delete_string(is->problem);
}

struct refused {
    bool found;
    const char *why;
};

static const char *first_of(const struct refused *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (cases[i].found)
            return cases[i].why;
    return NULL;
}

static const char *refusal(const struct arguments *is)
{
    const struct refused cases[] = {
        {!is->ok, "too many tensors"},
        {is->drop || is->keep, "training needs Python's ecornn.torch"},
        {is->resets || is->starts || is->mask, "resets and mask need Python's ecornn.torch"},
        {!library_find(NULL), "there is no libecornn"}};
    return first_of(cases, sizeof cases / sizeof *cases);
}

/* Why this operator refuses a problem that the library would take; NULL: it does not. */
static const char *refusal_of(const ecornn_desc *desc, const struct wish *wish, int64_t input)
{
    static const uint32_t flags = ECORNN_FAST_MATH | ECORNN_ROW_INVARIANT | ECORNN_REPEAT_PADDING |
                                  ECORNN_BIDIRECTIONAL | ECORNN_GROUPED_INPUT | ECORNN_BATCH_MAJOR;
    const struct refused cases[] = {
        {desc->flags & ECORNN_ALL_STATES, "all_states needs Python's ecornn.torch"},
        {desc->models > 1, "an Ensemble needs Python's ecornn.torch"},
        {desc->flags & ~flags || desc->weight_type || desc->param_type != wish->param_type,
         "problem must have no parts but sizes, bi, grouped-input, batch-major, fast, "
         "row-invariant and repeat-padding"},
        {desc->input != input, "x must be [T,N,I], I the layer's input size"}};
    return first_of(cases, sizeof cases / sizeof *cases);
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

static const char *read_wish(const struct arguments *is, const char *problem, struct wish *wish)
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
    if (rank != 3 || size[0] < 1 || size[1] < 1 || size[0] > INT32_MAX || size[1] > INT32_MAX)
        return "x must be [T,N,I] with at least one step and row";
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
    const bool batch_major = strstr(problem, "batch-major") != NULL;
    wish->of.steps = size[batch_major];
    wish->of.batch = size[!batch_major];
    return NULL;
}

/* The problem string for the bucket of T and N; false: it is too long. */
static bool write_problem(const char *problem, const struct wish *wish, char *text, size_t size)
{
    static const char *const types[] = {"", "f32", "f64", "bf16", "f16"};
    static const char *const params[] = {"", "", "", "/bf16-params", "/f16-params"};
    const int end =
        snprintf(text, size, "cell/%s/T%d/N%d/%s%s", types[wish->type],
                 library.bucket((int32_t)wish->of.steps), library.bucket((int32_t)wish->of.batch),
                 problem, params[wish->param_type]);
    return end > 0 && (size_t)end < size;
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

/* On a CPU the weights are packed where they have changed; on a GPU the run does it. */
static bool find_packed(struct call *call, torch_tensor *const *weights, struct packed **packed)
{
    const struct job *const job = call->job;
    char *start[MOST_TENSORS];
    const struct packing from = {.start = start, .device = job->of->device};
    if (job->cuda || job->packed == 0)
        return true;
    if (!weights_starts(job, weights, start) ||
        packs_hold(&job->of->block->packs, job->of, &from, packed) != ECORNN_OK)
        return false;
    call->packed = (*packed)->weights->at;
    return true;
}

static void run(struct call *call, struct arguments *is)
{
    const struct job *const job = call->job;
    struct packed *packed = NULL;
    const size_t first = call->in.count;
    call->ok = is->weights.count == (size_t)job->layout->arrays;
    for (size_t i = 0; i < is->weights.count; i++)
        push(call, is->weights.tensor[i], torch_type(job->of->desc.param_type));
    if (call->ok)
        call->ok = find_packed(call, call->in.tensor + first, &packed);
    if (call->ok)
        run_forward(call, 0);
    packed_drop(packed);
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

/* The plan of that cell and problem, and its job; returns what is wrong, or NULL. */
static const char *find_job(const struct span *texts, const struct wish *wish, bool bias,
                            struct plan **plan, struct job *job)
{
    const char *const cell = texts[OF_CELL].at;
    const bool is_text = strpbrk(cell, "\n") != NULL;
    const ecornn_status status = plan_hold(plan, texts, plan_kind(cell, bias));
    if (status != ECORNN_OK)
        return status == ECORNN_BAD_CELL && !is_text ? "there is no such cell" : error_text(status);
    return job_of(job, *plan, &wish->of);
}

/* The number of weights tells if the layer has biases; the rank of one, what to try first. */
static const char *find_layer(const struct arguments *is, const struct span *texts,
                              const struct wish *wish, struct plan **plan, struct job *job)
{
    bool bias = false;
    int64_t rank = 0, *size = NULL;
    for (size_t i = 0; i < is->weights.count; i++) {
        torch.aoti_torch_get_dim(is->weights.tensor[i], &rank);
        bias |= rank == 1;
    }
    const char *why = find_job(texts, wish, bias, plan, job);
    if (!why && (size_t)job->layout->arrays != is->weights.count) {
        plan_let_go(*plan);
        *plan = NULL;
        why = find_job(texts, wish, !bias, plan, job);
    }
    torch.aoti_torch_get_sizes(is->x.tensor[0], &size);
    return why ? why : refusal_of(&(*plan)->desc, wish, size[2]);
}

/* The text of a string; NULL: it has a zero byte. */
static char *text_of(torch_string *string)
{
    const char *text = "";
    size_t bytes = 0;
    torch.torch_string_c_str(string, &text);
    torch.torch_string_length(string, &bytes);
    return strlen(text) == bytes ? (char *)(uintptr_t)text : NULL;
}

static const char *run_layer(struct arguments *is, struct call *call, struct plan **plan,
                             struct job *job)
{
    struct wish wish;
    char device[32],
        text[1000], *const cell = text_of(is->cell), *const problem = text_of(is->problem);
    const char *why = refusal(is);
    if (!why && (!cell || !problem))
        why = "cell or problem has a zero byte";
    if (!why)
        why = read_wish(is, problem, &wish);
    if (!why && !write_problem(problem, &wish, text, sizeof text))
        why = "problem is too long";
    if (why)
        return why;
    /* ecornn/torch/_op.py ends lines by vertical tabs; the string is ours. */
    for (char *at = cell; (at = strchr(at, '\v'));)
        *at = '\n';
    snprintf(device, sizeof device, wish.of.cuda ? "cuda:%d" : "cpu:%d",
             (int)(wish.of.cuda ? wish.of.device : wish.threads));
    const struct span texts[TEXTS] = {
        {device, strlen(device)}, {text, strlen(text)}, {cell, strlen(cell)}};
    why = find_layer(is, texts, &wish, plan, job);
    return why ? why : forward(call, is);
}

void operator_layer(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct arguments is;
    struct job job;
    struct call call = {.job = &job, .ok = false};
    struct plan *plan = NULL;
    (void)arguments;
    (void)count;
    take_arguments(&is, stack);
    const char *const why = run_layer(&is, &call, &plan, &job);
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
