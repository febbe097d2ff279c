/*
 * The tape: the order of all operations.  Layers, directions and chunks of steps are resolved here,
 * for every backend.  Knows no offsets and no kernels.
 */
#include "common/tape.h"

#include "common/layout.h"

/* ---- courses --------------------------------------------------------------------------------- */

enum { PAUSE = ECO_OP_KINDS, NONE };

static const struct eco_course forward = {4, 3, {ECO_GATHER, ECO_INPUT, ECO_STEP, ECO_KEEP}};

/* Both directions meet each chunk's dx, in opposite order, and the second one adds.  In the middle
 * chunk they would meet at the same level, so the second direction pauses for one level in every
 * chunk. */
static const struct eco_course alone = {7,
                                        5,
                                        {ECO_GATHER, ECO_REPLAY, ECO_D_STEP, ECO_D_INPUT,
                                         ECO_D_SCATTER, ECO_GATHER, ECO_D_WEIGHTS}},
                               first = {8,
                                        6,
                                        {ECO_GATHER, ECO_REPLAY, ECO_D_STEP, ECO_D_INPUT,
                                         ECO_D_SCATTER, PAUSE, ECO_GATHER, ECO_D_WEIGHTS}},
                               second = {8,
                                         6,
                                         {ECO_GATHER, ECO_REPLAY, ECO_D_STEP, PAUSE, ECO_D_INPUT,
                                          ECO_D_SCATTER, ECO_GATHER, ECO_D_WEIGHTS}};

/* Does the input product read rows that were copied (order, padding, dropout, width)? */
static bool reads_gathered(const struct eco_problem *problem,
                           const struct eco_layout_request *request, int layer, bool backward,
                           bool ragged)
{
    const bool copy = eco_request_needs_copy(request, (size_t)eco_problem_input(problem, layer));
    if (layer > 0)
        return (problem->training && problem->dropout > 0) ||
               (eco_problem_writes_y(problem) && copy);
    return (ragged && eco_layout_gathers(problem, request, backward)) ||
           (problem->batch_major && problem->N > 1) || copy;
}

/* Does dx go through a copy? */
static bool writes_gathered(const struct eco_problem *problem,
                            const struct eco_layout_request *request, int layer, bool ragged)
{
    if (eco_layout_copies_dx(problem, request, layer > 0))
        return true;
    if (layer > 0)
        return problem->training && problem->dropout > 0;
    return (ragged && request->cpu.by_length) || (problem->batch_major && problem->N > 1) ||
           eco_request_needs_copy(request, (size_t)eco_problem_input(problem, layer));
}

/* Is op i of a course needed?  dx overwrites the gathered input, so a replay gathers twice. */
static bool does(const struct eco_tape *tape, int later, int kind, int i)
{
    switch (kind) {
    case ECO_GATHER:
        return tape->gathers[later] && (!tape->backward || tape->replays || i > 0);
    case ECO_KEEP:
    case ECO_REPLAY:
        return tape->replays;
    case ECO_D_SCATTER:
        return tape->scatters[later];
    default:
        return true;
    }
}

/* Steps of a wavefront's layers share a launch if they are in one level: while the first
 * layer copies its input, later ones that copy none pause. */
static bool pauses(const struct eco_tape *tape, int later, int kind)
{
    return tape->wavefront && !tape->backward && kind == ECO_GATHER && later && tape->gathers[0];
}

static struct eco_course course_of(const struct eco_tape *tape, int later, int d)
{
    const struct eco_course *all = !tape->backward         ? &forward
                                   : tape->problem->D == 1 ? &alone
                                   : d == 0                ? &first
                                                           : &second;
    struct eco_course course = {0};
    for (int i = 0; i < all->length; i++) {
        const int kind = does(tape, later, all->kind[i], i)  ? all->kind[i]
                         : pauses(tape, later, all->kind[i]) ? PAUSE
                                                             : NONE;
        if (kind == NONE)
            continue;
        course.kind[course.length++] = (uint8_t)kind;
        if (i < all->whole)
            course.whole = course.length;
    }
    return course;
}

