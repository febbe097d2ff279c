/*
 * Lists of cases that algorithms find hard: large layers, rows that end early or begin anew, few
 * steps, scans; each in the types of a GPU, against the reference.
 */
#include "tests/gpu/comparison.h"

#include <stdlib.h>

/* Layers that are so large that a block keeps many k blocks of R, some in shared memory, and that
 * clusters pay. They have few rows and steps, because the reference is slow. With H=800 and H=2048
 * there are enough rows that forward also takes the kernels for many k blocks. */
static const char *const large[] = {"lstm/f32/train/T2/N20/I8/H800/states/lengths:random",
                                    "lstm/f32/train/T2/N3/I8/H1536",
                                    "gru/f32/train/T2/N9/I8/H1024",
                                    "gru/f32/infer/T2/N25/I8/H2048/states",
                                    "rnn-tanh/f32/train/T2/N70/I8/H800",
                                    "gru-reset-first/f32/train/T2/N9/I8/H800",
                                    "norm-lstm-tf1/f32/train/T2/N20/I8/H800/states/lengths:random",
                                    "rms-lstm/f32/train/T2/N70/I8/H520/states"};
enum { LARGE = sizeof large / sizeof *large };

START_TEST(agrees_in_large_layers)
{
    check_in_types(large, nth(_i));
}
END_TEST

/* With few rows, all rows of a group of blocks end many steps before the last step, or begin many
 * steps after the first. Covers clusters, several groups, two products, and chunks. */
static const char *const ended[] = {"lstm/f32/train/L2/bi/T23/N2/I8/H40/states/lengths:random",
                                    "lstm/f32/infer/L3/T21/N1/I8/H72/lengths:random",
                                    "lstm/f32/train/bi/T13/N3/I8/H800/states/lengths:random",
                                    "gru/f32/train/bi/T17/N20/I8/H264/states/lengths:short",
                                    "rnn-tanh/f32/train/rev/T30/N1/I8/H96/lengths:random",
                                    "mgu/f32/train/bi/T19/N2/I8/H72/states/lengths:random",
                                    "norm-lstm/f32/train/bi/T19/N20/I8/H264/states/lengths:short"};
enum { ENDED = sizeof ended / sizeof *ended };

START_TEST(agrees_where_groups_end_early)
{
    check_in_types(ended, nth(_i));
}
END_TEST

/* Cases of few steps. Covers one row and more rows than a block takes, odd numbers of units and
 * inputs, a state that is written where it was read, and gradients of few rows, whose products
 * share launches. */
static const char *const few[] = {"lstm/f32/train/L2/T1/N1/I64/H640/states",
                                  "lstm/f32/infer/L2/T1/N40/I71/H133/states/alias",
                                  "lstm/f32/train/T2/N150/I20/H200/P75/states/lengths:random",
                                  "gru/f32/train/L2/bi/T2/N67/I33/H65/states/lengths:random",
                                  "rnn-relu/f32/infer/T3/N131/I24/H96/P40/batch-major",
                                  "lstm-coupled/f32/infer/L3/T1/N70/I40/H50/states",
                                  "gru/f32/infer/L2/T1/N300/I24/H64/states/alias",
                                  "lstm/f32/infer/bi/T4/N300/I24/H128/states/lengths:random",
                                  "lstm/f32/train/L3/T1/N64/I71/H133",
                                  "lstm/f32/train/L2/T1/N9/I24/H40/P6",
                                  "lstm/f32/train/L2/T1/N31/I64/H200/accumulate",
                                  "gru-reset-first/f32/train/L2/T2/N15/I33/H75/states",
                                  "lstm-peephole/f32/train/L2/T1/N9/I40/H96/batch-major",
                                  "mgu/f32/train/L3/T2/N20/I24/H88/states/dropout:0.5"};
enum { FEW = sizeof few / sizeof *few };

START_TEST(agrees_in_few_steps)
{
    check_in_types(few, nth(_i));
}
END_TEST

