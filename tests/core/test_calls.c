/*
 * Sequences of public calls with valid handles, in any order, with wrong sizes and arguments and
 * with texts that were changed here and there: no call may crash, and what failed has changed
 * nothing. Each sequence is drawn from its seed.
 *
 *     test_calls [CALLS [SEED]]        this number instead of 30000, and other sequences
 *
 * doc/contributing/testing.md, "Calls under sanitizers", has the library itself checked.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ecornn/experimental.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

enum { WEIGHTS, DWEIGHTS, WORKSPACE, RESERVE, BLOCKS, FIRST_ARRAY = BLOCKS };
enum { INPUTS, Y, FINAL, DX, DPARAMS, STATES, ARRAYS, ROOM = 1 << 14 };
enum { HANDLES = 4, MOST_PARAMS = 128, MOST_ROWS = 8, MOST_TEXT = 4096 };
static long calls_wanted = 30000;
static uint64_t first_seed = 0;

struct all {
    uint64_t state;
    ecornn_device *device[HANDLES];
    ecornn_cell *cell[HANDLES];
    ecornn_plan *plan[HANDLES];
    void *memory[HANDLES];
    ecornn_device *memory_of[HANDLES];
    int32_t lengths[MOST_ROWS], rows[MOST_ROWS];
    char text[MOST_TEXT];
    /* Weights, dweights, workspace and reserve of each plan, of exactly their sizes, for
     * sanitizers. */
    char *block[HANDLES][BLOCKS];
    int at;                                /* the plan that runs */
    _Alignas(64) char array[ARRAYS][ROOM]; /* arrays, which must not overlap */
    const void *params[MOST_PARAMS], *added[MOST_PARAMS];
    ecornn_io of_layer;
    const ecornn_io *layers[MOST_PARAMS];
    void *dparams[MOST_PARAMS];
    long done, good;
};

static uint32_t draw(struct all *all, uint32_t below)
{
    all->state ^= all->state << 13;
    all->state ^= all->state >> 7;
    all->state ^= all->state << 17;
    return (uint32_t)(all->state >> 33) % below;
}

static void count(struct all *all, ecornn_status status)
{
    all->done++;
    all->good += status == ECORNN_OK;
    ck_assert(status == ECORNN_OK || ecornn_error_detail()[0] != '\0');
}

/* Memory for an argument, or, now and then, NULL or a misaligned address. */
static void *some(struct all *all, int block)
{
    const uint32_t kind = draw(all, 16);
    char *const memory =
        block < FIRST_ARRAY ? all->block[all->at][block] : all->array[block - FIRST_ARRAY];
    return kind == 0 || memory == NULL ? NULL : memory + (kind == 1 ? 4 : 0);
}

static size_t size_of(struct all *all, size_t real)
{
    static const size_t sizes[] = {0, 1, 8, 16, 4096};
    const uint32_t kind = draw(all, 24);
    return kind < 5 && sizes[kind] <= real ? sizes[kind] : real - (kind == 5 ? 24 : 0);
}

/* Ascending numbers of streams, most of the time. */
static void draw_rows(struct all *all, ecornn_io *io)
{
    for (int n = 0, next = 0; n < MOST_ROWS; n++)
        all->rows[n] = next = next + (int)draw(all, 2) + (draw(all, 40) ? 1 : -2);
    io->rows = all->rows;
    io->streams = (int32_t)draw(all, 12);
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        io->initial[s] = io->final[s] = draw(all, 3) ? some(all, FIRST_ARRAY + FINAL) : NULL;
}

