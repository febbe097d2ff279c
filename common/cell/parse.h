/*
 * Shared by the two halves of the parser: lines (parse.c) and expressions (expression.c).
 */
#ifndef ECO_PARSE_H
#define ECO_PARSE_H

#include "common/cell/cell.h"
#include "common/cell/scan.h"

/* A line that was read, and the node its name stands for. */
struct eco_line {
    struct eco_token name; /* primed: a state's next value */
    int node;
    bool used;
};

struct eco_parser {
    struct eco_scanner scan;
    struct eco_recipe *recipe;
    int n_lines, depth;
    struct eco_line line[ECO_MAX_SOURCE];
    struct eco_token state[ECO_MAX_STATES], part[ECO_MAX_PARTS];
    bool part_used[ECO_MAX_PARTS];
};

/* expression.c: parses the right side of line n_lines; -1: failed. */
int eco_parse_expression(struct eco_parser *parser);
/* Is the opcode a function of a text?  Those of matrix states are only in cells that have one. */
static inline bool eco_parse_is_function(const struct eco_recipe *recipe, int op)
{
    return eco_opcode_info[op].function && (op < ECO_OP_OUTER || recipe->matrix);
}
/* Is the name a word of the language, and so not available? */
bool eco_parse_reserved(const struct eco_recipe *recipe, const struct eco_token *token);
/* In a cell with a matrix state: does the state's next value have its kind?  -1: failed. */
int eco_parse_check_state(struct eco_parser *parser, const struct eco_token *name, int node);
/* The state, part of x, or line, of this name; -1: none. */
int eco_parse_find_state(const struct eco_parser *parser, const struct eco_token *token);
int eco_parse_find_part(const struct eco_parser *parser, const struct eco_token *token);
int eco_parse_find_line(const struct eco_parser *parser, const struct eco_token *token);

/* suggest.c: fails because there is no such function, and suggests what to write; returns -1. */
int eco_parse_suggest(struct eco_parser *parser, const struct eco_token *token);

#endif /* ECO_PARSE_H */
