/*
 * What a GPU's plans choose by estimates, for devices that are not present: padded rows, chunks of
 * a wavefront, and the partitions of models and layers. Each problem was measured or is close to
 * one that was.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/algo/algo.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/presplit.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/persistent/persistent.h"
#include "gpu/run/run.h"
#include "gpu/wide_step/wide_step.h"
#include "tests/kit/suite.h"

/* ---- what they ask beside each other ----------------------------------------------------------
 */

const struct eco_services *eco_gpu_services;

#define NOT_HERE(name)                                                                             \
    ecornn_status name(const struct ecornn_plan *plan, const struct eco_tape *tape,                \
                       const struct eco_layout *layout, const struct eco_args *args)               \
    {                                                                                              \
        (void)plan, (void)tape, (void)layout, (void)args;                                          \
        return ECORNN_UNSUPPORTED;                                                                 \
    }
NOT_HERE(eco_gpu_run_persistent)
NOT_HERE(eco_gpu_run_fused)
NOT_HERE(eco_gpu_run_step)
#undef NOT_HERE

bool eco_gpu_is_short(int32_t rows, double work)
{
    (void)rows, (void)work;
    return false;
}

bool eco_gpu_has_grouped(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem, (void)caps;
    return true;
}

bool eco_gpu_grouped_follow(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem, (void)caps;
    return false;
}

size_t eco_gpu_prepared_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              bool backward)
{
    (void)problem, (void)caps, (void)backward;
    return 0;
}

/* Do steps back store F16?  Their room then grows with the rows. */
static bool halves;
size_t eco_scaled_f16_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                            const struct eco_layout_request *request)
{
    enum { OF_ROW = 64 << 10 };
    (void)caps, (void)request;
    return halves ? (size_t)problem->N * OF_ROW : 0;
}

bool eco_scaled_f16_halves(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request)
{
    (void)problem, (void)caps, (void)request;
    return halves;
}

size_t eco_scaled_f16_recurrent_bytes(const struct eco_problem *problem)
{
    (void)problem;
    return 0;
}

double eco_gpu_step_product_time(const struct eco_problem *problem, const struct eco_caps *caps,
                                 bool backward, bool prepares, double *prepare)
{
    (void)problem, (void)caps, (void)backward, (void)prepares;
    *prepare = 0;
    return 5e-6;
}

double eco_scaled_f16_gain(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request, int32_t layer, bool backward)
{
    (void)problem, (void)caps, (void)request, (void)layer, (void)backward;
    return 0;
}

static const char *never(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem, (void)caps;
    return "not here";
}
const struct eco_algo eco_algo_scan = {.name = "scan", .refuses = never};

/* ---- an H100 ----------------------------------------------------------------------------------
 */

static const struct eco_caps h100 = {.threads = 132,
                                     .flops = 128 * 2 * 1.5e9,
                                     .own_memory = true,
                                     .gpu = {.version = 90,
                                             .block_bytes = 227 << 10,
                                             .blocks = {132, 132, 128},
                                             .fuses = true,
                                             .wide = true,
                                             .splits = true}};

static struct eco_layout_request request_of(const struct eco_algo *algo, const char *text)
{
    ecornn_desc desc;
    struct eco_problem problem;
    struct eco_layout_request request = {.chunk = 0};
    ck_assert_int_eq(eco_problem_parse(&desc, text, NULL), ECORNN_OK);
    ck_assert_int_eq(eco_problem_build(&problem, &desc), ECORNN_OK);
    algo->request(&problem, &h100, &request);
    return request;
}

/* Rows are padded where odd sizes slow products down by more than the copies cost, even with few
 * rows. They are not padded if the sizes are multiples, if steps multiply the input, if products of
 * backward are grouped, or if sums are short. */
static const struct {
    const struct eco_algo *algo;
    const char *problem;
    bool padded;
} padded[] = {{&eco_algo_persistent, "gru/bf16/train/T16/N9/I977/H179", true},
              {&eco_algo_persistent, "gru/bf16/train/T16/N9/I976/H176", false},
              {&eco_algo_persistent, "gru/f32/train/T16/N9/I977/H179", false},
              {&eco_algo_persistent, "gru/f32/fast/train/T16/N9/I977/H179", true},
              {&eco_algo_persistent, "lstm/bf16/infer/T20/N8/I977/H100", true},
              {&eco_algo_persistent, "lstm/bf16/infer/T20/N8/I44/H100", false},
              {&eco_algo_persistent, "lstm/bf16/train/T8/N8/I44/H500", false},
              {&eco_algo_persistent, "gru/bf16/train/T1000/N1/I80/H20", false},
              {&eco_algo_persistent, "lstm/bf16/train/L2/T35/N32/I650/H650", true},
              {&eco_algo_fused, "gru/bf16/infer/L2/T2/N17/I439/H308", false},
              {&eco_algo_fused, "gru/bf16/train/T1/N51/I1023/H133", false}};

