/*
 * Calls the public functions wrongly (runs: test_api_run.c). Each argument of each function is
 * wrong once. The error's detail must name the value, and no result may be written.
 */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* Results point here before a call that must not write them. */
static char anything;
#define ANY ((void *)&anything)

START_TEST(status_names)
{
    ck_assert_str_eq(ecornn_status_name(ECORNN_OK), "ok");
    ck_assert_str_eq(ecornn_status_name(ECORNN_FAILED), "failed");
    ck_assert_str_eq(ecornn_status_name((ecornn_status)99), "unknown status");
    ck_assert_str_eq(ecornn_status_name((ecornn_status)-1), "unknown status");
    ck_assert_str_eq(ecornn_error_detail(), "");
    ck_assert_ptr_nonnull(strstr(ecornn_version(), ECORNN_VERSION_STRING " cpu:"));
    ck_assert_ptr_eq(ecornn_version(), ecornn_version());
}
END_TEST

/* Texts are printed as snprintf does, for every size of the buffer. */
static void check_text(int (*print)(char *text, size_t size))
{
    static char whole[1 << 16], part[32];
    const int length = print(whole, sizeof whole);
    ck_assert(length > 40 && (size_t)length == strlen(whole));
    ck_assert_int_eq(print(NULL, 0), length);
    ck_assert_int_eq(print(part, sizeof part), length);
    ck_assert(strncmp(part, whole, sizeof part - 1) == 0 && strlen(part) == sizeof part - 1);
    ck_assert_int_eq(print(NULL, 1), -1);
    ck_assert_ptr_nonnull(strstr(ecornn_error_detail(), "text is NULL"));
}

static int print_cell(char *text, size_t size)
{
    return ecornn_cell_print(builtin_cell("gru-reset-first"), text, size);
}

START_TEST(texts_for_people)
{
    static char text[1 << 16];
    check_text(ecornn_info);
    check_text(print_cell);
    ck_assert_int_eq(ecornn_cell_print(NULL, text, sizeof text), -1);
    ecornn_info(text, sizeof text);
    ck_assert(strstr(text, "version: " ECORNN_VERSION_STRING "\n") == text);
    ck_assert(strstr(text, "\ninstruction sets: ") && strstr(text, " plain\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nCUDA: "));
    for (int k = 0; cell_name(k) != NULL; k++) {
        const ecornn_cell *cell = builtin_cell(cell_name(k));
        ck_assert_int_lt(ecornn_cell_print(cell, text, sizeof text), (int)sizeof text);
        ck_assert(strstr(text, "recipe\n") && strstr(text, "gradient\n") &&
                  strstr(text, "forward, stage 0\n") && strstr(text, "backward, stage 0\n"));
    }
    ecornn_cell_print(builtin_cell("rnn-tanh"), text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "  v5 = add(v3, v4)\n  v6 = tanh(v5)\n  h' = v6\n"));
    ck_assert_ptr_nonnull(strstr(text, "saved in training, besides states: nothing\n"));
}
END_TEST

START_TEST(algorithms_of_devices)
{
    ecornn_device *const device = device_on("cpu:1");
    ecornn_device_info info = {.size = sizeof info};
    check_ok(ecornn_device_query(device, &info));
    ck_assert_str_eq(info.algorithms, "packed blas scan matrix");
    ecornn_device_close(device);
}
END_TEST

