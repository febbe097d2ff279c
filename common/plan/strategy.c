/*
 * What strategies of training cost, and the fastest that fits a number of bytes.  Bytes come from
 * the layout, times from the algorithm's estimate; nothing else of either is known here.
 *
 * Example, lstm/f32/train/T100/N32/I512/H512 on a CPU thread: save:all takes 57 MB of reserve and
 * workspace and 281 ms, save:every:16 takes 33 MB and 375 ms.  With a limit of 40 MB each policy
 * (all, states, every 4th, 8th ... step) is tried with each algorithm, with chunks halved up to
 * four times until the bytes fit; each halving makes a run slower (`slower`).  The fastest that
 * fits is taken.
 */
#include "common/strategy.h"

#include <inttypes.h>

#include "common/util.h"

/* ---- one strategy ---------------------------------------------------------------------------- */

enum { HALVINGS = 5, ALGOS = 8 /* most algorithms of a device */ };
/* Relative time of a run after 0, 1, 2 ... halvings: LSTM T150 N20 H800 in F32. */
static const double slower[HALVINGS] = {1, 1.02, 1.04, 1.09, 1.2};

static int32_t halve(int32_t count, int32_t all, int halvings, int32_t least)
{
    const int32_t from = count > 0 && count < all ? count : all;
    return from >> halvings > least ? from >> halvings : from < least ? from : least;
}

static void halve_chunks(struct eco_layout_request *request, const struct eco_problem *problem,
                         int halvings)
{
    enum { LEAST_ROWS = 48 }; /* rows that weight gradients copy */
    if (halvings == 0)
        return;
    request->chunk = halve(request->chunk, problem->T, halvings, 1);
    request->chunk_backward = halve(request->chunk_backward, problem->T, halvings, 1);
    if (request->cpu.pack_rows > 0)
        request->cpu.pack_rows =
            halve(request->cpu.pack_rows, request->cpu.pack_rows, halvings, LEAST_ROWS);
}

/* A replay is about as much work as forward, and on a GPU so is converting values twice; a CPU
 * converts in 8 % of a run, which counts as none. */
static double seconds_of(const struct eco_problem *problem, const struct eco_caps *caps,
                         const struct eco_algo *algo)
{
    struct eco_problem forward = *problem;
    forward.training = false;
    const double seconds = algo->estimate(problem, caps);
    const enum eco_save policy = problem->saving.policy;
    return policy == ECO_SAVE_ALL || (policy == ECO_SAVE_NARROW && !caps->own_memory)
               ? seconds
               : seconds + algo->estimate(&forward, caps);
}

static void count_bytes(struct eco_strategy *strategy, const struct ecornn_plan *plan)
{
    struct eco_problem with = plan->problem;
    const struct eco_problem *problem = &with;
    with.saving = strategy->saving;
    const bool replays = problem->saving.policy != ECO_SAVE_ALL;
    for (int i = 0; i < ECO_LAYOUTS && (i < ECO_LAYOUT_BACK || replays); i++) {
        struct eco_layout layout;
        eco_layout_build(&layout, problem, &strategy->request, problem->T, problem->N,
                         problem->training ? i : ECO_LAYOUT_INFER);
        strategy->workspace = eco_larger(strategy->workspace, layout.workspace_bytes);
        strategy->reserve = eco_larger(strategy->reserve, layout.reserve_bytes);
    }
}

static struct eco_caps caps_on(const struct ecornn_plan *plan, int threads)
{
    struct eco_caps caps = plan->device->caps;
    caps.threads = threads;
    return caps;
}

/* What the algorithm requests with this number of CPU threads; a GPU uses all it has. */
static struct eco_strategy requested_strategy(const struct ecornn_plan *plan,
                                              const struct eco_algo *algo, struct eco_saving saving,
                                              int threads)
{
    const struct eco_caps caps = caps_on(plan, threads);
    struct eco_problem problem = plan->problem;
    struct eco_strategy strategy = {.algo = algo, .saving = saving};
    problem.saving = saving;
    algo->request(&problem, &caps, &strategy.request);
    strategy.request.gathers =
        problem.streams && !caps.streams && !strategy.request.plain; /* plain: it reads rows */
    strategy.seconds = seconds_of(&problem, &caps, algo);
    return strategy;
}