/* More rows, and more rows of all steps, than a grid has blocks in y and z. */
static const char *const many[] = {"lstm/f32/train/T1/N65543/I3/H8/states",
                                   "gru/f32/infer/L2/T2/N65540/I8/H8/states/lengths:random",
                                   "rnn-tanh/f32/train/bi/T3/N22000/I8/H8/accumulate",
                                   "lstm/f32/train/T3/N22000/I8/H8/P3/states/resets:20",
                                   "norm-lstm/f32/train/T1/N65537/I8/H8",
                                   "gru-reset-first/f32/infer/T2/N65537/I5/H9/batch-major",
                                   "min-gru/f32/train/T2/N65537/I3/H8/states/lengths:random",
                                   "rnn-relu/f32/train/T66000/N1/I1/H8/save:every:1000"};
enum { MANY = sizeof many / sizeof *many };

START_TEST(agrees_in_many_rows)
{
    check_in_types(many, nth(_i));
}
END_TEST

/* Row-invariant cases, whose rows must not depend on each other. Covers more steps than algorithm
 * fused takes otherwise, and products of few rows of more than 64. */
static const char *const apart[] = {
    "lstm/f32/row-invariant/train/L2/bi/T19/N5/I7/H40/states/lengths:random",
    "lstm/f32/row-invariant/train/T3/N70/I20/H64/P24/states",
    "gru/f32/row-invariant/train/L2/T18/N3/I33/H65/dropout:0.5",
    "rnn-relu/f32/row-invariant/infer/T20/N40/I24/H96/batch-major"};
enum { APART = sizeof apart / sizeof *apart };

START_TEST(agrees_where_rows_are_apart)
{
    check_in_types(apart, nth(_i));
}
END_TEST

/* Rows that are reset inside a sequence. Covers several groups of blocks, clusters, two products,
 * chunks, upper layers, rows that end early, and more rows than a block takes. */
static const char *const anew[] = {
    "lstm/f32/train/L2/bi/T75/N5/I8/H72/states/resets:20/lengths:random",
    "lstm/f32/infer/L3/T21/N3/I8/H72/states/resets:30",
    "lstm/f32/train/T4/N20/I8/H800/states/resets:40/lengths:random",
    "gru/f32/train/rev/T67/N70/I8/H264/states/resets:10",
    "gru/f32/train/bi/T9/N40/I33/H65/resets:30/accumulate/batch-major",
    "gru/f32/infer/L2/rev/T9/N150/I20/H96/states/resets:20/alias",
    "rnn-tanh/f32/train/T70/N2/I8/H96/states/resets:100",
    "gru-reset-first/f32/train/rev/T9/N9/I8/H96/states/resets:30/lengths:random",
    "mgu/f32/train/bi/T9/N20/I8/H72/states/resets:20",
    "gru/f32/train/T9/N5/I8/H72/states/resets:30/scale:8", /* x is larger than bounded states are */
    "norm-gru-haste/f32/train/bi/T9/N40/I8/H72/states/resets:30/lengths:random",
    "lstm/f32/train/L2/T9/N20/I8/H200/P75/states/resets:20/lengths:random",
    "lstm/f32/train/L2/bi/T23/N5/I8/H72/states/mask:30/resets:20/lengths:random",
    "gru/f32/train/rev/T40/N20/I8/H96/mask:40/lengths:random/repeat-padding",
    "lstm/f32/train/L2/bi/T23/N5/I8/H72/states/all-states/resets:20/lengths:random",
    "lstm/f32/infer/L3/T21/N3/I8/H72/states/all-states/lengths:random",
    "gru/f32/train/rev/T40/N20/I8/H96/all-states/mask:30/batch-major",
    "lstm/f32/infer/bi/T9/N150/I20/H96/all-states/batch-major",
    "lstm/f32/train/L2/T5/N20/I8/H72/P32/states/all-states",
    "lstm/f32/train/L2/bi/T5/N20/I8/H72/resets/states"};
enum { ANEW = sizeof anew / sizeof *anew };

START_TEST(agrees_where_rows_begin_anew)
{
    check_in_types(anew, nth(_i));
}
END_TEST

/* Linear cells over many tiles of steps: full and partial tiles, chunks, and rows that end in an
 * earlier tile or chunk or begin in a later one. */
