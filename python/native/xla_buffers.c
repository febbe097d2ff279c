/*
 * The buffers of handlers.  Any program may call a handler with any buffers, so each is compared
 * with what the plan says.  One table has them all, in the order that they have in every frame.
 */
#include "python/native/xla.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_OF_X = -1, TYPE_OF_PARAMS = -2 };
enum many { ONE, STATES, PARAMS };

/*
 * One buffer, or one for each state or parameter.  Its dimensions are letters (size_of) after those
 * of vmap: x is [M,T,N,I] or [M,N,T,I], "mabI", or without M if there is one model.  A lower-case
 * letter from p on is a block, which has at least that size.
 */
static const struct row {
    const char *name;
    int tasks;
    int64_t given; /* its bit, the first one of states; 0: always there */
    enum many many;
    int type;
    const char *dims;
    size_t at; /* where its address is in struct xla_call */
} rows[] = {
#define AT(field) offsetof(struct xla_call, field)
#define IN        (FORWARD_IN | BACKWARD_IN)
#define OUT       (FORWARD_OUT | BACKWARD_OUT)
    {"workspace", OUT, 0, ONE, XLA_U8, "s", AT(io.workspace)},
    {"weights", IN | PACK_OUT, 0, ONE, XLA_U8, "p", AT(packed)},
    {"dweights", BACKWARD_OUT, XLA_DPARAMS, ONE, XLA_U8, "q", AT(gradient.dweights)},
    {"a parameter", PACK_IN, 0, PARAMS, TYPE_OF_PARAMS, "MRC", 0},
    {"dparams", BACKWARD_OUT, XLA_DPARAMS, PARAMS, TYPE_OF_PARAMS, "MRC", 0},
    {"reserve", BACKWARD_IN, 0, ONE, XLA_U8, "r", AT(io.reserve)},
    {"y", BACKWARD_IN | FORWARD_OUT, 0, ONE, TYPE_OF_X, "MabO", AT(io.y)},
    {"x", IN, 0, ONE, TYPE_OF_X, "mabI", AT(io.x)},
    {"lengths", IN, XLA_LENGTHS, ONE, XLA_S32, "mN", AT(io.lengths)},
    {"resets", IN, XLA_RESETS, ONE, XLA_U8, "mTN", AT(io.resets)},
    {"mask", IN, XLA_MASK, ONE, XLA_U8, "mTN", AT(io.mask)},
    {"seed", IN, XLA_SEED, ONE, XLA_U32, "2", AT(seed)},
    {"initial", IN, XLA_INITIAL, STATES, TYPE_OF_X, "MLNH", AT(io.initial)},
    {"reset_state", IN, XLA_STARTS, STATES, TYPE_OF_X, "MLNH", AT(io.reset_state)},
    {"dy", BACKWARD_IN, XLA_DY, ONE, TYPE_OF_X, "MabO", AT(gradient.dy)},
    {"dfinal", BACKWARD_IN, XLA_DFINAL, STATES, TYPE_OF_X, "MLNH", AT(gradient.dfinal)},
    {"dx", BACKWARD_OUT, XLA_DX, ONE, TYPE_OF_X, "mabI", AT(gradient.dx)},
    {"dinitial", BACKWARD_OUT, XLA_DINITIAL, STATES, TYPE_OF_X, "MLNH", AT(gradient.dinitial)},
    {"dreset_state", BACKWARD_OUT, XLA_DSTARTS, STATES, TYPE_OF_X, "MLNH",
     AT(gradient.dreset_state)},
    {"final", FORWARD_OUT, 0, STATES, TYPE_OF_X, "MLNH", AT(io.final)},
    {"reserve", FORWARD_OUT, XLA_RESERVE, ONE, XLA_U8, "r", AT(io.reserve)},
#undef AT
#undef IN
#undef OUT
};
enum { ROWS = sizeof rows / sizeof *rows, MOST_DIMS = 4 };

