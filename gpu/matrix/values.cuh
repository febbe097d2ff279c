/*
 * Kernels for all values but S: a warp takes a head of a row, one step of it, or, if other
 * states follow each other, all steps of the slab.
 *
 *    values   forward: what the rule reads, and the other states before each step
 *    numbers  likewise, if all of these are numbers of a head, without sums or other states: a lane
 *             for each head of a step
 *    after    forward: y, and the states of every step, from what was read of S'
 *    seed     backward: the gradient of what was read of S'
 *    sweep    backward: dx, from the gradients of what the rule reads
 *    begin    backward: gradients that steps add to
 *    finish   forward: the steps that do not count, and y of a row without steps
 */
#ifndef ECO_GPU_MATRIX_VALUES_CUH
#define ECO_GPU_MATRIX_VALUES_CUH

#include "gpu/matrix/program.cuh"

/* The warp's scratch; `times`: 2 with gradients. */
ECO_DEVICE head_step head_step_of(const call_t &call, int times)
{
    return {(real *)shared_bytes + (size_t)threadIdx.y * call.values * times, 0, 0,
            (int32_t)threadIdx.x};
}

ECO_DEVICE size_t warp_number()
{
    return (size_t)blockIdx.x * blockDim.y + threadIdx.y;
}

/* The warp's head and step; false: it has none. */
ECO_DEVICE bool take_slot(const call_t &call, head_step *row, int32_t *place)
{
    const unsigned heads = (unsigned)call.args.N * call.heads; /* times steps: below 2^31 */
    const size_t warp = warp_number();
    if (warp >= (size_t)heads * call.steps)
        return false;
    const unsigned head = (unsigned)warp % heads;
    *place = call.first + (int32_t)((unsigned)warp / heads);
    row->n = (int32_t)(head / call.heads);
    row->h = (int32_t)(head % call.heads);
    return true;
}

ECO_DEVICE bool take_head(const call_t &call, head_step *row)
{
    const size_t warp = warp_number();
    if (warp >= (size_t)call.args.N * call.heads)
        return false;
    row->n = (int32_t)(warp / call.heads);
    row->h = (int32_t)(warp % call.heads);
    return true;
}

/* ---- values before S ------------------------------------------------------------------------- */

ECO_DEVICE void store_terms(const call_t &call, const head_step &row, int32_t place)
{
    const size_t slot = slot_of(call, row.n, row.h, place);
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++) {
        const struct eco_gpu_matrix_source &term = call.term[k];
        if (term.slots != nullptr)
            copy_reals(row, real_at(term.slots, slot, term.width), values_of(call, row, term.node),
                       term.width);
        if (term.times != nullptr && row.lane == 0)
            *real_at(term.times, slot, 1) = *values_of(call, row, term.by);
    }
}

/* A state at its beginning, or, from NULL, the cell's start. */
ECO_DEVICE void begin_state(const call_t &call, const head_step &row, int s, const real *from)
{
    real *to = row.values + call.carried_at[s];
    for (int32_t j = row.lane; j < call.width[s]; j += WARP)
        to[j] = from != nullptr ? from[j] : (real)call.start[s];
}

/* The other states before the slab. */
ECO_DEVICE void begin_states(const call_t &call, const head_step &row)
{
    const size_t head = head_of(call, row.n, row.h);
    for (int s = 1; s < call.states; s++) {
        if (!is_small(call, s))
            continue;
        const size_t kept = head * call.chunks + call.first / call.chunk;
        begin_state(call, row, s,
                    call.args.backward ? real_at(call.kept[s], kept, call.width[s])
                    : call.first == 0
                        ? stream_at<real>(call, call.args.initial[s], row.n, row.h, call.width[s])
                        : real_at(call.carried[s], head, call.width[s]));
    }
    __syncwarp();
}

ECO_DEVICE void end_states(const call_t &call, const head_step &row)
{
    const bool last = call.first + call.steps == call.args.T;
    const size_t head = head_of(call, row.n, row.h);
    for (int s = 1; s < call.states; s++) {
        real *to = last ? stream_at<real>(call, call.args.final[s], row.n, row.h, call.width[s])
                        : real_at(call.carried[s], head, call.width[s]);
        if (is_small(call, s) && to != nullptr)
            copy_reals(row, to, row.values + call.carried_at[s], call.width[s]);
    }
}