START_TEST(device_misuse)
{
    static const struct {
        const char *name, *word;
        ecornn_status status;
    } bad[] = {
        {"", "''", ECORNN_BAD_ARGUMENT},
        {":4", "':4'", ECORNN_BAD_ARGUMENT},
        {"cpu:", "'cpu:'", ECORNN_BAD_ARGUMENT},
        {"cpu:0", "1 to 1024", ECORNN_BAD_ARGUMENT},
        {"cpu:1025", "'cpu:1025'", ECORNN_BAD_ARGUMENT},
        {"cpu:99999999999999999999", "1 to 1024", ECORNN_BAD_ARGUMENT},
        {"cpu:2x", "'cpu:2x'", ECORNN_BAD_ARGUMENT},
        {"cpu:-1", "'cpu:-1'", ECORNN_BAD_ARGUMENT},
        {"cpu 2", "'cpu 2'", ECORNN_BAD_ARGUMENT},
        {"reference:1", "'reference:1'", ECORNN_BAD_ARGUMENT},
        {"abacus", "'abacus'", ECORNN_NO_DEVICE},
        {"cp", "'cp'", ECORNN_NO_DEVICE},
        {"cpus", "'cpus'", ECORNN_NO_DEVICE},
    };
    ecornn_device *device = ANY;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        check_refused(ecornn_device_open(&device, bad[k].name), bad[k].status, bad[k].word);
        ck_assert_ptr_eq(device, ANY);
    }
    REFUSES(ecornn_device_open(NULL, "cpu"), "device is NULL");
    ck_assert_int_ge(count_devices("cpu"), 1);
    ck_assert_int_eq(count_devices("reference"), 1);
    ck_assert_int_eq(count_devices("cpu:1"), 0);
    ck_assert_int_eq(count_devices(NULL), 0);
    ecornn_device_close(NULL);
}
END_TEST

START_TEST(memory_misuse)
{
    static const char *const name[] = {NULL, "cpu", "cpu:2", "reference"};
    char data[8] = "1234567", back[8] = "";
    ecornn_device_info info;
    ecornn_device *const device = device_on(name[_i]);
    REFUSES(query_device(NULL, &info), "device is NULL");
    REFUSES(ecornn_device_query(device, NULL), "info is NULL");
    check_ok(query_device(device, &info));
    ck_assert_int_ge(info.threads, 1);
    ck_assert_str_eq(info.backend, _i == 3                                ? "reference"
                                   : _i == 0 && count_devices("cuda") > 0 ? "cuda" /* fastest */
                                                                          : "cpu");
    ck_assert_ptr_null(ecornn_alloc(NULL, 8));
    ck_assert_ptr_null(ecornn_alloc(device, 0));
    ck_assert_ptr_null(ecornn_alloc(device, SIZE_MAX));
    check_refused(ECORNN_NO_MEMORY, ECORNN_NO_MEMORY, "no memory for");
    void *memory = ecornn_alloc(device, 8);
    ck_assert_uint_eq((uintptr_t)memory % 64, 0);
    REFUSES(ecornn_upload(NULL, memory, data, 8), "device is NULL");
    REFUSES(ecornn_upload(device, NULL, data, 8), "8 bytes");
    REFUSES(ecornn_upload(device, memory, NULL, 8), "from_host is NULL");
    REFUSES(ecornn_download(NULL, data, memory, 8), "device is NULL");
    REFUSES(ecornn_download(device, NULL, memory, 8), "to_host is NULL");
    REFUSES(ecornn_download(device, data, NULL, 8), "from is NULL");
    REFUSES(ecornn_wait(NULL, NULL), "device is NULL");
    check_ok(ecornn_upload(device, NULL, NULL, 0));
    check_ok(ecornn_upload(device, memory, data, 8));
    check_ok(ecornn_download(device, back, memory, 8));
    check_ok(ecornn_wait(device, NULL));
    ck_assert_str_eq(back, data);
    ecornn_free(device, NULL);
    ecornn_free(NULL, NULL);
    ecornn_free(device, memory);
    ecornn_device_close(device);
}
END_TEST

