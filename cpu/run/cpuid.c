/*
 * Properties of this processor. With quota.c the only place that asks the processor, or the system
 * about it, or the environment; called when a device is opened.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <ctype.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/os.h"
#include "common/util.h"
#include "cpu/cpu.h"
#include "cpu/run/cpuid.h"
#include "cpu/attention/attention.h"
#include "cpu/isa/isa.h"
#include "cpu/matrix/matrix.h"

/* ---- instruction sets ------------------------------------------------------------------------ */

/* All sets, worst first. A processor that runs one also runs those before it. */
enum rank {
    RANK_PLAIN,
    RANK_SSE2,
    RANK_NEON,
    RANK_NEONDOT,
    RANK_AVX2,
    RANK_AVXVNNI, /* some processors with AVX-512 lack it */
    RANK_AVX512,
    RANK_AVX512VNNI,
    RANK_AVX512BF16,
    RANK_AMX,
    RANKS
};
static const char *const rank_name[RANKS] = {"plain",      "sse2",    "neon",   "neondot",
                                             "avx2",       "avxvnni", "avx512", "avx512vnni",
                                             "avx512bf16", "amx"};

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* The registers that the system saves: XCR0. */
static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* 256-bit VNNI, where AVX2 is. */
static bool has_avxvnni(void)
{
    enum { AVXVNNI = 1 << 4 }; /* 7.1.eax */
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVXVNNI);
}

static enum rank best_rank(void)
{
    enum { SSE2 = 1 << 26 };                                                             /* 1.edx */
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28 };                            /* 1.ecx */
    enum { AVX2 = 1 << 5, AVX512 = 1 << 16 | 1 << 17 | 1 << 30, AVX512_VL = INT32_MIN }; /* 7.ebx */
    enum { VNNI = 1 << 11 };                                                             /* 7.ecx */
    enum { AMX = 1 << 22 | 1 << 24 | 1 << 25 };    /* 7.edx: bf16, tile, int8 */
    enum { YMM = 0x6, ZMM = 0xe6, TMM = 0x60000 }; /* XCR0 */
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return RANK_PLAIN;
    if ((c & (FMA | OSXSAVE | AVX)) != (FMA | OSXSAVE | AVX))
        return d & SSE2 ? RANK_SSE2 : RANK_PLAIN;
    const unsigned saved = saved_registers();
    if ((saved & YMM) != YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & AVX2))
        return RANK_SSE2;
    const unsigned all = (unsigned)AVX512 | (unsigned)AVX512_VL;
    if ((saved & ZMM) != ZMM || (b & all) != all)
        return has_avxvnni() ? RANK_AVXVNNI : RANK_AVX2;
    if (!(c & VNNI))
        return RANK_AVX512;
    const bool amx = (d & AMX) == AMX && (saved & TMM) == TMM && eco_os_tiles_offered();
    if (amx)
        return RANK_AMX;
    enum { BF16 = 1 << 5 }; /* 7.1.eax */
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & BF16) ? RANK_AVX512BF16
                                                                 : RANK_AVX512VNNI;
}

/* Is a dot product of pairs of BF16 as fast as a multiply-add? Intel's do half the multiplications
 * of widened floats in the same time. */
static bool has_fast_dots(void)
{
    enum { INTEL = 0x756e6547 }; /* "Genu", of "GenuineIntel" */
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b != INTEL;
}

static void model_name(char name[49])
{
    unsigned a, word[12] = {0};
    if (__get_cpuid(0x80000000u, &a, word, word + 1, word + 2) && a >= 0x80000004u)
        for (unsigned k = 0; k < 3; k++)
            __get_cpuid(0x80000002u + k, word + 4 * k, word + 4 * k + 1, word + 4 * k + 2,
                        word + 4 * k + 3);
    else
        memset(word, 0, sizeof word);
    memcpy(name, word, 48);
    name[48] = 0;
}
#else
static bool has_avxvnni(void)
{
    return false;
}

static bool has_fast_dots(void)
{
    return false;
}

static enum rank best_rank(void)
{
#if defined(__aarch64__)
    enum { DOT_PRODUCT = 1 << 20 }; /* HWCAP_ASIMDDP */
    return eco_os_arm_features() & DOT_PRODUCT ? RANK_NEONDOT : RANK_NEON;
#else
    return RANK_PLAIN;
#endif
}

