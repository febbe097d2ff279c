/*
 * ecornn wisdom: lists and checks wisdom files.
 */
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

/* ---- lines ----------------------------------------------------------------------------------- */

/* A line of the format (doc/guide/wisdom.md): "device ID WORDS" has three words, the last with
 * blanks; a problem has seven. */
enum { DEVICE = 3, PROBLEM = 7 };

/* Cuts a line into its words, in place.  False: it is a remark, or the number differs. */
static bool cut(char *line, int words, char *word[PROBLEM])
{
    const int n = strncmp(line, "device ", 7) == 0 ? DEVICE : PROBLEM;
    if (*line == '#' || n != words)
        return false;
    word[0] = line;
    for (int k = 1; k < n; k++) {
        if ((word[k] = strchr(word[k - 1], ' ')) == NULL)
            return false;
        *word[k]++ = '\0';
    }
    return true;
}

/* Calls `call`, which may be NULL, with the words of each known line of this kind.  Returns
 * their number, or -1 on failure. */
static int each_line(int words, void (*call)(struct json *json, char **word), struct json *json)
{
    char *text = wisdom_text(), *word[PROBLEM];
    int count = text != NULL ? 0 : -1;
    for (char *line = text; line != NULL && *line != '\0';) {
        char *next = line + strcspn(line, "\n");
        if (*next != '\0')
            *next++ = '\0';
        if (line != text && cut(line, words, word)) { /* the first line names the format */
            count++;
            if (call != NULL)
                call(json, word);
        }
        line = next;
    }
    free(text);
    return count;
}

/* ---- list ------------------------------------------------------------------------------------ */

static void print_device(struct json *json, char **word)
{
    (void)json;
    printf("device %s: ", word[1]);
    print_shown(stdout, word[2], strlen(word[2]));
    printf("\n");
}

static void print_problem(struct json *json, char **word)
{
    char line[2048]; /* a line of a file has at most 1024 bytes */
    const bool from_text = strcmp(word[1], "-") != 0;
    (void)json;
    snprintf(line, sizeof line, "%-52s %12.2f us [%.2f]  %s  %s\n    %s%s%s\n", word[0],
             1e-3 * atof(word[4]), 1e-3 * atof(word[5]), word[6], word[2], word[3],
             from_text ? "  cell " : "", from_text ? word[1] : "");
    print_shown(stdout, line, strlen(line));
}

static void write_device(struct json *json, char **word)
{
    json_object(json, NULL);
    json_text(json, "id", word[1]);
    json_text(json, "words", word[2]);
    json_end(json);
}

static void write_problem(struct json *json, char **word)
{
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

/* Could all files be read that programs read by default?  ecornn_info says what is wrong. */
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

static bool list(const struct options *options)
{
    struct json json = {.depth = 0};
    bool good = options->n > 1 || all_were_read();
    if (options->n > 1)
        ecornn_wisdom_forget();
    for (int k = 1; k < options->n; k++)
        if (ecornn_wisdom_load(options->words[k]) != ECORNN_OK)
            return say("%s", ecornn_error_detail());
    if (!options->json)
        return each_line(DEVICE, print_device, &json) >= 0 &&
               each_line(PROBLEM, print_problem, &json) >= 0 && good;
    json_object(&json, NULL);
    json_array(&json, "devices");
    good = each_line(DEVICE, write_device, &json) >= 0 && good;
    json_end(&json);
    json_array(&json, "problems");
    good = each_line(PROBLEM, write_problem, &json) >= 0 && good;
    json_end(&json);
    json_end(&json);
    return good;
}

/* ---- check ----------------------------------------------------------------------------------- */

static bool check_one(struct json *json, bool as_json, const char *path)
{
    ecornn_wisdom_forget();
    const bool good = ecornn_wisdom_load(path) == ECORNN_OK;
    const int problems = each_line(PROBLEM, NULL, NULL), devices = each_line(DEVICE, NULL, NULL);
    if (as_json) {
        json_object(json, NULL);
        json_text(json, "file", path);
        json_text(json, "error", good ? NULL : ecornn_error_detail());
        json_whole(json, "problems", problems);
        json_whole(json, "devices", devices);
        json_end(json);
    } else if (good)
        printf("%s: %d problems, %d devices\n", path, problems, devices);
    return good || as_json ? good : say("%s", ecornn_error_detail());
}

static bool check(const struct options *options)
{
    struct json json = {.depth = 0};
    bool good = true;
    if (options->json)
        json_array(&json, NULL);
    for (int k = 1; k < options->n; k++)
        good = check_one(&json, options->json, options->words[k]) && good;
    if (options->json)
        json_end(&json);
    return good;
}

static int run(const struct options *options)
{
    const char *action = options->words[0];
    if (strcmp(action, "list") == 0)
        return !list(options);
    if (strcmp(action, "check") == 0 && options->n > 1)
        return !check(options);
    if (strcmp(action, "check") == 0)
        say("wisdom check needs FILE");
    else
        say("wisdom has no '%s'; \"ecornn wisdom --help\" lists what it has", action);
    return 2;
}

const struct command command_wisdom = {
    .name = "wisdom",
    .operands = "list|check ...",
    .about = "Lists and checks wisdom files",
    .more = "  list [FILE]...   prints these files, or all that programs read by default\n"
            "  check FILE...    counts problems and devices, or names the line that is wrong\n",
    .takes = TAKES_JSON,
    .least = 1,
    .most = MANY_OPERANDS,
    .run = run,
};
