/*
 * The kernels of cells are compiled at run time. Tests what needs no device: that every cell
 * compiles for an old and a new architecture, the errors without NVRTC and of wrong text, and the
 * cache on the disk. Skipped, with the reason, where there is no NVRTC.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/jit/compile.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/persistent/persistent.h"
#include "gpu/scan/scan.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static char why[512];
static struct eco_text *reason(void)
{
    static struct eco_text text;
    text = (struct eco_text){why, sizeof why, 0};
    why[0] = '\0';
    return &text;
}

static const char *const architecture[] = {"sm_75", "sm_90a", "sm_100a", "sm_120a"};
static int architectures = 2; /* or 4, if this NVRTC knows all of them */

/* For kernels that 7.5 does not have: half of them are compiled for 9.0. */
static const char *target_of(int number)
{
    const int a = number % 4;
    return architecture[a < 2 || a >= architectures ? 1 : a];
}

/* ---- cells ----------------------------------------------------------------------------------- */

static int cells(void) /* every sixth one from text, unless all run */
{
    char name[64];
    int n = 0;
    while (sweep_own_cell(n * (tests_all() ? 1 : 6), name))
        n++;
    return builtin_count() + n;
}

static ecornn_cell *cell_number(int k)
{
    ecornn_cell *cell = NULL;
    static char text[ECO_MAX_TEXT];
    char name[64] = "";
    if (k < builtin_count())
        snprintf(name, sizeof name, "own-%s", cell_name(k));
    else
        sweep_own_cell((k - builtin_count()) * (tests_all() ? 1 : 6), name);
    ck_assert_msg(cell_read(name, text, sizeof text), "%s", name);
    check_ok(ecornn_cell_parse(&cell, text));
    return cell;
}

/* Options that save most of the compiler's time. Used if this NVRTC has them, and then it knows all
 * the architectures, but not by tests_all(). */
static const char *const quick[] = {"-Ofc=max", NULL}, *const *options_of_kernels;

/* Frees the text. */
static struct eco_code compile_text(char *text, const char *target)
{
    struct eco_code code;
    const struct eco_source source = {text, target, options_of_kernels};
    ck_assert_msg(eco_nvrtc_compile(&source, &code, reason()), "%s", why);
    eco_free(text);
    return code;
}

static bool contains(const struct eco_code *code, const char *name)
{
    const size_t length = strlen(name) + 1;
    for (size_t i = 0; i + length <= code->bytes; i++)
        if (memcmp((const char *)code->data + i, name, length) == 0)
            return true;
    return false;
}

static void check_kernels(const struct ecornn_cell *cell, bool backward,
                          const struct eco_code *code)
{
    const struct eco_lowered *lowered = &cell->lowered;
    char name[ECO_KERNEL_NAME];
    ck_assert_uint_gt(code->bytes, 4);
    ck_assert(memcmp(code->data, "\177ELF", 4) == 0);
    for (int k = 0; k < (backward ? lowered->n_backward : lowered->n_forward); k++) {
        eco_cell_kernel_name(cell, backward, k, name);
        ck_assert_msg(contains(code, name), "no %s", name);
    }
    eco_cell_kernel_name(cell, !backward, 0, name);
    ck_assert_msg(!contains(code, name), "%s is of the other direction", name);
}

/* Counts the texts that were compiled; each second text has resets. */
static int number_of_texts;

static void compile(const struct ecornn_cell *cell, ecornn_type type, int a)
{
    const struct eco_problem problem = {
        .cell = cell, .type = type, .resets = number_of_texts++ % 2};
    for (int way = 0; way < 2; way++) {
        struct eco_code code = compile_text(eco_cell_text(&problem, way), architecture[a]);
        check_kernels(cell, way, &code);
        eco_free(code.data);
    }
}

/* Some types and kernels are compiled only for one cell in four, except by tests_all(). */
static bool is_left_out(int cell)
{
    return !tests_all() && cell % 4 != 1;
}

/* Each text is compiled for one architecture; the texts take the architectures in turn, and those
 * of other types than F32, except by tests_all(), the types. */
START_TEST(compiles_every_cell)
{
    ecornn_cell *cell = cell_number(_i);
    compile(cell, ECORNN_F32, _i % architectures);
    static const ecornn_type other[] = {ECORNN_BF16, ECORNN_F16, ECORNN_F64};
    for (int k = 0; _i >= builtin_count() && k < 3; k++)
        if (tests_all() || k == _i % 3)
            compile(cell, other[k], k ? 1 : (_i + 1) % architectures);
    ecornn_cell_free(cell);
}
END_TEST

