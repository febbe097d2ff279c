/*
 * The activations of every instruction set this machine has, against the C library's double.
 * `test_activations all` measures them over all floats instead and prints the table of
 * doc/numerics.md; it takes some minutes.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/isa/isa.h"
#include "tests/kit/suite.h"

static double sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* The processor's: mingw-w64's function rounds twice. */
static double root(double x)
{
    return x < 0 ? NAN : sqrt(x);
}

static const struct {
    int opcode;
    const char *name;
    double (*exact)(double);
    double bound; /* ulp */
} activations[] = {
    {ECO_OP_EXP, "exp", exp, 1.5},           {ECO_OP_LOG, "log", log, 1.5},
    {ECO_OP_SQRT, "sqrt", root, 0.501},      {ECO_OP_TANH, "tanh", tanh, 3},
    {ECO_OP_SIGMOID, "sigmoid", sigmoid, 3},
};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

/* |got - exact| in units in the last place of a float near exact. Numbers beyond all floats count
 * as 2^128. */
static double ulps(float got, double exact)
{
    const double limit = 0x1p128, e = fmin(fabs(exact), limit), g = fmin(fabs((double)got), limit);
    if (isnan(got) || isnan(exact))
        return isnan(got) && isnan(exact) ? 0 : INFINITY;
    if (got == 0 && exact == 0)
        return !signbit(got) == !signbit(exact) ? 0 : INFINITY;
    if (!signbit(got) != !signbit(exact))
        return INFINITY;
    int exponent;
    frexp(fmin(e, 0x1.fffffep127), &exponent);
    return fabs(g - e) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

/* Ranges of bit patterns: first, last, step. */
static const uint32_t patterns[][3] = {
    {0, UINT32_MAX, 4099},        /* everything, thinly                      */
    {0x3dcccccd, 0x3e4ccccd, 61}, /* 0.1 .. 0.2: where tanh starts to reduce */
    {0x40800000, 0x41100000, 61}, /* 4 .. 9: where tanh ends                 */
    {0xc0800000, 0xc1100000, 61}, /* -4 .. -9                                */
    {0x42ac0000, 0x42b40000, 13}, /* 86 .. 90: where exp overflows           */
    {0xc2ac0000, 0xc2d40000, 37}, /* -86 .. -106: where exp is denormal      */
    {0x00000000, 0x00000fff, 1},  /* the smallest                            */
    {0x80000000, 0x80000fff, 1},  /*                                         */
    {0x007ff800, 0x008007ff, 1},  /* denormals end                           */
    {0x3f7ff000, 0x3f800fff, 1},  /* around 1: log                           */
    {0x3f34f000, 0x3f350fff, 1},  /* around sqrt(1/2)                        */
    {0x7f7fff00, 0x7f8000ff, 1},  /* the largest, infinity, NaN              */
    {0xff7fff00, 0xff8000ff, 1},  /*                                         */
};
enum { RUNS = sizeof patterns / sizeof patterns[0], BLOCK = 1003 };

/* Makes the next block of inputs of a range; returns how many. */
static int next_block(const uint32_t run[3], uint64_t *at, float in[BLOCK])
{
    int n = 0;
    for (; n < BLOCK && *at <= run[1]; n++, *at += run[2]) {
        const uint32_t bits = (uint32_t)*at;
        memcpy(in + n, &bits, sizeof bits);
    }
    return n;
}

static void check_activation(const struct eco_isa *isa, int which)
{
    float in[BLOCK], out[BLOCK];
    double worst = 0;
    float where = 0;
    for (int r = 0; r < RUNS; r++) {
        uint64_t at = patterns[r][0];
        for (int n; (n = next_block(patterns[r], &at, in)) > 0;) {
            isa->f32->activation(activations[which].opcode, out, in, n);
            for (int k = 0; k < n; k++) {
                const double error = ulps(out[k], activations[which].exact((double)in[k]));
                if (error > worst)
                    worst = error, where = in[k];
            }
        }
    }
    ck_assert_msg(worst <= activations[which].bound, "%s %s: %.3f ulp at %a", isa->name,
                  activations[which].name, worst, (double)where);
}

/* Measures one of the instruction sets that give the same bits (activations_same_bits). */
START_TEST(activation_errors)
{
    const struct eco_isa *isa;
    bool seen[2] = {false, false};
    for (int k = 0; (isa = eco_isa_supported(k)); k++) {
        if (!seen[isa->fused])
            check_activation(isa, _i);
        seen[isa->fused] = true;
    }
}
END_TEST

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void compare_activation(const struct eco_isa *a, const struct eco_isa *b, int which)
{
    float in[BLOCK], out[BLOCK], other[BLOCK];
    for (int r = 0; r < RUNS; r++) {
        uint64_t at = patterns[r][0];
        for (int n; (n = next_block(patterns[r], &at, in)) > 0;) {
            a->f32->activation(activations[which].opcode, out, in, n);
            b->f32->activation(activations[which].opcode, other, in, n);
            for (int j = 0; j < n; j++)
                if (!same_float(out[j], other[j])) /* compared first, because an assertion for each
                                                      would take most of the time */
                    ck_abort_msg("%s of %a: %s %a, %s %a", activations[which].name, (double)in[j],
                                 a->name, (double)out[j], b->name, (double)other[j]);
        }
    }
}

/* Sets with a fused multiply-add agree in every bit, and so do those without. */
START_TEST(activations_same_bits)
{
    const struct eco_isa *first[2] = {NULL, NULL}, *isa;
    for (int k = 0; (isa = eco_isa_supported(k)); k++)
        if (!first[isa->fused])
            first[isa->fused] = isa;
        else
            compare_activation(first[isa->fused], isa, _i);
}
END_TEST

START_TEST(activations_double)
{
    const struct eco_isa *isa = eco_isa_supported(0);
    for (double x = -750; x < 750; x += 0.37) {
        double got;
        isa->f64->activation(activations[_i].opcode, &got, &x, 1);
        const double exact = activations[_i].exact(x);
        ck_assert_msg((isnan(got) && isnan(exact)) || got == exact, "%s of %a",
                      activations[_i].name, x);
    }
}
END_TEST

/* ---- all floats ------------------------------------------------------------------------------ */

enum { MAX_SETS = 8, PART_BITS = 16 };

struct worst {
    double error;
    float where;
};

/* The largest error among 2^PART_BITS adjacent bit patterns, for every set. */
static void measure_part(int which, uint32_t part, struct worst worst[MAX_SETS])
{
    enum { N = 1 << PART_BITS };
    static _Thread_local float in[N], out[N];
    static _Thread_local double exact[N];
    for (uint32_t k = 0; k < N; k++) {
        const uint32_t bits = (part << PART_BITS) + k;
        memcpy(in + k, &bits, sizeof bits);
        exact[k] = activations[which].exact((double)in[k]);
    }
    const struct eco_isa *isa;
    for (int s = 0; (isa = eco_isa_supported(s)) && s < MAX_SETS; s++) {
        isa->f32->activation(activations[which].opcode, out, in, N);
        for (int k = 0; k < N; k++) {
            /* Skips numbers that cannot have a larger error: an ulp is at least 2^-24 of the value,
             * and the nearest float is at most half an ulp away. */
            if (fabs((double)out[k] - exact[k]) * 0x1p24 <= worst[s].error * fabs(exact[k]) ||
                (worst[s].error >= 0.5 && out[k] == (float)exact[k]))
                continue;
            const double error = ulps(out[k], exact[k]);
            if (error > worst[s].error)
                worst[s] = (struct worst){error, in[k]};
        }
    }
}

static void measure(int which)
{
    struct worst worst[MAX_SETS] = {{0}};
#pragma omp parallel
    {
        struct worst mine[MAX_SETS] = {{0}};
#pragma omp for schedule(dynamic)
        for (int part = 0; part < 1 << (32 - PART_BITS); part++)
            measure_part(which, (uint32_t)part, mine);
#pragma omp critical
        for (int s = 0; s < MAX_SETS; s++)
            if (mine[s].error > worst[s].error)
                worst[s] = mine[s];
    }
    const struct eco_isa *isa;
    for (int s = 0; (isa = eco_isa_supported(s)) && s < MAX_SETS; s++)
        printf("%-8s %-7s %7.3f  %15.8g  %a\n", activations[which].name, isa->name, worst[s].error,
               (double)worst[s].where, (double)worst[s].where);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "activations"};
    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        printf("function set         ulp  at\n");
        for (int k = 0; k < ACTIVATIONS; k++)
            measure(k);
        return 0;
    }
    return suite_run(&program, SUITE_TESTS({activation_errors, ACTIVATIONS},
                                           {activations_same_bits, ACTIVATIONS},
                                           {activations_double, ACTIVATIONS}));
}
