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

/* N numbers of a row that a lane takes at once: number j, j + 32, and so on. */
template <int N> struct strip {
    static constexpr int count = N;
};

/* Calls f(strip, the first) for the numbers of a row that are the lane's: four at once while there
 * are as many, since one by one most instructions would be the loop's. */
template <typename F> ECO_DEVICE void each_strip(int32_t lane, int32_t n, const F &f)
{
    enum { MOST = 4 };
    int32_t j = lane;
    for (; j + (MOST - 1) * WARP < n; j += MOST * WARP)
        f(strip<MOST>(), j);
#pragma unroll 1
    for (; j < n; j += WARP)
        f(strip<1>(), j);
}

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

template <int N> ECO_DEVICE void load_argument(const argument &of, int32_t j, real x[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = of.value == nullptr ? (real)0 : of.value[of.wide ? j + i * WARP : 0];
}

/* ---- values ---------------------------------------------------------------------------------- */

#define EACH_OF_STRIP(expression)                                                                  \
    _Pragma("unroll") for (int i = 0; i < N; i++) expression;                                      \
    break

template <int N>
ECO_DEVICE void results(int op, const real a[N], const real b[N], const real c[N], real y[N])
{
    switch (op) {
    case ECO_OP_ADD:
        EACH_OF_STRIP(y[i] = v_add(a[i], b[i]));
    case ECO_OP_SUB:
        EACH_OF_STRIP(y[i] = v_sub(a[i], b[i]));
    case ECO_OP_MUL:
        EACH_OF_STRIP(y[i] = v_mul(a[i], b[i]));
    case ECO_OP_DIV:
        EACH_OF_STRIP(y[i] = v_div(a[i], b[i]));
    case ECO_OP_MIN:
        EACH_OF_STRIP(y[i] = v_min(a[i], b[i]));
    case ECO_OP_MAX:
        EACH_OF_STRIP(y[i] = v_max(a[i], b[i]));
    case ECO_OP_SELECT:
        EACH_OF_STRIP(y[i] = v_select(a[i], b[i], c[i]));
    case ECO_OP_NEG:
        EACH_OF_STRIP(y[i] = v_neg(a[i]));
    case ECO_OP_ABS:
        EACH_OF_STRIP(y[i] = v_abs(a[i]));
    case ECO_OP_EXP:
        EACH_OF_STRIP(y[i] = v_exp(a[i]));
    case ECO_OP_LOG:
        EACH_OF_STRIP(y[i] = v_log(a[i]));
    case ECO_OP_SQRT:
        EACH_OF_STRIP(y[i] = v_sqrt(a[i]));
    case ECO_OP_TANH:
        EACH_OF_STRIP(y[i] = v_tanh(a[i]));
    case ECO_OP_SIGMOID:
        EACH_OF_STRIP(y[i] = v_sigmoid(a[i]));
    case ECO_OP_RELU:
        EACH_OF_STRIP(y[i] = v_relu(a[i]));
    default: /* a copy */
        EACH_OF_STRIP(y[i] = a[i]);
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
    each_strip(row.lane, n, [&](auto strip, int32_t j) {
#pragma unroll
        for (int i = 0; i < decltype(strip)::count; i++, j += WARP)
            sum = b != nullptr ? fused(a[j], b[j], sum) : sum + a[j];
    });
    sum = lanes_sum(sum);
    if (row.lane == 0)
        row.values[node.at] = b != nullptr ? sum : sum / n;
}

/* Nodes in their order.  Parts, states and what is read of S' are there already. */
ECO_DEVICE void evaluate(const call_t &call, const head_step &row, int order)
{
    for (int i = 0; i < call.order[order].count; i++) {
        const int at = call.order[order].at[i];
        const struct eco_gpu_matrix_node &node = call.node[at];
        if (node.op == ECO_OP_DOT || node.op == ECO_OP_MEAN) {
            evaluate_sum(call, row, node);
        } else {
            const bool copies = node.copied >= 0;
            const argument a = argument_of(call, row, copies ? node.copied : node.a, node.kind),
                           b = argument_of(call, row, node.b, node.kind),
                           c = argument_of(call, row, node.c, node.kind);
            each_strip(row.lane, width_of(call, node.kind), [&](auto strip, int32_t j) {
                constexpr int N = decltype(strip)::count;
                real x[N], y[N], z[N], to[N];
                load_argument<N>(a, j, x);
                load_argument<N>(b, j, y);
                load_argument<N>(c, j, z);
                results<N>(copies ? ECO_OP_STOP : node.op, x, y, z, to);
#pragma unroll
                for (int i = 0; i < N; i++)
                    row.values[node.at + j + i * WARP] =
                        node.op == ECO_OP_CONST ? (real)call.value[at] : to[i];
            });
        }
        __syncwarp();
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The gradients da, db and dc of a, b and c, of that of y = op(a, b, c), g; 0 at first.  What an
 * operation reads of a, b and y stands in mark_ends() (program.c), too. */
template <int N> struct derivatives {
    real a[N], b[N], y[N], g[N], da[N], db[N], dc[N];
};

template <int N> ECO_DEVICE void differentiate(int op, derivatives<N> &of)
{
    const real *const a = of.a, *const b = of.b, *const y = of.y, *const g = of.g;
    real *const da = of.da, *const db = of.db, *const dc = of.dc;
    switch (op) {
    case ECO_OP_ADD:
        EACH_OF_STRIP(da[i] = db[i] = g[i]);
    case ECO_OP_SUB:
        EACH_OF_STRIP((da[i] = g[i], db[i] = -g[i]));
    case ECO_OP_MUL:
        EACH_OF_STRIP((da[i] = g[i] * b[i], db[i] = g[i] * a[i]));
    case ECO_OP_DIV:
        EACH_OF_STRIP((da[i] = g[i] / b[i], db[i] = -(g[i] / b[i] * y[i])));
    case ECO_OP_MIN:
        EACH_OF_STRIP((da[i] = b[i] - a[i] > 0 ? g[i] : 0, db[i] = b[i] - a[i] > 0 ? 0 : g[i]));
    case ECO_OP_MAX:
        EACH_OF_STRIP((da[i] = a[i] - b[i] > 0 ? g[i] : 0, db[i] = a[i] - b[i] > 0 ? 0 : g[i]));
    case ECO_OP_SELECT:
        EACH_OF_STRIP((db[i] = a[i] > 0 ? g[i] : 0, dc[i] = a[i] > 0 ? 0 : g[i]));
    case ECO_OP_NEG:
        EACH_OF_STRIP(da[i] = -g[i]);
    case ECO_OP_ABS:
        EACH_OF_STRIP(da[i] = a[i] > 0 ? g[i] : a[i] < 0 ? -g[i] : 0);
    case ECO_OP_EXP:
        EACH_OF_STRIP(da[i] = g[i] * y[i]);
    case ECO_OP_LOG:
        EACH_OF_STRIP(da[i] = g[i] * (1 / a[i]));
    case ECO_OP_SQRT:
        EACH_OF_STRIP(da[i] = g[i] * ((real)0.5 / y[i]));
    case ECO_OP_TANH:
        EACH_OF_STRIP(da[i] = g[i] * (1 - y[i] * y[i]));
    case ECO_OP_SIGMOID:
        EACH_OF_STRIP(da[i] = g[i] * (y[i] * (1 - y[i])));
    case ECO_OP_RELU:
        EACH_OF_STRIP(da[i] = a[i] > 0 ? g[i] : 0);
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
    each_strip(row.lane, n, [&](auto strip, int32_t j) {
#pragma unroll
        for (int i = 0; i < decltype(strip)::count; i++, j += WARP) {
            if (node.op == ECO_OP_MEAN) {
                a.gradient[j] += g / n;
                continue;
            }
            a.gradient[j] += g * b.value[j];
            b.gradient[j] += g * a.value[j];
        }
    });
}

/* Adds the gradients of an argument, or the sum of a number's to `sum`. */
template <int N>
ECO_DEVICE void add_gradients(const argument &of, int32_t j, const real d[N], real *sum)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (of.value != nullptr && of.wide)
            of.gradient[j + i * WARP] += d[i];
        else
            *sum += d[i];
}

ECO_DEVICE void sweep_map(const call_t &call, const head_step &row,
                          const struct eco_gpu_matrix_node &node)
{
    const argument of[3] = {argument_of(call, row, node.a, node.kind),
                            argument_of(call, row, node.b, node.kind),
                            argument_of(call, row, node.c, node.kind)};
    real sum[3] = {0, 0, 0};
    each_strip(row.lane, width_of(call, node.kind), [&](auto strip, int32_t j) {
        constexpr int N = decltype(strip)::count;
        derivatives<N> d = {};
        load_argument<N>(of[0], j, d.a);
        load_argument<N>(of[1], j, d.b);
#pragma unroll
        for (int i = 0; i < N; i++) {
            d.y[i] = row.values[node.at + j + i * WARP];
            d.g[i] = row.values[node.at + call.values + j + i * WARP];
        }
        differentiate(node.op, d);
        add_gradients<N>(of[0], j, d.da, &sum[0]);
        add_gradients<N>(of[1], j, d.db, &sum[1]);
        add_gradients<N>(of[2], j, d.dc, &sum[2]);
    });
    for (int k = 0; k < 3; k++) {
        if (of[k].value == nullptr || of[k].wide)
            continue;
        const real all = lanes_sum(sum[k]);
        if (row.lane == 0)
            *of[k].gradient += all;
    }
}

/* Gradients of the arguments of nodes, from the last to the first. */
ECO_DEVICE void sweep(const call_t &call, const head_step &row, int order)
{
    for (int i = call.order[order].count - 1; i >= 0; i--) {
        const struct eco_gpu_matrix_node &node = call.node[call.order[order].at[i]];
        if (node.a < 0)
            continue;
        if (node.op == ECO_OP_DOT || node.op == ECO_OP_MEAN)
            sweep_sum(call, row, node);
        else
            sweep_map(call, row, node);
        __syncwarp();
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Calls f(x, y), for the lane's numbers x and y of two rows, and stores what it returns as x. */
template <typename element, typename other, typename F>
ECO_DEVICE void merge_rows(const head_step &row, element *to, const other *from, int32_t n,
                           const F &f)
{
    each_strip(row.lane, from == nullptr ? 0 : n, [&](auto strip, int32_t j) {
        constexpr int N = decltype(strip)::count;
        other x[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = from[j + i * WARP];
#pragma unroll
        for (int i = 0; i < N; i++)
            to[j + i * WARP] = f(to[j + i * WARP], x[i]);
    });
}

ECO_DEVICE void copy_reals(const head_step &row, real *to, const real *from, int32_t n)
{
    merge_rows(row, to, from, n, [](real, real x) { return x; });
}

ECO_DEVICE void add_reals(const head_step &row, real *to, const real *from, int32_t n)
{
    merge_rows(row, to, from, n, [](real all, real x) { return all + x; });
}

ECO_DEVICE void load_elements(const head_step &row, real *to, const narrow *from, int32_t n)
{
    merge_rows(row, to, from, n, [](real, narrow x) { return to_real(x); });
}

ECO_DEVICE void add_elements(const head_step &row, real *to, const narrow *from, int32_t n)
{
    merge_rows(row, to, from, n, [](real all, narrow x) { return all + to_real(x); });
}

ECO_DEVICE void store_elements(const head_step &row, narrow *to, const real *from, int32_t n)
{
    merge_rows(row, to, from, n, [](narrow, real x) { return to_narrow(x); });
}

ECO_DEVICE bool is_read(const call_t &call, int node, int order)
{
    return node >= 0 && (call.node[node].orders >> order & 1) != 0;
}

/* The parts of x of a step that an order reads. */
ECO_DEVICE void load_parts(const call_t &call, const head_step &row, int32_t place, int order)
{
    const size_t at = caller_row(call, row.n, place);
    for (int k = 0; k < call.parts; k++) {
        const int node = call.part_node[k];
        if (is_read(call, node, order))
            load_elements(row, values_of(call, row, node),
                          head_row(call.part[k], at, row.h, call.part_width[k]),
                          call.part_width[k]);
    }
    __syncwarp();
}

ECO_DEVICE bool is_small(const call_t &call, int s)
{
    return s > 0 && s != call.matrix;
}

#endif /* ECO_GPU_MATRIX_PROGRAM_CUH */