ECO_DEVICE void keep_states(const call_t &call, const head_step &row, int32_t place)
{
    const size_t kept = head_of(call, row.n, row.h) * call.chunks + place / call.chunk;
    for (int s = 1; s < call.states; s++)
        if (is_small(call, s))
            copy_reals(row, real_at(call.kept[s], kept, call.width[s]),
                       row.values + call.carried_at[s], call.width[s]);
}

/* Gives a step the other states before it. */
ECO_DEVICE void enter_step(const call_t &call, const head_step &row, int32_t place)
{
    const bool reset = begins_again(call, row.n, place);
    const size_t slot = slot_of(call, row.n, row.h, place);
    for (int s = 1; s < call.states; s++) {
        const real *carried = row.values + call.carried_at[s];
        if (!is_small(call, s))
            continue;
        if (reset)
            begin_state(call, row, s,
                        real_at(start_state(call, s), head_of(call, row.n, row.h), call.width[s]));
        __syncwarp();
        if (call.previous[s] >= 0)
            copy_reals(row, values_of(call, row, call.previous[s]), carried, call.width[s]);
        if (call.before[s] != nullptr)
            copy_reals(row, real_at(call.before[s], slot, call.width[s]), carried, call.width[s]);
    }
}

ECO_DEVICE void keep_next(const call_t &call, const head_step &row)
{
    for (int s = 1; s < call.states; s++)
        if (is_small(call, s))
            copy_reals(row, row.values + call.carried_at[s], values_of(call, row, call.next[s]),
                       call.width[s]);
    __syncwarp();
}

static __global__ void values_of_steps(const __grid_constant__ call_t call)
{
    head_step row = head_step_of(call, 1);
    int32_t place = call.first;
    if (!(call.remembers ? take_head(call, &row) : take_slot(call, &row, &place)))
        return;
    const int32_t end = call.remembers ? call.first + call.steps : place + 1;
    if (call.remembers)
        begin_states(call, row);
    for (; place < end; place++) {
        if (call.remembers && call.training && !call.args.backward && place % call.chunk == 0)
            keep_states(call, row, place);
        if (!is_counted(call, row.n, place))
            continue;
        if (call.remembers)
            enter_step(call, row, place);
        load_parts(call, row, place, ECO_GPU_MATRIX_WANTED);
        evaluate(call, row, ECO_GPU_MATRIX_WANTED);
        store_terms(call, row, place);
        if (call.remembers)
            keep_next(call, row);
    }
    if (call.remembers && !call.args.backward)
        end_states(call, row);
}

/* The value of a node in a lane's column of the warp's memory [nodes,32]; 0: no node. */
ECO_DEVICE real number_in_lane(const real *numbers, int node)
{
    return node < 0 ? (real)0 : numbers[node * WARP];
}

static __global__ void numbers_of_steps(const __grid_constant__ call_t call)
{
    real *const numbers = (real *)shared_bytes + (threadIdx.y * call.nodes * WARP + threadIdx.x);
    const unsigned heads = (unsigned)call.args.N * call.heads;
    const size_t slot = warp_number() * WARP + threadIdx.x;
    const int32_t place = call.first + (int32_t)(slot / heads),
                  n = (int32_t)(slot % heads / call.heads), h = (int32_t)(slot % call.heads);
    if (place >= call.first + call.steps || !is_counted(call, n, place))
        return;
    for (int k = 0; k < call.parts; k++)
        if (is_read(call, call.part_node[k], ECO_GPU_MATRIX_WANTED))
            numbers[call.part_node[k] * WARP] =
                to_real(*head_row(call.part[k], caller_row(call, n, place), h, 1));
    for (int i = 0; i < call.order[ECO_GPU_MATRIX_WANTED].count; i++) {
        const int at = call.order[ECO_GPU_MATRIX_WANTED].at[i];
        const struct eco_gpu_matrix_node &node = call.node[at];
        const bool copies = node.copied >= 0;
        const real x = number_in_lane(numbers, copies ? node.copied : node.a),
                   y = number_in_lane(numbers, node.b), z = number_in_lane(numbers, node.c);
        real to = (real)call.value[at];
        if (node.op != ECO_OP_CONST)
            results<1>(copies ? ECO_OP_STOP : node.op, &x, &y, &z, &to);
        numbers[at * WARP] = to;
    }
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++) {
        const struct eco_gpu_matrix_source &term = call.term[k];
        if (term.slots != nullptr)
            *real_at(term.slots, slot, 1) = numbers[term.node * WARP];
        if (term.times != nullptr)
            *real_at(term.times, slot, 1) = numbers[term.by * WARP];
    }
}

