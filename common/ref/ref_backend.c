/*
 * The reference backend, which every other one is checked against: one device, one thread, host
 * memory, one slow algorithm that supports everything.
 */
#include "common/ref/ref.h"

#include <string.h>

#include "common/host.h"
#include "common/util.h"

/* ---- the algorithm --------------------------------------------------------------------------- */

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem;
    (void)caps;
    return NULL;
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    (void)problem;
    (void)caps;
    *request = (struct eco_layout_request){.plain = true};
}

static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double products = (double)eco_problem_param_elements(problem) * problem->T * problem->N;
    return 2 * products * (problem->training ? 5 : 1) / caps->flops;
}

static ecornn_status run_graph(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args)
{
    (void)tape;
    (void)layout;
    return eco_reference_run(plan, args);
}

static const struct eco_algo graph = {.name = "graph",
                                      .refuses = refuses,
                                      .request = request,
                                      .estimate = estimate,
                                      .run = run_graph,
                                      .cells = ECO_CELLS_ALL};

/* ---- the backend ----------------------------------------------------------------------------- */

void eco_reference_rounding(struct ecornn_device *device, enum eco_rounding rounding,
                            struct eco_machine machine, uint64_t seed)
{
    /* the generator's state must not be 0, and similar seeds must give different numbers */
    *(struct eco_arithmetic *)device->context =
        (struct eco_arithmetic){rounding,
                                machine.type != 0 ? machine.type : ECORNN_F32,
                                machine.weight_type != 0 ? machine.weight_type : ECORNN_F32,
                                machine.saved != 0 ? machine.saved : ECORNN_F32,
                                machine.lean,
                                machine.chained,
                                machine.int8,
                                machine.narrows,
                                (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1,
                                NULL,
                                false};
}

void eco_reference_stopped(struct ecornn_device *device, double *values, bool hold)
{
    struct eco_arithmetic *arithmetic = device->context;
    arithmetic->stopped = values, arithmetic->holds = hold;
}

static ecornn_status open_device(struct ecornn_device *device, int argument)
{
    if (argument >= 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device is \"reference:%d\", must be \"reference\"",
                        argument);
    device->context = eco_alloc_zeroed(sizeof(struct eco_arithmetic));
    if (!device->context)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for the reference device");
    eco_reference_rounding(device, ECO_ROUND_NOT,
                           (struct eco_machine){.type = ECORNN_F64, .weight_type = ECORNN_F64}, 0);
    device->caps = (struct eco_caps){.threads = 1,
                                     .flops = 5e8,
                                     .bytes_per_s = 5e9,
                                     .int8 = true,
                                     .streams = true,
                                     .cpu.cache_bytes = (size_t)1 << 20};
    device->info = (ecornn_device_info){.name = "double precision reference",
                                        .backend = "reference",
                                        .variant = "plain",
                                        .threads = 1};
    return ECORNN_OK;
}

/* Packs every parameter in the type of sums, with matrices rounded to the type of weights. */
static void pack(const struct eco_pack *call)
{
    const void *const *const params = call->params, *const *const added = call->added;
    const struct eco_problem *problem = &call->plan->problem;
    const ecornn_type sum = eco_type_sum(problem->type), from = problem->param_type;
    char *to = call->weights;
    for (int i = 0; i < eco_problem_params(problem); i++) {
        struct eco_param_position position;
        eco_problem_param_position(problem, i, &position);
        const size_t cols = (size_t)position.cols;
        for (size_t j = 0; j < position.elements; j += cols)
            eco_reference_round_row(to + j * eco_type_bytes(sum), sum,
                                    (const char *)params[i] + j * eco_type_bytes(from), from, cols,
                                    position.vector ? ECORNN_F64 : problem->weight_type);
        if (added && added[i])
            eco_type_add(to, sum, added[i], from, position.elements);
        to += position.elements * eco_type_bytes(sum);
    }
}

static void unpack(const struct eco_unpack *call)
{
    const struct eco_problem *problem = &call->plan->problem;
    const ecornn_type to = problem->param_type, from = eco_type_sum(problem->type);
    const char *gradient = call->dweights;
    for (int i = 0; i < eco_problem_params(problem); i++) {
        struct eco_param_position position;
        eco_problem_param_position(problem, i, &position);
        if (call->params[i])
            (call->add ? eco_type_add : eco_type_move)(call->params[i], to, gradient, from,
                                                       position.elements);
        gradient += position.elements * eco_type_bytes(from);
    }
}

static ecornn_status queue(struct ecornn_device *device, const struct eco_call *calls, int count,
                           void *stream)
{
    (void)device;
    (void)stream;
    for (const struct eco_call *call = calls; call < calls + count; call++)
        if (call->verb == ECO_CALL_PACK)
            pack(&call->pack);
        else if (call->verb == ECO_CALL_UNPACK)
            unpack(&call->unpack);
        else
            eco_host_call_part(call, 0, 1);
    return ECORNN_OK;
}

const struct eco_backend eco_backend_reference = {
    .name = "reference",
    .count = eco_host_count,
    .open = open_device,
    .close = eco_host_close,
    .alloc = eco_host_alloc,
    .free = eco_host_free,
    .copy = eco_host_copy,
    .queue = queue,
    .fork = eco_host_fork,
    .wait = eco_host_wait,
    .algos = (const struct eco_algo *const[]){&graph, NULL},
    .attention = &eco_reference_attention,
};
