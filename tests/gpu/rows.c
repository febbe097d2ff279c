/*
 * Finds out whether the bits of a row's results depend on the rest of its batch on a GPU. For each
 * algorithm and type it runs the same rows in another order, together with rows of NaN, in smaller
 * batches (by smaller plans, and by smaller runs of one plan), and with T cut in two. It prints a
 * table of how many runs gave different bits, and fails if any of a row-invariant plan did, apart
 * from T cut in two, where states are rounded.
 *
 *     gpu_rows [--row-invariant [TYPE] | PROBLEM]        e.g. lstm/f32/train/T6/N37/I24/H72
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "ecornn.h"
#include "tests/kit/calls.h"

enum { MOST_ROWS = 128, STATES = 2 };

static ecornn_device *device;

/* The arrays of a row, in the problem's type: sequences are [T,width], states [D,width]. */
enum { X, DY, INITIAL, DFINAL = INITIAL + STATES, INPUTS = DFINAL + STATES };
enum { Y, FINAL, DX = FINAL + STATES, DINITIAL, RESULTS = DINITIAL + STATES };

struct batch {
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int states;
    int32_t D;
    size_t element;
    void *weights, *workspace, *reserve, *dweights;
};

static void must(ecornn_status status, const char *what)
{
    if (status == ECORNN_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, ecornn_error_detail());
    exit(99);
}

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static double number(uint64_t *state)
{
    return (double)next(state) * 0x1p-30 - 1;
}

/* ---- a plan with its weights ----------------------------------------------------------------- */

static void *block(size_t bytes)
{
    void *memory = bytes > 0 ? ecornn_alloc(device, bytes) : NULL;
    if (bytes > 0 && memory == NULL)
        must(ECORNN_NO_MEMORY, "a block");
    return memory;
}

static void pack(struct batch *b)
{
    const int n = count_params(b->plan);
    void **param = calloc((size_t)n, sizeof *param);
    uint64_t state = 5;
    for (int k = 0; k < n; k++) {
        ecornn_param p;
        must(param_at(b->plan, k, &p), "a parameter");
        const size_t count = (size_t)p.rows * (size_t)p.cols;
        const ecornn_type type = b->desc.type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
        const size_t bytes = count * eco_type_bytes(type);
        void *host = malloc(bytes);
        for (size_t i = 0; i < count; i++)
            eco_type_set(host, i, type, number(&state) / (p.cols > 1 ? 8 : 1));
        param[k] = block(bytes);
        must(ecornn_upload(device, param[k], host, bytes), "upload");
        free(host);
    }
    must(ecornn_pack(b->plan, (const void *const *)param, NULL, b->weights, NULL), "pack");
    must(ecornn_wait(device, NULL), "wait");
    for (int k = 0; k < n; k++)
        ecornn_free(device, param[k]);
    free(param);
}

