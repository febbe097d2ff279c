/*
 * A run of one model: gathers states of streams, fills start values, compacts masked steps, and
 * gives the tape and the layout of this run's size to the plan's algorithm.
 */
#include "common/compose/starts.h"
#include "common/compose/compaction.h"
#include "common/compose/sequence.h"
#include "common/mark.h"

/* ---- start values of states that the caller does not give ------------------------------------ */

bool eco_starts_begin(struct eco_starts *starts, const struct eco_layout *layout,
                      const struct eco_args *args)
{
    const struct eco_recipe *recipe = &layout->problem->cell->recipe;
    char *at = (char *)((uintptr_t)args->workspace + layout->starts);
    starts->fills = 0;
    for (int s = 0; s < recipe->n_states; s++) {
        const size_t bytes = eco_starts_of(layout, s).value;
        const bool begins = args->initial[s] == NULL,
                   at_resets = args->resets != NULL && args->reset_state[s] == NULL;
        if (bytes == 0 || !(begins || at_resets))
            continue;
        if (starts->fills == 0)
            starts->inside = *args;
        starts->fill[starts->fills++] = (struct eco_call){ECO_CALL_FILL,
                                                          {.fill = {.name = "io.workspace",
                                                                    .to = at,
                                                                    .bytes = bytes,
                                                                    .value = recipe->start[s],
                                                                    .type = layout->type}}};
        if (begins)
            starts->inside.initial[s] = at;
        if (at_resets)
            starts->inside.reset_state[s] = at;
        at += bytes;
    }
    return starts->fills > 0;
}

/* ---- one model ------------------------------------------------------------------------------- */

ecornn_status eco_check_bytes(const char *name, size_t given, size_t needed)
{
    return given == 0 || given >= needed
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT, "io.%s is %zu, must be at least %zu for this run",
                          name, given, needed);
}

ecornn_status eco_args_check_bytes(const struct eco_args *args, size_t workspace, size_t reserve)
{
    const ecornn_status status =
        eco_check_bytes("workspace_bytes", args->workspace_bytes, workspace);
    return status == ECORNN_OK && args->reserve != NULL
               ? eco_check_bytes("reserve_bytes", args->reserve_bytes, reserve)
               : status;
}

ecornn_status eco_args_check_y(const struct eco_layout *layout, const struct eco_args *args)
{
    if (args->y == NULL && eco_layout_replays(layout))
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.y is NULL, but backward of this plan reads it: "
                                             "not all is saved as it is");
    if (args->y == NULL && layout->training && eco_layout_is_lean(layout))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.y is NULL, but with a reserve this device needs it: backward reads it");
    if (args->y == NULL && args->states[0] != NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.y is NULL, but io.states[0] needs it");
    return ECORNN_OK;
}

const struct eco_layout *eco_args_layout(const struct ecornn_plan *plan,
                                         const struct eco_args *args)
{
    if (args->reserve == NULL)
        return &plan->layout[ECO_LAYOUT_INFER];
    const struct eco_layout *train = &plan->layout[ECO_LAYOUT_TRAIN];
    return args->backward && eco_layout_replays(train) ? &plan->layout[ECO_LAYOUT_BACK] : train;
}

static void run_tape(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                     const struct eco_layout *layout, const struct eco_args *args)
{
    const struct eco_tape *tape = &plan->tape[args->backward][args->lengths != NULL];
    struct eco_tape shorter;
    const int32_t chunk = args->backward ? layout->chunk_backward : layout->chunk;
    if (args->T != tape->T || chunk != tape->chunk) {
        shorter = *tape;
        shorter.requested_chunk = chunk;
        eco_tape_resize(&shorter, args->T);
        tape = &shorter;
    }
    if (sequence->status == ECORNN_OK)
        sequence->status = plan->algo->run(plan, tape, layout, args);
}

