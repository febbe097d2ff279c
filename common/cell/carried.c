/*
 * What a stage hands on to later ones: an interpreter that takes a few rows through neighbouring
 * stages leaves values of them in columns, so that a later stage need not compute them again.  The
 * programs stay as they are: whoever does not know of columns computes everything.
 */
#include "common/cell/lowering.h"

#include <string.h>

/* Stages from .. to of one way, between two products. */
struct handing {
    struct eco_program *program; /* of the way */
    int from, to;
    /* By stage and instruction: where its value is computed first, as place() counts, ... */
    int16_t first[ECO_MAX_STAGES][ECO_MAX_CODE];
    int8_t last[ECO_MAX_STAGES][ECO_MAX_CODE]; /* ... and the last stage that takes it from there */
};

static int place(int stage, int i)
{
    return stage * ECO_MAX_CODE + i;
}

static bool same_argument(const struct handing *h, int stage, int a, int other, int b)
{
    return a < 0 || b < 0 ? a == b : h->first[stage][a] == h->first[other][b];
}

/* Have instructions of two stages the same value? */
static bool is_same(const struct handing *h, int stage, int i, int other, int k)
{
    const struct eco_node *a = &h->program[stage].code[i], *b = &h->program[other].code[k];
    return a->op == b->op && a->index == b->index &&
           memcmp(&a->value, &b->value, sizeof a->value) == 0 &&
           same_argument(h, stage, a->a, other, b->a) &&
           same_argument(h, stage, a->b, other, b->b) && same_argument(h, stage, a->c, other, b->c);
}

static int first_place(const struct handing *h, int stage, int i)
{
    for (int other = h->from; other < stage; other++)
        for (int k = 0; k < h->program[other].n; k++)
            if (is_same(h, stage, i, other, k))
                return place(other, k);
    return place(stage, i);
}

static void find_first(struct handing *h, int stage)
{
    for (int i = 0; i < h->program[stage].n; i++) {
        h->first[stage][i] = (int16_t)place(stage, i);
        h->last[stage][i] = (int8_t)stage;
        if (!eco_lower_stores(h->program[stage].code[i].op))
            h->first[stage][i] = (int16_t)first_place(h, stage, i);
    }
}

/* Is it computed for every unit?  All else is had as soon without a column; nothing is drawn twice.
 */
static bool is_work(const struct eco_program *program, int i)
{
    const int op = program->code[i].op;
    return !program->uniform[i] && (eco_opcode_info[op].arguments > 0 || op == ECO_OP_BERNOULLI);
}

/* What a stage takes from those before it, and what it then has no use for.  The column of a taken
 * value is its first place, until there are columns. */
static void take(struct handing *h, int stage)
{
    struct eco_program *program = &h->program[stage];
    bool wanted[ECO_MAX_CODE] = {false};
    for (int i = program->n - 1; i >= 0; i--) {
        const struct eco_node *code = &program->code[i];
        const int16_t argument[3] = {code->a, code->b, code->c};
        const int16_t first = h->first[stage][i];
        const bool taken = wanted[i] && first != place(stage, i) && is_work(program, i);
        program->skipped[i] = taken || !(wanted[i] || eco_lower_stores(code->op));
        program->column[i] = (int16_t)(taken ? first : -1);
        if (taken)
            h->last[first / ECO_MAX_CODE][first % ECO_MAX_CODE] = (int8_t)stage;
        for (int k = 0; k < 3 && !program->skipped[i]; k++)
            if (argument[k] >= 0)
                wanted[argument[k]] = true;
    }
}

/* A column that no stage reads from this one on; n: so many have been in use. */
static int16_t unused_column(const int8_t *last, int stage, int *n)
{
    int column = 0;
    while (column < *n && last[column] >= stage)
        column++;
    *n = column < *n ? *n : column + 1;
    return (int16_t)column;
}

/* Columns of all values, each until the last stage that takes it; how many that makes. */
static int put_columns(struct handing *h)
{
    int8_t last[ECO_MAX_STAGES * ECO_MAX_CODE];
    int n = 0;
    for (int stage = h->from; stage < h->to; stage++) {
        struct eco_program *program = &h->program[stage];
        for (int i = 0; i < program->n; i++) {
            const int first = program->column[i];
            if (first >= 0) {
                program->column[i] = h->program[first / ECO_MAX_CODE].column[first % ECO_MAX_CODE];
            } else if (h->last[stage][i] > stage) {
                program->column[i] = unused_column(last, stage, &n);
                last[program->column[i]] = h->last[stage][i];
            }
        }
    }
    return n;
}

int eco_cell_next_product(const struct eco_lowered *lowered, bool backward, int stage)
{
    int next = backward ? lowered->n_backward : lowered->n_forward;
    for (int o = 0; o < lowered->n_operands; o++) {
        const struct eco_operand *operand = &lowered->operand[o];
        const int at = backward ? operand->backward : operand->forward;
        if (at > stage && at < next)
            next = at;
    }
    return next;
}

void eco_lower_carried(struct eco_lowered *lowered)
{
    for (int way = 0; way < 2; way++) {
        const int end = way ? lowered->n_backward : lowered->n_forward;
        struct handing h = {.program = way ? lowered->backward : lowered->forward};
        for (; h.from < end; h.from = h.to) {
            h.to = eco_cell_next_product(lowered, way, h.from);
            for (int stage = h.from; stage < h.to; stage++)
                find_first(&h, stage);
            for (int stage = h.from; stage < h.to; stage++)
                take(&h, stage);
            const int n = put_columns(&h);
            lowered->n_columns[way] = n > lowered->n_columns[way] ? n : lowered->n_columns[way];
        }
    }
}