/* The size of a dimension; number: of the state or parameter. */
static int64_t size_of(const struct xla_call *call, char letter, int number)
{
    const ecornn_desc *const desc = &call->plan->desc;
    const bool batch_first = (desc->flags & ECORNN_BATCH_MAJOR) != 0;
    const int64_t directions = desc->flags & ECORNN_BIDIRECTIONAL ? 2 : 1;
    const int64_t width = desc->proj > 0 ? desc->proj : desc->hidden;
    switch (letter) {
    case 'M':
        return desc->models;
    case 'm': /* of inputs */
        return desc->flags & ECORNN_SHARED_INPUT ? 1 : desc->models;
    case 'a':
        return batch_first ? call->batch : call->steps;
    case 'b':
        return batch_first ? call->steps : call->batch;
    case 'T':
        return call->steps;
    case 'N':
        return call->batch;
    case 'I':
        return desc->input;
    case 'O':
        return call->sizes.output;
    case 'L':
        return directions * desc->layers;
    case 'H':
        return number > 0 ? desc->hidden : width;
    case 'R':
        return call->plan->param[number].rows;
    case 'C':
        return call->plan->param[number].is_vector ? 0 : call->plan->param[number].cols;
    case 'p':
        return (int64_t)call->sizes.weight_bytes;
    case 'q':
        return (int64_t)call->sizes.dweight_bytes;
    case 's':
        return (int64_t)call->sizes.workspace_bytes;
    case 'r':
        return (int64_t)call->sizes.reserve_bytes + XLA_MARK;
    default:
        return letter - '0';
    }
}

static int64_t bytes_of_type(int type)
{
    switch (type) {
    case XLA_U8:
        return 1;
    case XLA_F16:
    case XLA_BF16:
        return 2;
    case XLA_F64:
        return 8;
    default:
        return 4; /* XLA_S32, XLA_U32, XLA_F32 */
    }
}

int64_t xla_product(int64_t bytes, const int64_t *dims, int64_t rank)
{
    for (int64_t i = 0; i < rank; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && bytes > PTRDIFF_MAX / dims[i]))
            return -1;
        bytes *= dims[i];
    }
    return bytes;
}

/* What a buffer must be, and what an item of it has. */
struct want {
    const struct row *row;
    bool result;
    int number, type;
    int64_t rank, dims[MOST_DIMS];
    int64_t bytes; /* of an item of the buffer */
};

static struct want want_of(const struct xla_call *call, const struct row *row, bool result,
                           int number)
{
    struct want want = {.row = row, .result = result, .number = number, .type = row->type};
    static const int types[] = {[ECORNN_F32] = XLA_F32,
                                [ECORNN_F64] = XLA_F64,
                                [ECORNN_BF16] = XLA_BF16,
                                [ECORNN_F16] = XLA_F16};
    const ecornn_desc *const desc = &call->plan->desc;
    if (row->type < 0)
        want.type = types[row->type == TYPE_OF_X ? desc->type : desc->param_type];
    for (const char *letter = row->dims; *letter; letter++)
        want.dims[want.rank++] = size_of(call, *letter, number);
    if (row->many == PARAMS && want.dims[want.rank - 1] == 0)
        want.rank--;
    return want;
}

/* Then it needs no dimension. */
static bool has_one_model(const struct want *want)
{
    return (*want->row->dims == 'M' || *want->row->dims == 'm') && *want->dims == 1;
}

static bool fits(const struct xla_call *call, const struct xla_buffer *buffer, struct want *want)
{
    const int64_t *const full = call->frame->out.buffer[0]->dims, *size = want->dims;
    const char first = *want->row->dims;
    const int64_t rank = buffer->rank - call->leads;
    const int64_t skipped = has_one_model(want) && rank == want->rank - 1;
    if (buffer->type != want->type || rank != want->rank - skipped)
        return false;
    for (int64_t i = 0; i < call->leads; i++)
        if (buffer->dims[i] != full[i] && (want->result || buffer->dims[i] != 1))
            return false;
    const int64_t *const own = buffer->dims + call->leads;
    for (int64_t i = 0; i < rank; i++)
        if (first >= 'p' ? own[i] < size[i + skipped] : own[i] != size[i + skipped])
            return false;
    want->bytes = xla_product(bytes_of_type(want->type), own, rank);
    const int64_t all = xla_product(bytes_of_type(want->type), buffer->dims, buffer->rank);
    return want->bytes >= 0 && all >= 0 && (all == 0 || buffer->data);
}

