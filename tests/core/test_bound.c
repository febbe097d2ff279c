/*
 * Tests bound ops: an op reads where the op before it wrote, every view is inside its block, and a
 * step reads the state that the step before it wrote. There is no backend; addresses are only
 * compared.
 */
#include <check.h>
#include <stdint.h>

#include "common/bound.h"
#include "common/run_arrays.h"
#include "common/util.h"
#include "tests/kit/problems.h"
#include "tests/kit/suite.h"

/* Blocks of a run, far from each other; nothing is read or written. */
enum block { WORKSPACE, RESERVE, X, Y, DX, DY, STATES, BLOCKS };
static char *begin_of(int block)
{
    return (char *)((uintptr_t)(block + 1) << 44);
}

struct run {
    const struct eco_layout *layout;
    const struct eco_problem *problem;
    struct eco_args args;
    size_t bytes[BLOCKS];
    const char *text;
};

static size_t rows_bytes(const struct run *run, size_t width)
{
    return (size_t)run->args.T * (size_t)run->args.N * width * eco_type_bytes(run->layout->type);
}

static void run_open(struct run *run, const struct eco_layout *layout, bool backward)
{
    const struct eco_problem *problem = layout->problem;
    const size_t output = (size_t)problem->D * (size_t)problem->P;
    run->layout = layout;
    run->problem = problem;
    run->args = (struct eco_args){.T = layout->T,
                                  .N = layout->N,
                                  .x = begin_of(X),
                                  .y = begin_of(Y),
                                  .workspace = begin_of(WORKSPACE),
                                  .reserve = layout->training ? begin_of(RESERVE) : NULL,
                                  .backward = backward};
    if (backward) {
        run->args.dx = begin_of(DX);
        run->args.dy = begin_of(DY);
    }
    run->bytes[WORKSPACE] = layout->workspace_bytes;
    run->bytes[RESERVE] = layout->reserve_bytes;
    run->bytes[X] = run->bytes[DX] = rows_bytes(run, (size_t)problem->I);
    run->bytes[Y] = run->bytes[DY] = rows_bytes(run, output);
    run->bytes[STATES] = SIZE_MAX >> 20;
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < problem->cell->recipe.n_states; s++)
            if (eco_is_state(&eco_run_array[a]) && eco_run_array[a].flag == 0)
                eco_run_array_set(&run->args, &eco_run_array[a], s, begin_of(STATES));
}

/* Are the `width` elements of all rows of step t inside the block? */
static void check_inside(const struct run *run, const struct eco_view *view, int32_t t,
                         size_t width)
{
    const uintptr_t at = (uintptr_t)eco_view_at(view, t);
    const size_t block = (at >> 44) - 1, before = at - (uintptr_t)begin_of((int)block);
    const size_t last = (size_t)(run->args.N - 1) * view->row + width;
    ck_assert_msg(at != 0 && block < BLOCKS, "%s: step %d lies nowhere", run->text, t);
    ck_assert_msg(before + last * eco_type_bytes(view->type) <= run->bytes[block],
                  "%s: step %d ends %zu bytes into block %zu of %zu", run->text, t,
                  before + last * eco_type_bytes(view->type), block, run->bytes[block]);
}

static void check_same(const struct run *run, const char *what, const struct eco_view *a, int32_t t,
                       const struct eco_view *b, int32_t u)
{
    ck_assert_msg(eco_view_at(a, t) == eco_view_at(b, u) && a->row == b->row && a->type == b->type,
                  "%s: %s of steps %d and %d", run->text, what, t, u);
}

static int32_t before(const struct eco_op *op, int32_t t)
{
    return op->reversed ? t + 1 : t - 1;
}

/* Each step reads the states that the one before wrote. */
static void check_chain(const struct run *run, const struct eco_bound *bound)
{
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const size_t width = (size_t)eco_problem_width(run->problem, s);
        for (int32_t t = bound->op->t0; t < bound->op->t1; t++) {
            check_inside(run, eco_bound_before(bound, s, t), t, width);
            check_inside(run, &bound->next[s], t, width);
            if (t != bound->first)
                check_same(run, "a state", eco_bound_before(bound, s, t), t, &bound->next[s],
                           before(bound->op, t));
        }
    }
}

static size_t accs(const struct run *run, bool backward)
{
    const struct eco_lowered *lowered = &run->problem->cell->lowered;
    const bool extra = backward && !run->layout->request.cpu.sums_vectors;
    return (size_t)(lowered->n_accs + (extra ? lowered->n_extra : 0)) * (size_t)run->problem->H;
}

static void check_step(const struct run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const bool backward = run->args.backward;
    const size_t P = (size_t)run->problem->P, H = (size_t)run->problem->H;
    const struct eco_view *output = backward ? &bound->dy : &bound->y;
    check_chain(run, bound);
    for (int32_t t = op->t0; t < op->t1; t++) {
        if (eco_layout_acc_blocks(run->layout).block == 0)
            check_inside(run, &bound->acc, t, accs(run, backward));
        if (eco_layout_saves(run->layout))
            check_inside(run, &bound->save, t, (size_t)run->problem->cell->lowered.n_saves * H);
        if (output->first != NULL)
            check_inside(run, output, t, P);
        if (!backward)
            check_inside(run, &bound->input, t, (size_t)eco_problem_input(run->problem, op->layer));
    }
}

