/*
 * Steps, optimiser, learning rate, evaluation, progress and saving; and sampling.
 */
#define _POSIX_C_SOURCE 200809L
#include "charlm.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WARM_UP_STEPS = 50, EVALUATE_STEPS = 250 };
enum { SLICES = 64 }; /* of a sum whose order must not depend on the number of threads */
static const double PI = 3.14159265358979323846;
static const float CLIP = 1;          /* the largest norm of a gradient */
static const float LOWEST = 0.02f;    /* the rate at the end, relative to the highest */
static const double DECAY_FROM = 0.4; /* of the run: the rate falls from here on */
/* Adam's decays.  The squares' average forgets faster than with the usual 0.999, which suits runs
 * of a few thousand steps. */
static const float MEAN_DECAY = 0.9f, SQUARE_DECAY = 0.99f, EPSILON = 1e-8f;
static const double SAVE_SECONDS = 10, PRINT_SECONDS = 10, TERMINAL_SECONDS = 0.25;

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void train_catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal}, old;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        /* A second signal ends the program at once, except SIGPIPE, which each line may cause. */
        action.sa_flags = SA_RESTART | (ends[k] == SIGPIPE ? 0 : (int)SA_RESETHAND);
        if (ends[k] == SIGHUP && !sigaction(SIGHUP, NULL, &old) && old.sa_handler == SIG_IGN)
            continue; /* under nohup */
        sigaction(ends[k], &action, NULL);
    }
}

bool train_interrupted(void)
{
    return interrupted != 0;
}

struct run {
    const struct training *training;
    struct model *model;
    float *mean, *square; /* [params]: Adam's averages of the gradient and of its square */
    struct carry held_out_carry;
    struct streams streams;
    struct window window;
    uint64_t random;
    long step;                         /* of this run */
    double start, printed, saved;      /* seconds of the clock */
    double bits, held_out, characters; /* bits a character (negative: none yet); read so far */
    bool terminal;
};

/* ---- optimiser ------------------------------------------------------------------------------- */

static double norm_of(const float *a, size_t count)
{
    double slice[SLICES], sum = 0;
#pragma omp parallel for schedule(static)
    for (int p = 0; p < SLICES; p++) {
        slice[p] = 0;
        for (size_t k = count * (size_t)p / SLICES; k < count * ((size_t)p + 1) / SLICES; k++)
            slice[p] += (double)a[k] * (double)a[k];
    }
    for (int p = 0; p < SLICES; p++)
        sum += slice[p];
    return sqrt(sum);
}

/* Adam (Kingma and Ba 2015); a gradient longer than CLIP counts as scaled down to it. */
static void adam_step(struct run *run, float rate)
{
    struct model *model = run->model;
    const double norm = norm_of(model->dtheta, model->params);
    const float scale = norm > (double)CLIP ? CLIP / (float)norm : 1;
    const float mean_weight = 1 / (1 - powf(MEAN_DECAY, (float)(run->step + 1)));
    const float square_weight = 1 / (1 - powf(SQUARE_DECAY, (float)(run->step + 1)));
    float *const restrict mean = run->mean, *const restrict square = run->square;
    float *const restrict theta = model->theta;
#pragma omp parallel for simd schedule(static)
    for (size_t k = 0; k < model->params; k++) {
        const float d = scale * model->dtheta[k];
        mean[k] = MEAN_DECAY * mean[k] + (1 - MEAN_DECAY) * d;
        square[k] = SQUARE_DECAY * square[k] + (1 - SQUARE_DECAY) * d * d;
        theta[k] -= rate * mean_weight * mean[k] / (sqrtf(square_weight * square[k]) + EPSILON);
    }
}

/* The fraction of the run that is over, 0 to 1. */
static double fraction_done(const struct run *run)
{
    const struct training *training = run->training;
    if (training->steps)
        return (double)run->step / (double)training->steps;
    return training->seconds > 0 ? fmin((clock_seconds() - run->start) / training->seconds, 1) : 0;
}