/* Dimensions as a text: "[2,3]". */
static void print(char *text, size_t size, const int64_t *dims, int64_t rank)
{
    size_t used = 0;
    for (int64_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%" PRId64, i ? ',' : '[', dims[i]);
    if (used < size)
        snprintf(text + used, size - used, rank ? "]" : "[]");
}

static void refuse(struct xla_call *call, int64_t index, const struct xla_buffer *buffer,
                   const struct want *want)
{
    char text[500], is[160] = "", must[160] = "";
    print(is, sizeof is, buffer->dims, buffer->rank);
    print(must, sizeof must, want->dims + has_one_model(want), want->rank - has_one_model(want));
    snprintf(text, sizeof text,
             "%s %" PRId64 " of a program, %s, is %s of type %d, must be %s%s of type %d: the "
             "program is of another version or machine",
             want->result ? "result" : "argument", index, want->row->name, is, buffer->type,
             *want->row->dims >= 'p' ? "at least " : "", must, want->type);
    xla_fail(call, XLA_BAD_ARGUMENT, text);
}

/* Number of the current item in a buffer with these leading dimensions. */
static int64_t item_in(const struct xla_call *call, const int64_t *dims)
{
    const int64_t *const full = call->frame->out.buffer[0]->dims;
    int64_t rest = call->item, number = 0, stride = 1;
    for (int64_t i = call->leads; i-- > 0; rest /= full[i]) {
        number += dims[i] == 1 ? 0 : rest % full[i] * stride;
        stride *= dims[i];
    }
    return number;
}

/* Writes the addresses of one parameter, that of each model. */
static void place_params(struct xla_call *call, char *at, const struct want *want)
{
    const size_t models = (size_t)call->plan->desc.models, count = (size_t)call->plan->count;
    if (!call->params) /* one more, as a cell may have no parameters */
        call->params = calloc(models * count + 1, sizeof *call->params);
    if (!call->params)
        xla_fail(call, XLA_NO_MEMORY, "no memory for the addresses of the parameters");
    for (size_t m = 0; call->params && m < models; m++)
        call->params[m * count + (size_t)want->number] = at + m * (size_t)want->bytes / models;
}

static void place(struct xla_call *call, const struct xla_buffer *buffer, const struct want *want)
{
    char *const at = (char *)buffer->data + item_in(call, buffer->dims) * want->bytes;
    if (want->row->many == PARAMS)
        place_params(call, at, want);
    else
        memcpy((char *)call + want->row->at + (size_t)want->number * sizeof at, &at, sizeof at);
    if (call->zero && want->result)
        memset(at, 0, (size_t)want->bytes);
}

static int count_of(const struct xla_call *call, const struct row *row)
{
    return row->many == ONE ? 1 : row->many == STATES ? call->plan->states : call->plan->count;
}

bool xla_find(struct xla_call *call, const struct xla_buffers *all, int task)
{
    const bool result = all == &call->frame->out;
    int64_t index = 0;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; rows[i].tasks & task && k < count_of(call, &rows[i]); k++) {
            const int64_t bit = rows[i].many == STATES ? rows[i].given << k : rows[i].given;
            if (bit && !(call->given & bit))
                continue;
            struct want want = want_of(call, &rows[i], result, k);
            if (index < all->count && !fits(call, all->buffer[index], &want))
                refuse(call, index, all->buffer[index], &want);
            else if (index < all->count)
                place(call, all->buffer[index], &want);
            if (call->error)
                return false;
            index++;
        }
    if (index != all->count) {
        char text[120];
        snprintf(text, sizeof text,
                 "a program has %" PRId64 " %s, must have %" PRId64 ": it is of another version",
                 all->count, result ? "results" : "arguments", index);
        xla_fail(call, XLA_BAD_ARGUMENT, text);
    }
    return !call->error;
}

int64_t xla_bits(const struct xla_call *call, int task)
{
    int64_t bits = 0;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; rows[i].tasks & task && k < count_of(call, &rows[i]); k++)
            bits |= rows[i].many == STATES ? rows[i].given << k : rows[i].given;
    return bits;
}
