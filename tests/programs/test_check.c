/*
 * ecornn check finds a kernel that is broken on purpose. Devices are opened with a table in which
 * one function changes one number by one per cent.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cell/cell.h"
#include "cpu/cpu.h"
#include "cpu/isa/isa.h"
#include "tests/kit/suite.h"
#include "tools/ecornn/command.h"

const char program_name[] = "ecornn";

/* ---- broken kernels -------------------------------------------------------------------------- */

static const struct eco_isa *real;

/* Changes one number of a block of sums. */
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

/* Changes one gradient of a state. */
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

/* Breaks the kernels of the best set only. */
ecornn_status __wrap_ecornn_device_open(ecornn_device **device, const char *name)
{
    const ecornn_status status = __real_ecornn_device_open(device, name);
    if (status != ECORNN_OK || strcmp(name, "cpu") != 0)
        return status;
    struct eco_cpu *cpu = (*device)->context;
    if (cpu->isa == eco_isa_supported(0))
        cpu->isa = break_set(cpu->isa);
    return ECORNN_OK;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Runs the command and returns its standard error in `said`. */
static int check(char *said, size_t size)
{
    const struct options options = {.device = "cpu"};
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fflush(stderr);
    const int before = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
    const int status = command_check.run(&options);
    ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
    close(before);
    rewind(file);
    said[fread(said, 1, size - 1, file)] = '\0';
    fclose(file);
    return status;
}

/* Each line about a failure names the kernel's set and a pass (forward or backward) that uses it.
 */
START_TEST(finds_what_is_broken)
{
    static char said[1 << 16];
    char way[64];
    int lines = 0;
    broken = (enum broken)_i;
    ck_assert_int_eq(check(said, sizeof said), broken != NOTHING);
    snprintf(way, sizeof way, "ecornn: FAILED: cpu %s ", eco_isa_supported(0)->name);
    for (char *line = strtok(said, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
        ck_assert_msg(strncmp(line, way, strlen(way)) == 0, "%s", line);
        ck_assert_ptr_nonnull(strstr(line, " of algorithm="));
        if (broken == PASS) /* the kernel belongs to one cell and is used by every algorithm */
            ck_assert(strstr(line, ": gru/f32/train/") && strstr(line, ": kernels backward of "));
        else /* algorithms with OpenBLAS do not use the broken product */
            ck_assert_ptr_null(strstr(line, " blas: "));
    }
    ck_assert_int_eq(lines > 0, broken != NOTHING);
}
END_TEST

TEST_MAIN("check", {finds_what_is_broken, PASS + 1}) /* NOTHING, PRODUCT, PASS */
