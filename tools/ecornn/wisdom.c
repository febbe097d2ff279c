/*
 * ecornn wisdom: files of wisdom, listed, checked, combined, thinned out.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "command.h"
#include "json.h"

char *wisdom_text(void)
{
    const int length = ecornn_wisdom_to_text(NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text == NULL)
        say("no memory");
    else
        ecornn_wisdom_to_text(text, (size_t)length + 1);
    return text;
}

static bool load(const char *path)
{
    return ecornn_wisdom_load(path) == ECORNN_OK || say("%s", ecornn_error_detail());
}

/* Only these files. */
static bool load_all(char **paths, int n)
{
    ecornn_wisdom_forget();
    for (int k = 0; k < n; k++)
        if (!load(paths[k]))
            return false;
    return true;
}

enum kind { PROBLEM, DEVICE, MACHINE, KINDS };
enum { WORDS = 7 }; /* of a line, at most */
static const int words_of[KINDS] = {[PROBLEM] = WORDS, [DEVICE] = 3, [MACHINE] = 4};

static enum kind kind_of(const char *line)
{
    return strncmp(line, "device ", 7) == 0    ? DEVICE
           : strncmp(line, "machine ", 8) == 0 ? MACHINE
                                               : PROBLEM;
}

/* Calls with each line that is no head; its words are those of the format, cut off in place. */
static void each_line(char *text,
                      void (*call)(struct json *json, char *word[WORDS], enum kind kind),
                      struct json *json)
{
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *word[WORDS] = {line};
        if (*line == '#')
            continue;
        const enum kind kind = kind_of(line);
        int n = 1;
        for (char *at = line; n < words_of[kind] && (at = strchr(at, ' ')) != NULL; n++) {
            *at++ = '\0';
            word[n] = at;
        }
        if (n == words_of[kind])
            call(json, word, kind);
    }
}

/* ---- list ------------------------------------------------------------------------------------ */

static void print_line(struct json *json, char *word[WORDS], enum kind kind)
{
    char line[2048]; /* of the file at most 1024 */
    (void)json;
    if (kind == DEVICE)
        snprintf(line, sizeof line, "device %s: %s\n", word[1], word[2]);
    else if (kind == MACHINE)
        snprintf(line, sizeof line, "machine %s: %s  %s\n", word[1], word[2], word[3]);
    else
        snprintf(line, sizeof line, "%-52s %12.2f us [%.2f]  %s  %s\n    %s%s%s\n", word[0],
                 1e-3 * atof(word[4]), 1e-3 * atof(word[5]), word[6], word[2], word[3],
                 strcmp(word[1], "-") != 0 ? "  cell " : "",
                 strcmp(word[1], "-") != 0 ? word[1] : "");
    print_shown(stdout, line, strlen(line));
}

static void write_device(struct json *json, char *word[WORDS], enum kind kind)
{
    if (kind != DEVICE)
        return;
    json_object(json, NULL);
    json_text(json, "id", word[1]);
    json_text(json, "words", word[2]);
    json_end(json);
}

static void write_machine(struct json *json, char *word[WORDS], enum kind kind)
{
    if (kind != MACHINE)
        return;
    json_object(json, NULL);
    json_text(json, "device", word[1]);
    json_text(json, "values", word[2]);
    json_text(json, "date", word[3]);
    json_end(json);
}

static void write_problem(struct json *json, char *word[WORDS], enum kind kind)
{
    if (kind != PROBLEM)
        return;
    json_object(json, NULL);
    json_text(json, "problem", word[0]);
    json_text(json, "cell", strcmp(word[1], "-") == 0 ? NULL : word[1]);
    json_text(json, "device", word[2]);
    json_text(json, "choices", word[3]);
    json_number(json, "seconds", 1e-9 * atof(word[4]));
    json_number(json, "spread", 1e-9 * atof(word[5]));
    json_text(json, "date", word[6]);
    json_end(json);
}

/* Has every file been read that each program reads?  What is wrong with one ecornn_info says. */
static bool all_were_read(void)
{
    static const char head[] = "\nwisdom, not read: ";
    const int length = ecornn_info(NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text == NULL)
        return say("no memory");
    ecornn_info(text, (size_t)length + 1);
    const char *wrong = strstr(text, head);
    if (wrong != NULL)
        say("%.*s", (int)strcspn(wrong + sizeof head - 1, "\n"), wrong + sizeof head - 1);
    free(text);
    return wrong == NULL;
}

/* The lines of a kind as an array. */
static bool list_json(struct json *json, const char *key,
                      void (*call)(struct json *json, char *word[WORDS], enum kind kind))
{
    char *text = wisdom_text();
    json_array(json, key);
    if (text != NULL)
        each_line(text, call, json);
    json_end(json);
    const bool good = text != NULL;
    free(text);
    return good;
}

static bool list(const struct options *options)
{
    struct json json = {.depth = 0};
    if (options->n > 1 && !load_all(options->words + 1, options->n - 1))
        return false;
    const bool read = options->n > 1 || all_were_read();
    if (options->json) {
        json_object(&json, NULL);
        const bool devices = list_json(&json, "devices", write_device),
                   machines = list_json(&json, "machines", write_machine),
                   problems = list_json(&json, "problems", write_problem);
        json_end(&json);
        return devices && machines && problems && read;
    }
    char *text = wisdom_text();
    if (text != NULL)
        each_line(text, print_line, &json);
    const bool good = text != NULL && read;
    free(text);
    return good;
}

/* ---- check, combine, drop -------------------------------------------------------------------- */

