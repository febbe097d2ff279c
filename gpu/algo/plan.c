/*
 * The families of kernels for steps, and the CUDA backend's data of a plan: graphs, kernels and
 * choices. What a family alone knows is in its folder.
 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "gpu/gemm/grouped/grouped.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/wide_step/wide_step.h"
#include "gpu/gemm/emulated_f32/presplit.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/persistent/persistent.h"
#include "gpu/scan/scan.h"
#include "gpu/algo/algo.h"
#include "gpu/jit/jit.h"
#include "gpu/run/run.h"

const struct eco_algo *const eco_gpu_algos[] = {&eco_family_persistent.algo, &eco_family_fused.algo,
                                                &eco_family_scan.algo,       &eco_family_step.algo,
                                                &eco_family_matrix.algo,     NULL};

static const struct eco_gpu_family *family_of(const struct ecornn_plan *plan)
{
    return (const struct eco_gpu_family *)plan->algo;
}

/* Does it use steps of algorithm step? */
static bool has_stages(const struct ecornn_plan *plan)
{
    const struct eco_gpu_plan *own = plan->context;
    return !(own->persistent[0].used || own->fused.used || own->scan.used) ||
           (plan->problem.training && !(own->persistent[1].used || own->scan.used)) ||
           (plan->problem.training && plan->problem.saving.policy != ECO_SAVE_ALL);
}

/* Segments of a replay run concurrently: as many as give every thread of the device a unit. */
static void choose_replay_streams(const struct ecornn_plan *plan, struct eco_gpu_plan *own)
{
    enum { RESIDENT = 2048 /* threads of a multiprocessor */ };
    const struct eco_problem *problem = &plan->problem;
    const int lanes = plan->request.wavefront ? problem->L * problem->D : problem->D;
    if (problem->saving.policy != ECO_SAVE_EVERY || lanes > ECO_REPLAY_STREAM ||
        eco_layout_knows_states(&plan->layout[ECO_LAYOUT_BACK]) ||
        !eco_cell_replays_at_once(problem->cell, false))
        return;
    const int64_t fitting = (int64_t)plan->device->caps.threads * RESIDENT /
                            ((int64_t)problem->N * problem->H),
                  segments = eco_ceil_div(plan->layout[ECO_LAYOUT_BACK].chunk_backward,
                                          problem->saving.every),
                  unused = ECO_MAX_STREAMS - ECO_REPLAY_STREAM,
                  most = segments < unused ? segments : unused,
                  streams = fitting < most ? fitting : most;
    own->replay_streams = streams > 1 ? (int)streams : 0;
}

/* A small dx runs together with products of weight gradients; a larger one fills the device. */
static void choose_dx_beside(const struct eco_problem *problem, struct eco_gpu_plan *own)
{
    static const double small = 2e9; /* multiply-adds */
    for (int upper = 0; upper < 2 && upper < problem->L; upper++) {
        const struct eco_scaled_f16_size size =
            eco_scaled_f16_size(problem, upper, ECO_WEIGHT_INPUT, 1);
        own->dx_beside[upper] = (int32_t)fmin(INT32_MAX, small / ((double)size.accs * size.row));
    }
}

/* Finds kernels. Without compiled kernels a cell is interpreted: slower, with the same results. */
static void find_kernels(struct ecornn_plan *plan, struct eco_gpu_plan *own)
{
    struct eco_gpu_scope scope;
    struct eco_text why = {own->why, sizeof own->why, 0};
    if (eco_gpu_enter(&scope, plan->device) != ECORNN_OK)
        return;
    own->wide = eco_wide_kernels(&plan->problem);
    family_of(plan)->prepare(plan);
    eco_wide_choose_replays(plan, own);
    choose_replay_streams(plan, own);
    choose_dx_beside(&plan->problem, own);
    eco_gpu_choose_splits(plan, own);
    eco_gpu_choose_prepared(plan, own);
    eco_scaled_f16_choose(plan, own);
    if (plan->problem.cell->builtin < 0 && has_stages(plan))
        eco_own_stages_get(plan->device->context, &plan->problem, own->cell, &why);
    eco_gpu_leave(&scope);
}

/* Is it a plan of a cell with a matrix state, which has no products, replays or stages? */
static bool is_matrix(const struct ecornn_plan *plan)
{
    return plan->algo == &eco_family_matrix.algo;
}

/* All forced keys, for people; "": none. */
enum { FORCED = 128 };
static const char *forced_text(const struct eco_problem *problem, char text[FORCED])
{
    struct eco_text all = {text, FORCED, 0};
    eco_force_write(&problem->force, false, &all);
    return text + (text[0] == ',');
}

/* Checks that forced choices are valid for the plan's algorithm. */
static ecornn_status check_force(const struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_choice *unfit = eco_force_unfit(
        &problem->force,
        (!is_matrix(plan) && eco_step_is_wide(plan) ? &eco_family_fused.algo : plan->algo)->name);
    const size_t prepared =
        plan->request.gpu.prepared_bytes[0] + plan->request.gpu.prepared_bytes[1];
    const char *required = NULL;
    if (unfit != NULL)
        required = unfit->algorithms;
    else if (eco_forced(problem, ECO_FORCE_GROUPED, ECO_NOT_FORCED) >= 0 &&
             !(problem->training && eco_gpu_has_grouped(problem, &plan->device->caps)))
        required = "grouped products";
    else if (eco_forced(problem, ECO_FORCE_STEP_TILE, ECO_NOT_FORCED) >= 0 && prepared == 0)
        required = "prepared products of steps";
    if (required == NULL)
        return ECORNN_OK;
    char forced[FORCED] = "";
    return eco_gpu_services->fail(
        ECORNN_UNSUPPORTED, "ECORNN_FORCE: %s requires %s%s; this plan of algorithm %s has none",
        forced_text(problem, forced), unfit != NULL ? "algorithm " : "", required,
        plan->algo->name);
}