/* What only some plans have. */
static void draw_special(struct all *all, ecornn_io *io)
{
    const int s = (int)draw(all, ECORNN_MAX_STATES);
    switch (draw(all, 16)) {
    case 0:
        draw_rows(all, io);
        break;
    case 1:
        for (int n = 0; n < MOST_ROWS; n++)
            all->lengths[n] = (int32_t)draw(all, 6) - (draw(all, 30) == 0);
        io->lengths = all->lengths;
        break;
    case 2:
        io->resets = (const uint8_t *)all->array[INPUTS];
        io->reset_state[s] = some(all, FIRST_ARRAY);
        break;
    case 3:
        io->mask = (const uint8_t *)all->array[INPUTS] + draw(all, 9);
        break;
    case 4:
        io->states[s] = some(all, FIRST_ARRAY + STATES);
        break;
    case 5:
        io->added = all->added;
        break;
    case 6:
        io->first_step = draw(all, 9), io->first_row = draw(all, 9);
        break;
    case 7:
        io->layers = all->layers;
        break;
    case 8:
        io->tangent = &all->of_layer;
        break;
    default:
        break;
    }
}

static ecornn_io io_of(struct all *all)
{
    ecornn_io io = {.x = some(all, FIRST_ARRAY),
                    .y = some(all, FIRST_ARRAY + Y),
                    .weights = some(all, WEIGHTS),
                    .workspace = some(all, WORKSPACE),
                    .seed = draw(all, 3)};
    io.size = size_of(all, sizeof io);
    io.reserve = draw(all, 2) ? some(all, RESERVE) : NULL;
    if (draw(all, 4) == 0)
        io.initial[draw(all, ECORNN_MAX_STATES)] = some(all, FIRST_ARRAY);
    if (draw(all, 4) == 0)
        io.final[draw(all, ECORNN_MAX_STATES)] = some(all, FIRST_ARRAY + FINAL);
    io.params = draw(all, 3) == 0 ? all->params : NULL;
    io.workspace_bytes = draw(all, 8) == 0 ? draw(all, 5000) : 0;
    draw_special(all, &io);
    return io;
}

static ecornn_gradient gradient_of(struct all *all)
{
    ecornn_gradient gradient = {.dy = some(all, FIRST_ARRAY),
                                .dx = some(all, FIRST_ARRAY + DX),
                                .dweights = some(all, DWEIGHTS),
                                .add = (int32_t)draw(all, 2)};
    if (draw(all, 8) == 0)
        gradient.dstates[draw(all, ECORNN_MAX_STATES)] = some(all, FIRST_ARRAY);
    gradient.size = size_of(all, sizeof gradient);
    gradient.dparams = draw(all, 6) == 0 ? all->dparams : NULL;
    return gradient;
}

/* A text, most of the time as it is, else with some characters changed, left out or repeated. */
static const char *change(struct all *all, const char *text)
{
    static const char signs[] = "/:;+ .0123456789TNIHLPSKMGabcdefghilmnoprstuvwxy(),=*-@\n\t\"#";
    size_t length = strlen(text);
    if (length > MOST_TEXT / 2)
        length = MOST_TEXT / 2;
    memcpy(all->text, text, length);
    for (uint32_t k = draw(all, 2) ? 0 : 1 + draw(all, 4); k > 0 && length > 0; k--) {
        char *const at = all->text + draw(all, (uint32_t)length);
        const size_t rest = (size_t)(all->text + length - at);
        const uint32_t kind = draw(all, 4);
        if (kind == 0) {
            memmove(at, at + 1, rest - 1), length--;
        } else if (kind == 1 && 2 * rest < MOST_TEXT / 4) {
            memcpy(at + rest, at, rest), length += rest;
        } else {
            *at = signs[draw(all, sizeof signs - 1)];
        }
    }
    all->text[length] = '\0';
    return all->text;
}