START_TEST(cell_misuse)
{
    ecornn_cell *cell = ANY;
    REFUSES(ecornn_cell_parse(NULL, "cell a(h)\nh' = W x\n"), "cell is NULL");
    REFUSES(ecornn_cell_parse(&cell, NULL), "text is NULL");
    check_refused(ecornn_cell_parse(&cell, "cell a(h)\nh' = W y\n"), ECORNN_BAD_CELL, "2:");
    check_refused(ecornn_cell_parse(&cell, ""), ECORNN_BAD_CELL, "1:1");
    ck_assert_ptr_eq(cell, ANY);
    ck_assert_ptr_null(builtin_cell(NULL));
    ck_assert_ptr_null(builtin_cell(""));
    ck_assert_ptr_null(builtin_cell("lst"));
    ck_assert_ptr_null(cell_name(-1));
    int count = 0;
    while (cell_name(count))
        ck_assert_ptr_nonnull(builtin_cell(cell_name(count++)));
    ck_assert_int_eq(count, 13);
    ck_assert_ptr_null(cell_name(count + 1));
    const ecornn_cell *lstm = builtin_cell("lstm");
    memcpy(&cell, &lstm, sizeof cell); /* freeing a built-in cell leaves it alone */
    ecornn_cell_free(cell);
    ecornn_cell_free(NULL);
    ck_assert_ptr_eq(builtin_cell("lstm"), lstm);
    ck_assert_int_eq(count_states(NULL), 0);
}
END_TEST

#define BAD_DESC(change, status, word)                                                             \
    do {                                                                                           \
        ecornn_desc changed = good;                                                                \
        changed.change;                                                                            \
        check_refused(ecornn_plan_create_desc(&plan, device, &changed), status, word);             \
        ck_assert_ptr_eq(plan, ANY);                                                               \
    } while (0)

