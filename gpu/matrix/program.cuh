/*
 * The values of a text for one head of one step, by a warp: in its scratch each node has as many
 * numbers as its kind says, and gradients come `values` numbers later.  A number of a head meets
 * all numbers of a key or value.
 */
#ifndef ECO_GPU_MATRIX_PROGRAM_CUH
#define ECO_GPU_MATRIX_PROGRAM_CUH

#include "common/cell/cell.h"
#include "gpu/cell/math.cuh"
#include "gpu/matrix/steps.cuh"

/* A warp's head of a row. */
struct head_step {
    real *values;
    int32_t n, h, lane;
};

ECO_DEVICE int32_t width_of(const call_t &call, int kind)
{
    return kind == ECO_KIND_NUMBER ? 1 : kind == ECO_KIND_KEY ? call.K : call.V;
}

ECO_DEVICE real *values_of(const call_t &call, const head_step &row, int node)
{
    return row.values + call.node[node].at;
}

ECO_DEVICE real *gradients_of(const call_t &call, const head_step &row, int node)
{
    return values_of(call, row, node) + call.values;
}

/* An argument of a node: a number for all, or numbers in a row. */
struct argument {
    real *value, *gradient;
    bool wide;
};

ECO_DEVICE argument argument_of(const call_t &call, const head_step &row, int node, int kind)
{
    if (node < 0)
        return {nullptr, nullptr, false};
    return {values_of(call, row, node), gradients_of(call, row, node),
            kind == ECO_KIND_NUMBER || call.node[node].kind != ECO_KIND_NUMBER};
}

ECO_DEVICE real argument_at(const argument &of, int32_t j)
{
    return of.value == nullptr ? (real)0 : of.value[of.wide ? j : 0];
}

/* ---- values ---------------------------------------------------------------------------------- */

ECO_DEVICE real result(int op, real a, real b, real c)
{
    switch (op) {
    case ECO_OP_ADD:
        return v_add(a, b);
    case ECO_OP_SUB:
        return v_sub(a, b);
    case ECO_OP_MUL:
        return v_mul(a, b);
    case ECO_OP_DIV:
        return v_div(a, b);
    case ECO_OP_MIN:
        return v_min(a, b);
    case ECO_OP_MAX:
        return v_max(a, b);
    case ECO_OP_SELECT:
        return v_select(a, b, c);
    case ECO_OP_NEG:
        return v_neg(a);
    case ECO_OP_ABS:
        return v_abs(a);
    case ECO_OP_EXP:
        return v_exp(a);
    case ECO_OP_LOG:
        return v_log(a);
    case ECO_OP_SQRT:
        return v_sqrt(a);
    case ECO_OP_TANH:
        return v_tanh(a);
    case ECO_OP_SIGMOID:
        return v_sigmoid(a);
    case ECO_OP_RELU:
        return v_relu(a);
    default:
        return a; /* a copy */
    }
}

/* The sum of a * b over a row, or the mean of a. */
ECO_DEVICE void evaluate_sum(const call_t &call, const head_step &row,
                             const struct eco_gpu_matrix_node &node)
{
    const int32_t n = width_of(call, call.node[node.a].kind);
    const real *a = values_of(call, row, node.a),
               *b = node.op == ECO_OP_DOT ? values_of(call, row, node.b) : nullptr;
    real sum = 0;
    for (int32_t j = row.lane; j < n; j += WARP)
        sum = b != nullptr ? fused(a[j], b[j], sum) : sum + a[j];
    sum = lanes_sum(sum);
    if (row.lane == 0)
        row.values[node.at] = b != nullptr ? sum : sum / n;
}

/* The nodes of a phase; `wanted`: only those.  Parts, states and what is read of S' are there
 * already. */
