/*
 * The kernels of a plan of algorithm persistent: from the module, or compiled with the plan.
 */
#include "gpu/persistent/persistent.h"

#include "gpu/jit/jit.h"

#include <string.h>

enum { CLUSTER_VERSION = 90 /* compute capability that clusters need, times ten */ };

/* ---- kernels of the module ------------------------------------------------------------------- */

#define INSTANCE(symbol, kind, backward, cell)                                                     \
    extern const void *const symbol[ECO_PERSISTENT_SHAPES];
#include "gpu/persistent/instances.inc"
#undef INSTANCE

/* Kernels by eco_persistent_index(); NULL where there is none. */
static const struct instance {
    int kind;
    bool backward;
    const char *cell;
    const void *const *by_shape;
} instances[] = {
#define INSTANCE(symbol, kind, backward, cell) {kind, backward, cell, symbol},
#include "gpu/persistent/instances.inc"
#undef INSTANCE
};
enum { INSTANCES = sizeof instances / sizeof *instances };

/* The kernels of a cell that is in the module. */
static const void *const *made_kernels(const struct eco_problem *problem, bool backward)
{
    const struct eco_persistent_kind *kind = eco_persistent_kind(problem, backward);
    const struct instance *instance = instances;
    while (&eco_persistent_kinds[instance->kind] != kind || instance->backward != backward ||
           strcmp(instance->cell, problem->cell->recipe.name) != 0)
        instance++;
    return instance->by_shape;
}

static ecornn_status give_shared_memory(const struct eco_caps *caps, const void *kernel,
                                        bool backward)
{
    return ECO_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)caps->gpu.block_bytes - eco_persistent_static_bytes(backward)));
}

/* Clusters of `blocks` blocks of a kernel that run at once. */
static int32_t count_resident(const struct eco_caps *caps, const void *kernel, int blocks)
{
    cudaLaunchAttribute attributes[3];
    const struct eco_persistent_launch launch = {.blocks = blocks,
                                                 .cluster = blocks,
                                                 .bytes = caps->gpu.block_bytes -
                                                          eco_persistent_static_bytes(true)};
    const cudaLaunchConfig_t config = eco_persistent_config(attributes, &launch);
    int clusters = 0;
    if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess)
        return clusters;
    (void)cudaGetLastError(); /* the query failed: do not use clusters */
    return 0;
}

/* Counts the blocks that run at once in clusters of each size; some multiprocessors are left over.
 * Code for older devices does not use clusters, even when it runs on a newer one. */
static void count_clusters(struct eco_caps *caps, int code_version)
{
    enum { GROUPS = sizeof caps->gpu.groups / sizeof *caps->gpu.groups };
    const bool has = caps->gpu.version >= CLUSTER_VERSION && code_version >= CLUSTER_VERSION;
    const void *const *kernels = eco_persistent_backward_bf16_lstm;
    caps->gpu.blocks[0] = caps->threads;
    for (int cluster_log2 = 1; cluster_log2 < ECO_PERSISTENT_CLUSTERS; cluster_log2++) {
        const struct eco_persistent_shape shape = {.unit_shift = 5, .cluster_log2 = cluster_log2};
        const void *kernel = kernels[eco_persistent_index(&shape)];
        caps->gpu.blocks[cluster_log2] =
            has ? count_resident(caps, kernel, 1 << cluster_log2) << cluster_log2 : 0;
    }
    const void *any = kernels[ECO_PERSISTENT_INDEX(5, 0, ECO_PERSISTENT_MMA)];
    caps->gpu.groups[0] = caps->threads;
    for (int k = 1; k < GROUPS; k++)
        caps->gpu.groups[k] = has ? count_resident(caps, any, k + 1) : 0;
}

ecornn_status eco_persistent_load(struct ecornn_device *device)
{
    int version = 0;
    ecornn_status status = ECORNN_OK;
    if (device->caps.gpu.version >= ECO_PERSISTENT_VERSION)
        status = ECO_CUDA(eco_kernel_version(
            eco_persistent_forward_bf16_lstm[ECO_PERSISTENT_INDEX(4, 0, ECO_PERSISTENT_MMA)],
            &version));
    /* Code for older devices runs here, too, but without the instructions that the kernels need. */
    if (status != ECORNN_OK || version < ECO_PERSISTENT_VERSION) {
        device->caps.gpu.block_bytes = 0;
        return status;
    }
    for (int i = 0; i < INSTANCES; i++)
        for (int n = 0; n < ECO_PERSISTENT_SHAPES && status == ECORNN_OK; n++)
            if (instances[i].by_shape[n] != NULL)
                status = give_shared_memory(&device->caps, instances[i].by_shape[n],
                                            instances[i].backward);
    if (status == ECORNN_OK)
        count_clusters(&device->caps, version);
    return status;
}