static int count_lines(const char *text, enum kind kind)
{
    int count = 0;
    for (const char *at = strchr(text, '\n'); at != NULL && at[1] != '\0';
         at = strchr(at + 1, '\n'))
        count += at[1] != '#' && kind_of(at + 1) == kind;
    return count;
}

static bool check(const struct options *options)
{
    struct json json = {.depth = 0};
    bool good = true;
    if (options->json)
        json_array(&json, NULL);
    for (int k = 1; k < options->n; k++) {
        ecornn_wisdom_forget();
        const bool right = ecornn_wisdom_load(options->words[k]) == ECORNN_OK;
        char *text = right ? wisdom_text() : NULL;
        const int problems = text != NULL ? count_lines(text, PROBLEM) : 0,
                  devices = text != NULL ? count_lines(text, DEVICE) : 0;
        good = good && right;
        if (options->json) {
            json_object(&json, NULL);
            json_text(&json, "file", options->words[k]);
            json_text(&json, "error", right ? NULL : ecornn_error_detail());
            json_whole(&json, "problems", problems);
            json_whole(&json, "devices", devices);
            json_end(&json);
        } else if (right) {
            printf("%s: %d problems, %d devices\n", options->words[k], problems, devices);
        } else {
            say("%s", ecornn_error_detail());
        }
        free(text);
    }
    if (options->json)
        json_end(&json);
    return good;
}

/* One of the files may be that which is written. */
static bool combine(const struct options *options)
{
    struct wisdom_file file;
    if (!wisdom_file_find(&file, options->output) || !wisdom_file_lock(&file))
        return false;
    const bool good = load_all(options->words + 1, options->n - 1) && wisdom_file_write(&file);
    wisdom_file_unlock(&file);
    return good;
}

/* Is the line for such a problem, or of such a device? */
static bool matches(const char *line, const char *pattern)
{
    char word[2][320] = {"", ""};
    if (kind_of(line) != PROBLEM)
        return sscanf(line, "%*s %319s", word[0]) == 1 && fnmatch(pattern, word[0], 0) == 0;
    return sscanf(line, "%319s %*s %319s", word[0], word[1]) == 2 &&
           (fnmatch(pattern, word[0], 0) == 0 || fnmatch(pattern, word[1], 0) == 0);
}

/* The text without these lines, in place; returns how many problems went. */
static int thin_out(char *text, char **patterns, int n)
{
    char *to = text;
    int gone = 0;
    for (char *line = text; *line != '\0';) {
        const size_t bytes = strcspn(line, "\n") + 1;
        bool drop = false;
        for (int k = 0; k < n && line != text && *line != '#'; k++)
            drop = drop || matches(line, patterns[k]);
        gone += drop && kind_of(line) == PROBLEM;
        if (!drop)
            memmove(to, line, bytes);
        to += drop ? 0 : bytes;
        line += bytes;
    }
    *to = '\0';
    return gone;
}

/* What is known, without the lines that match; returns how many problems went, -1: failed. */
static int forget_lines(char **patterns, int n)
{
    char *text = wisdom_text();
    if (text == NULL)
        return -1;
    int gone = thin_out(text, patterns, n);
    ecornn_wisdom_forget();
    if (ecornn_wisdom_from_text(text) != ECORNN_OK) {
        say("%s", ecornn_error_detail());
        gone = -1;
    }
    free(text);
    return gone;
}

static bool drop(const struct options *options)
{
    struct wisdom_file file;
    int gone = -1;
    if (!wisdom_file_find(&file, options->output != NULL ? options->output : options->words[1]) ||
        !wisdom_file_lock(&file))
        return false;
    if (load_all(options->words + 1, 1))
        gone = forget_lines(options->words + 2, options->n - 2);
    const bool good = gone >= 0 && wisdom_file_write(&file);
    wisdom_file_unlock(&file);
    if (good && options->json)
        printf("{\"dropped\": %d}\n", gone);
    else if (good)
        printf("%d problems dropped\n", gone);
    return good;
}

static int run(const struct options *options)
{
    static const struct {
        const char *name;
        bool (*run)(const struct options *options);
        int least;                           /* operands after it */
        enum { NO, MAY, MUST } output, json; /* -o, --json */
    } actions[] = {{"list", list, 0, NO, MAY},
                   {"check", check, 1, NO, MAY},
                   {"combine", combine, 1, MUST, NO},
                   {"drop", drop, 2, MAY, MAY}};
    for (size_t k = 0; k < sizeof actions / sizeof *actions; k++) {
        if (strcmp(options->words[0], actions[k].name) != 0)
            continue;
        if (options->n <= actions[k].least)
            say("wisdom %s needs more operands; --help lists them", actions[k].name);
        else if (actions[k].output == MUST && options->output == NULL)
            say("wisdom %s needs -o FILE", actions[k].name);
        else if ((actions[k].output == NO && options->output != NULL) ||
                 (actions[k].json == NO && options->json))
            say("wisdom %s does not take %s", actions[k].name,
                actions[k].json == NO && options->json ? "--json" : "-o");
        else
            return !actions[k].run(options);
        return 2;
    }
    say("wisdom has no '%s'; --help lists what it has", options->words[0]);
    return 2;
}

const struct command command_wisdom = {
    .name = "wisdom",
    .operands = "list|check|combine|drop ...",
    .about = "Lists, checks, combines and thins out files of wisdom",
    .more = "  list [FILE]...             what is in them, or what every program reads\n"
            "  check FILE...              whether they are right, or which line is wrong\n"
            "  combine FILE... -o FILE    all of them as one; the later counts\n"
            "  drop FILE PATTERN...       without problems or devices that match\n",
    .takes = TAKES_JSON | TAKES_OUTPUT,
    .least = 1,
    .most = MANY_OPERANDS,
    .run = run,
};
