/*
 * Runs of several models, and of one; see models.h.
 */
#include "tests/kit/models.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/seed.h"
#include "common/type.h"
#include "tests/kit/testing.h"
#include "tests/kit/calls.h"

enum { MOST_PARAMS = 1024 };

static void *alloc(const struct models_memory *memory, size_t bytes)
{
    void *array = memory != NULL ? memory->alloc(bytes) : malloc(bytes);
    ck_assert_ptr_nonnull(array);
    return memset(array, 0, bytes);
}

static void release(const struct models_memory *memory, void *array)
{
    (memory != NULL ? memory->release : free)(array);
}

static void count_bytes(struct models_run *run)
{
    const ecornn_desc *desc = &run->desc;
    const size_t T = (size_t)desc->steps, N = (size_t)desc->batch, H = (size_t)desc->hidden;
    const size_t D = (desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    const size_t L = desc->layers > 0 ? (size_t)desc->layers : 1;
    const size_t P = desc->proj > 0 ? (size_t)desc->proj : H;
    const size_t element = eco_type_bytes(desc->type);
    run->state[0] = L * D * N * P * element;
    run->state[1] = L * D * N * H * element;
    const size_t states = run->state[0] + (run->states > 1 ? run->state[1] : 0);
    const size_t x = T * N * (size_t)desc->input * element, y = T * N * D * P * element;
    const size_t params = run->sizes.param_elements / (size_t)run->models *
                          (desc->type == ECORNN_F64 ? sizeof(double) : sizeof(float));
    const size_t bytes[MODELS_ARRAYS] = {
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

static void open_arrays(struct models_run *run)
{
    get_sizes(run->plan, &run->sizes);
    run->models = run->desc.models > 1 ? run->desc.models : 1;
    run->states = count_states(run->desc.cell);
    count_bytes(run);
    for (int k = 0; k < MODELS_ARRAYS; k++)
        run->array[k] = alloc(run->memory, (size_t)run->models * run->bytes[k]);
    run->weights = ecornn_alloc(run->device, run->sizes.weight_bytes);
    run->workspace = ecornn_alloc(run->device, run->sizes.workspace_bytes);
    run->reserve = ecornn_alloc(run->device, run->sizes.reserve_bytes);
    run->dweights = ecornn_alloc(run->device, run->sizes.dweight_bytes);
}

void models_open(struct models_run *run, const char *device, const char *problem)
{
    check_ok(ecornn_device_open(&run->device, device));
    check_ok(parse_desc(&run->desc, problem, NULL));
    check_ok(ecornn_plan_create_desc(&run->plan, run->device, &run->desc));
    open_arrays(run);
}

void models_open_beside(struct models_run *run, const struct models_run *other)
{
    run->device = other->device;
    run->plan = other->plan;
    run->desc = other->desc;
    run->borrows = true;
    open_arrays(run);
}

void models_close(struct models_run *run)
{
    void *const blocks[] = {run->weights, run->workspace, run->reserve, run->dweights};
    for (int k = 0; k < 4; k++)
        ecornn_free(run->device, blocks[k]);
    for (int k = 0; k < MODELS_ARRAYS; k++)
        release(run->memory, run->array[k]);
    if (run->borrows)
        return;
    ecornn_plan_free(run->plan);
    ecornn_device_close(run->device);
}

static bool is_states(int array)
{
    return array == INITIAL || array == DFINAL || array == START || array == DSTATES ||
           array == FINAL || array == STATES || array == DINITIAL || array == DSTART;
}

/* Bytes of state s of a model, or of another array. */
static size_t part_bytes(const struct models_run *run, int array, int s)
{
    const size_t steps = array == STATES || array == DSTATES ? (size_t)run->desc.steps : 1;
    return is_states(array) ? steps * run->state[s] : run->bytes[array];
}

/* State s of all models follows state s - 1 of all models. */
static void *state(const struct models_run *run, int array, int s)
{
    return s < run->states
               ? run->array[array] + (s > 0 ? (size_t)run->models * part_bytes(run, array, 0) : 0)
               : NULL;
}

/* Finds the parameters and their gradients in their arrays. */
static ecornn_status find_params(const struct models_run *run, void *params[MOST_PARAMS],
                                 void *dparams[MOST_PARAMS])
{
    const size_t element = run->desc.type == ECORNN_F64 ? sizeof(double) : sizeof(float);
    const int count = count_params(run->plan);
    ecornn_status status = count <= MOST_PARAMS ? ECORNN_OK : ECORNN_UNSUPPORTED;
    for (int k = 0; status == ECORNN_OK && k < count; k++) {
        ecornn_param param;
        status = param_at(run->plan, k, &param);
        params[k] = run->array[PARAMS] + param.offset * element;
        dparams[k] = run->array[DPARAMS] + param.offset * element;
    }
    return status;
}

ecornn_status models_try(const struct models_run *run, const int32_t *lengths,
                         const uint8_t *resets, uint64_t seed)
{
    void *params[MOST_PARAMS], *dparams[MOST_PARAMS];
    const bool trains = (run->desc.flags & ECORNN_TRAINING) != 0;
    ecornn_io io = {.size = sizeof io,
                    .lengths = lengths,
                    .resets = resets,
                    .x = run->array[X],
                    .y = run->array[Y],
                    .weights = run->weights,
                    .workspace = run->workspace,
                    .reserve = trains ? run->reserve : NULL,
                    .seed = seed,
                    .stream = run->stream,
                    .workspace_bytes = run->sizes.workspace_bytes,
                    .reserve_bytes = run->sizes.reserve_bytes};
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
    ecornn_status status = find_params(run, params, dparams);
    if (status == ECORNN_OK)
        status = ecornn_pack(run->plan, (const void *const *)params, NULL, run->weights, io.stream);
    if (status == ECORNN_OK)
        status = forward_all(run->plan, &io);
    if (status == ECORNN_OK && trains)
        status = backward_all(run->plan, &io, &gradient);
    if (status == ECORNN_OK && trains)
        status = ecornn_unpack(run->plan, run->dweights, dparams, 0, io.stream);
    return status;
}

void models_queue(const struct models_run *run, const int32_t *lengths, const uint8_t *resets,
                  uint64_t seed)
{
    check_ok(models_try(run, lengths, resets, seed));
}

static void train(const struct models_run *run, const int32_t *lengths, const uint8_t *resets,
                  uint64_t seed)
{
    models_queue(run, lengths, resets, seed);
    check_ok(ecornn_wait(run->device, run->stream));
}

static void fill(char *array, size_t bytes, ecornn_type type, uint64_t *seed)
{
    for (size_t i = 0; i < bytes / eco_type_bytes(type); i++)
        eco_type_set(array, i, type, uniform(seed) - 0.5);
}

void models_fill(const struct models_run *run, uint64_t *seed)
{
    const ecornn_type type = run->desc.type, wide = type == ECORNN_F64 ? type : ECORNN_F32;
    for (int array = X; array <= PARAMS; array++)
        fill(run->array[array], (size_t)run->models * run->bytes[array],
             array == PARAMS ? wide : type, seed);
}

/* Model m's part of an array of all models. */
static char *part_of(const struct models_run *all, int array, int m, int s)
{
    if (is_states(array))
        return (char *)state(all, array, s) + (size_t)m * part_bytes(all, array, s);
    const bool one = (all->desc.flags & ECORNN_SHARED_INPUT) != 0 && (array == X || array == DX);
    return all->array[array] + (one ? 0 : (size_t)m * all->bytes[array]);
}

static int parts(const struct models_run *run, int array)
{
    return is_states(array) ? run->states : 1;
}

/* Copies the inputs of model m to a separate run, or compares its results with those of the run of
 * all models. */
static void take_inputs(const struct models_run *all, const struct models_run *one, int m)
{
    for (int array = X; array <= PARAMS; array++)
        for (int s = 0; s < parts(all, array); s++)
            memcpy(part_of(one, array, 0, s), part_of(all, array, m, s), part_bytes(all, array, s));
}

static void compare(const struct models_run *all, const struct models_run *one, int m, bool resets)
{
    static const char *const name[MODELS_ARRAYS] = {[Y] = "y",
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

/* Forces the choices that the plan of all models printed on the plans that follow. */
static void force_choices_of(const struct models_run *all)
{
    static char text[1 << 14];
    ck_assert_int_lt(ecornn_plan_print(all->plan, text, sizeof text), (int)sizeof text);
    char *choices = strstr(text, "ECORNN_FORCE=");
    ck_assert_ptr_nonnull(choices);
    choices[strcspn(choices, "\n")] = '\0';
    ck_assert_int_eq(setenv("ECORNN_FORCE", strchr(choices, '=') + 1, 1), 0);
}

void models_forget(const struct models_run *run)
{
    for (int array = Y; array < MODELS_ARRAYS; array++)
        memset(run->array[array], 0xFF, (size_t)run->models * run->bytes[array]);
}

/* A run of all models and a run of one model. */
struct pair {
    const struct models_case *test;
    struct models_run all, one;
    int32_t *lengths;
    uint8_t *resets;
};

static void open_pair(struct pair *pair, const char *device)
{
    const struct models_case *test = pair->test;
    char problem[200];
    uint64_t seed = 3;
    struct models_run *all = &pair->all;
    snprintf(problem, sizeof problem, "%s/models:%d%s", test->problem, test->models,
             test->shared ? "/shared-x" : "");
    models_open(all, device, problem);
    if (all->memory != NULL)
        force_choices_of(all);
    models_open(&pair->one, device, test->problem);
    unsetenv("ECORNN_FORCE");
    ck_assert_int_eq(count_params(all->plan), test->models * count_params(pair->one.plan));
    models_fill(all, &seed);
    const size_t T = (size_t)all->desc.steps, N = (size_t)all->desc.batch;
    const size_t rows = test->shared ? N : (size_t)test->models * N;
    pair->lengths = alloc(all->memory, rows * sizeof *pair->lengths);
    pair->resets = alloc(all->memory, T * rows);
    for (size_t n = 0; n < rows; n++)
        pair->lengths[n] = (int32_t)(uniform(&seed) * (double)(T + 1));
    for (size_t n = 0; n < T * rows; n++)
        pair->resets[n] = uniform(&seed) < 0.3;
}

static void run_one(struct pair *pair, int m)
{
    const struct models_case *test = pair->test;
    const size_t T = (size_t)pair->all.desc.steps, N = (size_t)pair->all.desc.batch;
    const size_t mine = test->shared ? 0 : (size_t)m;
    take_inputs(&pair->all, &pair->one, m);
    models_forget(&pair->one);
    train(&pair->one, test->lengths ? pair->lengths + mine * N : NULL,
          test->resets ? pair->resets + mine * T * N : NULL,
          eco_seed_of(11, ECO_SEED_MODEL, (uint32_t)m));
    compare(&pair->all, &pair->one, m, test->resets);
}

void models_check(const struct models_case *test, const char *device,
                  const struct models_memory *memory)
{
    struct pair pair = {.test = test, .all = {.memory = memory}, .one = {.memory = memory}};
    open_pair(&pair, device);
    struct models_run *all = &pair.all, *one = &pair.one;
    for (int time = 0; time < (memory != NULL ? 3 : 1); time++) {
        char *sum = malloc(all->bytes[DX]);
        models_forget(all);
        train(all, test->lengths ? pair.lengths : NULL, test->resets ? pair.resets : NULL, 11);
        for (int m = 0; m < test->models; m++) {
            run_one(&pair, m);
            if (m == 0)
                memcpy(sum, one->array[DX], all->bytes[DX]);
            else
                eco_type_add(sum, all->desc.type, one->array[DX], all->desc.type,
                             all->bytes[DX] / eco_type_bytes(all->desc.type));
        }
        if (test->shared && (all->desc.flags & ECORNN_TRAINING) != 0)
            ck_assert_mem_eq(sum, all->array[DX], all->bytes[DX]);
        free(sum);
    }
    release(memory, pair.lengths);
    release(memory, pair.resets);
    models_close(all);
    models_close(one);
}
