/*
 * Sequences of public calls with valid handles, in any order and with wrong sizes and arguments: no
 * call may crash, and what failed has changed nothing.  Each sequence is drawn from its seed.
 *
 *     test_calls [CALLS]        this number instead of 30000
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ecornn/experimental.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

enum { INPUTS, Y, FINAL, DX, DPARAMS, ARRAYS, FIRST_ARRAY = 4 };
enum { HANDLES = 4, MOST_PARAMS = 128 };
static long calls_wanted = 30000;

struct all {
    uint64_t state;
    ecornn_device *device[HANDLES];
    ecornn_cell *cell[HANDLES];
    ecornn_plan *plan[HANDLES];
    _Alignas(64) char block[4][1 << 21];      /* weights, dweights, workspace, reserve, */
    _Alignas(64) char array[ARRAYS][1 << 14]; /* and arrays, which must not overlap */
    const void *params[MOST_PARAMS];
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
    char *const memory = block < FIRST_ARRAY ? all->block[block] : all->array[block - FIRST_ARRAY];
    return kind == 0 ? NULL : memory + (kind == 1 ? 4 : 0);
}

static size_t size_of(struct all *all, size_t real)
{
    static const size_t sizes[] = {0, 1, 8, 16, 4096};
    const uint32_t kind = draw(all, 24);
    return kind < 5 && sizes[kind] <= real ? sizes[kind] : real - (kind == 5 ? 24 : 0);
}

static ecornn_io io_of(struct all *all)
{
    ecornn_io io = {.x = some(all, FIRST_ARRAY),
                    .y = some(all, FIRST_ARRAY + Y),
                    .weights = some(all, 0),
                    .workspace = some(all, 2),
                    .seed = draw(all, 3)};
    io.size = size_of(all, sizeof io);
    io.reserve = draw(all, 2) ? some(all, 3) : NULL;
    if (draw(all, 4) == 0)
        io.initial[draw(all, ECORNN_MAX_STATES)] = some(all, FIRST_ARRAY);
    if (draw(all, 4) == 0)
        io.final[draw(all, ECORNN_MAX_STATES)] = some(all, FIRST_ARRAY + FINAL);
    io.params = draw(all, 3) == 0 ? all->params : NULL;
    io.workspace_bytes = draw(all, 8) == 0 ? draw(all, 5000) : 0;
    return io;
}

static ecornn_gradient gradient_of(struct all *all)
{
    ecornn_gradient gradient = {.dy = some(all, FIRST_ARRAY),
                                .dx = some(all, FIRST_ARRAY + DX),
                                .dweights = some(all, 1),
                                .add = (int32_t)draw(all, 2)};
    gradient.size = size_of(all, sizeof gradient);
    gradient.dparams = draw(all, 6) == 0 ? all->dparams : NULL;
    return gradient;
}

static void create(struct all *all)
{
    static const char *const problem[] = {"gru/train/T3/N2/I4/H5",
                                          "lstm/T2/N3/I2/H4/P3",
                                          "own/train/T2/N2/I3/H4",
                                          "train/T4/N2/I3; own/H4; join:2; gru/H5",
                                          "gru/train/T2/N2/I3/H4/tangent",
                                          "attention/additive/train/T2/S3/N2/H4",
                                          "lstm/bf16/T2/N2/I3/H4/models:2",
                                          "lstm/T0/N2",
                                          "T4/N2; gru",
                                          "lstm/train/T3/N2/I3/H4/save:states"};
    const int k = (int)draw(all, HANDLES);
    const ecornn_cell *const cells[] = {all->cell[draw(all, HANDLES)], NULL};
    ecornn_plan *made = NULL;
    const ecornn_status status =
        ecornn_plan_create(draw(all, 20) ? &made : NULL, all->device[draw(all, HANDLES)],
                           problem[draw(all, sizeof problem / sizeof *problem)], cells);
    count(all, status);
    ck_assert_int_eq(made != NULL, status == ECORNN_OK);
    if (made == NULL)
        return;
    ecornn_sizes sizes;
    check_ok(get_sizes(made, &sizes));
    ck_assert(sizes.weight_bytes <= sizeof all->block[0] &&
              sizes.dweight_bytes <= sizeof all->block[1] &&
              sizes.workspace_bytes <= sizeof all->block[2] &&
              sizes.reserve_bytes <= sizeof all->block[3] && sizes.param_count <= MOST_PARAMS);
    ecornn_plan_free(all->plan[k]);
    all->plan[k] = made;
}

static void ask(struct all *all, const ecornn_plan *plan)
{
    static char text[200];
    ecornn_sizes sizes = {.size = size_of(all, sizeof sizes)};
    ecornn_param param = {.size = size_of(all, sizeof param)};
    const ecornn_plan *layer;
    switch (draw(all, 5)) {
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
        count(all, ecornn_plan_layer(plan, (int)draw(all, 4) - 1, &layer));
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
                                        .workspace = some(all, 2),
                                        .reserve = some(all, 3)};
    switch (draw(all, 6)) {
    case 0:
        count(all, ecornn_pack(plan, draw(all, 9) ? all->params : NULL, NULL, some(all, 0), NULL));
        break;
    case 1:
        count(all, ecornn_unpack(plan, some(all, 1), all->dparams, (int)draw(all, 2), NULL));
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
        count(all, ecornn_cell_parse(&cell, draw(all, 4) ? own : "gru"));
        all->cell[k] = cell;
    } else if (kind == 2) {
        ecornn_plan_free(all->plan[k]);
        all->plan[k] = NULL;
        all->done++;
    } else if (kind < 6) {
        create(all);
    } else if (kind < 16) {
        ask(all, all->plan[k]);
    } else {
        run(all, all->plan[k]);
    }
}

START_TEST(nothing_crashes)
{
    struct all *const all = aligned_alloc(64, (sizeof *all + 63) / 64 * 64);
    memset(all, 0, sizeof *all);
    all->state = 88172645463325252u + (uint64_t)_i;
    for (int k = 0; k < MOST_PARAMS; k++)
        all->params[k] = all->array[INPUTS], all->dparams[k] = all->array[DPARAMS];
    while (all->done < calls_wanted / 4)
        call(all);
    printf("# %ld calls, %ld succeeded\n", all->done, all->good);
    ck_assert_int_gt(all->good, all->done / 8);
    for (int k = 0; k < HANDLES; k++) {
        ecornn_device_close(all->device[k]);
        ecornn_cell_free(all->cell[k]);
        ecornn_plan_free(all->plan[k]);
    }
    free(all);
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "calls", .timeout = 3600};
    calls_wanted = argc > 1 ? atol(argv[1]) : calls_wanted;
    return suite_run(&program, SUITE_TESTS({nothing_crashes, 4}));
}
