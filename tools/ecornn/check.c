/*
 * ecornn check: compares every device, instruction set and algorithm of this machine with the
 * reference, on small problems of all kinds, in less than a minute.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/ours.h"
#include "bench/core/say.h"
#include "bench/core/system.h"
#include "command.h"
#include "json.h"

/* They cover edges of lanes and blocks, directions, layers, lengths, types and policies. */
static const char *const cases[] = {
    "lstm/f32/train/L2/bi/T7/N5/I13/H37",
    "lstm/f32/train/T5/N17/I33/H64/lengths:uniform",
    "lstm/f32/train/T9/N3/I16/H40/save:states",
    "gru/f32/train/T8/N6/I16/H40/resets:20",
    "lstm/f32/train/T4/N6/I8/H24/P8",
    "lstm/f32/infer/T6/N1/I64/H96",
    "lstm/f32/infer/T1/N3/I20/H31",
    "lstm/f32/infer/T3/N70/I9/H130",
    "gru/f32/train/T6/N19/I9/H40",
    "gru/f32/train/rev/T5/N2/I7/H65",
    "rnn-tanh/f32/train/T5/N4/I6/H33",
    "rnn-relu/f32/train/T4/N5/I6/H17",
    "lstm-peephole/f32/train/T5/N4/I6/H33",
    "lstm-coupled/f32/train/T5/N4/I6/H33",
    "gru-reset-first/f32/train/T5/N9/I6/H48",
    "mgu/f32/train/L2/T5/N4/I6/H33",
    "min-gru/f32/train/T40/N3/I9/H37",
    "sru/f32/train/L2/T9/N4/I33/H33",
    "slstm/f32/train/T5/N4/I8/H32/heads:4",
    "lstm/f32/bf16-weights/train/T4/N5/I16/H48",
    "lstm/f32/fast/train/T4/N24/I16/H64",
    "lstm/f64/train/bi/T5/N4/I6/H33",
    "gru/f64/train/T5/N4/I6/H33",
    "lstm/bf16/train/L2/T5/N20/I16/H64",
    "gru/bf16/train/T5/N7/I9/H35",
    "lstm/f16/train/T5/N16/I16/H64",
    "gru/f16/infer/T5/N9/I9/H40",
    "lstm/f16/train/T4/N32/I64/H128",
    "gru/f32/train/T4/N32/I64/H128",
};
enum { CASES = sizeof cases / sizeof *cases, ARRAYS = 3 };
static const char *const array_name[ARRAYS] = {"y", "dx", "gradients of parameters"};

/* The results of a problem, on the host. */
struct results {
    void *array[ARRAYS]; /* y, dx, dparams; NULL: not computed in inference */
};

static void results_free(struct results *results)
{
    for (int k = 0; k < ARRAYS; k++)
        free(results->array[k]);
    *results = (struct results){{NULL}};
}

static size_t elements_of(const struct problem *problem, int k)
{
    const size_t count[ARRAYS] = {problem->y_elements, problem->x_elements,
                                  problem->param_elements};
    return k == 0 || problem->training ? count[k] : 0;
}

static ecornn_type type_of(const struct problem *problem, int k)
{
    return k == 2 ? problem->param_type : problem->type;
}

/* Computes the results for the first input. */
static bool compute(struct ours *ours, struct results *results)
{
    const struct problem *problem = ours->problem;
    bool good = ours_upload(ours) && ours_run(ours, 0);
    const void *const from[ARRAYS] = {ours->y, ours->dx, ours->dparams};
    for (int k = 0; good && k < ARRAYS; k++) {
        const size_t bytes = elements_of(problem, k) * type_bytes(type_of(problem, k));
        if (bytes > 0)
            good = (results->array[k] = ours_download(ours, from[k], bytes)) != NULL;
    }
    return good;
}

/* The norm of the difference over the norm. */
static double difference(const struct problem *problem, int k, const void *a, const void *b)
{
    const ecornn_type type = type_of(problem, k);
    double apart = 0, norm = 0;
    for (size_t i = 0; i < elements_of(problem, k); i++) {
        const double x = type_get(a, i, type), y = type_get(b, i, type);
        apart += (x - y) * (x - y);
        norm += x * x;
    }
    return apart <= 0 ? 0 : norm > 0 && isfinite(apart) ? sqrt(apart / norm) : INFINITY;
}