/* A layer reads what the layer below wrote: y if the run keeps it, else planes of states. */
static void check_below(const struct run *run, const struct eco_bound *bound)
{
    struct eco_op op = *bound->op;
    struct eco_bound below;
    if (op.layer == 0 || op.gathered || eco_layout_replays(run->layout))
        return;
    op.layer--;
    op.d = 0;
    op.kind = ECO_STEP;
    op.reversed = eco_problem_reversed(run->problem, 0);
    eco_bind(&below, run->layout, &run->args, &op);
    check_same(run, "the layer below", &bound->input, op.t0,
               below.y.first != NULL ? &below.y : &below.next[0], op.t0);
}

/* The states that forward keeps are in planes that steps wrote. */
static void check_checkpoint(const struct run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    for (int s = 1; s < run->problem->cell->recipe.n_states; s++)
        for (int32_t t = op->t0; t < op->t1 && run->args.reserve != NULL; t++) {
            check_inside(run, &bound->next[s], t, (size_t)run->problem->H);
            if (eco_layout_is_checkpoint(run->layout, op->d, t))
                check_inside(run, &bound->checkpoint[s],
                             (int32_t)eco_layout_checkpoint_index(run->layout, op->d, t),
                             (size_t)run->problem->H);
        }
}

/* Steps of backward read what the replay of their chunk wrote. */
static void check_replay(const struct run *run, const struct eco_bound *bound)
{
    struct eco_op op = *bound->op;
    struct eco_bound back;
    const int32_t end = op.t1 - 1;
    op.kind = ECO_D_STEP;
    eco_bind(&back, run->layout, &run->args, &op);
    check_chain(run, bound);
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++)
        check_same(run, "a replayed state", &bound->next[s], end, &back.next[s], end);
    check_same(run, "a replayed value", &bound->save, end, &back.save, end);
    if (run->problem->projected)
        check_same(run, "u", &bound->u, end, &back.u, end);
    for (int32_t t = op.t0; t < op.t1; t++) {
        check_inside(run, &bound->y, t, (size_t)run->problem->P);
        check_inside(run, &bound->input, t, (size_t)eco_problem_input(run->problem, op.layer));
    }
    const int32_t before = op.reversed ? op.t1 : op.t0 - 1; /* the step before the chunk */
    for (int s = 1; s < run->problem->cell->recipe.n_states; s++)
        if (before >= 0 && before < run->args.T)
            ck_assert(eco_layout_is_checkpoint(run->layout, op.d, before));
}

static void check_op(const struct run *run, const struct eco_op *op)
{
    struct eco_bound bound;
    eco_bind(&bound, run->layout, &run->args, op);
    if (op->kind == ECO_STEP || op->kind == ECO_D_STEP)
        check_step(run, &bound);
    if (op->kind == ECO_KEEP)
        check_checkpoint(run, &bound);
    if (op->kind == ECO_REPLAY)
        check_replay(run, &bound);
    if (op->kind == ECO_INPUT)
        check_below(run, &bound);
    if (op->kind == ECO_D_WEIGHTS)
        check_chain(run, &bound);
    for (int32_t t = op->t0; t < op->t1 && op->kind == ECO_D_INPUT; t++)
        check_inside(run, &bound.dx, t, (size_t)eco_problem_input(run->problem, op->layer));
}

static void check_tape(const struct eco_layout *layout, const char *text, bool backward,
                       bool ragged)
{
    struct run run = {.text = text};
    struct eco_tape tape;
    struct eco_walk walk;
    const struct eco_op *op;
    int64_t n = 0;
    run_open(&run, layout, backward);
    eco_tape_build(&tape, layout->problem, &layout->request, backward, ragged);
    tape.requested_chunk =
        backward ? layout->chunk_backward : layout->chunk; /* as in compose/run_one.c */
    eco_tape_resize(&tape, layout->T);
    eco_walk_begin(&walk, &tape);
    for (; (op = eco_walk_next(&walk)) != NULL; n++)
        check_op(&run, op);
    ck_assert_int_eq(n, eco_tape_ops(&tape));
}

/* A layout request as a plan would have it: chunks begin where states are kept. */
static struct eco_layout_request request_of(const struct eco_problem *problem, int k)
{
    struct eco_layout_request request = requests[k];
    if (problem->saving.policy == ECO_SAVE_EVERY)
        request.chunk_backward = problem->saving.every;
    return request;
}

START_TEST(ops_meet)
{
    static struct eco_layout full, smaller;
    struct eco_problem problem;
    problem_of(&problem, problems[_i / REQUESTS]);
    const struct eco_layout_request request = request_of(&problem, _i % REQUESTS);
    const bool replays = problem.saving.policy != ECO_SAVE_ALL;
    if (request.plain ||
        (replays && request.gpu.weights_chunks > 1)) /* a replay shares no weight gradients */
        return;
    for (int kind = 0; kind <= (problem.training ? (int)ECO_LAYOUT_BACK : 0); kind++) {
        eco_layout_build(&full, &problem, &request, problem.T, problem.N, kind);
        eco_layout_resize(&smaller, &full, (problem.T + 1) / 2, (problem.N + 1) / 2);
        for (int i = 0; i < 8; i++) {
            const bool backward = i & 1, ragged = i & 2;
            if (backward == (kind == ECO_LAYOUT_BACK) ||
                (kind == ECO_LAYOUT_TRAIN && backward && !replays))
                check_tape(i & 4 ? &smaller : &full, problems[_i / REQUESTS], backward, ragged);
        }
    }
}
END_TEST

TEST_MAIN("bound", {ops_meet, PROBLEMS *REQUESTS})
