/*
 * The list of cases that every backend runs: chosen ones (every option once), edges (sizes 1, odd,
 * prime, one more or less than a vector's width) for every built-in cell, and random ones from a
 * printed seed, the environment's ECORNN_SEED or a fixed one.
 */
#include "tests/kit/testing.h"
#include "tests/kit/calls.h"

#include <check.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const chosen[] = {
    "lstm/f32/infer/T5/N3/I7/H16",
    "lstm/f32/train/T5/N3/I7/H16",
    "lstm/f64/train/T5/N3/I7/H16/states",
    "lstm/f32/train/T9/N4/I5/H33/states/accumulate",
    "lstm/f32/train/T6/N5/I3/H8/lengths:random/states",
    "lstm/f32/train/rev/T6/N5/I3/H8/lengths:random/states",
    "lstm/f32/train/bi/T6/N5/I3/H8/lengths:random/states/batch-major",
    "lstm/f32/train/L3/bi/T5/N4/I6/H9/lengths:random/states/dropout:0.4",
    "lstm/f32/train/L2/T7/N3/I4/H10/P6/states",
    "lstm/f64/train/L2/bi/T5/N4/I4/H9/P5/lengths:random/states/dropout:0.25/accumulate",
    "lstm/f32/train/L2/bi/T5/N4/I4/H12/P3/lengths:random/states/batch-major",
    "lstm/f32/infer/L2/bi/T5/N4/I4/H12/P3/lengths:random/states/batch-major",
    "lstm/f32/infer/L2/rev/T5/N4/I4/H12/P16/states/alias",
    "lstm/f32/train/L2/bi/T4/N3/I5/H6/lengths:zero/states",
    "lstm/f32/train/L2/bi/T4/N3/I5/H6/lengths:zero",
    "lstm/f32/train/L2/T4/N6/I5/H6/lengths:short/states/accumulate",
    "lstm/f32/train/bi/T4/N3/I5/H6/lengths:full/states",
    "lstm/f32/train/L2/bi/T9/N8/I5/H11/run:4x3/states/lengths:random",
    "lstm/f32/train/L2/T9/N8/I5/H11/run:9x3/batch-major",
    "lstm/f32/infer/L2/bi/T9/N8/I5/H11/run:2x8/batch-major/states",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/dropout:0.5/noreserve/states",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/states/alias/lengths:random/noreserve",
    "lstm/f32/infer/L2/bi/T5/N3/I4/H7/states/alias",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/states/null:y",
    "lstm/f32/train/L2/bi/T9/N4/I5/H11/lengths:random/states/save:every:4/accumulate",
    "lstm-peephole/f32/train/rev/T9/N4/I5/H11/lengths:random/states/save:states/bf16-save",
    "lstm/f32/train/L2/T1/N5/I7/H13/save:states/bf16-save",
    "lstm/f32/train/L2/T9/N4/I5/H11/P6/states/save:every:3/f16-save/batch-major",
    "lstm/f32/train/L2/bi/T9/N4/I5/H11/P6/lengths:random/states/resets:30/bf16-save",
    "gru-reset-first/f32/train/L2/rev/T9/N4/I5/H16/states/f16-save/batch-major/run:7x3",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/states/null:y,final,dx,dinitial,dweights",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/states/null:dy/lengths:random",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/states/null:dfinal",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/states/null:dy,dfinal",
    "lstm/f32/train/L2/T5/N3/I4/H7/P2/null:dx/batch-major/dropout:0.3",
    "lstm/f32/infer/L2/T5/N3/I4/H7/P2/null:y,final",
    "lstm/f32/train/T4/N3/I5/H16/scale:100/states",
    "lstm/f32/train/T4/N3/I5/H16/scale:0/states",
    "lstm/f32/train/T4/N3/I5/H16/scale:1e-30/states",
    "rnn-relu/f32/train/T3/N9/I5/H80/scale:1e-20/states",
    "lstm/f32/train/T64/N2/I3/H5/states",
    "lstm/f32/train/T3/N70/I3/H5/lengths:random",
    "lstm/f32/train/T3/N2/I90/H70",
    "lstm/f32/train/T2/N3/I1024/H130/states", /* rows begin 4 KB apart */
    /* Long sums must not start from biases, and sums of R h not from W x. */
    "lstm/f32/train/T1/N3/I1024/H64/states",
    "rnn-relu/f32/infer/T1/N5/I4/H24/P2048/states/seed:3",
    "rnn-tanh/f32/infer/T2/N9/I4/H1024/states",
    "rnn-tanh/bf16/train/L2/bi/T2/N2/I4/H512/states",
    "gru/f32/train/T3/N2/I90/H70/states",
    "gru/f64/train/T5/N3/I7/H16/states",
    "gru/f32/train/L2/bi/T6/N5/I3/H8/lengths:random/states/accumulate/dropout:0.2",
    "gru/f32/infer/L2/bi/T6/N5/I3/H8/lengths:random/states/batch-major",
    "gru/f32/infer/L2/bi/T60/N1/I5/H19/lengths:random/states/batch-major", /* nothing gathered */
    "gru/f32/infer/L3/T60/N3/I4/H19/run:20x3/states", /* some chunks of a wavefront left out */
    "gru/f32/train/T48/N2/I3/H17/scale:10/states",
    "gru/f32/train/L2/bi/T5/N4/I3/H48/heads:4/states/lengths:random/accumulate",
    "gru-reset-first/bf16/train/T5/N9/I3/H34/heads:2/states",
    "lstm/f32/bf16-weights/train/bi/T4/N5/I3/H150/heads:6",
    "lstm/f64/infer/T4/N3/I3/H15/heads:15/states",
    "gru/f32/train/L2/bi/T5/N4/I12/H48/heads:4/grouped-input/states/lengths:random/accumulate",
    "lstm/bf16/train/T4/N9/I40/H34/heads:2/grouped-input",
    "lstm/f64/infer/L2/T4/N3/I6/H15/heads:3/grouped-input/states",
    "mgu/f32/bf16-weights/train/T3/N5/I10/H75/heads:5/grouped-input",
    "group-norm/f32/train/L2/bi/T5/N5/I3/H21/heads:3/states/lengths:random/accumulate",
    "group-norm/bf16/train/T6/N9/I3/H40/heads:2/resets:30/save:every:2",
    "group-norm/f64/infer/rev/T4/N3/I3/H150/heads:5/states",
    "slstm/f32/train/T9/N4/I5/H32/heads:4/resets:20",
    "gru-reset-first/f64/train/L2/bi/T5/N3/I7/H16/states/lengths:random",
    "gru-reset-first/f32/train/L2/bi/T6/N4/I3/H9/lengths:random/states/dropout:0.3",
    "gru-reset-first/f32/infer/L2/bi/T6/N4/I3/H9/states/batch-major",
    "mgu/f32/train/L2/bi/T6/N4/I3/H9/lengths:random/states",
    "lstm-peephole/f64/train/L2/bi/T5/N3/I7/H16/states/lengths:random",
    "lstm-peephole/f32/train/L2/bi/T5/N3/I7/H16/P4/states/lengths:random/accumulate",
    "lstm-coupled/f32/train/L2/bi/T5/N3/I7/H16/P4/states/lengths:random",
    "rnn-tanh/f32/train/L2/bi/T5/N3/I7/H16/P4/states/lengths:random",
    "rnn-tanh/f64/train/L2/T8/N3/I7/H16/states/accumulate",
    "rnn-relu/f32/train/L2/bi/T5/N3/I7/H16/states/lengths:random/dropout:0.1",
    "rnn-relu/f32/infer/L2/rev/T5/N3/I7/H16/P9/states",
    "projected-two-states/f32/train/L2/T5/N3/I4/H16/P6/states",
    "projected-two-states/f32/train/T4/N3/I4/H8/P4/states/lengths:random",
    /* More rows of weight gradients than are copied at once, wide P. */
    "lstm/f32/train/T70/N8/I3/H5/P90/states",
    /* Two threads in the steps: units, rows, projection. */
    "lstm/f32/train/bi/T3/N9/I5/H65/states/lengths:random",
    "lstm/f32/train/T3/N33/I5/H37/states/lengths:random",
    "lstm/f32/train/T3/N7/I5/H50/P90/states/lengths:random",
    "lstm/f32/infer/L2/rev/T3/N2/I5/H131/states",
    "gru-reset-first/f32/train/bi/T3/N9/I5/H75/states/lengths:random",
    "mgu/f32/train/T3/N12/I5/H77/states/lengths:random",
    /* Resets: every direction, with lengths, several layers, projections, dropout; every step;
     * none; replays. */
    "lstm/f32/train/T9/N5/I3/H19/resets:30",
    "lstm/f32/train/L2/bi/T7/N5/I3/H19/states/resets:30/lengths:random/dropout:0.3/accumulate",
    "lstm/f32/infer/L3/bi/T7/N5/I3/H19/states/resets:30/lengths:random/batch-major",
    "lstm/f32/train/L2/rev/T7/N5/I3/H19/P7/states/resets:30/batch-major/run:6x4",
    "lstm/f32/infer/L2/T7/N5/I3/H19/P24/states/resets:100/alias",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/resets/states",
    "lstm/f32/train/L2/bi/T5/N3/I4/H7/states/resets:40/null:dy,dinitial",
    "lstm/f32/train/T20/N33/I5/H65/states/resets:5",
    "lstm/f32/train/L2/T9/N5/I3/H19/states/resets:30/save:every:4/lengths:random",
    "gru/f32/train/L2/bi/T9/N5/I3/H40/states/resets:30/save:states",
    "gru/f32/infer/L2/T30/N2/I3/H40/states/resets:10",
    "gru/bf16/train/L2/bi/T7/N9/I33/H48/states/resets:30/lengths:random",
    "lstm/bf16/train/rev/T7/N9/I33/H40/states/resets:30/save:every:3/lengths:random",
    "lstm/f64/train/bi/T7/N4/I5/H9/P5/states/resets:30/lengths:random/batch-major",
    "gru-reset-first/f32/train/L2/bi/T7/N9/I5/H75/states/resets:30/lengths:random",
    "gru-reset-first/bf16/train/rev/T7/N5/I5/H35/states/resets:30/save:every:2",
    "gru-reset-first/f32/infer/L2/T5/N5/I16/H11/states/batch-major/resets:40",
    "mgu/f32/train/T7/N12/I5/H77/states/resets:20",
    "lstm-peephole/f32/train/L2/T7/N5/I7/H16/P4/states/resets:30/lengths:random",
    "rnn-tanh/f32/train/L2/bi/T7/N5/I7/H33/states/resets:30/lengths:random",
    "projected-two-states/f32/train/L2/T5/N3/I4/H16/P6/states/resets:30",
    "drawn-lstm/f32/train/bi/T6/N4/I4/H17/states/resets:30/lengths:random",
    /* Masked steps, and padding that repeats. */
    "lstm/f32/train/L2/bi/T7/N5/I3/H19/states/mask:30/resets:30/lengths:random/repeat-padding/"
    "dropout:0.3/accumulate",
    "lstm/f32/train/L2/rev/T9/N5/I3/H19/P7/states/mask:30/save:every:4/run:7x4/null:dy",
    "lstm/f32/infer/L2/bi/T7/N5/I3/H24/lengths:random/repeat-padding/batch-major/null:final",
    "gru/bf16/train/L2/bi/T7/N9/I33/H48/states/mask:40/lengths:random",
    "gru/f64/train/bi/T7/N3/I5/H16/states/mask:50/batch-major/null:dx",
    "gru-reset-first/f32/train/rev/T7/N9/I5/H40/mask:30/lengths:random/noreserve",
    "drawn-lstm/f32/train/bi/T6/N4/I4/H17/states/mask:30/lengths:random",
    /* Where a cell begins without given states, and again after a reset. */
    "four-states/f32/train/L2/bi/T7/N5/I3/H19/resets:30/lengths:random/accumulate",
    "four-states/bf16/train/rev/T7/N5/I3/H24/mask:30/save:every:2",
    /* States of every step, and pieces of a larger run. */
    "lstm/f32/train/L2/bi/T7/N5/I3/H19/states/all-states/lengths:random/dropout:0.3/first:4x7",
    "lstm/f32/train/L2/T7/N5/I3/H19/P7/states/all-states/resets:30/batch-major/null:dy,dfinal",
    "lstm/f32/train/T9/N33/I3/H65/all-states/save:every:4/accumulate",
    "lstm/f32/infer/L3/rev/T7/N5/I3/H24/states/all-states/resets:30/lengths:random",
    "lstm/bf16/infer/L2/bi/T7/N5/I3/H19/states/all-states/batch-major",
    "lstm/bf16/train/L2/T7/N9/I8/H40/states/all-states/mask:30/lengths:random/save:states",
    "gru/f32/train/L3/bi/T7/N5/I3/H40/all-states/mask:30/repeat-padding/lengths:random/resets:20",
    "gru/f64/train/L2/rev/T7/N5/I3/H16/states/all-states/null:dfinal",
    "projected-two-states/f32/train/T5/N3/I4/H16/P6/states/all-states",
    "drawn-lstm/f32/train/bi/T6/N4/I4/H17/states/all-states/first:1000x3/lengths:random",
    /* x itself: copied by an input product, chunk by chunk, and by a replay. */
    "sru/f32/train/L2/rev/T9/N5/I33/H33/states/lengths:random/save:every:4",
    "sru/bf16/train/L2/T7/N5/I40/H40/save:states/resets:20/dropout:0.2/accumulate",
    "sru/f64/train/bi/T5/N3/I16/H16/states/batch-major",
    /* 16-bit types: tiles of rows and of units, whole and in part; few rows and many; every way by
     * which a row changes its type. */
    "lstm/bf16/infer/T5/N3/I7/H16",
    "lstm/bf16/train/T5/N3/I7/H16/states",
    "lstm/bf16/infer/T3/N20/I64/H96/states",
    "lstm/bf16/train/T4/N33/I70/H100/states/lengths:random/accumulate",
    "lstm/bf16/train/L2/bi/T5/N6/I33/H40/P24/states/lengths:random/dropout:0.3",
    "lstm/bf16/train/L3/bi/T5/N4/I6/H9/lengths:random/states/dropout:0.4/batch-major",
    "lstm/bf16/train/L2/bi/T9/N8/I5/H11/run:4x3/states/lengths:random",
    "lstm/bf16/bf16-params/train/bi/T4/N17/I9/H31/states/lengths:random",
    "lstm/bf16/train/T3/N70/I3/H5/lengths:random",
    "lstm/bf16/train/T30/N24/I3/H5/states",
    "lstm/bf16/train/T4/N3/I5/H16/scale:1e-20/states",
    "gru/bf16/train/L2/bi/T6/N7/I35/H48/lengths:random/states/accumulate/dropout:0.2",
    "gru/bf16/infer/L2/rev/T6/N40/I3/H130/states/alias",
    "gru-reset-first/bf16/train/L2/bi/T4/N9/I33/H70/states/lengths:random",
    "mgu/bf16/train/T3/N12/I5/H77/states/lengths:random",
    "lstm-peephole/bf16/train/L2/bi/T5/N5/I7/H33/P4/states/lengths:random/accumulate",
    "rnn-tanh/bf16/train/T4/N21/I40/H150/states",
    "lstm/f32/bf16-weights/infer/T3/N1/I7/H33/states",
    "lstm/f32/bf16-weights/train/T4/N33/I70/H100/states/lengths:random/accumulate",
    "gru/f32/bf16-weights/train/L2/bi/T4/N4/I5/H19/states/dropout:0.3",
    "lstm/f32/bf16-weights/train/L2/bi/T4/N5/I6/H65/P34/states/lengths:random",
    "gru-reset-first/f32/bf16-weights/train/T3/N6/I5/H75/states/lengths:random",
    /* Weights of 8 bits, and rows too: one row and strips, blocks of rows, tiles; sums of two
     * products; heads; an accumulator that is x itself. */
    "lstm/f32/int8/infer/T5/N1/I7/H33/states",
    "lstm/f32/int8/infer/L2/bi/T4/N4/I70/H100/states/lengths:random",
    "lstm/f32/int8/infer/T4/N33/I130/H100/states/lengths:random/resets:20",
    "lstm/f32/int8/infer/L2/bi/T4/N5/I6/H65/P34/states/batch-major",
    "gru/f32/int8/infer/L2/rev/T6/N40/I3/H130/states/alias",
    "gru-reset-first/f32/int8/infer/L2/bi/T4/N9/I33/H70/states/lengths:random",
    "lstm/f32/int8/infer/bi/T4/N5/I3/H150/heads:6",
    "sru/f32/int8/infer/L2/rev/T9/N5/I33/H33/states/lengths:random",
    "drawn-lstm/f32/int8/infer/T6/N4/I4/H17/states/mask:30",
    "lstm/f32/int8-weights/infer/T5/N1/I7/H33/states",
    "gru/f32/int8-weights/infer/L2/bi/T4/N33/I70/H100/states/lengths:random",
    "lstm/f32/int8-weights/infer/T4/N5/I10/H75/heads:5/batch-major",
    /* copies of x and dx whose rows would begin at multiples of 4 KB */
    "lstm/f32/train/T3/N9/I1024/H24/batch-major",
    "gru/f32/train/bi/T4/N10/I1024/H19/lengths:random/states",
    "rnn-tanh/f32/train/L2/T2/N2/I4/H1024/dropout:0.5",
};

