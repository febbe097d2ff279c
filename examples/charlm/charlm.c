/*
 * charlm: a character-level language model over ecornn, from text to weights to made-up text.
 * This file puts the parts together; its neighbours do the work, each one thing.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "cell.h"
#include "checkpoint.h"
#include "options.h"
#include "sample.h"
#include "train.h"

#ifndef CHARLM_SOURCE_DIR
#define CHARLM_SOURCE_DIR "."
#endif

enum { STEPS = 64, BATCH = 32, HIDDEN = 256, LAYERS = 1, EMBEDDING = 64 };
enum { TEXT_MIN = 1000 }; /* characters */

/* Everything the program holds; all of it is freed in one place. */
struct app {
    struct options options;
    struct safetensors file; /* resumed */
    struct checkpoint checkpoint;
    struct cell_choice cell;
    struct text text;
    ecornn_device *device;
    struct model model;
    struct keeper keeper;
};

static bool library(ecornn_status status, struct complaint *why)
{
    return status == ECORNN_OK ||
           complain(why, "%s: %s", ecornn_status_name(status), ecornn_error_detail());
}

/* What was asked for, what the resumed file says, or the default; the first two must agree. */
static bool settle(long *value, const char *name, long asked, long normal, struct complaint *why)
{
    if (*value && asked && *value != asked)
        return complain(why, "--%s is %ld, but the resumed file has %ld", name, asked, *value);
    if (!*value)
        *value = asked ? asked : normal;
    return true;
}

static bool read_checkpoint(struct app *app, struct complaint *why)
{
    const struct options *options = &app->options;
    struct checkpoint *checkpoint = &app->checkpoint;
    if (options->resume && (!safetensors_read(&app->file, options->resume, why) ||
                            !checkpoint_read(checkpoint, &app->file, why)))
        return false;
    return settle(&checkpoint->hidden, "hidden", options->hidden, HIDDEN, why) &&
           settle(&checkpoint->layers, "layers", options->layers, LAYERS, why) &&
           settle(&checkpoint->embedding, "embedding", options->embedding, EMBEDDING, why);
}

static bool find_cell(struct app *app, struct complaint *why)
{
    struct checkpoint *checkpoint = &app->checkpoint;
    const char *asked = app->options.cell;
    if (!app->options.resume && !cell_choose(&app->cell, asked ? asked : "lstm", why))
        return false;
    if (app->options.resume) {
        if (asked && strcmp(asked, checkpoint->cell_name) != 0)
            return complain(why, "--cell is %.60s, but the resumed file has %.60s", asked,
                            checkpoint->cell_name);
        if (!cell_restore(&app->cell, checkpoint->cell_name, checkpoint->cell_text, why))
            return false;
    }
    checkpoint->cell_name = app->cell.name;
    checkpoint->cell_text = app->cell.text;
    return true;
}

/* The text in places of the alphabet, which is the resumed model's or what occurs. */
static bool read_text(struct app *app, struct complaint *why)
{
    const struct options *options = &app->options;
    bool good = true;
    for (int k = 0; good && k < options->file_count; k++)
        good = text_add_file(&app->text, options->files[k], why);
    if (!options->file_count)
        good = text_add_sources(&app->text, CHARLM_SOURCE_DIR, why);
    if (good && !options->file_count && !app->text.files)
        good = text_add_sources(&app->text, ".", why);
    if (!good)
        return false;
    if (!options->resume)
        app->checkpoint.alphabet = alphabet_of(&app->text);
    const size_t left_out = text_encode(&app->text, &app->checkpoint.alphabet);
    if (left_out)
        printf("%zu characters left out: the resumed model does not know them\n", left_out);
    if (app->text.learnt.size < TEXT_MIN)
        return complain(why, "the text to learn has %zu characters, at least %d are needed",
                        app->text.learnt.size, TEXT_MIN);
    return true;
}

static bool check_keeper(struct app *app, struct complaint *why)
{
    const struct options *options = &app->options;
    app->keeper = (struct keeper){.path = options->steps ? options->save : "",
                                  .checkpoint = app->checkpoint,
                                  .model = &app->model,
                                  .every = options->save_every};
    const long more = options->steps > 0 ? options->steps : 0;
    return keeper_check(&app->keeper, app->checkpoint.step + more, why);
}