/* ---- values after it ------------------------------------------------------------------------- */

/* Values before S of a step, as they were when S passed it. */
ECO_DEVICE void restore_before(const call_t &call, const head_step &row, int32_t place, int order)
{
    const size_t slot = slot_of(call, row.n, row.h, place);
    for (int s = 1; s < call.states; s++)
        if (is_small(call, s) && call.previous[s] >= 0)
            copy_reals(row, values_of(call, row, call.previous[s]),
                       real_at(call.before[s], slot, call.width[s]), call.width[s]);
    load_parts(call, row, place, order);
    evaluate(call, row, order);
}

/* All values of a step; but if y is what was read of S', those before S alone. */
ECO_DEVICE void restore_step(const call_t &call, const head_step &row, int32_t place)
{
    restore_before(call, row, place, ECO_GPU_MATRIX_BEFORE);
    if (call.direct)
        return;
    copy_reals(row, values_of(call, row, call.out),
               real_at(call.o, slot_of(call, row.n, row.h, place), call.V), call.V);
    __syncwarp();
    evaluate(call, row, ECO_GPU_MATRIX_AFTER);
}

/* Stores the other states after a step, and these columns of y. */
ECO_DEVICE void store_step(const call_t &call, const head_step &row, int32_t place, int32_t first,
                           int32_t end)
{
    const size_t mark = head_of(call, mark_of(call, row.n, place), row.h);
    for (int s = 1; s < call.states; s++) {
        real *to = real_at(call.args.states[s], mark, call.width[s]);
        if (is_small(call, s) && to != nullptr)
            copy_reals(row, to, values_of(call, row, call.next[s]), call.width[s]);
    }
    const bool last = next_counted(call, row.n, place + 1) == call.args.T;
    narrow *to[3] = {
        narrow_at(call.args.y, head_of(call, caller_row(call, row.n, place), row.h), call.V),
        narrow_at(call.args.states[0], mark, call.V),
        last ? stream_at<narrow>(call, call.args.final[0], row.n, row.h, call.V) : nullptr};
    for (int k = 0; k < 3; k++)
        for (int32_t j = first + row.lane; to[k] != nullptr && j < end; j += WARP)
            to[k][j] = to_narrow(values_of(call, row, call.y_node)[j]);
}

static __global__ void values_after_steps(const __grid_constant__ call_t call)
{
    head_step row = head_step_of(call, 1);
    int32_t place;
    if (!take_slot(call, &row, &place) || !is_counted(call, row.n, place))
        return;
    restore_step(call, row, place);
    store_step(call, row, place, 0, call.direct ? 0 : call.V);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Adds the gradients of y of a step, and of the steps after it that repeat it. */
ECO_DEVICE void add_dy(const call_t &call, const head_step &row, int32_t place, real *to)
{
    const int32_t end = next_counted(call, row.n, place + 1);
    for (int32_t p = place; p < end; p++) {
        if (p != place && !repeats(call, row.n, p))
            continue;
        add_elements(
            row, to,
            narrow_at(call.args.dy, head_of(call, caller_row(call, row.n, p), row.h), call.V),
            call.V);
        add_elements(
            row, to,
            narrow_at(call.args.dstates[0], head_of(call, mark_of(call, row.n, p), row.h), call.V),
            call.V);
    }
    if (end == call.args.T)
        add_elements(row, to,
                     narrow_at(final_gradient(call, 0), head_of(call, row.n, row.h), call.V),
                     call.V);
    __syncwarp();
}

ECO_DEVICE void clear_gradients(const call_t &call, const head_step &row)
{
    each_strip(row.lane, call.node_values, [&](auto strip, int32_t j) {
#pragma unroll
        for (int i = 0; i < decltype(strip)::count; i++)
            row.values[call.values + j + i * WARP] = 0;
    });
    __syncwarp();
}

/* All values of a step, and the gradients of what depends on S'. */
ECO_DEVICE void seed_step(const call_t &call, const head_step &row, int32_t place)
{
    clear_gradients(call, row);
    add_dy(call, row, place, gradients_of(call, row, call.y_node));
    if (!call.direct)
        sweep(call, row, ECO_GPU_MATRIX_AFTER);
}

static __global__ void seed_steps(const __grid_constant__ call_t call)
{
    head_step row = head_step_of(call, 2);
    int32_t place;
    if (!take_slot(call, &row, &place) || !is_counted(call, row.n, place))
        return;
    if (!call.direct)
        restore_step(call, row, place);
    seed_step(call, row, place);
    copy_reals(row, real_at(call.dout, slot_of(call, row.n, row.h, place), call.V),
               gradients_of(call, row, call.out), call.V);
}

/* Adds the gradients of what the rule reads: the sums of blocks of columns, in their order. */
ECO_DEVICE void add_term_gradients(const call_t &call, const head_step &row, int32_t place)
{
    const size_t slot = slot_of(call, row.n, row.h, place),
                 slots = (size_t)call.steps * call.args.N * call.heads;
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++) {
        const struct eco_gpu_matrix_source &term = call.term[k];
        if (term.node < 0)
            continue;
        real *to = gradients_of(call, row, term.node);
        if (k == ECO_GPU_MATRIX_VALUE)
            add_reals(row, to, real_at(call.dvalue, slot, call.V), call.V);
        for (int b = 0; k != ECO_GPU_MATRIX_VALUE && b < call.partials; b++)
            add_reals(row, to, real_at(call.dterm[k], b * slots + slot, term.width), term.width);
        __syncwarp();
    }
}

