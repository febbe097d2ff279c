/*
 * Algorithm matrix: cells with a matrix state.  It places its own memory, and its jobs, heads of
 * rows, are shared among threads.
 */
#include "common/backend.h"
#include "common/force.h"
#include "common/mark.h"
#include "cpu/cpu.h"
#include "cpu/matrix/run.h"

/* ---- spans, or step by step ------------------------------------------------------------------ */

static bool by_row(const struct ecornn_cell *cell)
{
    return cell->rule.decay >= 0 && cell->recipe.kind[cell->rule.decay] == ECO_KIND_KEY;
}

/* A second outer product that reads S is no faster at once with the 64 rows of such models. */
static bool has_spans(const struct ecornn_cell *cell)
{
    return cell->rule.other < 0;
}

/* Multiply-adds of a step of a head, as measured: for each number of S, and for each row and
 * column.
 */
static double operations(const struct eco_problem *problem, bool spans)
{
    static const struct {
        double number, more_number, side, more_side; /* more: of a rule that reads S */
    } cost[2][2][2] = {
        {{{3.3, 1.1, 75, 0}, {2, 1, 120, 60}}, {{24, 4, 325, 0}, {6, 4, 600, 300}}},
        {{{3.7, 1.2, 70, 40}, {1.5, 1.3, 220, 115}}, {{28, 4.5, 240, 165}, {11, 3.5, 650, 350}}}};
    const int32_t K = problem->key,
                  V = (int32_t)eco_matrix_padded((size_t)eco_problem_head(problem));
    const double reads = problem->cell->rule.read >= 0;
    const int row = by_row(problem->cell), k = problem->training;
    return (cost[row][k][spans].number + reads * cost[row][k][spans].more_number) * K * V +
           (cost[row][k][spans].side + reads * cost[row][k][spans].more_side) * (K + V);
}

/* Spans change bits with their bounds, so not if those should be independent of other steps. */
static bool takes_spans(const struct eco_problem *problem)
{
    enum { LEAST = ECO_MATRIX_SPAN / 2 };
    const bool all = problem->saving.policy == ECO_SAVE_ALL;
    const int32_t steps =
        all || problem->T < problem->saving.every ? problem->T : problem->saving.every;
    const bool best = !problem->row_invariant && !problem->states && steps >= LEAST &&
                      operations(problem, true) < operations(problem, false);
    return has_spans(problem->cell) && eco_forced(problem, ECO_FORCE_PRODUCTS, best);
}