START_TEST(desc_misuse)
{
    static const struct {
        const char *problem, *word;
    } bad[] = {{"", "called \"\""},
               {"lstm/", "\"\" is not a valid part"},
               {"lstm/T5", "batch is 0, must be 1 to 16777216: N in a problem"},
               {"lstm/train/infer/T1/N1/I1/H1", "\"infer\" contradicts \"train\""},
               {"lstm/infer/train/T1/N1/I1/H1", "\"train\" contradicts \"infer\""},
               {"lstm/f32/f64/T1/N1/I1/H1", "\"f64\" contradicts \"f32\""},
               {"lstm/bf16-weights/T1/f16-weights/N1/I1/H1", "contradicts \"bf16-weights\""},
               {"lstm/bf16/bf16-params/bf16-params/T1/N1/I1/H1", "repeats \"bf16-params\""},
               {"lstm/fast/fast/T1/N1/I1/H1", "repeats \"fast\""},
               {"lstm/bi/rev/T1/N1/I1/H1", "\"rev\" contradicts \"bi\""},
               {"lstm/batch-major/T1/N1/I1/H1/batch-major", "repeats \"batch-major\""},
               {"lstm/T1/N1/I1/H1/T7", "\"T7\" contradicts \"T1\""},
               {"lstm/L1/T1/N1/I1/H1/L1", "\"L1\" repeats \"L1\""},
               {"lstm/dropout:0.5/T1/N1/I1/H1/dropout:0", "contradicts \"dropout:0.5\""},
               {"lstm/T4294967297/N1/I1/H1", "T is 4294967297, must be 1 to 16777216"},
               {"lstm/T1/N18446744073709551617/I1/H1", "N is 18446744073709551617"},
               {"lstm/T1/N1/I1/H1/L256", "L is 256, must be 0 to 255"},
               {"lstm/T1/N1/I1/H1/dropout:0.99999999", "is 1 in float"},
               {"sltm/T1/N1/I1/H1", "\"sltm\""},
               {"lstm/f8/T1/N1/I1/H1", "\"f8\""},
               {"lstm/T1/N1/I1/H99999999999", "H is 99999999999, must be 1 to 16777216"},
               {"lstm/T1/N1/I1/H1/dropout:1", "dropout is 1"},
               {"lstm/T1/N1/I1/H1/dropout:-.5", "dropout is -.5"},
               {"lstm/T1/N1/I1/H1/dropout:0,5", "\"dropout:0,5\""},
               {"lstm/T1/N1/I1/H1/L-1", "\"L-1\""},
               {"lstm/train/T9/N1/I1/H1/save:every:0", "save_every is 0, must be 1"},
               {"lstm/train/T9/N1/I1/H1/save:every:10", "save_every is 10, must be 0 to 9"},
               {"lstm/train/T9/N1/I1/H1/save:every:99999999999", "save_every is 99999999999"},
               {"lstm/train/T9/N1/I1/H1/save:every", "\"save:every\""},
               {"lstm/train/T9/N1/I1/H1/save:some", "\"save:some\""},
               {"lstm/T9/N1/I1/H1/save:states", "requires ECORNN_TRAINING"},
               {"lstm/train/save:states/T9/N1/I1/H1/save:all", "contradicts \"save:states\""},
               {"lstm/T9/N1/I1/H1/bf16-save/memory:1M", "must be 0 without ECORNN_TRAINING"},
               {"lstm/train/T9/N1/I1/H1/dropout:0.5", "goes between layers of one plan"},
               {"lstm/f64/train/T9/N1/I1/H1/save:states/f16-save", "save_type is f16"},
               {"lstm/T9/N1/I1/H1/memory:0", "\"memory:0\""},
               {"lstm/T9/N1/I1/H1/memory:1T", "\"memory:1T\""},
               {"lstm/T9/N1/I1/H1/memory:M", "\"memory:M\""},
               {"lstm/T9/N1/I1/H1/memory:99999999999G", "\"memory:99999999999G\""}};
    ecornn_desc good;
    ecornn_plan *plan = ANY;
    memset(&good, 7, sizeof good);
    good.size = sizeof good;
    const ecornn_desc before = good;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        REFUSES(parse_desc(&good, bad[k].problem, NULL), bad[k].word);
    REFUSES(parse_desc(&good, "lstm/f64/bf16-weights/T1/N1/I1/H1", NULL), "weight_type");
    REFUSES(parse_desc(&good, "lstm/bf16/f16-params/T1/N1/I1/H1", NULL), "param_type is f16");
    REFUSES(parse_desc(NULL, NET_PROBLEM, NULL), "desc is NULL");
    REFUSES(parse_desc(&good, NULL, NULL), "problem is NULL");
    ck_assert_mem_eq(&good, &before, sizeof good);
    check_ok(parse_desc(&good, NET_PROBLEM, NULL));
    ecornn_device *const device = device_on("cpu:1");
    REFUSES(ecornn_plan_create_desc(NULL, device, &good), "plan is NULL");
    REFUSES(ecornn_plan_create_desc(&plan, device, NULL), "desc is NULL");
    BAD_DESC(cell = NULL, ECORNN_BAD_ARGUMENT, "cell is NULL");
    BAD_DESC(input = 0, ECORNN_BAD_ARGUMENT, "input is 0");
    BAD_DESC(hidden = -3, ECORNN_BAD_ARGUMENT, "hidden is -3");
    BAD_DESC(proj = -1, ECORNN_BAD_ARGUMENT, "proj is -1");
    BAD_DESC(layers = 256, ECORNN_BAD_ARGUMENT, "layers is 256");
    BAD_DESC(steps = 0, ECORNN_BAD_ARGUMENT, "steps is 0");
    BAD_DESC(batch = INT32_MAX, ECORNN_BAD_ARGUMENT, "batch is 2147483647");
    BAD_DESC(size = 0, ECORNN_BAD_ARGUMENT, "desc.size is 0, must be its sizeof");
    BAD_DESC(flags |= ECORNN_REVERSE, ECORNN_BAD_ARGUMENT,
             "ECORNN_BIDIRECTIONAL exclude each other");
    BAD_DESC(flags |= ECORNN_SAVE_ALL | ECORNN_SAVE_STATES, ECORNN_BAD_ARGUMENT,
             "ECORNN_SAVE_STATES exclude");
    BAD_DESC(param_type = (ecornn_type)-1, ECORNN_BAD_ARGUMENT, "param_type is -1");
    BAD_DESC(param_type = ECORNN_BF16, ECORNN_BAD_ARGUMENT, "param_type is bf16");
    BAD_DESC(weight_type = (ecornn_type)9, ECORNN_BAD_ARGUMENT, "weight_type is 9");
    BAD_DESC(weight_type = ECORNN_F64, ECORNN_BAD_ARGUMENT, "weight_type is f64");
    BAD_DESC(flags = ECORNN_INT8 | ECORNN_TRAINING, ECORNN_UNSUPPORTED,
             "training does not support");
    BAD_DESC(weight_type = ECORNN_S8;
             changed.flags = ECORNN_TRAINING, ECORNN_UNSUPPORTED, "training");
    BAD_DESC(flags = ECORNN_INT8; changed.type = ECORNN_BF16, ECORNN_BAD_ARGUMENT, "type is bf16");
    BAD_DESC(flags = ECORNN_INT8;
             changed.weight_type = ECORNN_BF16, ECORNN_BAD_ARGUMENT, "type bf16");
    BAD_DESC(flags = ECORNN_INT8; changed.input = 65537, ECORNN_UNSUPPORTED, "input is 65537");
    BAD_DESC(type = ECORNN_S8, ECORNN_BAD_ARGUMENT, "type is 5");
    BAD_DESC(dropout = 1, ECORNN_BAD_ARGUMENT, "dropout is 1");
    BAD_DESC(dropout = -0.5f, ECORNN_BAD_ARGUMENT, "dropout is -0.5");
    BAD_DESC(flags = 0x80000, ECORNN_BAD_ARGUMENT, "0x80000");
    BAD_DESC(reserved = 5, ECORNN_BAD_ARGUMENT, "reserved is 5");
    BAD_DESC(reserved2 = 6, ECORNN_BAD_ARGUMENT, "reserved2 6");
    BAD_DESC(key = 5, ECORNN_BAD_ARGUMENT, "key is 5");
    BAD_DESC(save_every = -2, ECORNN_BAD_ARGUMENT, "save_every is -2, must be 0 to 5, the steps");
    good.flags |= ECORNN_SAVE_ALL;
    BAD_DESC(save_every = 2, ECORNN_BAD_ARGUMENT,
             "save_every is 2, must be 0 with ECORNN_SAVE_ALL");
    good.flags &= ~(uint32_t)ECORNN_SAVE_ALL;
    BAD_DESC(flags = 0; changed.save_type = ECORNN_BF16, ECORNN_BAD_ARGUMENT, "save_type is bf16");
    BAD_DESC(save_type = ECORNN_F64, ECORNN_BAD_ARGUMENT, "save_type is f64");
    BAD_DESC(save_type = (ecornn_type)7, ECORNN_BAD_ARGUMENT, "save_type is 7");
    good.cell = builtin_cell("gru");
    BAD_DESC(proj = 2, ECORNN_UNSUPPORTED, "proj is 2");
    ecornn_cell *raw;
    check_ok(ecornn_cell_parse(&raw, "cell raw(h)\nh' = tanh(R h + b) + x"));
    good.cell = raw, good.input = 4, good.hidden = 4, good.layers = 2;
    BAD_DESC(input = 3, ECORNN_UNSUPPORTED, "input is 3, but cell raw reads x unit by unit: must");
    BAD_DESC(flags |= ECORNN_BIDIRECTIONAL, ECORNN_UNSUPPORTED, "a layer's output is 8 wide");
    ecornn_cell_free(raw);
    ecornn_plan_free(NULL);
    ecornn_device_close(device);
}
END_TEST

