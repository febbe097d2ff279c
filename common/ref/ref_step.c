/*
 * One row of one step of the reference: evaluates the recipe's graph node by node, and sweeps it in
 * reverse.  Written from the meaning of the opcodes alone; shares nothing with gradient.c, lower.c
 * or the kernels.
 */
#include "common/ref/ref.h"

#include <string.h>

#include "common/cell/opcode.h"
#include "common/number.h"
#include "common/ref/ref_op.h"

/* A node of one row, and what a step of the sweep needs. */
struct node_at {
    struct eco_reference *run;
    const struct eco_reference_row *row;
    const struct eco_node *node;
    int index;
};

static double *value_of(const struct eco_reference *run, int node)
{
    return run->value + (size_t)node * (size_t)run->width;
}

static double *dvalue_of(const struct eco_reference *run, int node)
{
    return run->dvalue + (size_t)node * (size_t)run->width;
}

static double rounded(struct eco_reference *run, double value)
{
    return eco_round(&run->arithmetic, value);
}

static void add_to(struct eco_reference *run, double *sum, double term)
{
    eco_round_add(&run->arithmetic, sum, term);
}

static double stored(struct eco_reference *run, double value)
{
    return eco_round_stored(&run->arithmetic, value);
}

/* Width of a product's operand: P for the output state, else H. */
static int32_t operand_width(const struct eco_problem *problem, int operand)
{
    const struct eco_node *node = &problem->cell->recipe.node[operand];
    return node->op == ECO_OP_STATE && node->index == 0 ? problem->P : problem->H;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* If the run draws, 1 with probability p by coordinates; else p. */
static double bernoulli(const struct node_at *at, int32_t j)
{
    const struct eco_reference *run = at->run;
    if (!run->draws)
        return at->node->value;
    const struct eco_coordinates coordinates = {
        .seed = run->args->seed,
        .layer = (uint32_t)run->layer,
        .direction = (uint32_t)run->d,
        .purpose = eco_draw_purpose(at->node->index),
        .t = eco_draw_step(at->node->index, eco_reference_number(run, at->row->t, at->row->n)),
        .n = run->args->first_row + (uint32_t)at->row->n};
    uint32_t word[4];
    eco_random_quad(&coordinates, (uint32_t)j / 4, word);
    return word[j % 4] < eco_random_threshold(at->node->value) ? 1 : 0;
}

static void evaluate_mean(const struct node_at *at)
{
    struct eco_reference *run = at->run;
    const int32_t units = eco_problem_mean(run->problem);
    for (int32_t from = 0; from < run->problem->H; from += units) {
        double sum = 0;
        for (int32_t j = from; j < from + units; j++)
            add_to(run, &sum, value_of(run, at->node->a)[j]);
        for (int32_t j = from; j < from + units; j++)
            value_of(run, at->index)[j] = rounded(run, sum / units);
    }
}

static int32_t place_of(const struct node_at *at, int argument, int32_t j)
{
    const uint8_t *const kind = at->run->problem->cell->recipe.kind;
    return kind[argument] == kind[at->index] ? j
                                             : eco_reference_place(at->run, argument, at->index, j);
}

/* The number of an argument that meets number j of the node; -1: 0. */
static double argument_of(const struct node_at *at, int argument, int32_t j)
{
    return argument < 0 ? 0 : value_of(at->run, argument)[place_of(at, argument, j)];
}

/* Copies the value of stop().  On request the run writes such values, or takes written ones. */
static void evaluate_copy(const struct node_at *at, int from)
{
    struct eco_arithmetic *arithmetic = &at->run->arithmetic;
    double *value = value_of(at->run, at->index);
    const int32_t size = eco_reference_size(at->run, at->index);
    const size_t bytes = (size_t)size * sizeof *value;
    for (int32_t j = 0; j < size; j++)
        value[j] = argument_of(at, from, j);
    if (at->node->op != ECO_OP_STOP || arithmetic->stopped == NULL)
        return;
    if (arithmetic->holds)
        memcpy(value, arithmetic->stopped, bytes);
    else
        memcpy(arithmetic->stopped, value, bytes);
    arithmetic->stopped += size;
}

static void evaluate_elements(const struct node_at *at)
{
    struct eco_reference *run = at->run;
    const struct eco_node *node = at->node;
    const int same = eco_recipe_copies(&run->problem->cell->recipe, at->index);
    if (node->op == ECO_OP_STOP || (same >= 0 && run->arithmetic.stopped == NULL)) {
        evaluate_copy(at, same);
        return;
    }
    double *value = value_of(run, at->index);
    const int32_t size = eco_reference_size(run, at->index);
    for (int32_t j = 0; j < size; j++) {
        const double a = argument_of(at, node->a, j), b = argument_of(at, node->b, j),
                     c = argument_of(at, node->c, j);
        if (node->op == ECO_OP_CONST)
            value[j] = rounded(run, node->value);
        else if (node->op == ECO_OP_VECTOR)
            value[j] =
                run->chain[at->index] < 0 ? run->weights[run->offset[node->index] + (size_t)j] : 0;
        else if (node->op == ECO_OP_BERNOULLI)
            value[j] = rounded(run, bernoulli(at, j));
        else if (eco_reference_approximates(node->op))
            value[j] = eco_round_function(&run->arithmetic, eco_opcode_value(node->op, a, 0, 0));
        else
            value[j] = rounded(run, eco_opcode_value(node->op, a, b, c));
    }
}

/* out += the product of a node, W x or R e. */
static void add_product(const struct node_at *at, double *out)
{
    struct eco_reference *run = at->run;
    const struct eco_node *node = at->node;
    const double *matrix = run->weights + run->offset[node->index];
    const int32_t H = run->problem->H;
    const int32_t heads = run->problem->heads;
    if (node->op == ECO_OP_INPUT && run->problem->grouped) {
        eco_reference_multiply_heads(run, out, matrix, eco_reference_input_operand(run, at->row->x),
                                     run->input / heads);
        return;
    }
    if (node->op == ECO_OP_INPUT) {
        eco_reference_multiply(run, out, matrix, H, eco_reference_input_operand(run, at->row->x),
                               run->input);
        return;
    }
    const int32_t width = operand_width(run->problem, node->a);
    if (heads > 1) {
        eco_reference_multiply_heads(run, out, matrix,
                                     eco_reference_operand(run, value_of(run, node->a), width),
                                     width / heads);
        return;
    }
    eco_reference_multiply(run, out, matrix, H,
                           eco_reference_operand(run, value_of(run, node->a), width), width);
}

/* The first column of x itself, 0, or of part copy - 1: parts fill a row of x from its end. */
static int32_t column_of(const struct eco_reference *run, int copy)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    int32_t column = copy == 0 ? 0 : eco_problem_input(run->problem, run->layer);
    for (int k = recipe->n_parts; copy > 0 && k >= copy; k--)
        column -= eco_problem_part(run->problem, k - 1);
    return column;
}

