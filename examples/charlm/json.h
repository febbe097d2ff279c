/*
 * A cursor over JSON text from anywhere: takes one token after the other and never looks past the
 * end.  It builds nothing and never recurses: the caller states what must come next, so nesting
 * that the caller does not expect is an error by itself.
 */
#ifndef CHARLM_JSON_H
#define CHARLM_JSON_H

#include "util.h"

struct json {
    const char *begin, *at, *end;
};

/* Bytes of the well-formed UTF-8 sequence (RFC 3629) at `at`, or 0: there is none before `end`. */
size_t utf8_length(const char *at, const char *end);

/* Takes the character c, past blanks, if it is next. */
bool json_take(struct json *json, char c);
/* Same, but anything else is an error that names the byte's position. */
bool json_expect(struct json *json, char c, struct complaint *why);
/* Takes a string of at most limit bytes and writes it, decoded and closed by a zero, to `to`, which
 * must have room for the shorter of limit + 1 and what is left of the text.  Refuses a zero byte,
 * control characters, broken escapes and text that is not UTF-8. */
bool json_string(struct json *json, char *to, size_t limit, struct complaint *why);
/* Takes a number that is whole, not negative, and at most limit. */
bool json_unsigned(struct json *json, uint64_t *value, uint64_t limit, struct complaint *why);
/* Only blanks may be left. */
bool json_finish(struct json *json, struct complaint *why);

#endif /* CHARLM_JSON_H */