static bool build_model(struct app *app, struct complaint *why)
{
    const struct checkpoint *checkpoint = &app->checkpoint;
    const struct model_shape shape = {.cell = app->cell.cell,
                                      .alphabet = checkpoint->alphabet.size,
                                      .embedding = (int)checkpoint->embedding,
                                      .hidden = (int)checkpoint->hidden,
                                      .layers = (int)checkpoint->layers,
                                      .steps = STEPS,
                                      .batch = BATCH,
                                      .dropout = (float)app->options.dropout,
                                      .training = true,
                                      .memory = app->options.memory};
    ecornn_device_info info;
    if (!library(ecornn_device_open(&app->device, app->options.device), why) ||
        !library(ecornn_device_query(app->device, &info), why))
        return false;
#ifdef _OPENMP
    omp_set_num_threads(info.threads > 0 ? info.threads : 1); /* of the output layer, too */
#endif
    if (!model_plan(&app->model, app->device, &shape, why) ||
        (app->options.resume && !checkpoint_check(&app->file, &app->model, why)) ||
        !check_keeper(app, why) || !model_allocate(&app->model, why))
        return false;
    if (app->options.resume)
        return checkpoint_load(&app->model, &app->file, why);
    model_initialise(&app->model, (uint64_t)app->options.seed);
    return true;
}

static bool train_and_save(struct app *app, struct complaint *why)
{
    const struct options *options = &app->options;
    const struct text *text = &app->text;
    const struct training training = {.text = text,
                                      .keeper = &app->keeper,
                                      .first_step = app->checkpoint.step,
                                      .steps = options->steps > 0 ? options->steps : 0,
                                      .seconds = options->seconds,
                                      .rate = (float)options->rate,
                                      .seed = (uint64_t)options->seed};
    const double entropy = text_entropy(text);
    struct training_result result;
    train_catch_signals();
    printf("%zu characters of %zu file%s, %d different, order-0 entropy %.2f bits; %s, %zu "
           "parameters\n",
           text->learnt.size + text->held.size, text->files, text->files == 1 ? "" : "s",
           app->checkpoint.alphabet.size, entropy, app->checkpoint.cell_name, app->model.params);
    fflush(stdout);
    if (!train(&app->model, &training, &result, why))
        return false;
    if (result.held_bits >= 0)
        printf("held-out %.3f bits per character (order-0 entropy %.2f)\n", result.held_bits,
               entropy);
    if (!keeper_finish(&app->keeper, result.steps, why))
        return false;
    if (*options->save)
        printf("saved step %ld to %s\n", result.steps, options->save);
    return true;
}

static bool run(struct app *app, struct complaint *why)
{
    const struct options *options = &app->options;
    const bool training = options->steps != 0;
    const struct sampling sampling = {options->sample, (float)options->temperature,
                                      (uint64_t)options->seed, options->prompt};
    if (!training && !options->resume)
        return complain(why, "--steps 0 needs --resume: there is no model yet");
    if (!read_checkpoint(app, why) || !find_cell(app, why) || (training && !read_text(app, why)) ||
        !build_model(app, why) || (training && !train_and_save(app, why)))
        return false;
    return options->sample == 0 || train_interrupted() ||
           sample(&app->model, &app->checkpoint.alphabet, &sampling, why);
}

static void app_free(struct app *app)
{
    model_free(&app->model);
    ecornn_device_close(app->device);
    cell_free(&app->cell);
    text_free(&app->text);
    safetensors_free(&app->file);
}

int main(int count, char **arguments)
{
    struct complaint why = {{0}};
    struct app app = {.device = NULL};
    if (!options_parse(&app.options, count, arguments, &why)) {
        fprintf(stderr, "charlm: %s\n", why.text);
        return 2;
    }
    if (app.options.help) {
        options_print_help();
        return 0;
    }
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit is an error of write, not our end */
    const bool good = run(&app, &why);
    app_free(&app);
    if (good && !ferror(stdout) && !fflush(stdout))
        return 0;
    fprintf(stderr, "charlm: %s\n", good ? "standard output cannot be written" : why.text);
    return 1;
}
