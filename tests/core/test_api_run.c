/*
 * Calls runs wrongly. Each argument of forward and backward is wrong once; the detail must name the
 * value, and nothing may be written. Also runs with as few arguments as possible.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/run_arrays.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* change: an assignment to `b`, a copy of good. Forward and backward must refuse it and leave y and
 * dx unchanged. */
#define BAD_RUN(change, word)                                                                      \
    do {                                                                                           \
        struct buffers b = *good;                                                                  \
        b.change;                                                                                  \
        REFUSES(forward_all(net.plan, &b.io), word);                                               \
        REFUSES(backward_all(net.plan, &b.io, &b.gradient), word);                                 \
    } while (0)

#define BAD_COUNTS(steps, batch, word)                                                             \
    do {                                                                                           \
        REFUSES(ecornn_forward(net.plan, steps, batch, &good->io), word);                          \
        REFUSES(ecornn_backward(net.plan, steps, batch, &good->io, &good->gradient), word);        \
    } while (0)

#define BAD_BACKWARD(change, word)                                                                 \
    do {                                                                                           \
        struct buffers b = *good;                                                                  \
        b.change;                                                                                  \
        REFUSES(backward_all(net.plan, &b.io, &b.gradient), word);                                 \
    } while (0)

/* Pointer s of an array is `at`; runs must refuse it, name it and say why. */
static void check_array(const struct net *net, const struct buffers *good,
                        const struct eco_run_array *array, int s, const void *at, const char *why)
{
    struct buffers b = *good;
    char *const in = array->gradient ? (char *)&b.gradient : (char *)&b.io;
    char name[64], index[8] = "";
    if (array->count > 1)
        snprintf(index, sizeof index, "[%d]", s);
    snprintf(name, sizeof name, "%s%s is", array->name, index);
    memcpy(in + array->given + (size_t)s * sizeof at, &at, sizeof at);
    for (int k = 0; k < 2; k++) {
        const char *const word = k == 0 ? name : why;
        REFUSES(backward_all(net->plan, &b.io, &b.gradient), word);
        if (!array->gradient && array->required != ECO_IN_BACKWARD)
            REFUSES(forward_all(net->plan, &b.io), word);
    }
}

/* Each array of run_arrays.h is wrong in each way: NULL, misaligned, of a state that the cell does
 * not have, or of another plan. */
START_TEST(arrays_misuse)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *good = buffers_open(&net);
    for (const struct eco_run_array *array = eco_run_array; array < eco_run_array + ECO_RUN_ARRAYS;
         array++) {
        const bool planned = (array->flag & ~(unsigned)ECORNN_TRAINING) == 0,
                   block = array->element == ECO_ARRAY_BLOCK;
        for (int s = 0; s < array->count; s++)
            check_array(&net, good, array, s, (char *)good->x + (s < 2 && planned ? 1 : 0),
                        s >= 2     ? "lstm has 2 states"
                        : !planned ? "without ECORNN_"
                                   : "must be aligned to");
        if (array->required && !(block && eco_run_array_bytes(array, &net.sizes) == 0))
            check_array(&net, good, array, 0, NULL, "NULL");
    }
    buffers_close(&net, good);
    net_close(&net);
}
END_TEST