static const char *const problems[] = {
    "gru/train/T3/N2/I4/H5",
    "lstm/T2/N3/I2/H4/P3",
    "own/train/T2/N2/I3/H4",
    "train/T4/N2/I3; own/H4; join:2; gru/H5",
    "gru/train/T2/N2/I3/H4/tangent",
    "attention/additive/train/T2/S3/N2/H4",
    "lstm/bf16/T2/N2/I3/H4/models:2",
    "lstm/T0/N2",
    "T4/N2; gru",
    "lstm/train/T3/N2/I3/H4/save:states",
    "lstm/int8/T3/N4/I4/H5",
    "gru/int8-weights/T2/N4/I3/H4/rev/batch-major",
    "gru/T3/N4/I4/H5/resets/mask/all-states/streams",
    "slstm/train/T3/N2/I4/H6/heads:2/mask/repeat-padding",
    "train/resets/T4/N2/I3; lstm/H3 + gru/H2/rev; dropout:0.5; qrnn/H5",
    "lstm/train/L2/bi/dropout:0.5/T3/N2/I3/H4/memory:64K"};
enum { PROBLEMS_ = sizeof problems / sizeof *problems };

static size_t bytes_of(const ecornn_sizes *sizes, int block)
{
    return block == WEIGHTS     ? sizes->weight_bytes
           : block == DWEIGHTS  ? sizes->dweight_bytes
           : block == WORKSPACE ? sizes->workspace_bytes
                                : sizes->reserve_bytes;
}

/* Small enough for this program's memory? */
static bool fits(const ecornn_plan *plan)
{
    ecornn_sizes sizes;
    check_ok(get_sizes(plan, &sizes));
    const size_t steps = (size_t)sizes.steps, rows = (size_t)sizes.batch;
    const size_t wide = (size_t)(sizes.input > sizes.output ? sizes.input : sizes.output);
    size_t most = 0;
    for (int i = 0; i < BLOCKS; i++)
        most = bytes_of(&sizes, i) > most ? bytes_of(&sizes, i) : most;
    return most <= 1 << 21 && sizes.param_count <= MOST_PARAMS &&
           sizes.param_elements * 8 <= ROOM && sizes.batch <= MOST_ROWS / 2 && sizes.steps <= 64 &&
           sizes.source <= 64 && steps * rows * wide * (size_t)sizes.models * 16 <= ROOM / 8;
}

static void replace(struct all *all, int k, ecornn_plan *made)
{
    ecornn_sizes sizes = {.size = sizeof sizes};
    ecornn_plan_free(all->plan[k]);
    all->plan[k] = made;
    if (made != NULL)
        check_ok(ecornn_plan_sizes(made, &sizes));
    for (int i = 0; i < BLOCKS; i++) {
        free(all->block[k][i]);
        void *block = NULL;
        const size_t bytes = made != NULL ? bytes_of(&sizes, i) : 0;
        ck_assert_int_eq(bytes > 0 ? posix_memalign(&block, 64, bytes) : 0, 0);
        if (block != NULL)
            memset(block, 0, bytes);
        all->block[k][i] = block;
    }
}

static void keep(struct all *all, ecornn_plan *made, ecornn_status status)
{
    ck_assert_int_eq(made != NULL, status == ECORNN_OK);
    if (made != NULL && fits(made))
        replace(all, (int)draw(all, HANDLES), made);
    else
        ecornn_plan_free(made);
}

static void create(struct all *all)
{
    const ecornn_cell *const cells[] = {all->cell[draw(all, HANDLES)], NULL};
    ecornn_device *const device = all->device[draw(all, HANDLES)];
    const char *const text = change(all, problems[draw(all, PROBLEMS_)]);
    ecornn_plan *made = NULL;
    ecornn_desc desc = {.size = size_of(all, sizeof desc)};
    ecornn_status status;
    if (draw(all, 3)) {
        status = ecornn_plan_create(draw(all, 20) ? &made : NULL, device, text, cells);
    } else if ((status = ecornn_desc_parse(&desc, text, cells[0])) == ECORNN_OK) {
        desc.flags ^= draw(all, 4) ? 0 : 1u << draw(all, 17);
        status = ecornn_plan_create_desc(&made, device, &desc);
    }
    count(all, status);
    keep(all, made, status);
}