static const char *const scanned[] = {
    "min-gru/f32/train/L2/bi/T300/N3/I9/H70/states/lengths:random",
    "min-lstm/f32/train/rev/T130/N2/I8/H33/states/batch-major/save:every:40",
    "sru/f32/train/L2/T200/N5/I40/H40/states/lengths:random/accumulate",
    "qrnn/f32/train/bi/T520/N1/I8/H8/null:dfinal/lengths:random",
    "sru/f32/train/bi/T200/N3/I128/H128/states/lengths:random", "qrnn/f32/train/T70/N11/I121/H254",
    "two-memories/f32/train/rev/T50/N4/I66/H66/states/lengths:random",
    "two-memories/f32/train/bi/T12/N3/I40/H40/states/null:dy,final/mask:20",
    "decay/f32/infer/L3/T257/N2/I5/H129/states/alias",
    /* gates that hardly open: the memory must not be rounded to 16 bits */
    "min-gru/f32/train/L2/bi/T600/N3/I9/H70/states/lengths:random/gates:-5",
    "min-lstm/f32/infer/L3/bi/T700/N2/I8/H33/states/batch-major/lengths:random/gates:-5",
    "min-gru/f32/train/L2/rev/T300/N3/I9/H70/states/resets:2/gates:-5",
    "min-lstm/f32/train/L2/T300/N2/I8/H40/states/mask:20/save:states/gates:-5",
    "own-min-gru/f32/infer/L2/bi/T300/N3/I9/H70/states/all-states/gates:-5",
    "two-averages/f32/train/L2/bi/T300/N3/I9/H70/states/save:every:40/gates:-5",
    /* resets, and states of every step */
    "min-gru/f32/train/L2/bi/T300/N3/I9/H70/states/resets:2/lengths:random",
    "qrnn/f32/train/rev/T130/N4/I40/H64/resets:5/all-states/lengths:random/batch-major",
    "two-memories/f32/train/bi/T200/N3/I66/H66/states/all-states/resets:3/null:dstart",
    "sru/f32/train/L2/T150/N3/I64/H64/states/all-states/save:every:40",
    /* states that depend on each other */
    "rotation/f32/train/L2/bi/T300/N3/I9/H70/states/lengths:random",
    "rotation/f32/train/T260/N2/I64/H128/states/resets:3/all-states/batch-major",
    "rotation/f32/infer/L2/rev/T513/N2/I8/H33/states/alias",
    "oscillators/f32/train/bi/T200/N3/I8/H64/states/lengths:random/save:every:40",
    "oscillators/f32/train/rev/T90/N3/I8/H33/states/resets:5/lengths:random/accumulate",
    "tanks/f32/train/L2/bi/T150/N2/I40/H64/states/resets:5/all-states/lengths:random",
    "tanks/f32/train/T100/N5/I9/H128/states/save:states",
    /* states that are not linear, of units that never meet */
    "indrnn/f32/train/L2/bi/T20/N3/I9/H70/states/lengths:random",
    "indrnn/f32/train/rev/T24/N4/I40/H64/states/resets:20/all-states/lengths:random/batch-major",
    "indrnn/f32/infer/L3/T19/N2/I5/H129/states/alias",
    "unicornn/f32/train/T200/N3/I8/H64/states/save:every:40/accumulate",
    "sru-peephole/f32/train/L2/T100/N3/I64/H64/states/resets:3/save:states",
    "leaky/f32/train/bi/T40/N3/I8/H33/states/all-states/resets:5/lengths:random"};
enum { SCANNED = sizeof scanned / sizeof *scanned };

START_TEST(agrees_in_scans)
{
    const int chunked = nth(_i) / (SCANNED * TYPES);
    if (chunked)
        setenv("ECORNN_CHUNK", "77", 1);
    check_in_types(scanned, nth(_i) % (SCANNED * TYPES));
    unsetenv("ECORNN_CHUNK");
}
END_TEST

void add_listed_cases(TCase *tests, TCase *own)
{
    tcase_add_loop_test(tests, agrees_in_large_layers, 0, share(TYPES * LARGE));
    tcase_add_loop_test(tests, agrees_where_groups_end_early, 0, share(TYPES * ENDED));
    tcase_add_loop_test(tests, agrees_in_few_steps, 0, share(TYPES * FEW));
    tcase_add_loop_test(tests, agrees_in_many_rows, 0, share(TYPES * MANY));
    tcase_add_loop_test(tests, agrees_where_rows_are_apart, 0, share(TYPES * APART));
    tcase_add_loop_test(own, agrees_where_rows_begin_anew, 0, share(TYPES * ANEW));
    tcase_add_loop_test(own, agrees_in_scans, 0, share(2 * TYPES * SCANNED));
}