void eco_tape_build(struct eco_tape *tape, const struct eco_problem *problem,
                    const struct eco_layout_request *request, bool backward, bool ragged)
{
    *tape = (struct eco_tape){
        .problem = problem,
        .requested_chunk = backward ? request->chunk_backward : request->chunk,
        .backward = backward,
        .replays = problem->training && !request->plain && problem->saving.policy != ECO_SAVE_ALL,
        .wavefront = (request->wavefront || (request->lockstep && !backward)) && problem->D == 1};
    for (int d = 0; d < problem->D; d++)
        tape->reversed[d] = eco_problem_reversed(problem, d);
    for (int later = 0; later < 2 && later < problem->L; later++) {
        tape->gathers[later] = reads_gathered(problem, request, later, backward, ragged);
        tape->scatters[later] = writes_gathered(problem, request, later, ragged);
        /* Not if the input is gathered chunk by chunk, or with two directions in lockstep. */
        const bool groups = request->gpu.weights_chunks > 1 && problem->D == 1;
        tape->group[later] = groups && !tape->gathers[later] ? request->gpu.weights_chunks : 1;
    }
    for (int later = 0; later < 2 && later < problem->L; later++)
        for (int d = 0; d < problem->D; d++)
            tape->course[later][d] = course_of(tape, later, d);
    eco_tape_resize(tape, problem->T);
}

void eco_tape_resize(struct eco_tape *tape, int32_t T)
{
    tape->T = T;
    tape->chunk =
        tape->requested_chunk > 0 && tape->requested_chunk < T ? tape->requested_chunk : T;
    tape->chunks = T > 0 ? (T - 1) / tape->chunk + 1 : 0;
}

int64_t eco_tape_ops(const struct eco_tape *tape)
{
    int64_t ops = 0;
    for (int later = 0; later < 2 && later < tape->problem->L; later++) {
        const int64_t layers = later ? tape->problem->L - 1 : 1;
        const int64_t gathers = tape->gathers[later] * (tape->backward && tape->replays ? 2 : 1);
        const int64_t copies = gathers + tape->replays + (tape->backward && tape->scatters[later]);
        const int32_t group = tape->group[later];
        const int64_t weights = tape->backward ? (tape->chunks + group - 1) / group : 0;
        ops += layers * tape->problem->D * (2 + tape->chunks * (2 + copies) + weights);
    }
    return ops;
}

bool eco_tape_is_behind(const struct eco_tape *tape, const struct eco_op *op)
{
    if (tape->backward)
        return op->kind == ECO_D_STEP && op->layer < tape->problem->L - 1;
    return (op->kind == ECO_GATHER || op->kind == PAUSE || op->kind == ECO_INPUT) && op->layer > 0;
}

/* ---- a walk ---------------------------------------------------------------------------------- */

static const struct eco_course *course_at(const struct eco_tape *tape, const struct eco_op *op)
{
    return &tape->course[op->layer > 0][op->d];
}

/* The lane's chunk, counted from step 0: a shorter run differs in the last only. */
static int32_t chunk_at(const struct eco_tape *tape, const struct eco_lane *lane)
{
    const bool descends = lane->op.reversed != tape->backward;
    return descends ? tape->chunks - 1 - lane->k : lane->k;
}

/* Weight gradients: will the lane come to more chunks of this group? */
static bool is_within(const struct eco_tape *tape, const struct eco_lane *lane)
{
    const int32_t group = tape->group[lane->op.layer > 0], chunk = chunk_at(tape, lane);
    if (group == 1 || lane->k + 1 == tape->chunks)
        return false;
    return (lane->op.reversed ? chunk + 1 : chunk) % group != 0;
}

/* Takes the steps of the whole group.  All groups except the lane's first one add. */
static void take_weights(const struct eco_tape *tape, struct eco_lane *lane)
{
    const int32_t group = tape->group[lane->op.layer > 0], chunk = chunk_at(tape, lane);
    struct eco_op *op = &lane->op;
    if (group > 1) {
        const int32_t before = chunk % group;
        op->t0 -= before * tape->chunk;
        op->t1 = tape->chunks - chunk + before > group ? op->t0 + group * tape->chunk : tape->T;
    }
    op->add = op->reversed ? op->t0 > 0 : op->t1 < tape->T;
}

