/* Runs one step of a cell by its stages and by its graph, see cell_step.h. */
#include "tests/core/cell_step.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "common/cell/opcode.h"
#include "common/number.h"

struct ecornn_cell cell;
struct inputs in;
struct memory memory;

void compile(const char *text)
{
    struct eco_cell_error error;
    ck_assert_msg(eco_cell_compile(&cell, text, &error), "%s: %d:%d: %s", text, error.line,
                  error.column, error.message);
}

static double row_mean(const double *value, int n)
{
    double sum = 0;
    for (int j = 0; j < H; j++)
        sum += value[n * H + j];
    return sum / H;
}

/* y[n,j] += sum over k of weights[j,k] x[n,k] */
static void product(double *y, const double *weights, const double *x, int columns)
{
    for (int n = 0; n < N; n++)
        for (int j = 0; j < H; j++)
            for (int k = 0; k < columns; k++)
                y[n * H + j] += weights[j * columns + k] * x[n * columns + k];
}

/* x[n,k] += sum over j of weights[j,k] y[n,j] */
static void product_back(double *x, const double *weights, const double *y)
{
    for (int n = 0; n < N; n++)
        for (int j = 0; j < H; j++)
            for (int k = 0; k < H; k++)
                x[n * H + k] += weights[j * H + k] * y[n * H + j];
}

/* ---- the graph ---- */

double *x_at(int copy, int e)
{
    const bool single = copy > 0 && cell.recipe.part[copy - 1].kind == ECO_KIND_NUMBER;
    return copy == 0 ? &in.x[e / H * I + e % H] : &in.part[copy - 1][single ? e / H * H : e];
}

static void evaluate_node(const struct eco_node *node, plane *value, plane *out)
{
    if (node->op == ECO_OP_INPUT || node->op == ECO_OP_PRODUCT) {
        const bool input = node->op == ECO_OP_INPUT;
        memset(*out, 0, sizeof *out);
        product(*out, in.weights[node->index], input ? in.x : value[node->a], input ? I : H);
        return;
    }
    for (int e = 0; e < PLANE; e++) {
        const double a = node->a < 0 ? 0 : value[node->a][e],
                     b = node->b < 0 ? 0 : value[node->b][e];
        switch (node->op) {
        case ECO_OP_CONST:
            (*out)[e] = node->value;
            break;
        case ECO_OP_STATE:
            (*out)[e] = in.state[node->index][e];
            break;
        case ECO_OP_VECTOR:
            (*out)[e] = in.weights[node->index][e % H];
            break;
        case ECO_OP_BERNOULLI:
            (*out)[e] = in.bernoulli[node->index % ECO_DRAW_ONCE][e];
            break;
        case ECO_OP_X:
            (*out)[e] = *x_at(node->index, e);
            break;
        case ECO_OP_MEAN:
            (*out)[e] = row_mean(value[node->a], e / H);
            break;
        default:
            (*out)[e] = eco_opcode_value(node->op, a, b, node->c < 0 ? 0 : value[node->c][e]);
        }
    }
}

double evaluate_graph(plane *next, bool hold)
{
    static plane value[ECO_MAX_SOURCE];
    double loss = 0;
    for (int i = 0; i < cell.recipe.n_nodes; i++)
        if (!hold || cell.recipe.node[i].op != ECO_OP_STOP)
            evaluate_node(&cell.recipe.node[i], value, &value[i]);
    for (int s = 0; s < cell.recipe.n_states; s++) {
        memcpy(next[s], value[cell.recipe.next[s]], sizeof *next);
        for (int e = 0; e < PLANE; e++)
            loss += in.dnext[s][e] * next[s][e];
    }
    return loss;
}

/* ---- the stages ---- */

static int first_vector(void)
{
    int i = 0;
    while (i < cell.recipe.n_params && cell.recipe.param[i].kind != ECO_PARAM_VECTOR)
        i++;
    return i;
}

static double load(const struct eco_node *code, int e)
{
    const int i = code->index;
    switch (code->op) {
    case ECO_OP_CONST:
        return code->value;
    case ECO_OP_STATE:
        return memory.state[i][e];
    case ECO_OP_VECTOR:
        return in.weights[first_vector() + i][e % H];
    case ECO_OP_BERNOULLI:
        return in.bernoulli[i % ECO_DRAW_ONCE][e];
    case ECO_OP_MEAN:
        ck_assert_int_lt(memory.stored_at[i], memory.stage);
        return row_mean(memory.summand[i], e / H);
    case ECO_OP_DNEXT:
        return in.dnext[i][e];
    case ECO_OP_DOPERAND:
        return memory.doperand[i][e];
    case ECO_OP_ACC:
        return memory.acc[i][e];
    case ECO_OP_SAVED:
        return memory.save[i][e];
    default:
        ck_assert_int_eq(code->op, ECO_OP_NEXT);
        return memory.next[i][e];
    }
}

static double *target(const struct eco_node *code)
{
    switch (code->op) {
    case ECO_OP_STORE_OPERAND:
        return memory.operand[code->index];
    case ECO_OP_STORE_MEAN:
        memory.stored_at[code->index] = memory.stage;
        return memory.summand[code->index];
    case ECO_OP_STORE_SAVE:
        return memory.save[code->index];
    case ECO_OP_STORE_NEXT:
        return memory.next[code->index];
    case ECO_OP_STORE_DACC:
        return memory.dacc[code->index];
    case ECO_OP_STORE_DSTATE:
        return memory.dstate[code->index];
    case ECO_OP_STORE_LINEAR:
        return memory.factor[code->index * (ECO_MAX_STATES + 1)];
    case ECO_OP_STORE_COUPLED:
        return memory.factor[code->index];
    default:
        return NULL;
    }
}

