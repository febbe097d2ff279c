/*
 * The runs of a layer as torch operators; ecornn/torch/_run.py does the same in Python.
 *
 * An operator reads the tensors of one list, in the order that its comment gives; the bits of
 * `given` say which are present.  It returns new tensors.  Anyone may call it with any arguments,
 * so a tensor that is not dense, or does not have the job's shape, type and device, is not read.
 * If an operator cannot run, for this reason, for lack of memory or after an error of the library,
 * it returns an empty list; then Python runs the call, finds the cause and raises.  Any thread may
 * call it.
 */
#include "python/native/run.h"

#include "python/native/operator.h"
#include "python/native/scratch.h"
#include "python/native/weights.h"

static void begin(struct call *call, torch_value job, torch_value list)
{
    call->job = job_hold((int64_t)job);
    call->stream = NULL;
    call->out.count = 0;
    call->weights = NULL;
    call->packed = NULL;
    call->ok = tensors_take(&call->in, as_pointer(list)) && call->job;
    if (call->ok && call->job->cuda)
        call->ok = torch_stream((int32_t)call->job->device, &call->stream);
}

static void end(struct call *call)
{
    tensors_end(&call->in);
    job_let_go(call->job);
}

/* The bits of `given`, all of which must be known. */
static void take_given(struct call *call, torch_value given)
{
    call->given = (int64_t)given;
    call->ok = call->ok && given <= GIVEN_ALL;
}

/* Are exactly as many tensors left as there are weights? */
static bool weights_are_last(const struct call *call)
{
    return call->ok && call->in.count - call->in.next == (size_t)call->job->layout->arrays;
}

/* pack(int job, Tensor packed, Tensor[] weights) -> bool */
void operator_pack(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct call call;
    struct tensors block = {.tensor = {as_pointer(stack[1])}, .count = 1};
    struct torch_packed packed = {.data = NULL};
    (void)arguments;
    (void)count;
    begin(&call, stack[0], stack[2]);
    if (call.ok)
        packed.data = next_bytes(&block, call.job, call.job->packed, &packed.bytes, &call.ok);
    stack[0] =
        weights_are_last(&call) && pack_weights(call.job, call.in.tensor, packed, call.stream);
    tensors_end(&block);
    end(&call);
}

/* ---- what a run reads and makes -------------------------------------------------------------- */

static int32_t type_of(const struct call *call)
{
    return torch_type(call->job->of->desc.type);
}

static void *read_rows(struct call *call, int64_t given, const struct shape *shape)
{
    return next_if(&call->in, call->given & given, call->job, shape, type_of(call), &call->ok);
}

static const int32_t *read_lengths(struct call *call)
{
    const struct shape shape = {.rank = 1, .size = {call->job->batch}};
    return next_if(&call->in, call->given & GIVEN_LENGTHS, call->job, &shape, torch_number.int32,
                   &call->ok);
}

static void *make_rows(struct call *call, const struct shape *shape)
{
    return data_of(
        result(&call->out, call->ok ? make(call->job, shape, type_of(call)) : NULL, &call->ok));
}

static void *make_block(struct call *call, int64_t bytes)
{
    return data_of(result(&call->out, call->ok ? make_bytes(call->job, bytes) : NULL, &call->ok));
}

