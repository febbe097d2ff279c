/*
 * Compares every kernel of the CUDA module with the reference. Kernels that the planner chooses
 * seldom, or only on other devices, are forced (ECORNN_FORCE). The divisions of algorithm
 * persistent come from the lists that its kernels are made of; each kernel runs with all divisions
 * that the problems below allow. Prints one line for each kernel and file that was launched in a
 * run that agreed; tests/gpu/kernels.sh counts them.
 *
 *     gpu_walk [K/N]            every N-th case only, from the K-th on
 *     ECORNN_CASE=TEXT          these problems only, by a part of their string
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "gpu/persistent/persistent.h"
#include "tests/gpu/launches.h"
#include "tests/kit/calls.h"

/* ---- problems -------------------------------------------------------------------------------- */

static const char *const types[] = {"f32", "f32/fast", "bf16", "f16", "f64"};
enum { TYPES = sizeof types / sizeof *types };

/* Problems in ascending order of time. A kernel runs a problem if the problem has a feature that
 * the kernel has not met. groups: the number of groups of blocks, set so that few rows are several
 * tiles of a block. */
static const struct rung {
    const char *rest;
    int groups;
} rungs[] = {{"train/T5/N3/I5/H13/states", 0},
             {"train/T7/N11/I7/H37/states/lengths:random", 1},
             {"train/bi/T3/N17/I3/H61/states", 2},
             {"train/T3/N2/I70/H131/states", 0},
             {"train/T2/N17/I3/H131/states/lengths:random", 1},
             {"train/T3/N1/I3/H263", 0},
             {"train/T2/N9/I3/H269/states", 1},
             {"train/T3/N1/I3/H347", 0},
             {"train/T2/N2/I3/H523/states/lengths:random", 0},
             {"train/T2/N1/I3/H701/states", 0},
             {"train/T2/N1/I3/H1031", 0},
             {"train/T2/N1/I3/H1373", 0},
             {"train/T2/N1/I3/H2053", 0}};
enum { RUNGS = sizeof rungs / sizeof *rungs, SMALL = 2, LARGE = 8 };

/* ---- how work is cut ------------------------------------------------------------------------- */

/* Features by which the code or data of a kernel's divisions differ, one bit each. */
static uint64_t features_of(const struct eco_persistent_shape *shape, int rung)
{
    const int32_t tiles = (shape->group_rows + ECO_PERSISTENT_N - 1) / ECO_PERSISTENT_N;
    const int32_t least = tiles < 3 ? tiles : 3;
    uint64_t features = UINT64_C(1)
                        << (shape->product[0].k_blocks < 24 ? shape->product[0].k_blocks : 24);
    features |= UINT64_C(1) << (24 + least);
    features |= UINT64_C(1) << (28 + (shape->in_shared > 0));
    features |= UINT64_C(1) << (30 + (shape->chunk < tiles));
    features |= UINT64_C(1) << (32 + shape->aliased);
    features |= UINT64_C(1) << (34 + (shape->members > 1 << shape->cluster_log2));
    features |= UINT64_C(1) << (36 + (shape->groups > 1));
    /* The reference takes long for large layers, so they run only kernels and features that no
     * smaller layer has. */
    const uint64_t enough = UINT64_C(1) << 29 | UINT64_C(1) << 31 | UINT64_C(1) << 33;
    return UINT64_C(1) << 63 | (rung == RUNGS - 1 ? 0
                                : rung >= LARGE   ? features & enough
                                                  : features);
}

/* The divisions of one direction in which a rung brings some kernel a new feature. */
struct divisions {
    int n;
    int place[ECO_PERSISTENT_SHAPES];
};

/* The module has kernels of some cells only. The kernels of other cells are compiled when they are
 * forced, which takes seconds each, so each division runs in one of the types only. */
