/*
 * Options as a table: name, kind, limits, where the value goes, and its line of the help.
 */
#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { STRING, WHOLE, REAL, BYTES, FLAG };

struct option {
    const char *name, *value;
    enum kind kind;
    size_t offset; /* in struct options */
    double low, high;
    const char *help;
};

#define AT(field) offsetof(struct options, field)
/* clang-format off */
static const struct option table[] = {
    {"cell", "NAME|FILE", STRING, AT(cell), 0, 0, "a built-in cell, or a file in the language of doc/cells.md (lstm)"},
    {"hidden", "H", WHOLE, AT(hidden), 1, 65536, "units of a layer (256)"},
    {"layers", "L", WHOLE, AT(layers), 1, 1024, "recurrent layers (1)"},
    {"embedding", "E", WHOLE, AT(embedding), 1, 65536, "numbers a character is turned into (64)"},
    {"dropout", "P", REAL, AT(dropout), 0, 0.99, "between layers, in training (0)"},
    {"rate", "R", REAL, AT(rate), 1e-6, 1, "Adam's learning rate (0.01)"},
    {"seconds", "S", REAL, AT(seconds), 0.001, 1e9, "train so long (140, unless --steps is given)"},
    {"steps", "K", WHOLE, AT(steps), 0, 1e9, "train so many steps; the same seed then gives the same losses"},
    {"seed", "K", WHOLE, AT(seed), 0, 2147483647, "of weights, dropout and samples (1)"},
    {"device", "NAME", STRING, AT(device), 0, 0, "cpu, cpu:THREADS, reference (the fastest here)"},
    {"memory", "BYTES", BYTES, AT(memory), 1, 0, "of the recurrent layers' reserve and workspace at most; 64K, 64M, 1G (as much as is fastest)"},
    {"resume", "FILE", STRING, AT(resume), 0, 0, "go on with the model in FILE"},
    {"save", "FILE", STRING, AT(save), 0, 0, "where the model goes, in safetensors format; '' keeps none (charlm.safetensors)"},
    {"save-every", "K", WHOLE, AT(save_every), 1, 1e9, "save after so many steps (every 10 seconds, but in no more than 5 % of the time)"},
    {"sample", "K", WHOLE, AT(sample), 0, 1e9, "characters to make up at the end (400)"},
    {"prompt", "TEXT", STRING, AT(prompt), 0, 0, "what the sample begins with ('The ')"},
    {"temperature", "X", REAL, AT(temperature), 0.01, 100, "of the sample (0.7)"},
    {"help", NULL, FLAG, AT(help), 0, 0, "this text"},
};
/* clang-format on */
#undef AT
enum { OPTIONS = sizeof table / sizeof *table };

void options_print_help(void)
{
    printf(
        "Usage: charlm [OPTION]... [FILE]...\n"
        "Trains a model that guesses the next character of a text, saves it, and lets it write.\n"
        "The text is the given files, or the sources of this project; the last 5 %% of each "
        "file are held out.\n"
        "It saves as it goes, each time the whole file at once.  Ctrl-C, SIGTERM and SIGHUP save "
        "and "
        "end it.\n\n");
    for (size_t k = 0; k < OPTIONS; k++) {
        char left[40];
        snprintf(left, sizeof left, "--%s %s", table[k].name, table[k].value ? table[k].value : "");
        printf("  %-20s %s\n", left, table[k].help);
    }
}

static bool set_real(void *to, const struct option *option, const char *text, struct complaint *why)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= option->low && value <= option->high))
        return complain(why, "--%s is %.60s, must be %g to %g", option->name, text, option->low,
                        option->high);
    *(double *)to = value;
    return true;
}

/* A whole number, and K, M or G behind it. */
static bool set_bytes(uint64_t *to, const struct option *option, const char *text,
                      struct complaint *why)
{
    static const char units[] = "KMG";
    char *end = NULL;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (text[0] < '0' || text[0] > '9' || number < 1 || number > UINT64_MAX >> shift ||
        (*end && (!unit || end[1])))
        return complain(why, "--%s is %.60s, must be bytes such as 500000, 64K, 64M or 1G",
                        option->name, text);
    *to = (uint64_t)number << shift;
    return true;
}

static bool set(struct options *options, const struct option *option, const char *text,
                struct complaint *why)
{
    void *to = (char *)options + option->offset;
    if (option->kind == REAL)
        return set_real(to, option, text, why);
    if (option->kind == BYTES)
        return set_bytes(to, option, text, why);
    if (option->kind == WHOLE) {
        char name[24];
        const long limits[2] = {(long)option->low, (long)option->high};
        snprintf(name, sizeof name, "--%s", option->name);
        return number_parse(to, name, text, limits, why);
    }
    *(const char **)to = text;
    return true;
}

/* The option that "--name" or "--name=value" names; NULL if none. */
static const struct option *find(const char *argument)
{
    const size_t length = strcspn(argument, "=");
    for (size_t k = 0; k < OPTIONS; k++)
        if (strlen(table[k].name) == length && !strncmp(argument, table[k].name, length))
            return &table[k];
    return NULL;
}

bool options_parse(struct options *options, int count, char **arguments, struct complaint *why)
{
    int k = 1;
    *options = (struct options){.save = "charlm.safetensors",
                                .prompt = "The ",
                                .steps = -1,
                                .sample = 400,
                                .seed = 1,
                                .rate = 0.01,
                                .temperature = 0.7};
    for (; k < count && !strncmp(arguments[k], "--", 2) && arguments[k][2]; k++) {
        const struct option *option = find(arguments[k] + 2);
        const char *value = strchr(arguments[k], '=');
        if (!option)
            return complain(why, "unknown option %.60s; --help lists them", arguments[k]);
        if (option->kind == FLAG) {
            options->help = true;
            continue;
        }
        if (!value && ++k == count)
            return complain(why, "--%s needs a value", option->name);
        if (!set(options, option, value ? value + 1 : arguments[k], why))
            return false;
    }
    const bool marked = k < count && !strcmp(arguments[k], "--");
    k += marked;
    for (int file = k; file < count && !marked; file++)
        if (!strncmp(arguments[file], "--", 2))
            return complain(why, "option %.60s behind a file", arguments[file]);
    options->files = arguments + k;
    options->file_count = count - k;
    if (options->steps < 0 && options->seconds == 0)
        options->seconds = 140;
    return true;
}
