/*
 * Programs of another version of the header.  An older one, whose structures end three fields
 * earlier, gets the same bits; a newer one, whose structures are longer, runs unless it uses what
 * the library does not have.  Devices and cells may be closed before the plans that use them.
 */
#include <check.h>
#include <stddef.h>
#include <string.h>

#include "ecornn/experimental.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* ---- structures of other versions ------------------------------------------------------------ */

/* The same structures, as a version has them that ends before the last three fields. */
struct old_io {
    char bytes[offsetof(ecornn_io, added)];
};
struct old_gradient {
    char bytes[offsetof(ecornn_gradient, layers)];
};

START_TEST(older_programs_get_the_same_bits)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *b = buffers_open(&net), *whole = buffers_open(&net);
    struct old_io io;
    struct old_gradient gradient;
    net_train(&net, whole);
    b->io.size = sizeof io, b->gradient.size = sizeof gradient;
    memcpy(&io, &b->io, sizeof io);
    memcpy(&gradient, &b->gradient, sizeof gradient);
    memset(b->dweights, 0, net.sizes.dweight_bytes);
    check_ok(ecornn_forward(net.plan, T, N, (const ecornn_io *)(const void *)&io));
    check_ok(ecornn_backward(net.plan, T, N, (const ecornn_io *)(const void *)&io,
                             (const ecornn_gradient *)(const void *)&gradient));
    ck_assert_mem_eq(b->y, whole->y, sizeof b->y);
    ck_assert_mem_eq(b->dx, whole->dx, sizeof b->dx);
    ck_assert_mem_eq(b->dweights, whole->dweights, net.sizes.dweight_bytes);
    buffers_close(&net, b);
    buffers_close(&net, whole);
    net_close(&net);
}
END_TEST

/* What is returned ends where the caller's structure ends. */
START_TEST(older_programs_do_not_overflow)
{
    struct {
        char bytes[offsetof(ecornn_sizes, param_offset)];
        char after[64];
    } sizes;
    struct net net;
    const size_t size = sizeof sizes.bytes;
    net_open(&net, "cpu:1", NET_PROBLEM);
    memset(&sizes, 7, sizeof sizes);
    memcpy(sizes.bytes, &size, sizeof size);
    check_ok(ecornn_plan_sizes(net.plan, (ecornn_sizes *)(void *)&sizes));
    ck_assert_int_eq(memcmp(sizes.bytes, &size, sizeof size), 0);
    ck_assert_mem_eq(sizes.bytes + sizeof size, (const char *)&net.sizes + sizeof size,
                     sizeof sizes.bytes - sizeof size);
    for (size_t i = 0; i < sizeof sizes.after; i++)
        ck_assert_int_eq(sizes.after[i], 7);
    net_close(&net);
}
END_TEST

