/*
 * The CPU backend: opening a device, memory, and the list of algorithms.
 */
#include "cpu/algo/force.h"
#include "cpu/cpu.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>
#include <string.h>

#include "common/host.h"
#include "common/os.h"
#include "common/util.h"
#include "cpu/run/cpuid.h"
#include "cpu/isa/isa.h"
#include "cpu/matrix/run.h"
#include "cpu/run/quota.h"

/* Flops of one thread in a second at 3 GHz: two fused multiply-adds of a whole vector in a cycle;
 * without fused multiply-add three products or sums every two cycles. */
static double peak_flops(const struct eco_isa *isa)
{
    static const struct {
        const char *name;
        double flops;
    } rate[] = {{"amx", 192e9},    {"avx512bf16", 192e9}, {"avx512vnni", 192e9},
                {"avx512", 192e9}, {"avxvnni", 96e9},     {"avx2", 96e9},
                {"neondot", 48e9}, {"neon", 48e9},        {"sse2", 36e9}};
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        if (strcmp(isa->name, rate[i].name) == 0)
            return rate[i].flops;
    return 24e9;
}

/* Cores for which OpenBLAS multiplies small matrices without packing (since 0.3.16). */
static bool multiplies_small(void)
{
#ifdef OPENBLAS_VERSION
    static const char *const core[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    for (size_t i = 0; i < sizeof core / sizeof *core; i++)
        if (strcmp(openblas_get_corename(), core[i]) == 0)
            return true;
#endif
    return false;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Threads of a device without a number: the least of the CPUs, what the system lets the process
 * use, and what OpenMP was told (OMP_NUM_THREADS, omp_set_num_threads, OMP_THREAD_LIMIT). */
static int usual_threads(const struct eco_cpu *cpu)
{
    const int said = least(omp_get_max_threads(), omp_get_thread_limit());
    const int most = least(least(cpu->cpus, eco_cpu_quota("")), said);
    return most > 1 ? least(most, ECO_TEAM_MOST) : 1;
}

static void fill_info(struct ecornn_device *device, const struct eco_cpu *cpu)
{
    struct eco_text variant = {device->info.variant, sizeof device->info.variant, 0};
    eco_text_add(&variant, "%s", cpu->isa->name);
    eco_cpu_name(device->info.name, sizeof device->info.name);
    device->info.threads = cpu->threads;
    device->info.memory_bytes = eco_os_memory_bytes();
    device->caps = (struct eco_caps){.threads = cpu->threads,
                                     .flops = peak_flops(cpu->isa),
                                     .bytes_per_s = 20e9,
                                     .int8 = true,
                                     .streams = true,
                                     .cpu.lanes = cpu->isa->tile->lanes,
                                     .cpu.vectors = cpu->isa->tile->vectors,
                                     .cpu.sums = cpu->isa->tile->sums,
                                     .cpu.tiles = cpu->isa->amx != NULL,
                                     .cpu.first_bytes = eco_cpu_first_bytes(),
                                     .cpu.cache_bytes = eco_cpu_cache_bytes()};
}

static ecornn_status open(struct ecornn_device *device, int argument)
{
    struct own {
        struct eco_cpu cpu;
        struct eco_busy busy;
    } *own = eco_alloc_zeroed(sizeof *own);
    if (own == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for a device of %zu bytes", sizeof *own);
    struct eco_cpu *cpu = &own->cpu;
    cpu->isa = eco_isa_choose();
    cpu->cpus = eco_cpu_affinity();
    cpu->threads = argument > 0 ? argument : usual_threads(cpu);
    cpu->spins = eco_cpu_spins();
    cpu->busy = cpu->threads <= cpu->cpus && eco_os_thread_now() >= 0 ? &own->busy : NULL;
    const ecornn_status status =
        cpu->isa == NULL ? ECORNN_BAD_ARGUMENT : eco_cpu_grid_wanted(&cpu->grid);
    if (status != ECORNN_OK) {
        eco_free(cpu);
        return status;
    }
    cpu->small_products = multiplies_small();
    cpu->blas_threads = eco_cpu_blas_has_threads();
    device->context = cpu;
    fill_info(device, cpu);
    return ECORNN_OK;
}

static int threads(const struct ecornn_device *device)
{
    return eco_cpu_forked() ? 1 : device->info.threads;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static ecornn_status prepare(struct ecornn_plan *plan)
{
    const struct eco_cpu *cpu = plan->device->context;
    const bool tiles = plan->problem.int8 || plan->problem.weight_type == ECORNN_BF16;
    struct eco_cpu_plan *own = eco_alloc_zeroed(sizeof *own);
    if (own == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for a plan of %zu bytes", sizeof *own);
    own->isa = tiles ? eco_isa_with_tiles(cpu->isa) : cpu->isa;
    own->grid = cpu->grid;
    const int32_t grid = eco_forced(&plan->problem, ECO_FORCE_GRID, 0);
    if (grid != 0)
        own->grid = eco_cpu_unpack_grid(grid);
    plan->context = own;
    if (!plan->request.plain)
        eco_cpu_choose_teams(plan, own);
    return ECORNN_OK;
}

static void release(struct ecornn_plan *plan)
{
    eco_free(plan->context);
}

static void describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_cpu *cpu = plan->device->context;
    const struct eco_cpu_plan *own = plan->context;
    if (own->isa != cpu->isa)
        eco_text_add(text,
                     "instruction set: %s, because the system does not grant the registers of %s\n",
                     own->isa->name, cpu->isa->name);
    for (int backward = 0; backward <= (int)plan->problem.training; backward++) {
        const struct eco_cpu_team *team = &own->team[backward][false][0][0];
        if (team->threads > 1)
            eco_text_add(text, "%s: %d threads, steps %dx%dx%d\n",
                         backward ? "team of backward" : "team of forward", team->threads,
                         team->grid.ops, team->grid.rows, team->grid.units);
    }
}

/* ---- the backend ----------------------------------------------------------------------------- */

/* Caches, and other properties that a processor's name does not imply. */
static void identity(const struct ecornn_device *device, struct eco_text *words)
{
    const struct eco_cpu *cpu = device->context;
    eco_text_add(words, " cpus=%d l2=%zu l3=%zu small-products=%d", cpu->cpus,
                 device->caps.cpu.cache_bytes, eco_os_cache_bytes(3), cpu->small_products);
}

static void about(struct eco_text *text)
{
    const struct eco_isa *isa;
    eco_text_add(text, "instruction sets:");
    for (int k = 0; (isa = eco_isa_supported(k)) != NULL; k++)
        eco_text_add(text, " %s", isa->name);
    eco_text_add(text, "\nOpenMP: %d\n", _OPENMP);
#ifdef OPENBLAS_VERSION
    eco_text_add(text, "CBLAS: %s\n", openblas_get_config());
#endif
}

static const char *const variables[] = {"ECORNN_GRID", NULL};

static const struct eco_algo *const algos[] = {&eco_algo_packed, &eco_algo_blas, &eco_algo_scan,
                                               &eco_algo_matrix, NULL};

const struct eco_backend eco_backend_cpu = {
    .name = "cpu",
    .mode = ECO_FP_FLUSH,
    .count = eco_host_count,
    .open = open,
    .close = eco_host_close,
    .alloc = eco_host_alloc,
    .free = eco_host_free,
    .copy = eco_host_copy,
    .queue = eco_cpu_queue,
    .fork = eco_cpu_fork,
    .wait = eco_host_wait,
    .same = eco_cpu_same,
    .prepare = prepare,
    .release = release,
    .describe = describe,
    .choices = eco_cpu_choices,
    .read_choice = eco_cpu_read_choice,
    .variables = variables,
    .identity = identity,
    .about = about,
    .threads = threads,
    .algos = algos,
    .attention = &eco_cpu_attention,
};