/* Rounding errors of these few steps stay well below; errors of a wrong kernel do not. */
static double tolerance(const struct problem *problem)
{
    static const double of_type[] = {
        [ECORNN_F32] = 2e-5, [ECORNN_F64] = 1e-11, [ECORNN_BF16] = 3e-2, [ECORNN_F16] = 4e-3};
    const bool fast = (problem->desc.flags & ECORNN_FAST_MATH) != 0;
    const double error = of_type[problem->weight_type];
    return fast && error < 4e-3 ? 4e-3 : error;
}

/* ---- one combination ------------------------------------------------------------------------- */

/* A device, an instruction set and an algorithm, and how many problems passed. */
struct combination {
    const char *device, *set, *algorithm; /* set "": a GPU */
    int passed, skipped, failed;
    double largest; /* error, relative to the tolerance */
};

static void report_failure(const struct combination *one, const char *problem, const char *what)
{
    say("FAILED: %s %s %s: %s: %s", one->device, one->set, one->algorithm, problem, what);
}

/* Is the problem unsupported?  Prints nothing. */
static bool refuses(const struct combination *one, const struct problem *problem)
{
    ecornn_device *device = NULL;
    ecornn_plan *plan = NULL;
    const bool refused =
        ecornn_device_open(&device, one->device) == ECORNN_OK &&
        ecornn_plan_create_desc(&plan, device, &problem->desc) == ECORNN_UNSUPPORTED;
    ecornn_plan_free(plan);
    ecornn_device_close(device);
    return refused;
}

/* Names the kernels: the direction and the plan's choices. */
static void report_difference(const struct combination *one, const struct ours *ours, int k,
                              double apart)
{
    const struct problem *problem = ours->problem;
    char text[4096], choices[256], what[512];
    ecornn_plan_print(ours->plan, text, sizeof text);
    choices_of(text, choices);
    snprintf(what, sizeof what,
             "%s differ from the reference by %.2g, must be at most %.2g: kernels %s of %s",
             array_name[k], apart, tolerance(problem), k == 0 ? "forward" : "backward", choices);
    report_failure(one, problem->text, what);
}

static bool agrees(struct combination *one, const struct ours *ours, const struct results *expected,
                   const struct results *results)
{
    const struct problem *problem = ours->problem;
    for (int k = 0; k < ARRAYS; k++) {
        if (elements_of(problem, k) == 0)
            continue;
        const double apart = difference(problem, k, expected->array[k], results->array[k]);
        one->largest = fmax(one->largest, apart / tolerance(problem));
        if (apart <= tolerance(problem))
            continue;
        report_difference(one, ours, k, apart);
        return false;
    }
    return true;
}

static void try_combination(struct combination *one, const struct problem *problem,
                            const struct results *expected)
{
    struct ours ours = {.problem = NULL};
    struct results results = {{NULL}};
    if (refuses(one, problem)) {
        one->skipped++;
        return;
    }
    const bool done = ours_plan(&ours, problem, one->device) && compute(&ours, &results);
    if (!done)
        report_failure(one, problem->text, "it did not run");
    const bool good = done && agrees(one, &ours, expected, &results);
    one->passed += good;
    one->failed += !good;
    results_free(&results);
    ours_free(&ours);
}

/* ---- all combinations ------------------------------------------------------------------------ */

enum { MOST = 64 };
struct combinations {
    struct combination list[MOST];
    char text[MOST][3][24];
    int n;
};

static void add_combination(struct combinations *all, const char *device, const char *set,
                            const char *algorithm)
{
    if (all->n == MOST)
        return;
    char(*text)[24] = all->text[all->n];
    snprintf(text[0], sizeof text[0], "%s", device);
    snprintf(text[1], sizeof text[1], "%s", set);
    snprintf(text[2], sizeof text[2], "%s", algorithm);
    all->list[all->n++] =
        (struct combination){.device = text[0], .set = text[1], .algorithm = text[2]};
}

static bool add_device(struct combinations *all, const char *name, const char *set)
{
    ecornn_device *device = NULL;
    if (ecornn_device_open(&device, name) != ECORNN_OK)
        return say("%s", ecornn_error_detail());
    ecornn_device_info info = {.size = sizeof info};
    ecornn_device_query(device, &info);
    for (char *rest = info.algorithms, *one; (one = strtok_r(rest, " ", &rest)) != NULL;)
        add_combination(all, name, set, one);
    ecornn_device_close(device);
    return true;
}

