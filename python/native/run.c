/*
 * The runs of a layer as operators of torch: what ecornn/torch/_run.py does in Python otherwise.
 *
 * An operator reads the tensors of one list, in the order that its comment gives; `given` says
 * which are there.  It returns what it made.  Where it cannot run - a weight of another shape, no
 * memory, an error of the library - it returns an empty list, and Python runs the call, which finds
 * out why and raises.  Threads: any.
 */
#include "python/native/operator.h"
#include "python/native/scratch.h"
#include "python/native/weights.h"

/* pack(int job, Tensor packed, Tensor[] weights, int stream) -> bool */
void operator_pack(torch_value *stack, uint64_t arguments, uint64_t count)
{
    const struct job *const job = as_pointer(stack[0]);
    torch_tensor *const packed = as_pointer(stack[1]);
    struct tensors weights;
    (void)arguments;
    (void)count;
    const bool ok = tensors_take(&weights, as_pointer(stack[2])) &&
                    (int64_t)weights.count == job->weights &&
                    pack_weights(job, weights.tensor, data_of(packed), as_pointer(stack[3]));
    tensors_end(&weights);
    drop(packed);
    stack[0] = ok;
}

static ecornn_io io_of(const struct job *job, const torch_value *stack)
{
    return (ecornn_io){.size = sizeof(ecornn_io),
                       .steps = (int32_t)job->steps,
                       .batch = (int32_t)job->batch,
                       .seed = stack[3],
                       .stream = as_pointer(stack[4])};
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Packed weights: given, or packed into the last result. */
static const void *packed_of(const struct job *job, int64_t given, struct tensors *in,
                             struct results *out, void *stream, bool *ok)
{
    if (given & GIVEN_PACKED)
        return data_of(next_if(in, 1));
    if (!*ok || in->count - in->next != (size_t)job->weights) {
        *ok = false;
        return NULL;
    }
    void *const packed = data_of(result(out, make_bytes(job, job->packed), ok));
    *ok = *ok && pack_weights(job, in->tensor + in->next, packed, stream);
    return packed;
}

/*
 * forward(int job, int given, Tensor[] tensors, int seed, int stream) -> Tensor[]
 *
 * tensors: x, lengths, initial states, packed weights or the weights.  Returns y, final states,
 * reserve where wanted, packed weights where they were not given.
 */
void operator_forward(torch_value *stack, uint64_t arguments, uint64_t count)
{
    const struct job *const job = as_pointer(stack[0]);
    const int64_t given = (int64_t)stack[1];
    void *const stream = as_pointer(stack[4]);
    struct tensors in;
    struct results out = {.count = 0};
    torch_tensor *workspace = NULL;
    (void)arguments;
    (void)count;
    bool ok = tensors_take(&in, as_pointer(stack[2]));
    ecornn_io io = io_of(job, stack);
    io.x = data_of(next_if(&in, 1));
    io.lengths = data_of(next_if(&in, given & GIVEN_LENGTHS));
    io.y = data_of(result(&out, make(job, &job->y, torch_number.type[job->type]), &ok));
    for (int64_t i = 0; i < job->states; i++) {
        io.initial[i] = data_of(next_if(&in, given & GIVEN_STATE << i));
        io.final[i] =
            data_of(result(&out, make(job, &job->state[i], torch_number.type[job->type]), &ok));
    }
    if (given & WANT_RESERVE) {
        io.reserve = data_of(result(&out, make_bytes(job, job->reserve), &ok));
        io.reserve_bytes = (size_t)job->reserve;
    }
    io.weights = packed_of(job, given, &in, &out, stream, &ok);
    io.workspace = ok ? scratch(job, SCRATCH_WORKSPACE, job->workspace, &workspace) : NULL;
    ok = ok && library.forward(job->plan, &io) == ECORNN_OK;
    drop(workspace);
    tensors_end(&in);
    stack[0] = results_end(&out, ok);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void read_arrays(const struct job *job, int64_t given, struct tensors *in, ecornn_io *io,
                        ecornn_gradient *gradient)
{
    io->x = data_of(next_if(in, 1));
    io->reserve = data_of(next_if(in, 1));
    io->weights = data_of(next_if(in, given & GIVEN_PACKED));
    io->y = data_of(next_if(in, given & GIVEN_Y));
    io->lengths = data_of(next_if(in, given & GIVEN_LENGTHS));
    for (int64_t i = 0; i < job->states; i++)
        io->initial[i] = data_of(next_if(in, given & GIVEN_STATE << i));
    gradient->dy = data_of(next_if(in, given & GIVEN_DY));
    for (int64_t i = 0; i < job->states; i++)
        gradient->dfinal[i] = data_of(next_if(in, given & GIVEN_DFINAL << i));
}

static void make_gradients(const struct job *job, int64_t given, struct results *out,
                           ecornn_gradient *gradient, bool *ok)
{
    const int32_t type = torch_number.type[job->type];
    if (given & WANT_DX)
        gradient->dx = data_of(result(out, make(job, &job->x, type), ok));
    for (int64_t i = 0; i < job->states; i++)
        if (given & WANT_DSTATE << i)
            gradient->dinitial[i] = data_of(result(out, make(job, &job->state[i], type), ok));
}

/*
 * backward(int job, int given, Tensor[] tensors, int seed, int stream) -> Tensor[]
 *
 * tensors: x, reserve, packed weights, y, lengths, initial states, dy, gradients of final states.
 * Returns those of x, of initial states and of all weights, where wanted.
 */
void operator_backward(torch_value *stack, uint64_t arguments, uint64_t count)
{
    const struct job *const job = as_pointer(stack[0]);
    const int64_t given = (int64_t)stack[1];
    void *const stream = as_pointer(stack[4]);
    struct tensors in;
    struct results out = {.count = 0};
    torch_tensor *workspace = NULL, *dweights = NULL;
    ecornn_io io = io_of(job, stack);
    ecornn_gradient gradient = {.size = sizeof gradient};
    (void)arguments;
    (void)count;
    bool ok = tensors_take(&in, as_pointer(stack[2]));
    read_arrays(job, given, &in, &io, &gradient);
    make_gradients(job, given, &out, &gradient, &ok);
    if (ok && given & WANT_DWEIGHTS)
        gradient.dweights = scratch(job, SCRATCH_DWEIGHTS, job->dpacked, &dweights);
    io.workspace = ok ? scratch(job, SCRATCH_WORKSPACE, job->workspace, &workspace) : NULL;
    io.reserve_bytes = (size_t)job->reserve;
    ok = ok && library.backward(job->plan, &io, &gradient) == ECORNN_OK;
    drop(workspace); /* its memory may hold what comes next, queued behind the run */
    if (given & WANT_DWEIGHTS)
        unpack_weights(job, gradient.dweights, &out, stream, &ok);
    drop(dweights);
    tensors_end(&in);
    stack[0] = results_end(&out, ok);
}
