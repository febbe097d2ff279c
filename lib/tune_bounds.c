/*
 * How much the results of two plans of a problem may differ; see tune.h.  For 16-bit types and TF32
 * the reference runs a small problem of the same kind, once exactly and several times with the
 * roundings of a machine of that type, as the tests do (tests/kit/compare.c).
 */
#include "lib/tune.h"

#include <math.h>

#include "common/backend.h"
#include "common/ref/ref.h"
#include "common/type.h"
#include "common/util.h"

/* The norm of the difference over the norm; infinite if a value is not finite. */
static double relative(const struct eco_tune_results *a, const struct eco_tune_results *b, int k)
{
    double apart = 0, norm = 0;
    for (size_t i = 0; i < a->count[k]; i++) {
        const double x = eco_type_get(a->value[k], i, a->type[k]),
                     y = eco_type_get(b->value[k], i, b->type[k]);
        apart += (x - y) * (x - y);
        norm += x * x;
    }
    return apart <= 0 ? 0 : norm > 0 && isfinite(apart) ? sqrt(apart / norm) : INFINITY;
}

/* ---- a small problem on the reference -------------------------------------------------------- */

/* Large enough for norms of many numbers, and for roundings that go through many steps. */
enum { STEPS = 32, ROWS = 2, UNITS = 16, LAYERS = 8, RUNS = 4 };

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The problem in F64, as the reference computes it. */
static struct eco_problem small_of(const struct eco_problem *problem)
{
    struct eco_problem made = *problem;
    made.T = least(problem->T, STEPS);
    made.N = least(problem->N, ROWS);
    const int32_t rest = least(eco_problem_rest(problem, 0), UNITS);
    made.H = least(problem->H, UNITS);
    made.I = rest + eco_problem_parts(&made);
    while (made.H % made.heads != 0 || (made.grouped && rest % made.heads != 0))
        made.heads--;
    made.P = least(problem->P, made.H);
    made.Y = made.P * (problem->Y / problem->P);
    made.L = least(problem->L, LAYERS);
    made.type = made.param_type = made.weight_type = ECORNN_F64;
    made.saving = (struct eco_saving){.policy = ECO_SAVE_ALL, .type = ECORNN_F64};
    made.fast = made.row_invariant = false;
    made.memory_limit = 0;
    made.force = (struct eco_force){.keys = 0};
    return made;
}

static bool is_fast(const struct eco_problem *problem)
{
    return problem->fast && problem->type == ECORNN_F32;
}

/* What a machine of the problem's types rounds; TF32 has as many significant bits as F16. */
static struct eco_machine machine_of(const struct eco_problem *problem)
{
    const ecornn_type type = is_fast(problem) ? ECORNN_F16 : problem->type;
    const bool replays = problem->saving.policy != ECO_SAVE_ALL;
    return (struct eco_machine){
        .type = type,
        .weight_type = is_fast(problem) ? ECORNN_F16 : problem->weight_type,
        .saved = problem->saving.type != ECORNN_F32 ? problem->saving.type
                 : replays                          ? type
                                                    : ECORNN_F32,
        .narrows = problem->saving.policy == ECO_SAVE_NARROW,
        .lean = true, /* as a GPU, which rounds more often */
    };
}

struct model {
    ecornn_device *reference;
    struct eco_problem problem;
    struct eco_tune_data data;
    struct eco_trial trial;
};

static ecornn_status open_model(struct model *model, const struct eco_problem *problem)
{
    struct ecornn_plan *plan = NULL;
    model->problem = small_of(problem);
    ecornn_status status = ecornn_device_open(&model->reference, "reference");
    if (status == ECORNN_OK)
        status = eco_plan_make(&plan, model->reference, &model->problem);
    if (status == ECORNN_OK)
        status = eco_tune_data_make(&model->data, plan, &model->problem, NULL);
    eco_plan_free(plan);
    return status == ECORNN_OK ? eco_trial_make(&model->trial, &model->data, "") : status;
}

static void close_model(struct model *model)
{
    eco_trial_free(&model->trial);
    eco_tune_data_free(&model->data);
    ecornn_device_close(model->reference);
}

static ecornn_status compute(struct model *model, struct eco_tune_results *results)
{
    const ecornn_status status = eco_trial_compute(&model->trial);
    return status == ECORNN_OK ? eco_tune_results_fetch(results, &model->data) : status;
}

/* Finds the largest errors of some rounded runs. */
static ecornn_status measure(struct model *model, const struct eco_problem *problem,
                             double error[ECO_TUNE_RESULTS])
{
    struct eco_tune_results exact = {0};
    ecornn_status status = compute(model, &exact);
    for (int run = 0; status == ECORNN_OK && run < RUNS; run++) {
        struct eco_tune_results rounded = {0};
        const enum eco_rounding rounding = run == 0                       ? ECO_ROUND_NEAREST
                                           : run == 1 && is_fast(problem) ? ECO_ROUND_CUT
                                                                          : ECO_ROUND_RANDOM;
        eco_reference_rounding(model->reference, rounding, machine_of(problem), (uint64_t)run);
        status = compute(model, &rounded);
        for (int k = 0; status == ECORNN_OK && k < ECO_TUNE_RESULTS; k++)
            error[k] = fmax(error[k], relative(&exact, &rounded, k));
        eco_tune_results_free(&rounded);
    }
    eco_tune_results_free(&exact);
    return status;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* The bound for sums in F32 or F64: plans add in different orders, and may emulate F32.  Roundings
 * grow with the square root of the steps.  The factor is generous, since errors of kernels are
 * larger by far. */
static double bound_of_sums(const struct eco_problem *problem)
{
    const ecornn_type sum = eco_type_sum(problem->type);
    return 256 * sqrt((double)problem->T) * ldexp(1, -eco_type_form[sum].bits);
}

ecornn_status eco_tune_bounds_find(struct eco_tune_bounds *bounds,
                                   const struct eco_problem *problem)
{
    static const double most = 0.5; /* wrong results differ by more */
    struct model model = {.reference = NULL};
    const ecornn_type weights = problem->weight_type;
    const double sums = bound_of_sums(problem);
    *bounds = (struct eco_tune_bounds){{sums, sums, sums}};
    if (!eco_type_narrow(problem->type) && !eco_type_narrow(weights) && !is_fast(problem))
        return ECORNN_OK;
    double error[ECO_TUNE_RESULTS] = {0};
    ecornn_status status = open_model(&model, problem);
    if (status == ECORNN_OK)
        status = measure(&model, problem, error);
    /* The tests allow each plan twice the largest error and one rounding; here are two plans. */
    const double unit = ldexp(1, -eco_type_form[machine_of(problem).weight_type].bits),
                 longer = sqrt((double)problem->T / least(problem->T, STEPS));
    for (int k = 0; status == ECORNN_OK && k < ECO_TUNE_RESULTS; k++)
        bounds->most[k] = fmin(sums + longer * 2 * (2 * error[k] + unit), most);
    close_model(&model);
    return status;
}

const char *eco_tune_difference(const struct eco_tune_results *a, const struct eco_tune_results *b,
                                const struct eco_tune_bounds *bounds, char text[128])
{
    static const char *const name[ECO_TUNE_RESULTS] = {"y", "dx", "gradients of parameters"};
    for (int k = 0; k < ECO_TUNE_RESULTS; k++) {
        const double apart = relative(a, b, k);
        if (apart <= bounds->most[k])
            continue;
        struct eco_text words = {text, 128, 0};
        eco_text_add(&words, "other results: %s differ by %.2g, must be at most %.2g", name[k],
                     apart, bounds->most[k]);
        return text;
    }
    return NULL;
}
