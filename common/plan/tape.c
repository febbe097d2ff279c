/*
 * The tape: which work happens in which order.  Layers, directions and chunks of steps are resolved
 * here, once, for every backend.  Knows no offsets and no kernels.
 */
#include "common/tape.h"

#include <stdlib.h>

#include "common/layout.h"
#include "common/util.h"

/* A tape under construction; `level` tracks what each part must wait for. */
struct builder {
    struct eco_op *op; /* NULL: only count */
    int n;
    const struct eco_problem *problem;
    const struct eco_wishes *wishes;
    bool ragged, backward;
    int32_t chunk; /* steps */
    int chunks;
    int32_t *done; /* [layers+1, chunks]: level after which a layer's chunk of output is whole */
    int32_t chain; /* level of the last op of the (layer, direction) at hand */
};

static void put(struct builder *b, struct eco_op op, int32_t wait)
{
    op.level = (b->chain > wait ? b->chain : wait) + 1;
    op.after = wait;
    b->chain = op.level;
    if (b->op != NULL)
        b->op[b->n] = op;
    b->n++;
}

/* Does a product want a copy, whatever is in the layer's input? */
static bool wants_copy(const struct builder *b, int layer)
{
    return eco_wishes_copy(b->wishes, (size_t)eco_problem_input(b->problem, layer));
}

/* Does the input product read rows that were copied (order, padding, dropout, width)? */
static bool reads_gathered(const struct builder *b, int layer)
{
    if (layer > 0)
        return b->problem->training && (b->problem->dropout > 0 || wants_copy(b, layer));
    return (b->ragged && eco_layout_gathers(b->problem, b->wishes, b->backward)) ||
           (b->problem->order == ECORNN_BATCH_MAJOR && b->problem->N > 1) || wants_copy(b, layer);
}

/* Does dx take the way through a copy? */
static bool writes_gathered(const struct builder *b, int layer)
{
    if (layer > 0)
        return b->problem->training && b->problem->dropout > 0;
    return (b->ragged && b->wishes->by_length) ||
           (b->problem->order == ECORNN_BATCH_MAJOR && b->problem->N > 1) || wants_copy(b, layer);
}

/* Steps of the k-th chunk in the order of processing; chunks are counted from step 0 so that those
 * of a shorter run are the same but for the last. */
static void chunk_steps(const struct builder *b, bool descending, int k, struct eco_op *op)
{
    const int from_zero = descending ? b->chunks - 1 - k : k;
    op->t0 = from_zero * b->chunk;
    op->t1 = op->t0 + b->chunk < b->problem->T ? op->t0 + b->chunk : b->problem->T;
}

/* Levels: with a wavefront a layer's chunk waits for the same chunk of the layer before it, else
 * for all of that layer.  Both directions of a layer may run at once. */
static int32_t ready(const struct builder *b, int from, int k)
{
    if (from < 0 || from >= b->problem->L)
        return -1;
    if (b->wishes->wavefront && b->problem->D == 1)
        return b->done[from * b->chunks + k];
    int32_t level = -1;
    for (int i = 0; i < b->chunks; i++)
        if (b->done[from * b->chunks + i] > level)
            level = b->done[from * b->chunks + i];
    return level;
}

static void finish(struct builder *b, int layer, int k)
{
    int32_t *done = &b->done[layer * b->chunks + k];
    if (b->chain > *done)
        *done = b->chain;
}

static void put_forward(struct builder *b, int layer, int d, int32_t before)
{
    const bool reversed = eco_problem_reversed(b->problem, d);
    struct eco_op op = {.layer = (uint8_t)layer,
                        .d = (uint8_t)d,
                        .reversed = reversed,
                        .gathered = reads_gathered(b, layer)};
    b->chain = before;
    op.kind = ECO_BEGIN;
    put(b, op, -1);
    for (int k = 0; k < b->chunks; k++) {
        chunk_steps(b, reversed, k, &op);
        if (op.gathered) {
            op.kind = ECO_GATHER;
            put(b, op, ready(b, layer - 1, k));
        }
        op.kind = ECO_INPUT;
        put(b, op, ready(b, layer - 1, k));
        op.kind = ECO_STEP;
        put(b, op, -1);
        finish(b, layer, k);
    }
    op.t0 = op.t1 = 0;
    op.kind = ECO_END;
    put(b, op, -1);
}

/* Weight gradients: once the last chunk of a group is there, unless the input is gathered chunk by
 * chunk, or two directions keep in step. */
static void put_weights(struct builder *b, struct eco_op op, int k)
{
    const int32_t group = b->wishes->weights_chunks > 1 ? b->wishes->weights_chunks : 1;
    const int from_zero = op.t0 / b->chunk;
    const bool descending = !op.reversed;
    op.gathered = reads_gathered(b, op.layer);
    if (op.gathered) {
        op.kind = ECO_GATHER;
        put(b, op, -1);
    } else if (group > 1 && b->problem->D == 1) {
        if (k + 1 < b->chunks && (descending ? from_zero : from_zero + 1) % group != 0)
            return;
        const int first = from_zero / group * group;
        op.t0 = first * b->chunk;
        if (descending)
            op.t1 = first + group < b->chunks ? (first + group) * b->chunk : b->problem->T;
    }
    op.kind = ECO_D_WEIGHTS;
    put(b, op, -1);
}