START_TEST(fills_rows)
{
    ck_assert_int_eq(request_of(padded[_i].algo, padded[_i].problem).gpu.padded, padded[_i].padded);
}
END_TEST

/* A chunk that needs its own launches is long enough to pay for them. Layers of much work run one
 * after the other. */
static const struct {
    const char *problem;
    int32_t chunk; /* 0: no wavefront */
} waves[] = {{"lstm/f32/infer/L2/T83/N4/I44/H514", 28},
             {"lstm/bf16/infer/L2/T100/N8/I256/H256", 34},
             {"lstm/bf16/infer/L3/T100/N64/I64/H256", 34},
             {"lstm/f32/fast/infer/L3/T100/N64/I64/H256", 34},
             {"lstm/bf16/infer/L2/T1000/N8/I256/H256", 112},
             {"lstm/bf16/infer/L2/T35/N32/I650/H650", 0},
             {"lstm/bf16/infer/L4/T100/N64/I512/H512", 0},
             {"lstm/f32/infer/L3/T100/N64/I64/H256", 0},
             {"gru/f32/infer/L2/T130/N52/I1002/H190", 0}};

START_TEST(cuts_waves)
{
    const struct eco_layout_request request = request_of(&eco_algo_persistent, waves[_i].problem);
    ck_assert_int_eq(request.wavefront, waves[_i].chunk > 0);
    if (waves[_i].chunk > 0)
        ck_assert_int_eq(request.chunk, waves[_i].chunk);
}
END_TEST

/* A chunk has a step at least, however many values each step keeps. */
START_TEST(cuts_few_steps)
{
    static const char *const policies[] = {"save:states", "save:every:2", "save:all"};
    const int32_t steps = 2 + _i / 3;
    char text[80];
    snprintf(text, sizeof text, "lstm/bf16/train/T%d/N256/I512/H512/%s", steps, policies[_i % 3]);
    const struct eco_layout_request request = request_of(&eco_algo_persistent, text);
    ck_assert_int_ge(request.chunk_backward, 1);
}
END_TEST

/* Chunks of a replay are as long as forward's memory allows, or as the L2. */
static const struct {
    const char *problem;
    int32_t chunk;
} replays[] = {{"lstm/f32/fast/train/T100/N64/I512/H512/save:states", 50},
               {"lstm/f32/fast/train/T100/N64/I512/H512/save:every:16", 48},
               {"lstm/f32/train/T100/N64/I512/H512/save:states", 34},
               {"lstm/bf16/train/T100/N32/I512/H512/save:states", 50}};

START_TEST(lengthens_replays)
{
    ck_assert_int_eq(request_of(&eco_algo_persistent, replays[_i].problem).chunk_backward,
                     replays[_i].chunk);
}
END_TEST

/* Which algorithm is fastest for many rows, as measured on an H100. */
static const struct {
    const char *problem;
    const struct eco_algo *algo;
} fastest[] = {{"lstm/bf16/infer/L5/T400/N1024/I384/H384", &eco_algo_fused},
               {"lstm/f16/infer/L5/T208/N3520/I384/H384", &eco_algo_fused},
               {"lstm/bf16/infer/L5/T400/N512/I384/H384", &eco_algo_fused},
               {"lstm/bf16/infer/L2/T40/N256/I512/H512", &eco_algo_fused},
               {"lstm/bf16/infer/T25/N128/I2048/H2048", &eco_algo_step},
               {"lstm/bf16/train/T25/N128/I2048/H2048", &eco_algo_step},
               {"lstm/bf16/infer/T25/N128/I4096/H4096", &eco_algo_step},
               {"lstm/bf16/train/T25/N128/I4096/H4096", &eco_algo_step},
               {"lstm/bf16/train/L5/T100/N3520/I384/H384", &eco_algo_fused},
               {"lstm/bf16/train/L2/T40/N256/I512/H512", &eco_algo_fused},
               {"lstm/bf16/train/bi/T60/N256/I512/H512", &eco_algo_fused},
               {"lstm/bf16/train/T50/N256/I512/H512", &eco_algo_persistent},
               {"gru/bf16/infer/L2/T159/N2302/I128/H256", &eco_algo_fused},
               {"gru/f16/infer/L3/T60/N512/I768/H768", &eco_algo_fused}};