START_TEST(plan_misuse)
{
    static const ecornn_sizes marked = {.size = sizeof marked, .steps = 6};
    struct net net;
    net_open(&net, "cpu:1", NET_PROBLEM);
    ecornn_sizes sizes = marked;
    REFUSES(get_sizes(NULL, &sizes), "plan is NULL");
    ck_assert_mem_eq(&sizes, &marked, sizeof sizes);
    REFUSES(ecornn_plan_sizes(net.plan, NULL), "sizes is NULL");
    sizes.size = 12;
    REFUSES(ecornn_plan_sizes(net.plan, &sizes), "sizes.size is 12, must be its sizeof");
    ck_assert_int_eq(sizes.steps, 6);
    char text[8] = "marked";
    ck_assert_int_eq(ecornn_plan_print(NULL, text, sizeof text), -1);
    ck_assert_int_eq(ecornn_plan_print(net.plan, NULL, 1), -1);
    ck_assert_str_eq(text, "marked");
    const int length = ecornn_plan_print(net.plan, NULL, 0);
    ck_assert_int_eq(ecornn_plan_print(net.plan, text, sizeof text), length);
    ck_assert_str_eq(text, "lstm/f3");
    ecornn_param param = {.rows = 77};
    ck_assert_int_eq(count_params(NULL), 0);
    REFUSES(param_at(NULL, 0, &param), "plan is NULL");
    REFUSES(ecornn_param_get(net.plan, 0, NULL), "param is NULL");
    REFUSES(param_at(net.plan, -1, &param), "index is -1");
    REFUSES(param_at(net.plan, 48, &param), "0 to 47");
    ck_assert_int_eq(param.rows, 77);
    net_close(&net);
}
END_TEST

