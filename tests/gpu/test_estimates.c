/*
 * What a GPU's plans choose for devices that are not present: kept plans, and the partitions of
 * models and layers.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/algo/algo.h"
#include "gpu/device/rates.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/gemm/grouped/args.h"
#include "gpu/persistent/persistent.h"
#include "gpu/run/run.h"
#include "gpu/wide_step/wide_step.h"
#include "tests/kit/plans.h"
#include "tests/kit/problems.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

/* ---- an H100 ----------------------------------------------------------------------------------
 */

static const struct eco_caps h100 = {.threads = 132,
                                     .flops = 128 * 2 * 1.5e9,
                                     .own_memory = true,
                                     .gpu = {.version = 90,
                                             .block_bytes = 227 << 10,
                                             .blocks = {132, 132, 128},
                                             .clusters = {132, 66, 44, 32, 24, 20, 16, 16},
                                             .fuses = true,
                                             .wide = true,
                                             .splits = true}};

/* Plans are the same where no library compiles kernels. Their cells are LSTM, whose kernels every
 * module has, and cells whose kernels no module has. */
bool __wrap_eco_nvrtc_open(struct eco_text *why);
bool __wrap_eco_nvrtc_open(struct eco_text *why)
{
    (void)why;
    return true;
}

/* What the choices are printed from; without a driver there are no kernels. */
static ecornn_status prepare(struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    struct eco_gpu_plan *own = eco_alloc_zeroed(sizeof *own);
    plan->context = own;
    own->fused.used = plan->algo == &eco_family_fused.algo;
    for (int way = 0; way <= (int)problem->training && plan->algo == &eco_family_persistent.algo;
         way++) {
        struct eco_persistent_shape shape;
        const struct eco_persistent_need need =
            eco_persistent_need(problem, &plan->device->caps, way, problem->N, 1, 1);
        own->persistent[way].shapes = need.shapes;
        own->persistent[way].used =
            eco_persistent_refuses(problem, way) == NULL && eco_persistent_shape(&need, &shape) > 0;
    }
    return ECORNN_OK;
}

static void release(struct ecornn_plan *plan)
{
    eco_free(plan->context);
}

START_TEST(plans)
{
    static const struct eco_backend backend = {.name = "cuda",
                                               .prepare = prepare,
                                               .release = release,
                                               .choices = eco_gpu_choices,
                                               .algos = eco_gpu_algos};
    struct ecornn_device device = {.backend = &backend, .caps = h100};
    const char *replay = getenv("ECORNN_REPLAY");
    struct eco_gpu_rates rates = eco_gpu_rates_h200;
    char *rest = NULL;
    device.caps.gpu.rates = &rates;
    for (long k = 0; replay != NULL && (k = strtol(replay, &rest, 10)) > 0; replay = rest)
        ((double *)&rates)[k - 1] = strtod(rest + 1, &rest); /* "NUMBER=VALUE NUMBER=VALUE" */
    if (replay != NULL)
        replay_plans(&device);
    else
        keep_plans("tests/data/plans-h100.txt", &device);
}
END_TEST

static struct eco_layout_request request_of(const struct eco_algo *algo, const char *text)
{
    struct eco_problem problem;
    struct eco_layout_request request = {.chunk = 0};
    problem_of(&problem, text);
    algo->request(&problem, &h100, &request);
    return request;
}

/* A chunk has a step at least, however many values each step keeps. */
START_TEST(cuts_few_steps)
{
    static const char *const policies[] = {"save:states", "save:every:2", "save:all"};
    const int32_t steps = 2 + _i / 3;
    char text[80];
    snprintf(text, sizeof text, "lstm/bf16/train/T%d/N256/I512/H512/%s", steps, policies[_i % 3]);
    const struct eco_layout_request request = request_of(&eco_family_persistent.algo, text);
    ck_assert_int_ge(request.chunk_backward, 1);
}
END_TEST

/* Runs of fewer rows have the room that places of steps back in F16 go by. */
START_TEST(halves_have_room)
{
    const struct eco_layout_request request =
        request_of(&eco_family_step.algo, "lstm/f32/fast/train/T32/N1024/I512/H512");
    const struct eco_by_rows *bytes = &request.gpu.product;
    ck_assert_int_eq(request.gpu.half_back, true);
    for (int place = 0; place < ECO_FEWER; place++)
        ck_assert_uint_eq(bytes->fewer[place], bytes->most);
}
END_TEST

/* Concurrent models, as many as are requested or exist, get equal partitions of the device. With
 * more rows, no partition is too small for the steps of backward. */