static const char *const edge[] = {
    "f32/train/T1/N1/I1/H1/states",
    "f32/train/bi/T2/N1/I1/H2/states/lengths:random",
    "f32/train/T1/N7/I3/H15/states",
    "f32/train/L2/T3/N1/I13/H31/states",
    "f64/train/L2/bi/T3/N2/I1/H9/states",
    "f32/train/rev/T4/N17/I2/H3/lengths:random/batch-major",
    "bf16/train/T1/N1/I1/H1/states",
    "bf16/train/bi/T3/N17/I33/H31/states/lengths:random",
    "f32/int8/infer/T1/N1/I3/H3/states",
    "f32/int8/infer/bi/T3/N17/I33/H33/states/lengths:random",
    "f32/int8-weights/infer/L2/T3/N3/I5/H5",
};

enum {
    CHOSEN = sizeof chosen / sizeof *chosen,
    EDGES = sizeof edge / sizeof *edge,
    RANDOM = 240, /* random cases; */
    SAMPLE = 60   /* those that run unless tests_all() */
};

bool tests_all(void)
{
    const char *which = getenv("ECORNN_TESTS");
    return which != NULL && strcmp(which, "all") == 0;
}

int builtin_count(void)
{
    int n = 0;
    while (cell_name(n))
        n++;
    return n;
}