/* False: the algorithm refuses. */
static bool batch_open(struct batch *b, const char *problem, int32_t N)
{
    *b = (struct batch){.states = strncmp(problem, "lstm", 4) == 0 ? 2 : 1};
    must(parse_desc(&b->desc, problem, NULL), problem);
    b->desc.batch = N > 0 ? N : b->desc.batch;
    b->element = eco_type_bytes(b->desc.type);
    b->D = (b->desc.flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    if (ecornn_plan_create_desc(&b->plan, device, &b->desc) != ECORNN_OK)
        return false;
    get_sizes(b->plan, &b->sizes);
    b->weights = block(b->sizes.weight_bytes);
    b->workspace = block(b->sizes.workspace_bytes);
    b->reserve = block(b->sizes.reserve_bytes);
    b->dweights = block(b->sizes.dweight_bytes);
    pack(b);
    return true;
}

static void batch_close(struct batch *b)
{
    ecornn_free(device, b->weights);
    ecornn_free(device, b->workspace);
    ecornn_free(device, b->reserve);
    ecornn_free(device, b->dweights);
    ecornn_plan_free(b->plan);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static size_t width(const struct batch *b, int kind)
{
    return (size_t)(kind == X    ? b->desc.input
                    : kind == DY ? b->D * b->desc.hidden
                                 : b->desc.hidden);
}

/* Numbers of row r: always the same. */
static void fill(const struct batch *b, int kind, int32_t r, int32_t t, bool poison, char *to)
{
    uint64_t state = (uint64_t)(1 + kind) * 1000003u + (uint64_t)r * 7919u + (uint64_t)t * 104729u;
    next(&state);
    for (size_t i = 0; i < width(b, kind); i++)
        eco_type_set(to, i, b->desc.type, poison ? (double)NAN : number(&state));
}

/* Which rows run, at what places, over which steps. */
struct run {
    int32_t n, row[MOST_ROWS], t0, t1;
    bool poison[MOST_ROWS];
};

/* Results [RESULTS][T or D][row][width], by the row's number in `struct run`, whatever its place in
 * the batch. Only rows that ran are set. */
struct results {
    char *of[RESULTS];
};

static bool is_sequence(int kind, bool result)
{
    return result ? kind == Y || kind == DX : kind == X || kind == DY;
}

static size_t result_width(const struct batch *b, int kind)
{
    return width(b, kind == DX ? X : kind == Y ? DY : INITIAL);
}

static void *upload(const struct batch *b, int kind, const struct run *run,
                    const struct results *before)
{
    const int32_t steps = is_sequence(kind, false) ? run->t1 - run->t0 : b->D;
    const size_t row = width(b, kind) * b->element, bytes = row * (size_t)(steps * run->n);
    char *host = malloc(bytes);
    void *memory = block(bytes);
    for (int32_t t = 0; t < steps; t++)
        for (int32_t n = 0; n < run->n; n++) {
            char *to = host + row * (size_t)(t * run->n + n);
            if (before != NULL && kind >= INITIAL && kind < DFINAL)
                memcpy(to,
                       before->of[FINAL + kind - INITIAL] +
                           row * (size_t)(t * MOST_ROWS + run->row[n]),
                       row);
            else
                fill(b, kind, run->row[n], is_sequence(kind, false) ? run->t0 + t : t,
                     run->poison[n], to);
        }
    must(ecornn_upload(device, memory, host, bytes), "upload");
    free(host);
    return memory;
}

static void download(const struct batch *b, int kind, const struct run *run, const void *memory,
                     struct results *results)
{
    const bool sequence = is_sequence(kind, true);
    const int32_t steps = sequence ? run->t1 - run->t0 : b->D;
    const size_t row = result_width(b, kind) * b->element, bytes = row * (size_t)(steps * run->n);
    char *host = malloc(bytes);
    must(ecornn_download(device, host, memory, bytes), "download");
    for (int32_t t = 0; t < steps; t++)
        for (int32_t n = 0; n < run->n; n++)
            memcpy(results->of[kind] +
                       row * (size_t)((sequence ? run->t0 + t : t) * MOST_ROWS + run->row[n]),
                   host + row * (size_t)(t * run->n + n), row);
    free(host);
}

static void results_open(const struct batch *b, struct results *results)
{
    for (int kind = 0; kind < RESULTS; kind++)
        results->of[kind] =
            calloc((size_t)(b->desc.steps + b->D) * MOST_ROWS, result_width(b, kind) * b->element);
}

static void results_close(struct results *results)
{
    for (int kind = 0; kind < RESULTS; kind++)
        free(results->of[kind]);
}

/* before: results of the run of the steps before t0, whose final states are this run's initial
 * ones; or NULL. */
static void run_batch(const struct batch *b, const struct run *run, const struct results *before,
                      struct results *results)
{
    void *in[INPUTS] = {NULL}, *out[RESULTS] = {NULL};
    const bool trains = b->sizes.reserve_bytes > 0;
    for (int kind = 0; kind < INPUTS; kind++)
        if ((kind < INITIAL || (kind - INITIAL) % STATES < b->states) &&
            (trains || kind == X || (kind >= INITIAL && kind < DFINAL)))
            in[kind] = upload(b, kind, run, before);
    for (int kind = 0; kind < RESULTS; kind++) {
        const int32_t steps = is_sequence(kind, true) ? run->t1 - run->t0 : b->D;
        if (trains || kind < DX)
            out[kind] = block(result_width(b, kind) * b->element * (size_t)(steps * run->n));
    }
    ecornn_io io = {.size = sizeof io,
                    .x = in[X],
                    .y = out[Y],
                    .weights = b->weights,
                    .workspace = b->workspace,
                    .reserve = b->reserve};
    ecornn_gradient gradient = {
        .size = sizeof gradient, .dy = in[DY], .dx = out[DX], .dweights = b->dweights};
    for (int s = 0; s < b->states; s++) {
        io.initial[s] = in[INITIAL + s];
        io.final[s] = out[FINAL + s];
        gradient.dfinal[s] = in[DFINAL + s];
        gradient.dinitial[s] = out[DINITIAL + s];
    }
    must(ecornn_forward(b->plan, run->t1 - run->t0, run->n, &io), "forward");
    if (trains)
        must(ecornn_backward(b->plan, run->t1 - run->t0, run->n, &io, &gradient), "backward");
    must(ecornn_wait(device, NULL), "wait");
    for (int kind = 0; kind < RESULTS; kind++)
        if (out[kind] != NULL &&
            (kind == Y || kind == DX || (kind - FINAL) % (STATES + 1) < b->states))
            download(b, kind, run, out[kind], results);
    for (int kind = 0; kind < INPUTS; kind++)
        ecornn_free(device, in[kind]);
    for (int kind = 0; kind < RESULTS; kind++)
        ecornn_free(device, out[kind]);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Do two results differ in any bit, from step t0 on, in a row that is not NaN? */
static bool differs(const struct batch *b, const struct run *run, const struct results *a,
                    const struct results *other, bool back, int32_t t0)
{
    bool same = true;
    for (int kind = back ? DX : Y; kind < (back ? RESULTS : DX); kind++) {
        const bool sequence = is_sequence(kind, true);
        const size_t row = result_width(b, kind) * b->element;
        for (int32_t t = sequence ? t0 : 0; t < (sequence ? b->desc.steps : b->D); t++)
            for (int32_t n = 0; n < run->n; n++) {
                const size_t at = row * (size_t)(t * MOST_ROWS + run->row[n]);
                same = same &&
                       (run->poison[n] || memcmp(a->of[kind] + at, other->of[kind] + at, row) == 0);
            }
    }
    return !same;
}

static struct run rows_of(const struct batch *b, int32_t n)
{
    struct run run = {.n = n, .t1 = b->desc.steps};
    for (int32_t r = 0; r < n; r++)
        run.row[r] = r;
    return run;
}

struct counts {
    int of, forward, back;
};

static void count(struct counts *counts, const struct batch *b, const struct run *run,
                  const struct results *expected, const struct results *is)
{
    counts->of++;
    counts->forward += differs(b, run, expected, is, false, 0);
    counts->back += b->sizes.reserve_bytes > 0 && differs(b, run, expected, is, true, 0);
}

/* Runs the rows in another order, and then together with rows of NaN. */
static void try_places(const struct batch *b, const struct results *expected, struct counts *places,
                       struct counts *neighbours)
{
    for (int32_t turn = 1; turn < 8; turn++) {
        struct run run = rows_of(b, b->desc.batch);
        struct results is;
        results_open(b, &is);
        for (int32_t n = 0; n < run.n; n++) {
            run.row[n] = (n + turn * turn) % run.n;
            if (turn % 2 == 0)
                run.row[n] = run.n - 1 - run.row[n];
        }
        run_batch(b, &run, NULL, &is);
        count(places, b, &run, expected, &is);
        run = rows_of(b, b->desc.batch);
        for (int32_t n = 0; n < run.n; n++)
            run.poison[n] = (n * 5 + turn) % (turn + 1) != 0;
        run_batch(b, &run, NULL, &is);
        count(neighbours, b, &run, expected, &is);
        results_close(&is);
    }
}

/* Runs fewer rows, by a smaller plan and by this plan. */
static void try_batches(const char *problem, const struct batch *b, const struct results *expected,
                        struct counts *plans, struct counts *runs)
{
    static const int32_t sizes[] = {1, 2, 3, 5, 8, 9, 16, 17, 24, 32, 33, 48, 64, 65, 96};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] < b->desc.batch; i++) {
        const struct run run = rows_of(b, sizes[i]);
        struct batch small;
        struct results is;
        results_open(b, &is);
        if (batch_open(&small, problem, sizes[i])) {
            run_batch(&small, &run, NULL, &is);
            count(plans, b, &run, expected, &is);
            batch_close(&small);
        }
        run_batch(b, &run, NULL, &is);
        count(runs, b, &run, expected, &is);
        results_close(&is);
    }
}

/* Runs forward in two parts. */
static void try_cuts(const struct batch *b, const struct results *expected, struct counts *cuts)
{
    for (int32_t cut = 1; cut < b->desc.steps && b->D == 1; cut++) {
        struct run run = rows_of(b, b->desc.batch);
        struct results is, first;
        results_open(b, &is);
        results_open(b, &first);
        run.t1 = cut;
        run_batch(b, &run, NULL, &first);
        run.t0 = cut;
        run.t1 = b->desc.steps;
        run_batch(b, &run, &first, &is);
        cuts->of++;
        cuts->forward += differs(b, &run, expected, &is, false, cut);
        results_close(&is);
        results_close(&first);
    }
}

/* Returns the number of runs with other bits, without cuts. */
static int tried;
static int try_problem(const char *problem, const char *force)
{
    struct batch b;
    struct results expected;
    struct counts places = {0}, neighbours = {0}, plans = {0}, runs = {0}, cuts = {0};
    setenv("ECORNN_FORCE", force, 1);
    if (!batch_open(&b, problem, 0))
        return 0;
    const struct run all = rows_of(&b, b.desc.batch);
    results_open(&b, &expected);
    run_batch(&b, &all, NULL, &expected);
    try_places(&b, &expected, &places, &neighbours);
    try_batches(problem, &b, &expected, &plans, &runs);
    try_cuts(&b, &expected, &cuts);
    printf("%-44s %-34s", problem, force);
    const struct counts *const of[] = {&places, &neighbours, &plans, &runs, &cuts};
    int others = 0;
    for (int i = 0; i < 5; i++) {
        printf(" %2d/%-2d of %-2d", of[i]->forward, of[i]->back, of[i]->of);
        others += i < 4 ? of[i]->forward + of[i]->back : 0;
    }
    printf("\n");
    tried++;
    results_close(&expected);
    batch_close(&b);
    return others;
}

int main(int argc, char **argv)
{
    static const char *const types[] = {"f32", "f32/fast", "bf16", "f16", "f64"};
    static const char *const rests[] = {"train/T6/N37/I24/H72",
                                        "train/T6/N100/I64/H256",
                                        "train/T4/N128/I200/H1000",
                                        "train/T20/N35/I31/H45",
                                        "train/bi/T5/N4/I1/H24/save:states",
                                        "train/bi/T40/N20/I17/H61/save:every:2",
                                        "train/T140/N20/I8/H24/save:every:4"};
    /* Each algorithm is forced; then row invariance is asked for, in 16 bits with more chunks and
     * launches, too. */
    static const struct {
        bool apart, narrow;
        const char *force;
    } rounds[] = {{false, false, "algorithm=step"},
                  {false, false, "algorithm=fused"},
                  {false, false, "algorithm=persistent"},
                  {false, false, "algorithm=step,emulated-f32=0,scaled-f16=0,grouped=0"},
                  {false, false, "algorithm=step,emulated-f32=1,stream-k=0,grouped=0"},
                  {false, false, "algorithm=persistent,forward=mma:32x1,backward=mma:32x1"},
                  {true, false, ""},
                  {true, true, "chunk=2,chunk-back=3"},
                  {true, true, "groups=1,groups-back=1"}};
    enum { ROUNDS = sizeof rounds / sizeof *rounds, RESTS_OF_ALL = 4 };
    const bool only_apart = argc > 1 && strcmp(argv[1], "--row-invariant") == 0;
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (ecornn_device_open(&device, "cuda") != ECORNN_OK) {
        printf("skipped: %s\n", ecornn_error_detail());
        return 77;
    }
    printf("%-79s runs with different bits, forward/back: other order; NaN in other rows; "
           "smaller plans; smaller runs; T cut\n",
           "");
    for (int round = 0; round < ROUNDS; round++)
        for (size_t type = 0; type < sizeof types / sizeof *types && (argc < 2 || only_apart);
             type++)
            for (size_t rest = 0; rest < sizeof rests / sizeof *rests; rest++)
                for (int cell = 0; cell < 2; cell++) {
                    const bool apart = rounds[round].apart;
                    const bool rounds_states = strncmp(types[type], "f32", 3) == 0;
                    char problem[128];
                    snprintf(problem, sizeof problem, "%s/%s%s/%s%s", cell ? "gru" : "lstm",
                             types[type], apart ? "/row-invariant" : "", rests[rest],
                             rounds_states && strstr(rests[rest], "every:4") ? "/bf16-save" : "");
                    if ((apart || (!only_apart && rest < RESTS_OF_ALL)) &&
                        (argc < 3 || strcmp(argv[2], types[type]) == 0) &&
                        (!rounds[round].narrow || strstr(types[type], "16") != NULL))
                        failed += try_problem(problem, rounds[round].force) * apart;
                }
    for (int round = 0; round < ROUNDS && argc > 1 && !only_apart; round++)
        if (!rounds[round].narrow)
            try_problem(argv[1], rounds[round].force);
    printf("# %d problems, %d runs of row-invariant plans with other bits\n", tried, failed);
    ecornn_device_close(device);
    return failed > 0;
}
