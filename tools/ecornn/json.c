/*
 * JSON on standard output.
 */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/core/say.h"

static void write_string(const char *text, size_t bytes)
{
    putchar('"');
    for (size_t i = 0, n; i<bytes; i += n> 0 ? n : 1) {
        const char *at = text + i;
        unsigned long code;
        n = shown_character(at, bytes - i, &code);
        if (n == 0) /* no character: a file may have any name */
            printf("\\\\x%02X", (unsigned char)*at);
        else if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (controls_terminal(code))
            printf("\\u%04lx", code);
        else
            fwrite(at, 1, n, stdout);
    }
    putchar('"');
}

/* Begins a value: writes a comma if needed, a new line, and the key. */
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