static const struct {
    const char *force; /* "": the planner chooses */
    int models, concurrent;
    const char *problem;
} shares[] = {{"at-once=8", 4, 4, "lstm/bf16/train/T50/N32/I32/H64"},
              {"at-once=8", 3, 3, "lstm/bf16/train/T50/N32/I32/H64"},
              {"at-once=3", 16, 3, "lstm/bf16/train/T50/N32/I32/H64"},
              {"at-once=1", 9, 1, "lstm/bf16/train/T50/N32/I32/H64"},
              {"at-once=16", 40, 16, "lstm/bf16/train/T50/N32/I32/H64"},
              {"", 16, 16, "lstm/bf16/train/T50/N32/I32/H64"},
              {"", 16, 8, "lstm/bf16/train/T365/N256/I32/H128"}};

START_TEST(shares_out)
{
    static const struct eco_backend backend = {.name = "cuda"};
    const struct ecornn_device device = {.caps = h100};
    struct eco_models_share share;
    struct eco_problem problem;
    problem_of(&problem, shares[_i].problem);
    strcpy(problem.force.text, shares[_i].force);
    check_ok(eco_force_read(&problem.force, &backend));
    eco_gpu_share_device(&device, (const struct eco_problem *[]){&problem}, 1, shares[_i].models,
                         &share);
    ck_assert_int_eq(share.concurrent, shares[_i].concurrent);
    if (share.algo != NULL) {
        ck_assert_int_eq(share.caps.gpu.partitions, share.concurrent);
        ck_assert_int_le(share.caps.gpu.blocks[0] * share.concurrent, h100.gpu.blocks[2]);
    }
    ck_assert_int_eq(share.algo != NULL, shares[_i].concurrent > 1);
}
END_TEST

/* The words of choices are in the order of what they name. */
START_TEST(words_name_shapes)
{
    for (int k = 0; k < ECO_PERSISTENT_SHAPES; k++) {
        char said[128] = "", wanted[128];
        struct eco_text text = {said, sizeof said, 0};
        const int wide = k % ECO_WIDE_SHAPES, narrow = k % ECO_FUSED_SHAPES;
        eco_choice_write(ECO_FORCE_FORWARD, k, &text);
        eco_choice_write(ECO_FORCE_FUSED, ECO_FUSED_SHAPES + wide, &text);
        eco_choice_write(ECO_FORCE_PROJECTION, narrow, &text);
        eco_choice_write(ECO_FORCE_GROUPED, narrow, &text);
        snprintf(wanted, sizeof wanted,
                 ",forward=%s:%dx%d,fused=wgmma:%dx%d,projection=%d,grouped=%d",
                 eco_persistent_mainloops[eco_persistent_mainloop_of(k)],
                 1 << eco_persistent_shift_of(k), 1 << eco_persistent_cluster_log2_of(k),
                 (int)eco_wide_rows(wide), (int)eco_wide_units(wide, ECO_WIDE_ACCS),
                 ECO_FUSED_COLUMNS(narrow), ECO_GROUPED_BACK_ROWS(narrow));
        ck_assert_str_eq(said, wanted);
    }
}
END_TEST

/* Layers side by side run concurrently if each leaves most of the device free. They run in order if
 * one fills the device, if a partition has no room for a layer, or if its steps run by another
 * algorithm. */
static const struct {
    const char *problem[2];
    bool concurrent;
} beside[] = {
    {{"lstm/bf16/train/T400/N32/I128/H256", "lstm/bf16/train/rev/T400/N32/I128/H256"}, true},
    {{"gru/f32/train/T200/N16/I64/H128", "lstm/f32/train/rev/T200/N16/I64/H192"}, true},
    {{"lstm/bf16/infer/T400/N8/I64/H512", "gru/bf16/infer/T400/N8/I64/H256"}, false},
    {{"lstm/bf16/train/T100/N512/I1024/H1024", "lstm/bf16/train/rev/T100/N512/I1024/H1024"}, false},
    {{"lstm/f64/train/T100/N16/I64/H128", "lstm/f64/train/rev/T100/N16/I64/H128"}, false}};