static void take_op(const struct eco_tape *tape, struct eco_lane *lane)
{
    struct eco_op *op = &lane->op;
    const int32_t k = lane->k, last = tape->chunks - 1;
    op->kind = course_at(tape, op)->kind[lane->position];
    if (!tape->backward)
        return;
    const bool dx = op->kind == ECO_D_INPUT || op->kind == ECO_D_SCATTER;
    op->gathered = (dx ? tape->scatters : tape->gathers)[op->layer > 0];
    op->add = dx && tape->problem->D > 1 && (op->d > 0 ? 2 * k >= last : 2 * k > last);
    if (op->kind == ECO_D_WEIGHTS)
        take_weights(tape, lane);
}

static void take_chunk(const struct eco_tape *tape, struct eco_lane *lane, int32_t k)
{
    struct eco_op *op = &lane->op;
    lane->k = k;
    lane->position = 0;
    if (k >= tape->chunks) {
        op->kind = tape->backward ? ECO_D_END : ECO_END;
        op->add = false;
        op->t0 = op->t1 = 0;
        return;
    }
    const int32_t chunk = chunk_at(tape, lane);
    op->t0 = chunk * tape->chunk;
    op->t1 = chunk == tape->chunks - 1 ? tape->T : op->t0 + tape->chunk;
    take_op(tape, lane);
}

static void advance(const struct eco_tape *tape, struct eco_lane *lane)
{
    const struct eco_course *course = course_at(tape, &lane->op);
    if (lane->k < 0 || lane->k == tape->chunks || ++lane->position == course->length ||
        (course->kind[lane->position] == ECO_D_WEIGHTS && is_within(tape, lane)))
        take_chunk(tape, lane, lane->k + 1);
    else
        take_op(tape, lane);
}

/* With a wavefront, a layer's chunk waits for the same chunk of the previous layer. */
static bool waits(const struct eco_tape *tape, const struct eco_lane *lane)
{
    const struct eco_lane *before = tape->backward ? lane + 1 : lane - 1;
    return eco_tape_is_behind(tape, &lane->op) &&
           before->k + (before->position >= course_at(tape, &before->op)->whole) <= lane->k;
}

static void begin_lanes(struct eco_walk *walk)
{
    const struct eco_tape *tape = walk->tape;
    const int next = tape->backward ? tape->problem->L - 1 - walk->over : walk->over;
    for (int i = 0; i < walk->lanes; i++) {
        const int layer = tape->wavefront ? i : next, d = tape->wavefront ? 0 : i;
        walk->lane[i] = (struct eco_lane){
            .op = {.kind = tape->backward ? ECO_D_BEGIN : ECO_BEGIN,
                   .layer = (uint8_t)layer,
                   .d = (uint8_t)d,
                   .reversed = tape->reversed[d],
                   .gathered = tape->gathers[layer > 0]},
            .k = -1,
            .goes = true,
        };
    }
}

static bool choose_lanes(struct eco_walk *walk)
{
    bool any = false;
    for (int i = 0; i < walk->lanes; i++) {
        struct eco_lane *lane = &walk->lane[i];
        lane->goes = lane->k <= walk->tape->chunks && !waits(walk->tape, lane);
        any = any || lane->goes;
    }
    return any;
}

/* false: the walk is finished.  Without a wavefront directions have one scratch for all layers, so
 * a layer starts when the previous one has ended. */
static bool begin_level(struct eco_walk *walk)
{
    const struct eco_tape *tape = walk->tape;
    if (tape->wavefront) {
        if (!choose_lanes(walk))
            return false;
    } else if (walk->lane[0].k > tape->chunks) {
        if (++walk->over == tape->problem->L)
            return false;
        begin_lanes(walk);
    }
    walk->level++;
    walk->at = 0;
    return true;
}

void eco_walk_begin(struct eco_walk *walk, const struct eco_tape *tape)
{
    walk->tape = tape;
    walk->level = 0;
    walk->lanes = tape->wavefront ? tape->problem->L : tape->problem->D;
    walk->at = -1;
    walk->over = 0;
    begin_lanes(walk);
}

const struct eco_op *eco_walk_next(struct eco_walk *walk)
{
    for (;;) {
        if (walk->at >= 0 && walk->lane[walk->at].goes)
            advance(walk->tape, &walk->lane[walk->at]);
        if (++walk->at == walk->lanes && !begin_level(walk))
            return NULL;
        const struct eco_lane *lane = &walk->lane[walk->at];
        if (lane->goes && lane->op.kind != PAUSE)
            return &lane->op;
    }
}
