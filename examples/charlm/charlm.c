/*
 * The options, and the run from text to weights to a sample.
 */
#define _GNU_SOURCE /* getopt_long */
#include "charlm.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { STEPS = 64, BATCH = 32 };
enum { TEXT_MIN = 1000 }; /* characters */

static struct {
    const char *cell, *device, *resume, *save, *prompt;
    double hidden, layers, embedding, dropout, rate, seconds, steps, seed, memory, save_every;
    double sample, temperature, help;
} options = {.save = "charlm.model",
             .prompt = "The ",
             .rate = 0.01,
             .steps = -1,
             .seed = 1,
             .sample = 400,
             .temperature = 0.7};

/* An option takes a text or a number; low and high bound the number, which is whole unless low or
 * high is not. */
static const struct setting {
    const char *name, *value, *help;
    const char **text;
    double *number, low, high;
} settings[] = {
    /* clang-format off */
    {"cell", "NAME|FILE", "a cell by name, or a file in the language of doc/cells.md (lstm)", &options.cell, NULL, 0, 0},
    {"hidden", "H", "units of a layer (256)", NULL, &options.hidden, 1, 65536},
    {"layers", "L", "recurrent layers (1)", NULL, &options.layers, 1, 1024},
    {"embedding", "E", "numbers that stand for a character (64)", NULL, &options.embedding, 1, 65536},
    {"dropout", "P", "between layers, in training (0)", NULL, &options.dropout, 0, 0.99},
    {"rate", "R", "Adam's learning rate (0.01)", NULL, &options.rate, 1e-6, 1},
    {"seconds", "S", "length of the training (140, unless --steps is given)", NULL, &options.seconds, 0.001, 1e9},
    {"steps", "K", "steps of the training; the same seed then gives the same losses", NULL, &options.steps, 0, 1e9},
    {"seed", "K", "of weights, dropout and samples (1)", NULL, &options.seed, 0, 2147483647},
    {"device", "NAME", "cpu, cpu:THREADS, cuda or reference (the fastest here)", &options.device, NULL, 0, 0},
    {"memory", "BYTES", "limit for the recurrent layers' reserve and workspace; 64K, 64M, 1G (none)", NULL, &options.memory, 1, 1e15},
    {"resume", "FILE", "continue with the model in FILE", &options.resume, NULL, 0, 0},
    {"save", "FILE", "where the model is saved; '' saves nothing (charlm.model)", &options.save, NULL, 0, 0},
    {"save-every", "K", "steps between two saves (10 seconds)", NULL, &options.save_every, 1, 1e9},
    {"sample", "K", "characters to make up at the end (400)", NULL, &options.sample, 0, 1e9},
    {"prompt", "TEXT", "what the sample begins with ('The ')", &options.prompt, NULL, 0, 0},
    {"temperature", "X", "of the sample: higher is wilder (0.7)", NULL, &options.temperature, 0.01, 100},
    {"help", NULL, "this text", NULL, &options.help, 0, 0},
    /* clang-format on */
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void print_help(void)
{
    printf("Usage: charlm [OPTION]... FILE...\n"
           "Trains a model that guesses the next character of a text, saves it, and lets it "
           "write.\nThe last 5 %% of each file are held out.  Ctrl-C saves and ends it.\n\n");
    for (size_t k = 0; k < SETTINGS; k++) {
        char left[40];
        snprintf(left, sizeof left, "--%s %s", settings[k].name,
                 settings[k].value ? settings[k].value : "");
        printf("  %-20s %s\n", left, settings[k].help);
    }
}

static void set(const struct setting *setting, const char *text)
{
    static const char units[] = "KMG";
    char *end = NULL;
    if (setting->text) {
        *setting->text = text;
        return;
    }
    if (!text) { /* --help */
        *setting->number = 1;
        return;
    }
    double number = strtod(text, &end);
    const bool whole =
        setting->low == (double)(long)setting->low && setting->high == (double)(long)setting->high;
    const char *unit = *end && setting->number == &options.memory ? strchr(units, *end) : NULL;
    if (unit) {
        number *= (double)(1L << 10 * (unit - units + 1));
        end++;
    }
    if (end == text || *end || !(number >= setting->low && number <= setting->high) ||
        (whole && number != (double)(long)number))
        die(2, "--%s is %.60s, must be %s%g to %g", setting->name, text, whole ? "whole, " : "",
            setting->low, setting->high);
    *setting->number = number;
}

static void parse(int count, char **arguments)
{
    struct option table[SETTINGS + 1] = {{0}};
    int k = 0, found = 0;
    for (k = 0; k < SETTINGS; k++)
        table[k] = (struct option){settings[k].name,
                                   settings[k].value ? required_argument : no_argument, NULL, 0};
    while ((found = getopt_long(count, arguments, "", table, &k)) != -1) {
        if (found == '?')
            exit(2);
        set(&settings[k], optarg);
    }
    if (options.steps < 0 && options.seconds == 0)
        options.seconds = 140;
}

/* Takes the option, the resumed file's number, or the default; the first two must agree. */
static long settle(const char *name, double asked, long resumed, long normal)
{
    if (resumed && asked != 0 && (long)asked != resumed)
        die(1, "--%s is %g, but the resumed file has %ld", name, asked, resumed);
    return resumed ? resumed : asked != 0 ? (long)asked : normal;
}

/* The cell, by the name of a built-in one or from its text, which becomes part of the model's file.
 * Returns a cell to free, or NULL for a built-in one. */
static ecornn_cell *choose_cell(struct file *file, const ecornn_cell **cell)
{
    const char *name = options.resume ? file->cell_name : options.cell ? options.cell : "lstm";
    ecornn_cell *parsed = NULL;
    size_t bytes = 0;
    if (options.resume && options.cell && strcmp(options.cell, name) != 0)
        die(1, "--cell is %.60s, but the resumed file has %.60s", options.cell, name);
    *cell = file->cell_text && *file->cell_text ? NULL : find_cell(name);
    if (!*cell) {
        if (!options.resume)
            file->cell_text = cell_load(name, &bytes);
        if (ecornn_cell_parse(&parsed, file->cell_text) != ECORNN_OK)
            die(1, "%.100s:%s", name, ecornn_error_detail());
        if (strlen(file->cell_text) != bytes && !options.resume)
            die(1, "%.100s has a zero byte", name);
        *cell = parsed;
    } else if (!file->cell_text) {
        file->cell_text = allocate(1, 1);
    }
    if (!options.resume)
        snprintf(file->cell_name, sizeof file->cell_name, "%.63s", name);
    return parsed;
}

static void read_text(struct text *text, struct file *file, char **files)
{
    if (!*files)
        die(2, "name the files to learn from");
    for (; *files; files++)
        text_add_file(text, *files);
    if (!options.resume)
        file->alphabet = alphabet_of(text);
    const size_t dropped = text_encode(text, &file->alphabet);
    if (dropped)
        printf("%zu characters dropped: the resumed model does not know them\n", dropped);
    if (text->training.count < TEXT_MIN)
        die(1, "the text to learn has %zu characters, at least %d are needed", text->training.count,
            TEXT_MIN);
}

static ecornn_device *make_model(struct model *model, const struct file *file,
                                 const ecornn_cell *cell)
{
    const struct model_shape shape = {.cell = cell,
                                      .alphabet = file->alphabet.size,
                                      .embedding = (int)file->embedding,
                                      .hidden = (int)file->hidden,
                                      .layers = (int)file->layers,
                                      .steps = STEPS,
                                      .batch = BATCH,
                                      .dropout = (float)options.dropout,
                                      .memory = (uint64_t)options.memory};
    ecornn_device *device = NULL;
    ecornn_device_info info = {.size = sizeof info};
    check(ecornn_device_open(&device, options.device));
    check(ecornn_device_query(device, &info));
#ifdef _OPENMP
    omp_set_num_threads(info.threads > 0 ? info.threads : 1); /* for the layers around, too */
#endif
    model_plan(model, device, &shape);
    if (options.resume)
        file_check(file, model);
    const char *problem =
        options.steps != 0 && *options.save ? file_save(file, model, NULL, options.save) : NULL;
    if (problem)
        die(1, "%.200s cannot be written: %s", options.save, problem);
    model_allocate(model);
    if (options.resume)
        file_load_theta(file, model);
    else
        model_initialise(model, (uint64_t)options.seed);
    return device;
}

static void train_and_report(struct model *model, struct file *file, const struct text *text,
                             double entropy)
{
    const struct training training = {.text = text,
                                      .file = file,
                                      .path = options.save,
                                      .steps = options.steps > 0 ? (long)options.steps : 0,
                                      .seconds = options.seconds,
                                      .save_every = (long)options.save_every,
                                      .rate = (float)options.rate,
                                      .seed = (uint64_t)options.seed};
    train_catch_signals();
    printf("%zu characters, %d different, order-0 entropy %.2f bits; %s, %zu parameters\n",
           text->training.count + text->held_out.count, file->alphabet.size, entropy,
           file->cell_name, model->params);
    fflush(stdout);
    const double bits = train(model, &training);
    if (bits >= 0)
        printf("held-out %.3f bits per character (order-0 entropy %.2f)\n", bits, entropy);
    if (*options.save)
        printf("saved step %ld to %s\n", file->step, options.save);
}

int main(int count, char **arguments)
{
    static struct file file;
    static struct text text;
    struct model model;
    const ecornn_cell *cell = NULL;
    parse(count, arguments);
    if (options.help != 0) {
        print_help();
        return 0;
    }
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit is an error of write, not our end */
    if (options.resume)
        file_read(&file, options.resume);
    else if (options.steps == 0)
        die(2, "--steps 0 needs --resume: there is no model yet");
    file.hidden = settle("hidden", options.hidden, file.hidden, 256);
    file.layers = settle("layers", options.layers, file.layers, 1);
    file.embedding = settle("embedding", options.embedding, file.embedding, 64);
    ecornn_cell *parsed = choose_cell(&file, &cell);
    if (options.steps != 0)
        read_text(&text, &file, arguments + optind);
    ecornn_device *device = make_model(&model, &file, cell);
    if (options.steps != 0)
        train_and_report(&model, &file, &text, text_entropy(&text));
    if (options.sample > 0 && !train_interrupted())
        sample(&model, &file.alphabet, (long)options.sample, (float)options.temperature,
               (uint64_t)options.seed, options.prompt);
    model_free(&model);
    ecornn_device_close(device);
    ecornn_cell_free(parsed);
    file_free(&file);
    free(text.training.byte);
    free(text.held_out.byte);
    if (ferror(stdout) || fflush(stdout))
        die(1, "standard output cannot be written");
    return 0;
}