START_TEST(knows_many_rows)
{
    static const struct eco_algo *const algos[] = {&eco_algo_persistent, &eco_algo_fused,
                                                   &eco_algo_step};
    ecornn_desc desc;
    struct eco_problem problem;
    double least = INFINITY;
    const struct eco_algo *best = NULL;
    ck_assert_int_eq(eco_problem_parse(&desc, fastest[_i].problem, NULL), ECORNN_OK);
    ck_assert_int_eq(eco_problem_build(&problem, &desc), ECORNN_OK);
    for (int k = 0; k < 3; k++) {
        const double time = algos[k]->refuses(&problem, &h100) == NULL
                                ? algos[k]->estimate(&problem, &h100)
                                : INFINITY;
        if (time < least) {
            least = time;
            best = algos[k];
        }
    }
    ck_assert_msg(best == fastest[_i].algo, "%s: %s", fastest[_i].problem, best->name);
}
END_TEST

/* Runs of fewer rows have the room that places of steps back in F16 go by. */
START_TEST(halves_have_room)
{
    const struct eco_by_rows *bytes;
    halves = true;
    const struct eco_layout_request request =
        request_of(&eco_algo_step, "lstm/f32/fast/train/T32/N1024/I512/H512");
    halves = false;
    bytes = &request.gpu.product;
    ck_assert_int_eq(request.gpu.half_back, true);
    for (int place = 0; place < ECO_FEWER; place++)
        ck_assert_uint_eq(bytes->fewer[place], bytes->most);
}
END_TEST

/* Blocks of a step that many rows take, if it is a wide one; those of others have 32 rows. */
static const struct {
    const char *problem;
    int rows, units;
} blocks[] = {{"lstm/bf16/infer/T20/N128/I512/H2048/P512", 128, 24},
              {"gru/bf16/infer/T50/N256/I1024/H1024", 128, 32},
              {"gru/f32/fast/infer/T50/N256/I1024/H1024", 128, 64},
              {"lstm/bf16/infer/T30/N499/I576/H576", 128, 24},
              {"lstm/f32/fast/infer/T16/N851/I1152/H1152", 128, 64},
              {"lstm/bf16/infer/T16/N2784/I960/H960", 256, 48},
              {"lstm/f32/fast/infer/L2/T1/N64/I640/H640", 32, 0}};

START_TEST(knows_blocks)
{
    ecornn_desc desc;
    struct eco_problem problem;
    ck_assert_int_eq(eco_problem_parse(&desc, blocks[_i].problem, NULL), ECORNN_OK);
    ck_assert_int_eq(eco_problem_build(&problem, &desc), ECORNN_OK);
    const struct eco_step_choice step = eco_step_choose(&problem, &h100, 0, problem.N);
    ck_assert_int_eq(step.wide >= 0 ? eco_wide_rows(step.wide) : 32, blocks[_i].rows);
    if (step.wide >= 0)
        ck_assert_int_eq(eco_wide_units(step.wide, ECO_WIDE_ACCS), blocks[_i].units);
}
END_TEST

/* Concurrent models, as many as are requested or exist, get equal partitions of the device. With
 * more rows, no partition is too small for the steps of backward. */
static const struct {
    const char *force; /* NULL: the planner chooses */
    int models, concurrent;
    const char *problem; /* NULL: a small one */
} shares[] = {{"at-once=8", 4, 4, NULL},
              {"at-once=8", 3, 3, NULL},
              {"at-once=3", 16, 3, NULL},
              {"at-once=1", 9, 1, NULL},
              {"at-once=16", 40, 16, NULL},
              {NULL, 16, 16, NULL},
              {NULL, 16, 8, "lstm/bf16/train/T365/N256/I32/H128"}};

