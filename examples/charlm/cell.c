/*
 * Finding, reading and parsing the cell.
 */
#define _POSIX_C_SOURCE 200809L
#include "cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "text.h"

/* After "cell", which only comments and blank lines precede; the text is known to be right. */
static void take_name(struct cell_choice *choice)
{
    const char *at = choice->text + strspn(choice->text, " \t\r\n");
    while (*at == '#') {
        at += strcspn(at, "\n");
        at += strspn(at, " \t\r\n");
    }
    at += strcspn(at, " \t\r\n");
    at += strspn(at, " \t\r\n");
    snprintf(choice->name, sizeof choice->name, "%.*s", (int)strcspn(at, " \t\r\n("), at);
}

static bool parse(struct cell_choice *choice, const char *from, struct complaint *why)
{
    const ecornn_status status = ecornn_cell_parse(&choice->parsed, choice->text);
    if (status != ECORNN_OK)
        return complain(why, "%.100s:%s", from, ecornn_error_detail());
    choice->cell = choice->parsed;
    take_name(choice);
    return true;
}

static bool choose_builtin(struct cell_choice *choice, const char *name)
{
    choice->cell = ecornn_cell_find(name);
    if (!choice->cell)
        return false;
    snprintf(choice->name, sizeof choice->name, "%s", name);
    choice->text = calloc(1, 1);
    return choice->text != NULL;
}

/* A model's file holds text in UTF-8 only, comments included. */
static bool check_utf8(const char *text, const char *from, struct complaint *why)
{
    size_t length = 0;
    int line = 1;
    for (const char *end = text + strlen(text); text < end; text += length) {
        if (!(length = utf8_length(text, end)))
            return complain(why, "%.100s:%d: byte 0x%02x, must be text in UTF-8", from, line,
                            (unsigned char)*text);
        line += *text == '\n';
    }
    return true;
}

bool cell_choose(struct cell_choice *choice, const char *name_or_file, struct complaint *why)
{
    struct complaint reason;
    size_t size = 0;
    *choice = (struct cell_choice){0};
    if (choose_builtin(choice, name_or_file))
        return true;
    if (!(choice->text = file_load(name_or_file, &size, &reason)))
        return complain(why, "--cell %.60s is no built-in cell, and no file: %.200s", name_or_file,
                        reason.text);
    if (strlen(choice->text) != size)
        return complain(why, "--cell %.60s: not a text, it has a zero byte", name_or_file);
    return check_utf8(choice->text, name_or_file, why) && parse(choice, name_or_file, why);
}

bool cell_restore(struct cell_choice *choice, const char *name, const char *text,
                  struct complaint *why)
{
    *choice = (struct cell_choice){0};
    if (!*text)
        return choose_builtin(choice, name) ||
               complain(why, "there is no built-in cell '%.60s'", name);
    choice->text = strdup(text);
    return choice->text ? parse(choice, name, why) : complain(why, "no memory");
}

void cell_free(struct cell_choice *choice)
{
    ecornn_cell_free(choice->parsed);
    free(choice->text);
    *choice = (struct cell_choice){0};
}
