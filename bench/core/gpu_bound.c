/*
 * The bound of a GPU, from what an H100 reaches and not from its peaks: 850 of 989 TFLOP/s in 16
 * bits, 3 of 3.35 TB/s.
 */
#include "gpu_bound.h"

#include <math.h>
#include <string.h>

#include "bench/core/named.h"

static const double BYTES_A_SECOND = 3e12;
/* Shared memory, registers and the second cache together hold at most this much of R. */
static const double ON_CHIP_BYTES = 96e6;

/* FLOP/s of products. F32 in full is six products of 16-bit parts. */
static double rate_of(const struct problem *problem)
{
    const double half = 850e12, double_ = 57e12;
    if (problem->type == ECORNN_F64)
        return double_;
    if (problem->type != ECORNN_F32)
        return half;
    return problem->desc.flags & ECORNN_FAST_MATH ? half / 2 : half / 6;
}

/* Bytes of all parameters, and of R and the projection alone. */
static double param_bytes(const struct problem *problem, const ecornn_plan *plan, double *recurrent)
{
    double all = 0;
    *recurrent = 0;
    for (int k = 0; k < count_of_params(plan); k++) {
        ecornn_param param = {.size = sizeof param};
        if (ecornn_param_get(plan, k, &param) != ECORNN_OK)
            continue;
        const double bytes =
            (double)param.rows * param.cols * (double)type_bytes(problem->weight_type);
        all += bytes;
        if (strstr(param.name, ".R.") || strstr(param.name, "proj"))
            *recurrent += bytes;
    }
    return all;
}

/* Training runs through the steps once more, and reads again what forward read and saved. */
static double bytes_of(const struct problem *problem, const ecornn_plan *plan)
{
    const ecornn_desc *desc = &problem->desc;
    const double valid = problem->rows / ((double)desc->steps * desc->batch);
    const double x = valid * (double)(problem->x_elements * problem->element),
                 y = valid * (double)(problem->y_elements * problem->element);
    const double lanes = (double)(desc->layers ? desc->layers : 1) * problem->directions *
                         (desc->models > 1 ? desc->models : 1);
    double recurrent;
    const double params = param_bytes(problem, plan, &recurrent);
    const double streamed =
        (desc->steps - 1.0) * lanes * fmax(0, recurrent / lanes - ON_CHIP_BYTES);
    const double forward = x + y + params + streamed;
    ecornn_sizes sizes = {.size = sizeof sizes};
    ecornn_plan_sizes(plan, &sizes);
    const double saved = valid * (double)sizes.reserve_bytes, dy = y, dx = x,
                 dweights = (double)(sizes.param_elements * problem->param_element);
    return problem->training ? 2 * (forward + saved) + dy + dx + dweights : forward;
}

struct bound gpu_bound_of(const struct problem *problem, const ecornn_plan *plan)
{
    const double floor = problem->flops / rate_of(problem);
    return (struct bound){floor, fmax(floor, bytes_of(problem, plan) / BYTES_A_SECOND)};
}