static void copy_x(const struct eco_reference *run, const struct eco_reference_row *row, int copy,
                   double *out)
{
    const double *from = row->x + column_of(run, copy);
    const struct eco_problem *problem = run->problem;
    const bool single = eco_problem_is_single(problem, copy);
    const int32_t width =
        problem->cell->recipe.matrix ? eco_problem_part(problem, copy - 1) : problem->H;
    for (int32_t j = 0; j < width; j++)
        out[j] = from[single ? 0 : j];
}

/* Sums an accumulator in one chain: its bias, W x or a part of x, each R e. */
static void add_chain(const struct node_at *at, double *out)
{
    struct eco_reference *run = at->run;
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const struct eco_accumulator *acc = &run->problem->cell->lowered.acc[run->chain[at->index]];
    if (acc->vector >= 0)
        memcpy(out, run->weights + run->offset[acc->vector],
               (size_t)run->problem->H * sizeof(double));
    if (acc->copy >= 0)
        copy_x(run, at->row, acc->copy, out);
    for (int o = -1; o < run->problem->cell->lowered.n_operands; o++) {
        const int param = o < 0 ? acc->input : acc->recurrent[o];
        const int node = param < 0 ? -1 : recipe->param[param].node;
        if (node >= 0)
            add_product(&(struct node_at){run, at->row, &recipe->node[node], node}, out);
    }
}