/* The rate rises for some steps, stays, and falls like a cosine to the end. */
static float rate_at(const struct run *run)
{
    const double done = fraction_done(run);
    const float rise = run->step < WARM_UP_STEPS ? (float)(run->step + 1) / WARM_UP_STEPS : 1;
    const double down = done < DECAY_FROM ? 0 : (done - DECAY_FROM) / (1 - DECAY_FROM);
    return run->training->rate * rise *
           (LOWEST + (1 - LOWEST) * 0.5f * (1 + (float)cos(PI * down)));
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Reads the next window of the training text.  At its end the streams begin again at a random
 * offset, so that the windows are cut elsewhere each time. */
static void read_window(struct run *run)
{
    const struct model_shape *shape = &run->model->shape;
    if (!streams_next(&run->streams, shape->steps, &run->window) ||
        run->window.steps < shape->steps) {
        const size_t offset = random_bits(&run->random) % (size_t)shape->steps;
        run->streams = streams_of(&run->training->text->training, shape->batch, shape->steps);
        if (run->streams.stride > offset + (size_t)shape->steps)
            run->streams.position = offset;
        carry_reset(&run->model->training, run->model);
        streams_next(&run->streams, shape->steps, &run->window);
    }
    run->window.seed = random_bits(&run->random);
}

static void step_once(struct run *run)
{
    struct model *model = run->model;
    read_window(run);
    const double characters = (double)run->window.steps * run->window.batch;
    model_forward(model, &model->training, &run->window);
    const double bits = model_loss(model, &run->window) / characters;
    if (!isfinite(bits))
        die(1, "the loss is %g after %ld steps: try a smaller --rate", bits, run->step);
    model_backward(model, &run->window);
    adam_step(run, rate_at(run));
    model_pack(model);
    run->bits = run->bits < 0 ? bits : run->bits + 0.05 * (bits - run->bits);
    run->characters += characters;
    run->step++;
    run->training->file->step++;
}

static void evaluate(struct run *run)
{
    const struct characters *text = &run->training->text->held_out;
    const struct model_shape *shape = &run->model->shape;
    double bits = 0, characters = 0;
    if (text->count < 2) /* a character and the one after it */
        return;
    struct streams streams = streams_of(text, shape->batch, shape->steps);
    carry_reset(&run->held_out_carry, run->model);
    while (streams_next(&streams, shape->steps, &run->window)) {
        model_forward(run->model, &run->held_out_carry, &run->window);
        bits += model_loss(run->model, &run->window);
        characters += (double)run->window.steps * run->window.batch;
    }
    run->held_out = bits / characters;
}

/* One line, kept up to date on a terminal, else a new one every ten seconds. */
static void print_progress(struct run *run, bool last)
{
    const double now = clock_seconds(), elapsed = now - run->start;
    if (!last && now - run->printed < (run->terminal ? TERMINAL_SECONDS : PRINT_SECONDS))
        return;
    const double done = fmax(fraction_done(run), 1e-4);
    const long left = last ? 0 : (long)(elapsed * (1 - done) / done + 0.5);
    printf("%sstep %ld  bits/char %.3f", run->terminal ? "\r" : "", run->training->file->step,
           run->bits);
    if (run->held_out >= 0)
        printf("  held-out %.3f", run->held_out);
    printf("  %.0f char/s  %ld:%02ld left%s%s", run->characters / fmax(elapsed, 1e-9), left / 60,
           left % 60, run->terminal ? "  \x1b[K" : "", run->terminal && !last ? "" : "\n");
    fflush(stdout);
    run->printed = now;
}

/* A save that fails does not end the training. */
static void save_if_due(struct run *run)
{
    const struct training *training = run->training;
    const double now = clock_seconds();
    const bool due = training->save_every ? training->file->step % training->save_every == 0
                                          : now - run->saved >= SAVE_SECONDS;
    if (!*training->path || !due)
        return;
    const char *problem = file_save(training->file, run->model, run->model->theta, training->path);
    run->saved = now;
    if (problem)
        fprintf(stderr, "%scharlm: step %ld is not saved: %s; training goes on\n",
                run->terminal ? "\n" : "", training->file->step, problem);
}

static bool is_over(const struct run *run)
{
    const struct training *training = run->training;
    return interrupted || (training->steps && run->step >= training->steps) ||
           (training->seconds > 0 && clock_seconds() - run->start >= training->seconds);
}

double train(struct model *model, const struct training *training)
{
    const struct model_shape *shape = &model->shape;
    const size_t rows = (size_t)shape->steps * (size_t)shape->batch;
    const double now = clock_seconds();
    struct run run = {.training = training,
                      .model = model,
                      .mean = allocate(model->params, sizeof(float)),
                      .square = allocate(model->params, sizeof(float)),
                      .streams = streams_of(&training->text->training, shape->batch, shape->steps),
                      .window = {.input = allocate(rows, 1), .target = allocate(rows, 1)},
                      .random = training->seed,
                      .start = now,
                      .printed = now,
                      .saved = now,
                      .bits = -1,
                      .held_out = -1,
                      .terminal = isatty(STDOUT_FILENO) == 1};
    carry_allocate(&run.held_out_carry, model);
    model_pack(model);
    while (!is_over(&run)) {
        if (run.step && run.step % EVALUATE_STEPS == 0)
            evaluate(&run);
        step_once(&run);
        print_progress(&run, false);
        save_if_due(&run);
    }
    if (!interrupted)
        evaluate(&run);
    print_progress(&run, true);
    const char *problem =
        *training->path ? file_save(training->file, model, model->theta, training->path) : NULL;
    if (problem)
        die(1, "step %ld is not saved: %s", training->file->step, problem);
    carry_free(&run.held_out_carry, model);
    free(run.mean);
    free(run.square);
    free(run.window.input);
    free(run.window.target);
    return run.held_out;
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* An index of the alphabet, drawn by the softmax of logits / temperature. */
static int draw(const float *logits, int V, float temperature, uint64_t *random)
{
    float weight[256], highest = logits[0], sum = 0;
    for (int v = 1; v < V; v++)
        highest = logits[v] > highest ? logits[v] : highest;
    for (int v = 0; v < V; v++)
        sum += weight[v] = expf((logits[v] - highest) / temperature);
    float left = random_uniform(random) * sum;
    for (int v = 0; v < V - 1; v++)
        if ((left -= weight[v]) < 0)
            return v;
    return V - 1;
}

void sample(struct model *model, const struct alphabet *alphabet, long characters,
            float temperature, uint64_t seed, const char *prompt)
{
    /* The sample begins as if a line had just ended. */
    unsigned char index = (unsigned char)(alphabet->index['\n'] < 0 ? 0 : alphabet->index['\n']);
    const struct window window = {.input = &index, .steps = 1, .batch = 1};
    struct carry carry;
    carry_allocate(&carry, model);
    model_pack(model);
    for (long k = 0; k < characters && !interrupted; k++) {
        model_forward(model, &carry, &window);
        while (*prompt && alphabet->index[(unsigned char)*prompt] < 0)
            prompt++; /* a character that the model does not know */
        index = (unsigned char)(*prompt ? alphabet->index[(unsigned char)*prompt++]
                                        : draw(model->logits, alphabet->size, temperature, &seed));
        const unsigned char byte = alphabet->byte[index];
        const bool printable = byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f);
        putchar(printable ? byte : '?');
    }
    putchar('\n');
    carry_free(&carry, model);
}