START_TEST(pack_misuse)
{
    struct net net;
    net_open(&net, "cpu:1", NET_PROBLEM);
    static float value[D * H * H]; /* room for the largest parameter */
    void *params[PARAMS];
    const void *given[PARAMS];
    for (int k = 0; k < PARAMS; k++)
        given[k] = params[k] = value;
    char *weights = net.weights;
    REFUSES(ecornn_pack(NULL, given, NULL, weights, NULL), "plan is NULL");
    REFUSES(ecornn_pack(net.plan, NULL, NULL, weights, NULL), "params is NULL");
    REFUSES(ecornn_pack(net.plan, given, NULL, NULL, NULL), "weights is NULL");
    REFUSES(ecornn_pack(net.plan, given, NULL, weights + 8, NULL), "64 bytes");
    given[46] = (char *)value + 2;
    REFUSES(ecornn_pack(net.plan, given, NULL, weights, NULL), "must be aligned to 4 bytes");
    given[46] = value;
    given[47] = NULL;
    REFUSES(ecornn_pack(net.plan, given, NULL, weights, NULL), "params[47] is NULL");
    struct buffers *b = buffers_open(&net);
    char *dweights = b->dweights;
    REFUSES(ecornn_unpack(NULL, dweights, params, 0, NULL), "plan is NULL");
    REFUSES(ecornn_unpack(net.plan, NULL, params, 0, NULL), "dweights is NULL");
    REFUSES(ecornn_unpack(net.plan, dweights + 4, params, 0, NULL), "64 bytes");
    REFUSES(ecornn_unpack(net.plan, dweights, NULL, 0, NULL), "dparams is NULL");
    params[3] = (char *)value + 1;
    REFUSES(ecornn_unpack(net.plan, dweights, params, 0, NULL), "dparams[3] is");
    params[3] = value;
    ck_assert(value[0] == 0);
    net_train(&net, b);
    memset(params, 0, sizeof params);
    params[0] = value;
    check_ok(ecornn_unpack(net.plan, dweights, params, 0, NULL));
    const float once = value[0];
    ck_assert(once != 0);
    check_ok(ecornn_unpack(net.plan, dweights, params, 1, NULL));
    ck_assert(value[0] == 2 * once);
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

START_TEST(import_misuse)
{
    struct net net;
    net_open(&net, "cpu:1", NET_PROBLEM);
    size_t elements = 99;
    float block[1], params[1] = {5};
    REFUSES(ecornn_import_size(NULL, "torch", &elements), "plan is NULL");
    REFUSES(ecornn_import_size(net.plan, NULL, &elements), "system is NULL");
    REFUSES(ecornn_import_size(net.plan, "Torch", &elements), "'Torch'");
    REFUSES(ecornn_import_size(net.plan, "torch", NULL), "elements is NULL");
    REFUSES(ecornn_import(NULL, "torch", block, ECORNN_F32, elements, params), "plan is NULL");
    REFUSES(ecornn_import(net.plan, NULL, block, ECORNN_F32, elements, params), "system is NULL");
    REFUSES(ecornn_import(net.plan, "", block, ECORNN_F32, elements, params), "onnx");
    REFUSES(ecornn_import(net.plan, "onnx", NULL, ECORNN_F32, elements, params), "block is NULL");
    REFUSES(ecornn_import(net.plan, "onnx", block, ECORNN_F32, elements, NULL),
            "param_block is NULL");
    REFUSES(ecornn_export(NULL, "torch", params, block, ECORNN_F32, elements), "plan is NULL");
    REFUSES(ecornn_export(net.plan, NULL, params, block, ECORNN_F32, elements), "system is NULL");
    REFUSES(ecornn_export(net.plan, "tf", params, block, ECORNN_F32, elements), "'tf'");
    REFUSES(ecornn_export(net.plan, "keras", NULL, block, ECORNN_F32, elements),
            "param_block is NULL");
    REFUSES(ecornn_import(net.plan, "onnx", (char *)block + 1, ECORNN_F32, elements, params),
            "block is");
    REFUSES(ecornn_export(net.plan, "keras", params, (char *)block + 2, ECORNN_F32, elements),
            "must be aligned to 4 bytes");
    REFUSES(ecornn_export(net.plan, "keras", params, NULL, ECORNN_F32, elements), "block is NULL");
    ck_assert_uint_eq(elements, 99);
    ck_assert(params[0] == 5);
    net_close(&net);
}
END_TEST

/* A text from the user in a detail must not contain ends of lines or codes that a terminal obeys.
 */
START_TEST(detail_is_one_line)
{
    static const struct {
        const char *part, *shown;
    } text[] = {
        {"x\nall is well", "\"x\\x0Aall is well\""},
        {"\033[2K\r", "\"\\x1B[2K\\x0D\""},
        {"\177\a\t", "\"\\x7F\\x07\\x09\""},
        {"\302\2332J", "\"\\xC2\\x9B2J\""},      /* U+009B: means the same as escape and [ */
        {"\342\200\250", "\"\\xE2\\x80\\xA8\""}, /* U+2028: an end of line */
        {"\342\200\256", "\"\\xE2\\x80\\xAE\""}, /* U+202E: from right to left */
        {"\342\201\246", "\"\\xE2\\x81\\xA6\""}, /* U+2066: the same */
        {"caf\303\251 \360\237\216\265", "\"caf\303\251 \360\237\216\265\""}, /* UTF-8 */
        {"\303", "\"\\xC3\""},                                                /* cut short */
        {"\300\257\340\200\257", "\"\\xC0\\xAF\\xE0\\x80\\xAF\""},            /* too long */
        {"\355\240\200", "\"\\xED\\xA0\\x80\""},                              /* half a pair */
        {"\364\220\200\200\377", "\\xF4\\x90\\x80\\x80\\xFF"}, /* past the last one */
    };
    ecornn_desc desc;
    ecornn_device *device;
    ecornn_plan *plan;
    char problem[160];
    for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
        snprintf(problem, sizeof problem, "lstm/T1/N1/I1/H1/%s", text[k].part);
        REFUSES(parse_desc(&desc, problem, NULL), text[k].shown);
    }
    char name[600];
    memset(name, '\n', sizeof name);
    name[sizeof name - 1] = '\0';
    REFUSES(ecornn_device_open(&device, name), "\\x0A");
    REFUSES(parse_desc(&desc, "\n/T1", NULL), "called \"\\x0A\"");
    check_ok(ecornn_device_open(&device, "cpu:1"));
    check_ok(parse_desc(&desc, "lstm/f16/T1/N1/I1/H1", NULL));
    check_refused(ecornn_plan_create_desc(&plan, device, &desc), ECORNN_UNSUPPORTED, "; blas: ");
    ck_assert_ptr_null(strpbrk(ecornn_error_detail(), "\n\\"));
    ecornn_device_close(device);
}
END_TEST

