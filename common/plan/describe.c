/*
 * Prints a plan for people: problem, choice and reason, tapes, sizes.
 */
#include <inttypes.h>
#include <limits.h>

#include "common/util.h"
#include "common/strategy.h"

static const char *const kind_name[ECO_OP_KINDS] = {
    "begin",  "gather", "input",   "step",      "keep",      "end",  "d-begin",
    "replay", "d-step", "d-input", "d-scatter", "d-weights", "d-end"};

static void describe_tape(struct eco_text *text, const struct ecornn_plan *plan, bool backward)
{
    const struct eco_tape *tape = &plan->tape[backward][0];
    const int64_t ops = eco_tape_ops(tape);
    struct eco_walk walk;
    const struct eco_op *op;
    int64_t shown = 0;
    eco_text_add(text, "%s: %" PRId64 " operations, chunks of %d steps\n",
                 backward ? "backward" : "forward", ops, tape->chunk);
    eco_walk_begin(&walk, tape);
    for (; shown < 8 && (op = eco_walk_next(&walk)) != NULL; shown++) {
        eco_text_add(text, "  %3" PRId64 ": %-9s layer %d %s", walk.level, kind_name[op->kind],
                     op->layer, op->reversed ? "rev" : "fwd");
        if (op->t1 > 0)
            eco_text_add(text, " steps [%d,%d)", op->t0, op->t1);
        eco_text_add(text, "\n");
    }
    if (shown < ops)
        eco_text_add(text, "  ... and %" PRId64 " more\n", ops - shown);
}

static void describe_cell(struct eco_text *text, const struct eco_problem *problem)
{
    const struct ecornn_cell *cell = problem->cell;
    const struct eco_lowered *lowered = &cell->lowered;
    if (cell->recipe.matrix)
        eco_text_add(text, "cell %s: a state of %d by %d numbers in each of %d heads, from text\n",
                     cell->recipe.name, problem->key, eco_problem_head(problem), problem->heads);
    else
        eco_text_add(
            text,
            "cell %s: %d accumulators, %d saved values, %d forward and %d backward stages, %s\n",
            cell->recipe.name, lowered->n_accs, lowered->n_saves, lowered->n_forward,
            lowered->n_backward, cell->builtin >= 0 ? "compiled in" : "from text");
}

static void describe_reason(struct eco_text *text, const struct ecornn_plan *plan)
{
    if (plan->note[0] != '\0')
        eco_text_add(text, "wisdom: %s\n", plan->note);
    eco_text_add(text, "algorithm %s, %s%s of\n%s", plan->algo->name,
                 plan->by_wisdom ? "by wisdom" : "the fastest by estimate",
                 plan->problem.memory_limit > 0 ? " within the limit" : "", plan->reason);
}

void eco_plan_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    eco_text_add(text, "algorithm=%s", plan->algo->name);
    if (plan->device->backend->choices != NULL)
        plan->device->backend->choices(plan, text);
}

static void describe_choices(struct eco_text *text, const struct ecornn_plan *plan)
{
    eco_text_add(text, "ECORNN_FORCE=");
    eco_plan_choices(plan, text);
    eco_text_add(text, "\n");
}

/* Half of a weight's step, w / 127, times the numbers, plus half of a number's, r / 255, times the
 * weights: python/ecornn/accuracy.py does it with real weights and data. */
static void describe_bytes(struct eco_text *text, const struct eco_problem *problem)
{
    const double weight = 1 / 254., number = problem->int8 ? 1 / 510. : 0;
    if (problem->weight_type == ECORNN_S8)
        eco_text_add(
            text,
            "weights of 8 bits: W x + R h of layer 0 within %.3g w r, of weights up to w and "
            "rows whose range, 0 included, is r, apart from rounding of sums; python -m ecornn "
            "check measures it on your data\n",
            ((double)eco_problem_rest(problem, 0) + problem->P / problem->heads) *
                (weight + number + weight * number));
}

int eco_plan_describe(const struct ecornn_plan *plan, char *data, size_t size)
{
    struct eco_text text = {data, size, 0};
    const struct eco_problem *problem = &plan->problem;
    eco_text_add(&text, "%s on %s (%s, %s, %d threads)\n", problem->text, plan->device->info.name,
                 plan->device->info.backend, plan->device->info.variant,
                 plan->device->info.threads);
    describe_cell(&text, problem);
    if (plan->device->backend->describe != NULL)
        plan->device->backend->describe(plan, &text);
    describe_reason(&text, plan);
    eco_strategies_describe(&text, plan);
    describe_choices(&text, plan);
    describe_bytes(&text, problem);
    if (!problem->cell->recipe.matrix)
        describe_tape(&text, plan, false);
    if (problem->training && !problem->cell->recipe.matrix)
        describe_tape(&text, plan, true);
    eco_text_add(&text, "bytes: weights %zu, workspace %zu, reserve %zu; parameters %zu\n",
                 plan->sizes.weight_bytes, plan->sizes.workspace_bytes, plan->sizes.reserve_bytes,
                 plan->sizes.param_elements);
    return text.length > INT_MAX ? INT_MAX : (int)text.length;
}