/* Backward computes a chunk again from what forward kept before it, so both have the same. */
static const char *force_refuses(const struct eco_problem *problem)
{
    const int32_t chunk = eco_forced(problem, ECO_FORCE_CHUNK, ECO_MATRIX_STEPS);
    if (eco_force_unfit(&problem->force, eco_algo_matrix.name) != NULL)
        return "ECORNN_FORCE asks for what is no choice of it";
    if (eco_forced(problem, ECO_FORCE_PRODUCTS, false) &&
        (!has_spans(problem->cell) || problem->row_invariant))
        return "ECORNN_FORCE: products is 1, but a second outer product reads S, or rows are to be "
               "invariant";
    if (chunk > ECO_MATRIX_STEPS)
        return "ECORNN_FORCE: chunk is more than 256";
    return eco_forced(problem, ECO_FORCE_CHUNK_BACK, chunk) != chunk
               ? "ECORNN_FORCE: chunk-back is not chunk"
               : NULL;
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const char *const refusal = problem->cell->rule.refusal;
    (void)caps;
    if (refusal != NULL)
        return refusal;
    return problem->saving.every > ECO_MATRIX_STEPS && problem->memory_limit == 0
               ? "does not support save:every of more than 256 steps"
               : force_refuses(problem);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* S is kept before each chunk: before every K-th step if that is asked for, else before every span,
 * or so that the states of a chunk's steps over a block fill at most half of a second-level cache.
 */
static int32_t chunk_of(const struct eco_problem *problem, const struct eco_caps *caps)
{
    enum { LEAST = 8, MOST = ECO_MATRIX_SPAN };
    const struct eco_saving *saving = &problem->saving;
    const size_t step = (size_t)problem->key * ECO_MATRIX_COLUMNS *
                        eco_type_bytes(eco_type_sum(problem->type)),
                 fit = caps->cpu.cache_bytes / 2 / step;
    const int32_t usual = takes_spans(problem) || fit >= MOST ? MOST
                          : fit < LEAST                       ? LEAST
                                                              : (int32_t)fit,
                  every = saving->policy == ECO_SAVE_ALL ? usual : saving->every,
                  most = every < ECO_MATRIX_STEPS ? every : ECO_MATRIX_STEPS,
                  chunk = eco_forced(problem, ECO_FORCE_CHUNK, most);
    return problem->T < chunk ? problem->T : chunk;
}

/* Appends an array to the scratch. */
static size_t take(struct eco_size *end, size_t rows, size_t row)
{
    const size_t at = end->value;
    struct eco_size numbers = eco_size_mul(eco_size_of(rows), row);
    numbers = eco_size_add(numbers, eco_size_of(ECO_MATRIX_COLUMNS - 1));
    numbers.value -= numbers.value % ECO_MATRIX_COLUMNS;
    *end = eco_size_add(*end, numbers);
    return at;
}

static void place_nodes(struct eco_matrix_room *room, const struct ecornn_cell *cell,
                        struct eco_size *end)
{
    const struct eco_recipe *recipe = &cell->recipe;
    const size_t chunk = (size_t)room->chunk;
    for (int i = 0; i < cell->rule.n_nodes; i++)
        if (cell->rule.phase[i] != ECO_MATRIX_UNUSED)
            room->at[i] = take(end, chunk, eco_matrix_row(room, recipe->kind[i]));
    room->nodes = end->value;
    for (int s = 0; s < recipe->n_states; s++)
        room->carried[s] = take(end, 1, eco_matrix_row(room, recipe->state_kind[s]));
}

/* What the reserve has of a head before a chunk: S by blocks, and the other states. */
static void place_kept(struct eco_matrix_room *room, const struct ecornn_cell *cell,
                       struct eco_size block)
{
    struct eco_size kept = eco_size_of(0);
    for (int s = 1; s < cell->recipe.n_states; s++) {
        const int kind = cell->recipe.state_kind[s];
        room->kept_state[s] =
            take(&kept, 1, kind == ECO_KIND_MATRIX ? block.value : eco_matrix_row(room, kind));
    }
    room->kept = kept.value;
}

static struct eco_size place(struct eco_matrix_room *room, const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    const bool backward = layout->training;
    const size_t keys = (size_t)problem->key, columns = ECO_MATRIX_COLUMNS;
    struct eco_size end = eco_size_of(0);
    *room = (struct eco_matrix_room){.chunk = layout->request.chunk,
                                     .heads = problem->heads,
                                     .keys = problem->key,
                                     .values = eco_problem_head(problem)};
    for (int kind = ECO_KIND_NUMBER; kind <= ECO_KIND_MATRIX; kind++)
        room->width[kind] = eco_problem_kind(problem, kind) / problem->heads;
    room->key_row = eco_matrix_padded(keys);
    room->value_row = eco_matrix_padded((size_t)room->values);
    room->blocks = (int32_t)(room->value_row / columns);
    const size_t chunk = (size_t)room->chunk;
    const bool spans = layout->request.cpu.block_steps > 0;
    const struct eco_size state = eco_size_mul(eco_size_of(room->value_row), keys);
    place_nodes(room, problem->cell, &end);
    place_kept(room, problem->cell, state);
    if (backward) {
        room->gradient = end.value;
        end = eco_size_mul(end, 2);
    }
    room->held = take(&end, 1, room->value_row);
    room->state = take(&end, keys, room->value_row);
    const bool states = backward || problem->states;
    room->states = take(&end, states ? chunk * columns : 0, keys);
    room->spans = spans;
    room->by_row = by_row(problem->cell);
    for (int k = 0; k < ECO_MATRIX_TERMS; k++)
        room->gated[k] = take(&end, spans && room->by_row ? chunk : 0, room->key_row);
    room->u = take(&end, backward || spans ? chunk : 0, columns);
    room->d = take(&end, spans ? chunk : 0, columns);
    for (int k = 0; k < ECO_MATRIX_PAIRS; k++)
        room->pairs[k] = take(&end, spans && (backward || k < DASKED) ? chunk : 0, ECO_MATRIX_SPAN);
    for (int k = 0; k < ECO_MATRIX_GATES; k++)
        room->gates[k] = take(&end, spans ? chunk : 0, 1);
    room->work = take(&end, spans ? 3 * ECO_MATRIX_SPAN : 0, columns);
    room->turned = take(&end, spans ? columns : 0, room->key_row);
    room->other_dstate = take(&end, spans && backward ? keys : 0, room->value_row);
    room->dstate = take(&end, backward ? keys : 0, room->value_row);
    for (int k = 0; k < ECO_MATRIX_TERMS; k++)
        room->term[k] = take(&end, backward ? chunk : 0, room->key_row);
    room->dvalue = take(&end, backward ? chunk : 0, room->value_row);
    room->numbers = end.value;
    end.overflow = end.overflow || state.overflow;
    return end;
}

static size_t bytes_or_most(struct eco_size bytes)
{
    return bytes.overflow ? SIZE_MAX : bytes.value;
}

/* Parts of a job: its blocks of columns, if they are independent, as they may be except backward.
 * What comes after S may be a sum over a value, and each part would write other states. */
static int parts_of(const struct eco_problem *problem)
{
    const struct ecornn_cell *cell = problem->cell;
    bool apart = cell->recipe.n_states == 2;
    for (int i = 0; i < cell->rule.n_nodes; i++)
        apart &= cell->rule.phase[i] != ECO_MATRIX_AFTER || cell->recipe.kind[i] == ECO_KIND_VALUE;
    const size_t row = eco_matrix_padded((size_t)eco_problem_head(problem));
    return apart ? (int)(row / ECO_MATRIX_COLUMNS) : 1;
}

static int threads_of(const struct eco_problem *problem, int threads, int parts)
{
    const int64_t most = (int64_t)problem->N * problem->heads * parts;
    return most < threads ? (int)most : threads;
}

/* Scratch of each thread; the reserve has the states before each chunk. */
static void sizes(struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    const size_t number = eco_type_bytes(layout->sum);
    struct eco_matrix_room room;
    struct eco_size bytes = eco_size_mul(place(&room, layout), number);
    const int threads = threads_of(problem, layout->request.cpu.run_threads, parts_of(problem));
    bytes = eco_size_mul(bytes, (size_t)threads);
    layout->workspace_bytes = bytes_or_most(bytes);
    bytes = eco_size_mul(eco_size_of(room.kept), number);
    bytes = eco_size_mul(bytes, (size_t)eco_ceil_div(layout->T, room.chunk));
    bytes = eco_size_mul(eco_size_mul(bytes, (size_t)layout->N), (size_t)room.heads);
    layout->reserve_bytes =
        layout->training ? bytes_or_most(eco_size_add(bytes, eco_size_of(ECO_MARK_BYTES))) : 0;
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    *request =
        (struct eco_layout_request){.plain = true,
                                    .sizes = sizes,
                                    .cpu.run_threads = caps->threads,
                                    .cpu.block_steps = takes_spans(problem) ? ECO_MATRIX_SPAN : 0,
                                    .chunk = chunk_of(problem, caps),
                                    .chunk_backward = chunk_of(problem, caps)};
}

/* ---- time ------------------------------------------------------------------------------------ */

static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double steps = (double)problem->T * problem->N * problem->heads;
    return steps * operations(problem, takes_spans(problem)) / (caps->flops / 2) /
           threads_of(problem, caps->threads, problem->training ? 1 : parts_of(problem));
}

