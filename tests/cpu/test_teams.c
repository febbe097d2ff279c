/*
 * Plans for two described processors, on which nothing runs, and how threads share input products.
 */
#include <check.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "cpu/gemm/packed/packed.h"
#include "cpu/isa/isa.h"
#include "tests/kit/plans.h"
#include "tests/kit/suite.h"

/* A Xeon with AMX and 16 threads, and any processor with AVX2 and 2 threads. */
static const struct {
    const char *file;
    bool amx;
    struct eco_caps caps;
} described[] = {
    {"tests/data/plans-amx.txt",
     true,
     {.threads = 16,
      .flops = 192e9,
      .bytes_per_s = 20e9,
      .int8 = true,
      .streams = true,
      .cpu = {.lanes = 16, .vectors = 2, .tiles = true, .sums = 24, .cache_bytes = 2 << 20}}},
    {"tests/data/plans-avx2.txt",
     false,
     {.threads = 2,
      .flops = 96e9,
      .bytes_per_s = 20e9,
      .int8 = true,
      .streams = true,
      .cpu = {.lanes = 8, .vectors = 2, .sums = 12, .cache_bytes = 512 << 10}}}};

/* A system without tiles would take them away from the described processor (cpu/run/cpuid.c). */
const struct eco_isa *__wrap_eco_isa_with_tiles(const struct eco_isa *isa);
const struct eco_isa *__wrap_eco_isa_with_tiles(const struct eco_isa *isa)
{
    return isa;
}

START_TEST(plans)
{
    const struct eco_tile_kernel *tiles = described[_i].amx ? &eco_tile_plain : NULL;
    const struct eco_isa isa = {.tile = &eco_tile_plain, .amx = tiles, .byte_tiles = tiles};
    struct eco_cpu cpu = {.isa = &isa};
    struct ecornn_device device = {
        .backend = &eco_backend_cpu, .caps = described[_i].caps, .context = &cpu};
    keep_plans(described[_i].file, &device);
}
END_TEST

/* In an input product every row and unit belongs to a thread, and no thread is idle without need.
 */
static const struct {
    int threads, rows, units, busy;
} shared[] = {{2, 48, 39, 2}, {2, 15, 64, 1},  {2, 16, 64, 2},    {4, 48, 128, 4},
              {8, 48, 39, 4}, {2, 10, 128, 2}, {16, 400, 64, 16}, {3, 30, 64, 3}};

START_TEST(parts_of_products)
{
    enum { WIDTH = 64 };
    const struct eco_cpu_run run = {.count = shared[_i].threads};
    const struct eco_multiply multiply = {.part = ECO_WEIGHT_INPUT, .rows = shared[_i].rows};
    const struct eco_panels panels = {.units = shared[_i].units};
    const struct eco_packed_form form = {.copied = 0};
    struct eco_packed_product product = {.multiply = &multiply, .panels = &panels, .form = &form};
    const struct eco_packed_work work = {.run = &run, .product = &product, .width = WIDTH};
    int64_t done = 0;
    int busy = 0;
    for (int id = 0; id < run.count; id++) {
        const struct eco_packed_part part = eco_packed_part_of(&work, id);
        const int64_t mine =
            (int64_t)(part.rows.to - part.rows.from) *
            (part.units.to > part.units.from ? part.units.to - part.units.from : 0);
        done += mine;
        busy += mine > 0;
    }
    ck_assert_int_eq(done, (int64_t)shared[_i].rows * shared[_i].units);
    ck_assert_int_eq(busy, shared[_i].busy);
}
END_TEST

TEST_MAIN("teams", {plans, sizeof described / sizeof *described},
          {parts_of_products, sizeof shared / sizeof *shared})