static void evaluate_product(const struct node_at *at)
{
    struct eco_reference *run = at->run;
    double *out = value_of(run, at->index);
    const int chain = run->chain[at->index];
    memset(out, 0, (size_t)run->problem->H * sizeof *out);
    if (chain < 0)
        add_product(at, out);
    else if (run->last[chain] == at->index)
        add_chain(at, out);
}

static void load_state(const struct node_at *at)
{
    struct eco_reference *run = at->run;
    const int s = at->node->index;
    const int32_t width = eco_problem_width(run->problem, s);
    double *value = value_of(run, at->index);
    memcpy(value, at->row->state[s], (size_t)width * sizeof(double));
    for (int32_t j = 0; run->replays && s > 0 && j < width; j++)
        value[j] = eco_round_saved(&run->arithmetic, value[j]);
}

static void evaluate(struct eco_reference *run, const struct eco_reference_row *row)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct node_at at = {run, row, &recipe->node[i], i};
        const struct eco_node *node = at.node;
        if (node->op == ECO_OP_STATE)
            load_state(&at);
        else if (node->op == ECO_OP_INPUT || node->op == ECO_OP_PRODUCT)
            evaluate_product(&at);
        else if (node->op == ECO_OP_X && run->chain[i] >= 0)
            memset(value_of(run, i), 0, (size_t)run->problem->H * sizeof(double));
        else if (node->op == ECO_OP_X)
            copy_x(run, row, node->index, value_of(run, i));
        else if (eco_reference_is_across(recipe, node))
            eco_reference_across(run, i);
        else if (node->op == ECO_OP_MEAN)
            evaluate_mean(&at);
        else
            evaluate_elements(&at);
    }
}

