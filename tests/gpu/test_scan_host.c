/*
 * Kernels of scans, run on the host: the text that NVRTC compiles, compiled by a C++ compiler with
 * the few words of CUDA that it uses (tests/gpu/host), against the same cell step by step; where
 * units never meet, bit by bit. Chunks, rows that end early, resets, states of every step; no
 * device. Skipped, with the reason, without a compiler.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/jit/compile.h"
#include "gpu/scan/scan.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const struct kernel {
    const char *cell;
    ecornn_type rows;
    bool resets, states;
} kernels[] = {
    {"tests/cells/rotation", ECORNN_F32, false, false},
    {"tests/cells/tanks", ECORNN_F64, true, true},
    {"tests/cells/oscillators", ECORNN_BF16, true, false},
    {"tests/cells/two-memories", ECORNN_F64, false, true},
    /* not linear, but their units never meet */
    {"cells/indrnn", ECORNN_BF16, true, true},
    {"cells/leaky", ECORNN_F32, true, false},
    /* from here on by tests_all() */
    {"tests/cells/oscillators", ECORNN_F64, true, true},
    {"tests/cells/rotation", ECORNN_F64, true, true},
    {"common/cell/sru", ECORNN_F64, true, true},
    {"common/cell/min-gru", ECORNN_BF16, true, false},
    {"tests/cells/decay", ECORNN_F64, true, true},
    {"cells/indrnn", ECORNN_F64, false, false},
    {"cells/leaky", ECORNN_BF16, true, true},
    {"cells/synaptic", ECORNN_F64, true, true},
    {"cells/sru-peephole", ECORNN_F32, true, true},
    {"tests/cells/no-products", ECORNN_BF16, true, false},
};
enum { KERNELS = sizeof kernels / sizeof *kernels, USUAL = 6, RUNS = 40 };

static char folder[64];

static void set_up(void)
{
    snprintf(folder, sizeof folder, "%s/compile.XXXXXX", access("tests", W_OK) ? "." : "tests");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Writes the kernel's text, and the runs that are compared with it, to a file. */
static void write_text(const struct kernel *kernel, bool backward, const char *path)
{
    static char text[ECO_MAX_TEXT];
    char inside[128];
    ecornn_cell *cell = NULL;
    snprintf(inside, sizeof inside, "%s.cell", kernel->cell);
    ck_assert_msg(source_read(inside, text, sizeof text), "%s", inside);
    check_ok(ecornn_cell_parse(&cell, text));
    const struct eco_problem problem = {
        .cell = cell, .type = kernel->rows, .resets = kernel->resets, .states = kernel->states};
    char *printed = eco_scan_text(&(struct eco_scan_source){&problem, backward});
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(printed);
    ck_assert_ptr_nonnull(file);
    fprintf(file, "%s#define SCAN_BACK %d\n#define SCAN_KERNEL scan_%s\n%s", printed, backward,
            backward ? "backward" : "forward", "#include \"tests/gpu/host/scan_run.cuh\"\n");
    ck_assert_int_eq(fclose(file), 0);
    eco_free(printed);
    ecornn_cell_free(cell);
}

START_TEST(kernels_agree_with_steps)
{
    const struct kernel *kernel = &kernels[_i / 2];
    char root[1024], path[128], command[4096];
    source_path(root, "");
    snprintf(path, sizeof path, "%s/scan.cc", folder);
    write_text(kernel, _i % 2, path);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O1 -ffp-contract=off -w -I'%stests/gpu/host' -I'%s' -I'%sinclude' "
             "-o %s/scan %s && %s/scan 0 %d",
             root, root, root, folder, path, folder, RUNS);
    ck_assert_msg(system(command) == 0, "%s %s", kernel->cell, _i % 2 ? "backward" : "forward");
}
END_TEST

int main(void)
{
    static const struct suite_program program = {
        .name = "scan_host", .set_up = set_up, .tear_down = tear_down};
    if (system("c++ --version > /dev/null 2>&1") != 0) {
        printf("1..0 # SKIP no C++ compiler\n");
        return EXIT_SUCCESS;
    }
    return suite_run(&program,
                     SUITE_TESTS({kernels_agree_with_steps, 2 * (tests_all() ? KERNELS : USUAL)}));
}
