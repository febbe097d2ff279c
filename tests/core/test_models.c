/*
 * Several models in one run: the bits of each are those of a run by itself, and dx of an x that all
 * read is their sum, in their order.  By every algorithm that does it, on one thread and on two.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* Models, and whether io.lengths or io.resets are given. */
static const struct {
    const char *problem;
    int models;
    bool shared, lengths, resets;
} list[] = {
    {"lstm/f32/train/L2/bi/T5/N3/I4/H19", 5, false, true, false},
    {"lstm/f32/train/L2/T5/N3/I4/H19/dropout:0.5", 3, true, false, false},
    {"gru/f32/train/T9/N4/I7/H33/batch-major/resets", 4, false, false, true},
    {"gru/f64/train/rev/T5/N3/I4/H19", 2, true, true, false},
    {"lstm/f32/train/L2/T5/N3/I4/H19/all-states", 3, true, true, false},
    {"lstm/bf16/train/T5/N3/I4/H20/P6", 3, true, false, false},
    {"mgu/f32/train/T7/N3/I4/H17/save:every:3", 3, false, false, false},
    {"rnn-tanh/f32/infer/L2/T7/N3/I4/H50", 16, true, false, false},
};
enum { PROBLEMS = sizeof list / sizeof *list };
static const char *const devices[] = {"reference", "cpu:1", "cpu:2", "cpu:3"};
enum { DEVICES = sizeof devices / sizeof *devices };