/* ---- random cases ---------------------------------------------------------------------------- */

struct dice {
    uint64_t state;
    char *text;
};

static int roll(struct dice *dice, int sides)
{
    return (int)(uniform(&dice->state) * sides);
}

static void say(struct dice *dice, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct dice *dice, const char *format, ...)
{
    const size_t length = strlen(dice->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(dice->text + length, CASE_TEXT - length, format, arguments);
    va_end(arguments);
}

/* Adds one of the words, which may be empty. */
static void say_one(struct dice *dice, const char *const *word, int words)
{
    say(dice, "%s", word[roll(dice, words)]);
}

static uint64_t sweep_seed(void)
{
    const char *seed = getenv("ECORNN_SEED");
    return seed ? strtoull(seed, NULL, 0) : 20;
}

static void say_random(int index, char text[CASE_TEXT])
{
    static const char *const type[] = {
        "/f32", "/f32", "/f32", "/f64", "/bf16", "/bf16", "/bf16/bf16-params", "/f32/bf16-weights"};
    static const char *const use[] = {"/train", "/train", "/train", "/train", "/infer"};
    static const char *const layers[] = {"", "", "/L2", "/L3"};
    static const char *const direction[] = {"", "", "/rev", "/bi", "/bi"};
    static const int hidden[] = {1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 23, 24, 31, 32, 33};
    static const char *const lengths[] = {"", "", "/lengths:random", "/lengths:short"};
    static const char *const null[] = {"",
                                       "",
                                       "",
                                       "/null:y",
                                       "/null:final",
                                       "/null:dy",
                                       "/null:dfinal",
                                       "/null:dx",
                                       "/null:dinitial",
                                       "/null:dweights"};
    static const char *const yes_no[] = {"", "/states", "", "/batch-major", "", "/accumulate"};
    struct dice dice = {sweep_seed() * 1000003 + (uint64_t)index, text};
    const char *name = cell_name(index % builtin_count());
    text[0] = '\0';
    say(&dice, "%s", name);
    say_one(&dice, type, 8);
    say_one(&dice, use, 5);
    say_one(&dice, layers, 4);
    say_one(&dice, direction, 5);
    /* One roll a declaration, because C does not define the order in which arguments are evaluated.
     */
    const int T = 1 + roll(&dice, 9), N = 1 + roll(&dice, 8);
    const int H = hidden[roll(&dice, 17)], I = 1 + roll(&dice, 20);
    say(&dice, "/T%d/N%d/I%d/H%d", T, N, I, H);
    if ((strncmp(name, "lstm", 4) == 0 || strncmp(name, "rnn", 3) == 0) && roll(&dice, 3) == 0)
        say(&dice, "/P%d", 1 + roll(&dice, 12));
    for (int k = 0; k < 6; k += 2)
        say_one(&dice, &yes_no[k], 2);
    const int drops = roll(&dice, 2);
    say(&dice, "%s", drops && strstr(text, "/L") ? "/dropout:0.3" : "");
    say_one(&dice, lengths, 4);
    say_one(&dice, null, 10);
    if (roll(&dice, 4) == 0) {
        const int run_N = 1 + roll(&dice, N), run_T = 1 + roll(&dice, T);
        say(&dice, "/run:%dx%d", run_T, run_N);
    }
    say(&dice, "/seed:%d", 1 + roll(&dice, 100000));
    if (roll(&dice, 8) == 0)
        say(&dice, "/resets:%d", 5 + roll(&dice, 60));
    if (roll(&dice, 8) == 0)
        say(&dice, "/mask:%d%s", 5 + roll(&dice, 60), roll(&dice, 2) ? "/repeat-padding" : "");
}

/* ---- the list -------------------------------------------------------------------------------- */

int sweep_count(const char *only)
{
    if (only || getenv("ECORNN_CASE"))
        return 1;
    return CHOSEN + EDGES * builtin_count() + (tests_all() ? RANDOM : SAMPLE);
}

void sweep_text(const char *only, int index, char text[CASE_TEXT])
{
    const char *one = only ? only : getenv("ECORNN_CASE");
    if (one)
        snprintf(text, CASE_TEXT, "%s", one);
    else if (index < CHOSEN)
        snprintf(text, CASE_TEXT, "%s", chosen[index]);
    else if (index < CHOSEN + EDGES * builtin_count())
        snprintf(text, CASE_TEXT, "%s/%s", cell_name((index - CHOSEN) / EDGES),
                 edge[(index - CHOSEN) % EDGES]);
    else
        say_random(index - CHOSEN - EDGES * builtin_count(), text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Has the cell a matrix state?  Its head declares the size of the state. */
static bool is_matrix(const char *folder, const char *file)
{
    char inside[600], text[8192];
    snprintf(inside, sizeof inside, "%s/%s", folder, file);
    return source_read(inside, text, sizeof text) && strstr(text, "[K,V]") != NULL;
}

/* The names of a folder's cells with or without a matrix state, in order; exits if none or many. */
enum { MOST_CELLS = 128 };
static int list_cells(const char *of, bool matrix, char *list[MOST_CELLS])
{
    char path[1024], inside[64];
    source_path(path, of);
    *strrchr(path, '/') = '\0';
    snprintf(inside, sizeof inside, "%.*s", (int)(strrchr(of, '/') - of), of);
    DIR *const folder = opendir(path);
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL && count < MOST_CELLS;) {
        const size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".cell") == 0 &&
            is_matrix(inside, entry->d_name) == matrix)
            list[count++] = strndup(entry->d_name, length - 5);
    }
    if (folder)
        closedir(folder);
    if (count == 0 || count == MOST_CELLS) { /* tests are not running yet */
        fprintf(stderr, "%d cells in %s, must be 1 to %d\n", count, path, MOST_CELLS - 1);
        exit(99);
    }
    qsort(list, (size_t)count, sizeof *list, by_name);
    return count;
}