static void run_compacted(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                          const struct eco_layout *layout, const struct eco_args *args)
{
    struct eco_compaction compaction;
    eco_compaction_begin(&compaction, layout, args);
    eco_sequence_calls(sequence, compaction.in, compaction.ins);
    run_tape(sequence, plan, layout, &compaction.inside);
    eco_sequence_calls(sequence, compaction.out, compaction.outs);
}

/* Runs from the cell's start values where the caller gives no initial state. */
static void run_started(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                        const struct eco_layout *layout, const struct eco_args *args)
{
    struct eco_starts starts;
    if (eco_starts_begin(&starts, layout, args)) {
        eco_sequence_calls(sequence, starts.fill, starts.fills);
        args = &starts.inside;
    }
    (eco_needs_compaction(layout, args) ? run_compacted : run_tape)(sequence, plan, layout, args);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The dense states of a run with io.rows, which serve as its initial and final ones. */
struct streams {
    struct eco_args inside; /* the algorithm's: without rows */
    struct eco_call in, out;
};

static void add_stream(struct eco_call *call, void *to, const void *from, int32_t width)
{
    struct eco_stream_rows *const rows = &call->streams;
    if (to != NULL)
        rows->state[rows->states++] = (struct eco_stream_state){to, from, width};
}

static void begin_streams(struct streams *streams, const struct eco_layout *layout,
                          const struct eco_args *args)
{
    const struct eco_problem *problem = layout->problem;
    char *at = (char *)args->workspace + layout->streams;
    streams->inside = *args;
    streams->inside.rows = NULL, streams->inside.streams = 0;
    streams->in = (struct eco_call){ECO_CALL_STREAMS,
                                    {.streams = {.rows = args->rows,
                                                 .N = args->N,
                                                 .streams = args->streams,
                                                 .lanes = problem->L * problem->D,
                                                 .type = layout->type}}};
    streams->out = streams->in;
    streams->out.streams.scatter = true;
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        const int32_t width = eco_problem_width(problem, s);
        add_stream(&streams->in, at, args->initial[s], width);
        add_stream(&streams->out, args->final[s], at, width);
        streams->inside.initial[s] = at;
        streams->inside.final[s] = args->final[s] != NULL ? at : NULL;
        at += eco_states_of(layout, s).value;
    }
}

static void run_streams(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                        const struct eco_layout *layout, const struct eco_args *args)
{
    struct streams streams;
    begin_streams(&streams, layout, args);
    eco_sequence_calls(sequence, &streams.in, 1);
    run_started(sequence, plan, layout, &streams.inside);
    eco_sequence_calls(sequence, &streams.out, streams.out.streams.states > 0);
}

static ecornn_status check(const struct ecornn_plan *plan, const struct eco_layout *layout,
                           const struct eco_args *args, bool marks)
{
    ecornn_status status =
        eco_args_check_bytes(args, layout->workspace_bytes, layout->reserve_bytes);
    if (status == ECORNN_OK)
        status = eco_args_check_y(layout, args);
    return status == ECORNN_OK && marks && args->backward ? eco_mark_check(plan, args) : status;
}

void eco_compose_one(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                     const struct eco_args *args)
{
    if (args->T == 0 || args->N == 0) {
        eco_compose_empty(sequence, plan, args);
        return;
    }
    const bool marks = args->reserve != NULL && !plan->device->caps.own_memory;
    const struct eco_layout *layout = eco_args_layout(plan, args);
    struct eco_layout smaller;
    if (args->T != layout->T || args->N != layout->N) {
        eco_layout_resize(&smaller, layout, args->T, args->N);
        layout = &smaller;
    }
    sequence->status = check(plan, layout, args, marks);
    (args->rows != NULL && layout->request.gathers ? run_streams : run_started)(sequence, plan,
                                                                                layout, args);
    if (sequence->status == ECORNN_OK && marks && !args->backward)
        eco_mark_write(plan, args);
}
