/*
 * Threads of the CPU backend. Tests the barrier, how many threads a device takes, and whether they
 * spin. A run must give the same bits wherever it is called: with fewer threads than requested, in
 * a parallel region, or after a fork.
 *
 *     test_threads child DEVICE SUM    one run in this process; fails if the sum of its results is
 * not SUM
 */
#include <check.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "cpu/run/cpuid.h"
#include "cpu/run/quota.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

#include <cblas.h> /* last: it defines I */

/* ---- the barrier ----------------------------------------------------------------------------- */

enum { ROUNDS = 300 };

static const struct {
    int threads, spins;
} barrier[] = {{2, 1000}, {2, 0}, {3, 0}, {5, 100}, {7, 0}, {16, 0}, {40, 0}};

/* After the barrier every thread sees what all threads wrote in the round before. */
START_TEST(barrier_waits_for_all)
{
    static struct eco_team_line line[40];
    static int written[40];
    static int wrong;
    _Atomic unsigned sleepers = 0;
    const int threads = barrier[_i].threads;
    const struct eco_team team = {
        .line = line, .sleepers = &sleepers, .count = threads, .spins = barrier[_i].spins};
    eco_team_clear(&team);
    memset(written, 0, sizeof written);
    wrong = 0;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(threads)
    {
        const int id = omp_get_thread_num();
        unsigned turn = 0;
        for (int i = 1; i <= ROUNDS && omp_get_num_threads() == threads; i++) {
            written[id] = i;
            eco_team_wait(&team, id, &turn);
            for (int k = 0; k < threads; k++)
                if (written[k] != i)
                    wrong = 1;
            eco_team_wait(&team, id, &turn);
        }
    }
    ck_assert_int_eq(wrong, 0);
    ck_assert_uint_eq(sleepers, 0);
    for (int k = 0; k < threads; k++)
        ck_assert_int_eq(written[k], ROUNDS); /* all threads were there */
}
END_TEST

/* ---- how many -------------------------------------------------------------------------------- */

