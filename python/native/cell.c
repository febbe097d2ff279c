/*
 * The operators ecornn_native::cell and cell_backward: torch tensors to the arrays of a step.
 *
 * As in run.c, a list of tensors comes in, an empty list goes out if the operator does not support
 * them, and anyone may call with any arguments.
 */
#include "python/native/cell.h"

#include <string.h>

static const struct job on_cpu = {.cuda = 0}; /* results are made there */

struct cell_call {
    struct tensors in;
    struct results out;
    struct step step;
    int64_t given;
    bool ok;
};

static float *next(struct cell_call *call, int64_t rows, int64_t cols)
{
    const struct shape shape = {.rank = cols ? 2 : 1, .size = {rows, cols}};
    return next_if(&call->in, 1, &on_cpu, &shape, torch_type(ECORNN_F32), &call->ok);
}

static torch_tensor *new_tensor(int64_t rows, int64_t cols)
{
    const struct shape shape = {
        .rank = cols ? 2 : 1, .size = {rows, cols}, .stride = {cols ? cols : 1, 1}};
    return make(&on_cpu, &shape, torch_type(ECORNN_F32));
}

static float *made(struct cell_call *call, int64_t rows, int64_t cols)
{
    return data_of(result(&call->out, call->ok ? new_tensor(rows, cols) : NULL, &call->ok));
}

static void sizes(struct cell_call *call, int64_t kind)
{
    int64_t rank[2] = {0, 0}, *size[2] = {NULL, NULL};
    call->ok = call->ok && kind >= 0 && kind < CELL_KINDS && call->in.count >= 4;
    for (int i = 0; call->ok && i < 2; i++) {
        torch.aoti_torch_get_dim(call->in.tensor[i], &rank[i]);
        torch.aoti_torch_get_sizes(call->in.tensor[i], &size[i]);
        call->ok = rank[i] == 2 && size[i];
    }
    if (!call->ok)
        return;
    struct step *const step = &call->step;
    step->kind = (enum cell_kind)kind;
    step->rows = size[0][0];
    step->input = size[0][1];
    step->hidden = size[1][1];
    step->width = kind < CELL_TANH ? 4 * step->hidden : step->hidden;
    call->ok = step->rows > 0 && step->input > 0 && step->hidden > 0 && step->hidden < INT32_MAX;
}

/* x, h, an LSTM's c, the weights and, if given, biases. */
static void read_all(struct cell_call *call)
{
    struct step *const step = &call->step;
    const int64_t wide = step_weight_rows(step);
    step->x = next(call, step->rows, step->input);
    step->h = next(call, step->rows, step->hidden);
    if (step->kind == CELL_LSTM)
        step->c = next(call, step->rows, step->hidden);
    step->w = next(call, wide, step->input);
    step->r = next(call, wide, step->hidden);
    if (call->given & CELL_BIAS) {
        step->bias_x = next(call, wide, 0);
        step->bias_h = next(call, wide, 0);
    }
}

static void begin(struct cell_call *call, torch_value *stack)
{
    memset(&call->step, 0, sizeof call->step);
    call->out.count = 0;
    call->given = (int64_t)stack[1];
    call->ok = tensors_take(&call->in, as_pointer(stack[2])) && stack[1] <= CELL_ALL;
    sizes(call, (int64_t)stack[0]);
    if (call->ok)
        read_all(call);
}

/*
 * cell(int kind, int given, Tensor[] tensors) -> Tensor[]
 *
 * tensors: x [N,I], h [N,H], of an LSTM c [N,H], weight_ih, weight_hh, bias_ih, bias_hh.  Returns
 * the new states and, with CELL_KEEP, the gates [N,4*H] (none of an RNN).
 */
void operator_cell(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct cell_call call;
    (void)arguments;
    (void)count;
    begin(&call, stack);
    struct step *const step = &call.step;
    const bool keep = call.given & CELL_KEEP && step->kind < CELL_TANH;
    call.ok = call.ok && call.in.next == call.in.count;
    step->new_h = made(&call, step->rows, step->hidden);
    if (step->kind == CELL_LSTM)
        step->new_c = made(&call, step->rows, step->hidden);
    torch_tensor *const gates = call.ok ? new_tensor(step->rows, step->width) : NULL;
    step->gates = data_of(gates);
    step->ok = call.ok && step->gates;
    if (step->ok)
        step_forward(step);
    call.ok = call.ok && step->ok;
    if (keep)
        result(&call.out, gates, &call.ok);
    else
        drop(gates);
    tensors_end(&call.in);
    stack[0] = results_end(&call.out, call.ok);
}

/* Memory for a gradient: a result if the gradient is requested, else scratch. */
static float *gradient(struct cell_call *call, torch_tensor **scratch, bool wanted, int64_t cols)
{
    if (wanted)
        return made(call, call->step.rows, cols);
    *scratch = call->ok ? new_tensor(call->step.rows, cols) : NULL;
    return data_of(*scratch);
}

static void make_dweights(struct cell_call *call)
{
    struct step *const step = &call->step;
    const int64_t wide = step_weight_rows(step);
    step->dw = made(call, wide, step->input);
    step->dr = made(call, wide, step->hidden);
    if (call->given & CELL_BIAS) {
        step->dbias_x = made(call, wide, 0);
        step->dbias_h = made(call, wide, 0);
    }
}

/*
 * cell_backward(int kind, int given, Tensor[] tensors) -> Tensor[]
 *
 * tensors: those of cell; of an LSTM the new c, else the new h; the gates (none of an RNN); the
 * gradients of the new states that are given.  Returns the gradients of x, of the states and of
 * weights and biases, as far as they are wanted.
 */
void operator_cell_backward(torch_value *stack, uint64_t arguments, uint64_t count)
{
    struct cell_call call;
    torch_tensor *scratch[2] = {NULL, NULL};
    (void)arguments;
    (void)count;
    begin(&call, stack);
    struct step *const step = &call.step;
    float *const now = next(&call, step->rows, step->hidden);
    *(step->kind == CELL_LSTM ? &step->new_c : &step->new_h) = now;
    if (step->kind < CELL_TANH)
        step->gates = next(&call, step->rows, step->width);
    if (call.given & CELL_DH)
        step->dh = next(&call, step->rows, step->hidden);
    if (call.given & CELL_DC)
        step->dc = next(&call, step->rows, step->hidden);
    call.ok = call.ok && call.in.next == call.in.count && (step->dh || step->kind == CELL_LSTM);
    if (call.given & CELL_WANT_DX)
        step->dx = made(&call, step->rows, step->input);
    const bool wants = call.given & CELL_WANT_DH;
    if (wants || step->kind == CELL_GRU)
        step->old_dh = gradient(&call, &scratch[0], wants, step->hidden);
    if (step->kind == CELL_LSTM)
        step->old_dc = gradient(&call, &scratch[0], wants, step->hidden);
    if (call.given & CELL_WANT_DWEIGHTS)
        make_dweights(&call);
    scratch[1] = call.ok ? new_tensor(step->rows, step->width) : NULL;
    step->dgates = data_of(scratch[1]);
    step->ok = call.ok && step->dgates && (scratch[0] || wants || step->kind >= CELL_TANH);
    if (step->ok)
        step_backward(step);
    drop(scratch[0]);
    drop(scratch[1]);
    tensors_end(&call.in);
    stack[0] = results_end(&call.out, call.ok && step->ok);
}
