/*
 * Parses expressions of a cell's text by recursive descent: sum, term, unary, primary.  Depth,
 * parameters and nodes are bounded here, because a text may come from an untrusted source.
 */
#include "common/cell/parse.h"

#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "common/util.h"

enum { MAX_DEPTH = 64 }; /* of parentheses and signs */

static int parse_sum(struct eco_parser *parser);

/* ---- kinds of values in a cell with a matrix state ------------------------------------------- */

static const char *const kind_name[] = {"units", "a number [1]", "a key [K]", "a value [V]",
                                        "a matrix [K,V]"};

/* What is not there: parameters and draws, and the input without parts. */
static bool is_missing(const struct eco_node *node)
{
    return node->op == ECO_OP_INPUT || node->op == ECO_OP_PRODUCT || node->op == ECO_OP_VECTOR ||
           node->op == ECO_OP_BERNOULLI || (node->op == ECO_OP_X && node->index == 0);
}

static int check_kind(struct eco_parser *parser, const struct eco_token *token,
                      const struct eco_node *node)
{
    const struct eco_recipe *recipe = parser->recipe;
    const int16_t argument[3] = {node->a, node->b, node->c};
    char list[120] = "";
    struct eco_text text = {list, sizeof list, 0};
    if (!recipe->matrix)
        return 0;
    if (is_missing(node))
        return eco_scan_fail(&parser->scan, token, false,
                             "a cell with a matrix state has no '%.*s': what it learns is made "
                             "outside, as parts of x",
                             token->length, token->text);
    if (eco_recipe_kind(recipe, node) >= 0)
        return 0;
    for (int k = 0; k < 3 && argument[k] >= 0; k++)
        eco_text_add(&text, "%s%s", k > 0 ? ", " : "", kind_name[recipe->kind[argument[k]]]);
    return eco_scan_fail(&parser->scan, token, false, "%s does not go with %s",
                         eco_opcode_info[node->op].name, list);
}

int eco_parse_check_state(struct eco_parser *parser, const struct eco_token *name, int node)
{
    const struct eco_recipe *recipe = parser->recipe;
    const int wanted = recipe->state_kind[eco_parse_find_state(parser, name)];
    const int kind = recipe->kind[node];
    if (kind == wanted)
        return 0;
    return eco_scan_fail(&parser->scan, name, false, "%.*s' is %s, but its line gives %s",
                         name->length, name->text, kind_name[wanted], kind_name[kind]);
}

static int add_node(struct eco_parser *parser, const struct eco_token *token, struct eco_node node)
{
    struct eco_recipe *recipe = parser->recipe;
    if (check_kind(parser, token, &node) < 0)
        return -1;
    const int at = eco_recipe_add(recipe, node);
    if (at < 0 || recipe->n_nodes > ECO_MAX_SOURCE)
        eco_scan_fail(&parser->scan, token, false, "the cell has more than %d values here",
                      ECO_MAX_SOURCE);
    else if (recipe->n_means > ECO_MAX_MEANS)
        eco_scan_fail(&parser->scan, token, false, "the cell has more than %d means here",
                      ECO_MAX_MEANS);
    return parser->scan.failed ? -1 : at;
}

static int add_op(struct eco_parser *parser, const struct eco_token *token, int op, const int *arg)
{
    return add_node(
        parser, token,
        (struct eco_node){(int16_t)op, (int16_t)arg[0], (int16_t)arg[1], (int16_t)arg[2], 0, 0});
}

static int expect_close(struct eco_parser *parser, const struct eco_token *open)
{
    if (!eco_scan_is(&parser->scan, ')'))
        return eco_scan_fail(&parser->scan, &parser->scan.token, true,
                             "expected ')' for the '(' at %d:%d", open->line, open->column);
    eco_scan_next(&parser->scan, false);
    return parser->scan.failed ? -1 : 0;
}