static void ask(struct all *all, const ecornn_plan *plan)
{
    static char text[200];
    ecornn_sizes sizes = {.size = size_of(all, sizeof sizes)};
    ecornn_param param = {.size = size_of(all, sizeof param)};
    const ecornn_plan *layer;
    const ecornn_plan *const other = all->plan[draw(all, HANDLES)];
    static const char *const systems[] = {"torch", "cudnn", "keras", "onnx", "none"};
    const char *const system = systems[draw(all, 5)];
    size_t elements = 0;
    switch (draw(all, 8)) {
    case 0:
        count(all, ecornn_plan_sizes(plan, &sizes));
        break;
    case 1:
        count(all,
              ecornn_run_sizes(plan, (int32_t)draw(all, 6) - 1, (int32_t)draw(all, 4), &sizes));
        break;
    case 2:
        count(all, ecornn_param_get(plan, (int)draw(all, 40) - 1, &param));
        break;
    case 3:
        if (ecornn_plan_layer(plan, (int)draw(all, 4) - 1, &layer) == ECORNN_OK && layer != plan)
            ecornn_plan_free((ecornn_plan *)(uintptr_t)layer); /* it is the net's */
        all->done++;
        break;
    case 4:
        count(all, ecornn_weights_fit(plan, other));
        break;
    case 5:
        count(all, ecornn_import_size(plan, system, &elements));
        if (elements * 8 <= (size_t)ROOM)
            count(all, ecornn_import(plan, system, all->array[INPUTS], 1 + draw(all, 5), elements,
                                     all->array[DPARAMS]));
        break;
    case 6:
        count(all, ecornn_import_size(plan, system, &elements));
        if (elements * 8 <= (size_t)ROOM)
            count(all, ecornn_export(plan, system, all->array[INPUTS], all->array[DPARAMS],
                                     1 + draw(all, 4), elements));
        break;
    default:
        all->done++;
        ecornn_plan_print(plan, text, draw(all, sizeof text));
    }
}

static void run(struct all *all, const ecornn_plan *plan)
{
    const ecornn_io io = io_of(all);
    const ecornn_gradient gradient = gradient_of(all);
    const int32_t T = (int32_t)draw(all, 6) - 1, N = (int32_t)draw(all, 4);
    const ecornn_attention_io attend = {.size = size_of(all, sizeof attend),
                                        .query = some(all, FIRST_ARRAY),
                                        .keys = some(all, FIRST_ARRAY),
                                        .values = some(all, FIRST_ARRAY),
                                        .vector = some(all, FIRST_ARRAY),
                                        .workspace = some(all, WORKSPACE),
                                        .reserve = some(all, RESERVE)};
    switch (draw(all, 6)) {
    case 0:
        count(all, ecornn_pack(plan, draw(all, 9) ? all->params : NULL,
                               draw(all, 4) ? NULL : all->added, some(all, WEIGHTS), NULL));
        break;
    case 1:
        count(all, ecornn_unpack(plan, some(all, DWEIGHTS), all->dparams, (int)draw(all, 2), NULL));
        break;
    case 2:
        count(all, ecornn_attention_forward(plan, T, (int32_t)draw(all, 4), N, &attend));
        break;
    case 3:
        count(all, ecornn_backward(plan, T, N, &io, draw(all, 20) ? &gradient : NULL));
        break;
    default:
        count(all, ecornn_forward(plan, T, N, draw(all, 20) ? &io : NULL));
    }
}

/* Wisdom goes out as text and comes back changed. */
static void wisdom(struct all *all)
{
    static char text[MOST_TEXT];
    const uint32_t kind = draw(all, 8);
    all->done++;
    ecornn_wisdom_to_text(text, draw(all, 4) ? sizeof text : draw(all, sizeof text));
    text[sizeof text - 1] = '\0';
    if (kind < 7)
        count(all, ecornn_wisdom_from_text(change(all, text)));
    else if (draw(all, 100) == 0)
        ecornn_wisdom_forget();
}

