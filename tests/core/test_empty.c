/*
 * Runs of no steps or no rows, and cells without parameters. On every device, forward and backward,
 * results that must be zero are zero, and nothing else is read or written.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* ---- empty runs ------------------------------------------------------------------------------ */

static const char *const device[] = {"cpu:1", "cpu:2", "reference", "cuda"};
enum { DEVICES = sizeof device / sizeof *device };
/* problems of T=5 and N=3; states are [L*D,N,width] */
static const struct {
    const char *problem;
    int state[2]; /* elements that a row has in all layers and directions */
    int bytes;    /* bytes of an element */
} problem[] = {
    {"lstm/train/L2/bi/T5/N3/I4/H7/P6/dropout:0.5", {24, 28}, 4},
    {"lstm/f64/train/rev/T5/N3/I4/H7/resets", {7, 7}, 8},
    {"gru/train/L3/T5/N3/I4/H9/batch-major", {27, 0}, 4},
    {"lstm/bf16/train/bi/T5/N3/I4/H7", {14, 14}, 2},
    {"lstm/f16/train/T5/N3/I4/H8", {8, 8}, 2},
    {"rnn-tanh/T5/N3/I4/H8", {8, 0}, 4},
};
enum { PROBLEMS_ = sizeof problem / sizeof *problem };
static const struct {
    int steps, batch;
} sizes[] = {{0, 3}, {0, 2}, {0, 3}, {5, 0}, {4, 0}, {1, 0}};
enum { SIZES = sizeof sizes / sizeof *sizes };

enum { ROOM = 3 * 28 * 8, GUARD = 64 };
struct block { /* ROOM bytes of the device's memory, with guard bytes after them */
    unsigned char *device, before[ROOM + GUARD];
};

static void block_make(struct block *block, ecornn_device *on, unsigned seed)
{
    for (size_t k = 0; k < sizeof block->before; k++)
        block->before[k] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
    block->device = ecornn_alloc(on, sizeof block->before);
    check_ok(ecornn_upload(on, block->device, block->before, sizeof block->before));
}

/* The first bytes must be those of `from`, or zero if it is NULL; the rest must be unchanged. */
static void block_holds(const struct block *block, ecornn_device *on, const struct block *from,
                        size_t bytes)
{
    unsigned char now[ROOM + GUARD], zeros[ROOM] = {0};
    check_ok(ecornn_download(on, now, block->device, sizeof now));
    ck_assert_mem_eq(now, from ? from->before : zeros, bytes);
    ck_assert_mem_eq(now + bytes, block->before + bytes, sizeof now - bytes);
}

struct states {
    struct block initial[2], final[2], dfinal[2], dinitial[2], dstart[2], dweights;
};

static void states_make(struct states *states, ecornn_device *on)
{
    for (int s = 0; s < 2; s++) {
        block_make(&states->initial[s], on, 1);
        block_make(&states->final[s], on, 2);
        block_make(&states->dfinal[s], on, 3);
        block_make(&states->dinitial[s], on, 4);
        block_make(&states->dstart[s], on, 6);
    }
    block_make(&states->dweights, on, 5);
}

static void states_free(struct states *states, ecornn_device *on)
{
    struct block *const all = (struct block *)states;
    for (size_t k = 0; k < sizeof *states / sizeof *all; k++)
        ecornn_free(on, all[k].device);
}