/* ---- kernels of a plan ----------------------------------------------------------------------- */

/* Texts of the kernels of a plan, one each, so that they are compiled side by side. Returns their
 * number. */
static int print_kernels(const struct ecornn_plan *plan, bool backward,
                         struct eco_persistent_kernels *kernels, struct eco_own_text *wanted)
{
    const struct eco_problem *problem = &plan->problem;
    const uint64_t shapes = kernels->shapes;
    const uint64_t kept = problem->cell->lowered.has_means
                              ? eco_persistent_kept(problem, &plan->device->caps, backward, shapes)
                              : 0;
    int n = 0;
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++)
        if (shapes >> place & 1) {
            kernels->usual[place] =
                eco_persistent_usual(problem, &plan->device->caps, backward, place);
            const struct eco_persistent_source source = {.problem = problem,
                                                         .kind =
                                                             eco_persistent_kind(problem, backward),
                                                         .backward = backward,
                                                         .place = place,
                                                         .kept = kept >> place & 1,
                                                         .usual = kernels->usual[place]};
            wanted[n] = (struct eco_own_text){.text = eco_persistent_text(&source), .n = 1};
            eco_persistent_kernel_name(place, wanted[n++].name[0]);
        }
    return n;
}

/* Takes kernels that were compiled; false: see kernels->why. */
static bool take_kernels(const struct ecornn_plan *plan, bool backward,
                         const struct eco_own_text *wanted, struct eco_persistent_kernels *kernels)
{
    for (int place = 0, n = 0; place < ECO_PERSISTENT_SHAPES; place++)
        if (kernels->shapes >> place & 1) {
            const struct eco_own_code *code = wanted[n++].code;
            if (code == NULL)
                return false;
            kernels->by_shape[place] = eco_own_kernel(code, 0);
            if (give_shared_memory(&plan->device->caps, kernels->by_shape[place], backward) !=
                ECORNN_OK) {
                cudaGetLastError();
                eco_text_add(&(struct eco_text){kernels->why, sizeof kernels->why, 0},
                             "not enough shared memory");
                return false;
            }
        }
    return true;
}

/* Compiles the kernels of a cell that are not in the module, both directions at once. */
static void compile(const struct ecornn_plan *plan, const bool wants[2])
{
    struct eco_persistent_kernels *kernels = ((struct eco_gpu_plan *)plan->context)->persistent;
    const struct eco_problem *problem = &plan->problem;
    const bool has_stages =
        problem->training && (!wants[1] || problem->saving.policy != ECO_SAVE_ALL);
    struct eco_own_text wanted[ECO_OWN_TEXTS];
    struct eco_text why[2];
    int first[3] = {0};
    for (int backward = 0; backward < 2; backward++) {
        struct eco_own_text *const own = wanted + first[backward];
        why[backward] = (struct eco_text){kernels[backward].why, sizeof kernels[backward].why, 0};
        const int n = wants[backward] ? print_kernels(plan, backward, &kernels[backward], own) : 0;
        for (int i = 0; i < n; i++)
            own[i].why = &why[backward];
        first[backward + 1] = first[backward] + n;
    }
    if (first[2] > 0)
        eco_own_codes_get(plan->device->context, wanted, first[2], has_stages ? problem : NULL);
    for (int backward = 0; backward < 2; backward++)
        if (wants[backward])
            kernels[backward].used =
                take_kernels(plan, backward, wanted + first[backward], &kernels[backward]);
}

/* Most (layer, direction)s of one launch. */
static int32_t most_jobs(const struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    const int32_t lanes = plan->request.wavefront ? problem->L : problem->D;
    return lanes < ECO_PERSISTENT_JOBS ? lanes : ECO_PERSISTENT_JOBS;
}