static bool is_left_out(const struct eco_problem *problem, bool backward, int type, int place)
{
    const int turn = place + (int)strlen(problem->cell->recipe.name);
    return !eco_persistent_is_made(problem, backward) && turn % (TYPES - 1) != type;
}

static struct divisions divisions_of(const struct eco_problem *problem, const struct eco_caps *caps,
                                     bool backward, int type, int rung,
                                     uint64_t met[ECO_PERSISTENT_SHAPES])
{
    struct divisions divisions = {.n = 0};
    if (eco_persistent_refuses(problem, backward) != NULL)
        return divisions;
    struct eco_persistent_need need =
        eco_persistent_need(problem, caps, backward, problem->N, problem->T, 1);
    const uint64_t any =
        ECO_PERSISTENT_ALL_SHAPES - (caps->gpu.splits ? 0 : ECO_PERSISTENT_WGMMA_SHAPES);
    need.groups = rungs[rung].groups;
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++) {
        struct eco_persistent_shape shape;
        need.shapes = any & UINT64_C(1) << place;
        if (is_left_out(problem, backward, type, place) ||
            !(eco_persistent_shape(&need, &shape) > 0))
            continue;
        const uint64_t features = features_of(&shape, rung);
        if ((features & ~met[place]) != 0)
            divisions.place[divisions.n++] = place;
        met[place] |= features;
    }
    return divisions;
}

/* ---- what ran -------------------------------------------------------------------------------- */

enum { MOST_KERNELS = 4096 };
static char ran[MOST_KERNELS][LAUNCH_NAME + 40];
static int n_ran;
static struct {
    int cases, runs, refused, failed;
} count;

static int kind_of(const ecornn_desc *desc)
{
    return desc->type == ECORNN_F32    ? (desc->flags & ECORNN_FAST_MATH) != 0
           : desc->type == ECORNN_BF16 ? 2
           : desc->type == ECORNN_F16  ? 3
                                       : 4;
}

/* Adds the file of a kernel. If several files have a kernel of this name, it is the file for the
 * type. */
static void add_file(struct eco_text *text, const char *name, const struct test_case *test,
                     bool backward)
{
    static const char *const of_type[TYPES] = {"f32", "f32_fast", "bf16", "f16", "f64"};
    static const char *const of_kind[ECO_PERSISTENT_KINDS] = {
        [ECO_BF16_IN_BF16] = "bf16",    [ECO_F16_IN_F16] = "f16",
        [ECO_F32_IN_F16] = "f32",       [ECO_F32_IN_SCALED_F16] = "f32_fast",
        [ECO_F32_IN_PAIR] = "f32_pair", [ECO_F32_IN_SCALED_PAIR] = "f32_scaled"};
    const int type = kind_of(&test->desc);
    struct eco_problem problem;
    if (strstr(name, "persistentIL") != NULL &&
        eco_problem_build(&problem, &test->desc) == ECORNN_OK)
        eco_text_add(text, "persistent_%s_%s_%s", backward ? "backward" : "forward",
                     of_kind[eco_persistent_kind(&problem, backward) - eco_persistent_kinds],
                     problem.cell->recipe.name);
    else if (strstr(name, "5fusedIL") != NULL)
        eco_text_add(text, "fused_step_%s", of_type[type]);
    else if (strstr(name, "9wide_stepIL") != NULL || strstr(name, "9wide_backIL") != NULL)
        eco_text_add(text, "wide_step_%s", of_type[type]);
    else if (strstr(name, "3fewIL") != NULL)
        eco_text_add(text, "grouped_%s", of_type[type]);
    else if (strstr(name, "eco_stage_call") != NULL || strstr(name, "interpret") != NULL)
        eco_text_add(text, "stages_%s%s", type == 1 ? "f32" : of_type[type],
                     test->desc.flags & ECORNN_RESETS ? "_resets" : "");
    else
        eco_text_add(text, "-");
}