ecornn_status eco_gpu_prepare(struct ecornn_plan *plan)
{
    struct eco_gpu_plan *own = eco_alloc_zeroed(sizeof *own);
    if (own == NULL)
        return eco_gpu_services->fail(ECORNN_NO_MEMORY, "no memory for a plan of %zu bytes",
                                      sizeof *own);
    plan->context = own;
    if (plan->one != NULL) { /* of several models, where `one` has the rest */
        const ecornn_status made = eco_gpu_make_graphs(plan, &own->graphs);
        return made == ECORNN_OK ? eco_gpu_make_lanes(plan->device, plan->concurrent) : made;
    }
    ecornn_status status = check_force(plan);
    if (is_matrix(plan))
        return status;
    if (status == ECORNN_OK)
        status = eco_gpu_make_graphs(plan, &own->graphs);
    if (status == ECORNN_OK && plan->device->caps.gpu.partitions > 0)
        status = eco_gpu_make_lanes(plan->device, plan->device->caps.gpu.partitions);
    if (status == ECORNN_OK)
        find_kernels(plan, own);
    if (status == ECORNN_OK && plan->problem.row_invariant && !own->fused.used &&
        plan->algo != &eco_family_persistent.algo)
        status = eco_gpu_services->fail(
            ECORNN_UNSUPPORTED, "row-invariant requires steps of algorithm fused or persistent: %s",
            own->fused.why);
    return status;
}

void eco_gpu_release(struct ecornn_plan *plan)
{
    struct eco_gpu_plan *own = plan->context;
    eco_gpu_free_graphs(own->graphs);
    eco_free(own->splits);
    eco_free(own);
}

/* Prints whether rows are padded, if that was a choice. */
static void describe_rows(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_layout_request *request = &plan->request;
    const int32_t width[] = {problem->I, problem->H};
    for (int i = problem->I == problem->H; i < 2; i++) {
        const size_t row = eco_request_row(request, (size_t)width[i]);
        if (row != (size_t)width[i])
            eco_text_add(text, "rows of %zu elements for %" PRId32 "%s\n", row, width[i],
                         request->gpu.padded ? ", also of copies of the caller's" : " in weights");
    }
    for (int backward = 0; backward <= (int)problem->training; backward++)
        if (request->gpu.transposed[backward])
            eco_text_add(text, "R transposed for steps %s\n", backward ? "back" : "forward");
    for (int backward = 0; backward <= (int)problem->training; backward++)
        if (request->gpu.prepared_bytes[backward] > 0)
            eco_text_add(text, "R prepared once in a run for steps %s\n",
                         backward ? "back" : "forward");
}

void eco_gpu_describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_gpu_plan *own = plan->context;
    char forced[FORCED] = "";
    if (*forced_text(&plan->problem, forced) != '\0')
        eco_text_add(text, "forced: %s\n", forced_text(&plan->problem, forced));
    describe_rows(plan, text);
    eco_scaled_f16_describe(plan, text);
    if (own->replay_streams > 0)
        eco_text_add(text, "segments of a replay on %d streams\n", own->replay_streams);
    family_of(plan)->describe(plan, text);
    if (plan->problem.cell->builtin >= 0 || is_matrix(plan))
        return;
    if (own->why[0] == '\0')
        eco_text_add(text, "cell: compiled\n");
    else
        eco_text_add(text, "cell: interpreted (%s)\n", own->why);
}

/* ---- choices in the form of ECORNN_FORCE ----------------------------------------------------- */

/* Prints how rows are padded, if padding changes the length of any row. */
static void add_rows(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_layout_request *request = &plan->request;
    const size_t width[] = {(size_t)plan->problem.I, (size_t)plan->problem.H,
                            (size_t)plan->problem.P};
    for (int i = 0; i < 3; i++)
        if (eco_request_row(request, width[i]) != width[i]) {
            eco_choice_write(ECO_FORCE_ROWS,
                             (request->gpu.padded ? ECO_ROWS_PADDED : ECO_ROWS_DENSE) - 1, text);
            return;
        }
}

/* Products that choose a method by their own sizes are printed only if they are forced. */
void eco_gpu_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_layout_request *request = &plan->request;
    if (family_of(plan)->choices != NULL)
        family_of(plan)->choices(plan, text);
    eco_choice_write(ECO_FORCE_GPU_CHUNK, plan->tape[false][0].chunk, text);
    if (problem->training)
        eco_choice_write(ECO_FORCE_GPU_CHUNK_BACK, plan->tape[true][0].chunk, text);
    if (problem->L > 1 && problem->D == 1)
        eco_choice_write(ECO_FORCE_WAVEFRONT, request->wavefront, text);
    add_rows(plan, text);
    eco_force_write(&problem->force, true, text);
}