void eco_reference_forward(struct eco_reference *run, const struct eco_reference_row *row)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_recipe *recipe = &problem->cell->recipe;
    evaluate(run, row);
    for (int s = 0; s < recipe->n_states; s++) {
        const double *next = value_of(run, recipe->next[s]);
        if (s == 0 && problem->projected)
            memset(row->next[s], 0, (size_t)problem->P * sizeof(double));
        if (s == 0 && problem->projected)
            eco_reference_multiply(run, row->next[s], run->weights + run->offset[recipe->n_params],
                                   problem->P, eco_reference_operand(run, next, problem->H),
                                   problem->H);
        else
            memcpy(row->next[s], next,
                   (size_t)eco_reference_size(run, recipe->next[s]) * sizeof(double));
        for (int32_t j = 0; run->narrow[s] && j < eco_problem_width(problem, s); j++)
            row->next[s][j] = stored(run, row->next[s][j]);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

static double *dargument_of(const struct node_at *at, int argument, int32_t j)
{
    return argument < 0 ? NULL : dvalue_of(at->run, argument) + place_of(at, argument, j);
}

/* Adds the gradient g of one unit of a node to its arguments.  An argument that was not selected
 * gets nothing, because 0 times an infinity would not be 0. */
static void sweep_unit(const struct node_at *at, int32_t j, double g)
{
    struct eco_reference *run = at->run;
    const struct eco_node *node = at->node;
    const double a = argument_of(at, node->a, j), b = argument_of(at, node->b, j);
    double *const da = dargument_of(at, node->a, j), *const db = dargument_of(at, node->b, j);
    switch (node->op) {
    case ECO_OP_ADD:
        add_to(run, da, g);
        add_to(run, db, g);
        break;
    case ECO_OP_SUB:
        add_to(run, da, g);
        add_to(run, db, -g);
        break;
    case ECO_OP_MUL:
        add_to(run, da, g * b);
        add_to(run, db, g * a);
        break;
    case ECO_OP_DIV:
        add_to(run, da, g / b);
        add_to(run, db, -rounded(run, g / b) * value_of(run, at->index)[j]);
        break;
    case ECO_OP_MIN:
        add_to(run, a < b ? da : db, g);
        break;
    case ECO_OP_MAX:
        add_to(run, a > b ? da : db, g);
        break;
    case ECO_OP_SELECT:
        add_to(run, a > 0 ? db : dargument_of(at, node->c, j), g);
        break;
    default:
        add_to(run, da,
               g * eco_reference_slope(&run->arithmetic, node->op, a, value_of(run, at->index)[j]));
    }
}

static void sweep_mean(const struct node_at *at, const double *dvalue)
{
    struct eco_reference *run = at->run;
    const int32_t units = eco_problem_mean(run->problem);
    for (int32_t from = 0; from < run->problem->H; from += units) {
        double sum = 0;
        for (int32_t j = from; j < from + units; j++)
            add_to(run, &sum, dvalue[j]);
        for (int32_t j = from; j < from + units; j++)
            add_to(run, &dvalue_of(run, at->node->a)[j], sum / units);
    }
}

static void sweep_input(const struct node_at *at, const double *dvalue)
{
    struct eco_reference *run = at->run;
    const int32_t heads = run->problem->grouped ? run->problem->heads : 1;
    const struct eco_reference_product product = {run->offset[at->node->index],
                                                  run->problem->H / heads,
                                                  run->input / heads,
                                                  eco_reference_input_operand(run, at->row->x),
                                                  dvalue,
                                                  at->row->dx};
    (heads > 1 ? eco_reference_multiply_heads_gradient : eco_reference_multiply_gradient)(run,
                                                                                          &product);
}

static void sweep_product(const struct node_at *at, const double *dvalue)
{
    struct eco_reference *run = at->run;
    const struct eco_node *node = at->node;
    const int32_t width = operand_width(run->problem, node->a), heads = run->problem->heads;
    const struct eco_reference_product product = {
        run->offset[node->index],
        run->problem->H / heads,
        width / heads,
        eco_reference_operand(run, value_of(run, node->a), width),
        dvalue,
        dvalue_of(run, node->a)};
    eco_reference_multiply_heads_gradient(run, &product);
}

static void sweep_node(const struct node_at *at)
{
    struct eco_reference *run = at->run;
    const struct eco_node *node = at->node;
    double *dvalue = dvalue_of(run, at->index);
    const int32_t H = eco_reference_size(run, at->index);
    const bool sum = node->op == ECO_OP_INPUT || node->op == ECO_OP_PRODUCT ||
                     node->op == ECO_OP_VECTOR || node->op == ECO_OP_X;
    for (int32_t j = 0; sum && j < H; j++) /* dacc is an operand of the backward products */
        dvalue[j] = stored(run, dvalue[j]);
    switch (node->op) {
    case ECO_OP_CONST:
    case ECO_OP_BERNOULLI:
    case ECO_OP_STOP:
        break;
    case ECO_OP_STATE:
        for (int32_t j = 0; j < eco_problem_width(run->problem, node->index); j++)
            add_to(run, &run->carry[node->index][j], dvalue[j]);
        break;
    case ECO_OP_VECTOR:
        for (int32_t j = 0; j < H; j++)
            eco_reference_sum_add(run, run->offset[node->index] + (size_t)j, dvalue[j]);
        break;
    case ECO_OP_X:
        for (int32_t j = 0; j < H; j++)
            add_to(run,
                   &at->row->dx[column_of(run, node->index) +
                                (eco_problem_is_single(run->problem, node->index) ? 0 : j)],
                   dvalue[j]);
        break;
    case ECO_OP_INPUT:
        sweep_input(at, dvalue);
        break;
    case ECO_OP_PRODUCT:
        sweep_product(at, dvalue);
        break;
    case ECO_OP_MEAN:
    case ECO_OP_DOT:
    case ECO_OP_OUTER:
    case ECO_OP_READ:
        if (eco_reference_is_across(&run->problem->cell->recipe, node))
            eco_reference_sweep_across(run, at->index);
        else
            sweep_mean(at, dvalue);
        break;
    default:
        for (int32_t j = 0; j < H; j++)
            sweep_unit(at, j, dvalue[j]);
    }
}

/* Moves the gradients of the next states from carry to their nodes, and clears carry. */
static void seed_sweep(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_recipe *recipe = &problem->cell->recipe;
    memset(run->dvalue, 0, (size_t)recipe->n_nodes * (size_t)run->width * sizeof *run->dvalue);
    for (int s = 0; s < recipe->n_states; s++) {
        double *dnext = dvalue_of(run, recipe->next[s]);
        for (int32_t j = 0; s == 0 && problem->projected && j < problem->P; j++)
            run->carry[s][j] = stored(run, run->carry[s][j]);
        if (s == 0 && problem->projected)
            eco_reference_multiply_gradient(
                run, &(struct eco_reference_product){
                         run->offset[recipe->n_params], problem->P, problem->H,
                         eco_reference_operand(run, value_of(run, recipe->next[s]), problem->H),
                         run->carry[s], dnext});
        else
            for (int32_t j = 0; j < eco_problem_width(problem, s); j++)
                add_to(run, &dnext[j], run->carry[s][j]);
        memset(run->carry[s], 0, (size_t)run->width * sizeof *run->carry[s]);
    }
}

/* Is the node's value a state or saved value that the reserve has in another, narrow type? For a
 * replay these are the next states. */
static bool is_narrowed(const struct eco_reference *run, int i)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    bool state = false;
    for (int s = 1; s < recipe->n_states; s++)
        state |= recipe->next[s] == i;
    if (!run->arithmetic.narrows)
        return state && eco_type_narrow(run->arithmetic.saved) &&
               run->arithmetic.saved != run->arithmetic.type;
    return state || run->saved[i] ||
           (recipe->node[i].op == ECO_OP_STATE && recipe->node[i].index > 0);
}