static void check_ok(ecornn_status status)
{
    ck_assert_msg(status == ECORNN_OK, "%s: %s", ecornn_status_name(status), ecornn_error_detail());
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Arrays of one model, of all, or one shared: bytes of a model, and how many models it has. */
enum {
    X,
    DY,
    INITIAL,
    DFINAL,
    START,
    DSTATES, /* of every step */
    PARAMS,
    Y,
    FINAL,
    STATES,
    DX,
    DINITIAL,
    DSTART,
    DPARAMS,
    ARRAYS
};

struct run {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    ecornn_desc desc;
    int models, states;
    size_t bytes[ARRAYS], state[2]; /* of a model; of a state of one */
    char *array[ARRAYS];
    void *weights, *workspace, *reserve, *dweights;
};

static void count_bytes(struct run *run)
{
    const ecornn_desc *desc = &run->desc;
    const size_t T = (size_t)desc->steps, N = (size_t)desc->batch, H = (size_t)desc->hidden;
    const size_t D = desc->direction == ECORNN_BIDIRECTIONAL ? 2 : 1;
    const size_t L = desc->layers > 0 ? (size_t)desc->layers : 1;
    const size_t P = desc->proj > 0 ? (size_t)desc->proj : H;
    const size_t element = eco_type_bytes(desc->type);
    run->state[0] = L * D * N * P * element;
    run->state[1] = L * D * N * H * element;
    const size_t states = run->state[0] + (run->states > 1 ? run->state[1] : 0);
    const size_t x = T * N * (size_t)desc->input * element, y = T * N * D * P * element;
    const size_t params = run->sizes.params / (size_t)run->models *
                          (desc->type == ECORNN_F64 ? sizeof(double) : sizeof(float));
    const size_t bytes[ARRAYS] = {
        [X] = x,
        [DX] = x,
        [Y] = y,
        [DY] = y,
        [PARAMS] = params,
        [DPARAMS] = params,
        [INITIAL] = states,
        [DFINAL] = states,
        [START] = states,
        [FINAL] = states,
        [DINITIAL] = states,
        [DSTART] = states,
        [STATES] = T * states,
        [DSTATES] = T * states,
    };
    memcpy(run->bytes, bytes, sizeof bytes);
}

static void open_run(struct run *run, const char *device, const char *problem)
{
    check_ok(ecornn_device_open(&run->device, device));
    check_ok(ecornn_desc_parse(&run->desc, problem, NULL));
    check_ok(ecornn_plan_create(&run->plan, run->device, &run->desc));
    ecornn_plan_sizes(run->plan, &run->sizes);
    run->models = run->desc.models > 1 ? run->desc.models : 1;
    run->states = ecornn_cell_states(run->desc.cell);
    count_bytes(run);
    for (int k = 0; k < ARRAYS; k++)
        run->array[k] = calloc((size_t)run->models, run->bytes[k]);
    run->weights = ecornn_alloc(run->device, run->sizes.weights);
    run->workspace = ecornn_alloc(run->device, run->sizes.workspace);
    run->reserve = ecornn_alloc(run->device, run->sizes.reserve);
    run->dweights = ecornn_alloc(run->device, run->sizes.dweights);
}

static void close_run(struct run *run)
{
    void *const blocks[] = {run->weights, run->workspace, run->reserve, run->dweights};
    for (int k = 0; k < 4; k++)
        ecornn_free(run->device, blocks[k]);
    for (int k = 0; k < ARRAYS; k++)
        free(run->array[k]);
    ecornn_plan_free(run->plan);
    ecornn_device_close(run->device);
}

static bool is_states(int array)
{
    return array == INITIAL || array == DFINAL || array == START || array == DSTATES ||
           array == FINAL || array == STATES || array == DINITIAL || array == DSTART;
}

/* Bytes of state s of a model, or of another array. */
static size_t part_bytes(const struct run *run, int array, int s)
{
    const size_t steps = array == STATES || array == DSTATES ? (size_t)run->desc.steps : 1;
    return is_states(array) ? steps * run->state[s] : run->bytes[array];
}

/* State s of all models lies behind state s - 1 of all. */
static void *state(const struct run *run, int array, int s)
{
    return s < run->states
               ? run->array[array] + (s > 0 ? (size_t)run->models * part_bytes(run, array, 0) : 0)
               : NULL;
}

static void train(struct run *run, const int32_t *lengths, const uint8_t *resets, uint64_t seed)
{
    void *params[256], *dparams[256];
    const size_t element = run->desc.type == ECORNN_F64 ? sizeof(double) : sizeof(float);
    const int count = ecornn_param_count(run->plan);
    const bool trains = (run->desc.flags & ECORNN_TRAINING) != 0;
    ck_assert_int_le(count, 256);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(ecornn_param_get(run->plan, k, &param));
        params[k] = run->array[PARAMS] + param.offset * element;
        dparams[k] = run->array[DPARAMS] + param.offset * element;
    }
    ecornn_io io = {.size = sizeof io,
                    .steps = ECORNN_ALL,
                    .batch = ECORNN_ALL,
                    .lengths = lengths,
                    .resets = resets,
                    .x = run->array[X],
                    .y = run->array[Y],
                    .weights = run->weights,
                    .workspace = run->workspace,
                    .reserve = trains ? run->reserve : NULL,
                    .seed = seed,
                    .workspace_bytes = run->sizes.workspace,
                    .reserve_bytes = run->sizes.reserve};
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = run->array[DY],
                                .dx = run->array[DX],
                                .dweights = run->dweights};
    for (int s = 0; s < run->states; s++) {
        io.initial[s] = state(run, INITIAL, s);
        io.final[s] = state(run, FINAL, s);
        if (run->desc.flags & ECORNN_ALL_STATES)
            io.states[s] = state(run, STATES, s), gradient.dstates[s] = state(run, DSTATES, s);
        io.reset_state[s] = resets ? state(run, START, s) : NULL;
        gradient.dfinal[s] = state(run, DFINAL, s);
        gradient.dinitial[s] = state(run, DINITIAL, s);
        gradient.dreset_state[s] = resets ? state(run, DSTART, s) : NULL;
    }
    check_ok(ecornn_pack(run->plan, (const void *const *)params, run->weights, NULL));
    check_ok(ecornn_forward(run->plan, &io));
    if (!trains)
        return;
    check_ok(ecornn_backward(run->plan, &io, &gradient));
    check_ok(ecornn_unpack(run->plan, run->dweights, dparams, 0, NULL));
}

/* ---- all against each ------------------------------------------------------------------------ */

static void fill(char *array, size_t bytes, ecornn_type type, uint64_t *seed)
{
    for (size_t i = 0; i < bytes / eco_type_bytes(type); i++)
        eco_type_set(array, i, type, uniform(seed) - 0.5);
}