START_TEST(run_misuse)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *good = buffers_open(&net), before = *good;
    const int32_t below[N] = {5, -1, 0}, above[N] = {0, 1, 6};
    char *odd = (char *)good->x + 1;
    REFUSES(ecornn_forward(NULL, T, N, &good->io), "plan is NULL");
    REFUSES(forward_all(net.plan, NULL), "io is NULL");
    BAD_RUN(io.size = 0, "io.size is 0");
    BAD_RUN(io.size--, "must be");
    BAD_RUN(io.size = 8, "must be");
    BAD_RUN(io.size = (size_t)1 << 40, "must be");
    BAD_COUNTS(-2, N, "steps is -2, must be 0 to 5");
    BAD_COUNTS(T + 1, N, "steps is 6, must be 0 to 5");
    BAD_COUNTS(T, N + 1, "batch is 4, must be 0 to 3");
    BAD_COUNTS(T, -7, "batch is -7, must be 0 to 3");
    BAD_RUN(io.lengths = below, "io.lengths[1] is -1, must be 0 to 5");
    BAD_RUN(io.lengths = above, "io.lengths[2] is 6, must be 0 to 5");
    REFUSES(forward_all(net.plan, (const ecornn_io *)(const void *)odd), "io is ");
    BAD_RUN(io.params = (const void *const *)(const void *)odd, "io.params is ");
    BAD_RUN(io.y = (void *)(uintptr_t)b.io.x, "the memory of io.x");
    BAD_RUN(io.reserve = (void *)(uintptr_t)b.io.weights, "the memory of io.weights");
    BAD_RUN(io.streams = 2, "io.streams is 2, must be 0 without io.rows");
    BAD_RUN(io.reserved = 1, "io.reserved is 1, must be 0");
    if (net.sizes.workspace_bytes > 0)
        BAD_RUN(io.workspace_bytes = 1, "io.workspace_bytes is 1, must be at least");
    BAD_RUN(io.reserve_bytes = net.sizes.reserve_bytes - 1, "io.reserve_bytes");
    struct buffers alias = *good;
    alias.io.initial[1] = alias.io.final[1];
    REFUSES(forward_all(net.plan, &alias.io), "the memory of io.initial[1]");
    BAD_BACKWARD(gradient.size = 0, "gradient.size is 0");
    BAD_BACKWARD(gradient.size++, "gradient.size");
    BAD_BACKWARD(gradient.reserved = 3, "gradient.reserved is 3, must be 0");
    BAD_BACKWARD(gradient.dweights = net.weights, "the memory of io.weights");
    REFUSES(backward_all(NULL, &good->io, &good->gradient), "plan is NULL");
    REFUSES(backward_all(net.plan, NULL, &good->gradient), "io is NULL");
    REFUSES(backward_all(net.plan, &good->io, NULL), "gradient is NULL");
    ck_assert_mem_eq(good->y, before.y, sizeof before.y);
    ck_assert_mem_eq(good->dx, before.dx, sizeof before.dx);
    net_train(&net, good);
    ck_assert_mem_ne(good->y, before.y, sizeof before.y);
    ck_assert_mem_ne(good->dx, before.dx, sizeof before.dx);
    buffers_close(&net, good);
    net_close(&net);
}
END_TEST

/* All optional pointers are NULL. */
START_TEST(run_optional)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *b = buffers_open(&net);
    net_train(&net, b);
    float y[Y];
    memcpy(y, b->y, sizeof y);
    b->io.reserve = NULL;
    check_ok(forward_all(net.plan, &b->io)); /* inference, no dropout: the same numbers */
    for (int k = 0; k < Y; k++)
        ck_assert_float_eq_tol(y[k], b->y[k], 1e-6f);
    b->io.reserve = b->reserve;
    b->io.y = NULL;
    b->io.final[0] = b->io.final[1] = NULL;
    b->gradient = (ecornn_gradient){.size = sizeof b->gradient};
    struct buffers *before = malloc(sizeof *before);
    memcpy(before, b, sizeof *b);
    check_ok(forward_all(net.plan, &b->io));
    check_ok(backward_all(net.plan, &b->io, &b->gradient));
    ck_assert_mem_eq(b, before, sizeof *b); /* arrays that were not passed are not written */
    free(before);
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

/* Refuses a backward run with the reserve of another forward run, or with other arguments. */
START_TEST(backward_of_another_run)
{
    struct net net, other;
    net_open(&net, net_device[_i], NET_PROBLEM "/dropout:0.5");
    net_open(&other, net_device[_i], NET_PROBLEM "/dropout:0.25");
    struct buffers *good = buffers_open(&net);
    const int32_t lengths[N] = {5, 2, 0}, others[N] = {5, 0, 2};
    memset(good->reserve, 0xFF, net.sizes.reserve_bytes);
    BAD_BACKWARD(io.seed = 0, "no forward run");
    good->io.initial[1] = good->final[1];
    good->io.final[1] = NULL;
    good->io.seed = UINT64_C(1) << 40;
    net_train(&net, good);
    float *const dx = malloc(sizeof good->dx);
    memcpy(dx, good->dx, sizeof good->dx);
    REFUSES(ecornn_backward(net.plan, 4, N, &good->io, &good->gradient),
            "steps and batch are 4 and 3, but 5 and 3");
    REFUSES(ecornn_backward(net.plan, T, 2, &good->io, &good->gradient),
            "are 5 and 2, but 5 and 3");
    BAD_BACKWARD(io.lengths = lengths, "io.lengths is given");
    BAD_BACKWARD(io.initial[0] = good->final[0], "io.initial[0] is given");
    BAD_BACKWARD(io.initial[1] = NULL, "io.initial[1] is NULL");
    BAD_BACKWARD(io.seed = 1, "io.seed is 1, but 1099511627776");
    REFUSES(backward_all(other.plan, &good->io, &good->gradient), "another plan");
    check_ok(backward_all(net.plan, &good->io, &good->gradient)); /* refusing changed nothing */
    ck_assert_mem_eq(good->dx, dx, sizeof good->dx);
    good->io.lengths = lengths;
    net_train(&net, good);
    BAD_BACKWARD(io.lengths = NULL, "io.lengths is NULL");
    BAD_BACKWARD(io.lengths = others, "other values");
    check_ok(backward_all(net.plan, &good->io, &good->gradient));
    free(dx);
    buffers_close(&net, good);
    net_close(&other);
    net_close(&net);
}
END_TEST

