/*
 * What this processor is and can do, and how much of it the process may use.  The only place that
 * asks the processor, the system or the environment; called when a device is opened.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/util.h"
#include "cpu/cpuid.h"
#include "cpu/isa.h"

/* ---- instruction sets ----------------------------------------------------------------------- */

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* The registers that the system saves: XCR0. */
static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* How many of the sets avx2 and avx512 can run here, in this order: 0, 1 or 2. */
static int vector_sets(void)
{
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28 };                            /* 1.ecx */
    enum { AVX2 = 1 << 5, AVX512 = 1 << 16 | 1 << 17 | 1 << 30, AVX512_VL = INT32_MIN }; /* 7.ebx */
    enum { YMM = 0x6, ZMM = 0xe6 };                                                      /* XCR0 */
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (FMA | OSXSAVE | AVX)) != (FMA | OSXSAVE | AVX))
        return 0;
    const unsigned saved = saved_registers();
    if ((saved & YMM) != YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & AVX2))
        return 0;
    const unsigned all = (unsigned)AVX512 | (unsigned)AVX512_VL;
    return (saved & ZMM) == ZMM && (b & all) == all ? 2 : 1;
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
static int vector_sets(void)
{
    return 0;
}

static void model_name(char name[49])
{
    name[0] = 0;
}
#endif

static const struct eco_isa isa_plain = {"plain", &eco_kernels_plain, &eco_kernels_f64,
                                         &eco_tile_plain};
#if ECO_HAVE_AVX2
static const struct eco_isa isa_avx2 = {"avx2", &eco_kernels_avx2, &eco_kernels_f64,
                                        &eco_tile_avx2};
#endif
#if ECO_HAVE_AVX512
static const struct eco_isa isa_avx512 = {"avx512", &eco_kernels_avx512, &eco_kernels_f64,
                                          &eco_tile_avx512};
#endif

/* Every set that was built, best first; needs: the least vector_sets(). */
static const struct {
    const struct eco_isa *isa;
    int needs;
} built[] = {
#if ECO_HAVE_AVX512
    {&isa_avx512, 2},
#endif
#if ECO_HAVE_AVX2
    {&isa_avx2, 1},
#endif
    {&isa_plain, 0},
};
enum { BUILT = sizeof built / sizeof built[0] };

const struct eco_isa *eco_isa_supported(int index)
{
    const int sets = vector_sets();
    for (int k = 0; k < BUILT; k++)
        if (built[k].needs <= sets && index-- == 0)
            return built[k].isa;
    return NULL;
}

const struct eco_isa *eco_isa_choose(void)
{
    static const char *const names[] = {"avx512", "avx2", "plain"}; /* also those not built */
    const char *cap = eco_environment("ECORNN_ISA");
    int needs = 2;
    for (int k = 0; cap && k < 3; k++)
        if (strcmp(cap, names[k]) == 0)
            needs = 2 - k;
    const int sets = vector_sets();
    for (int k = 0; k < BUILT; k++)
        if (built[k].needs <= needs && built[k].needs <= sets)
            return built[k].isa;
    return &isa_plain;
}

/* ---- the machine ---------------------------------------------------------------------------- */

void eco_cpu_name(char *name, size_t size)
{
    char model[49];
    struct utsname system;
    model_name(model);
    const char *from = model;
    while (isspace((unsigned char)*from))
        from++;
    if (*from == 0 && uname(&system) == 0)
        from = system.machine;
    snprintf(name, size, "%s", *from ? from : "CPU");
    for (size_t n = strlen(name); n > 0 && isspace((unsigned char)name[n - 1]); n--)
        name[n - 1] = 0;
}

size_t eco_cpu_cache_bytes(void)
{
    long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (size_t)bytes : (size_t)1 << 20;
}

static int affinity_count(void)
{
    cpu_set_t set[8]; /* 8192 CPUs, as many as Linux can have */
    if (sched_getaffinity(0, sizeof set, set) == 0)
        return CPU_COUNT_S(sizeof set, set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* Two numbers from a file of the control group: false if it is missing or says "max". */
static bool read_numbers(const char *path, double *first, double *second)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const int n = fscanf(file, "%lf %lf", first, second);
    fclose(file);
    return n >= 1 && *first > 0;
}

/* CPUs that the control groups (version 2, then 1) grant, whole ones; INT32_MAX: no limit. */
static int quota_count(void)
{
    enum { PATH = 512 };
    char group[PATH] = "/", line[PATH], path[PATH + 64];
    double quota, period = 0, cpus = INT32_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "0::", 3) == 0)
            snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (file)
        fclose(file);
    for (;;) { /* a group has no more than any group around it */
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        if (read_numbers(path, &quota, &period) && period > 0 && quota / period < cpus)
            cpus = quota / period;
        char *slash = strrchr(group, '/');
        if (!slash || group[0] == 0)
            break;
        *slash = 0;
    }
    double unused;
    if (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota, &unused) &&
        read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period, &unused) &&
        quota / period < cpus)
        cpus = quota / period;
    return cpus < 1 ? 1 : (int)cpus;
}

int eco_cpu_count(void)
{
    const int mask = affinity_count(), quota = quota_count();
    return mask < quota ? mask : quota;
}