/* Each thread has its own detail. */
static void *fail_elsewhere(void *argument)
{
    (void)argument;
    REFUSES(ecornn_wait(NULL, NULL), "device is NULL");
    return NULL;
}

START_TEST(detail_is_per_thread)
{
    pthread_t thread;
    REFUSES(ecornn_cell_parse(NULL, ""), "cell is NULL");
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(ecornn_error_detail(), "cell is NULL");
}
END_TEST

/* A plan with a block larger than any memory is refused. */
static void check_block(const char *problem, ecornn_status status, size_t bytes, int *too_large)
{
    ck_assert_msg(status == ECORNN_OK ? bytes <= PTRDIFF_MAX
                                      : strstr(ecornn_error_detail(), "bytes") != NULL,
                  "%s: %s, %zu bytes", problem, ecornn_error_detail(), bytes);
    *too_large += status != ECORNN_OK;
}

START_TEST(sizes_are_counted)
{
    int refused[3] = {0};
    ecornn_device *const device = device_on("cpu:2");
    for (int k = 0; k < 120; k++) {
        const int extent = (int)(pow(2, k / 5.) + 0.5);
        char text[3][160];
        ecornn_desc desc;
        ecornn_sizes sizes = {0}, of_net = {0}, of_tangent = {0};
        ecornn_plan *plan = NULL, *net = NULL, *tangent = NULL;
        snprintf(text[0], sizeof text[0], "gru/f32/T1/N1/I%d/H%d/models:4000", extent, extent);
        snprintf(text[1], sizeof text[1], "f64/train/T16777216/N16777216/I%d; gru/H1; gru/H%d",
                 extent, extent / 2 + 1);
        snprintf(text[2], sizeof text[2], "gru/f32/train/L2/T16777216/N16777216/I1/H%d/tangent",
                 extent);
        check_ok(parse_desc(&desc, text[0], NULL));
        ecornn_status status = ecornn_plan_create_desc(&plan, device, &desc);
        if (status == ECORNN_OK)
            get_sizes(plan, &sizes);
        check_block(text[0], status, sizes.weight_bytes, &refused[0]);
        status = ecornn_plan_create(&net, device, text[1], NULL);
        if (status == ECORNN_OK)
            get_sizes(net, &of_net);
        check_block(text[1], status, of_net.reserve_bytes, &refused[1]);
        status = ecornn_plan_create(&tangent, device, text[2], NULL);
        if (status == ECORNN_OK)
            get_sizes(tangent, &of_tangent);
        check_block(text[2], status, of_tangent.workspace_bytes, &refused[2]);
        ecornn_plan_free(plan);
        ecornn_plan_free(net);
        ecornn_plan_free(tangent);
    }
    for (int k = 0; k < 3; k++)
        ck_assert_msg(refused[k] > 0 && refused[k] < 120, "%d: %d of 120", k, refused[k]);
    ecornn_device_close(device);
}
END_TEST

TEST_MAIN("api", {status_names, 1}, {texts_for_people, 1}, {algorithms_of_devices, 1},
          {device_misuse, 1}, {memory_misuse, 4}, {cell_misuse, 1}, {desc_misuse, 1},
          {plan_misuse, 1}, {pack_misuse, 1}, {import_misuse, 1}, {sizes_are_counted, 1},
          {detail_is_one_line, 1}, {detail_is_per_thread, 1})
