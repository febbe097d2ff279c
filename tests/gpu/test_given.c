/*
 * What a run does with parameters that are given to it, without a device: kernels' moves are this
 * file's.  Matrices that are read where they are hold what packing writes, moves write the rest,
 * and nothing else is written.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "gpu/gemm/bytes/bytes.h"
#include "gpu/ops/ops.h"
#include "tests/kit/problems.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

const struct eco_services services = {.fail = eco_fail, .call_fails = eco_call_fails};
const struct eco_services *eco_gpu_services = &services;

/* ---- CUDA ------------------------------------------------------------------------------------ */

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}

ecornn_status eco_cuda_status(cudaError_t error, const char *doing)
{
    (void)doing;
    return error == cudaSuccess ? ECORNN_OK : ECORNN_FAILED;
}

ecornn_status eco_gpu_enter(struct eco_gpu_scope *scope, const struct ecornn_device *device)
{
    (void)scope, (void)device;
    return ECORNN_OK;
}

void eco_gpu_leave(const struct eco_gpu_scope *scope)
{
    (void)scope;
}

ecornn_status eco_gpu_check_pointer(const struct eco_gpu *gpu, const char *name,
                                    const void *pointer)
{
    (void)gpu, (void)name, (void)pointer;
    return ECORNN_OK;
}

cudaError_t eco_launch_quantise(const struct eco_bytes_rows *rows, cudaStream_t stream)
{
    (void)rows, (void)stream;
    return cudaErrorUnknown; /* no problem here has such weights */
}

static int launches;

cudaError_t eco_launch_params(struct eco_param_moves *moves, int count, cudaStream_t stream)
{
    (void)stream;
    launches++;
    for (int k = 0; k < count; k++) {
        const struct eco_param_move *move = &moves->move[k];
        for (size_t i = 0; i < (size_t)move->rows; i++)
            for (size_t j = 0; j < (size_t)move->width; j++) {
                const size_t at = i * move->from.row + j;
                double value = eco_type_get(move->from.data, at, move->from.type);
                if (move->added != NULL)
                    value += eco_type_get(move->added, at, move->from.type);
                eco_type_set(move->to.data, i * move->to.row + j, move->to.type, value);
            }
    }
    return cudaSuccess;
}

/* ---- a plan, and parameters as in PyTorch: the gates of a matrix follow each other ------------
 */

enum { MOST = 128, BYTES = 1 << 18 };

static ecornn_device device;
static struct ecornn_plan plan;
static _Alignas(ECO_ALIGNMENT) char memory[BYTES], packed[BYTES], block[BYTES];
static const void *params[MOST], *added[MOST];

/* apart: bytes between parameters. */
static void plan_open(const char *text, size_t apart)
{
    const struct eco_layout_request request = {.gpu.aligned = true};
    size_t at = 0;
    problem_of(&plan.problem, text);
    plan.device = &device;
    eco_layout_build(&plan.layout[0], &plan.problem, &request, plan.problem.T, plan.problem.N,
                     ECO_LAYOUT_INFER);
    plan.sizes.weight_bytes = plan.layout[0].weights_bytes;
    ck_assert_uint_le(plan.sizes.weight_bytes, BYTES);
    for (int i = 0; i < eco_problem_params(&plan.problem); i++) {
        struct eco_param_position position;
        eco_problem_param_position(&plan.problem, i, &position);
        params[i] = memory + at;
        added[i] = position.vector && i % 3 > 0 ? memory + BYTES / 2 + at : NULL;
        at += position.elements * eco_type_bytes(plan.problem.param_type) + apart;
    }
    ck_assert_uint_le(at, BYTES / 2);
    for (size_t i = 0; i < BYTES / eco_type_bytes(plan.problem.param_type); i++)
        eco_type_set(memory, i, plan.problem.param_type, (double)(i * 37 % 1021) / 64);
}

/* Compares what a product reads with what packing wrote. */
static void check_weights(const struct eco_gpu_given *given)
{
    const struct eco_layout *layout = &plan.layout[0];
    const struct eco_args args = {.weights = block, .matrices = given->matrix};
    for (int layer = 0; layer < plan.problem.L; layer++)
        for (int d = 0; d < plan.problem.D; d++)
            for (int id = 0; id < ECO_WEIGHT_IDS; id++) {
                const struct eco_op op = {.layer = layer, .d = d};
                const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, id);
                const ecornn_type type = id == ECO_WEIGHT_VECTORS ? layout->sum : layout->weight;
                const size_t bytes = (size_t)matrix->n * (size_t)matrix->height *
                                     (size_t)matrix->row * eco_type_bytes(type);
                ck_assert_mem_eq(eco_bind_weights(layout, &args, &op, id),
                                 packed + eco_layout_weights(layout, layer, d, id), bytes);
            }
}

static int places(const struct eco_gpu_given *given)
{
    int found = 0;
    for (size_t k = 0; k < sizeof given->matrix / sizeof *given->matrix; k++)
        found += given->matrix[k] != NULL;
    return found;
}

/* -1: all must be packed. */
static const struct {
    const char *problem;
    size_t apart;
    int places, moves;
} given_as[] = {
    {"lstm/T3/N2/I16/H32", 0, 2, 3},          {"lstm/T3/N2/I8/H16/bi", 0, 4, 6},
    {"lstm/T3/N2/I8/H16/L2/bi", 0, 8, -1},    {"lstm/bf16/bf16-params/T3/N2/I16/H32", 0, 2, 3},
    {"rnn-tanh/T3/N2/I8/H16/L2/bi", 0, 8, 4}, {"rnn-tanh/T3/N2/I8/H24/L2/bi", 0, 4, 8},
    {"lstm/f64/T3/N2/I8/H16/P8", 0, 3, 3},    {"rnn-tanh/bf16/T3/N2/I8/H16", 0, 0, 3},
    {"rnn-tanh/T3/N2/I8/H16", 4, 1, 2},       {"gru/T3/N2/I8/H16", 64, 0, -1},
    {"lstm/T3/N2/I5/H16", 0, -1, -1},         {"rnn-tanh/T3/N2/I8/H16/L9", 0, -1, -1}};
enum { GIVEN_AS = sizeof given_as / sizeof *given_as };

START_TEST(reads_or_packs)
{
    struct eco_gpu_given given;
    plan_open(given_as[_i].problem, given_as[_i].apart);
    const struct eco_args args = {.params = params, .added = added, .weights = block};
    memset(block, 0xAB, sizeof block);
    check_ok(eco_gpu_pack(&plan, params, added, packed, NULL));
    const bool takes = eco_gpu_take_params(&given, &plan, &args);
    ck_assert_int_eq(takes, given_as[_i].moves >= 0);
    if (!takes)
        return;
    ck_assert_int_eq(places(&given), given_as[_i].places);
    ck_assert_int_eq(given.count, given_as[_i].moves);
    launches = 0;
    check_ok(eco_gpu_queue_params(&plan, &given, NULL));
    ck_assert_int_eq(launches, 1);
    check_weights(&given);
    for (size_t k = plan.sizes.weight_bytes; k < BYTES; k++)
        ck_assert_int_eq(block[k], (char)0xAB);
}
END_TEST

TEST_MAIN("given", {reads_or_packs, GIVEN_AS})