static void model_name(char name[49])
{
    name[0] = 0;
}
#endif

/* The kernels compiled for a set. */
/* clang-format off */
#define KERNELS(set, fused_) SET(set, set, fused_)
#define SET(set, bytes_, fused_)                                                                   \
    .f32 = &eco_kernels_##set, .f64 = &eco_kernels_f64, .bf16 = &eco_kernels_narrow_##set,         \
    .tile = &eco_tile_##set, .narrow = &eco_narrow_##set, .narrow_rows = &eco_rows_##set,          \
    .bytes = &eco_bytes_##bytes_,                                                                  \
    .lanes = &eco_lanes_##set, .attention = &eco_attention_##set, .matrix = &eco_matrix_##set,     \
    .fused = fused_
/* clang-format on */

/* Every set that was built, best first. */
static const struct {
    enum rank rank;
    struct eco_isa isa;
} built[] = {
#if ECO_HAVE_AVX512VNNI && ECO_HAVE_AMX
    {RANK_AMX, /* those of avx512vnni, and tiles */
     {.name = "amx",
      SET(avx512, avx512vnni, true),
      .amx = &eco_tile_amx,
      .split = &eco_split_amx,
      .byte_tiles = &eco_bytes_amx,
      .pair_rows = &eco_rows_amx}},
#endif
#if ECO_HAVE_AVX512VNNI && ECO_HAVE_AVX512BF16
    {RANK_AVX512BF16, /* those of avx512vnni, and dot products for BF16 */
     {.name = "avx512bf16",
      SET(avx512, avx512vnni, true),
      .dot = &eco_tile_avx512bf16,
      .pair_rows = &eco_rows_avx512bf16}},
#endif
#if ECO_HAVE_AVX512 && ECO_HAVE_AVX512VNNI
    {RANK_AVX512VNNI, /* those of avx512, and dot products of bytes */
     {.name = "avx512vnni", SET(avx512, avx512vnni, true)}},
#endif
#if ECO_HAVE_AVX512
    {RANK_AVX512, {.name = "avx512", KERNELS(avx512, true)}},
#endif
#if ECO_HAVE_AVX2 && ECO_HAVE_AVXVNNI
    {RANK_AVXVNNI, /* those of avx2, and dot products of bytes */
     {.name = "avxvnni", SET(avx2, avxvnni, true)}},
#endif
#if ECO_HAVE_AVX2
    {RANK_AVX2, {.name = "avx2", KERNELS(avx2, true)}},
#endif
#if ECO_HAVE_NEON && ECO_HAVE_NEONDOT
    {RANK_NEONDOT, /* those of neon, and dot products of bytes */
     {.name = "neondot", SET(neon, neondot, true)}},
#endif
#if ECO_HAVE_NEON
    {RANK_NEON, {.name = "neon", KERNELS(neon, true)}},
#endif
#if ECO_HAVE_SSE2
    {RANK_SSE2, {.name = "sse2", KERNELS(sse2, false)}},
#endif
    {RANK_PLAIN, {.name = "plain", KERNELS(plain, false)}},
};
enum { BUILT = sizeof built / sizeof built[0] };

/* Number `index` of the built sets whose rank is at most `rank`. */
static const struct eco_isa *set_below(enum rank rank, int index)
{
    for (int k = 0; k < BUILT; k++)
        if (built[k].rank <= rank && (built[k].rank != RANK_AVXVNNI || has_avxvnni()) &&
            index-- == 0)
            return &built[k].isa;
    return NULL;
}

/* The same with sets that have slow dot products after the next. */
static const struct eco_isa *best_below(enum rank rank, int index)
{
    const struct eco_isa *const isa = set_below(rank, index), *const before =
                                                                  index > 0
                                                                      ? set_below(rank, index - 1)
                                                                      : NULL;
    if (has_fast_dots())
        return isa;
    if (isa != NULL && isa->dot != NULL)
        return set_below(rank, index + 1);
    return before != NULL && before->dot != NULL ? before : isa;
}

const char *eco_isa_name(int index)
{
    return index < RANKS ? rank_name[index] : NULL;
}