/* The same with halved chunks, rounded as the policy requires. */
static struct eco_strategy halved(const struct ecornn_plan *plan, const struct eco_strategy *whole,
                                  int halvings, int threads)
{
    const struct eco_caps caps = caps_on(plan, threads);
    struct eco_problem problem = plan->problem;
    struct eco_strategy strategy = *whole;
    struct eco_layout_request *request = &strategy.request;
    problem.saving = strategy.saving;
    strategy.halvings = halvings;
    strategy.seconds *= slower[halvings];
    halve_chunks(request, &problem, halvings);
    request->chunk_backward = eco_saving_chunk(
        &problem, request->chunk_backward > 0 ? request->chunk_backward : problem.T);
    if (strategy.algo->fit != NULL && (request->chunk != whole->request.chunk ||
                                       request->chunk_backward != whole->request.chunk_backward))
        strategy.algo->fit(&problem, &caps, request);
    return strategy;
}

struct eco_strategy eco_strategy_of(const struct ecornn_plan *plan, const struct eco_algo *algo,
                                    struct eco_saving saving)
{
    const int threads = plan->device->caps.threads;
    const struct eco_strategy strategy = requested_strategy(plan, algo, saving, threads);
    return halved(plan, &strategy, 0, threads);
}

static size_t bytes_of(const struct eco_strategy *strategy)
{
    const struct eco_size both =
        eco_size_add(eco_size_of(strategy->reserve), eco_size_of(strategy->workspace));
    return both.overflow ? SIZE_MAX : both.value;
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Policy number k: all, states, every 4th, 8th ... step; false: no more. */
static bool policy_of(const struct ecornn_plan *plan, int k, struct eco_saving *saving)
{
    const struct eco_problem *problem = &plan->problem;
    *saving = problem->saving;
    if (saving->policy == ECO_SAVE_STATES || saving->policy == ECO_SAVE_EVERY || saving->fixed ||
        k == 0)
        return k == 0;
    if (!problem->training)
        return false;
    saving->policy = k == 1 ? ECO_SAVE_STATES : ECO_SAVE_EVERY;
    saving->every = k == 1 ? 1 : k < 26 ? 1 << k : INT32_MAX;
    return saving->every <= problem->T;
}

/* Is it faster, or as fast with less memory?  A strategy without algorithm counts as none. */
static bool is_better(const struct eco_strategy *strategy, const struct eco_strategy *other)
{
    if (other->algo == NULL || strategy->seconds != other->seconds)
        return other->algo == NULL || strategy->seconds < other->seconds;
    return bytes_of(strategy) < bytes_of(other);
}

/* Chunks decide where sums are cut, and so last bits of gradients, which must not depend on the
 * number of CPU threads.  Since scratch of threads is part of the limit, the strategy is chosen for
 * one thread, and threads are added as long as they fit. */
static int threads_to_choose_for(const struct ecornn_plan *plan)
{
    const bool on_threads = plan->device->backend->share == NULL;
    return on_threads ? 1 : plan->device->caps.threads;
}

static void add_threads(struct eco_strategy *strategy, const struct ecornn_plan *plan)
{
    for (int threads = plan->device->caps.threads; threads > 1; threads -= (threads + 7) / 8) {
        const struct eco_strategy whole =
            requested_strategy(plan, strategy->algo, strategy->saving, threads);
        struct eco_strategy more = halved(plan, &whole, strategy->halvings, threads);
        more.request.chunk = strategy->request.chunk; /* a longer one would leave threads no room */
        count_bytes(&more, plan);
        if (bytes_of(&more) <= plan->problem.memory_limit) {
            *strategy = more;
            return;
        }
    }
}

/* The best so far that fits, and the smallest. */
struct found {
    struct eco_strategy *best, least;
};

static void try_strategy(struct found *found, const struct ecornn_plan *plan,
                         const struct eco_algo *algo, struct eco_saving saving)
{
    const int threads = threads_to_choose_for(plan);
    const struct eco_strategy whole = requested_strategy(plan, algo, saving, threads);
    for (int halvings = 0; halvings < HALVINGS; halvings++) {
        if (found->best->algo != NULL && slower[halvings] * whole.seconds > found->best->seconds)
            return; /* a strategy that fits is faster */
        struct eco_strategy now = halved(plan, &whole, halvings, threads);
        count_bytes(&now, plan);
        if (found->least.algo == NULL || bytes_of(&now) < bytes_of(&found->least))
            found->least = now;
        if (bytes_of(&now) <= plan->problem.memory_limit && is_better(&now, found->best))
            *found->best = now;
    }
}

ecornn_status eco_strategy_choose(struct eco_strategy *strategy, const struct ecornn_plan *plan,
                                  bool (*can)(const struct ecornn_plan *plan,
                                              const struct eco_algo *algo))
{
    const struct eco_algo *const *algos = plan->device->backend->algos;
    struct found found = {.best = strategy, .least = {.algo = NULL}};
    struct eco_saving saving;
    bool able[ALGOS] = {false};
    strategy->algo = NULL;
    for (int i = 0; algos[i] != NULL; i++)
        able[i] = can(plan, algos[i]);
    for (int k = 0; policy_of(plan, k, &saving); k++)
        for (int i = 0; algos[i] != NULL; i++)
            if (able[i])
                try_strategy(&found, plan, algos[i], saving);
    if (strategy->algo != NULL) {
        add_threads(strategy, plan);
        return ECORNN_OK;
    }
    return eco_fail(ECORNN_BAD_ARGUMENT,
                    "memory_limit is %" PRIu64 ", must be at least %zu for %s: reserve %zu, "
                    "workspace %zu",
                    plan->problem.memory_limit, bytes_of(&found.least), plan->problem.text,
                    found.least.reserve, found.least.workspace);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void describe_strategy(struct eco_text *text, const struct eco_strategy *strategy,
                              bool chosen)
{
    char policy[32];
    struct eco_text saved = {policy, sizeof policy, 0};
    eco_saving_name(&saved, strategy->saving.policy, strategy->saving.every);
    eco_text_add(text, "  save:%-12s %12zu %12zu %10.4g ms%s\n", policy, strategy->reserve,
                 strategy->workspace, 1e3 * strategy->seconds, chosen ? "  chosen" : "");
}

static bool same_saving(struct eco_saving a, struct eco_saving b)
{
    return a.policy == b.policy && a.every == b.every;
}

void eco_strategies_describe(struct eco_text *text, const struct ecornn_plan *plan)
{
    static const int32_t every[] = {0, 1, 4, 16, 64, 256, 1024};
    const struct eco_problem *problem = &plan->problem;
    if (!problem->training || plan->request.plain)
        return;
    eco_text_add(text, "what training saves: reserve, workspace, predicted time\n");
    for (size_t k = 0; k < sizeof every / sizeof *every && every[k] <= problem->T; k++) {
        const bool narrow = k == 0 && problem->saving.type != problem->type;
        const struct eco_saving saving = {.policy = narrow  ? ECO_SAVE_NARROW
                                                    : k < 2 ? (enum eco_save)k
                                                            : ECO_SAVE_EVERY,
                                          .every = narrow ? 1 : every[k],
                                          .type = problem->saving.type};
        struct eco_strategy strategy = eco_strategy_of(plan, plan->algo, saving);
        if (same_saving(saving, problem->saving))
            continue;
        count_bytes(&strategy, plan);
        describe_strategy(text, &strategy, false);
    }
    const struct eco_strategy chosen = {.saving = problem->saving,
                                        .reserve = plan->sizes.reserve_bytes,
                                        .workspace = plan->sizes.workspace_bytes,
                                        .seconds = plan->seconds};
    describe_strategy(text, &chosen, true);
}