/* number: bit 0 is set for the backward kernel, bit 1 for one with resets. */
static void compile_persistent(const struct ecornn_cell *cell, int kind, int number, int place)
{
    const ecornn_type type = kind == ECO_BF16_IN_BF16 ? ECORNN_BF16
                             : kind == ECO_F16_IN_F16 ? ECORNN_F16
                                                      : ECORNN_F32;
    const struct eco_problem problem = {.cell = cell, .type = type, .resets = number / 2 % 2};
    char *text = eco_persistent_text(
        &(struct eco_persistent_source){.problem = &problem,
                                        .kind = &eco_persistent_kinds[kind],
                                        .backward = number % 2,
                                        .place = place,
                                        .kept = number % 2,
                                        .usual = {.even = number % 2,
                                                  .tiles = place % 4,
                                                  .rounds = number % 2 ? 1 : place % 4,
                                                  .pieces = place % 3 * 8,
                                                  .parts = place % 4 ? 16 : 0}});
    const bool wgmma = eco_persistent_mainloop_of(place) == ECO_PERSISTENT_WGMMA;
    struct eco_code code = compile_text(text, target_of(wgmma ? 0 : kind + place));
    char name[ECO_KERNEL_NAME];
    eco_persistent_kernel_name(place, name);
    ck_assert_msg(contains(&code, name), "no %s", name);
    eco_free(code.data);
}

/* Persistent kernels run all steps in one launch. Compiles one forward and one backward kernel of
 * each cell that has them. Over all cells, every kind and cluster size occurs, and half of the
 * kernels have resets. Of cells that are not built in and have one product, it also compiles a
 * WGMMA kernel, and a direct kernel with scaled operands. */
START_TEST(compiles_persistent_kernels)
{
    /* for cells of one product clusters of 1, 4, 2 and 1 blocks; for two products of 1 */
    static const int places[2][4] = {{0, 8, 5, 14}, {0, 1, 3, 2}};
    /* clusters of 1 and 2 */
    static const int squares[] = {ECO_PERSISTENT_INDEX(4, 0, ECO_PERSISTENT_WGMMA),
                                  ECO_PERSISTENT_INDEX(3, 1, ECO_PERSISTENT_WGMMA)},
                     kinds[] = {ECO_BF16_IN_BF16, ECO_F16_IN_F16, ECO_F32_IN_F16, ECO_F32_IN_PAIR};
    static const int direct[] = {ECO_PERSISTENT_INDEX(4, 0, ECO_PERSISTENT_DIRECT),
                                 ECO_PERSISTENT_INDEX(5, 0, ECO_PERSISTENT_DIRECT)},
                     scaled[] = {ECO_F32_IN_SCALED_F16, ECO_F32_IN_SCALED_PAIR};
    if (is_left_out(_i))
        return;
    ecornn_cell *cell = cell_number(_i);
    const int products = eco_cell_products(cell), other = _i / 2 % 2 * 2,
              means = cell->lowered.n_means[1]; /* many of them take the compiler long */
    const int first = means > 0 ? _i / 2 % 2 : 0, end = means > 2 ? 0 : means > 0 ? first + 1 : 2;
    for (int i = first; i < end && products > 0; i++)
        compile_persistent(cell, (_i + i) % ECO_PERSISTENT_KINDS, i + 2 * (_i % 2),
                           places[products - 1][other + i]);
    if (products == 1 && _i >= builtin_count() && means == 0) {
        compile_persistent(cell, kinds[_i % 4], 2 * (_i / 2 % 2), squares[_i / 4 % 2]);
        compile_persistent(cell, scaled[_i % 2], 2 * (_i / 4 % 2), direct[_i / 2 % 2]);
    }
    ecornn_cell_free(cell);
}
END_TEST

/* Fused kernels run a step in one launch. Each cell is compiled for one type, usually one shape. */
START_TEST(compiles_fused_kernels)
{
    static const struct {
        ecornn_type type;
        bool fast;
    } kinds[] = {
        {ECORNN_BF16, false}, {ECORNN_F32, false}, {ECORNN_F32, true}, {ECORNN_F16, false}};
    ecornn_cell *cell = cell_number(builtin_count() + _i);
    const int accs = cell->lowered.n_accs;
    for (int k = 0, made = 0; k < ECO_FUSED_SHAPES && (made == 0 || tests_all()); k++) {
        const int shape = (k + _i) % ECO_FUSED_SHAPES;
        const struct eco_problem problem = {.cell = cell,
                                            .type = kinds[_i % 4].type,
                                            .fast = kinds[_i % 4].fast,
                                            .resets = _i / 4 % 2};
        char name[ECO_KERNEL_NAME];
        if (eco_cell_products(cell) != 1 || cell->lowered.has_means || !ECO_FUSED_MADE(accs, shape))
            continue;
        struct eco_code code = compile_text(eco_fused_text(&problem, shape), target_of(_i + shape));
        eco_fused_kernel_name(shape, name);
        ck_assert_msg(contains(&code, name), "no %s", name);
        eco_free(code.data);
        made++;
    }
    ecornn_cell_free(cell);
}
END_TEST