/* ---- run ------------------------------------------------------------------------------------- */

struct jobs {
    const struct eco_matrix_run *run;
    size_t bytes; /* of a thread's scratch */
    int parts;    /* of a job, at most */
};

static void do_jobs(void *own, int id, int count)
{
    const struct jobs *all = own;
    const int64_t heads = all->run->room.heads, jobs = heads * all->run->args->N,
                  most = count < jobs ? 1 : count / jobs,
                  parts = most < all->parts ? most : all->parts, shares = jobs * parts,
                  end = shares * (id + 1) / count;
    for (int64_t k = shares * id / count; k < end; k++) {
        const int64_t j = k / parts;
        all->run->kernels->job(all->run,
                               (char *)all->run->args->workspace + (size_t)id * all->bytes,
                               (struct eco_matrix_share){(int32_t)(j / heads), (int32_t)(j % heads),
                                                         (int32_t)(k % parts), (int32_t)parts});
    }
}

/* May threads divide a job?  Not backward, and not where steps repeat what others wrote. */
static bool divides(const struct eco_args *args)
{
    return !args->backward && args->lengths == NULL && args->mask == NULL &&
           args->states[0] == NULL && args->states[1] == NULL;
}

static ecornn_status run_matrix(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                const struct eco_layout *layout, const struct eco_args *args)
{
    enum { NUMBERS_OF_A_THREAD = 1 << 15 }; /* with fewer for each, threads are not woken */
    const struct eco_cpu *cpu = plan->device->context;
    const struct eco_problem *problem = &plan->problem;
    const bool f64 = problem->type == ECORNN_F64;
    struct eco_matrix_run run = {.problem = problem,
                                 .rule = &problem->cell->rule,
                                 .args = args,
                                 .kernels = f64 ? &eco_matrix_f64 : cpu->isa->matrix};
    (void)tape;
    place(&run.room, layout);
    struct jobs jobs = {&run, run.room.numbers * eco_type_bytes(layout->sum),
                        divides(args) ? parts_of(problem) : 1};
    const double numbers = (double)args->T * args->N * problem->key * problem->H;
    const int most = layout->request.cpu.run_threads; /* there is scratch for these */
    int threads = cpu->threads < most ? cpu->threads : most;
    threads = threads_of(problem, args->alone ? 1 : threads, jobs.parts);
    if (numbers < (double)threads * NUMBERS_OF_A_THREAD)
        threads = 1 + (int)(numbers / NUMBERS_OF_A_THREAD);
    eco_cpu_run_on_threads(cpu, threads, do_jobs, &jobs);
    return ECORNN_OK;
}

const struct eco_algo eco_algo_matrix = {.name = "matrix",
                                         .refuses = refuses,
                                         .request = request,
                                         .estimate = estimate,
                                         .run = run_matrix,
                                         .cells = ECO_CELLS_OF_MATRICES};
