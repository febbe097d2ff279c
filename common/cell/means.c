/*
 * Joins stages of a cell with row means for kernels whose blocks exchange sums of their units
 * between stages.  A mean of a polynomial in another mean m, of degree at most two, needs no stage
 * of its own: each block sends the sums of the value and of its first derivative at a number near
 * m.  The second derivative must be the same for all units.  So a variance is computed together
 * with its mean, and backward the mean of a gradient together with that of the variance.
 */
#include "common/cell/cell.h"

/* A value x + d t + c t^2, where t is the mean it depends on less the number near it. */
struct quadratic {
    int16_t mean;     /* -1: none */
    bool polynomial;  /* false: it depends on the mean in another way, or on two means */
    bool known, even; /* known: `value` for all units, without a mean; even: d is `slope` for all */
    double value, slope, curve;
};

static const struct quadratic other = {.mean = 0, .polynomial = false};

static struct quadratic constant(bool known, double value)
{
    return (struct quadratic){.mean = -1,
                              .polynomial = true,
                              .known = known,
                              .even = true,
                              .value = value,
                              .slope = 0,
                              .curve = 0};
}

static bool one_mean(const struct quadratic *a, const struct quadratic *b)
{
    return a->polynomial && b->polynomial && (a->mean < 0 || b->mean < 0 || a->mean == b->mean);
}

static struct quadratic sum(const struct quadratic *a, const struct quadratic *b, double sign)
{
    if (!one_mean(a, b))
        return other;
    return (struct quadratic){.mean = a->mean >= 0 ? a->mean : b->mean,
                              .polynomial = true,
                              .known = a->known && b->known,
                              .even = a->even && b->even,
                              .value = a->value + sign * b->value,
                              .slope = a->slope + sign * b->slope,
                              .curve = a->curve + sign * b->curve};
}

/* a times a value that depends on no mean. */
static struct quadratic scaled(const struct quadratic *a, bool known, double by)
{
    struct quadratic result = *a;
    if (!a->polynomial || (a->curve != 0 && !known))
        return other;
    result.known = a->known && known;
    result.even = a->even && (known || a->mean < 0);
    result.value = known ? a->value * by : 0;
    result.slope = known ? a->slope * by : 0;
    result.curve = known ? a->curve * by : 0;
    return result;
}

static struct quadratic product(const struct quadratic *a, const struct quadratic *b)
{
    if (!one_mean(a, b))
        return other;
    if (a->mean < 0)
        return scaled(b, a->known, a->value);
    if (b->mean < 0)
        return scaled(a, b->known, b->value);
    if (!a->even || !b->even || a->curve != 0 || b->curve != 0)
        return other;
    return (struct quadratic){.mean = a->mean, .polynomial = true, .curve = a->slope * b->slope};
}

static bool stores(const struct eco_program *program, int op, int index)
{
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == op && (index < 0 || program->code[i].index == index))
            return true;
    return false;
}

/* The form of an instruction of a stage that follows `before`. */
static struct quadratic quadratic_of(const struct eco_program *before, const struct eco_node *code,
                                     const struct quadratic *value)
{
    const int16_t argument[3] = {code->a, code->b, code->c};
    bool free = true;
    switch (code->op) {
    case ECO_OP_CONST:
        return constant(true, code->value);
    case ECO_OP_MEAN:
        if (!stores(before, ECO_OP_STORE_MEAN, code->index))
            return constant(false, 0);
        return (struct quadratic){
            .mean = code->index, .polynomial = true, .even = true, .slope = 1, .curve = 0};
    case ECO_OP_ADD:
        return sum(&value[code->a], &value[code->b], 1);
    case ECO_OP_SUB:
        return sum(&value[code->a], &value[code->b], -1);
    case ECO_OP_NEG:
        return scaled(&value[code->a], true, -1);
    case ECO_OP_MUL:
        return product(&value[code->a], &value[code->b]);
    case ECO_OP_DIV:
        if (value[code->b].polynomial && value[code->b].mean < 0)
            return scaled(&value[code->a], value[code->b].known, 1 / value[code->b].value);
        return other;
    default:
        for (int i = 0; i < 3 && argument[i] >= 0; i++)
            free = free && value[argument[i]].polynomial && value[argument[i]].mean < 0;
        return free ? constant(false, 0) : other;
    }
}

/* Can the means of a stage be computed with those of the stage before?  Fills in how. */
static bool joins(const struct eco_program *before, const struct eco_program *stage,
                  struct eco_joined_stages *joined)
{
    struct quadratic value[ECO_MAX_CODE];
    bool any = false;
    for (int i = 0; i < stage->n; i++) {
        const struct eco_node *code = &stage->code[i];
        if (code->op < ECO_OP_STORE_OPERAND) {
            value[i] = quadratic_of(before, code, value);
            continue;
        }
        if (code->op != ECO_OP_STORE_MEAN)
            continue;
        if (!value[code->a].polynomial || value[code->a].mean < 0)
            return false;
        any = true;
    }
    for (int i = 0; any && i < stage->n; i++)
        if (stage->code[i].op == ECO_OP_STORE_MEAN) {
            joined->mean[stage->code[i].index].with = value[stage->code[i].a].mean;
            joined->mean[stage->code[i].index].curve = value[stage->code[i].a].curve;
        }
    return any;
}

static void put_means(const struct eco_program *program, struct eco_joined_stages *joined)
{
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_STORE_MEAN) {
            struct eco_joined_mean *mean = &joined->mean[program->code[i].index];
            mean->stage = (int16_t)joined->n;
            mean->leads = false;
            for (int m = 0; m < joined->n_means; m++)
                mean->leads = mean->leads || joined->mean[m].with == program->code[i].index;
            joined->n_sums += mean->with >= 0 || mean->leads ? 2 : 1;
        }
}

void eco_cell_join_stages(const struct eco_lowered *lowered, bool backward,
                          struct eco_joined_stages *joined)
{
    const struct eco_program *program = backward ? lowered->backward : lowered->forward;
    const int n = backward ? lowered->n_backward : lowered->n_forward;
    *joined = (struct eco_joined_stages){.n_means = lowered->n_means[backward]};
    for (int m = 0; m < ECO_MAX_MEANS; m++)
        joined->mean[m].with = -1;
    int16_t again = -1;
    for (int k = 0; k < n; joined->n++) {
        struct eco_joined_stage *stage = &joined->stage[joined->n];
        *stage = (struct eco_joined_stage){.program = (int16_t)k, .again = again, .ahead = -1};
        again = -1;
        if (k + 1 < n && joins(&program[k], &program[k + 1], joined)) {
            stage->ahead = (int16_t)(k + 1);
            put_means(&program[k + 1], joined);
            if (stores(&program[k + 1], ECO_OP_STORE_SAVE, -1))
                again = stage->ahead;
        }
        put_means(&program[k], joined);
        k += stage->ahead < 0 ? 1 : 2;
    }
}
