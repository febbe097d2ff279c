/*
 * Weights of other systems: one walk over a foreign block, in the order that foreign.h describes,
 * measures, imports or exports it.
 */
#include "ecornn.h"

#include "common/caller.h"
#include "common/plan.h"
#include "common/type.h"
#include "common/util.h"
#include "lib/check.h"
#include "lib/foreign.h"

#include <string.h>

enum action { MEASURE, IMPORT, EXPORT };
struct walk {
    const struct eco_problem *problem;
    const struct eco_foreign_system *system;
    const struct eco_foreign_cell *cell;
    enum action action;
    ecornn_type type; /* type of the foreign block */
    const void *from;
    void *to;
    size_t at; /* elements of the foreign block walked so far */
};

/* One gate's block inside a foreign tensor, and our parameter for it. */
struct block {
    size_t at, row, column; /* in the foreign block: first element and strides */
    int32_t rows, cols;
    const ecornn_param *param; /* NULL: we have no such parameter */
    bool negated;
    size_t first; /* for a second bias that is added: elements back to the first one; else 0 */
};

static void move_element(const struct walk *walk, const struct block *block, size_t foreign,
                         size_t inside)
{
    const ecornn_type type = walk->problem->param_type;
    const bool is_own = block->param && !(walk->action == EXPORT && block->first > 0);
    const size_t own = block->param ? block->param->offset + inside : 0;
    const double sign = block->negated ? -1 : 1;
    if (walk->action == EXPORT) {
        eco_type_set(walk->to, foreign, walk->type,
                     is_own ? sign * eco_type_get(walk->from, own, type) : 0);
    } else if (is_own) {
        double value = eco_type_get(walk->from, foreign, walk->type);
        if (block->first > 0)
            value += eco_type_get(walk->from, foreign - block->first, walk->type);
        eco_type_set(walk->to, own, type, sign * value);
    }
}

static void move_block(const struct walk *walk, const struct block *block)
{
    if (walk->action == MEASURE)
        return;
    size_t inside = 0;
    for (int32_t i = 0; i < block->rows; i++)
        for (int32_t j = 0; j < block->cols; j++)
            move_element(walk, block,
                         block->at + (size_t)i * block->row + (size_t)j * block->column, inside++);
}

/* Parameter k of a pair.  The projection follows the cell's parameters. */
static void get_param(const struct eco_problem *problem, int pair, int k, ecornn_param *param)
{
    const int per_pair = problem->cell->recipe.n_params + (problem->projected ? 1 : 0);
    eco_problem_param(problem, pair * per_pair + k, param);
}

static void walk_projection(struct walk *walk, int pair)
{
    if (!walk->problem->projected)
        return;
    ecornn_param param;
    get_param(walk->problem, pair, walk->problem->cell->recipe.n_params, &param);
    const struct block block = {.at = walk->at,
                                .row = (size_t)param.cols,
                                .column = 1,
                                .rows = param.rows,
                                .cols = param.cols,
                                .param = &param};
    move_block(walk, &block);
    walk->at += (size_t)param.rows * (size_t)param.cols;
}

/* All gates of a part: one tensor, or half of a tensor that holds two biases. */
static void walk_part(struct walk *walk, int pair, enum eco_foreign_part part)
{
    const struct eco_problem *problem = walk->problem;
    const char *gates = walk->cell->gates[part];
    if (!gates)
        return;
    const size_t G = strlen(gates);
    const int32_t width[ECO_FOREIGN_PARTS] = {eco_problem_rest(problem, pair / problem->D),
                                              problem->P, 1, 1, 1};
    const int32_t cols = width[part];
    const bool transposed =
        walk->system->transposed && (part == ECO_FOREIGN_INPUT || part == ECO_FOREIGN_RECURRENT);
    const size_t H = (size_t)problem->H;
    for (size_t k = 0; k < G; k++) {
        ecornn_param param;
        bool negated = false;
        const bool is_own = gates[k] != '-';
        if (is_own)
            get_param(problem, pair,
                      eco_foreign_param(&problem->cell->recipe, part, gates[k], &negated), &param);
        const bool second = part == ECO_FOREIGN_SECOND_BIAS && is_own &&
                            gates[k] == walk->cell->gates[ECO_FOREIGN_BIAS][k];
        const struct block block = {.at = walk->at + k * H * (transposed ? 1 : (size_t)cols),
                                    .row = transposed ? 1 : (size_t)cols,
                                    .column = transposed ? G * H : 1,
                                    .rows = problem->H,
                                    .cols = cols,
                                    .param = is_own ? &param : NULL,
                                    .negated = negated,
                                    .first = second ? G * H : 0};
        move_block(walk, &block);
    }
    walk->at += G * H * (size_t)cols;
}

