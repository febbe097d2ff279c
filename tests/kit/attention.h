/*
 * Cases of attention: their inputs, runs in guarded memory, and expected results.
 *
 * A case is one string: a problem string and, in any order, these suffixes:
 *   /lengths:random|zero|full|short   of the sources: any, all 0, all S, 0 or 1; else NULL
 *   /run:TxSxN   the run is smaller than the plan
 *   /accumulate  backward adds to dvector
 *   /null:LIST   not given or not wanted, of: context weights dcontext dweights dquery dkeys
 *                dvalues dvector; commas between
 *   /scale-inputs:F   queries and keys times F      /noreserve   inference on a training plan
 *   /poison:nan|inf|-inf   one number of a query, and one of a key, is that
 *   /seed:K      of the inputs; else 1
 */
#ifndef ECO_TESTS_ATTENTION_H
#define ECO_TESTS_ATTENTION_H

#include "common/attention/attention.h"
#include "tests/kit/testing.h"

struct attention_case {
    char text[CASE_TEXT];
    struct eco_attention_desc desc;
    int32_t T, S, N, H, V; /* of the run */
    enum lengths lengths;
    bool accumulate, noreserve;
    char null[CASE_TEXT]; /* ",context,dkeys," */
    double inputs;        /* queries and keys are multiplied by this */
    double poison;        /* 0: none */
    uint64_t seed;
};

/* False, with a message on stderr: the string is wrong. */
bool attention_parse(struct attention_case *test, const char *text);
/* Makes random inputs that their types can hold: query keys values vector lengths dcontext dweights
 * before. */
void attention_inputs(const struct attention_case *test, struct data *inputs);
/* Runs a case in its type, or in F64 if `type` is F64. Checks guards, inputs, reserve and the
 * padding past a length, and that `backwards` backward runs give the same bits. False, with a
 * message on stderr: something is wrong. */
bool attention_run(const struct attention_case *test, ecornn_device *device, ecornn_type type,
                   int backwards, const struct data *inputs, struct data *results);
/* Computes the reference's results, with a bound for each array. */
bool attention_expect(const struct attention_case *test, const struct data *inputs,
                      struct data *expected);
/* Is every expected array within its bound? Are all bits equal? */
bool attention_agrees(const struct attention_case *test, const char *who,
                      const struct data *expected, const struct data *results);
bool attention_same(const struct attention_case *test, const char *who, const struct data *expected,
                    const struct data *results);

/* The list of cases, each in F32, BF16, F16 and F64. If ECORNN_CASE is set, it is the only case. */
int attention_count(void);
void attention_text(int index, char text[CASE_TEXT]);
/* Runs the case on the device and compares it with the reference. */
bool attention_case_passes(const char *text, ecornn_device *device, int backwards);

#endif /* ECO_TESTS_ATTENTION_H */