START_TEST(newer_programs_run)
{
    struct {
        ecornn_io io;
        void *later[3];
    } io;
    struct net net;
    net_open(&net, "cpu:1", NET_PROBLEM);
    struct buffers *b = buffers_open(&net);
    memset(&io, 0, sizeof io);
    io.io = b->io;
    io.io.size = sizeof io;
    check_ok(ecornn_forward(net.plan, T, N, &io.io));
    io.later[2] = b;
    REFUSES(ecornn_forward(net.plan, T, N, &io.io), "needs a later version");
    ecornn_desc good = {.size = 0};
    struct {
        ecornn_desc desc;
        int64_t later;
    } desc;
    ecornn_plan *plan = NULL;
    memset(&desc, 0, sizeof desc);
    check_ok(parse_desc(&good, NET_PROBLEM, NULL));
    desc.desc = good;
    desc.desc.size = sizeof desc;
    check_ok(ecornn_plan_create_desc(&plan, net.device, &desc.desc));
    ecornn_plan_free(plan);
    desc.later = 1;
    REFUSES(ecornn_plan_create_desc(&plan, net.device, &desc.desc), "needs a later version");
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

/* ---- lifetimes ------------------------------------------------------------------------------- */

static void run(const ecornn_plan *plan)
{
    static float numbers[1 << 16];
    static _Alignas(64) char blocks[2][1 << 18];
    const void *params[64];
    ecornn_sizes sizes;
    check_ok(get_sizes(plan, &sizes));
    ck_assert_uint_le(sizes.weight_bytes, sizeof blocks[0]);
    ck_assert_uint_le(sizes.workspace_bytes, sizeof blocks[1]);
    ck_assert_int_le(sizes.param_count, 64);
    for (int k = 0; k < sizes.param_count; k++)
        params[k] = numbers;
    check_ok(ecornn_pack(plan, params, NULL, blocks[0], NULL));
    const ecornn_io io = {.size = sizeof io,
                          .x = numbers,
                          .y = numbers + (1 << 15),
                          .weights = blocks[0],
                          .workspace = blocks[1]};
    check_ok(ecornn_forward(plan, sizes.steps, sizes.batch, &io));
}

/* A layer, a net, and a layer on a device of the plan's own, each of an own cell. */
START_TEST(closes_in_any_order)
{
    static const char text[] = "cell own(h)\nh' = tanh(W x + R h)\n";
    static const char *const problem[] = {"own/T3/N2/I4/H5", "T4/N2/I3; own/H4; join:2; gru/H5",
                                          "own/T3/N2/I4/H5"};
    ecornn_device *device = NULL;
    ecornn_cell *cell;
    ecornn_plan *plan;
    if (_i < 2)
        check_ok(ecornn_device_open(&device, "cpu:2"));
    check_ok(ecornn_cell_parse(&cell, text));
    check_ok(ecornn_plan_create(&plan, device, problem[_i], (const ecornn_cell *[]){cell, NULL}));
    void *const memory = device != NULL ? ecornn_alloc(device, 1 << 16) : NULL;
    ecornn_cell_free(cell);
    ecornn_device_close(device);
    if (device != NULL) {
        ecornn_plan *other = NULL;
        REFUSES(ecornn_plan_create(&other, device, "gru/T3/N2/I4/H5", NULL),
                "device cpu is closed");
        ck_assert_ptr_null(ecornn_alloc(device, 8));
        ecornn_device_close(device); /* for the second time: nothing happens */
    }
    run(plan);
    ecornn_plan_free(plan);
    ecornn_free(device, memory); /* the last that holds the device */
}
END_TEST

/* What the library keeps of a plan's kinds. */
START_TEST(each_kind_has_its_functions)
{
    static char text[1 << 14];
    ecornn_plan *layer, *net, *tangent, *attention;
    const ecornn_io io = {.size = sizeof io};
    const ecornn_attention_io attend = {.size = sizeof attend};
    check_ok(ecornn_plan_create(&layer, NULL, "gru/T3/N2/I4/H5", NULL));
    check_ok(ecornn_plan_create(&net, NULL, "T4/N2/I3; gru/H4; gru/H5", NULL));
    check_ok(ecornn_plan_create(&tangent, NULL, "gru/T3/N2/I4/H5/tangent", NULL));
    check_ok(ecornn_plan_create(&attention, NULL, "attention/additive/T3/S4/N2/H8", NULL));
    ecornn_plan *const all[] = {layer, net, tangent, attention};
    for (int k = 0; k < 4; k++)
        ck_assert_int_gt(ecornn_plan_print(all[k], text, sizeof text), 20);
    REFUSES(ecornn_forward(attention, 3, 2, &io), "ecornn_attention_forward");
    REFUSES(ecornn_attention_forward(layer, 3, 4, 2, &attend), "not of attention");
    const ecornn_io with_tangent = {.size = sizeof io, .tangent = &io};
    REFUSES(ecornn_forward(layer, 3, 2, &with_tangent), "io.tangent is");
    const ecornn_io *const layers[2] = {NULL};
    const ecornn_io with_layers = {.size = sizeof io, .layers = layers};
    REFUSES(ecornn_forward(layer, 3, 2, &with_layers), "the plan is not a net");
    check_refused(ecornn_weights_fit(net, layer), ECORNN_UNSUPPORTED, "compare the layers of nets");
    const ecornn_plan *part = NULL;
    check_ok(ecornn_plan_layer(net, 1, &part));
    ecornn_sizes sizes;
    check_ok(get_sizes(part, &sizes));
    ck_assert_int_eq(sizes.first_param, count_params(net) - sizes.param_count);
    for (int k = 0; k < 4; k++)
        ecornn_plan_free(all[k]);
}
END_TEST

TEST_MAIN("growth", 60, {older_programs_get_the_same_bits, NET_DEVICES},
          {older_programs_do_not_overflow, 1}, {newer_programs_run, 1}, {closes_in_any_order, 3},
          {each_kind_has_its_functions, 1})
