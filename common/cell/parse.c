/*
 * Parses the lines of a cell's text: the head, assignments, and the checks once all lines are read.
 */
#include "common/cell/parse.h"

#include <string.h>

static int expect_name(struct eco_parser *parser, const char *what)
{
    const struct eco_token *token = &parser->scan.token;
    if (token->kind != ECO_TOKEN_NAME)
        return eco_scan_fail(&parser->scan, token, true, "expected %s", what);
    if (eco_token_equals(token, eco_opcode_info[ECO_OP_STOP].name))
        return eco_scan_fail(&parser->scan, token, false,
                             "'stop' cannot be a name any more: stop(a) is now the value of a "
                             "without a gradient; choose another");
    if (eco_parse_reserved(parser->recipe, token))
        return eco_scan_fail(&parser->scan, token, false, "'%.*s' is a word of the language",
                             token->length, token->text);
    return parser->scan.failed ? -1 : 0;
}

static int expect_line_end(struct eco_parser *parser)
{
    const struct eco_token *token = &parser->scan.token;
    if (token->kind != ECO_TOKEN_LINE && token->kind != ECO_TOKEN_END)
        return eco_scan_fail(&parser->scan, token, true, "expected the end of the line");
    while (parser->scan.token.kind == ECO_TOKEN_LINE)
        eco_scan_next(&parser->scan, false);
    return parser->scan.failed ? -1 : 0;
}

/* NAME = NUMBER: the state's start value; without it 0. */
static int parse_start(struct eco_parser *parser, double *start)
{
    struct eco_scanner *scan = &parser->scan;
    if (!eco_scan_is(scan, '='))
        return 0;
    eco_scan_next(scan, false);
    const bool negative = eco_scan_is(scan, '-');
    if (negative)
        eco_scan_next(scan, false);
    if (scan->token.kind != ECO_TOKEN_NUMBER)
        return eco_scan_fail(scan, &scan->token, true, "expected a number");
    *start = negative ? -scan->token.number : scan->token.number;
    eco_scan_next(scan, false);
    return scan->failed ? -1 : 0;
}

/* [K,V], [K], [V] or [1]: the kind of a state or of a part of x in a cell with a matrix state. */
static int parse_kind(struct eco_parser *parser)
{
    struct eco_scanner *scan = &parser->scan;
    const struct eco_token size = scan->token;
    const bool key = eco_token_equals(&size, "K"), value = eco_token_equals(&size, "V"),
               number = size.kind == ECO_TOKEN_NUMBER && size.number == 1;
    if (!(key || value || number) || size.primed)
        return eco_scan_fail(scan, &size, true, "expected K, V or 1, of a head");
    eco_scan_next(scan, false);
    if (!key || !eco_scan_is(scan, ','))
        return key ? ECO_KIND_KEY : value ? ECO_KIND_VALUE : ECO_KIND_NUMBER;
    eco_scan_next(scan, false);
    if (!eco_token_equals(&scan->token, "V") || scan->token.primed)
        return eco_scan_fail(scan, &scan->token, true, "expected V");
    eco_scan_next(scan, false);
    return ECO_KIND_MATRIX;
}

/* The size of a state, in brackets.  The first state is y, which has none. */
static int parse_state_kind(struct eco_parser *parser)
{
    struct eco_recipe *recipe = parser->recipe;
    struct eco_scanner *scan = &parser->scan;
    const struct eco_token bracket = scan->token;
    if (!eco_scan_is(scan, '['))
        return 0;
    if (recipe->n_states == 1)
        return eco_scan_fail(scan, &bracket, false,
                             "the first state is y, a value [V] of each head: it has no size here");
    eco_scan_next(scan, false);
    const int kind = parse_kind(parser);
    for (int s = 1; kind == ECO_KIND_MATRIX && s + 1 < recipe->n_states; s++)
        if (recipe->state_kind[s] == ECO_KIND_MATRIX)
            return eco_scan_fail(scan, &bracket, false, "a cell has one state [K,V], not two");
    if (kind < 0)
        return -1;
    recipe->state_kind[recipe->n_states - 1] = (uint8_t)kind;
    return eco_scan_expect(scan, ']');
}

