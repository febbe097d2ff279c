/*
 * Finds the form of a step of a cell with a matrix state (struct eco_matrix_rule).  Every matrix of
 * the text is written as a factor of S and some terms, and every value that reads S as a multiple
 * of S^T read plus the rest; both are sums, so the operations of the text act on them one by one.
 * New nodes are those that the text does not have, such as the product of two of its factors.
 *
 * Example, Kimi's rule: A = w * S and S' = A - beta * outer(k, A^T k) + beta * outer(k, v).
 * A^T k = S^T (w * k), so read is w * k; the two terms have the same key, so they are one:
 * key k, scale -beta, value beta * v, decay w.
 */
#include "common/cell/cell.h"

#include <string.h>

enum { NONE = -1, ONE = -2, MOST_TERMS = 4 };

/* scale S^T read + value, by nodes; read NONE: the value alone. */
struct reading {
    int16_t scale, read, value;
};

/* decay S + the sum of key (reading)^T; decay NONE: S is not in it; ONE: S itself. */
struct form {
    int16_t decay;
    int terms;
    struct term {
        int16_t key;
        struct reading of;
    } term[MOST_TERMS];
};

struct finder {
    struct eco_recipe *recipe;
    struct eco_matrix_rule *rule;
    const char *refusal;
    struct form form[ECO_MAX_NODES];       /* of matrices */
    struct reading reading[ECO_MAX_NODES]; /* of values that read S */
    bool reads[ECO_MAX_NODES];             /* is it such a value? */
    bool after[ECO_MAX_NODES];             /* does it depend on S'? */
};

static int refuse(struct finder *finder, const char *why)
{
    if (finder->refusal == NULL)
        finder->refusal = why;
    return NONE;
}

/* ---- new nodes ------------------------------------------------------------------------------- */

static const char too_long[] = "does not support so long a text with a matrix state";

static int16_t add(struct finder *finder, int op, int a, int b)
{
    if (finder->refusal != NULL)
        return NONE;
    const struct eco_node node = {(int16_t)op, (int16_t)a, (int16_t)b, -1, 0, 0};
    const int at = eco_recipe_add(finder->recipe, node);
    return (int16_t)(at < 0 ? refuse(finder, too_long) : at);
}

static int16_t constant(struct finder *finder, double value)
{
    const struct eco_node node = {ECO_OP_CONST, -1, -1, -1, 0, value};
    const int at = finder->refusal == NULL ? eco_recipe_add(finder->recipe, node) : NONE;
    return (int16_t)(at < 0 ? refuse(finder, too_long) : at);
}

/* a * b, of which either may be ONE. */
static int16_t times(struct finder *finder, int16_t a, int16_t b)
{
    return a == ONE ? b : b == ONE ? a : add(finder, ECO_OP_MUL, a, b);
}

/* A node for a factor that may be ONE. */
static int16_t node_of(struct finder *finder, int16_t a)
{
    return a == ONE ? constant(finder, 1) : a;
}

/* a * b, or a / b. */
static int16_t scaled(struct finder *finder, int op, int16_t a, int16_t b)
{
    return op == ECO_OP_MUL ? times(finder, a, b) : add(finder, ECO_OP_DIV, node_of(finder, a), b);
}

/* a + b, or a - b; NONE is 0. */
static int16_t plus(struct finder *finder, int16_t a, int16_t b, bool minus)
{
    if (b == NONE || (a == NONE && !minus))
        return b == NONE ? a : b;
    if (a == NONE)
        return b == ONE ? constant(finder, -1) : add(finder, ECO_OP_NEG, b, -1);
    return add(finder, minus ? ECO_OP_SUB : ECO_OP_ADD, node_of(finder, a), node_of(finder, b));
}

/* ---- values that read S ---------------------------------------------------------------------- */

static struct reading reading_of(const struct finder *finder, int16_t node)
{
    return finder->reads[node] ? finder->reading[node] : (struct reading){NONE, NONE, node};
}

static struct reading add_readings(struct finder *finder, struct reading a, struct reading b,
                                   bool minus)
{
    if (a.read != NONE && b.read != NONE && a.read != b.read)
        refuse(finder, "does not support two different readings of the state in a step");
    return (struct reading){plus(finder, a.scale, b.scale, minus), a.read != NONE ? a.read : b.read,
                            plus(finder, a.value, b.value, minus)};
}

static struct reading scale_reading(struct finder *finder, struct reading a, int op, int16_t by)
{
    if (a.read != NONE && finder->recipe->kind[by] != ECO_KIND_NUMBER)
        refuse(finder, "does not support what a step reads of the state times a vector");
    if (a.scale != NONE)
        a.scale = scaled(finder, op, a.scale, by);
    if (a.value != NONE)
        a.value = scaled(finder, op, a.value, by);
    return a;
}

