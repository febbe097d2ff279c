/*
 * JSON on standard output.
 */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the character in UTF-8 at text; 0: it is none (RFC 3629). */
static size_t character(const unsigned char *text, size_t bytes)
{
    static const unsigned long least[] = {0, 0x80, 0x800, 0x10000};
    const size_t more = text[0] >= 0xF0 ? 3 : text[0] >= 0xE0 ? 2 : text[0] >= 0xC0 ? 1 : 0;
    unsigned long code = more > 0 ? text[0] & (0x3Fu >> more) : text[0];
    if (more >= bytes || text[0] > 0xF4 || (more == 0 && text[0] >= 0x80))
        return 0;
    for (size_t k = 1; k <= more; k++) {
        if ((text[k] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (text[k] & 0x3F);
    }
    return code < least[more] || code > 0x10FFFF || code >> 11 == 0xD800 >> 11 ? 0 : more + 1;
}

/* What is no character is written as errors show it, "\\xNN": a file may have any name. */
static void write_string(const char *text, size_t bytes)
{
    putchar('"');
    for (size_t i = 0, n; i<bytes; i += n> 0 ? n : 1) {
        const unsigned char *at = (const unsigned char *)text + i;
        n = character(at, bytes - i);
        if (n == 0)
            printf("\\\\x%02X", *at);
        else if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < ' ')
            printf("\\u%04x", *at);
        else
            fwrite(at, 1, n, stdout);
    }
    putchar('"');
}

/* A comma, a line, the key. */
static void begin(struct json *json, const char *key)
{
    if (json->depth == 0)
        return;
    printf("%s\n%*s", json->more[json->depth - 1] ? "," : "", 2 * json->depth, "");
    json->more[json->depth - 1] = true;
    if (key != NULL) {
        write_string(key, strlen(key));
        printf(": ");
    }
}

static void open_level(struct json *json, const char *key, bool array)
{
    begin(json, key);
    putchar(array ? '[' : '{');
    json->array[json->depth] = array;
    json->more[json->depth] = false;
    json->depth++;
}

void json_object(struct json *json, const char *key)
{
    open_level(json, key, false);
}

void json_array(struct json *json, const char *key)
{
    open_level(json, key, true);
}

void json_end(struct json *json)
{
    json->depth--;
    if (json->more[json->depth])
        printf("\n%*s", 2 * json->depth, "");
    putchar(json->array[json->depth] ? ']' : '}');
    if (json->depth == 0)
        putchar('\n');
}

void json_text(struct json *json, const char *key, const char *value)
{
    begin(json, key);
    if (value != NULL)
        write_string(value, strlen(value));
    else
        printf("null");
}

void json_number(struct json *json, const char *key, double value)
{
    begin(json, key);
    if (isfinite(value))
        printf("%.9g", value);
    else
        printf("null");
}

void json_whole(struct json *json, const char *key, long long value)
{
    begin(json, key);
    printf("%lld", value);
}

void json_truth(struct json *json, const char *key, bool value)
{
    begin(json, key);
    printf(value ? "true" : "false");
}

void json_lines(struct json *json, const char *key, const char *text)
{
    json_array(json, key);
    while (*text != '\0') {
        const size_t bytes = strcspn(text, "\n");
        begin(json, NULL);
        write_string(text, bytes);
        text += bytes + (text[bytes] == '\n');
    }
    json_end(json);
}