START_TEST(shares_out)
{
    const struct ecornn_device device = {.caps = h100};
    struct eco_models_share share;
    ecornn_desc desc;
    struct eco_problem problem;
    const char *text =
        shares[_i].problem != NULL ? shares[_i].problem : "lstm/bf16/train/T50/N32/I32/H64";
    ck_assert_int_eq(eco_problem_parse(&desc, text, NULL), ECORNN_OK);
    ck_assert_int_eq(eco_problem_build(&problem, &desc), ECORNN_OK);
    if (shares[_i].force != NULL)
        strcpy(problem.force.text, shares[_i].force);
    ck_assert_int_eq(eco_force_read(&problem.force, eco_gpu_keys), ECORNN_OK);
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

/* Every plan refuses a wrong value of at-once and names the possible ones. */
static const struct {
    const char *force, *wrong; /* "": it can be */
} lanes[] = {
    {"at-once=1", ""},
    {"at-once=16", ""},
    {"at-once=17", "at-once=17 is none of the values of that key: 1 to 16"},
    {"at-once=0", "at-once=0 is none of the values of that key: 1 to 16"},
    {"at-once=-2", "at-once=-2 is none of the values of that key: 1 to 16"},
    {"at-once=", "at-once= is none of the values of that key: 1 to 16"},
    {"at-once=2x", "at-once=2x is none of the values of that key: 1 to 16"},
    {"rows=some,at-once=99", "rows=some is none of the values of that key: padded or dense"},
    {"at-once=99,groups=2", "at-once=99 is none of the values of that key: 1 to 16"}};

START_TEST(refuses_lanes)
{
    struct eco_force force = {.keys = 0};
    strcpy(force.text, lanes[_i].force);
    const ecornn_status status = eco_force_read(&force, eco_gpu_keys);
    ck_assert_int_eq(status == ECORNN_OK, lanes[_i].wrong[0] == '\0');
    if (status != ECORNN_OK)
        ck_assert_msg(strstr(eco_fail_detail(), lanes[_i].wrong) != NULL, "%s", eco_fail_detail());
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
    static const int32_t clusters[] = {132, 66, 44, 32, 24, 20, 16, 16};
    struct ecornn_device device = {.caps = h100};
    struct eco_problem problem[2];
    struct eco_models_share share;
    memcpy(device.caps.gpu.clusters, clusters, sizeof clusters);
    for (int k = 0; k < 2; k++) {
        ecornn_desc desc;
        ck_assert_int_eq(eco_problem_parse(&desc, beside[_i].problem[k], NULL), ECORNN_OK);
        ck_assert_int_eq(eco_problem_build(&problem[k], &desc), ECORNN_OK);
    }
    eco_gpu_share_device(&device, (const struct eco_problem *[]){&problem[0], &problem[1]}, 2, 1,
                         &share);
    ck_assert_int_eq(share.concurrent, beside[_i].concurrent ? 2 : 1);
    ck_assert_ptr_eq(share.algo, beside[_i].concurrent ? &eco_algo_persistent : NULL);
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
    ecornn_desc desc;
    struct eco_problem problem;
    ck_assert_int_eq(eco_problem_parse(&desc, everywhere[_i / LATER_CARDS], NULL), ECORNN_OK);
    ck_assert_int_eq(eco_problem_build(&problem, &desc), ECORNN_OK);
    if (eco_algo_persistent.refuses(&problem, caps) == NULL)
        check_divisions(&problem, caps);
    if (eco_algo_fused.refuses(&problem, caps) == NULL) {
        const struct eco_step_choice step = eco_step_choose(&problem, caps, 0, problem.N);
        const struct eco_fused_choice choice = eco_fused_choose(&step.size, caps);
        ck_assert_int_eq(step.wide, -1);
        ck_assert_uint_le(ECO_FUSED_SHARED(step.size.accs, choice.shape), caps->gpu.block_bytes);
    }
    ck_assert_ptr_null(eco_algo_step.refuses(&problem, caps));
}
END_TEST

TEST_MAIN("estimates", {fills_rows, sizeof padded / sizeof *padded},
          {cuts_waves, sizeof waves / sizeof *waves}, {cuts_few_steps, 3 * 17},
          {lengthens_replays, sizeof replays / sizeof *replays},
          {knows_many_rows, sizeof fastest / sizeof *fastest}, {halves_have_room, 1},
          {knows_blocks, sizeof blocks / sizeof *blocks},
          {shares_out, sizeof shares / sizeof *shares},
          {refuses_lanes, sizeof lanes / sizeof *lanes},
          {shares_the_device, sizeof beside / sizeof *beside},
          {later_cards_run_what_they_can, LATER_CARDS *EVERYWHERE})