/* Adds to the gradient of another state after the step those of the step after, and the caller's.
 */
ECO_DEVICE void add_dnext(const call_t &call, const head_step &row, int32_t place)
{
    const int32_t end = next_counted(call, row.n, place + 1);
    for (int s = 1; s < call.states; s++) {
        if (!is_small(call, s))
            continue;
        real *to = gradients_of(call, row, call.next[s]);
        add_reals(row, to, row.values + call.values + call.carried_at[s], call.width[s]);
        for (int32_t p = place; p < end; p++)
            if (p == place || repeats(call, row.n, p))
                add_reals(row, to,
                          real_at(call.args.dstates[s],
                                  head_of(call, mark_of(call, row.n, p), row.h), call.width[s]),
                          call.width[s]);
        __syncwarp();
    }
}

/* Takes the gradients of the other states before the step; at a reset they end. */
ECO_DEVICE void leave_states(const call_t &call, const head_step &row, int32_t place)
{
    const bool reset = begins_again(call, row.n, place);
    for (int s = 1; s < call.states; s++) {
        if (!is_small(call, s))
            continue;
        real *to = row.values + call.values + call.carried_at[s],
             *start = real_at(start_gradient(call, s), head_of(call, row.n, row.h), call.width[s]);
        const real *from =
            call.previous[s] >= 0 ? gradients_of(call, row, call.previous[s]) : nullptr;
        for (int32_t j = row.lane; j < call.width[s]; j += WARP) {
            const real d = from != nullptr ? from[j] : 0;
            to[j] = reset ? 0 : d;
            if (reset && start != nullptr)
                start[j] += d;
        }
    }
    __syncwarp();
}

/* dx of a step; of one that does not count, and of a part without effect, it is 0. */
ECO_DEVICE void store_dx(const call_t &call, const head_step &row, int32_t place, bool counted)
{
    for (int k = 0; k < call.parts; k++) {
        narrow *to =
            head_row(call.dpart[k], caller_row(call, row.n, place), row.h, call.part_width[k]);
        if (to == nullptr)
            continue;
        if (counted && call.part_node[k] >= 0)
            store_elements(row, to, gradients_of(call, row, call.part_node[k]), call.part_width[k]);
        else
            for (int32_t j = row.lane; j < call.part_width[k]; j += WARP)
                to[j] = to_narrow(0);
    }
}

ECO_DEVICE void sweep_step(const call_t &call, const head_step &row, int32_t place)
{
    const bool counted = is_counted(call, row.n, place);
    if (counted) {
        if (call.direct) {
            restore_before(call, row, place, ECO_GPU_MATRIX_SWEPT);
            clear_gradients(call, row);
        } else {
            restore_step(call, row, place);
            seed_step(call, row, place);
        }
        add_term_gradients(call, row, place);
        if (call.remembers)
            add_dnext(call, row, place);
        sweep(call, row, ECO_GPU_MATRIX_BEFORE);
        if (call.remembers)
            leave_states(call, row, place);
    }
    store_dx(call, row, place, counted);
    __syncwarp();
}