/* The names of tests/cells, then those of the library; read once. */
static struct {
    char *name[2 * MOST_CELLS], *matrix[2 * MOST_CELLS];
    int tests, all, matrices;
} own;

static void read_own(void)
{
    if (own.all > 0)
        return;
    own.tests = list_cells("tests/cells/arith.cell", false, own.name);
    own.all = own.tests + list_cells("cells/lif.cell", false, own.name + own.tests);
    own.matrices = list_cells("tests/cells/arith.cell", true, own.matrix);
    own.matrices += list_cells("cells/lif.cell", true, own.matrix + own.matrices);
}

bool sweep_own_cell(int index, char name[64])
{
    read_own();
    if (index < own.all)
        snprintf(name, 64, "%s", own.name[index]);
    return index < own.all;
}

int sweep_own_cells(void)
{
    read_own();
    return own.all;
}

static const char *const own_option[] = {
    "f32/train/T5/N4/I3/H6/states",
    "f32/train/L2/bi/T6/N5/I7/H17/states/lengths:random/accumulate/dropout:0.3",
    "f64/train/L2/rev/T4/N3/I2/H5/states/lengths:random/batch-major",
    "f32/infer/L2/bi/T5/N3/I4/H19/states/alias/lengths:random",
    "f32/train/T2/N4/I4/H291/states/lengths:random", /* threads of a CPU, blocks of a GPU */
    "bf16/train/bi/T3/N5/I4/H37/states/lengths:random",
    "f32/train/bi/T6/N4/I3/H17/states/resets:30/lengths:random",
};
enum { OWN_OPTIONS = sizeof own_option / sizeof *own_option };