static void use_memory(struct all *all, int k)
{
    all->done++;
    if (all->memory[k] != NULL) {
        ecornn_free(all->memory_of[k], all->memory[k]);
        all->memory[k] = NULL;
        return;
    }
    all->memory_of[k] = all->device[draw(all, HANDLES)];
    all->memory[k] = ecornn_alloc(all->memory_of[k], draw(all, 3000));
    if (all->memory[k] != NULL)
        count(all, ecornn_upload(all->memory_of[k], all->memory[k], all->array[INPUTS], 1));
}

static void call(struct all *all)
{
    static const char own[] = "cell own(h)\nh' = tanh(W x + R h + b)\n";
    static const char *const device[] = {"cpu:1", "cpu:2", "reference", "abacus"};
    const int k = (int)draw(all, HANDLES);
    const uint32_t kind = draw(all, 40);
    ecornn_device *opened = NULL;
    ecornn_cell *cell = NULL;
    if (kind == 0) {
        ecornn_device_close(all->device[k]);
        all->device[k] = NULL;
        count(all, ecornn_device_open(&opened, device[draw(all, 4)]));
        all->device[k] = opened;
    } else if (kind == 1) {
        ecornn_cell_free(all->cell[k]);
        all->cell[k] = NULL;
        count(all, ecornn_cell_parse(&cell, draw(all, 4) ? change(all, own) : "gru"));
        all->cell[k] = cell;
    } else if (kind == 2) {
        replace(all, k, NULL);
        all->done++;
    } else if (kind == 3) {
        draw(all, 2) ? wisdom(all) : use_memory(all, k);
    } else if (kind < 7) {
        create(all);
    } else if (kind < 16) {
        ask(all, all->plan[k]);
    } else {
        all->at = k;
        run(all, all->plan[k]);
    }
}

/* Wisdom of this machine, to begin with. */
static void learn(void)
{
    ecornn_tuning tuning = {.size = sizeof tuning, .limit_seconds = 1e-3};
    ecornn_desc desc;
    ecornn_device *const device = device_on("cpu:1");
    check_ok(parse_desc(&desc, problems[0], NULL));
    if (getenv("ECORNN_FORCE") == NULL) /* tuning refuses forced choices */
        check_ok(ecornn_tune(device, &desc, &tuning));
    ecornn_device_close(device);
}

START_TEST(nothing_crashes)
{
    struct all *const all = aligned_alloc(64, (sizeof *all + 63) / 64 * 64);
    memset(all, 0, sizeof *all);
    all->state = 88172645463325252u + (uint64_t)_i + 1000003 * first_seed;
    for (int k = 0; k < MOST_PARAMS; k++) {
        all->params[k] = all->array[INPUTS], all->dparams[k] = all->array[DPARAMS];
        all->layers[k] = k % 2 ? NULL : &all->of_layer;
        all->added[k] = k < 6 ? NULL : all->array[INPUTS];
    }
    all->of_layer = (ecornn_io){.size = sizeof all->of_layer,
                                .initial = {all->array[INPUTS]},
                                .final = {all->array[FINAL]}};
    ecornn_wisdom_forget(); /* reads no files */
    learn();
    while (all->done < calls_wanted / 4)
        call(all);
    printf("# %ld calls, %ld succeeded\n", all->done, all->good);
    ck_assert_int_gt(all->good, all->done / 8);
    for (int k = 0; k < HANDLES; k++) {
        ecornn_free(all->memory_of[k], all->memory[k]);
        ecornn_device_close(all->device[k]);
        ecornn_cell_free(all->cell[k]);
        replace(all, k, NULL);
    }
    free(all);
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "calls"};
    calls_wanted = argc > 1 ? atol(argv[1]) : calls_wanted;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    return suite_run(&program, SUITE_TESTS({nothing_crashes, 4}));
}