/* more: resets, and states of every step. */
static void compile_scan(const struct ecornn_cell *cell, ecornn_type type, int a, bool more)
{
    const struct eco_problem problem = {.cell = cell, .type = type, .resets = more, .states = more};
    for (int backward = 0; backward < 2; backward++) {
        struct eco_code code = compile_text(
            eco_scan_text(&(struct eco_scan_source){&problem, backward}), architecture[a]);
        ck_assert(contains(&code, backward ? "scan_backward" : "scan_forward"));
        eco_free(code.data);
    }
}

/* Scans run all steps of a chunk at once. Each cell that has one is compiled for one type and one
 * architecture. */
START_TEST(compiles_scans)
{
    ecornn_cell *cell = cell_number(_i);
    const int types = ECO_TYPES - ECORNN_F32;
    if (cell->lowered.linear.scans || eco_scan_is_apart(cell))
        compile_scan(cell, (ecornn_type)(ECORNN_F32 + _i % types), _i / types % architectures,
                     _i / 2 % 2);
    ecornn_cell_free(cell);
}
END_TEST

/* Cells that are not linear, but whose units never meet. */
START_TEST(compiles_units_apart)
{
    static const char *const name[] = {"indrnn", "leaky"};
    char text[ECO_MAX_TEXT];
    ecornn_cell *cell = NULL;
    ck_assert(cell_read(name[_i % 2], text, sizeof text));
    check_ok(ecornn_cell_parse(&cell, text));
    ck_assert(eco_scan_is_apart(cell) && !cell->lowered.linear.scans);
    compile_scan(cell, (ecornn_type)(ECORNN_F32 + _i / 2), _i % architectures, _i / 4 % 2);
    ecornn_cell_free(cell);
}
END_TEST

/* Cells of as many states as are allowed, in doubles, need all the shared memory that a kernel has
 * by default: states by themselves, and states that depend on each other. */
START_TEST(compiles_scans_of_most_states)
{
    static const char *const text[] = {"cell most(h, c, d, e)\n"
                                       "f = sigmoid(W x + b)\n"
                                       "c' = f * c + x\n"
                                       "d' = f * d - x\n"
                                       "e' = x * e + f\n"
                                       "h' = c' * d' + e'\n",
                                       "cell most(h, c, d, e)\n"
                                       "f = sigmoid(W x + b)\n"
                                       "c' = f * (c - h + d) + e\n"
                                       "d' = f * d - c\n"
                                       "e' = x * e + f * h\n"
                                       "h' = h + c' * x + e'\n"};
    ecornn_cell *cell = NULL;
    check_ok(ecornn_cell_parse(&cell, text[_i]));
    ck_assert_int_eq(cell->recipe.n_states, ECO_MAX_STATES);
    ck_assert(cell->lowered.linear.scans);
    ck_assert_int_eq(cell->lowered.linear.n_factors, _i == 0 ? 4 : 16);
    compile_scan(cell, ECORNN_F64, 0, _i);
    ecornn_cell_free(cell);
}
END_TEST

/* ---- what goes wrong ------------------------------------------------------------------------- */

static const char simple[] = "extern \"C\" __global__ void f(float *x) { x[0] = FACTOR; }\n";

START_TEST(says_what_is_missing)
{
    static const char *const names[] = {"/dev/null/libnvrtc.so", "libm.so.6", "./libm.so.6"};
    static const char *const says[] = {"/dev/null/", "libm.so.6 is not NVRTC", "absolute path"};
    setenv("ECORNN_NVRTC", "0", 1);
    ck_assert(!eco_nvrtc_open(reason()));
    ck_assert_str_eq(why, "ECORNN_NVRTC is 0");
    setenv("ECORNN_NVRTC", names[_i], 1);
    ck_assert(!eco_nvrtc_open(reason()));
    ck_assert_msg(strstr(why, says[_i]), "%s", why);
}
END_TEST