/* Cells of tests/cells, which are there to test the compiler, run with every option; those of the
 * library with two of them, others for each cell: a GPU's compiler takes a second for each case. */
enum { LIBRARY_OPTIONS = 2 };

int sweep_own_count(void)
{
    read_own();
    return own.tests * OWN_OPTIONS + (own.all - own.tests) * LIBRARY_OPTIONS;
}

void sweep_own_text(int index, char text[CASE_TEXT])
{
    read_own();
    const int tests = own.tests * OWN_OPTIONS;
    int cell = index / OWN_OPTIONS, option = index % OWN_OPTIONS;
    if (index >= tests) {
        cell = own.tests + (index - tests) / LIBRARY_OPTIONS;
        option = (cell + 2 * ((index - tests) % LIBRARY_OPTIONS)) % OWN_OPTIONS;
    }
    snprintf(text, CASE_TEXT, "%s/%s", own.name[cell], own_option[option]);
}

/* ---- cells with a matrix state --------------------------------------------------------------- */

static const char *const matrix_option[] = {
    "f32/train/T5/N4/I3/H6/states",
    "f32/train/rev/T6/N5/I7/H17/states/lengths:random/accumulate",
    "f64/train/T4/N3/I2/H6/states/lengths:random/batch-major",
    "f32/infer/T5/N3/I4/H19/states/alias/lengths:random",
    "f32/train/T70/N2/I4/H40/states/resets:10", /* several chunks, blocks of columns and of rows */
    "bf16/train/T3/N5/I4/H36/states",
    "f32/train/T7/N4/I3/H66/states/resets:30/lengths:random/all-states",
    "f32/train/rev/T9/N4/I3/H10/resets:30/mask:30/lengths:random/repeat-padding/all-states/states",
    "f32/train/T40/N2/I3/H34/states/save:every:7/mask:20",
    "f32/train/T70/N2/I4/H12/states/save:every:64",
    "f32/train/T1/N3/I1/H64/states/noreserve",
    "f32/infer/T1/N3/I1/H64/states", /* from state to state without a copy */
    /* One step, as in a tick: in place, with several blocks of rows and of columns. */
    "bf16/infer/T1/N5/I1/H130/heads:2/key:40/states/alias",
    "f32/infer/T1/N7/I1/H200/heads:1/key:150/states/resets:50/mask:30/all-states",
    "f64/infer/rev/T1/N4/I1/H70/heads:2/key:20/states/lengths:zero/batch-major/repeat-padding",
    "f32/train/T9/N4/I1/H8/run:4x3/null:dy,dfinal/states",
    "f32/train/T33/N2/I1/H34/heads:1/key:33/states/row-invariant",
    /* chunks by products: of rows and columns that end within a block, of one plane and of three */
    "bf16/train/T130/N2/I1/H68/heads:1/key:72/states/resets:5/mask:10/lengths:random/scale:0.5",
    "bf16/infer/rev/T100/N1/I1/H20/heads:1/key:16/states/batch-major/scale:0.5",
    "f16/infer/T97/N1/I1/H130/heads:2/key:65/lengths:random/scale:0.5",
    "bf16/train/T66/N1/I1/H512/heads:8/key:64/states/scale:0.5", /* that fill blocks */
    "f32/train/rev/T134/N1/I1/H128/heads:2/key:64/states/resets:5/scale:0.5",
    "bf16/infer/T66/N1/I1/H1024/heads:8/key:128/states/scale:0.5",
    "f32/infer/rev/T198/N4/I1/H128/heads:2/key:64/states/batch-major/lengths:random/scale:0.5/"
    "seed:3",
};
enum { MATRIX_OPTIONS = sizeof matrix_option / sizeof *matrix_option };

