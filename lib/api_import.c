/*
 * Weights of other systems, as data: for every system how its blocks follow each other, for every
 * cell of it the order of its gates by the names of our parameters.  One walk over a foreign block
 * measures it, imports it and exports it.
 *
 * A block is a row of tensors.  G gates in the order of the tables below, I the layer's input width
 * (later layers D*P); pair: layer after layer, in each the forward, then the reverse direction.
 *
 * torch, for each pair: weight_ih [G*H,I], weight_hh [G*H,P], bias_ih [G*H], bias_hh [G*H], with a
 * projection weight_hr [P,H].
 *
 * cudnn, for each pair: G input matrices [H,I], G recurrent ones [H,P], with a projection [P,H];
 * then for each pair: G input biases [H], G recurrent ones [H].
 *
 * keras, for each pair: kernel [I,G*H], recurrent_kernel [H,G*H], bias [G*H], of a gru [2,G*H].
 *
 * onnx, for each layer: W [D,G*H,I], R [D,G*H,H], B [D,2*G*H], with peepholes P [D,3*H].
 */
#include "ecornn.h"

#include "common/fp.h"
#include "common/plan.h"
#include "common/type.h"
#include "common/util.h"

#include <assert.h>
#include <string.h>

/* What a tensor is made of, and its letter in struct system; the projection's is 'P'. */
enum part { INPUT, RECURRENT, FIRST_BIAS, SECOND_BIAS, PEEPHOLE, PARTS };
static const char part_letter[PARTS + 1] = "WRbdp";
static const char *const part_kind[PARTS] = {"W", "R", "b", "b", "p"};

/*
 * One cell of a system.  gates[part]: lines of the cell's text in the system's order, one letter
 * each; '-': a block we have no parameter for, ignored by import and zero after export; NULL: the
 * system has no such part.  Where both biases of a gate name the same line they are added,
 * otherwise the equations keep them apart.
 */
struct row {
    const char *cell;
    const char *gates[PARTS];
    bool projection;
};

/* clang-format off */
static const struct row torch_rows[] = { /* and cuDNN, the same gates in the same order */
    {"rnn-tanh", {"h",    "h",    "h",    "h"},    false},
    {"rnn-relu", {"h",    "h",    "h",    "h"},    false},
    {"lstm",     {"ifgo", "ifgo", "ifgo", "ifgo"}, true},
    {"gru",      {"rzn",  "rzq",  "rzn",  "rzq"},  false},
    {0}
};
static const struct row keras_rows[] = {
    {"rnn-tanh",        {"h",    "h",    "h"},           false}, /* SimpleRNN */
    {"rnn-relu",        {"h",    "h",    "h"},           false}, /* activation="relu" */
    {"lstm",            {"ifgo", "ifgo", "ifgo"},        false},
    {"gru",             {"zrn",  "zrq",  "zrn",  "zrq"}, false}, /* reset_after=True */
    {"gru-reset-first", {"zrn",  "zrn",  "zrn"},         false}, /* reset_after=False */
    {0}
};
static const struct row onnx_rows[] = {
    {"rnn-tanh",        {"h",    "h",    "h",    "h"},           false},
    {"rnn-relu",        {"h",    "h",    "h",    "h"},           false},
    {"lstm",            {"iofg", "iofg", "iofg", "iofg"},        false},
    {"lstm-peephole",   {"iofg", "iofg", "iofg", "iofg", "iof"}, false},
    {"lstm-coupled",    {"io-g", "io-g", "io-g", "io-g"},        false}, /* input_forget=1 */
    {"gru",             {"zrn",  "zrq",  "zrn",  "zrq"},         false}, /* linear_before_reset=1 */
    {"gru-reset-first", {"zrn",  "zrn",  "zrn",  "zrn"},         false},
    {0}
};
/* clang-format on */

/* run: parts that follow each other for one pair, then for the next pair of the scope. */
enum scope { SCOPE_PAIR, SCOPE_LAYER, SCOPE_NET };
static const struct system {
    const char *name;
    const struct row *rows;
    enum scope scope;
    const char *run[5]; /* ends with NULL */
    bool transposed;    /* matrices [columns, G*H] */
} systems[] = {
    {"torch", torch_rows, SCOPE_PAIR, {"WRbdP"}, false},
    {"cudnn", torch_rows, SCOPE_NET, {"WRP", "bd"}, false},
    {"keras", keras_rows, SCOPE_PAIR, {"WRbd"}, true},
    {"onnx", onnx_rows, SCOPE_LAYER, {"W", "R", "bd", "p"}, false},
};

enum action { MEASURE, IMPORT, EXPORT };
struct walk {
    const struct eco_problem *problem;
    const struct system *system;
    const struct row *row;
    enum action action;
    const void *from;
    void *to;
    size_t at; /* elements of the foreign block that are done */
};

static double get(const struct walk *walk, const void *block, size_t k)
{
    return eco_type_get(block, k, walk->problem->param_type);
}

static void put(const struct walk *walk, size_t k, double value)
{
    eco_type_set(walk->to, k, walk->problem->param_type, value);
}

/* A block of the foreign tensor as wide as its strides say, and our parameter for it. */
struct block {
    size_t at, row, column; /* of the foreign block: first element, strides */
    int32_t rows, cols;
    const ecornn_param *param; /* NULL: we have none */
    bool second;               /* its parameter was met before, as first bias */
};