static __global__ void sweep_steps(const __grid_constant__ call_t call)
{
    head_step row = head_step_of(call, 2);
    int32_t place;
    if (!call.remembers) {
        if (take_slot(call, &row, &place))
            sweep_step(call, row, place);
        return;
    }
    if (!take_head(call, &row))
        return;
    const size_t head = head_of(call, row.n, row.h);
    const bool last = call.first + call.steps == call.args.T;
    for (int s = 1; s < call.states; s++) {
        const real *from =
            real_at(last ? final_gradient(call, s) : call.dcarried[s], head, call.width[s]);
        real *to = row.values + call.values + call.carried_at[s];
        for (int32_t j = row.lane; is_small(call, s) && j < call.width[s]; j += WARP)
            to[j] = from != nullptr ? from[j] : 0;
    }
    __syncwarp();
    for (place = call.first + call.steps - 1; place >= call.first; place--)
        sweep_step(call, row, place);
    for (int s = 1; s < call.states; s++) {
        real *to = real_at(call.first == 0 ? initial_gradient(call, s) : call.dcarried[s], head,
                           call.width[s]);
        if (is_small(call, s) && to != nullptr)
            copy_reals(row, to, row.values + call.values + call.carried_at[s], call.width[s]);
    }
}

/* ---- the ends of a run ----------------------------------------------------------------------- */

/* Steps that do not count repeat the last one that does, or are 0: rows of `width` elements. */
template <typename element>
ECO_DEVICE void fill_uncounted(const call_t &call, const head_step &row, void *array, int32_t width,
                               bool by_step)
{
    const element *last = nullptr;
    for (int32_t place = 0; array != nullptr && place < call.args.T; place++) {
        const size_t at = by_step ? mark_of(call, row.n, place) : caller_row(call, row.n, place);
        element *to = (element *)array + head_of(call, at, row.h) * width;
        if (is_counted(call, row.n, place)) {
            last = to;
            continue;
        }
        const element *from = repeats(call, row.n, place) ? last : nullptr;
        for (int32_t j = row.lane; j < width; j += WARP)
            to[j] = from != nullptr ? from[j] : element{0};
    }
}

/* Backward begins: the gradients that steps add to are 0, and y before the run is not read. */
static __global__ void begin_rows(const __grid_constant__ call_t call)
{
    head_step row = head_step_of(call, 0);
    if (!take_head(call, &row))
        return;
    const size_t head = head_of(call, row.n, row.h);
    const bool none = next_counted(call, row.n, 0) == call.args.T;
    const narrow *from = none ? narrow_at(final_gradient(call, 0), head, call.V) : nullptr;
    narrow *dy = narrow_at(initial_gradient(call, 0), head, call.V),
           *dstart = narrow_at(start_gradient(call, 0), head, call.V);
    for (int32_t j = row.lane; j < call.V; j += WARP) {
        if (dy != nullptr)
            dy[j] = from != nullptr ? from[j] : narrow{0};
        if (dstart != nullptr)
            dstart[j] = narrow{0};
    }
    for (int s = 1; s < call.states; s++) {
        real *to = real_at(start_gradient(call, s), head, call.width[s]);
        for (int32_t j = row.lane; to != nullptr && j < call.width[s]; j += WARP)
            to[j] = 0;
    }
}

/* Forward ends: steps that do not count, and y of a row without steps. */
static __global__ void finish_rows(const __grid_constant__ call_t call)
{
    head_step row = head_step_of(call, 0);
    if (!take_head(call, &row))
        return;
    fill_uncounted<narrow>(call, row, call.args.y, call.V, false);
    fill_uncounted<narrow>(call, row, call.args.states[0], call.V, true);
    for (int s = 1; s < call.states; s++)
        fill_uncounted<real>(call, row, call.args.states[s], call.width[s], true);
    const narrow *from = stream_at<narrow>(call, call.args.initial[0], row.n, row.h, call.V);
    narrow *to = stream_at<narrow>(call, call.args.final[0], row.n, row.h, call.V);
    const bool none = next_counted(call, row.n, 0) == call.args.T;
    for (int32_t j = row.lane; none && to != nullptr && j < call.V; j += WARP)
        to[j] = from != nullptr ? from[j] : to_narrow((real)call.start[0]);
}

#endif /* ECO_GPU_MATRIX_VALUES_CUH */
