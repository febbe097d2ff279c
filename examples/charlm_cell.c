/*
 * Finding, reading and parsing the cell.
 */
#include "charlm_cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charlm_text.h"

static char *copy_text(const char *text, size_t size)
{
    char *copy = calloc(size + 1, 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

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
    choice->text = copy_text("", 0);
    return choice->text != NULL;
}

bool cell_choose(struct cell_choice *choice, const char *name_or_file, struct complaint *why)
{
    struct text file = {0};
    struct complaint reason;
    *choice = (struct cell_choice){0};
    if (choose_builtin(choice, name_or_file))
        return true;
    if (!text_add_file(&file, name_or_file, &reason))
        return complain(why, "--cell %.60s is no built-in cell, and no file: %.200s", name_or_file,
                        reason.text);
    const bool is_text = !file.size || !memchr(file.bytes, 0, file.size);
    choice->text = file.size ? copy_text((const char *)file.bytes, file.size) : copy_text("", 0);
    text_free(&file);
    if (!choice->text || !is_text)
        return complain(why, "--cell %.60s: %s", name_or_file,
                        is_text ? "no memory" : "not a text, it has a zero byte");
    return parse(choice, name_or_file, why);
}

bool cell_restore(struct cell_choice *choice, const char *name, const char *text,
                  struct complaint *why)
{
    *choice = (struct cell_choice){0};
    if (!*text)
        return choose_builtin(choice, name) ||
               complain(why, "there is no built-in cell '%.60s'", name);
    choice->text = copy_text(text, strlen(text));
    return choice->text ? parse(choice, name, why) : complain(why, "no memory");
}

void cell_free(struct cell_choice *choice)
{
    ecornn_cell_free(choice->parsed);
    free(choice->text);
    *choice = (struct cell_choice){0};
}