static void move_element(const struct walk *walk, const struct block *block, size_t foreign,
                         size_t inside)
{
    const bool first = block->param && !block->second;
    const size_t own = block->param ? block->param->offset + inside : 0;
    if (walk->action == EXPORT)
        put(walk, foreign, first ? get(walk, walk->from, own) : 0);
    else if (first)
        put(walk, own, get(walk, walk->from, foreign));
    else if (block->param)
        put(walk, own, get(walk, walk->to, own) + get(walk, walk->from, foreign));
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

/* Parameter kind.line of a pair ("W", 'i'); line 'P': the projection.  Every name of the tables is
 * one of its cell's. */
static void find_param(const struct eco_problem *problem, int pair, const char *kind, char line,
                       ecornn_param *param)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const char name[] = {kind[0], '.', line, 0};
    int k = 0;
    while (k < recipe->n_params && strcmp(recipe->param[k].name, name) != 0)
        k++;
    assert(k < recipe->n_params || line == 'P');
    struct eco_param_place place;
    const int per_pair = recipe->n_params + (problem->projected ? 1 : 0);
    eco_problem_param(problem, pair * per_pair + k, &place);
    *param = place.param;
}

static void walk_projection(struct walk *walk, int pair)
{
    if (!walk->problem->projected)
        return;
    ecornn_param param;
    find_param(walk->problem, pair, "P", 'P', &param);
    const struct block block = {.at = walk->at,
                                .row = (size_t)param.cols,
                                .column = 1,
                                .rows = param.rows,
                                .cols = param.cols,
                                .param = &param};
    move_block(walk, &block);
    walk->at += (size_t)param.rows * (size_t)param.cols;
}

/* All gates of a part: one tensor, or one half of a tensor of two biases. */
static void walk_part(struct walk *walk, int pair, enum part part)
{
    const struct eco_problem *problem = walk->problem;
    const char *gates = walk->row->gates[part];
    if (!gates)
        return;
    const size_t G = strlen(gates);
    const int32_t width[PARTS] = {eco_problem_input(problem, pair / problem->D), problem->P, 1, 1,
                                  1};
    const int32_t cols = width[part];
    const bool transposed = walk->system->transposed && (part == INPUT || part == RECURRENT);
    const size_t H = (size_t)problem->H;
    for (size_t k = 0; k < G; k++) {
        ecornn_param param;
        if (gates[k] != '-')
            find_param(problem, pair, part_kind[part], gates[k], &param);
        const struct block block = {.at = walk->at + k * H * (transposed ? 1 : (size_t)cols),
                                    .row = transposed ? 1 : (size_t)cols,
                                    .column = transposed ? G * H : 1,
                                    .rows = problem->H,
                                    .cols = cols,
                                    .param = gates[k] == '-' ? NULL : &param,
                                    .second = part == SECOND_BIAS &&
                                              gates[k] == walk->row->gates[FIRST_BIAS][k]};
        move_block(walk, &block);
    }
    walk->at += G * H * (size_t)cols;
}

static void walk_run(struct walk *walk, const char *run, int pair)
{
    for (; *run; run++)
        if (*run == 'P')
            walk_projection(walk, pair);
        else
            walk_part(walk, pair, (enum part)(strchr(part_letter, *run) - part_letter));
}

static void walk_block(struct walk *walk)
{
    const int L = walk->problem->L, D = walk->problem->D;
    const int pairs[] = {[SCOPE_PAIR] = 1, [SCOPE_LAYER] = D, [SCOPE_NET] = L * D};
    const int scope = pairs[walk->system->scope];
    for (int first = 0; first < L * D; first += scope)
        for (const char *const *run = walk->system->run; *run; run++)
            for (int pair = first; pair < first + scope; pair++)
                walk_run(walk, *run, pair);
}

/* Finds system and cell in the tables and sets up a walk. */
static ecornn_status begin(struct walk *walk, const struct ecornn_plan *plan, const char *system)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!system)
        return eco_fail(ECORNN_BAD_ARGUMENT, "system is NULL");
    const struct ecornn_cell *cell = plan->problem.cell;
    *walk = (struct walk){.problem = &plan->problem};
    for (size_t k = 0; k < sizeof systems / sizeof *systems; k++)
        if (strcmp(systems[k].name, system) == 0)
            walk->system = &systems[k];
    if (!walk->system)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "system is '%.40s', must be torch, cudnn, keras or onnx", system);
    const struct row *row = walk->system->rows;
    while (row->cell && strcmp(row->cell, cell->recipe.name) != 0)
        row++;
    if (!row->cell || cell->builtin < 0)
        return eco_fail(ECORNN_UNSUPPORTED, "%s has no cell '%s'%s", system, cell->recipe.name,
                        cell->builtin < 0 ? " of your own" : "");
    if (plan->problem.projected && !row->projection)
        return eco_fail(ECORNN_UNSUPPORTED, "%s has no projection for %s, proj is %d", system,
                        row->cell, (int)plan->problem.P);
    walk->row = row;
    return ECORNN_OK;
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

static ecornn_status move(const ecornn_plan *plan, const char *system, enum action action,
                          const void *from, void *to)
{
    const bool import = action == IMPORT;
    struct walk walk;
    const ecornn_status status = begin(&walk, plan, system);
    if (status != ECORNN_OK)
        return status;
    if (!from || !to)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", import == !from ? "block" : "params");
    walk.action = action;
    walk.from = from;
    walk.to = to;
    const struct eco_fp caller = eco_fp_enter(ECO_FP_EXACT); /* two biases are added */
    walk_block(&walk);
    eco_fp_set(caller);
    return ECORNN_OK;
}

ecornn_status ecornn_import(const ecornn_plan *plan, const char *system, const void *block,
                            void *params)
{
    return move(plan, system, IMPORT, block, params);
}

ecornn_status ecornn_export(const ecornn_plan *plan, const char *system, const void *params,
                            void *block)
{
    return move(plan, system, EXPORT, params, block);
}