START_TEST(says_what_is_wrong)
{
    struct eco_code code;
    const char *const options[] = {"--no-such-option", NULL};
    struct eco_source source = {simple, "sm_90a", NULL};
    ck_assert(!eco_nvrtc_compile(&source, &code, reason()));
    ck_assert_msg(strstr(why, "FACTOR"), "%s", why);
    source = (struct eco_source){"#include <nowhere.h>\n", "sm_90a", NULL};
    ck_assert(!eco_nvrtc_compile(&source, &code, reason()));
    ck_assert_msg(strstr(why, "nowhere.h"), "%s", why);
    source = (struct eco_source){"", "sm_12", NULL};
    ck_assert(!eco_nvrtc_compile(&source, &code, reason()));
    ck_assert_msg(strstr(why, "sm_12"), "%s", why);
    source = (struct eco_source){"", "sm_90a", options};
    ck_assert(!eco_nvrtc_compile(&source, &code, reason()));
    ck_assert_ptr_null(code.data);
}
END_TEST

/* Of several texts one is wrong: the others are compiled, and the reason is that one's. */
START_TEST(compiles_side_by_side)
{
    enum { TEXTS = 5, WRONG = 3 };
    struct eco_compilation all[TEXTS];
    char text[TEXTS][80];
    struct eco_text shared = *reason();
    setenv("ECORNN_CACHE", "0", 1);
    for (int i = 0; i < TEXTS; i++) {
        snprintf(text[i], sizeof text[i],
                 "extern \"C\" __global__ void f%d(int *x) { x[0] = %s; }\n", i,
                 i == WRONG ? "FACTOR" : "1");
        all[i] = (struct eco_compilation){.source = {text[i], "sm_90a", NULL}, .why = &shared};
    }
    eco_compile_all(all, TEXTS);
    ck_assert_msg(strstr(why, "FACTOR"), "%s", why);
    for (int i = 0; i < TEXTS; i++) {
        const char name[] = {'f', (char)('0' + i), '\0'};
        ck_assert_int_eq(all[i].code.data != NULL, i != WRONG);
        ck_assert(i == WRONG || contains(&all[i].code, name));
        eco_free(all[i].code.data);
    }
}
END_TEST

/* ---- with the disk --------------------------------------------------------------------------- */

static char folder[64];

static void set_up(void)
{
    snprintf(folder, sizeof folder, "%s/compile.XXXXXX", access("tests", W_OK) ? "." : "tests");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    suite_set_path("ECORNN_CACHE", folder);
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Compiles `simple` with -DFACTOR=factor, or finds it. */
static struct eco_code get(const char *factor, const char *arch)
{
    const char *const options[] = {factor, NULL};
    const struct eco_source source = {simple, arch, options};
    struct eco_code code;
    ck_assert_msg(eco_compile(&source, &code, reason()), "%s", why);
    return code;
}

START_TEST(compiles_once)
{
    struct eco_code first = get("-DFACTOR=1", "sm_90a"), again = get("-DFACTOR=1", "sm_90a");
    ck_assert(!first.kept && again.kept);
    ck_assert(first.bytes == again.bytes && memcmp(first.data, again.data, first.bytes) == 0);
    eco_free(again.data);
    again = get("-DFACTOR=2", "sm_90a");
    ck_assert(!again.kept);
    eco_free(again.data);
    again = get("-DFACTOR=1", "sm_75");
    ck_assert(!again.kept);
    eco_free(again.data);
    eco_free(first.data);
    setenv("ECORNN_CACHE", "0", 1);
    again = get("-DFACTOR=1", "sm_90a");
    ck_assert(!again.kept);
    eco_free(again.data);
    setenv("ECORNN_CACHE", "/dev/null/ecornn", 1); /* no place to keep it is no error */
    again = get("-DFACTOR=1", "sm_90a");
    ck_assert(!again.kept);
    eco_free(again.data);
}
END_TEST

/* Files in the current folder must not replace headers of ours: another user may have put them
 * there. */
START_TEST(reads_no_files)
{
    static const char *const name[] = {"near.h", "gpu/cell/words.cuh", "stdint.h"};
    struct eco_code code;
    char before[1024];
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(mkdir("gpu", 0700) | mkdir("gpu/cell", 0700), 0);
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen(name[i], "w");
        fputs("#define FOUND 1\n", file);
        fclose(file);
    }
    struct eco_source source = {"#include \"near.h\"\n", "sm_90a", NULL};
    ck_assert(!eco_nvrtc_compile(&source, &code, reason()));
    ck_assert_msg(strstr(why, "near.h"), "%s", why);
    source.text = "#define ECO_ROWS_F32 1\n#include \"gpu/cell/words.cuh\"\n"
                  "#ifdef FOUND\n#error found\n#endif\n";
    ck_assert_msg(eco_nvrtc_compile(&source, &code, reason()), "%s", why);
    eco_free(code.data);
    ck_assert_int_eq(chdir(before), 0);
}
END_TEST

