/*
 * ecornn check finds a kernel that is broken on purpose: devices are opened with a table in which
 * one function computes something else, by one per cent in one place.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"
#include "cpu/cpu.h"
#include "cpu/isa/isa.h"
#include "tests/kit/suite.h"
#include "tools/ecornn/command.h"

const char program_name[] = "ecornn";

/* ---- broken kernels -------------------------------------------------------------------------- */

static const struct eco_isa *real;

/* One number of a block of sums. */
static void multiply(const struct eco_tile *tile)
{
    real->tile->multiply(tile);
    tile->c[(size_t)(tile->rows - 1) * tile->c_row + tile->c_vector[0]] *= 1.01f;
}

static int gru(void)
{
    int index = 0;
    while (strcmp(eco_cell_builtin(index)->recipe.name, "gru") != 0)
        index++;
    return index;
}

/* One gradient of a state. */
static void pass_back(const struct eco_pointwise *call)
{
    real->f32->cell[gru()].backward[0](call);
    *(float *)call->carry[0] *= 1.01f;
}

enum broken { NOTHING, PRODUCT, PASS };
static enum broken broken;

static const struct eco_isa *break_set(const struct eco_isa *of)
{
    static struct eco_isa isa;
    static struct eco_tile_kernel tile;
    static struct eco_pointwise_kernels passes;
    static struct eco_cell_kernels cell[32];
    real = of;
    isa = *real;
    tile = *real->tile;
    tile.multiply = multiply;
    passes = *real->f32;
    for (int c = 0; eco_cell_builtin(c) != NULL; c++)
        cell[c] = real->f32->cell[c];
    cell[gru()].backward[0] = pass_back;
    passes.cell = cell;
    if (broken == PRODUCT)
        isa.tile = &tile;
    if (broken == PASS)
        isa.f32 = &passes;
    return &isa;
}

/* The linker's names: __real_NAME is the library's. */
ecornn_status __real_ecornn_device_open(ecornn_device **device, const char *name);
ecornn_status __wrap_ecornn_device_open(ecornn_device **device, const char *name);

/* Of the best set only: the others are right. */
ecornn_status __wrap_ecornn_device_open(ecornn_device **device, const char *name)
{
    const ecornn_status status = __real_ecornn_device_open(device, name);
    if (status != ECORNN_OK || strcmp(name, "cpu") != 0)
        return status;
    struct eco_cpu *cpu = (*device)->own;
    if (cpu->isa == eco_isa_supported(0))
        cpu->isa = break_set(cpu->isa);
    return ECORNN_OK;
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(finds_what_is_broken)
{
    const struct options options = {.device = "cpu"};
    broken = (enum broken)_i;
    ck_assert_int_eq(command_check.run(&options), broken != NOTHING);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check");
    TCase *tests = tcase_create("check");
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, finds_what_is_broken, NOTHING, PASS + 1);
    return suite_run(suite, true);
}