/* With a size in the head it is a cell with a matrix state; all states but the first have one. */
static int check_kinds(struct eco_parser *parser)
{
    struct eco_recipe *recipe = parser->recipe;
    int sized = 0, matrices = 0;
    for (int s = 1; s < recipe->n_states; s++) {
        sized += recipe->state_kind[s] != ECO_KIND_UNITS;
        matrices += recipe->state_kind[s] == ECO_KIND_MATRIX;
    }
    if (sized > 0 && (sized < recipe->n_states - 1 || matrices == 0))
        return eco_scan_fail(&parser->scan, &parser->state[recipe->n_states - 1], false,
                             "a cell with sizes of states has one for each but the first, "
                             "and one is [K,V]");
    recipe->matrix = matrices > 0;
    if (recipe->matrix)
        recipe->state_kind[0] = ECO_KIND_VALUE;
    return 0;
}

static int parse_state(struct eco_parser *parser)
{
    struct eco_recipe *recipe = parser->recipe;
    const struct eco_token token = parser->scan.token;
    if (expect_name(parser, "a state's name") < 0)
        return -1;
    if (token.primed)
        return eco_scan_fail(&parser->scan, &token, false, "a state's name stands here without '");
    if (eco_parse_find_state(parser, &token) >= 0)
        return eco_scan_fail(&parser->scan, &token, false, "there is already a state '%.*s'",
                             token.length, token.text);
    if (recipe->n_states == ECO_MAX_STATES)
        return eco_scan_fail(&parser->scan, &token, false, "the cell has more than %d states",
                             ECO_MAX_STATES);
    memcpy(recipe->state[recipe->n_states], token.text, (size_t)token.length);
    recipe->next[recipe->n_states] = -1;
    parser->state[recipe->n_states++] = token;
    eco_scan_next(&parser->scan, false);
    if (parser->scan.failed || parse_state_kind(parser) < 0)
        return -1;
    return parse_start(parser, &recipe->start[recipe->n_states - 1]);
}

/* The place of a part's name is kept for errors. */
static int check_part_name(struct eco_parser *parser, const struct eco_token *token)
{
    if (expect_name(parser, "the name of a part of x") < 0)
        return -1;
    if (token->primed)
        return eco_scan_fail(&parser->scan, token, false, "a part's name has no '");
    if (eco_parse_find_state(parser, token) >= 0 || eco_parse_find_part(parser, token) >= 0)
        return eco_scan_fail(&parser->scan, token, false, "there is already a %s '%.*s'",
                             eco_parse_find_state(parser, token) >= 0 ? "state" : "part",
                             token->length, token->text);
    if (parser->recipe->n_parts == ECO_MAX_PARTS)
        return eco_scan_fail(&parser->scan, token, false, "x has more than %d parts",
                             ECO_MAX_PARTS);
    return 0;
}

/* 1 or H, or, with a matrix state, 1, K or V */
static int parse_part_kind(struct eco_parser *parser)
{
    struct eco_scanner *scan = &parser->scan;
    const struct eco_token size = scan->token;
    const bool single = size.kind == ECO_TOKEN_NUMBER && size.number == 1;
    if (parser->recipe->matrix) {
        const int kind = parse_kind(parser);
        return kind == ECO_KIND_MATRIX
                   ? eco_scan_fail(scan, &size, false, "a part of x is [K], [V] or [1]")
                   : kind;
    }
    if (!single && (!eco_token_equals(&size, "H") || size.primed))
        return eco_scan_fail(scan, &size, true,
                             "expected 1, for a number a row, or H, for one a unit");
    eco_scan_next(scan, false);
    return single ? ECO_KIND_NUMBER : ECO_KIND_UNITS;
}