bool carries_values;
static double column[ECO_MAX_CODE][PLANE];

/* The value of an instruction of a stage, for one element. */
static double value_of(const struct eco_program *program, int i, int e, const double *value)
{
    const struct eco_node *code = &program->code[i];
    if (eco_opcode_info[code->op].arguments == 0 || code->op == ECO_OP_MEAN)
        return load(code, e);
    return eco_opcode_value(code->op, value[code->a], code->b < 0 ? 0 : value[code->b],
                            code->c < 0 ? 0 : value[code->c]);
}

/* A carried value: read from its column, or computed and written there. */
static double carried_value(const struct eco_program *program, int i, int e, const double *value)
{
    const int to = program->column[i];
    if (program->skipped[i])
        return to < 0 ? NAN : column[to][e];
    const double v = value_of(program, i, e, value);
    if (to >= 0)
        column[to][e] = v;
    return v;
}

/* in_place: the next states overwrite the previous ones, element by element, as in inference. */
void run_stage(const struct eco_program *program, bool in_place)
{
    double value[ECO_MAX_CODE];
    for (int e = 0; e < PLANE; e++) {
        for (int i = 0; i < program->n; i++) {
            const struct eco_node *code = &program->code[i];
            double *to = target(code);
            if (to != NULL) {
                to[e] = value[code->a];
                memory.writes[code->op][code->index] += e == 0;
                if (in_place && code->op == ECO_OP_STORE_NEXT)
                    memory.state[code->index][e] = value[code->a];
                if (code->op == ECO_OP_STORE_LINEAR)
                    memory.term[code->index][e] = value[code->b];
            } else {
                value[i] = (carries_values ? carried_value : value_of)(program, i, e, value);
            }
        }
    }
}

static void begin_acc(void)
{
    for (int i = 0; i < cell.lowered.n_accs; i++) {
        const struct eco_accumulator *acc = &cell.lowered.acc[i];
        for (int e = 0; e < PLANE; e++)
            memory.acc[i][e] = acc->vector < 0 ? 0 : in.weights[acc->vector][e % H];
        if (acc->input >= 0)
            product(memory.acc[i], in.weights[acc->input], in.x, I);
        for (int e = 0; acc->copy >= 0 && e < PLANE; e++)
            memory.acc[i][e] = *x_at(acc->copy, e);
    }
}

const double *operand_value(int k)
{
    const struct eco_operand *operand = &cell.lowered.operand[k];
    return operand->state >= 0 ? in.state[operand->state] : memory.operand[operand->slot];
}

static void fill_nan(void *data, size_t bytes)
{
    double *value = data;
    for (size_t i = 0; i < bytes / sizeof *value; i++)
        value[i] = NAN;
}

void run_forward(bool in_place)
{
    const struct eco_lowered *lowered = &cell.lowered;
    fill_nan(&memory, offsetof(struct memory, stage));
    memset(memory.writes, 0, sizeof memory.writes);
    memset(memory.stored_at, 1, sizeof memory.stored_at);
    memcpy(memory.state, in.state, sizeof memory.state);
    begin_acc();
    for (memory.stage = 0; memory.stage < lowered->n_forward; memory.stage++) {
        for (int k = 0; k < lowered->n_operands; k++)
            for (int i = 0; lowered->operand[k].forward == memory.stage && i < lowered->n_accs; i++)
                if (lowered->acc[i].recurrent[k] >= 0)
                    product(memory.acc[i], in.weights[lowered->acc[i].recurrent[k]],
                            operand_value(k), H);
        run_stage(&lowered->forward[memory.stage], in_place);
    }
}

/* R^T dacc of every product of operand k, added to `to`. */
static void operand_gradient(int k, double *to)
{
    for (int i = 0; i < cell.lowered.n_accs; i++)
        if (cell.lowered.acc[i].recurrent[k] >= 0)
            product_back(to, in.weights[cell.lowered.acc[i].recurrent[k]], memory.dacc[i]);
}

void run_backward(void)
{
    const struct eco_lowered *lowered = &cell.lowered;
    fill_nan(memory.acc, sizeof memory.acc);
    fill_nan(memory.operand, sizeof memory.operand);
    memset(memory.stored_at, 1, sizeof memory.stored_at);
    memset(memory.writes[ECO_OP_STORE_OPERAND], 0, sizeof memory.writes[0]);
    for (memory.stage = 0; memory.stage < lowered->n_backward; memory.stage++) {
        for (int k = 0; k < lowered->n_operands; k++)
            if (lowered->operand[k].slot >= 0 && lowered->operand[k].backward == memory.stage) {
                memset(memory.doperand[lowered->operand[k].slot], 0, sizeof(plane));
                operand_gradient(k, memory.doperand[lowered->operand[k].slot]);
            }
        run_stage(&lowered->backward[memory.stage], false);
    }
    for (int k = 0; k < lowered->n_operands; k++)
        if (lowered->operand[k].state >= 0)
            operand_gradient(k, memory.dstate[lowered->operand[k].state]);
}