static void put(const char *root, const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(name, 0700);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static const struct {
    const char *group, *path[2], *text[2];
    int cpus;
} quota[] = {
    {"0::/", {NULL}, {NULL}, INT32_MAX},
    {"0::/a/b\n", {"/sys/fs/cgroup/a/b/cpu.max"}, {"300000 100000\n"}, 3},
    {"0::/a/b\n",
     {"/sys/fs/cgroup/a/b/cpu.max", "/sys/fs/cgroup/a/cpu.max"},
     {"max 100000\n", "250000 100000\n"},
     2},
    {"0::/\n", {"/sys/fs/cgroup/cpu.max"}, {"50000 100000\n"}, 1},
    {"0::/seen/outside\n", {"/sys/fs/cgroup/cpu.max"}, {"400000 100000\n"}, 4},
    {"3:memory:/m\n2:cpuacct,cpu:/x\n0::/\n",
     {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us"},
     {"600000\n", "100000\n"},
     6},
    {"2:cpu:/x\n",
     {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us"},
     {"-1\n", "100000\n"},
     INT32_MAX},
    {"2:cpuset:/x\n",
     {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us"},
     {"600000\n", "100000\n"},
     INT32_MAX},
};

START_TEST(quota_of_control_groups)
{
    char root[] = "/tmp/ecornn-quota-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(root));
    put(root, "/proc/self/cgroup", quota[_i].group);
    for (int k = 0; k < 2 && quota[_i].path[k]; k++)
        put(root, quota[_i].path[k], quota[_i].text[k]);
    ck_assert_int_eq(eco_cpu_quota(root), quota[_i].cpus);
    snprintf(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(device_takes_what_it_is_told)
{
    ecornn_device_info info;
    const int cpus =
        eco_cpu_affinity() < eco_cpu_quota("") ? eco_cpu_affinity() : eco_cpu_quota("");
    const int usual = cpus < omp_get_max_threads() ? cpus : omp_get_max_threads();
    ecornn_device *device = device_on("cpu");
    check_ok(query_device(device, &info));
    ck_assert_int_eq(info.threads, usual);
    ecornn_device_close(device);
    check_ok(ecornn_device_open(&device, "cpu:37"));
    check_ok(query_device(device, &info));
    ck_assert_int_eq(info.threads, 37);
    ecornn_device_close(device);
}
END_TEST

START_TEST(spins_as_told)
{
    setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
    ck_assert_int_eq(eco_cpu_spins(), 0);
    unsetenv("OMP_WAIT_POLICY");
    const int usual = eco_cpu_spins();
    ck_assert_int_gt(usual, 0);
    setenv("OMP_WAIT_POLICY", "active", 1);
    ck_assert_int_gt(eco_cpu_spins(), usual);
}
END_TEST

/* Runs disable the threads of the CBLAS. The last run enables them again, whether runs are nested
 * or not. */
START_TEST(blas_gets_its_threads_back)
{
#ifdef OPENBLAS_VERSION
    const int before = openblas_get_num_threads();
    eco_cpu_blas_alone();
    eco_cpu_blas_alone();
    ck_assert_int_eq(openblas_get_num_threads(), 1);
    eco_cpu_blas_as_before();
    ck_assert_int_eq(openblas_get_num_threads(), 1);
    eco_cpu_blas_as_before();
    ck_assert_int_eq(openblas_get_num_threads(), before);
#endif
}
END_TEST

/* ---- runs in odd places ---------------------------------------------------------------------- */

/* Runs forward and backward and returns a sum over all results. */
static double train(const struct net *net)
{
    struct buffers *b = buffers_open(net);
    double sum = 0;
    net_train(net, b);
    for (int i = 0; i < Y; i++)
        sum += (double)b->y[i] * (i + 1);
    for (int i = 0; i < X; i++)
        sum += (double)b->dx[i] * (i + 1);
    for (size_t i = 0; i < net->sizes.dweight_bytes / sizeof(float); i++)
        sum += (double)((const float *)b->dweights)[i] * (double)(i + 1);
    buffers_close(net, b);
    return sum;
}

static double train_on(const char *device)
{
    struct net net;
    net_open(&net, device, NET_PROBLEM);
    const double sum = train(&net);
    net_close(&net);
    return sum;
}

START_TEST(many_threads_same_bits)
{
    static const char *const device[] = {"cpu:2", "cpu:3", "cpu:5", "cpu:16", "cpu:70"};
    const double alone = train_on("cpu:1");
    for (size_t k = 0; k < sizeof device / sizeof *device; k++)
        ck_assert_msg(train_on(device[k]) == alone, "%s", device[k]);
}
END_TEST

/* The case's results on a device, freed by the caller. */
static void run_on(const char *name, const struct test_case *test, const struct data *inputs,
                   struct data *results)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    check_ok(ecornn_device_open(&machine.device, name));
    ck_assert(case_run(test, &machine, inputs, results));
    ecornn_device_close(machine.device);
}

/* Linear cells: each thread goes through all steps of its own units or rows, or takes blocks of
 * time. */
static const char *const scanned[] = {
    "min-gru/f32/train/L2/bi/T40/N3/I9/H130/states/lengths:random",
    "min-lstm/bf16/train/T300/N2/I8/H70/states/batch-major/all-states",
    "sru/f32/train/L2/rev/T70/N5/I33/H33/states/resets:20/lengths:random",
    "qrnn/f64/train/bi/T50/N40/I5/H19/states/lengths:random",
    "two-memories/f32/train/bi/T60/N2/I90/H90/states/save:every:4",
    "decay/bf16/train/L2/T60/N30/I9/H40/states/lengths:random",
    "min-gru/f32/train/L2/bi/T1100/N1/I4/H70/states",
    "qrnn/bf16/train/T270/N3/I3/H17/states",
};

/* Cells with means, whose steps add up gradients of vectors, in several sums and over rows that end
 * early.
 */
static const char *const meant[] = {
    "norm-lstm-torch/f32/train/bi/T67/N9/I3/H35/states/lengths:random",
    "norm-lstm-gates/bf16/train/rev/T34/N11/I3/H19/states",
};

static void has_the_same_bits(const char *text, const char *const *device, int devices)
{
    struct test_case test;
    struct data inputs = {0}, alone = {0};
    ck_assert(case_parse(&test, text));
    case_inputs(&test, &inputs);
    run_on("cpu:1", &test, &inputs, &alone);
    for (int k = 0; k < devices; k++) {
        struct data together = {0};
        run_on(device[k], &test, &inputs, &together);
        ck_assert(results_same(&test, device[k], &alone, &together));
        data_free(&together);
    }
    data_free(&inputs);
    data_free(&alone);
    case_free(&test);
}

START_TEST(scans_have_the_same_bits)
{
    static const char *const device[] = {"cpu:2", "cpu:3"};
    const char *asked = getenv("ECORNN_ALGORITHM");
    ck_assert_ptr_null(asked);
    setenv("ECORNN_ALGORITHM", "scan", 1);
    has_the_same_bits(scanned[_i], device, 2);
    unsetenv("ECORNN_ALGORITHM");
}
END_TEST

START_TEST(means_have_the_same_bits)
{
    static const char *const device[] = {"cpu:2", "cpu:3", "cpu:5", "cpu:9"};
    setenv("ECORNN_GRID", "1x9x1",
           1); /* a grid for nine threads; with fewer threads the planner chooses */
    has_the_same_bits(meant[_i], device, 4);
    unsetenv("ECORNN_GRID");
}
END_TEST

/* Several products over different numbers of steps add to the same gradient. A thread's part of the
 * gradient depends on that number, so threads must wait for each other. */
START_TEST(sums_of_steps_that_end_wait_for_each_other)
{
    static const char *const device[] = {"cpu:2", "cpu:4"};
    struct test_case test;
    struct data inputs = {0}, alone = {0};
    ck_assert(case_parse(&test, "lstm/f64/train/T40/N16/I400/H400/lengths:random"));
    case_inputs(&test, &inputs);
    run_on("cpu:1", &test, &inputs, &alone);
    for (int round = 0; round < 6; round++) {
        struct data together = {0};
        run_on(device[round % 2], &test, &inputs, &together);
        ck_assert(results_agree_within(&test, device[round % 2], &alone, &together, 1e-12));
        data_free(&together);
    }
    data_free(&inputs);
    data_free(&alone);
    case_free(&test);
}
END_TEST

/* A child process has none of the parent's threads and must not wait for them. */
START_TEST(child_runs_alone)
{
    struct net net;
    int status;
    net_open(&net, "cpu:2", NET_PROBLEM);
    const double before = train(&net);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(train(&net) == before && train_on("cpu:3") == before ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
    ck_assert(train(&net) == before);
    net_close(&net);
}
END_TEST

START_TEST(runs_inside_a_region)
{
    struct net net;
    int wrong = 0;
    net_open(&net, "cpu:3", NET_PROBLEM);
    const double alone = train(&net);
    /* 1: an inner region has one thread; 2: as many as it asks for */
    omp_set_max_active_levels(1 + _i);
#pragma omp parallel num_threads(3) reduction(+ : wrong)
    for (int k = 0; k < 3; k++)
        wrong += train(&net) != alone;
    ck_assert_int_eq(wrong, 0);
    net_close(&net);
}
END_TEST

static const char *program; /* the path of this program */

/* Runs a separate process, because OpenMP reads its variables only once. */
static void spawn(const char *variable, const char *value, const char *device, double expected)
{
    int status;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        char text[64];
        snprintf(text, sizeof text, "%a", expected);
        setenv(variable, value, 1);
        execl(program, program, "child", device, text, (char *)NULL);
        _exit(2);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s=%s %s: status %#x", variable,
                  value, device, (unsigned)status);
}

START_TEST(fewer_threads_than_asked)
{
    static const struct {
        const char *variable, *value;
    } setting[] = {
        {"OMP_NUM_THREADS", "1"}, {"OMP_THREAD_LIMIT", "1"},      {"OMP_THREAD_LIMIT", "3"},
        {"OMP_DYNAMIC", "true"},  {"OMP_PROC_BIND", "true"},      {"OMP_WAIT_POLICY", "active"},
        {"ECORNN_GRID", "2x3x2"}, {"OMP_MAX_ACTIVE_LEVELS", "0"}, {"OMP_STACKSIZE", "192k"}};
    const double alone = train_on("cpu:1");
    spawn(setting[_i].variable, setting[_i].value, "cpu:2", alone);
    spawn(setting[_i].variable, setting[_i].value, "cpu:13", alone);
}
END_TEST

static char **told; /* arguments of a child: device, sum */

START_TEST(runs_as_told)
{
    ck_assert(train_on(told[0]) == strtod(told[1], NULL));
}
END_TEST

/* Runs as a test, because asserts need one; the parent writes the log. */
static int be_child(void)
{
    static const struct suite_program suite = {.name = "child", .one_process = true};
    unsetenv("CK_TAP_LOG_FILE_NAME");
    setenv("CK_VERBOSITY", "silent", 1);
    return suite_run(&suite, SUITE_TESTS({runs_as_told, 1}));
}

int main(int argc, char **argv)
{
    static const struct suite_program suite = {.name = "threads"};
    program = argv[0];
    told = argv + 2;
    if (argc > 3 && strcmp(argv[1], "child") == 0)
        return be_child();
    return suite_run(
        &suite, SUITE_TESTS({barrier_waits_for_all, sizeof barrier / sizeof *barrier},
                            {quota_of_control_groups, sizeof quota / sizeof *quota},
                            {device_takes_what_it_is_told, 1}, {spins_as_told, 1},
                            {blas_gets_its_threads_back, 1}, {many_threads_same_bits, 1},
                            {scans_have_the_same_bits, sizeof scanned / sizeof *scanned},
                            {means_have_the_same_bits, sizeof meant / sizeof *meant},
                            {sums_of_steps_that_end_wait_for_each_other, 1}, {child_runs_alone, 1},
                            {runs_inside_a_region, 2}, {fewer_threads_than_asked, 9}));
}
