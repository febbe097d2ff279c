/*
 * Tokens of a cell's text, with their position.  Knows the alphabet, not the grammar.
 */
#ifndef ECO_SCAN_H
#define ECO_SCAN_H

#include "common/cell/cell.h"
#include "common/util.h"

enum { ECO_MAX_DIGITS = 256 }; /* characters of a number without its exponent */

enum eco_token_kind {
    ECO_TOKEN_END,    /* end of the text */
    ECO_TOKEN_LINE,   /* end of a line, except inside parentheses */
    ECO_TOKEN_NAME,   /* letters, digits and _; primed: followed by a ' */
    ECO_TOKEN_NUMBER, /* `number` is its value */
    ECO_TOKEN_SYMBOL  /* one character, *text */
};

struct eco_token {
    enum eco_token_kind kind;
    const char *text; /* not terminated */
    int length;       /* without the prime */
    int line, column; /* counted from 1; each byte is a column */
    bool primed;
    double number;
};

struct eco_scanner {
    const char *at;
    int line, column;
    int open;               /* open parentheses */
    struct eco_token token; /* the current one */
    struct eco_cell_error *error;
    bool failed;
};

/* Makes the first token current.  Returns -1 on failure, as the whole parser does. */
int eco_scan_begin(struct eco_scanner *scanner, const char *text, struct eco_cell_error *error);
/* Makes the next token current.  With `dashed`, a name may contain '-'. */
void eco_scan_next(struct eco_scanner *scanner, bool dashed);
bool eco_scan_is(const struct eco_scanner *scanner, char symbol);
/* Makes the token after the symbol current; -1 if the current one is another. */
int eco_scan_expect(struct eco_scanner *scanner, char symbol);
bool eco_token_equals(const struct eco_token *token, const char *text);
/* Fills in error with the token's position and the message, with ", found TOKEN" added if found is
 * set.  Keeps an earlier error.  Returns -1. */
int eco_scan_fail(struct eco_scanner *scanner, const struct eco_token *token, bool found,
                  const char *format, ...) ECO_PRINTF(4, 5);

/* decimal.c: the double nearest to the digits, with at most one '.' among them that is ignored,
 * times 10^exponent; HUGE_VAL if it exceeds all floats. */
double eco_decimal(const char *digits, int length, int exponent);

#endif /* ECO_SCAN_H */