const struct eco_isa *eco_isa_supported(int index)
{
    const enum rank best = best_rank();
    return best_below(best == RANK_AMX && !eco_os_tiles_given() ? RANK_AVX512BF16 : best, index);
}

const struct eco_isa *eco_isa_with_tiles(const struct eco_isa *isa)
{
    return isa->amx == NULL || eco_os_tiles_given() ? isa : best_below(RANK_AVX512BF16, 0);
}

const struct eco_isa *eco_isa_choose(void)
{
    const char *cap = eco_environment("ECORNN_ISA");
    const enum rank best = best_rank();
    char names[128];
    struct eco_text text = {names, sizeof names, 0};
    if (cap == NULL || *cap == '\0')
        return best_below(best, 0);
    for (enum rank rank = 0; rank < RANKS; rank++) {
        if (strcmp(cap, rank_name[rank]) == 0)
            return set_below(rank < best ? rank : best, 0);
        eco_text_add(&text, "%s%s", rank > 0 ? ", " : "", rank_name[rank]);
    }
    (void)eco_fail(ECORNN_BAD_ARGUMENT, "ECORNN_ISA is \"%.40s\", must be one of %s", cap, names);
    return NULL;
}

/* ---- the machine ----------------------------------------------------------------------------- */

void eco_cpu_name(char *name, size_t size)
{
    char model[49];
    char machine[65] = "";
    model_name(model);
    const char *from = model;
    while (isspace((unsigned char)*from))
        from++;
    if (*from == 0) {
        eco_os_machine(machine, sizeof machine);
        from = machine;
    }
    snprintf(name, size, "%s", *from ? from : "CPU");
    for (size_t n = strlen(name); n > 0 && isspace((unsigned char)name[n - 1]); n--)
        name[n - 1] = 0;
}

size_t eco_cpu_cache_bytes(void)
{
    const size_t bytes = eco_os_cache_bytes(2);
    return bytes > 0 ? bytes : (size_t)1 << 20;
}

int32_t eco_cpu_first_bytes(void)
{
    const size_t bytes = eco_os_cache_bytes(1);
    return bytes > 0 && bytes <= INT32_MAX ? (int32_t)bytes : 32 << 10;
}

int eco_cpu_affinity(void)
{
    return omp_get_num_procs(); /* not the mask of this thread, which OMP_PROC_BIND may have bound
                                 */
}

/* Reads a number of at most `most` and the character after it; -1: there is none. */
static int read_count(const char **text, int most)
{
    int number = 0;
    if (!isdigit((unsigned char)**text))
        return -1;
    for (; isdigit((unsigned char)**text); ++*text)
        number = number <= most ? 10 * number + (**text - '0') : number;
    return number > 0 && number <= most ? number : -1;
}

bool eco_cpu_read_grid(const char *text, struct eco_grid *grid)
{
    int part[3];
    int64_t threads = 1;
    for (int k = 0; k < 3; k++) {
        part[k] = read_count(&text, ECO_STEP_THREADS);
        threads *= part[k];
        if (part[k] < 0 || *text != (k < 2 ? 'x' : '\0') || threads > ECO_STEP_THREADS)
            return false;
        text++;
    }
    *grid = (struct eco_grid){part[0], part[1], part[2]};
    return true;
}

ecornn_status eco_cpu_grid_wanted(struct eco_grid *grid)
{
    const char *const text = eco_environment("ECORNN_GRID");
    if (text == NULL || *text == '\0' || eco_cpu_read_grid(text, grid))
        return ECORNN_OK;
    return eco_fail(ECORNN_BAD_ARGUMENT,
                    "ECORNN_GRID is \"%.40s\", must be OPSxROWSxUNITS, 1 to %d threads in all",
                    text, ECO_STEP_THREADS);
}

int eco_cpu_spins(void)
{
    /* about 1 and 4 ms. Threads that do not take part in steps spin as long as these last; if they
     * slept they would be late for what follows, and each would have to be woken. */
    enum { USUAL = 25000, ACTIVE = 100000 };
    const char *policy = eco_environment("OMP_WAIT_POLICY");
    if (policy && strcasecmp(policy, "passive") == 0)
        return 0;
    return policy && strcasecmp(policy, "active") == 0 ? ACTIVE : USUAL;
}