/* NAME[SIZE] */
static int parse_part(struct eco_parser *parser)
{
    struct eco_scanner *scan = &parser->scan;
    const struct eco_token name = scan->token;
    if (check_part_name(parser, &name) < 0)
        return -1;
    eco_scan_next(scan, false);
    if (eco_scan_expect(&parser->scan, '[') < 0)
        return -1;
    const int kind = parse_part_kind(parser);
    if (kind < 0)
        return -1;
    struct eco_recipe_part *part = &parser->recipe->part[parser->recipe->n_parts];
    part->kind = (uint8_t)kind;
    memcpy(part->name, name.text, (size_t)name.length);
    parser->part[parser->recipe->n_parts++] = name;
    return eco_scan_expect(&parser->scan, ']');
}

/* -> state, ...: y has these side by side.  They are the first states, in the order of the head. */
static int parse_outputs(struct eco_parser *parser)
{
    struct eco_scanner *scan = &parser->scan;
    struct eco_recipe *recipe = parser->recipe;
    recipe->n_outputs = 1;
    if (!eco_scan_is(scan, '-'))
        return 0;
    eco_scan_next(scan, false);
    if (eco_scan_expect(&parser->scan, '>') < 0)
        return -1;
    for (int n = 0;; eco_scan_next(scan, false)) {
        const bool is_name = scan->token.kind == ECO_TOKEN_NAME && !scan->token.primed;
        if (n == recipe->n_states)
            return eco_scan_fail(scan, &scan->token, true, "y has all %d states already", n);
        if (!is_name || eco_parse_find_state(parser, &scan->token) != n)
            return eco_scan_fail(scan, &scan->token, true,
                                 "y has the first states in their order: expected '%s'",
                                 recipe->state[n]);
        recipe->n_outputs = ++n;
        eco_scan_next(scan, false);
        if (scan->failed || !eco_scan_is(scan, ','))
            return scan->failed ? -1 : 0;
    }
}

/* cell NAME(state, ...), each state with or without a start value; after a semicolon parts of x;
 * after the parenthesis the states of y */
static int parse_head(struct eco_parser *parser)
{
    struct eco_scanner *scan = &parser->scan;
    while (scan->token.kind == ECO_TOKEN_LINE)
        eco_scan_next(scan, false);
    if (!eco_token_equals(&scan->token, "cell") || scan->token.primed)
        return eco_scan_fail(scan, &scan->token, true, "expected 'cell NAME(STATE, ...)'");
    eco_scan_next(scan, true);
    if (scan->token.kind != ECO_TOKEN_NAME || scan->token.primed)
        return eco_scan_fail(scan, &scan->token, true, "expected the cell's name");
    if (scan->failed)
        return -1;
    memcpy(parser->recipe->name, scan->token.text, (size_t)scan->token.length);
    eco_scan_next(scan, false);
    if (eco_scan_expect(&parser->scan, '(') < 0 || parse_state(parser) < 0)
        return -1;
    while (eco_scan_is(scan, ',')) {
        eco_scan_next(scan, false);
        if (parse_state(parser) < 0)
            return -1;
    }
    if (check_kinds(parser) < 0)
        return -1;
    for (bool more = eco_scan_is(scan, ';'); more; more = eco_scan_is(scan, ',')) {
        eco_scan_next(scan, false);
        if (parse_part(parser) < 0)
            return -1;
    }
    if (eco_scan_expect(&parser->scan, ')') < 0 || parse_outputs(parser) < 0)
        return -1;
    return expect_line_end(parser);
}

static int check_line_name(struct eco_parser *parser, const struct eco_token *token)
{
    struct eco_scanner *scan = &parser->scan;
    const int state = eco_parse_find_state(parser, token);
    if (expect_name(parser, "a line NAME = ...") < 0)
        return -1;
    if (parser->n_lines == ECO_MAX_SOURCE)
        return eco_scan_fail(scan, token, false, "the cell has more than %d lines", ECO_MAX_SOURCE);
    if (state >= 0 && !token->primed)
        return eco_scan_fail(scan, token, false,
                             "'%.*s' is a state: its next value is written %.*s'", token->length,
                             token->text, token->length, token->text);
    if (state < 0 && token->primed)
        return eco_scan_fail(scan, token, false, "there is no state '%.*s'", token->length,
                             token->text);
    if (eco_parse_find_part(parser, token) >= 0)
        return eco_scan_fail(scan, token, false, "'%.*s' is a part of x", token->length,
                             token->text);
    const int line = eco_parse_find_line(parser, token);
    if (line >= 0)
        return eco_scan_fail(scan, token, false, "'%.*s%s' was assigned in line %d", token->length,
                             token->text, token->primed ? "'" : "", parser->line[line].name.line);
    return 0;
}

