/*
 * The options of all subcommands, in one table.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "command.h"

enum kind { FLAG, TEXT, SECONDS, NUMBER, NUMBERS };

static const struct option {
    const char *name, *value, *about;
    int takes; /* 0: all do */
    enum kind kind;
    size_t field;
} table[] = {
#define FIELD(name) offsetof(struct options, name)
    {"--device", "NAME", "cpu, cpu:THREADS, cuda or cuda:NUMBER (default: the fastest)",
     TAKES_DEVICE, TEXT, FIELD(device)},
    {"--cell", "FILE", "the cell of the problems, in the cell language, or its name", TAKES_CELL,
     TEXT, FIELD(cell)},
    {"--list", NULL, "lists the cells that have names", TAKES_LIST, FLAG, FIELD(list)},
    {"--shapes", "FILE", "file with the lists for @LIST", TAKES_SHAPES, TEXT, FIELD(shapes)},
    {"--recorded", "FILE", "file with problems, as ECORNN_RECORD writes it", TAKES_RECORDED, TEXT,
     FIELD(recorded)},
    {"--random", "N", "N problems drawn at random", TAKES_RANDOM, NUMBER, FIELD(random)},
    {"--seed", "N", "seed of --random (default: 1)", TAKES_SEED, NUMBER, FIELD(seed)},
    {"--seconds", "S", "approximate time for each problem", TAKES_SECONDS, SECONDS, FIELD(seconds)},
    {"--measure", NULL, "measures every candidate", TAKES_MEASURE, FLAG, FIELD(measure)},
    {"--time", NULL, "prints how long it takes to make the plan", TAKES_TIME, FLAG, FIELD(time)},
    {"--regret", NULL, "prints how far the planner is from the best, writes nothing", TAKES_REGRET,
     FLAG, FIELD(regret)},
    {"--again", "N", "with --regret: measures the N worst problems once more", TAKES_AGAIN, NUMBER,
     FIELD(again)},
    {"--csv", "FILE", "table that results are added to", TAKES_CSV, TEXT, FIELD(csv)},
    {"--versus", "NAME", "another library, measured in turns: ort, torch", TAKES_VERSUS, TEXT,
     FIELD(versus)},
    {"--threads", "LIST", "numbers of CPU threads, such as 1,2, measured in turn", TAKES_THREADS,
     NUMBERS, FIELD(threads)},
    {"-o", "FILE", "wisdom file to add to (default: the user's)", TAKES_OUTPUT, TEXT,
     FIELD(output)},
    {"--json", NULL, "prints JSON", TAKES_JSON, FLAG, FIELD(json)},
    {"--help", NULL, "prints this text", 0, FLAG, FIELD(help)},
#undef FIELD
};
enum { OPTIONS = sizeof table / sizeof *table };

static bool takes(const struct command *command, const struct option *option)
{
    return option->takes == 0 || (command->takes & option->takes) != 0;
}

void options_print(const struct command *command)
{
    for (int k = 0; k < OPTIONS; k++) {
        char words[32];
        if (!takes(command, &table[k]))
            continue;
        snprintf(words, sizeof words, "%s%s%s", table[k].name, table[k].value ? " " : "",
                 table[k].value ? table[k].value : "");
        printf("  %-16s %s\n", words, table[k].about);
    }
}

/* The number, 1 to `most`, that text begins with, followed by `after`; 0: there is none. */
static int read_number(const char *text, int most, char **after)
{
    const long number = isdigit((unsigned char)*text) ? strtol(text, after, 10) : 0;
    return number >= 1 && number <= most ? (int)number : 0;
}

static bool set_number(void *field, const struct option *option, const char *value)
{
    enum { MOST = 1000000 };
    char *end;
    const int number = read_number(value, MOST, &end);
    if (number == 0 || *end != '\0')
        return say("%s is %s, must be 1 to %d", option->name, value, MOST);
    *(int *)field = number;
    return true;
}

static bool set_numbers(void *field, const struct option *option, const char *value)
{
    enum { MOST = 1024 };
    char *end = NULL;
    for (const char *at = value; end == NULL || *end == ','; at = end + 1)
        if (read_number(at, MOST, &end) == 0 || (*end != '\0' && *end != ','))
            return say("%s is %s, must be numbers from 1 to %d, separated by commas", option->name,
                       value, MOST);
    *(const char **)field = value;
    return true;
}

static bool set_seconds(void *field, const struct option *option, const char *value)
{
    char *end;
    const double seconds = strtod(value, &end);
    if (strchr("0123456789.", *value) == NULL || *value == '\0' || *end != '\0' ||
        !(seconds > 0 && seconds <= 1e6))
        return say("%s is %s, must be more than 0 and at most 1000000", option->name, value);
    *(double *)field = seconds;
    return true;
}

static bool set(struct options *options, const struct option *option, const char *value)
{
    void *field = (char *)options + option->field;
    switch (option->kind) {
    case FLAG:
        *(bool *)field = true;
        return true;
    case TEXT:
        *(const char **)field = value;
        return true;
    case SECONDS:
        return set_seconds(field, option, value);
    case NUMBERS:
        return set_numbers(field, option, value);
    default:
        return set_number(field, option, value);
    }
}

static const struct option *find(const struct command *command, const char *name)
{
    for (int k = 0; k < OPTIONS; k++)
        if (strcmp(table[k].name, name) == 0 && takes(command, &table[k]))
            return &table[k];
    return NULL;
}

static bool has_list(const struct options *options)
{
    for (int k = 0; k < options->n; k++)
        if (options->words[k][0] == '@')
            return true;
    return false;
}

/* Refuses options that would be ignored. */
static bool check_operands(const struct options *options, const struct command *command)
{
    if (options->list && options->n > 0)
        return say("--list does not take '%s'", options->words[0]);
    if (options->n < command->least && !options->list)
        return say("%s needs %s", command->name, command->operands);
    if (options->n > command->most)
        return say("%s does not take '%s'; \"ecornn %s --help\" says what it takes", command->name,
                   options->words[command->most], command->name);
    const bool problems = options->n > 0 || options->recorded != NULL || options->random > 0;
    if (options->seed > 0 && options->random == 0)
        return say("--seed requires --random");
    if (options->shapes != NULL && !has_list(options))
        return say("--shapes requires an operand @LIST");
    if (options->seconds > 0 && !problems)
        return say("--seconds requires a problem");
    if (options->seconds > 0 && (command->takes & TAKES_MEASURE) != 0 && !options->measure)
        return say("--seconds requires --measure");
    if ((command->takes & TAKES_RECORDED) != 0 && !problems)
        return say("%s needs a problem: PROBLEM, @LIST, --recorded or --random", command->name);
    return true;
}

bool options_read(struct options *options, const struct command *command, int count, char **words)
{
    bool operands = false; /* after "--" all are */
    *options = (struct options){.words = words};
    for (int k = 0; k < count; k++) {
        if (operands || words[k][0] != '-' || words[k][1] == '\0') {
            words[options->n++] = words[k];
            continue;
        }
        if (strcmp(words[k], "--") == 0) {
            operands = true;
            continue;
        }
        const struct option *option = find(command, words[k]);
        if (option == NULL)
            return say("%s has no option %s; \"ecornn %s --help\" lists them", command->name,
                       words[k], command->name);
        if (option->value != NULL && k + 1 == count)
            return say("%s needs a value", option->name);
        if (!set(options, option, option->value != NULL ? words[++k] : NULL))
            return false;
    }
    return options->help || check_operands(options, command);
}