/* Adds the instruction sets that ecornn_info lists. */
static bool add_sets(struct combinations *all, const char *device)
{
    static const char head[] = "instruction sets:";
    char text[4096];
    ecornn_info(text, sizeof text);
    char *at = strstr(text, head);
    if (at == NULL)
        return say("ecornn_info lists no instruction sets");
    at += strlen(head);
    at[strcspn(at, "\n")] = '\0';
    for (char *set = strtok_r(at, " ", &at); set != NULL; set = strtok_r(NULL, " ", &at))
        if (!add_device(all, device, set))
            return false;
    return true;
}

static bool find_combinations(struct combinations *all, const char *device)
{
    char name[32];
    bool good = true;
    if (device != NULL)
        return strncmp(device, "cpu", 3) == 0 ? add_sets(all, device) : add_device(all, device, "");
    good = add_sets(all, "cpu");
    int gpus = 0;
    ecornn_device_count("cuda", &gpus);
    for (int k = 0; good && k < gpus; k++) {
        snprintf(name, sizeof name, "cuda:%d", k);
        good = add_device(all, name, "");
    }
    return good;
}

/* Computes a problem with the reference, without forced choices, and then with all combinations. */
static bool try_case(struct combinations *all, const char *text)
{
    struct problem problem;
    struct ours reference = {.problem = NULL};
    struct results expected = {{NULL}};
    system_set("ECORNN_ALGORITHM", NULL); /* set for the case before */
    if (!problem_parse(&problem, text, NULL))
        return false;
    const bool good = ours_plan(&reference, &problem, "reference") &&
                      problem_fill(&problem, reference.plan, 1) && compute(&reference, &expected);
    for (int k = 0; good && k < all->n; k++) {
        system_set("ECORNN_ISA", all->list[k].set);
        system_set("ECORNN_ALGORITHM", all->list[k].algorithm);
        try_combination(&all->list[k], &problem, &expected);
    }
    results_free(&expected);
    ours_free(&reference);
    problem_free(&problem);
    return good;
}

static void print_combination(struct json *json, bool as_json, const struct combination *one)
{
    if (!as_json) {
        printf("%s%s%s %-10s %2d passed, %2d skipped, %d failed; largest error %.2g of the "
               "tolerance\n",
               one->device, *one->set != '\0' ? " " : "", one->set, one->algorithm, one->passed,
               one->skipped, one->failed, one->largest);
        return;
    }
    json_object(json, NULL);
    json_text(json, "device", one->device);
    json_text(json, "instruction_set", *one->set != '\0' ? one->set : NULL);
    json_text(json, "algorithm", one->algorithm);
    json_whole(json, "passed", one->passed);
    json_whole(json, "skipped", one->skipped);
    json_whole(json, "failed", one->failed);
    json_number(json, "largest_error", one->largest);
    json_end(json);
}

/* Unsets the variables that force choices (doc/guide/environment.md, "For comparisons"). */
static void unset_choices(void)
{
    static const char *const variables[] = {
        "ECORNN_ALGORITHM", "ECORNN_FORCE", "ECORNN_GRID",         "ECORNN_ROWS",
        "ECORNN_WAVEFRONT", "ECORNN_CHUNK", "ECORNN_EMULATED_F32",
    };
    for (size_t k = 0; k < sizeof variables / sizeof *variables; k++)
        system_set(variables[k], NULL);
}

static int run(const struct options *options)
{
    static struct combinations all;
    struct json json = {.depth = 0};
    int failed = 0, passed = 0;
    ecornn_wisdom_forget(); /* files must not change choices */
    unset_choices();
    all.n = 0;
    if (!find_combinations(&all, options->device))
        return 1;
    for (int k = 0; k < CASES; k++)
        if (!try_case(&all, cases[k]))
            return 1;
    if (options->json)
        json_array(&json, NULL);
    for (int k = 0; k < all.n; k++) {
        failed += all.list[k].failed;
        passed += all.list[k].passed;
        print_combination(&json, options->json, &all.list[k]);
    }
    if (options->json)
        json_end(&json);
    else
        printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

const struct command command_check = {
    .name = "check",
    .operands = "",
    .about = "Compares every algorithm and instruction set of this machine with the reference",
    .takes = TAKES_JSON | TAKES_DEVICE,
    .run = run,
};