/* given: the run has initial states, and gradients of the final ones. */
static void check_run(ecornn_device *on, const ecornn_plan *plan, int which, int size, bool given)
{
    struct states states;
    const int32_t lengths[3] = {0};
    states_make(&states, on);
    const int S = problem[which].state[1] > 0 ? 2 : 1, steps = sizes[size].steps,
              rows = sizes[size].batch;
    const bool resets = strstr(problem[which].problem, "resets") != NULL;
    ecornn_io io = {.size = sizeof io};
    ecornn_gradient gradient = {.size = sizeof gradient};
    for (int s = 0; s < S; s++) {
        io.initial[s] = given ? states.initial[s].device : NULL;
        io.final[s] = states.final[s].device;
        gradient.dfinal[s] = given ? states.dfinal[s].device : NULL;
        gradient.dinitial[s] = states.dinitial[s].device;
        gradient.dreset_state[s] = resets ? states.dstart[s].device : NULL;
    }
    io.lengths = given ? lengths : NULL; /* not read */
    check_ok(ecornn_forward(plan, steps, rows, &io));
    if (strstr(problem[which].problem, "train") != NULL)
        check_ok(ecornn_backward(plan, steps, rows, &io, &gradient));
    check_ok(ecornn_wait(on, NULL));
    for (int s = 0; s < 2; s++) {
        const size_t bytes =
            (size_t)problem[which].state[s] * (size_t)problem[which].bytes * (size_t)rows;
        block_holds(&states.final[s], on, given ? &states.initial[s] : NULL, bytes);
        block_holds(&states.dinitial[s], on, given ? &states.dfinal[s] : NULL,
                    strstr(problem[which].problem, "train") != NULL ? bytes : 0);
        block_holds(&states.dstart[s], on, NULL, resets ? bytes : 0);
        block_holds(&states.initial[s], on, &states.initial[s], 0);
        block_holds(&states.dfinal[s], on, &states.dfinal[s], 0);
        io.initial[s] = io.final[s]; /* the same memory */
    }
    check_ok(ecornn_forward(plan, steps, rows, &io));
    check_ok(ecornn_wait(on, NULL));
    states_free(&states, on);
}

/* The gradient of the weights must be zero, or unchanged if backward adds to it. */
static void check_dweights(ecornn_device *on, const ecornn_plan *plan)
{
    ecornn_sizes bytes;
    get_sizes(plan, &bytes);
    unsigned char *host = malloc(bytes.dweight_bytes);
    memset(host, 77, bytes.dweight_bytes);
    void *dweights = ecornn_alloc(on, bytes.dweight_bytes);
    check_ok(ecornn_upload(on, dweights, host, bytes.dweight_bytes));
    const ecornn_io io = {
        .size = sizeof io,
    };
    ecornn_gradient gradient = {.size = sizeof gradient, .dweights = dweights, .add = 1};
    for (int k = 0; k < 2; k++) {
        check_ok(ecornn_backward(plan, 0, 2, &io, &gradient));
        check_ok(ecornn_wait(on, NULL));
        check_ok(ecornn_download(on, host, dweights, bytes.dweight_bytes));
        for (size_t i = 0; i < bytes.dweight_bytes; i++)
            ck_assert(host[i] == (k == 0 ? 77 : 0));
        gradient.add = 0;
    }
    ecornn_free(on, dweights);
    free(host);
}

START_TEST(empty_runs)
{
    const char *name = device[_i / PROBLEMS_];
    const int which = _i % PROBLEMS_;
    ecornn_device *on;
    ecornn_desc desc;
    ecornn_plan *plan;
    if (suite_lacks(name))
        return;
    check_ok(ecornn_device_open(&on, name));
    check_ok(parse_desc(&desc, problem[which].problem, NULL));
    const ecornn_status status = ecornn_plan_create_desc(&plan, on, &desc);
    if (status != ECORNN_UNSUPPORTED) { /* a CPU does not support F16 */
        check_ok(status);
        for (int size = 0; size < SIZES; size++)
            for (int given = 0; given < 2; given++)
                check_run(on, plan, which, size, given);
        if (desc.flags & ECORNN_TRAINING)
            check_dweights(on, plan);
        ecornn_plan_free(plan);
    }
    ecornn_device_close(on);
}
END_TEST

/* Empty runs refuse wrong arguments too, and an empty chunk keeps the reserve of the chunk before
 * it. */
START_TEST(empty_among_others)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *b = buffers_open(&net), *before = malloc(sizeof *before);
    const int32_t lengths[N] = {0, 1, 0};
    net_train(&net, b);
    memcpy(before, b, sizeof *b);
    ecornn_io io = b->io;
    io.initial[0] = b->final[0];
    io.initial[1] = b->final[1];
    check_ok(ecornn_forward(net.plan, 0, N, &io));
    io.lengths = lengths;
    REFUSES(ecornn_forward(net.plan, 0, N, &io), "io.lengths[1] is 1, must be 0 to 0");
    io.lengths = NULL;
    io.weights = (char *)net.weights + 1;
    REFUSES(ecornn_forward(net.plan, 0, N, &io), "io.weights");
    ck_assert_mem_eq(b, before, sizeof *b);
    memset(b->dweights, 0, net.sizes.dweight_bytes);
    check_ok(backward_all(net.plan, &b->io, &b->gradient));
    ck_assert_mem_eq(b, before, sizeof *b);
    free(before);
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