static const char *const lone_matrix[] = {
    "gated-delta/f32/train/T600/N4/I4/H8/memory:250K",    /* fewer threads than the device has */
    "linear-attention/f32/train/T80/N2/I4/H12/scale:3e6", /* S is too large for products */
};
enum { LONE = sizeof lone_matrix / sizeof *lone_matrix };

bool sweep_matrix_cell(int index, char name[64])
{
    read_own();
    if (index < own.matrices)
        snprintf(name, 64, "%s", own.matrix[index]);
    return index < own.matrices;
}

int sweep_matrix_cells(void)
{
    read_own();
    return own.matrices;
}

int sweep_matrix_count(void)
{
    return sweep_matrix_cells() * MATRIX_OPTIONS + LONE + (tests_all() ? RANDOM : SAMPLE);
}

/* Sizes around those of vectors, blocks and chunks. */
static void say_random_matrix(int index, char text[CASE_TEXT])
{
    static const char *const type[] = {"f32", "f32", "f64", "bf16", "f16"};
    static const char *const use[] = {"/train", "/train/save:every:2", "/infer"};
    static const char *const word[] = {
        "/rev",     "/batch-major", "/states",         "/resets:15",
        "/mask:25", "/all-states",  "/repeat-padding", "/lengths:random"};
    static const int size[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 130};
    struct dice dice = {sweep_seed() * 1000033 + (uint64_t)index, text};
    text[0] = '\0';
    say(&dice, "%s/", own.matrix[index % own.matrices]);
    say_one(&dice, type, 5);
    say_one(&dice, use, 3);
    const int key = size[roll(&dice, 17)], heads = 1 + roll(&dice, 3);
    const int values = size[roll(&dice, key > 64 ? 12 : 17)], N = 1 + roll(&dice, 3);
    say(&dice, "/T%d/N%d/I1/H%d/heads:%d/key:%d", 2 + roll(&dice, key * values > 2000 ? 9 : 70), N,
        heads * values, heads, key);
    for (int k = 0; k < 8; k++)
        say(&dice, "%s", roll(&dice, 3) == 0 ? word[k] : "");
    say(&dice, "%s/seed:%d", key > 16 ? "/scale:0.5" : "", /* a delta rule of long keys grows */
        1 + roll(&dice, 100000));
}