START_TEST(shares_the_device)
{
    const struct ecornn_device device = {.caps = h100};
    struct eco_problem problem[2];
    struct eco_models_share share;
    for (int k = 0; k < 2; k++)
        problem_of(&problem[k], beside[_i].problem[k]);
    eco_gpu_share_device(&device, (const struct eco_problem *[]){&problem[0], &problem[1]}, 2, 1,
                         &share);
    ck_assert_int_eq(share.concurrent, beside[_i].concurrent ? 2 : 1);
    ck_assert_ptr_eq(share.algo, beside[_i].concurrent ? &eco_family_persistent.algo : NULL);
    if (beside[_i].concurrent) {
        ck_assert_int_eq(share.caps.gpu.partitions, 2);
        ck_assert_int_gt(share.caps.gpu.cluster_launch, 0);
    }
}
END_TEST

/* ---- cards after 9.0 --------------------------------------------------------------------------
 */

/* They have no wgmma, so kernels that need it are empty there. Run from PTX of 8.9, kernels have no
 * clusters either. A card of 12.0 has as little shared memory as one of 8.6. */
#define LATER(version_, kilobytes, multiprocessors, in_clusters)                                   \
    {                                                                                              \
        .threads = (multiprocessors), .flops = 128 * 2 * 1.5e9, .own_memory = true, .gpu = {       \
            .version = (version_),                                                                 \
            .block_bytes = (kilobytes) << 10,                                                      \
            .blocks = {multiprocessors, in_clusters, in_clusters},                                 \
            .fuses = true                                                                          \
        }                                                                                          \
    }
static const struct eco_caps later[] = {LATER(100, 227, 148, 144), LATER(100, 227, 148, 0),
                                        LATER(120, 99, 170, 168), LATER(120, 99, 170, 0)};
enum { LATER_CARDS = sizeof later / sizeof *later };

static const char *const everywhere[] = {"lstm/bf16/train/T64/N32/I512/H512",
                                         "lstm/bf16/infer/T64/N128/I256/H256",
                                         "lstm/f16/infer/L5/T50/N1024/I384/H384",
                                         "lstm/bf16/train/T50/N3520/I384/H384",
                                         "lstm/f32/train/T64/N8/I256/H256",
                                         "lstm/f32/fast/train/T64/N16/I512/H512",
                                         "lstm/f32/infer/T50/N512/I1024/H1024",
                                         "gru/bf16/train/T64/N64/I1024/H1024",
                                         "gru/f32/fast/infer/T50/N256/I768/H768",
                                         "gru/f16/train/T64/N9/I33/H65",
                                         "gru-reset-first/bf16/train/T9/N8/I256/H256",
                                         "lstm/bf16/infer/T100/N1/I2048/H2048"};
enum { EVERYWHERE = sizeof everywhere / sizeof *everywhere };

/* Whatever part of the batch a run has. */
static void check_divisions(const struct eco_problem *problem, const struct eco_caps *caps)
{
    for (int way = 0; way <= (int)problem->training; way++)
        for (int32_t rows = problem->N; rows > 0; rows /= 2) {
            struct eco_persistent_shape shape;
            const struct eco_persistent_need need =
                eco_persistent_need(problem, caps, way, rows, problem->T, 1);
            if (!(eco_persistent_shape(&need, &shape) > 0))
                continue;
            ck_assert_int_ne(shape.mainloop, ECO_PERSISTENT_WGMMA);
            ck_assert_int_le(shape.groups * shape.members, caps->gpu.blocks[shape.cluster_log2]);
            ck_assert_uint_le(shape.shared_bytes + (size_t)eco_persistent_static_bytes(way),
                              caps->gpu.block_bytes);
        }
}

START_TEST(later_cards_run_what_they_can)
{
    const struct eco_caps *caps = &later[_i % LATER_CARDS];
    struct eco_problem problem;
    problem_of(&problem, everywhere[_i / LATER_CARDS]);
    if (eco_family_persistent.algo.refuses(&problem, caps) == NULL)
        check_divisions(&problem, caps);
    if (eco_family_fused.algo.refuses(&problem, caps) == NULL) {
        const struct eco_step_choice step = eco_step_choose(&problem, caps, 0, problem.N);
        const struct eco_fused_choice choice = eco_fused_choose(&step.size, caps);
        ck_assert_int_eq(step.wide, -1);
        ck_assert_uint_le(ECO_FUSED_SHARED(step.size.accs, choice.shape), caps->gpu.block_bytes);
    }
    ck_assert_ptr_null(eco_family_step.algo.refuses(&problem, caps));
}
END_TEST

TEST_MAIN("estimates", {plans, 1}, {cuts_few_steps, 3 * 17}, {halves_have_room, 1},
          {shares_out, sizeof shares / sizeof *shares}, {words_name_shapes, 1},
          {shares_the_device, sizeof beside / sizeof *beside},
          {later_cards_run_what_they_can, LATER_CARDS *EVERYWHERE})