/* The same on every device. */
START_TEST(states_of_every_step_need_y)
{
    static float states[T * STATE];
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM "/all-states");
    struct buffers *b = buffers_open(&net);
    b->io.reserve = b->io.y = NULL;
    b->io.states[1] = states;
    check_ok(forward_all(net.plan, &b->io));
    b->io.states[0] = states;
    REFUSES(forward_all(net.plan, &b->io), "io.states[0] needs it");
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

/* The same for a plan whose runs may have resets. */
START_TEST(backward_with_other_resets)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM "/resets");
    struct buffers *good = buffers_open(&net);
    const uint8_t resets[T * N] = {[4] = 1, [9] = 255}, others[T * N] = {[4] = 1};
    good->io.resets = resets;
    good->io.reset_state[1] = good->final[1];
    good->io.final[1] = NULL;
    net_train(&net, good);
    BAD_BACKWARD(io.resets = NULL, "io.resets is given differently");
    BAD_BACKWARD(io.resets = others, "io.resets has other values");
    BAD_BACKWARD(io.reset_state[1] = NULL, "io.reset_state[1] is NULL");
    BAD_BACKWARD(io.reset_state[0] = good->x, "io.reset_state[0] is given");
    check_ok(backward_all(net.plan, &good->io, &good->gradient));
    good->io.resets = NULL; /* without resets, starts are ignored */
    net_train(&net, good);
    good->io.reset_state[1] = NULL;
    check_ok(backward_all(net.plan, &good->io, &good->gradient));
    buffers_close(&net, good);
    net_close(&net);
}
END_TEST

START_TEST(backward_with_another_mask)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM "/mask");
    struct buffers *good = buffers_open(&net);
    const uint8_t mask[T * N] = {[4] = 1, [9] = 255}, other[T * N] = {[4] = 1};
    good->io.mask = mask;
    net_train(&net, good);
    BAD_BACKWARD(io.mask = NULL, "io.mask is given differently");
    BAD_BACKWARD(io.mask = other, "io.mask has other values");
    check_ok(backward_all(net.plan, &good->io, &good->gradient));
    buffers_close(&net, good);
    net_close(&net);
}
END_TEST

START_TEST(backward_of_another_piece)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM "/dropout:0.5");
    struct buffers *good = buffers_open(&net);
    good->io.first_step = 3;
    net_train(&net, good);
    BAD_BACKWARD(io.first_step = 0, "io.first_step and io.first_row are 0 and 0, but 3 and 0");
    BAD_BACKWARD(io.first_row = 1, "are 3 and 1, but 3 and 0");
    check_ok(backward_all(net.plan, &good->io, &good->gradient));
    buffers_close(&net, good);
    net_close(&net);
}
END_TEST

/* The seed may change if the run draws no random numbers. */
START_TEST(seed_of_nothing)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *b = buffers_open(&net);
    net_train(&net, b);
    b->io.seed = 7;
    b->io.first_step = 7;
    check_ok(backward_all(net.plan, &b->io, &b->gradient));
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

START_TEST(inference_plan)
{
    struct net net;
    net_open(&net, net_device[_i], "lstm/f32/L2/bi/T5/N3/I4/H110");
    ck_assert_uint_eq(net.sizes.reserve_bytes, 0);
    struct buffers *b = buffers_open(&net);
    check_ok(forward_all(net.plan, &b->io));
    REFUSES(backward_all(net.plan, &b->io, &b->gradient), "without ECORNN_TRAINING");
    void *dparams[PARAMS] = {NULL};
    REFUSES(ecornn_unpack(net.plan, net.weights, dparams, 0, NULL), "without ECORNN_TRAINING");
    b->io.reserve = net.weights;
    REFUSES(forward_all(net.plan, &b->io), "io.reserve");
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

TEST_MAIN("api of runs", {arrays_misuse, NET_DEVICES}, {run_misuse, NET_DEVICES},
          {run_optional, NET_DEVICES}, {backward_of_another_run, NET_DEVICES},
          {states_of_every_step_need_y, NET_DEVICES}, {backward_with_other_resets, NET_DEVICES},
          {backward_with_another_mask, NET_DEVICES}, {backward_of_another_piece, NET_DEVICES},
          {seed_of_nothing, NET_DEVICES}, {inference_plan, NET_DEVICES})