void sweep_matrix_text(int index, char text[CASE_TEXT])
{
    read_own();
    const int lone = index - own.matrices * MATRIX_OPTIONS;
    if (lone >= LONE)
        say_random_matrix(lone - LONE, text);
    else if (lone >= 0)
        snprintf(text, CASE_TEXT, "%s", lone_matrix[lone]);
    else
        snprintf(text, CASE_TEXT, "%s/%s", own.matrix[index / MATRIX_OPTIONS],
                 matrix_option[index % MATRIX_OPTIONS]);
}

bool sweep_policy(const char *text, int k, bool large, char policy[CASE_TEXT])
{
    struct test_case test;
    ck_assert(case_parse(&test, text));
    const int32_t every[POLICIES] = {0, 1 + test.desc.steps / 4, test.desc.steps};
    const bool trains = (test.desc.flags & ECORNN_TRAINING) && (large || test.desc.hidden < 1024),
               has = test.desc.save_every != 0 || (test.desc.flags & ECORNN_SAVE_STATES);
    case_free(&test);
    if (has)
        snprintf(policy, CASE_TEXT, "%s", text);
    else if (k == 0)
        snprintf(policy, CASE_TEXT, "%s/save:states", text);
    else
        snprintf(policy, CASE_TEXT, "%s/save:every:%d", text, every[k]);
    return trains && (k == 0 || !has);
}
