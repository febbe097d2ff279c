/*
 * Text to tokens.  Does not use the C library's character classes and number conversion, which
 * depend on the application's locale.
 */
#include "common/cell/scan.h"

#include <stdio.h>
#include <string.h>

#include "common/util.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void describe(const struct eco_token *token, char *text, size_t size)
{
    const int most = ECO_MAX_NAME + 4;
    const unsigned char first = (unsigned char)*token->text;
    if (token->kind == ECO_TOKEN_END)
        snprintf(text, size, "the end of the text");
    else if (token->kind == ECO_TOKEN_LINE)
        snprintf(text, size, "the end of the line");
    else if (first < 0x20 || first > 0x7e)
        snprintf(text, size, "byte 0x%02x", first);
    else
        snprintf(text, size, "'%.*s%s%s'", token->length < most ? token->length : most, token->text,
                 token->length > most ? "..." : "", token->primed ? "'" : "");
}

int eco_scan_fail(struct eco_scanner *scanner, const struct eco_token *token, bool found,
                  const char *format, ...)
{
    struct eco_cell_error *error = scanner->error;
    if (scanner->failed)
        return -1;
    scanner->failed = true;
    error->line = token->line, error->column = token->column;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    if (found) {
        char text[ECO_MAX_NAME + 16];
        describe(token, text, sizeof text);
        const size_t length = strlen(error->message);
        snprintf(error->message + length, sizeof error->message - length, ", found %s", text);
    }
    return -1;
}

static void skip(struct eco_scanner *scanner)
{
    for (;; scanner->at++, scanner->column++) {
        if (*scanner->at == '#')
            while (scanner->at[1] != 0 && scanner->at[1] != '\n')
                scanner->at++, scanner->column++;
        else if (*scanner->at == '\n' && scanner->open > 0)
            scanner->line++, scanner->column = 0;
        else if (*scanner->at != ' ' && *scanner->at != '\t' && *scanner->at != '\r')
            return;
    }
}

/* digits [. digits] [e [+-] digits]; at least one digit before or after the point. */
static void scan_number(struct eco_scanner *scanner, struct eco_token *token)
{
    const char *at = scanner->at;
    int exponent = 0, written = 0;
    bool point = false;
    for (; is_digit(*at) || (*at == '.' && !point); at++) {
        exponent -= point;
        point |= *at == '.';
    }
    const int digits = (int)(at - scanner->at);
    const char *e = at;
    if (*e == 'e' || *e == 'E') {
        const bool negative = *++e == '-';
        e += *e == '-' || *e == '+';
        if (is_digit(*e)) {
            for (; is_digit(*e); e++)
                written = written < 10000 ? written * 10 + (*e - '0') : written;
            exponent += negative ? -written : written;
            at = e;
        }
    }
    token->kind = ECO_TOKEN_NUMBER;
    token->length = (int)(at - scanner->at);
    if (digits > ECO_MAX_DIGITS) {
        eco_scan_fail(scanner, token, false, "the number has %d characters, at most %d", digits,
                      ECO_MAX_DIGITS);
        return;
    }
    token->number = eco_decimal(scanner->at, digits, exponent);
    if (token->number >= 0x1.ffffffp127) /* half a unit above the largest float */
        eco_scan_fail(scanner, token, false, "the number is larger than a float can be");
}

static void scan_name(struct eco_scanner *scanner, struct eco_token *token, bool dashed)
{
    const char *at = scanner->at;
    while (is_letter(*at) || is_digit(*at) || (dashed && *at == '-'))
        at++;
    token->kind = ECO_TOKEN_NAME;
    token->length = (int)(at - scanner->at);
    token->primed = *at == '\'';
    if (token->length >= ECO_MAX_NAME)
        eco_scan_fail(scanner, token, false, "the name has %d characters, at most %d",
                      token->length, ECO_MAX_NAME - 1);
}

void eco_scan_next(struct eco_scanner *scanner, bool dashed)
{
    struct eco_token *token = &scanner->token;
    skip(scanner);
    const char *at = scanner->at;
    *token = (struct eco_token){ECO_TOKEN_SYMBOL, at, 1, scanner->line, scanner->column, false, 0};
    if (*at == 0) {
        token->kind = ECO_TOKEN_END;
        return;
    }
    if (*at == '\n') {
        token->kind = ECO_TOKEN_LINE;
        scanner->at++;
        scanner->line++, scanner->column = 1;
        return;
    }
    if (is_letter(*at))
        scan_name(scanner, token, dashed);
    else if (is_digit(*at) || (*at == '.' && is_digit(at[1])))
        scan_number(scanner, token);
    else
        scanner->open += (*at == '(') - (*at == ')' && scanner->open > 0);
    scanner->at += token->length + token->primed;
    scanner->column += token->length + token->primed;
}

int eco_scan_begin(struct eco_scanner *scanner, const char *text, struct eco_cell_error *error)
{
    *scanner = (struct eco_scanner){.at = text, .line = 1, .column = 1, .error = error};
    const struct eco_token start = {.kind = ECO_TOKEN_END, .text = text, .line = 1, .column = 1};
    if (memchr(text, 0, ECO_MAX_TEXT + 1) == NULL)
        return eco_scan_fail(scanner, &start, false, "the text has more than %d bytes",
                             ECO_MAX_TEXT);
    eco_scan_next(scanner, false);
    return scanner->failed ? -1 : 0;
}

bool eco_scan_is(const struct eco_scanner *scanner, char symbol)
{
    return scanner->token.kind == ECO_TOKEN_SYMBOL && *scanner->token.text == symbol;
}

bool eco_token_equals(const struct eco_token *token, const char *text)
{
    return token->kind == ECO_TOKEN_NAME && strlen(text) == (size_t)token->length &&
           memcmp(token->text, text, (size_t)token->length) == 0;
}

int eco_scan_expect(struct eco_scanner *scanner, char symbol)
{
    if (!eco_scan_is(scanner, symbol))
        return eco_scan_fail(scanner, &scanner->token, true, "expected '%c'", symbol);
    eco_scan_next(scanner, false);
    return scanner->failed ? -1 : 0;
}