/* Recomputes the values from which a machine that keeps 16 bits computes the gradient: those that
 * are not saved follow from saved ones and from the next states, as the reserve has them. */
static void settle(struct eco_reference *run, const struct eco_reference_row *row)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct node_at at = {run, row, &recipe->node[i], i};
        double *value = value_of(run, i);
        const uint8_t op = at.node->op;
        const bool copied = op == ECO_OP_STATE && (at.node->index == 0 || run->arithmetic.lean);
        const int32_t size = eco_reference_size(run, i);
        for (int32_t j = 0; (run->saved[i] || copied) && j < size; j++)
            value[j] = stored(run, value[j]);
        if (!run->saved[i] && op != ECO_OP_STATE && op != ECO_OP_X && op != ECO_OP_INPUT &&
            op != ECO_OP_PRODUCT && op != ECO_OP_MEAN && op < ECO_OP_OUTER)
            evaluate_elements(&at);
        for (int s = 0; s < recipe->n_states; s++)
            for (int32_t j = 0; recipe->next[s] == i && j < size; j++)
                value[j] = s == 0 && run->problem->projected ? stored(run, value[j])
                           : s == 0 || run->arithmetic.lean  ? stored(run, row->next[s][j])
                                                             : row->next[s][j];
        for (int32_t j = 0; is_narrowed(run, i) && j < size; j++)
            value[j] = eco_round_saved(&run->arithmetic, value[j]);
    }
}

void eco_reference_backward(struct eco_reference *run, const struct eco_reference_row *row)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const bool narrow = eco_type_narrow(run->arithmetic.saved);
    run->replays = narrow && !run->arithmetic.narrows;
    evaluate(run, row);
    run->replays = false;
    if (eco_type_narrow(run->arithmetic.type) || narrow)
        settle(run, row);
    seed_sweep(run);
    for (int i = recipe->n_nodes - 1; i >= 0; i--)
        if (run->live[i])
            sweep_node(&(struct node_at){run, row, &recipe->node[i], i});
}