static void add_ran(const struct launches *launches, const struct test_case *test)
{
    for (int backward = 0; backward < 2; backward++)
        for (int i = 0; i < launches->of[backward].n; i++) {
            char line[sizeof ran[0]];
            struct eco_text text = {line, sizeof line, 0};
            add_file(&text, launches->of[backward].name[i], test, backward);
            eco_text_add(&text, " %s", launches->of[backward].name[i]);
            int k = 0;
            while (k < n_ran && strcmp(ran[k], line) != 0)
                k++;
            if (k < n_ran || n_ran == MOST_KERNELS)
                continue;
            memcpy(ran[n_ran++], line, sizeof line);
            printf("ran %s\n", line);
        }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_device *device;
static struct launches launches;

/* A problem with the expected results. */
struct expected {
    const struct test_case *test;
    const struct data *inputs, *results;
};

/* Runs with this choice forced; an impossible choice is no failure. */
static void run(const struct expected *of, const char *force)
{
    const struct machine machine = {device, of->test->desc.type, 1, &launches.watch};
    struct data results = {0};
    ecornn_plan *plan;
    setenv("ECORNN_FORCE", force, 1);
    const ecornn_status status = ecornn_plan_create_desc(&plan, device, &of->test->desc);
    if (status == ECORNN_OK) {
        ecornn_plan_free(plan);
        launches.of[0].n = launches.of[1].n = 0;
        count.runs++;
        if (case_run(of->test, &machine, of->inputs, &results) &&
            results_agree(of->test, force, of->results, &results))
            add_ran(&launches, of->test);
        else
            count.failed += 1 + 0 * printf("FAILED %s with %s\n", of->test->text, force);
    } else if (status == ECORNN_UNSUPPORTED) {
        count.refused++;
    } else {
        count.failed +=
            1 + 0 * printf("FAILED %s with %s: %s\n", of->test->text, force, ecornn_error_detail());
    }
    data_free(&results);
    unsetenv("ECORNN_FORCE");
}

/* Runs the forward and the backward divisions in pairs. */
static void run_divisions(const struct expected *of, int groups, const struct divisions way[2])
{
    for (int i = 0; i < way[0].n || i < way[1].n; i++) {
        char force[128];
        struct eco_text text = {force, sizeof force, 0};
        eco_text_add(&text, "algorithm=persistent");
        if (groups > 0)
            eco_text_add(&text, ",groups=%d", groups);
        if (i < way[0].n)
            eco_choice_write(ECO_FORCE_FORWARD, way[0].place[i], &text);
        if (i < way[1].n)
            eco_choice_write(ECO_FORCE_BACKWARD, way[1].place[i], &text);
        run(of, force);
    }
}

/* All other choices, where they are possible. */
static const char *const others[] = {"algorithm=step,chunk=2",
                                     "algorithm=step,rows=padded,emulated-f32=1",
                                     "algorithm=step,rows=dense,emulated-f32=0",
                                     "algorithm=step,emulated-f32=2,chunk=2",
                                     "algorithm=persistent,backward=step",
                                     "algorithm=step,fused=wgmma:128x16"};
enum { OTHERS = sizeof others / sizeof *others };

/* What runs of all other choices contains this. */
static const char *some = "";

/* Runs all words of a choice. */
static void run_words(const struct expected *of, const char *algorithm, enum eco_forced_key key)
{
    for (const char *at = eco_choices[key].values, *end; *at != '\0'; at = end + (*end == ' ')) {
        char force[128];
        end = at + strcspn(at, " ");
        snprintf(force, sizeof force, "algorithm=%s,%s=%.*s", algorithm, eco_choices[key].key,
                 (int)(end - at), at);
        if (strstr(force, some) != NULL)
            run(of, force);
    }
}

static void run_others(const struct expected *of)
{
    for (int i = 0; i < OTHERS; i++)
        if (strstr(others[i], some) != NULL)
            run(of, others[i]);
    run_words(of, "fused", ECO_FORCE_FUSED);
    if (of->test->desc.proj > 0)
        run_words(of, "fused", ECO_FORCE_PROJECTION);
    run_words(of, "step", ECO_FORCE_GROUPED);
}

/* Runs every tile of every kind, each shared by several numbers of blocks, and large products. */
static void run_splits(const struct expected *of)
{
    run(of, "algorithm=step,emulated-f32=1,stream-k=1");
    run_words(of, "step,emulated-f32=1,stream-k=0", ECO_FORCE_STEP_TILE);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Cases that are not on the ladder. */
static const struct more {
    const char *text;
    const char *alone; /* the only choice that is forced; NULL: all of `others` */
    bool splits;
} more[] = {
    {"lstm/f32/fast/train/T2/N1/I3/H2053", "algorithm=step,emulated-f32=1", false},
    {"rnn-tanh/f32/train/T2/N35/I71/H523/states", "algorithm=step,emulated-f32=1", true},
    {"rnn-tanh/f32/fast/train/T2/N35/I71/H523/states", "algorithm=step,emulated-f32=1", true},
    {"lstm/f32/fast/train/T2/N2/I71/H1031", "algorithm=step,emulated-f32=1", false},
    {"lstm/f32/fast/train/T2/N2/I71/H521", "algorithm=step,emulated-f32=1", false},
    {"lstm/f32/train/T2/N700/I5/H11/lengths:random", "algorithm=step", false},
    {"gru/bf16/train/T2/N700/I5/H11/lengths:random", "algorithm=step", false},
    {"gru/f16/train/T2/N700/I5/H11/lengths:random", "algorithm=step", false},
    {"gru/f64/train/T2/N700/I5/H11/lengths:random", "algorithm=step", false},
    {"lstm/f32/infer/T3/N35/I11/H40/P13/states", NULL, false},
    {"lstm/f32/fast/infer/T3/N35/I11/H40/P13/states", NULL, false},
    {"rnn-tanh/bf16/infer/T3/N35/I11/H40/P13/states", NULL, false},
    {"rnn-relu/f16/infer/T3/N35/I11/H40/P13/states", NULL, false},
    {"lstm/f32/train/T3/N19/I9/H48/P24", NULL, false},
    {"lstm/f64/train/T3/N19/I9/H48/P24", NULL, false},
    {"lstm/bf16/infer/bi/T3/N300/I72/H40/states/lengths:random", NULL, false},
    /* steps of all layers in a launch, or of half of them */
    {"lstm/bf16/train/L3/T9/N150/I24/H72/states/lengths:random",
     "algorithm=fused,fused=wgmma:128x32", false},
    {"gru/f16/infer/L6/T15/N150/I24/H72/states", "algorithm=fused,fused=wgmma:64x32", false},
    {"lstm/f32/fast/infer/L4/rev/T11/N150/I24/H72", "algorithm=fused,fused=wgmma:128x24", false},
    /* an input product in parts, because its biases do not follow each other; padded rows */
    {"gru/bf16/infer/T4/N350/I8/H520", "algorithm=step", false},
    {"lstm/bf16/infer/T7/N150/I37/H70/P19/states/lengths:random",
     "algorithm=fused,fused=wgmma:128x32", false},
    {"lstm/f16/infer/L2/rev/T9/N70/I24/H35/P16/states", "algorithm=fused,fused=wgmma:64x32", false},
    {"lstm/f32/fast/infer/L2/T6/N130/I9/H130/P25", "algorithm=fused,fused=wgmma:128x64", false},
    /* products of steps back in slices; dacc in F16, one chunk after another, and for layers */
    {"lstm/bf16/train/T6/N160/I16/H64/states", "algorithm=fused", false},
    {"gru/f16/train/T6/N160/I16/H64/states", "algorithm=fused,chunk-back=2", false},
    {"lstm/f32/fast/train/T6/N130/I16/H64/states", "algorithm=fused", false},
    {"gru/f32/fast/train/rev/T6/N130/I16/H72/states", "algorithm=step,chunk-back=1", false},
    {"lstm/f32/fast/train/L2/T7/N130/I16/H64", "algorithm=fused,wavefront=1,chunk-back=3", false},
    {"lstm/f32/infer/L3/T9/N2/I5/H24/states", NULL, false},
    {"lstm/bf16/infer/L3/T9/N2/I5/H24/states", NULL, false},
    /* its initial state is given in the text */
    {"four-states/f32/train/T3/N3/I8/H32", "algorithm=step", false},
    /* rows are multiples of 16 bytes, and resets patch them 16 bytes at a time */
    {"gru/f32/train/T3/N3/I8/H32/resets:30", "algorithm=step", false},
    /* masked steps are dropped: by 16 bytes at a time, and by elements of each size; sums of dx */
    {"lstm/f32/train/T5/N3/I8/H32/states/mask:40", "algorithm=step", false},
    {"gru/f32/train/T5/N3/I5/H7/states/mask:40", "algorithm=step", false},
    {"gru/bf16/train/T5/N3/I5/H7/states/mask:40", "algorithm=step", false},
    {"gru/f64/train/T5/N3/I5/H7/states/mask:40", "algorithm=step", false},
    {"gru/f32/train/T5/N3/I5/H7/states/mask:40/resets:30", "algorithm=step", false},
    {"parts/f32/train/T3/N3/I3/H6/states", "algorithm=step", false},
    /* products of bytes with 1, 4, 2 and 8 rows, by words and by bytes; widened ones */
    {"lstm/f32/int8-weights/infer/T3/N1/I8/H32/states", "algorithm=step", false},
    {"lstm/f32/int8-weights/infer/T3/N2/I8/H32/states", "algorithm=step", false},
    {"lstm/f32/int8-weights/infer/T3/N1/I7/H33/states", "algorithm=step", false},
    {"lstm/f32/int8-weights/infer/T3/N2/I7/H33/states", "algorithm=step", false},
    {"lstm/f32/int8-weights/infer/T3/N17/I7/H33/states", "algorithm=step", false}};
enum { MORE = sizeof more / sizeof *more };

static void walk_case(const char *text, int rung, const struct more *one,
                      const struct divisions way[2])
{
    struct test_case test;
    struct data inputs = {0}, results = {0};
    if (!case_parse(&test, text))
        exit(99);
    test.lean = true;
    case_inputs(&test, &inputs);
    const struct expected expected = {&test, &inputs, &results};
    if (!case_expect(&test, &inputs, &results))
        exit(99);
    count.cases++;
    if (way != NULL)
        run_divisions(&expected, rungs[rung].groups, way);
    if (one != NULL && one->alone != NULL)
        run(&expected, one->alone);
    else if (rung < SMALL)
        run_others(&expected);
    if (one != NULL && one->splits)
        run_splits(&expected);
    data_free(&inputs);
    data_free(&results);
    case_free(&test);
}

static struct {
    int first, of, next;
    const char *only;
} part = {0, 1, 0, NULL};

/* Cases are shared out in turn; ones that take long come first. */
static bool is_mine(const char *text)
{
    if (part.only != NULL && strstr(text, part.only) == NULL)
        return false;
    return part.next++ % part.of == part.first;
}

enum { MOST_CELLS = 16 };
static struct divisions ladder[TYPES][MOST_CELLS][RUNGS][2];

static void ladder_text(char text[CASE_TEXT], int type, int cell, int rung)
{
    snprintf(text, CASE_TEXT, "%s/%s/%s", cell_name(cell), types[type], rungs[rung].rest);
}

/* Plans what each rung of one cell and type has to run. */
static void plan_ladder(int type, int cell)
{
    uint64_t met[2][ECO_PERSISTENT_SHAPES] = {{0}};
    for (int rung = 0; rung < RUNGS; rung++) {
        char text[CASE_TEXT];
        struct test_case test;
        struct eco_problem problem;
        ladder_text(text, type, cell, rung);
        if (!case_parse(&test, text) || eco_problem_build(&problem, &test.desc) != ECORNN_OK)
            exit(99);
        for (int backward = 0; backward < 2; backward++)
            ladder[type][cell][rung][backward] =
                divisions_of(&problem, &device->caps, backward, type, rung, met[backward]);
        case_free(&test);
    }
}

static void walk_ladders(int rung)
{
    for (int type = 0; type < TYPES; type++)
        for (int cell = 0; cell < builtin_count(); cell++) {
            const struct divisions *way = ladder[type][cell][rung];
            char text[CASE_TEXT];
            ladder_text(text, type, cell, rung);
            if ((way[0].n > 0 || way[1].n > 0 || rung < SMALL) && is_mine(text))
                walk_case(text, rung, NULL, way);
        }
}

/* Runs wide steps: those of training and of inference have kernels of their own. */
static void walk_many_rows(void)
{
    some = "fused=wgmma";
    for (int type = 1; type < TYPES - 1; type++) /* not F32 in full, nor F64 */
        for (int i = 0; i < 2 * builtin_count(); i++) {
            char text[CASE_TEXT];
            snprintf(text, sizeof text, "%s/%s/%s/T2/N150/I24/H72/states/lengths:random",
                     cell_name(i / 2), types[type], i % 2 ? "infer" : "train");
            if (is_mine(text))
                walk_case(text, 0, NULL, NULL);
        }
    some = "";
}

/* Runs the stages of plans with resets. */
static void walk_resets(void)
{
    static const struct more step = {NULL, "algorithm=step", false};
    for (int type = 0; type < TYPES; type++)
        for (int cell = 0; cell < builtin_count(); cell++) {
            char text[CASE_TEXT];
            snprintf(text, sizeof text, "%s/%s/train/T5/N3/I5/H13/states/resets:30",
                     cell_name(cell), types[type]);
            if (is_mine(text))
                walk_case(text, 0, &step, NULL);
        }
}

/* Runs cells interpreted, without NVRTC. */
static void walk_interpreted(void)
{
    setenv("ECORNN_NVRTC", "0", 1);
    for (int i = 0; i < 2 * TYPES; i++) {
        char text[CASE_TEXT];
        snprintf(text, sizeof text, "own-gru-reset-first/%s/train/T3/N3/I5/H13/states%s",
                 types[i / 2], i % 2 ? "/resets:30" : "");
        if (is_mine(text))
            walk_case(text, 0, NULL, NULL);
    }
    unsetenv("ECORNN_NVRTC");
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    part.only = getenv("ECORNN_CASE");
    if (argc > 1 && sscanf(argv[1], "%d/%d", &part.first, &part.of) != 2) {
        fprintf(stderr, "%s: must be K/N\n", argv[1]);
        return 99;
    }
    if (ecornn_device_open(&device, "cuda") != ECORNN_OK) {
        printf("skipped: %s\n", ecornn_error_detail());
        return 77;
    }
    if (!launches_open(&launches))
        return 99;
    for (int type = 0; type < TYPES; type++)
        for (int cell = 0; cell < builtin_count(); cell++)
            plan_ladder(type, cell);
    for (int i = 0; i < MORE; i++)
        if (is_mine(more[i].text))
            walk_case(more[i].text, 0, &more[i], NULL);
    for (int rung = RUNGS - 1; rung >= 0; rung--)
        walk_ladders(rung);
    walk_many_rows();
    walk_resets();
    walk_interpreted();
    printf("# %d problems, %d runs that agreed of %d, %d choices that cannot be\n", count.cases,
           count.runs - count.failed, count.runs, count.refused);
    launches_close(&launches);
    ecornn_device_close(device);
    return count.failed > 0;
}