int32_t eco_persistent_jobs(const struct ecornn_plan *plan, bool backward)
{
    const struct eco_persistent_kernels *kernels =
        &((const struct eco_gpu_plan *)plan->context)->persistent[backward];
    int32_t jobs = most_jobs(plan);
    while (jobs > 1) {
        const struct eco_persistent_choice *chosen =
            eco_persistent_chosen(kernels, jobs, plan->problem.N);
        if (chosen != NULL && chosen->batched)
            break;
        jobs -= jobs / 2;
    }
    return jobs;
}

void eco_persistent_prepare(const struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_caps *caps = &plan->device->caps;
    bool wants[2] = {false};
    for (int backward = 0; backward <= (int)problem->training; backward++) {
        struct eco_persistent_kernels *kernels =
            &((struct eco_gpu_plan *)plan->context)->persistent[backward];
        struct eco_persistent_shape shape;
        if (eco_persistent_refuses(problem, backward) != NULL)
            continue;
        const struct eco_persistent_need need =
            eco_persistent_need(problem, caps, backward, problem->N, 1, 1);
        if (!(eco_persistent_shape(&need, &shape) > 0))
            continue;
        kernels->shapes = need.shapes;
        kernels->used = eco_persistent_is_made(problem, backward);
        wants[backward] = !kernels->used;
        kernels->need = eco_persistent_need_of(plan, backward, problem->N, 1, 1);
        eco_persistent_choose(&kernels->need, most_jobs(plan), kernels->choices);
        if (kernels->used)
            memcpy(kernels->by_shape, made_kernels(problem, backward), sizeof kernels->by_shape);
    }
    compile(plan, wants);
}

/* Prints the division of a launch of `jobs` layers or directions. */
static void describe_launch(const struct ecornn_plan *plan, bool backward, int32_t jobs,
                            struct eco_text *text)
{
    struct eco_persistent_shape shape;
    const struct eco_persistent_need need =
        eco_persistent_need_of(plan, backward, plan->problem.N, plan->problem.T, jobs);
    const double us = eco_persistent_shape(&need, &shape);
    if (jobs > 1)
        eco_text_add(text, "%d jobs in a launch: ", jobs);
    eco_text_add(text,
                 "%d groups of %d blocks in clusters of %d, %d rows and %d units each, %zu KB "
                 "shared, mainloop %s, predicted %.2f us a step\n",
                 shape.groups, shape.members, 1 << shape.cluster_log2, shape.group_rows,
                 1 << shape.unit_shift, shape.shared_bytes >> 10,
                 eco_persistent_mainloops[shape.mainloop], us);
}

static void describe_way(const struct ecornn_plan *plan, bool backward, struct eco_text *text)
{
    const struct eco_persistent_kernels *kernels =
        &((const struct eco_gpu_plan *)plan->context)->persistent[backward];
    eco_text_add(text, "persistent %s: ", backward ? "backward" : "forward");
    if (!kernels->used) {
        eco_text_add(text,
                     kernels->why[0] != '\0' ? "steps as in algorithm step (%s)\n"
                                             : "steps as in algorithm step%s\n",
                     kernels->why);
        return;
    }
    describe_launch(plan, backward, eco_persistent_jobs(plan, backward), text);
}

void eco_persistent_describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    for (int backward = 0; backward <= (int)plan->problem.training; backward++)
        describe_way(plan, backward, text);
}

void eco_persistent_write_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_gpu_plan *own = plan->context;
    const struct eco_problem *problem = &plan->problem;
    for (int backward = 0; backward <= (int)problem->training; backward++) {
        struct eco_persistent_shape shape;
        const struct eco_persistent_need need = eco_persistent_need_of(
            plan, backward, problem->N, problem->T, eco_persistent_jobs(plan, backward));
        const bool used = own->persistent[backward].used && eco_persistent_shape(&need, &shape) > 0;
        if (used || backward) /* else compiling it failed */
            eco_choice_write(eco_gpu_division_key(backward),
                             used ? eco_persistent_index(&shape) : ECO_FORCED_STEP, text);
        /* A plan for a partition of the GPU has fewer groups than one for the whole GPU. The number
         * of groups is printed because it sets the rows of a group, and these set the order of its
         * sums. */
        if (used && plan->device->caps.gpu.partitions > 0 && eco_gpu_groups(problem, backward) == 0)
            eco_choice_write(backward ? ECO_FORCE_GROUPS_BACK : ECO_FORCE_GROUPS, shape.groups,
                             text);
    }
}