/* ---- cells without parameters ---------------------------------------------------------------- */

/* Elements of a state [L*D,N,H]. */
enum { STATES = 4 * 2 * 4 };
static void check_states(ecornn_device *on, const void *states, ecornn_type type, double value)
{
    unsigned char host[STATES * 8];
    check_ok(ecornn_wait(on, NULL));
    check_ok(ecornn_download(on, host, states, STATES * eco_type_bytes(type)));
    for (size_t k = 0; k < STATES; k++)
        ck_assert(eco_type_get(host, k, type) == value);
}

/* The cell halves its state, so that three steps turn 8 into 1, forward and backward. Without
 * initial states it begins with 8. */
static void check_half(ecornn_device *on, const ecornn_plan *plan, ecornn_type type)
{
    enum { SEQUENCE = 3 * 2 * 2 * 4 };
    const size_t element = eco_type_bytes(type);
    ecornn_sizes bytes;
    get_sizes(plan, &bytes);
    unsigned char host[STATES * 8];
    void *from = ecornn_alloc(on, STATES * element), *to = ecornn_alloc(on, STATES * element);
    void *x = ecornn_alloc(on, SEQUENCE * element), *y = ecornn_alloc(on, SEQUENCE * element);
    void *workspace = ecornn_alloc(on, bytes.workspace_bytes),
         *reserve = ecornn_alloc(on, bytes.reserve_bytes);
    ecornn_io io = {.size = sizeof io,
                    .x = x,
                    .y = y,
                    .initial = {from},
                    .final = {to},
                    .workspace = workspace,
                    .reserve = reserve};
    const ecornn_gradient gradient = {
        .size = sizeof gradient, .dx = x, .dfinal = {from}, .dinitial = {to}};
    for (size_t k = 0; k < STATES; k++)
        eco_type_set(host, k, type, 8);
    check_ok(ecornn_upload(on, from, host, STATES * element));
    for (int backward = 0; backward < 2; backward++) {
        check_ok(backward ? backward_all(plan, &io, &gradient) : forward_all(plan, &io));
        check_states(on, to, type, 1);
        memset(host, 0, sizeof host);
        check_ok(ecornn_upload(on, to, host, STATES * element));
    }
    io.initial[0] = NULL;
    check_ok(forward_all(plan, &io));
    check_states(on, to, type, 1);
    check_ok(ecornn_forward(plan, 0, 2, &io));
    check_states(on, to, type, 8);
    void *const all[] = {from, to, x, y, workspace, reserve};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        ecornn_free(on, all[k]);
}

static const char *const form[] = {"", "/f64", "/bf16", "/bf16-weights"};
enum { FORMS = sizeof form / sizeof *form };

START_TEST(no_parameters)
{
    char text[64];
    ecornn_cell *cell;
    ecornn_device *on;
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_sizes bytes;
    ecornn_param param;
    if (suite_lacks(device[_i / FORMS]))
        return;
    check_ok(ecornn_device_open(&on, device[_i / FORMS]));
    check_ok(ecornn_cell_parse(&cell, "cell half(h = 8)\nh' = 0.5 * h\n"));
    snprintf(text, sizeof text, "half%s/train/bi/L2/T3/N2/I1/H4", form[_i % FORMS]);
    check_ok(parse_desc(&desc, text, cell));
    check_ok(ecornn_plan_create_desc(&plan, on, &desc));
    get_sizes(plan, &bytes);
    ck_assert_uint_eq(bytes.weight_bytes, 0);
    ck_assert_int_eq(count_params(plan), 0);
    REFUSES(param_at(plan, 0, &param), "no parameters");
    const void *none = NULL;
    void *dnone = NULL;
    check_ok(ecornn_pack(plan, &none, NULL, ecornn_alloc(on, bytes.weight_bytes), NULL));
    check_ok(ecornn_pack(plan, NULL, NULL, NULL, NULL));
    check_ok(ecornn_unpack(plan, ecornn_alloc(on, bytes.dweight_bytes), &dnone, 0, NULL));
    check_half(on, plan, desc.type);
    ecornn_plan_free(plan);
    ecornn_cell_free(cell);
    ecornn_device_close(on);
}
END_TEST

TEST_MAIN("empty", {empty_runs, DEVICES *PROBLEMS_}, {empty_among_others, NET_DEVICES},
          {no_parameters, DEVICES *FORMS})