static ecornn_io io_of(const struct call *call, torch_value seed)
{
    return (ecornn_io){.size = sizeof(ecornn_io),
                       .seed = seed,
                       .stream = call->stream,
                       .workspace_bytes = (size_t)call->job->workspace};
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Packed weights: those given, unless they are outdated; or new ones in the last result.  On a GPU
 * the run packs into the given block, if it has the weights too. */
static const void *packed_of(struct call *call)
{
    const struct job *const job = call->job;
    struct torch_packed packed = {.data = NULL, .bytes = job->packed};
    const bool given = call->given & GIVEN_PACKED;
    if (call->packed)
        return call->packed;
    if (given)
        packed.data = next_bytes(&call->in, job, job->packed, &packed.bytes, &call->ok);
    else
        packed.data = make_block(call, job->packed);
    if (given && !(call->given & GIVEN_WEIGHTS)) {
        call->ok = call->ok && call->in.next == call->in.count;
        return packed.data;
    }
    torch_tensor *const *const weights = call->in.tensor + call->in.next;
    call->ok = weights_are_last(call);
    if (call->ok && given && job->cuda)
        call->weights = weights;
    else if (call->ok)
        call->ok = given ? weights_hold(job, weights, packed)
                         : pack_weights(job, weights, packed, call->stream);
    return packed.data;
}

void run_forward(struct call *call, torch_value seed)
{
    const struct job *const job = call->job;
    ecornn_io of = io_of(call, seed), *const io = &of;
    struct scratch workspace = {0};
    io->x = next_if(&call->in, 1, job, &job->x, type_of(call), &call->ok);
    io->lengths = read_lengths(call);
    for (int64_t i = 0; i < job->of->states; i++)
        io->initial[i] = read_rows(call, GIVEN_STATE << i, &job->state[i]);
    io->y = make_rows(call, &job->y);
    for (int64_t i = 0; i < job->of->states; i++)
        io->final[i] = make_rows(call, &job->state[i]);
    if (call->given & WANT_RESERVE) {
        io->reserve = make_block(call, job->reserve);
        io->reserve_bytes = (size_t)job->reserve;
    }
    io->weights = packed_of(call);
    if (call->ok)
        io->workspace = scratch_take(&workspace, job, LENT_WORKSPACE, job->workspace);
    if (call->ok)
        call->ok = call->weights ? forward_with(job, call->weights, io)
                                 : library.forward(job->of->plan, (int32_t)job->steps,
                                                   (int32_t)job->batch, io) == ECORNN_OK;
    scratch_end(&workspace);
}

/*
 * forward(int job, int given, Tensor[] tensors, int seed) -> Tensor[]
 *
 * tensors: x, lengths, initial states, packed weights, the weights.  If both of the last are given,
 * a block packed from other weights is refused on a CPU, and scratch for the run on a GPU.  Returns
 * y, final states, the reserve if wanted, and packed weights if they were not given.
 */
void operator_forward(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct call call;
    (void)arguments;
    (void)count;
    begin(&call, stack[0], stack[2]);
    take_given(&call, stack[1]);
    if (call.ok)
        run_forward(&call, stack[3]);
    stack[0] = results_end(&call.out, call.ok);
    end(&call);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void read_arrays(struct call *call, ecornn_io *io, ecornn_gradient *gradient)
{
    const struct job *const job = call->job;
    int64_t bytes = 0;
    io->x = next_if(&call->in, 1, job, &job->x, type_of(call), &call->ok);
    io->reserve = next_bytes(&call->in, job, job->reserve, &bytes, &call->ok);
    io->reserve_bytes = (size_t)bytes;
    io->weights = next_bytes(&call->in, job, job->packed, &bytes, &call->ok);
    io->y = read_rows(call, GIVEN_Y, &job->y);
    io->lengths = read_lengths(call);
    for (int64_t i = 0; i < job->of->states; i++)
        io->initial[i] = read_rows(call, GIVEN_STATE << i, &job->state[i]);
    gradient->dy = read_rows(call, GIVEN_DY, &job->y);
    for (int64_t i = 0; i < job->of->states; i++)
        gradient->dfinal[i] = read_rows(call, GIVEN_DFINAL << i, &job->state[i]);
}

/* The packed gradient, of which those of matrices may be parts: the last tensor, or a new one;
 * NULL: neither. */
static torch_tensor *take_block(struct call *call)
{
    const struct shape shape = gradients_shape(call->job);
    const int32_t type = torch_type(call->job->of->desc.param_type);
    torch_tensor *found = NULL;
    if (!(call->given & WANT_TOGETHER) || !(call->given & WANT_DWEIGHTS))
        return NULL;
    if (call->in.next == call->in.count)
        return call->ok ? make_gradients(call->job) : NULL;
    if (next_if(&call->in, 1, call->job, &shape, type, &call->ok))
        torch.aoti_torch_new_tensor_handle(call->in.tensor[call->in.next - 1], &found);
    return found;
}

static void backward(struct call *call, ecornn_io *io)
{
    const struct job *const job = call->job;
    ecornn_gradient gradient = {.size = sizeof gradient};
    struct scratch workspace = {0}, dweights = {0};
    read_arrays(call, io, &gradient);
    torch_tensor *const block = take_block(call);
    call->ok = call->ok && call->in.next == call->in.count;
    if (call->given & WANT_DX)
        gradient.dx = make_rows(call, &job->x);
    for (int64_t i = 0; i < job->of->states; i++)
        if (call->given & WANT_DSTATE << i)
            gradient.dinitial[i] = make_rows(call, &job->state[i]);
    if (call->ok && call->given & WANT_DWEIGHTS)
        gradient.dweights =
            block ? data_of(block) : scratch_take(&dweights, job, LENT_DWEIGHTS, job->dpacked);
    if (!job->cuda)
        memory_large(gradient.dweights, (size_t)job->dpacked);
    if (call->ok)
        io->workspace = scratch_take(&workspace, job, LENT_WORKSPACE, job->workspace);
    call->ok = call->ok && library.backward(job->of->plan, (int32_t)job->steps, (int32_t)job->batch,
                                            io, &gradient) == ECORNN_OK;
    scratch_end(&workspace); /* its memory may be reused by work queued after the run */
    if (call->given & WANT_DWEIGHTS)
        unpack_weights(job, gradient.dweights, block, &call->out, call->stream, &call->ok);
    scratch_end(&dweights);
    drop(block);
}

/*
 * backward(int job, int given, Tensor[] tensors, int seed) -> Tensor[]
 *
 * tensors: x, reserve, packed weights, y, lengths, initial states, dy, gradients of final states,
 * and with WANT_TOGETHER perhaps a block.  Returns the gradients of x, of initial states and of all
 * weights, as far as they are wanted.
 */
void operator_backward(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct call call;
    (void)arguments;
    (void)count;
    begin(&call, stack[0], stack[2]);
    take_given(&call, stack[1]);
    if (call.ok) {
        ecornn_io io = io_of(&call, stack[3]);
        backward(&call, &io);
    }
    stack[0] = results_end(&call.out, call.ok);
    end(&call);
}
