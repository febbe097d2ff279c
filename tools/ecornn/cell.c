/*
 * ecornn cell: shows what a cell is compiled to, or where its text is wrong; lists cells by name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/files.h"
#include "bench/core/say.h"
#include "command.h"
#include "json.h"
#include "bench/core/named.h"

/* Prints the error "line:column: message", the line, and a mark below the column. */
static void show_error(const struct options *options, const char *text, const char *detail)
{
    const char *path = options->words[0], *message = strchr(detail, ' ');
    int line = 1, column = 1;
    struct json json = {.depth = 0};
    if (sscanf(detail, "%d:%d:", &line, &column) != 2 || message == NULL)
        message = detail;
    for (int k = 1; k < line && strchr(text, '\n') != NULL; k++)
        text = strchr(text, '\n') + 1;
    if (options->json) {
        json_object(&json, NULL);
        json_truth(&json, "good", false);
        json_whole(&json, "line", line);
        json_whole(&json, "column", column);
        json_text(&json, "message", message + (*message == ' '));
        json_end(&json);
        return;
    }
    const int length = (int)strcspn(text, "\n");
    fprintf(stderr, "%s:%s\n  ", path, detail);
    print_shown(stderr, text, (size_t)length);
    fprintf(stderr, "\n  ");
    for (int k = 0; k + 1 < column && k < length; k++)
        fputc(text[k] == '\t' ? '\t' : ' ', stderr);
    fputc('^', stderr);
    for (int k = column; k < length && strchr(" \t()+-*/,=", text[k]) == NULL &&
                         strchr(" \t()+-*/,=", text[column - 1]) == NULL;
         k++)
        fputc('~', stderr);
    fputc('\n', stderr);
}

/* source: the text of a cell of the library, or NULL. */
static bool show_cell(const struct options *options, const ecornn_cell *cell, const char *source)
{
    const int length = ecornn_cell_print(cell, NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    struct json json = {.depth = 0};
    if (text == NULL)
        return say("no memory");
    ecornn_cell_print(cell, text, (size_t)length + 1);
    if (options->json) {
        json_object(&json, NULL);
        json_truth(&json, "good", true);
        json_whole(&json, "states", states_of_cell(cell));
        if (source != NULL)
            json_lines(&json, "text", source);
        json_lines(&json, "print", text);
        json_end(&json);
    } else {
        printf("%s%s%s", source ? source : "", source ? "\n" : "", text);
    }
    free(text);
    return true;
}

/* The length of the line about a cell of the library, which is the first of its comment. */
static int about_length(const char *text)
{
    return (int)strcspn(text, "\n") - (int)strlen("# ");
}

static void list_one(const struct options *options, struct json *json, const char *name,
                     const char *text)
{
    char about[128] = "built in";
    if (text != NULL)
        snprintf(about, sizeof about, "%.*s", about_length(text), text + strlen("# "));
    if (!options->json) {
        printf("%-22s %s\n", name, about);
        return;
    }
    json_object(json, NULL);
    json_text(json, "name", name);
    json_truth(json, "built in", text == NULL);
    json_text(json, "about", about);
    json_end(json);
}

/* Prints the names of the built-in cells and of those of the library. */
static int list_cells(const struct options *options)
{
    struct json json = {.depth = 0};
    const char *name, *text;
    if (options->json)
        json_array(&json, NULL);
    for (int k = 0; name_of_cell(k) != NULL; k++)
        list_one(options, &json, name_of_cell(k), NULL);
    for (int k = 0; ecornn_cell_library(k, &name, &text) == ECORNN_OK; k++)
        list_one(options, &json, name, text);
    if (options->json)
        json_end(&json);
    return 0;
}

static int run(const struct options *options)
{
    static char text[CELL_BYTES];
    ecornn_cell *cell = NULL;
    const char *const word = options->list ? NULL : options->words[0];
    if (options->list)
        return list_cells(options);
    const bool library = cell_named(word) == NULL && is_library_cell(word);
    if (library || cell_named(word) != NULL)
        return (cell = read_cell(word)) == NULL ||
               !show_cell(options, cell, library ? library_text(word) : NULL);
    if (!read_text(word, text))
        return 1;
    if (ecornn_cell_parse(&cell, text) != ECORNN_OK) {
        show_error(options, text, ecornn_error_detail());
        return 1;
    }
    const bool good = show_cell(options, cell, NULL);
    ecornn_cell_free(cell);
    return !good;
}

const struct command command_cell = {
    .name = "cell",
    .operands = "FILE",
    .about = "Shows what a cell is compiled to, or where its text is wrong",
    .more =
        "FILE holds a text of the cell language, or is the name of a built-in cell or of one of "
        "the\nlibrary, whose text is printed, too.\n",
    .takes = TAKES_JSON | TAKES_LIST,
    .least = 1,
    .most = 1,
    .run = run,
};
