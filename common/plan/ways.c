/*
 * What ways of training cost, and the fastest that fits a number of bytes.  Sizes are the layout's,
 * times the algorithm's estimate; knows nothing else of either.
 */
#include "common/ways.h"

#include <inttypes.h>

#include "common/util.h"

/* ---- one way --------------------------------------------------------------------------------- */

enum { HALVINGS = 5 };
/* How much longer a run takes with chunks halved so often: LSTM T150 N20 H800 in F32. */
static const double slower[HALVINGS] = {1, 1.02, 1.04, 1.09, 1.2};

static int32_t halve(int32_t count, int32_t all, int halvings, int32_t least)
{
    const int32_t from = count > 0 && count < all ? count : all;
    return from >> halvings > least ? from >> halvings : from < least ? from : least;
}

static void halve_chunks(struct eco_wishes *wishes, const struct eco_problem *problem, int halvings)
{
    enum { LEAST_ROWS = 48 }; /* that gradients of weights copy */
    if (halvings == 0)
        return;
    wishes->chunk = halve(wishes->chunk, problem->T, halvings, 1);
    wishes->chunk_backward = halve(wishes->chunk_backward, problem->T, halvings, 1);
    if (wishes->cpu.pack_rows > 0)
        wishes->cpu.pack_rows =
            halve(wishes->cpu.pack_rows, wishes->cpu.pack_rows, halvings, LEAST_ROWS);
}