/* Each allocation fails once. Then there is either no code and a reason, or code that was not
 * stored in the cache. */
START_TEST(memory_may_be_short)
{
    const char *const options[] = {"-DFACTOR=4", NULL};
    const struct eco_source source = {simple, "sm_90a", options};
    for (int k = 1; k < 8; k++) {
        struct eco_code code;
        eco_alloc_fail_at(k);
        const bool ok = eco_compile(&source, &code, reason());
        eco_alloc_fail_at(0);
        ck_assert(ok == (code.data != NULL));
        ck_assert_msg(ok || why[0] != '\0', "no reason");
        eco_free(code.data);
    }
}
END_TEST

START_TEST(compiles_in_processes_at_once)
{
    for (int k = 0; k < 2; k++)
        if (fork() == 0) {
            struct eco_code code = get("-DFACTOR=3", "sm_90a");
            _exit(memcmp(code.data, "\177ELF", 4) != 0);
        }
    for (int k = 0; k < 2; k++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    struct eco_code code = get("-DFACTOR=3", "sm_90a");
    ck_assert(code.kept);
    eco_free(code.data);
}
END_TEST

/* The sum of the headers, options, architecture and text: each alone makes another key. */
START_TEST(key_has_all_of_it)
{
    static char key[2][1 << 10];
    const char *const options[] = {"-DX", NULL};
    const struct eco_source source[] = {
        {"a", "sm_75", NULL}, {"b", "sm_75", NULL}, {"a", "sm_90a", NULL}, {"a", "sm_75", options}};
    ck_assert(eco_nvrtc_open(reason()));
    for (int i = 0; i < 4; i++) {
        struct eco_text text = {key[i > 0], sizeof key[0], 0};
        eco_nvrtc_key(&source[i], &text);
        ck_assert_uint_lt(text.length, sizeof key[0]);
        ck_assert(i == 0 || strcmp(key[0], key[1]) != 0);
        const char *sum = strstr(key[i > 0], "\nheaders ");
        ck_assert_ptr_nonnull(sum);
        ck_assert_uint_eq(strspn(sum + strlen("\nheaders "), "0123456789abcdef"), 64);
        ck_assert_ptr_nonnull(strstr(key[i > 0], "--fmad=false"));
    }
}
END_TEST

/* Is NVRTC here? A child process looks, so that each test still opens the library by its own
 * environment. */
static bool is_here(void)
{
    enum { MISSING = 1, HAS_QUICK };
    int status = 0;
    if (fork() == 0) {
        struct eco_code code;
        if (!eco_nvrtc_open(reason())) {
            printf("1..0 # SKIP %s\n", why);
            fflush(stdout);
            _exit(MISSING);
        }
        _exit(eco_nvrtc_compile(&(struct eco_source){"", "sm_120a", quick}, &code, reason())
                  ? HAS_QUICK
                  : 0);
    }
    wait(&status);
    const int said = WIFEXITED(status) ? WEXITSTATUS(status) : MISSING;
    architectures = said == HAS_QUICK ? 4 : 2;
    options_of_kernels = said == HAS_QUICK && !tests_all() ? quick : NULL;
    return said != MISSING;
}

int main(void)
{
    static const struct suite_program program = {
        .name = "compile", .set_up = set_up, .tear_down = tear_down};
    if (!is_here())
        return EXIT_SUCCESS;
    if (COMPILES_PERSISTENT) /* a program of its own, because it takes as long as all the others */
        return suite_run(&program, SUITE_TESTS({compiles_persistent_kernels, cells()}));
    return suite_run(
        &program,
        SUITE_TESTS(
            {compiles_every_cell, cells()}, {compiles_fused_kernels, cells() - builtin_count()},
            {compiles_scans, cells()}, {compiles_units_apart, 2 * (ECO_TYPES - ECORNN_F32)},
            {compiles_scans_of_most_states, 2}, {says_what_is_missing, 3}, {says_what_is_wrong, 1},
            {compiles_side_by_side, 1}, {key_has_all_of_it, 1}, {compiles_once, 1},
            {memory_may_be_short, 1}, {reads_no_files, 1}, {compiles_in_processes_at_once, 1}));
}