/* NAME = expression */
static int parse_line(struct eco_parser *parser)
{
    const struct eco_token name = parser->scan.token;
    if (check_line_name(parser, &name) < 0)
        return -1;
    struct eco_line *line = &parser->line[parser->n_lines];
    *line = (struct eco_line){name, -1, name.primed};
    eco_scan_next(&parser->scan, false);
    if (eco_scan_expect(&parser->scan, '=') < 0)
        return -1;
    line->node = eco_parse_expression(parser);
    if (line->node < 0)
        return -1;
    if (name.primed && eco_parse_check_state(parser, &name, line->node) < 0)
        return -1;
    if (name.primed)
        parser->recipe->next[eco_parse_find_state(parser, &name)] = (int16_t)line->node;
    parser->n_lines++;
    return expect_line_end(parser);
}

/* Checks that every line and part is used, and every state has a next value. */
static int check_complete(struct eco_parser *parser)
{
    const struct eco_recipe *recipe = parser->recipe;
    for (int s = 0; s < recipe->n_states; s++)
        if (recipe->next[s] < 0)
            return eco_scan_fail(&parser->scan, &parser->state[s], false,
                                 "the state '%s' has no next value: a line %s' = ... is missing",
                                 recipe->state[s], recipe->state[s]);
    for (int i = 0; i < parser->n_lines; i++) {
        const struct eco_token *name = &parser->line[i].name;
        if (!parser->line[i].used)
            return eco_scan_fail(&parser->scan, name, false, "'%.*s' is never used", name->length,
                                 name->text);
    }
    bool keyed = !recipe->matrix;
    for (int k = 0; k < recipe->n_parts; k++)
        keyed = keyed || recipe->part[k].kind == ECO_KIND_KEY;
    if (!keyed)
        return eco_scan_fail(&parser->scan, &parser->state[1], false,
                             "a cell with a matrix state has a part of x of size [K]");
    for (int k = 0; k < recipe->n_parts; k++)
        if (!parser->part_used[k])
            return eco_scan_fail(&parser->scan, &parser->part[k], false,
                                 "the part '%s' of x is never used", recipe->part[k].name);
    return 0;
}

/* Reorders parameters from the text's order to the block's: W, then R, then vectors. */
static void sort_params(struct eco_recipe *recipe)
{
    struct eco_recipe_param sorted[ECO_MAX_PARAMS];
    int n = 0;
    for (int kind = ECO_PARAM_W; kind <= ECO_PARAM_VECTOR; kind++)
        for (int i = 0; i < recipe->n_params; i++)
            if (recipe->param[i].kind == kind)
                sorted[n++] = recipe->param[i];
    for (int i = 0; i < n; i++) {
        recipe->param[i] = sorted[i];
        recipe->node[sorted[i].node].index = (int16_t)i;
    }
}

bool eco_cell_parse(struct eco_recipe *recipe, const char *text, struct eco_cell_error *error)
{
    struct eco_parser parser = {.recipe = recipe};
    memset(recipe, 0, sizeof *recipe);
    memset(error, 0, sizeof *error);
    if (eco_scan_begin(&parser.scan, text, error) < 0 || parse_head(&parser) < 0)
        return false;
    while (parser.scan.token.kind != ECO_TOKEN_END)
        if (parse_line(&parser) < 0)
            return false;
    if (check_complete(&parser) < 0)
        return false;
    sort_params(recipe);
    return true;
}