/* Both directions meet every chunk's dx, in opposite order: who comes second adds.  In the middle
 * one both would come at once: the second direction is a level behind in all of them. */
static void put_dx(struct builder *b, struct eco_op op, int k)
{
    const bool both = b->problem->D > 1;
    if (both && op.d > 0)
        b->chain++;
    op.kind = ECO_D_INPUT;
    op.add = both && (op.d > 0 ? 2 * k >= b->chunks - 1 : 2 * k > b->chunks - 1);
    op.gathered = writes_gathered(b, op.layer);
    put(b, op, -1);
    if (op.gathered) {
        op.kind = ECO_D_SCATTER;
        put(b, op, -1);
    }
    if (both && op.d == 0)
        b->chain++;
    finish(b, op.layer, k);
}

static void put_backward(struct builder *b, int layer, int d, int32_t before)
{
    const bool reversed = eco_problem_reversed(b->problem, d);
    struct eco_op op = {.layer = (uint8_t)layer, .d = (uint8_t)d, .reversed = reversed};
    b->chain = before;
    op.kind = ECO_D_BEGIN;
    put(b, op, -1);
    for (int k = 0; k < b->chunks; k++) {
        chunk_steps(b, !reversed, k, &op);
        op.kind = ECO_D_STEP;
        put(b, op, ready(b, layer + 1, k));
        put_dx(b, op, k);
        put_weights(b, op, k);
    }
    op.t0 = op.t1 = 0;
    op.kind = ECO_D_END;
    put(b, op, -1);
}

/* Without a wavefront, scratch belongs to a direction: a layer starts after the one before it. */
static void put_all(struct builder *b)
{
    const struct eco_problem *problem = b->problem;
    int32_t before = -1;
    for (int i = 0; i < problem->L; i++) {
        int32_t after = before;
        for (int d = 0; d < problem->D; d++) {
            if (b->backward)
                put_backward(b, problem->L - 1 - i, d, before);
            else
                put_forward(b, i, d, before);
            after = b->chain > after ? b->chain : after;
        }
        before = b->wishes->wavefront ? -1 : after;
    }
}

/* A (layer, direction) has one op of a level at most. */
static int by_level(const void *a, const void *b)
{
    const struct eco_op *p = a, *q = b;
    if (p->level != q->level)
        return p->level < q->level ? -1 : 1;
    return p->layer != q->layer ? p->layer - q->layer : p->d - q->d;
}

ecornn_status eco_tape_build(struct eco_tape *tape, const struct eco_problem *problem,
                             const struct eco_wishes *wishes, bool backward, bool ragged)
{
    const int32_t wish = backward ? wishes->chunk_backward : wishes->chunk;
    struct builder b = {
        .problem = problem, .wishes = wishes, .ragged = ragged, .backward = backward};
    b.chunk = wish > 0 && wish < problem->T ? wish : problem->T;
    b.chunks = (problem->T + b.chunk - 1) / b.chunk;
    const size_t cells = (size_t)problem->L * (size_t)b.chunks;
    b.done = eco_alloc(cells * sizeof *b.done);
    if (b.done == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for a tape of %zu chunks", cells);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < cells; i++)
            b.done[i] = -1;
        b.n = 0;
        put_all(&b);
        if (pass == 0 && (b.op = eco_alloc((size_t)b.n * sizeof *b.op)) == NULL) {
            eco_free(b.done);
            return eco_fail(ECORNN_NO_MEMORY, "no memory for a tape of %d operations", b.n);
        }
    }
    eco_free(b.done);
    qsort(b.op, (size_t)b.n, sizeof *b.op, by_level);
    *tape = (struct eco_tape){b.op, b.n, 0};
    for (int i = 0; i < b.n; i++)
        if (b.op[i].level >= tape->levels)
            tape->levels = b.op[i].level + 1;
    return ECORNN_OK;
}

void eco_tape_free(struct eco_tape *tape)
{
    eco_free(tape->op);
    tape->op = NULL;
}

bool eco_op_clip(const struct eco_op *op, int32_t T, struct eco_op *clipped)
{
    *clipped = *op;
    if (op->kind == ECO_BEGIN || op->kind == ECO_END || op->kind == ECO_D_BEGIN ||
        op->kind == ECO_D_END)
        return true;
    if (op->t0 >= T)
        return false;
    if (clipped->t1 > T)
        clipped->t1 = T;
    /* The first chunk that the backward pass meets: the run's last steps, or its first ones. */
    if (op->kind == ECO_D_WEIGHTS)
        clipped->add = op->reversed ? clipped->t0 > 0 : clipped->t1 < T;
    return true;
}
