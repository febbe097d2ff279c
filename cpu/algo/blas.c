/*
 * Algorithm blas: large products through CBLAS, one fused pointwise pass for each step and stage.
 * It runs every cell, option and type; other algorithms have to beat it.
 */
#include "cpu/cpu.h"
#include "cpu/algo/force.h"

#include <string.h>

#include "common/util.h"

/* By the user in the environment, not by a line of wisdom. */
static bool is_asked_for(const struct eco_force *force)
{
    return force->by_user && strcmp(force->algorithm, eco_algo_blas.name) == 0;
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)caps;
    if (problem->type == ECORNN_F32 && (problem->row_invariant || !is_asked_for(&problem->force)))
        return "does not support F32: the CBLAS sums in another order for other numbers of rows";
    const bool same = problem->weight_type == problem->type;
    return same && !eco_type_narrow(problem->type)
               ? eco_cpu_force_refuses(problem, eco_algo_blas.name, false)
               : "does not support 16-bit types and int8";
}

/* Enough rows for the input product to run at full speed, few enough for its result to stay in the
 * shared cache until the steps read it; more for weight gradients, whose result is rewritten. */
enum { FORWARD_ROWS = 1024, BACKWARD_ROWS = 2048 };

static int32_t steps_for(int32_t rows, int32_t N)
{
    const int32_t steps = (rows + N - 1) / N;
    return steps < 16 ? 16 : steps;
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    *request = (struct eco_layout_request){
        .cpu.by_length = true,
        .cpu.whole_rows = true,
        .cpu.run_threads = caps->threads,
        .cpu.team_bytes = eco_cpu_team_bytes(caps->threads),
        .chunk = eco_forced(problem, ECO_FORCE_CHUNK, steps_for(FORWARD_ROWS, problem->N)),
        .chunk_backward =
            eco_forced(problem, ECO_FORCE_CHUNK_BACK, steps_for(BACKWARD_ROWS, problem->N)),
        .cpu.gradient_rows = eco_cpu_gradient_group(problem),
        .cpu.sums_vectors = eco_cpu_sums_vectors(problem),
    };
    eco_cpu_request_carried(problem, caps, &request->cpu);
}

const struct eco_algo eco_algo_blas = {
    "blas", refuses, request, eco_cpu_estimate, eco_cpu_run_tape, NULL, ECO_CELLS_OF_UNITS};
