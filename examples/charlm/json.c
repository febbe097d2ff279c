/*
 * Tokens of JSON text (RFC 8259), as far as a safetensors header needs them.
 */
#include "json.h"

#include <stdio.h>
#include <string.h>

static void skip_blanks(struct json *json)
{
    while (json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at)
        json->at++;
}

static bool unexpected(const struct json *json, const char *expected, struct complaint *why)
{
    char found[16] = "the end";
    if (json->at < json->end) {
        const unsigned char c = (unsigned char)*json->at;
        snprintf(found, sizeof found, c > 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    }
    return complain(why, "header byte %zu: found %s, expected %s", (size_t)(json->at - json->begin),
                    found, expected);
}

bool json_take(struct json *json, char c)
{
    skip_blanks(json);
    if (json->at == json->end || *json->at != c)
        return false;
    json->at++;
    return true;
}

bool json_expect(struct json *json, char c, struct complaint *why)
{
    const char expected[] = {'\'', c, '\'', 0};
    return json_take(json, c) || unexpected(json, expected, why);
}

static bool take_hex4(struct json *json, uint32_t *code, struct complaint *why)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    *code = 0;
    for (int k = 0; k < 4; k++, json->at++) {
        const char *digit =
            json->at < json->end ? memchr(digits, *json->at, sizeof digits - 1) : NULL;
        if (!digit)
            return unexpected(json, "a hexadecimal digit", why);
        const uint32_t value = (uint32_t)(digit - digits);
        *code = *code * 16 + (value < 16 ? value : value - 6);
    }
    return true;
}

/* Writes a code point as UTF-8; returns its length.  The escape was at least as long. */
static size_t put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    const size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(lead[more] | code >> (6 * more));
    for (size_t k = 1; k <= more; k++)
        to[k] = (char)(0x80 | (code >> (6 * (more - k)) & 0x3f));
    return more + 1;
}

/* After "\u": one code unit, or a pair of surrogates. */
static bool take_unicode(struct json *json, uint32_t *code, struct complaint *why)
{
    if (!take_hex4(json, code, why))
        return false;
    if (*code >= 0xd800 && *code < 0xdc00) {
        uint32_t low = 0;
        if (json->end - json->at < 6 || json->at[0] != '\\' || json->at[1] != 'u')
            return unexpected(json, "the second half of a surrogate pair", why);
        json->at += 2;
        if (!take_hex4(json, &low, why))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return unexpected(json, "the second half of a surrogate pair", why);
        *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    } else if (*code >= 0xdc00 && *code < 0xe000) {
        return unexpected(json, "no lone surrogate", why);
    }
    return *code != 0 || unexpected(json, "no zero in a string", why);
}

/* After the backslash. */
static bool take_escape(struct json *json, char *to, size_t *length, struct complaint *why)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = json->at < json->end ? *json->at : 0;
    const char *name = c ? strchr(names, c) : NULL;
    uint32_t code = 0;
    if (!name && c != 'u')
        return unexpected(json, "an escape", why);
    json->at++;
    if (name)
        code = (uint32_t)(unsigned char)values[name - names];
    else if (!take_unicode(json, &code, why))
        return false;
    *length = put_utf8(to, code);
    return true;
}

size_t utf8_length(const char *at, const char *end)
{
    const unsigned char *c = (const unsigned char *)at;
    if (at == end || (c[0] >= 0x80 && c[0] < 0xc2) || c[0] > 0xf4)
        return 0;
    const size_t length = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if ((size_t)(end - at) < length)
        return 0;
    for (size_t k = 1; k < length; k++)
        if ((c[k] & 0xc0) != 0x80)
            return 0;
    /* overlong forms, surrogates, past U+10FFFF */
    const bool wrong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                       (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f);
    return wrong ? 0 : length;
}

/* One character that is not escaped. */
static bool take_plain(struct json *json, char *to, size_t *length, struct complaint *why)
{
    *length = utf8_length(json->at, json->end);
    if (!*length || (unsigned char)*json->at < 0x20)
        return unexpected(json, "text in UTF-8", why);
    memcpy(to, json->at, *length);
    json->at += *length;
    return true;
}

bool json_string(struct json *json, char *to, size_t limit, struct complaint *why)
{
    size_t used = 0;
    skip_blanks(json);
    const size_t start = (size_t)(json->at - json->begin);
    if (!json_take(json, '"'))
        return unexpected(json, "a string", why);
    while (json->at < json->end && *json->at != '"') {
        char piece[4];
        size_t length = 0;
        if (*json->at == '\\') {
            json->at++;
            if (!take_escape(json, piece, &length, why))
                return false;
        } else if (!take_plain(json, piece, &length, why)) {
            return false;
        }
        if (used + length > limit)
            return complain(why, "header byte %zu: the string is longer than %zu bytes", start,
                            limit);
        memcpy(to + used, piece, length);
        used += length;
    }
    if (json->at == json->end)
        return unexpected(json, "the end of the string", why);
    json->at++;
    to[used] = 0;
    return true;
}

bool json_unsigned(struct json *json, uint64_t *value, uint64_t limit, struct complaint *why)
{
    skip_blanks(json);
    const char *start = json->at;
    uint64_t number = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        const uint64_t digit = (uint64_t)(*json->at - '0');
        if (digit > limit || number > (limit - digit) / 10)
            return complain(why, "header byte %zu: a number is larger than %llu",
                            (size_t)(start - json->begin), (unsigned long long)limit);
        number = number * 10 + digit;
    }
    if (json->at == start)
        return unexpected(json, "a whole number", why);
    if (*start == '0' && json->at - start > 1)
        return complain(why, "header byte %zu: a number begins with 0",
                        (size_t)(start - json->begin));
    if (json->at < json->end && strchr(".eE", *json->at) && *json->at)
        return unexpected(json, "a whole number", why);
    *value = number;
    return true;
}

bool json_finish(struct json *json, struct complaint *why)
{
    skip_blanks(json);
    return json->at == json->end || unexpected(json, "nothing more", why);
}