static void walk_run(struct walk *walk, const char *run, int pair)
{
    static const char letter[ECO_FOREIGN_PARTS + 1] = "WRbdp"; /* by part */
    for (; *run; run++)
        if (*run == 'P')
            walk_projection(walk, pair);
        else
            walk_part(walk, pair, (enum eco_foreign_part)(strchr(letter, *run) - letter));
}

static void walk_block(struct walk *walk)
{
    const int L = walk->problem->L, D = walk->problem->D;
    const int pairs[] = {
        [ECO_FOREIGN_PAIR] = 1, [ECO_FOREIGN_LAYER] = D, [ECO_FOREIGN_NET] = L * D};
    const int scope = pairs[walk->system->scope];
    for (int first = 0; first < L * D; first += scope)
        for (const char *const *run = walk->system->run; *run; run++)
            for (int pair = first; pair < first + scope; pair++)
                walk_run(walk, *run, pair);
}

static ecornn_status begin(struct walk *walk, const struct ecornn_plan *plan, const char *system)
{
    const ecornn_status status = eco_check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    if (plan->kind != ECO_PLAN_LAYERS)
        return eco_fail(ECORNN_UNSUPPORTED, "only the weights of layers are exchanged: take the "
                                            "layers of a net by ecornn_plan_layer");
    if (!system)
        return eco_fail(ECORNN_BAD_ARGUMENT, "system is NULL");
    *walk = (struct walk){.problem = &plan->problem, .system = eco_foreign_find(system)};
    if (!walk->system)
        return ECORNN_BAD_ARGUMENT;
    if (plan->problem.heads > 1)
        return eco_fail(ECORNN_UNSUPPORTED, "%s has no cell with heads, heads is %d", system,
                        plan->problem.heads);
    return eco_foreign_cell_find(walk->system, &plan->problem.cell->recipe,
                                 plan->problem.projected ? plan->problem.P : 0, &walk->cell);
}

ecornn_status ecornn_import_size(const ecornn_plan *plan, const char *system, size_t *elements)
{
    struct walk walk;
    const ecornn_status status = begin(&walk, plan, system);
    if (status != ECORNN_OK)
        return status;
    if (!elements)
        return eco_fail(ECORNN_BAD_ARGUMENT, "elements is NULL");
    walk_block(&walk);
    *elements = walk.at;
    return ECORNN_OK;
}

/* Imports or exports between `elements` of a block of this type and the parameters. */
static ecornn_status move(struct walk *walk, enum action action, ecornn_type type, size_t elements)
{
    if (type < ECORNN_F32 || type > ECORNN_F16)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "type is %d, must be ECORNN_F32, ECORNN_F64, ECORNN_BF16 or ECORNN_F16",
                        (int)type);
    const ecornn_type params = walk->problem->param_type;
    ecornn_status status =
        eco_check_pointer(action == IMPORT ? "block" : "param_block", walk->from, true,
                          eco_type_bytes(action == IMPORT ? type : params));
    if (status == ECORNN_OK)
        status = eco_check_pointer(action == IMPORT ? "param_block" : "block", walk->to, true,
                                   eco_type_bytes(action == IMPORT ? params : type));
    if (status != ECORNN_OK)
        return status;
    walk_block(walk);
    if (elements != walk->at)
        return eco_fail(ECORNN_BAD_ARGUMENT, "elements is %zu, but a block of %s for %s has %zu",
                        elements, walk->system->name, walk->problem->text, walk->at);
    walk->action = action;
    walk->type = type;
    walk->at = 0;
    struct eco_caller caller;
    eco_caller_begin(&caller); /* because two biases are added */
    walk_block(walk);
    eco_caller_end(&caller);
    return ECORNN_OK;
}

ecornn_status ecornn_import(const ecornn_plan *plan, const char *system, const void *block,
                            ecornn_type type, size_t elements, void *param_block)
{
    struct walk walk;
    const ecornn_status status = begin(&walk, plan, system);
    walk.from = block;
    walk.to = param_block;
    return status == ECORNN_OK ? move(&walk, IMPORT, type, elements) : status;
}

ecornn_status ecornn_export(const ecornn_plan *plan, const char *system, const void *param_block,
                            void *block, ecornn_type type, size_t elements)
{
    struct walk walk;
    const ecornn_status status = begin(&walk, plan, system);
    walk.from = param_block;
    walk.to = block;
    return status == ECORNN_OK ? move(&walk, EXPORT, type, elements) : status;
}