/* A sum, difference, product or quotient with what reads S. */
static struct reading find_reading(struct finder *finder, const struct eco_node *node)
{
    const bool left = finder->reads[node->a], right = node->b >= 0 && finder->reads[node->b];
    const struct reading zero = {NONE, NONE, NONE};
    switch (node->op) {
    case ECO_OP_ADD:
    case ECO_OP_SUB:
        return add_readings(finder, reading_of(finder, node->a), reading_of(finder, node->b),
                            node->op == ECO_OP_SUB);
    case ECO_OP_NEG:
        return add_readings(finder, zero, finder->reading[node->a], true);
    case ECO_OP_MUL:
    case ECO_OP_DIV:
        if (!(left && right) && (left || node->op == ECO_OP_MUL))
            return scale_reading(finder, finder->reading[left ? node->a : node->b], node->op,
                                 left ? node->b : node->a);
        break;
    default:
        break;
    }
    refuse(finder,
           "needs what a step reads of the state to be added and multiplied by numbers only");
    return zero;
}

/* M^T b, of M = decay S + terms: a number in decay scales the result and a key scales b; each term
 * gives key . b times its own. */
static struct reading read_form(struct finder *finder, const struct form *form, int16_t b)
{
    const bool rows = form->decay >= 0 && finder->recipe->kind[form->decay] == ECO_KIND_KEY;
    struct reading sum = {NONE, NONE, NONE};
    if (form->decay != NONE)
        sum = (struct reading){rows ? ONE : form->decay, rows ? times(finder, form->decay, b) : b,
                               NONE};
    for (int k = 0; k < form->terms && finder->refusal == NULL; k++)
        sum = add_readings(finder, sum,
                           scale_reading(finder, form->term[k].of, ECO_OP_MUL,
                                         add(finder, ECO_OP_DOT, form->term[k].key, b)),
                           false);
    return sum;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Adds a term; one of an equal key is joined to it. */
static void add_term(struct finder *finder, struct form *form, int16_t key, struct reading of,
                     bool minus)
{
    const struct reading zero = {NONE, NONE, NONE};
    for (int k = 0; k < form->terms; k++)
        if (form->term[k].key == key && (form->term[k].of.read == of.read ||
                                         form->term[k].of.read == NONE || of.read == NONE)) {
            form->term[k].of = add_readings(finder, form->term[k].of, of, minus);
            return;
        }
    if (form->terms == MOST_TERMS) {
        refuse(finder, "does not support more than four outer products in a step");
        return;
    }
    form->term[form->terms++] = (struct term){key, add_readings(finder, zero, of, minus)};
}

static struct form add_forms(struct finder *finder, const struct form *a, const struct form *b,
                             bool minus)
{
    struct form sum = *a;
    sum.decay = plus(finder, a->decay, b->decay, minus);
    for (int k = 0; k < b->terms; k++)
        add_term(finder, &sum, b->term[k].key, b->term[k].of, minus);
    return sum;
}

/* Times a number, or a key, which scales rows. */
static struct form scale_form(struct finder *finder, const struct form *of, int op, int16_t by)
{
    struct form form = *of;
    if (form.decay != NONE)
        form.decay = scaled(finder, op, form.decay, by);
    for (int k = 0; k < form.terms; k++)
        if (finder->recipe->kind[by] == ECO_KIND_NUMBER)
            form.term[k].of = scale_reading(finder, form.term[k].of, op, by);
        else
            form.term[k].key = times(finder, form.term[k].key, by);
    return form;
}

static struct form find_form(struct finder *finder, const struct eco_node *node)
{
    const struct form zero = {.decay = NONE};
    struct form form = zero;
    const bool left = node->a >= 0 && finder->recipe->kind[node->a] == ECO_KIND_MATRIX;
    switch (node->op) {
    case ECO_OP_STATE:
        form.decay = ONE;
        return form;
    case ECO_OP_OUTER:
        add_term(finder, &form, node->a, reading_of(finder, node->b), false);
        return form;
    case ECO_OP_ADD:
    case ECO_OP_SUB:
        return add_forms(finder, &finder->form[node->a], &finder->form[node->b],
                         node->op == ECO_OP_SUB);
    case ECO_OP_NEG:
        return add_forms(finder, &zero, &finder->form[node->a], true);
    default: /* a product or a quotient */
        return scale_form(finder, &finder->form[left ? node->a : node->b], node->op,
                          left ? node->b : node->a);
    }
}

/* ---- the text, node by node ------------------------------------------------------------------ */

/* Does an argument depend on S', or, `reads`, on what S holds? */
static bool follows(const struct eco_node *node, const bool *of)
{
    return (node->a >= 0 && of[node->a]) || (node->b >= 0 && of[node->b]) ||
           (node->c >= 0 && of[node->c]);
}

static void find_node(struct finder *finder, int at)
{
    const struct eco_recipe *recipe = finder->recipe;
    const struct eco_node node = recipe->node[at];
    const int16_t next = recipe->next[finder->rule->state];
    finder->after[at] = follows(&node, finder->after);
    if (recipe->kind[at] == ECO_KIND_MATRIX) {
        if (finder->after[at])
            refuse(finder, "does not support a state that depends on what the step reads of it");
        finder->form[at] = find_form(finder, &node);
    } else if (node.op == ECO_OP_READ && node.a == next) {
        if (finder->rule->out != NONE)
            refuse(finder, "does not support two readings of the next state");
        finder->rule->out = (int16_t)at;
        finder->rule->query = node.b;
        finder->after[at] = true;
    } else if (node.op == ECO_OP_READ) {
        finder->reading[at] = read_form(finder, &finder->form[node.a], node.b);
        finder->reads[at] = finder->reading[at].read != NONE;
        if (!finder->reads[at])
            refuse(finder, "does not support reading a matrix without the state");
    } else if (follows(&node, finder->reads)) {
        finder->reading[at] = find_reading(finder, &node);
        finder->reads[at] = true;
    }
}

/* The rule's fields, of S' and its terms: at most one has a value, and all read the same. */
static void find_terms(struct finder *finder)
{
    struct eco_matrix_rule *rule = finder->rule;
    const struct form *form = &finder->form[finder->recipe->next[rule->state]];
    rule->decay = form->decay == NONE  ? constant(finder, 0)
                  : form->decay == ONE ? (int16_t)NONE
                                       : form->decay;
    for (int k = 0; k < form->terms; k++) {
        const struct term *term = &form->term[k];
        const struct reading *of = &term->of;
        if (rule->read != NONE && of->read != NONE && rule->read != of->read)
            refuse(finder, "does not support two different readings of the state in a step");
        rule->read = of->read != NONE ? of->read : rule->read;
        if (of->value != NONE && rule->key == NONE) {
            rule->key = term->key, rule->value = of->value;
            rule->scale = node_of(finder, of->scale);
        } else if (of->value == NONE && rule->other == NONE) {
            rule->other = times(finder, term->key, of->scale);
        } else {
            refuse(finder, "does not support two outer products of different keys in a step");
        }
    }
    if (rule->key == NONE)
        refuse(finder, "needs an outer product that is added to the state");
    else if (finder->refusal == NULL && finder->recipe->kind[rule->value] != ECO_KIND_VALUE)
        refuse(finder, "needs a value [V] that is added to what a step reads, not a number");
}

/* What is computed for a step before S and after it: what the rule, the other states and y need. */
static void find_phases(struct finder *finder)
{
    const struct eco_recipe *recipe = finder->recipe;
    struct eco_matrix_rule *rule = finder->rule;
    const int16_t terms[] = {rule->decay, rule->read,  rule->scale, rule->other,
                             rule->key,   rule->value, rule->query};
    for (size_t k = 0; k < sizeof terms / sizeof *terms; k++) {
        if (terms[k] != NONE && (finder->after[terms[k]] || finder->reads[terms[k]]))
            refuse(finder, "does not support keys, values or gates that depend on the state");
        if (terms[k] != NONE)
            rule->phase[terms[k]] = ECO_MATRIX_BEFORE;
    }
    for (int s = 0; s < recipe->n_states; s++)
        if (s != rule->state) {
            rule->phase[recipe->next[s]] = ECO_MATRIX_BEFORE;
            if (s > 0 && finder->after[recipe->next[s]])
                refuse(finder, "does not support other states that depend on what a step reads");
        }
    for (int i = rule->n_nodes - 1; i >= 0; i--) {
        const struct eco_node *node = &recipe->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        if (rule->phase[i] == ECO_MATRIX_UNUSED)
            continue;
        rule->phase[i] = finder->after[i] ? ECO_MATRIX_AFTER : ECO_MATRIX_BEFORE;
        if (finder->reads[i])
            refuse(finder, "does not support y or other states that depend on the previous state");
        if (node->op == ECO_OP_STATE && node->index == 0)
            refuse(finder, "does not support a step that reads the previous y");
        for (int k = 0; k < 3 && i != rule->out; k++)
            if (argument[k] >= 0)
                rule->phase[argument[k]] = ECO_MATRIX_BEFORE;
    }
}

void eco_matrix_find(struct eco_recipe *recipe, struct eco_matrix_rule *rule)
{
    static const struct eco_matrix_rule none = {.decay = NONE,
                                                .read = NONE,
                                                .scale = NONE,
                                                .other = NONE,
                                                .key = NONE,
                                                .value = NONE,
                                                .query = NONE,
                                                .out = NONE};
    const int text = recipe->n_nodes;
    struct finder finder = {.recipe = recipe, .rule = rule};
    *rule = none;
    for (int s = 1; s < recipe->n_states; s++)
        if (recipe->state_kind[s] == ECO_KIND_MATRIX)
            rule->state = (int16_t)s;
        else
            rule->remembers = true;
    for (int i = 0; i < text && finder.refusal == NULL; i++)
        find_node(&finder, i);
    if (finder.refusal == NULL && rule->out == NONE)
        refuse(&finder, "needs a y that reads the next state");
    if (finder.refusal == NULL)
        find_terms(&finder);
    rule->n_nodes = recipe->n_nodes;
    if (finder.refusal == NULL)
        find_phases(&finder);
    rule->refusal = finder.refusal;
    recipe->n_nodes = text;
}
