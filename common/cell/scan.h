/*
 * The words of a cell's text: tokens with their place.  Knows the alphabet, not the grammar.
 */
#ifndef ECO_SCAN_H
#define ECO_SCAN_H

#include "common/cell/cell.h"
#include "common/util.h"

enum { ECO_MAX_DIGITS = 256 }; /* characters of a number, less those of its exponent */

enum eco_token_kind {
    ECO_TOKEN_END,    /* of the text                                             */
    ECO_TOKEN_LINE,   /* end of a line; not inside parentheses                   */
    ECO_TOKEN_NAME,   /* letters, digits and _; primed: with a ' behind          */
    ECO_TOKEN_NUMBER, /* number is its value                                     */
    ECO_TOKEN_SYMBOL  /* one character: *text                                    */
};

struct eco_token {
    enum eco_token_kind kind;
    const char *text; /* not terminated */
    int length;       /* without the prime */
    int line, column; /* from 1; a byte is a column */
    bool primed;
    double number;
};

struct eco_scanner {
    const char *at;
    int line, column;
    int open;               /* parentheses */
    struct eco_token token; /* the current one */
    struct eco_cell_error *error;
    bool failed;
};

/* The first token is then the current one.  -1: failed, as in all of the parser. */
int eco_scan_begin(struct eco_scanner *scanner, const char *text, struct eco_cell_error *error);
/* The next token becomes the current one; a name may contain '-' where dashed. */
void eco_scan_next(struct eco_scanner *scanner, bool dashed);
bool eco_scan_is(const struct eco_scanner *scanner, char symbol);
bool eco_token_equals(const struct eco_token *token, const char *text);
/* Fills error with the token's place and the text, where found with ", found TOKEN", unless an
 * error is there already.  Returns -1. */
int eco_scan_fail(struct eco_scanner *scanner, const struct eco_token *token, bool found,
                  const char *format, ...) ECO_PRINTF(4, 5);

/* decimal.c: digits with at most one point among them, times 10^exponent, where the point stands
 * for nothing: the nearest double; HUGE_VAL where it is beyond all floats. */
double eco_decimal(const char *digits, int length, int exponent);

#endif /* ECO_SCAN_H */