/* A replay is about as much work as forward. */
static double seconds_of(const struct eco_problem *problem, const struct eco_caps *caps,
                         const struct eco_algo *algo)
{
    struct eco_problem forward = *problem;
    forward.training = false;
    const double seconds = algo->estimate(problem, caps);
    return problem->saving.policy == ECORNN_SAVE_ALL ? seconds
                                                     : seconds + algo->estimate(&forward, caps);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void count_bytes(struct eco_way *way, const struct ecornn_plan *plan)
{
    struct eco_problem with = plan->problem;
    const struct eco_problem *problem = &with;
    with.saving = way->saving;
    const bool replays = problem->saving.policy != ECORNN_SAVE_ALL;
    for (int i = 0; i < ECO_LAYOUTS && (i < ECO_LAYOUT_BACK || replays); i++) {
        struct eco_layout layout;
        eco_layout_build(&layout, problem, &way->wishes, problem->T, problem->N,
                         problem->training ? i : ECO_LAYOUT_INFER);
        way->workspace = larger(way->workspace, layout.workspace_bytes);
        way->reserve = larger(way->reserve, layout.reserve_bytes);
    }
}

/* On so many threads of a CPU; a GPU has all it has. */
static struct eco_way way_on(const struct ecornn_plan *plan, const struct eco_way *wanted,
                             int threads)
{
    struct eco_caps caps = plan->device->caps;
    struct eco_problem problem = plan->problem;
    struct eco_way way = {
        .algo = wanted->algo, .saving = wanted->saving, .halvings = wanted->halvings};
    caps.threads = threads;
    problem.saving = way.saving;
    way.algo->wishes(&problem, &caps, &way.wishes);
    const int32_t wished[] = {way.wishes.chunk, way.wishes.chunk_backward};
    halve_chunks(&way.wishes, &problem, way.halvings);
    way.wishes.chunk_backward = eco_saving_chunk(
        &problem, way.wishes.chunk_backward > 0 ? way.wishes.chunk_backward : problem.T);
    if (way.algo->fit != NULL &&
        (way.wishes.chunk != wished[0] || way.wishes.chunk_backward != wished[1]))
        way.algo->fit(&problem, &caps, &way.wishes);
    way.seconds = slower[way.halvings] * seconds_of(&problem, &caps, way.algo);
    return way;
}

struct eco_way eco_way_of(const struct ecornn_plan *plan, const struct eco_algo *algo,
                          struct eco_saving saving)
{
    const struct eco_way wanted = {.algo = algo, .saving = saving};
    return way_on(plan, &wanted, plan->device->caps.threads);
}

static size_t bytes_of(const struct eco_way *way)
{
    const struct eco_size both =
        eco_size_add(eco_size_of(way->reserve), eco_size_of(way->workspace));
    return both.overflow ? SIZE_MAX : both.value;
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Policy number k: all, states, every 4th, 8th ... step; false: no more. */
static bool policy_of(const struct ecornn_plan *plan, int k, struct eco_saving *saving)
{
    const struct eco_problem *problem = &plan->problem;
    *saving = problem->saving;
    if (saving->policy != ECORNN_SAVE_ALL || k == 0)
        return k == 0;
    if (!problem->training)
        return false;
    saving->policy = k == 1 ? ECORNN_SAVE_STATES : ECORNN_SAVE_EVERY;
    saving->every = k == 1 ? 1 : k < 26 ? 1 << k : INT32_MAX;
    return saving->every <= problem->T;
}

/* Faster, or as fast in less memory; an other one without algorithm is none. */
static bool is_better(const struct eco_way *way, const struct eco_way *other)
{
    if (other->algo == NULL || way->seconds != other->seconds)
        return other->algo == NULL || way->seconds < other->seconds;
    return bytes_of(way) < bytes_of(other);
}

/* Chunks decide where sums are cut, so last bits of gradients.  They must not depend on how many
 * threads a CPU has, whose scratch takes part of the limit: the way is one thread's, and other
 * threads join as far as there is room. */
static int threads_to_choose_for(const struct ecornn_plan *plan)
{
    const bool on_threads = plan->device->backend->share == NULL;
    return on_threads ? 1 : plan->device->caps.threads;
}

static void add_threads(struct eco_way *way, const struct ecornn_plan *plan)
{
    for (int threads = plan->device->caps.threads; threads > 1; threads -= (threads + 7) / 8) {
        struct eco_way more = way_on(plan, way, threads);
        count_bytes(&more, plan);
        if (bytes_of(&more) <= plan->problem.memory_limit) {
            *way = more;
            return;
        }
    }
}

ecornn_status eco_way_choose(struct eco_way *way, const struct ecornn_plan *plan,
                             bool (*can)(const struct ecornn_plan *plan,
                                         const struct eco_algo *algo))
{
    const struct eco_algo *const *algos = plan->device->backend->algos;
    const int threads = threads_to_choose_for(plan);
    struct eco_way least = {.algo = NULL};
    struct eco_saving saving;
    way->algo = NULL;
    for (int k = 0; policy_of(plan, k, &saving); k++)
        for (int i = 0; algos[i] != NULL; i++)
            for (int halvings = 0; can(plan, algos[i]) && halvings < HALVINGS; halvings++) {
                struct eco_way now = {.algo = algos[i], .saving = saving, .halvings = halvings};
                now = way_on(plan, &now, threads);
                count_bytes(&now, plan);
                if (least.algo == NULL || bytes_of(&now) < bytes_of(&least))
                    least = now;
                if (bytes_of(&now) <= plan->problem.memory_limit && is_better(&now, way))
                    *way = now;
            }
    if (way->algo != NULL) {
        add_threads(way, plan);
        return ECORNN_OK;
    }
    return eco_fail(ECORNN_BAD_ARGUMENT,
                    "memory_limit is %" PRIu64 ", must be at least %zu for %s: reserve %zu, "
                    "workspace %zu",
                    plan->problem.memory_limit, bytes_of(&least), plan->problem.text, least.reserve,
                    least.workspace);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void describe_way(struct eco_text *text, const struct eco_way *way, bool chosen)
{
    char policy[32];
    struct eco_text saved = {policy, sizeof policy, 0};
    eco_saving_name(&saved, way->saving.policy, way->saving.every);
    eco_text_add(text, "  save:%-12s %12zu %12zu %10.4g ms%s\n", policy, way->reserve,
                 way->workspace, 1e3 * way->seconds, chosen ? "  chosen" : "");
}

static bool same_saving(struct eco_saving a, struct eco_saving b)
{
    return a.policy == b.policy && a.every == b.every;
}

void eco_ways_describe(struct eco_text *text, const struct ecornn_plan *plan)
{
    static const int32_t every[] = {0, 1, 4, 16, 64, 256, 1024};
    const struct eco_problem *problem = &plan->problem;
    if (!problem->training || plan->wishes.plain)
        return;
    eco_text_add(text, "what training saves: reserve, workspace, predicted time\n");
    for (size_t k = 0; k < sizeof every / sizeof *every && every[k] <= problem->T; k++) {
        const struct eco_saving saving = {.policy = k < 2 ? (ecornn_save)k : ECORNN_SAVE_EVERY,
                                          .every = every[k],
                                          .type = problem->saving.type};
        struct eco_way way = eco_way_of(plan, plan->algo, saving);
        if (same_saving(saving, problem->saving))
            continue;
        count_bytes(&way, plan);
        describe_way(text, &way, false);
    }
    const struct eco_way chosen = {.saving = problem->saving,
                                   .reserve = plan->sizes.reserve,
                                   .workspace = plan->sizes.workspace,
                                   .seconds = plan->seconds};
    describe_way(text, &chosen, true);
}