bool eco_parse_reserved(const struct eco_recipe *recipe, const struct eco_token *token)
{
    static const char *const words[] = {"cell", "x", "W", "R", "b", "p"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (eco_token_equals(token, words[i]))
            return true;
    for (int op = 0; op < ECO_OPCODES; op++)
        if (eco_parse_is_function(recipe, op) && eco_token_equals(token, eco_opcode_info[op].name))
            return true;
    return false;
}

int eco_parse_find_state(const struct eco_parser *parser, const struct eco_token *token)
{
    for (int s = 0; s < parser->recipe->n_states; s++)
        if (eco_token_equals(token, parser->recipe->state[s]))
            return s;
    return -1;
}

int eco_parse_find_part(const struct eco_parser *parser, const struct eco_token *token)
{
    for (int k = 0; k < parser->recipe->n_parts; k++)
        if (eco_token_equals(token, parser->recipe->part[k].name))
            return k;
    return -1;
}

int eco_parse_find_line(const struct eco_parser *parser, const struct eco_token *token)
{
    for (int i = 0; i < parser->n_lines; i++) {
        const struct eco_token *name = &parser->line[i].name;
        if (name->primed == token->primed && name->length == token->length &&
            memcmp(name->text, token->text, (size_t)token->length) == 0)
            return i;
    }
    return -1;
}

static int count_operands(const struct eco_recipe *recipe, int operand)
{
    bool seen[ECO_MAX_SOURCE + 1] = {false};
    int n = 1;
    seen[operand] = true;
    for (int i = 0; i < recipe->n_params; i++) {
        if (recipe->param[i].kind != ECO_PARAM_R)
            continue;
        const int a = recipe->node[recipe->param[i].node].a;
        n += !seen[a];
        seen[a] = true;
    }
    return n;
}

static int add_param(struct eco_parser *parser, const struct eco_token *token, int kind,
                     int operand)
{
    static const uint8_t op[] = {ECO_OP_INPUT, ECO_OP_PRODUCT, ECO_OP_VECTOR};
    struct eco_recipe *recipe = parser->recipe;
    const struct eco_token *line = &parser->line[parser->n_lines].name;
    char name[ECO_MAX_NAME + 4];
    snprintf(name, sizeof name, "%.1s.%.*s", token->text, line->length, line->text);
    for (int i = 0; i < recipe->n_params; i++)
        if (strcmp(recipe->param[i].name, name) == 0)
            return eco_scan_fail(&parser->scan, token, false,
                                 "line '%s' already has a %.1s; give it a line of its own",
                                 name + 2, name);
    if (recipe->n_params == ECO_MAX_WRITTEN)
        return eco_scan_fail(&parser->scan, token, false,
                             "the cell has more than %d parameters here", ECO_MAX_WRITTEN);
    if (kind == ECO_PARAM_R && count_operands(recipe, operand) > ECO_MAX_OPERANDS)
        return eco_scan_fail(&parser->scan, token, false, "R has more than %d different operands",
                             ECO_MAX_OPERANDS);
    const int index = recipe->n_params;
    const int node = add_node(
        parser, token, (struct eco_node){op[kind], (int16_t)operand, -1, -1, (int16_t)index, 0});
    if (node < 0)
        return -1;
    struct eco_recipe_param *param = &recipe->param[recipe->n_params++];
    param->kind = (uint8_t)kind, param->node = (int16_t)node;
    memcpy(param->name, name, sizeof name);
    return node;
}

static int parse_group(struct eco_parser *parser)
{
    const struct eco_token open = parser->scan.token;
    eco_scan_next(&parser->scan, false);
    const int node = parse_sum(parser);
    return node < 0 || expect_close(parser, &open) < 0 ? -1 : node;
}

/* x itself, or a part of it, which is named by `part`; -1: itself. */
static int add_x(struct eco_parser *parser, const struct eco_token *token, int part)
{
    if (part >= 0)
        parser->part_used[part] = true;
    return add_node(parser, token, (struct eco_node){ECO_OP_X, -1, -1, -1, (int16_t)(part + 1), 0});
}

static int parse_name(struct eco_parser *parser)
{
    const struct eco_token token = parser->scan.token;
    const bool x = eco_token_equals(&token, "x");
    const int part = token.primed ? -1 : eco_parse_find_part(parser, &token);
    if (eco_parse_reserved(parser->recipe, &token) && !x)
        return eco_scan_fail(&parser->scan, &token, true, "expected a value");
    eco_scan_next(&parser->scan, false);
    if (x || part >= 0)
        return add_x(parser, &token, part);
    const int line = eco_parse_find_line(parser, &token);
    if (line >= 0) {
        parser->line[line].used = true;
        return parser->line[line].node;
    }
    const int state = eco_parse_find_state(parser, &token);
    if (state < 0 && !token.primed && eco_scan_is(&parser->scan, '('))
        return eco_parse_suggest(parser, &token);
    if (state < 0 || token.primed)
        return eco_scan_fail(&parser->scan, &token, false,
                             "'%.*s%s' has no value yet: lines above may assign one", token.length,
                             token.text, token.primed ? "'" : "");
    return add_node(parser, &token, (struct eco_node){ECO_OP_STATE, -1, -1, -1, (int16_t)state, 0});
}

/* W x, R name, R (expression), b, p */
static int parse_param(struct eco_parser *parser)
{
    const struct eco_token token = parser->scan.token;
    eco_scan_next(&parser->scan, false);
    const struct eco_token *next = &parser->scan.token;
    if (*token.text == 'W') {
        if (!eco_token_equals(next, "x") || next->primed)
            return eco_scan_fail(&parser->scan, next, true, "expected x after W");
        eco_scan_next(&parser->scan, false);
        return add_param(parser, &token, ECO_PARAM_W, -1);
    }
    if (*token.text != 'R')
        return add_param(parser, &token, ECO_PARAM_VECTOR, -1);
    int operand;
    if (eco_scan_is(&parser->scan, '('))
        operand = parse_group(parser);
    else if (next->kind == ECO_TOKEN_NAME && !eco_parse_reserved(parser->recipe, next))
        operand = parse_name(parser);
    else
        return eco_scan_fail(&parser->scan, next, true, "expected a name or '(' after R");
    return operand < 0 ? -1 : add_param(parser, &token, ECO_PARAM_R, operand);
}

/* The option that may follow a function's arguments: bernoulli(p, once), mean(a, head). */
static const char *const option[ECO_OPCODES] = {
    [ECO_OP_BERNOULLI] = "once", [ECO_OP_MEAN] = "head"};

/* 1: the option is there; 0: the arguments end without it. */
static int parse_option(struct eco_parser *parser, int op)
{
    if (option[op] == NULL || !eco_scan_is(&parser->scan, ','))
        return 0;
    eco_scan_next(&parser->scan, false);
    const struct eco_token *token = &parser->scan.token;
    if (!eco_token_equals(token, option[op]) || token->primed)
        return eco_scan_fail(&parser->scan, token, true, "expected '%s'", option[op]);
    eco_scan_next(&parser->scan, false);
    return 1;
}

/* Returns 1 with the option. */
static int parse_arguments(struct eco_parser *parser, int op, int argument[3])
{
    const int n = op == ECO_OP_BERNOULLI ? 1 : eco_opcode_info[op].arguments;
    const struct eco_token open = parser->scan.token;
    if (eco_scan_expect(&parser->scan, '(') < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        argument[i] = parse_sum(parser);
        if (argument[i] < 0)
            return -1;
        const bool comma = eco_scan_is(&parser->scan, ','), last = i + 1 == n;
        if (comma == last && !(last && option[op]) && (comma || eco_scan_is(&parser->scan, ')')))
            return eco_scan_fail(&parser->scan, &parser->scan.token, false,
                                 "%s takes %d argument%s", eco_opcode_info[op].name, n,
                                 n == 1 ? "" : "s");
        if (!last && eco_scan_expect(&parser->scan, ',') < 0)
            return -1;
    }
    const int has = parse_option(parser, op);
    return has < 0 || expect_close(parser, &open) < 0 ? -1 : has;
}

static int parse_bernoulli(struct eco_parser *parser, const struct eco_token *name, int argument,
                           bool once)
{
    struct eco_recipe *recipe = parser->recipe;
    const struct eco_node *value = &recipe->node[argument];
    if (value->op != ECO_OP_CONST)
        return eco_scan_fail(&parser->scan, name, false,
                             "the probability of bernoulli must be a number");
    if (!(value->value >= 0 && value->value <= 1)) {
        char digits[32];
        struct eco_text text = {digits, sizeof digits, 0};
        eco_text_add(&text, "%g", value->value);
        return eco_scan_fail(&parser->scan, name, false,
                             "the probability of bernoulli is %s, must be 0 to 1", digits);
    }
    if (recipe->n_bernoulli == ECO_DRAW_ONCE)
        return eco_scan_fail(&parser->scan, name, false, "the cell has more than %d draws",
                             ECO_DRAW_ONCE);
    const int index = recipe->n_bernoulli++ | (once ? ECO_DRAW_ONCE : 0);
    return add_node(parser, name,
                    (struct eco_node){ECO_OP_BERNOULLI, -1, -1, -1, (int16_t)index, value->value});
}

/* A kernel computes either row means or head means. */
static int parse_mean(struct eco_parser *parser, const struct eco_token *name, const int *argument,
                      bool head)
{
    struct eco_recipe *recipe = parser->recipe;
    if (recipe->n_means > 0 && recipe->head_means != head)
        return eco_scan_fail(&parser->scan, name, false,
                             "means are over rows or over heads, not both in a cell");
    recipe->head_means = head;
    return add_op(parser, name, ECO_OP_MEAN, argument);
}

static int parse_function(struct eco_parser *parser)
{
    const struct eco_token name = parser->scan.token;
    int op = 0, argument[3] = {-1, -1, -1};
    while (!eco_opcode_info[op].function || !eco_token_equals(&name, eco_opcode_info[op].name))
        op++;
    eco_scan_next(&parser->scan, false);
    const int has = parse_arguments(parser, op, argument);
    if (has < 0)
        return -1;
    if (op == ECO_OP_MEAN)
        return parse_mean(parser, &name, argument, has);
    return op == ECO_OP_BERNOULLI ? parse_bernoulli(parser, &name, argument[0], has)
                                  : add_op(parser, &name, op, argument);
}

/* ^T KEY after a matrix */
static int parse_read(struct eco_parser *parser, int matrix)
{
    struct eco_scanner *scan = &parser->scan;
    const struct eco_token sign = scan->token;
    eco_scan_next(scan, false);
    if (!eco_token_equals(&scan->token, "T") || scan->token.primed)
        return eco_scan_fail(scan, &scan->token, true, "expected T after ^");
    eco_scan_next(scan, false);
    int argument[3] = {matrix, -1, -1};
    if (eco_scan_is(scan, '('))
        argument[1] = parse_group(parser);
    else if (scan->token.kind == ECO_TOKEN_NAME &&
             !eco_parse_reserved(parser->recipe, &scan->token))
        argument[1] = parse_name(parser);
    else
        return eco_scan_fail(scan, &scan->token, true, "expected a name or '(' after ^T");
    return argument[1] < 0 ? -1 : add_op(parser, &sign, ECO_OP_READ, argument);
}

static int parse_primary(struct eco_parser *parser)
{
    const struct eco_token token = parser->scan.token;
    if (token.kind == ECO_TOKEN_NUMBER) {
        eco_scan_next(&parser->scan, false);
        return add_node(parser, &token,
                        (struct eco_node){ECO_OP_CONST, -1, -1, -1, 0, token.number});
    }
    if (eco_scan_is(&parser->scan, '('))
        return parse_group(parser);
    if (token.kind != ECO_TOKEN_NAME)
        return eco_scan_fail(&parser->scan, &token, true, "expected a value");
    if (token.primed && eco_parse_reserved(parser->recipe, &token))
        return eco_scan_fail(&parser->scan, &token, true, "expected a value");
    if (token.length == 1 && strchr("WRbp", *token.text) != NULL)
        return parse_param(parser);
    if (eco_parse_reserved(parser->recipe, &token) && !eco_token_equals(&token, "x") &&
        !eco_token_equals(&token, "cell"))
        return parse_function(parser);
    return parse_name(parser);
}

static int parse_unary(struct eco_parser *parser)
{
    const struct eco_token token = parser->scan.token;
    if (parser->scan.failed)
        return -1;
    if (parser->depth == MAX_DEPTH)
        return eco_scan_fail(&parser->scan, &token, false, "nested more than %d deep", MAX_DEPTH);
    parser->depth++;
    int argument[3] = {-1, -1, -1}, node;
    if (eco_scan_is(&parser->scan, '-')) {
        eco_scan_next(&parser->scan, false);
        argument[0] = parse_unary(parser);
        node = argument[0] < 0 ? -1 : add_op(parser, &token, ECO_OP_NEG, argument);
    } else {
        node = parse_primary(parser);
        if (node >= 0 && parser->recipe->matrix && eco_scan_is(&parser->scan, '^'))
            node = parse_read(parser, node);
    }
    parser->depth--;
    return node;
}

/* A left-associative chain of one precedence: next { symbol next }. */
static int parse_chain(struct eco_parser *parser, const char *symbols, const int *ops,
                       int (*next)(struct eco_parser *))
{
    int argument[3] = {next(parser), -1, -1};
    while (argument[0] >= 0) {
        const struct eco_token token = parser->scan.token;
        if (!eco_scan_is(&parser->scan, symbols[0]) && !eco_scan_is(&parser->scan, symbols[1]))
            break;
        eco_scan_next(&parser->scan, false);
        argument[1] = next(parser);
        if (argument[1] < 0)
            return -1;
        argument[0] = add_op(parser, &token, ops[*token.text == symbols[1]], argument);
    }
    return argument[0];
}

static int parse_term(struct eco_parser *parser)
{
    static const int ops[] = {ECO_OP_MUL, ECO_OP_DIV};
    return parse_chain(parser, "*/", ops, parse_unary);
}

static int parse_sum(struct eco_parser *parser)
{
    static const int ops[] = {ECO_OP_ADD, ECO_OP_SUB};
    return parse_chain(parser, "+-", ops, parse_term);
}

int eco_parse_expression(struct eco_parser *parser)
{
    const int node = parse_sum(parser);
    return parser->scan.failed ? -1 : node;
}
