/*
 * ecornn cell: shows what a cell is compiled to, or where its text is wrong.
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

static bool show_cell(const struct options *options, const ecornn_cell *cell)
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
        json_lines(&json, "print", text);
        json_end(&json);
    } else {
        printf("%s", text);
    }
    free(text);
    return true;
}

static int run(const struct options *options)
{
    static char text[CELL_BYTES];
    ecornn_cell *cell = NULL;
    const ecornn_cell *built_in = cell_named(options->words[0]);
    if (built_in != NULL)
        return !show_cell(options, built_in);
    if (!read_text(options->words[0], text))
        return 1;
    if (ecornn_cell_parse(&cell, text) != ECORNN_OK) {
        show_error(options, text, ecornn_error_detail());
        return 1;
    }
    const bool good = show_cell(options, cell);
    ecornn_cell_free(cell);
    return !good;
}

const struct command command_cell = {
    .name = "cell",
    .operands = "FILE",
    .about = "Shows what a cell is compiled to, or where its text is wrong",
    .more = "FILE holds a text of the cell language, or is the name of a built-in cell.\n",
    .takes = TAKES_JSON,
    .least = 1,
    .most = 1,
    .run = run,
};
