/*
 * Steps, learning rate and evaluation.
 */
#define _POSIX_C_SOURCE 200809L
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "adam.h"
#include "progress.h"

enum { WARM_UP_STEPS = 50, EVALUATE_STEPS = 250 };
static const double PI = 3.14159265358979323846;
static const float CLIP = 1, LOWEST = 0.02f; /* of the gradient's norm; of the rate at the end */
static const double DECAY_FROM = 0.4;        /* of the run */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void train_catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU};
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigemptyset(&action.sa_mask);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        if (ends[k] == SIGHUP && !sigaction(SIGHUP, NULL, &old) && old.sa_handler == SIG_IGN)
            continue; /* under nohup */
        /* A second signal ends the program at once; but each line printed to nobody is one. */
        action.sa_flags = SA_RESTART | (ends[k] == SIGPIPE ? 0 : (int)SA_RESETHAND);
        sigaction(ends[k], &action, NULL);
    }
}

bool train_interrupted(void)
{
    return interrupted != 0;
}

/* What a run needs besides the model. */
struct run {
    const struct training *training;
    struct model *model;
    struct adam adam;
    struct carry held_carry;
    struct streams streams;
    struct progress progress;
    unsigned char *now, *next; /* [T,N] each */
    uint64_t random;
};

static double held_out_bits(struct run *run, struct complaint *why)
{
    const struct model_shape *shape = &run->model->shape;
    struct streams streams = streams_of(&run->training->text->held, shape->batch, shape->steps);
    double bits = 0, characters = 0;
    int T = 0;
    carry_reset(&run->held_carry, run->model);
    while ((T = streams_window(&streams, shape->steps, run->now, run->next)) > 0) {
        const struct window window = {run->now, run->next, T, streams.batch, 0};
        if (!model_forward(run->model, &run->held_carry, &window, why))
            return -1;
        bits += model_loss(run->model, &window);
        characters += (double)T * streams.batch;
    }
    return characters > 0 ? bits / characters : -1;
}

/* The next window of the training text.  At its end the streams begin again, a little further on,
 * so that windows are cut elsewhere each time. */
static struct window next_window(struct run *run)
{
    const struct piece *text = &run->training->text->learnt;
    const struct model_shape *shape = &run->model->shape;
    int T = streams_window(&run->streams, shape->steps, run->now, run->next);
    if (T < shape->steps) {
        const size_t shift = random_bits(&run->random) % (size_t)shape->steps;
        run->streams = streams_of(text, shape->batch, shape->steps);
        if (run->streams.stride > shift + (size_t)shape->steps)
            run->streams.at = shift;
        carry_reset(&run->model->carry, run->model);
        T = streams_window(&run->streams, shape->steps, run->now, run->next);
    }
    const uint64_t seed = random_bits(&run->random);
    return (struct window){run->now, run->next, T, run->streams.batch, seed};
}

static double fraction_done(const struct run *run, long step)
{
    const struct training *training = run->training;
    const double elapsed = clock_seconds() - run->progress.start;
    if (training->steps)
        return (double)step / (double)training->steps;
    return training->seconds > 0 ? fmin(elapsed / training->seconds, 1) : 0;
}

/* Rises for some steps, stays, and goes down like a cosine to the end. */
static float rate_at(const struct run *run, long step, double fraction)
{
    const float rise = step < WARM_UP_STEPS ? (float)(step + 1) / WARM_UP_STEPS : 1;
    const double down = fraction < DECAY_FROM ? 0 : (fraction - DECAY_FROM) / (1 - DECAY_FROM);
    return run->training->rate * rise *
           (LOWEST + (1 - LOWEST) * 0.5f * (1 + (float)cos(PI * down)));
}

static bool step_once(struct run *run, long step, struct complaint *why)
{
    struct model *model = run->model;
    const struct window window = next_window(run);
    if (!model_forward(model, &model->carry, &window, why))
        return false;
    const double characters = (double)window.steps * window.batch;
    const double bits = model_loss(model, &window) / characters;
    if (!isfinite(bits))
        return complain(why, "the loss is %g after %ld steps: try a smaller --rate", bits, step);
    if (!model_backward(model, &window, why))
        return false;
    adam_step(&run->adam, model->theta, model->dtheta, rate_at(run, step, run->progress.fraction),
              CLIP);
    progress_add(&run->progress, bits, characters);
    return model_pack(model, why);
}

static bool is_over(const struct run *run, long step)
{
    const struct training *training = run->training;
    const double elapsed = clock_seconds() - run->progress.start;
    return interrupted || (training->steps && step >= training->steps) ||
           (training->seconds > 0 && elapsed >= training->seconds);
}

static bool evaluate(struct run *run, struct complaint *why)
{
    if (run->training->text->held.size < 2) /* a character and the one after it */
        return true;
    run->progress.held_bits = held_out_bits(run, why);
    return run->progress.held_bits >= 0;
}

/* A save that fails does not end the training. */
static void keep(struct run *run, long step)
{
    struct complaint why = {{0}};
    if (keeper_step(run->training->keeper, step, &why))
        return;
    progress_end(&run->progress);
    fprintf(stderr, "charlm: step %ld is not saved: %s; training goes on, a later step is tried\n",
            step, why.text);
}

static bool run_steps(struct run *run, struct training_result *result, struct complaint *why)
{
    long step = 0;
    for (; !is_over(run, step); step++) {
        if (step && step % EVALUATE_STEPS == 0 && !evaluate(run, why))
            return false;
        run->progress.fraction = fraction_done(run, step);
        if (!step_once(run, step, why))
            return false;
        run->progress.step = run->training->first_step + step + 1;
        progress_print(&run->progress, false);
        keep(run, run->progress.step);
    }
    if (!interrupted && !evaluate(run, why))
        return false;
    run->progress.fraction = 1;
    if (step)
        progress_print(&run->progress, true);
    result->steps = run->training->first_step + step;
    result->held_bits = run->progress.held_bits;
    return true;
}

bool train(struct model *model, const struct training *training, struct training_result *result,
           struct complaint *why)
{
    const struct model_shape *shape = &model->shape;
    const size_t window = (size_t)shape->steps * (size_t)shape->batch;
    struct run run = {.training = training, .model = model, .random = training->seed};
    run.now = malloc(window);
    run.next = malloc(window);
    bool good = run.now && run.next;
    if (!good)
        complain(why, "no memory for windows of %zu characters", window);
    good = good && adam_create(&run.adam, model->params, why) &&
           carry_allocate(&run.held_carry, model, why) && model_pack(model, why);
    if (good) {
        run.streams = streams_of(&training->text->learnt, shape->batch, shape->steps);
        run.progress = progress_start();
        keeper_start(training->keeper);
        good = run_steps(&run, result, why);
        progress_end(&run.progress);
    }
    carry_free(&run.held_carry, model);
    adam_free(&run.adam);
    free(run.now);
    free(run.next);
    return good;
}