ECO_DEVICE void evaluate(const call_t &call, const head_step &row, int phase, bool wanted = false)
{
    for (int i = 0; i < call.nodes; i++) {
        const struct eco_gpu_matrix_node &node = call.node[i];
        if (node.phase != phase || node.op == ECO_OP_X || node.op == ECO_OP_STATE ||
            i == call.out || (wanted && !node.wanted))
            continue;
        if (node.op == ECO_OP_DOT || node.op == ECO_OP_MEAN) {
            evaluate_sum(call, row, node);
        } else {
            const bool copies = node.copied >= 0;
            const argument a = argument_of(call, row, copies ? node.copied : node.a, node.kind),
                           b = argument_of(call, row, node.b, node.kind),
                           c = argument_of(call, row, node.c, node.kind);
            const int32_t n = width_of(call, node.kind);
            for (int32_t j = row.lane; j < n; j += WARP)
                row.values[node.at + j] =
                    node.op == ECO_OP_CONST
                        ? (real)node.value
                        : result(copies ? ECO_OP_STOP : node.op, argument_at(a, j),
                                 argument_at(b, j), argument_at(c, j));
        }
        __syncwarp();
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The gradients of a, b and c, of that of y = op(a, b, c). */
ECO_DEVICE void differentiate(int op, real a, real b, real y, real g, real d[3])
{
    switch (op) {
    case ECO_OP_ADD:
        d[0] = d[1] = g;
        break;
    case ECO_OP_SUB:
        d[0] = g, d[1] = -g;
        break;
    case ECO_OP_MUL:
        d[0] = g * b, d[1] = g * a;
        break;
    case ECO_OP_DIV:
        d[0] = g / b, d[1] = -(g / b * y);
        break;
    case ECO_OP_MIN:
        d[0] = b - a > 0 ? g : 0, d[1] = b - a > 0 ? 0 : g;
        break;
    case ECO_OP_MAX:
        d[0] = a - b > 0 ? g : 0, d[1] = a - b > 0 ? 0 : g;
        break;
    case ECO_OP_SELECT:
        d[1] = a > 0 ? g : 0, d[2] = a > 0 ? 0 : g;
        break;
    case ECO_OP_NEG:
        d[0] = -g;
        break;
    case ECO_OP_ABS:
        d[0] = a > 0 ? g : a < 0 ? -g : 0;
        break;
    case ECO_OP_EXP:
        d[0] = g * y;
        break;
    case ECO_OP_LOG:
        d[0] = g * (1 / a);
        break;
    case ECO_OP_SQRT:
        d[0] = g * ((real)0.5 / y);
        break;
    case ECO_OP_TANH:
        d[0] = g * (1 - y * y);
        break;
    case ECO_OP_SIGMOID:
        d[0] = g * (y * (1 - y));
        break;
    case ECO_OP_RELU:
        d[0] = a > 0 ? g : 0;
        break;
    default:
        break; /* stop */
    }
}

ECO_DEVICE void sweep_sum(const call_t &call, const head_step &row,
                          const struct eco_gpu_matrix_node &node)
{
    const int32_t n = width_of(call, call.node[node.a].kind);
    const real g = row.values[node.at + call.values];
    const argument a = argument_of(call, row, node.a, ECO_KIND_NUMBER),
                   b = argument_of(call, row, node.b, ECO_KIND_NUMBER);
    for (int32_t j = row.lane; j < n; j += WARP) {
        if (node.op == ECO_OP_MEAN) {
            a.gradient[j] += g / n;
            continue;
        }
        a.gradient[j] += g * b.value[j];
        b.gradient[j] += g * a.value[j];
    }
}

ECO_DEVICE void sweep_map(const call_t &call, const head_step &row,
                          const struct eco_gpu_matrix_node &node)
{
    const int32_t n = width_of(call, node.kind);
    const argument of[3] = {argument_of(call, row, node.a, node.kind),
                            argument_of(call, row, node.b, node.kind),
                            argument_of(call, row, node.c, node.kind)};
    real sum[3] = {0, 0, 0};
    for (int32_t j = row.lane; j < n; j += WARP) {
        real d[3] = {0, 0, 0};
        differentiate(node.op, argument_at(of[0], j), argument_at(of[1], j),
                      row.values[node.at + j], row.values[node.at + call.values + j], d);
        for (int k = 0; k < 3; k++)
            if (of[k].value != nullptr && of[k].wide)
                of[k].gradient[j] += d[k];
            else
                sum[k] += d[k];
    }
    for (int k = 0; k < 3; k++) {
        if (of[k].value == nullptr || of[k].wide)
            continue;
        const real all = lanes_sum(sum[k]);
        if (row.lane == 0)
            *of[k].gradient += all;
    }
}

/* Gradients of the arguments of all nodes of a phase, from the last to the first. */
ECO_DEVICE void sweep(const call_t &call, const head_step &row, int phase)
{
    for (int i = call.nodes - 1; i >= 0; i--) {
        const struct eco_gpu_matrix_node &node = call.node[i];
        if (node.phase != phase || node.a < 0 || i == call.out)
            continue;
        if (node.op == ECO_OP_DOT || node.op == ECO_OP_MEAN)
            sweep_sum(call, row, node);
        else
            sweep_map(call, row, node);
        __syncwarp();
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

ECO_DEVICE void copy_reals(const head_step &row, real *to, const real *from, int32_t n)
{
    for (int32_t j = row.lane; j < n; j += WARP)
        to[j] = from[j];
}

ECO_DEVICE void add_reals(const head_step &row, real *to, const real *from, int32_t n)
{
    for (int32_t j = row.lane; from != nullptr && j < n; j += WARP)
        to[j] += from[j];
}

ECO_DEVICE void add_elements(const head_step &row, real *to, const narrow *from, int32_t n)
{
    for (int32_t j = row.lane; from != nullptr && j < n; j += WARP)
        to[j] += to_real(from[j]);
}

/* The parts of x of a step that have an effect; `wanted`: only those. */
ECO_DEVICE void load_parts(const call_t &call, const head_step &row, int32_t place,
                           bool wanted = false)
{
    const size_t at = caller_row(call, row.n, place);
    for (int k = 0; k < call.parts; k++) {
        const narrow *from = head_row(call.part[k], at, row.h, call.part_width[k]);
        if (call.part_node[k] < 0 || (wanted && !call.node[call.part_node[k]].wanted))
            continue;
        real *to = values_of(call, row, call.part_node[k]);
        for (int32_t j = row.lane; j < call.part_width[k]; j += WARP)
            to[j] = to_real(from[j]);
    }
    __syncwarp();
}

ECO_DEVICE bool is_small(const call_t &call, int s)
{
    return s > 0 && s != call.matrix;
}

#endif /* ECO_GPU_MATRIX_PROGRAM_CUH */