/* Model m's part of an array of all. */
static char *part_of(const struct run *all, int array, int m, int s)
{
    if (is_states(array))
        return (char *)state(all, array, s) + (size_t)m * part_bytes(all, array, s);
    const bool one = (all->desc.flags & ECORNN_SHARED_INPUT) != 0 && (array == X || array == DX);
    return all->array[array] + (one ? 0 : (size_t)m * all->bytes[array]);
}

static int parts(const struct run *run, int array)
{
    return is_states(array) ? run->states : 1;
}

/* Inputs of model m into one, or what it gave against that of all. */
static void take_inputs(const struct run *all, const struct run *one, int m)
{
    for (int array = X; array <= PARAMS; array++)
        for (int s = 0; s < parts(all, array); s++)
            memcpy(part_of(one, array, 0, s), part_of(all, array, m, s), part_bytes(all, array, s));
}

static void compare(const struct run *all, const struct run *one, int m, bool resets)
{
    static const char *const name[ARRAYS] = {[Y] = "y",
                                             [FINAL] = "final",
                                             [STATES] = "states",
                                             [DX] = "dx",
                                             [DINITIAL] = "dinitial",
                                             [DSTART] = "dstart",
                                             [DPARAMS] = "dparams"};
    const bool trains = (all->desc.flags & ECORNN_TRAINING) != 0;
    const bool shared = (all->desc.flags & ECORNN_SHARED_INPUT) != 0;
    for (int array = Y; array <= (trains ? DPARAMS : STATES); array++)
        for (int s = 0; s < parts(all, array); s++)
            if (!(array == DX && shared) && !(array == DSTART && !resets))
                ck_assert_msg(memcmp(part_of(one, array, 0, s), part_of(all, array, m, s),
                                     part_bytes(all, array, s)) == 0,
                              "model %d: other %s[%d]", m, name[array], s);
}

