/*
 * Prints hashes of what instruction sets compute: activations, the stages of every cell, and whole
 * runs of algorithm packed. There is one line for the sets with a fused multiply-add and one for
 * those without. Two machines that print the same line compute the same bits (test_arm64.sh).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa/isa.h"
#include "tests/kit/calls.h"
#include "tests/kit/attention.h"
#include "tests/kit/stage.h"
#include "tests/kit/testing.h"

/* FNV-1a (Fowler, Noll, Vo) over doubles. A float is converted exactly; all NaN count as the same.
 */
static uint64_t add(uint64_t hash, double value)
{
    uint64_t bits = UINT64_C(0x7ff8) << 48;
    if (!isnan(value))
        memcpy(&bits, &value, sizeof bits);
    for (int k = 0; k < 8; k++)
        hash = (hash ^ (bits >> 8 * k & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static void print(const struct eco_isa *isa, const char *what, const char *which, uint64_t hash)
{
    printf("%s %s %s %016llx\n", isa->fused ? "fused" : "unfused", what, which,
           (unsigned long long)hash);
}

static void print_activations(const struct eco_isa *isa)
{
    static const struct {
        int opcode;
        const char *name;
    } activations[] = {{ECO_OP_EXP, "exp"},
                       {ECO_OP_LOG, "log"},
                       {ECO_OP_SQRT, "sqrt"},
                       {ECO_OP_TANH, "tanh"},
                       {ECO_OP_SIGMOID, "sigmoid"}};
    enum { STEP = 4099, N = 1024 };
    float in[N], out[N];
    for (size_t f = 0; f < sizeof activations / sizeof *activations; f++) {
        uint64_t hash = 0;
        for (uint64_t at = 0; at + (uint64_t)STEP * N <= UINT32_MAX;) {
            for (int k = 0; k < N; k++, at += STEP) {
                const uint32_t bits = (uint32_t)at;
                memcpy(in + k, &bits, sizeof bits);
            }
            isa->f32->activation(activations[f].opcode, out, in, N);
            for (int k = 0; k < N; k++)
                hash = add(hash, (double)out[k]);
        }
        print(isa, "activation", activations[f].name, hash);
    }
}

static uint64_t add_stage(uint64_t hash, const struct stage *stage, const struct eco_isa *isa)
{
    struct stage_memory *m = stage_memory_new(stage);
    stage_kernel(stage, isa, false)(&m->call);
    const float *value = (const float *)(const void *)m->data;
    for (size_t k = 0; k < m->used / sizeof *value; k++)
        hash = add(hash, (double)value[k]);
    free(m);
    return hash;
}

static void print_stages(const struct eco_isa *isa)
{
    const struct ecornn_cell *cell;
    for (int c = 0; (cell = eco_cell_builtin(c)); c++) {
        uint64_t hash = 0;
        for (int way = 0; way < 2; way++)
            for (int index = 0; index < stage_count(cell, way == 1); index++) {
                const struct stage stage = {.cell = cell,
                                            .backward = way == 1,
                                            .index = index,
                                            .hidden = 37,
                                            .element = sizeof(float),
                                            .with_y = true};
                hash = add_stage(hash, &stage, isa);
            }
        print(isa, "stages", cell->recipe.name, hash);
    }
}

static void print_run(const struct eco_isa *isa, const char *cell)
{
    char text[CASE_TEXT];
    struct test_case test;
    struct data inputs = {0}, results = {0};
    struct machine machine = {.type = ECORNN_F32, .backwards = 1};
    uint64_t hash = 0;
    snprintf(text, sizeof text, "%s/f32/train/L2/bi/T9/N7/I5/H37/states/lengths:random", cell);
    setenv("ECORNN_ISA", isa->name, 1);
    setenv("ECORNN_ALGORITHM", "packed", 1);
    if (!case_parse(&test, text) || ecornn_device_open(&machine.device, "cpu:2") != ECORNN_OK)
        exit(1);
    case_inputs(&test, &inputs);
    if (!case_run(&test, &machine, &inputs, &results))
        exit(1);
    for (int i = 0; i < results.n; i++)
        for (size_t k = 0; k < results.array[i].count; k++)
            hash = add(hash, results.array[i].value[k]);
    print(isa, "run", cell, hash);
    data_free(&results);
    data_free(&inputs);
    case_free(&test);
    ecornn_device_close(machine.device);
}

static void print_attention(const struct eco_isa *isa)
{
    static const char text[] = "attention/additive/f32/train/T19/S23/N3/H37/V41/lengths:random";
    struct attention_case test;
    struct data inputs = {0}, results = {0};
    ecornn_device *device;
    uint64_t hash = 0;
    setenv("ECORNN_ISA", isa->name, 1);
    if (!attention_parse(&test, text) || ecornn_device_open(&device, "cpu:2") != ECORNN_OK)
        exit(1);
    attention_inputs(&test, &inputs);
    if (!attention_run(&test, device, ECORNN_F32, 1, &inputs, &results))
        exit(1);
    for (int i = 0; i < results.n; i++)
        for (size_t k = 0; k < results.array[i].count; k++)
            hash = add(hash, results.array[i].value[k]);
    print(isa, "attention", "additive", hash);
    data_free(&results);
    data_free(&inputs);
    ecornn_device_close(device);
}

int main(void)
{
    const struct eco_isa *isa, *first[2] = {NULL, NULL};
    for (int k = 0; (isa = eco_isa_supported(k)); k++)
        if (!first[isa->fused])
            first[isa->fused] = isa;
    for (int kind = 0; kind < 2; kind++) {
        if (!(isa = first[kind]))
            continue;
        print_activations(isa);
        print_stages(isa);
        for (int c = 0; cell_name(c); c++)
            print_run(isa, cell_name(c));
        print_attention(isa);
    }
    return 0;
}
