/*
 * Values carried between stages.  An interpreter that takes a few rows through neighbouring stages
 * can leave values in columns, so that later stages need not compute them again.  The programs do
 * not change: an interpreter without columns computes everything.
 */
#include "common/cell/lowering.h"

#include <string.h>

/* Stages [from, to) of one pass, between two products. */
struct stage_range {
    struct eco_program *program; /* of the pass */
    int from, to;
    /* By stage and instruction: where the value is computed first, as position() numbers it, ... */
    int16_t first[ECO_MAX_STAGES][ECO_MAX_CODE];
    int8_t last[ECO_MAX_STAGES]
               [ECO_MAX_CODE]; /* ... and the last stage that takes it from there. */
};

static int position(int stage, int i)
{
    return stage * ECO_MAX_CODE + i;
}

static bool same_argument(const struct stage_range *h, int stage, int a, int other, int b)
{
    return a < 0 || b < 0 ? a == b : h->first[stage][a] == h->first[other][b];
}

static bool is_same(const struct stage_range *h, int stage, int i, int other, int k)
{
    const struct eco_node *a = &h->program[stage].code[i], *b = &h->program[other].code[k];
    return a->op == b->op && a->index == b->index &&
           memcmp(&a->value, &b->value, sizeof a->value) == 0 &&
           same_argument(h, stage, a->a, other, b->a) &&
           same_argument(h, stage, a->b, other, b->b) && same_argument(h, stage, a->c, other, b->c);
}

static int first_position(const struct stage_range *h, int stage, int i)
{
    for (int other = h->from; other < stage; other++)
        for (int k = 0; k < h->program[other].n; k++)
            if (is_same(h, stage, i, other, k))
                return position(other, k);
    return position(stage, i);
}

static void find_first(struct stage_range *h, int stage)
{
    for (int i = 0; i < h->program[stage].n; i++) {
        h->first[stage][i] = (int16_t)position(stage, i);
        h->last[stage][i] = (int8_t)stage;
        if (!eco_lower_stores(h->program[stage].code[i].op))
            h->first[stage][i] = (int16_t)first_position(h, stage, i);
    }
}

/* Is it computed for every unit?  Other values need no column; nothing is drawn twice. */
static bool is_work(const struct eco_program *program, int i)
{
    const int op = program->code[i].op;
    return !program->uniform[i] && (eco_opcode_info[op].arguments > 0 || op == ECO_OP_BERNOULLI);
}

/* Marks the values that a stage takes from earlier ones, and the instructions it can then skip.
 * Until columns are assigned, the column of a taken value is its first position. */
static void take(struct stage_range *h, int stage)
{
    struct eco_program *program = &h->program[stage];
    bool wanted[ECO_MAX_CODE] = {false};
    for (int i = program->n - 1; i >= 0; i--) {
        const struct eco_node *code = &program->code[i];
        const int16_t argument[3] = {code->a, code->b, code->c};
        const int16_t first = h->first[stage][i];
        const bool taken = wanted[i] && first != position(stage, i) && is_work(program, i);
        program->skipped[i] = taken || !(wanted[i] || eco_lower_stores(code->op));
        program->column[i] = (int16_t)(taken ? first : -1);
        if (taken)
            h->last[first / ECO_MAX_CODE][first % ECO_MAX_CODE] = (int8_t)stage;
        for (int k = 0; k < 3 && !program->skipped[i]; k++)
            if (argument[k] >= 0)
                wanted[argument[k]] = true;
    }
}

/* A column that no stage reads from this one on; n: columns in use so far. */
static int16_t unused_column(const int8_t *last, int stage, int *n)
{
    int column = 0;
    while (column < *n && last[column] >= stage)
        column++;
    *n = column < *n ? *n : column + 1;
    return (int16_t)column;
}

/* Assigns a column to each value until the last stage that takes it; returns their number. */
static int put_columns(struct stage_range *h)
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

void eco_lower_carried(struct eco_lowered *lowered)
{
    for (int pass = 0; pass < 2; pass++) {
        const int end = pass ? lowered->n_backward : lowered->n_forward;
        struct stage_range h = {.program = pass ? lowered->backward : lowered->forward};
        for (; h.from < end; h.from = h.to) {
            h.to = eco_cell_next_product(lowered, pass, h.from);
            for (int stage = h.from; stage < h.to; stage++)
                find_first(&h, stage);
            for (int stage = h.from; stage < h.to; stage++)
                take(&h, stage);
            const int n = put_columns(&h);
            lowered->n_columns[pass] = n > lowered->n_columns[pass] ? n : lowered->n_columns[pass];
        }
    }
}