START_TEST(bits_are_those_of_each_by_itself)
{
    const int models = list[_i / DEVICES].models;
    const bool shared = list[_i / DEVICES].shared, reset = list[_i / DEVICES].resets;
    const char *device = devices[_i % DEVICES];
    char problem[200];
    struct run all = {.device = NULL}, one = {.device = NULL};
    int32_t lengths[64];
    uint8_t resets[512];
    uint64_t seed = 3;
    snprintf(problem, sizeof problem, "%s/models:%d%s", list[_i / DEVICES].problem, models,
             shared ? "/shared-x" : "");
    open_run(&all, device, problem);
    open_run(&one, device, list[_i / DEVICES].problem);
    ck_assert_int_eq(ecornn_param_count(all.plan), models * ecornn_param_count(one.plan));
    for (int array = X; array <= PARAMS; array++)
        fill(all.array[array], (size_t)models * all.bytes[array],
             array == PARAMS && all.desc.type == ECORNN_BF16 ? ECORNN_F32 : all.desc.type, &seed);
    const size_t T = (size_t)all.desc.steps, N = (size_t)all.desc.batch;
    const size_t rows = shared ? N : (size_t)models * N;
    for (size_t n = 0; n < rows; n++)
        lengths[n] = (int32_t)(uniform(&seed) * (double)(T + 1));
    for (size_t n = 0; n < T * rows; n++)
        resets[n] = uniform(&seed) < 0.3;
    const bool ragged = list[_i / DEVICES].lengths;
    train(&all, ragged ? lengths : NULL, reset ? resets : NULL, 11);
    char *sum = calloc(1, all.bytes[DX]);
    for (int m = 0; m < models; m++) {
        const size_t mine = shared ? 0 : (size_t)m;
        take_inputs(&all, &one, m);
        train(&one, ragged ? lengths + mine * N : NULL, reset ? resets + mine * T * N : NULL,
              11 + (uint64_t)m);
        compare(&all, &one, m, reset);
        eco_type_add(sum, all.desc.type, one.array[DX], all.desc.type,
                     all.bytes[DX] / eco_type_bytes(all.desc.type));
    }
    if (shared && (all.desc.flags & ECORNN_TRAINING) != 0)
        ck_assert_mem_eq(sum, all.array[DX], all.bytes[DX]);
    free(sum);
    close_run(&all);
    close_run(&one);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(ecornn_status status, ecornn_status expected, const char *word)
{
    ck_assert_msg(status == expected && strstr(ecornn_error_detail(), word) != NULL,
                  "%s, '%s', must be %s, with '%s'", ecornn_status_name(status),
                  ecornn_error_detail(), ecornn_status_name(expected), word);
}

START_TEST(what_is_wrong_is_said)
{
    struct run run = {.device = NULL};
    ecornn_desc desc;
    ecornn_plan *plan = NULL;
    ecornn_param param;
    char text[4000];
    refused(ecornn_desc_parse(&desc, "lstm/T2/N2/I2/H2/models:0", NULL), ECORNN_BAD_ARGUMENT,
            "models is 0, must be 1 to 4096");
    refused(ecornn_desc_parse(&desc, "lstm/T2/N2/I2/H2/models:x", NULL), ECORNN_BAD_ARGUMENT,
            "\"models:x\" is no part");
    refused(ecornn_desc_parse(&desc, "lstm/T2/N2/I2/H2/models:2/models:3", NULL),
            ECORNN_BAD_ARGUMENT, "\"models:3\" contradicts \"models:2\"");
    open_run(&run, "cpu:2", "lstm/train/T2/N2/I2/H2/models:3/shared-x");
    refused(ecornn_desc_parse(&desc, "lstm/T2/N2/I2/H2/shared-x", NULL), ECORNN_BAD_ARGUMENT,
            "models is 0, must be 2 or more");
    refused(ecornn_desc_parse(&desc, "lstm/train/T2/N2/I2/H2/models:2/memory:1M", NULL),
            ECORNN_UNSUPPORTED, "must be 0 with models, which are 2");
    desc = run.desc;
    desc.models = -1;
    refused(ecornn_plan_create(&plan, run.device, &desc), ECORNN_BAD_ARGUMENT,
            "models is -1, must be 0 to 4096");
    if (ecornn_device_count("cuda") > 0) {
        ecornn_device *cuda;
        check_ok(ecornn_device_open(&cuda, "cuda"));
        refused(ecornn_plan_create(&plan, cuda, &run.desc), ECORNN_UNSUPPORTED,
                "models is 3, must be 1: device cuda has no plans of several models");
        ecornn_device_close(cuda);
    }
    ck_assert_int_gt(ecornn_plan_print(run.plan, text, sizeof text), 100);
    ck_assert_ptr_nonnull(strstr(text, "/models:3/shared-x: 2 at once, each as\nlstm/f32/train"));
    check_ok(ecornn_param_get(run.plan, 12, &param));
    ck_assert_str_eq(param.name, "1:0.fwd.W.i");
    ck_assert_int_eq((int)param.offset, (int)run.sizes.params / 3);
    refused(ecornn_param_get(run.plan, 36, &param), ECORNN_BAD_ARGUMENT, "must be 0 to 35");
    ecornn_io io = {.size = sizeof io,
                    .steps = ECORNN_ALL,
                    .batch = ECORNN_ALL,
                    .x = run.array[X],
                    .weights = run.weights,
                    .workspace = run.workspace,
                    .workspace_bytes = 8};
    refused(ecornn_forward(run.plan, &io), ECORNN_BAD_ARGUMENT, "io.workspace_bytes is 8");
    io.workspace_bytes = 0;
    io.reserve = run.reserve; /* of no run: found by the first model's thread, or the second's */
    memset(run.reserve, 0, run.sizes.reserve);
    const ecornn_gradient gradient = {.size = sizeof gradient};
    refused(ecornn_backward(run.plan, &io, &gradient), ECORNN_BAD_ARGUMENT, "reserve");
    close_run(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("models");
    TCase *tests = tcase_create("models");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, bits_are_those_of_each_by_itself, 0, PROBLEMS * DEVICES);
    tcase_add_test(tests, what_is_wrong_is_said);
    return suite_run(suite, true);
}
