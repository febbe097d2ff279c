/*
 * Streams, io.rows: in each tick some of them run, with states that stay in the caller's arrays.
 * Every stream has the bits of a run of its own, on a GPU or where bits depend on N those of a run
 * of the same rows without streams, and others are not touched.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/problem.h"
#include "common/type.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

enum { STREAMS = 41, TICKS = 7, MOST_T = 3 };
static const char *const device[] = {"cpu:1", "cpu:3", "reference", "cuda"};
static const char *const problem[] = {
    "lstm/infer/streams/T1/N41/I5/H19",
    "lstm/infer/L2/bi/streams/T3/N41/I5/H19/P7/batch-major",
    "lstm/int8/infer/streams/T1/N41/I5/H40",
    "gru/bf16/row-invariant/infer/L2/streams/T2/N41/I8/H33",
    "lstm/f32/bf16-weights/row-invariant/infer/rev/streams/T2/N41/I5/H131",
    "lstm/f32/bf16-weights/infer/streams/T2/N41/I5/H131",
    "min-gru/infer/streams/T3/N41/I5/H9",
    "lstm/infer/L2/streams/T2/N41/I64/H64",
    "gru/f32/int8-weights/infer/streams/T2/N41/I64/H33",
    "lstm/infer/L2/bi/streams/T3/N41/I5/H19/resets/mask",
    "gru/infer/streams/T3/N41/I5/H9/batch-major/mask/repeat-padding",
};
enum { DEVICES = sizeof device / sizeof *device, PROBLEMS_ = sizeof problem / sizeof *problem };

/* The states of all streams, one array for both initial and final, and those of each alone. */
struct streams {
    ecornn_device *device;
    bool gpu, gathered; /* gathered: rows have the bits of a run of the same rows */
    ecornn_plan *plan;
    struct eco_problem shape;
    void *weights, *workspace;
    size_t bytes[2];              /* of a row of a state */
    char *together[2], *alone[2]; /* [L*D,STREAMS,width], [STREAMS,L*D,width] */
    size_t x_bytes, y_bytes;      /* of a row of all steps */
    char *x, *y, *own_x, *own_y;
    uint8_t resets[MOST_T * STREAMS], mask[MOST_T * STREAMS]; /* [T,N] of a tick */
    int32_t lengths[STREAMS];
};

static void fill(void *to, size_t bytes, ecornn_type type, unsigned seed)
{
    for (size_t i = 0; i < bytes / eco_type_bytes(type); i++) {
        seed = seed * 1664525u + 1013904223u;
        eco_type_set(to, i, type, (double)(seed >> 8) / (1 << 23) - 1);
    }
}

static void streams_open(struct streams *s, const char *on, const char *text)
{
    ecornn_desc desc;
    ecornn_sizes sizes = {.size = sizeof sizes};
    check_ok(ecornn_device_open(&s->device, on));
    s->gpu = strcmp(on, "cuda") == 0;
    check_ok(ecornn_plan_create(&s->plan, s->device, text, NULL));
    check_ok(eco_problem_parse(&desc, text, NULL));
    check_ok(eco_problem_build(&s->shape, &desc));
    s->gathered = s->gpu || (s->shape.type == ECORNN_F32 && s->shape.weight_type == ECORNN_BF16 &&
                             !s->shape.row_invariant);
    check_ok(ecornn_plan_sizes(s->plan, &sizes));
    const struct eco_problem *p = &s->shape;
    const size_t element = eco_type_bytes(p->type), T = (size_t)p->T, pairs = (size_t)(p->L * p->D);
    const size_t params = sizes.param_elements * eco_type_bytes(p->param_type);
    char *const host = malloc(params), *const block = ecornn_alloc(s->device, params);
    const void *from[64];
    fill(host, params, p->param_type, 3);
    check_ok(ecornn_upload(s->device, block, host, params));
    for (int i = 0; i < sizes.param_count; i++) {
        ecornn_param param = {.size = sizeof param};
        check_ok(ecornn_param_get(s->plan, i, &param));
        from[i] = block + param.offset * eco_type_bytes(p->param_type);
    }
    s->weights = ecornn_alloc(s->device, sizes.weight_bytes);
    s->workspace = ecornn_alloc(s->device, sizes.workspace_bytes);
    check_ok(ecornn_pack(s->plan, from, NULL, s->weights, NULL));
    check_ok(ecornn_wait(s->device, NULL));
    ecornn_free(s->device, block);
    free(host);
    for (int k = 0; k < 2; k++) {
        const bool there = k < p->cell->recipe.n_states;
        s->bytes[k] = there ? (size_t)eco_problem_width(p, k) * element : 0;
        s->together[k] = calloc(STREAMS * pairs, s->bytes[k] + 1);
        s->alone[k] = calloc(STREAMS * pairs, s->bytes[k] + 1);
    }
    s->x_bytes = T * (size_t)p->I * element;
    s->y_bytes = T * (size_t)(p->D * p->P) * element;
    s->x = malloc(STREAMS * s->x_bytes);
    s->y = malloc(STREAMS * s->y_bytes);
    s->own_x = malloc(s->x_bytes);
    s->own_y = malloc(s->y_bytes);
}

static void streams_close(struct streams *s)
{
    for (int k = 0; k < 2; k++) {
        free(s->together[k]);
        free(s->alone[k]);
    }
    free(s->x), free(s->y), free(s->own_x), free(s->own_y);
    ecornn_free(s->device, s->weights);
    ecornn_free(s->device, s->workspace);
    ecornn_plan_free(s->plan);
    ecornn_device_close(s->device);
}

/* Resets and mask in the plan's form, or NULL; and lengths of rows. */
static void fill_steps(struct streams *s, unsigned seed)
{
    for (int i = 0; i < MOST_T * STREAMS; i++) {
        seed = seed * 1664525u + 1013904223u;
        s->resets[i] = (seed >> 20) % 3 == 0;
        s->mask[i] = (seed >> 24) % 3 != 0;
        s->lengths[i % STREAMS] = (int32_t)(seed >> 28) % (s->shape.T + 1);
    }
}

static void give_steps(const struct streams *s, ecornn_io *io, const uint8_t *resets,
                       const uint8_t *mask, const int32_t *lengths)
{
    io->resets = s->shape.resets ? resets : NULL;
    io->mask = s->shape.masks ? mask : NULL;
    io->lengths = s->shape.T > 1 ? lengths : NULL;
}

static ecornn_io io_of(const struct streams *s, const void *x, void *y)
{
    return (ecornn_io){.size = sizeof(ecornn_io),
                       .x = x,
                       .y = y,
                       .weights = s->weights,
                       .workspace = s->workspace};
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A GPU's copies of host memory. */
struct copies {
    ecornn_device *device;
    void *block[16];
    int count;
};

static void *copy_of(struct copies *copies, const void *from, size_t bytes)
{
    if (from == NULL)
        return NULL;
    void *const to = ecornn_alloc(copies->device, bytes + 1);
    check_ok(ecornn_upload(copies->device, to, from, bytes));
    return copies->block[copies->count++] = to;
}

static void forward_on_gpu(const struct streams *s, int32_t N, const ecornn_io *io)
{
    struct copies copies = {.device = s->device};
    const size_t n = (size_t)N, steps = (size_t)s->shape.T * n,
                 states = (size_t)(s->shape.L * s->shape.D) * (io->rows != NULL ? STREAMS : n);
    ecornn_io inside = *io;
    inside.x = copy_of(&copies, io->x, n * s->x_bytes);
    inside.y = copy_of(&copies, io->y, n * s->y_bytes);
    inside.rows = copy_of(&copies, io->rows, n * sizeof *io->rows);
    inside.lengths = copy_of(&copies, io->lengths, n * sizeof *io->lengths);
    inside.resets = copy_of(&copies, io->resets, steps);
    inside.mask = copy_of(&copies, io->mask, steps);
    for (int k = 0; k < 2; k++)
        inside.initial[k] = inside.final[k] =
            copy_of(&copies, io->initial[k], states * s->bytes[k]);
    check_ok(ecornn_forward(s->plan, s->shape.T, N, &inside));
    check_ok(ecornn_wait(s->device, NULL));
    check_ok(ecornn_download(s->device, io->y, inside.y, n * s->y_bytes));
    for (int k = 0; k < 2 && s->bytes[k] > 0; k++)
        check_ok(ecornn_download(s->device, io->final[k], inside.final[k], states * s->bytes[k]));
    for (int k = 0; k < copies.count; k++)
        ecornn_free(s->device, copies.block[k]);
}

static void forward(const struct streams *s, int32_t N, const ecornn_io *io)
{
    if (s->gpu)
        forward_on_gpu(s, N, io);
    else
        check_ok(ecornn_forward(s->plan, s->shape.T, N, io));
}

/* Step t of row n of N rows. */
static char *at_step(const struct streams *s, char *from, size_t row, int32_t t, int32_t n,
                     int32_t N)
{
    const size_t step = row / (size_t)s->shape.T;
    return from + (s->shape.batch_major ? (size_t)n * row + (size_t)t * step
                                        : ((size_t)t * (size_t)N + (size_t)n) * step);
}

/* Runs a stream by itself and compares y, and its states. */
static void check_alone(const struct streams *s, int32_t stream, int32_t n, int32_t N)
{
    const size_t pairs = (size_t)(s->shape.L * s->shape.D);
    ecornn_io io = io_of(s, s->own_x, s->own_y);
    uint8_t resets[MOST_T], mask[MOST_T];
    for (int32_t t = 0; t < s->shape.T; t++) {
        resets[t] = s->resets[t * N + n], mask[t] = s->mask[t * N + n];
        memcpy(at_step(s, s->own_x, s->x_bytes, t, 0, 1), at_step(s, s->x, s->x_bytes, t, n, N),
               s->x_bytes / (size_t)s->shape.T);
    }
    give_steps(s, &io, resets, mask, &s->lengths[n]);
    for (int k = 0; k < 2 && s->bytes[k] > 0; k++)
        io.initial[k] = io.final[k] = s->alone[k] + (size_t)stream * pairs * s->bytes[k];
    forward(s, 1, &io);
    for (int32_t t = 0; t < s->shape.T; t++)
        ck_assert_mem_eq(at_step(s, s->own_y, s->y_bytes, t, 0, 1),
                         at_step(s, s->y, s->y_bytes, t, n, N), s->y_bytes / (size_t)s->shape.T);
}

/* Runs the same rows with states that the host gathers, and compares y. */
static void check_gathered(const struct streams *s, const int32_t *rows, int32_t N)
{
    const size_t pairs = (size_t)(s->shape.L * s->shape.D), all = pairs * (size_t)N;
    char *state[2], *const y = malloc(STREAMS * s->y_bytes);
    ecornn_io io = io_of(s, s->x, y);
    give_steps(s, &io, s->resets, s->mask, s->lengths);
    for (int out = 0; out < 2; out++) {
        for (int k = 0; k < 2 && s->bytes[k] > 0; k++) {
            if (!out)
                io.initial[k] = io.final[k] = state[k] = calloc(all + 1, s->bytes[k]);
            for (size_t i = 0; i < all; i++) {
                const int32_t row = rows[i % (size_t)N];
                if (row < 0 || row >= STREAMS)
                    continue;
                char *const inside = state[k] + i * s->bytes[k];
                char *const own = s->alone[k] + ((size_t)row * pairs + i / (size_t)N) * s->bytes[k];
                memcpy(out ? own : inside, out ? inside : own, s->bytes[k]);
            }
            if (out)
                free(state[k]);
        }
        if (!out)
            forward(s, N, &io);
    }
    ck_assert_mem_eq(s->y, y, (size_t)N * s->y_bytes);
    free(y);
}

static void check_states(const struct streams *s)
{
    const size_t pairs = (size_t)(s->shape.L * s->shape.D);
    for (int k = 0; k < 2 && s->bytes[k] > 0; k++)
        for (size_t i = 0; i < STREAMS * pairs; i++)
            ck_assert_mem_eq(s->together[k] + (i % pairs * STREAMS + i / pairs) * s->bytes[k],
                             s->alone[k] + i * s->bytes[k], s->bytes[k]);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* In each tick others run: none, one, few, all; and some restart. */
START_TEST(streams_are_as_alone)
{
    struct streams s = {0};
    const char *const text = problem[_i % PROBLEMS_], *const on = device[_i / PROBLEMS_];
    const bool refused = strstr(text, "/int8/") || strstr(text, "/bf16-weights/row-invariant/");
    if (suite_lacks(on) || (strcmp(on, "cuda") == 0 && refused))
        return;
    streams_open(&s, on, text);
    const size_t pairs = (size_t)(s.shape.L * s.shape.D);
    for (int tick = 0; tick < TICKS; tick++) {
        int32_t rows[STREAMS], N = 0;
        for (int32_t stream = 0; stream < STREAMS; stream++)
            if (tick != 2 && (tick == 4 || (stream * 7 + tick * 5) % (tick + 2) == 0))
                rows[N++] = stream;
        if (s.gpu && N < STREAMS && tick > 2) /* pads the list */
            rows[N++] = tick % 2 == 0 ? STREAMS : -1;
        fill(s.x, STREAMS * s.x_bytes, s.shape.type, (unsigned)tick);
        for (int k = 0; k < 2 && s.bytes[k] > 0; k++) {
            memset(s.alone[k] + (size_t)tick * pairs * s.bytes[k], 0, pairs * s.bytes[k]);
            for (size_t pair = 0; pair < pairs; pair++)
                memset(s.together[k] + (pair * STREAMS + (size_t)tick) * s.bytes[k], 0, s.bytes[k]);
        }
        ecornn_io io = io_of(&s, s.x, s.y);
        io.rows = rows;
        io.streams = STREAMS;
        fill_steps(&s, (unsigned)tick);
        give_steps(&s, &io, s.resets, s.mask, s.lengths);
        for (int k = 0; k < 2 && s.bytes[k] > 0; k++)
            io.initial[k] = io.final[k] = s.together[k];
        forward(&s, N, &io);
        if (s.gathered)
            check_gathered(&s, rows, N);
        for (int32_t n = 0; !s.gathered && n < N; n++)
            check_alone(&s, rows[n], n, N);
        check_states(&s);
    }
    streams_close(&s);
}
END_TEST

START_TEST(misuse)
{
    struct streams s = {0};
    streams_open(&s, "cpu:1", "gru/infer/T1/N41/I5/H9/streams");
    int32_t rows[] = {3, 5, 40};
    ecornn_io io = io_of(&s, s.x, s.y);
    io.streams = STREAMS;
    io.initial[0] = s.together[0];
    REFUSES(ecornn_forward(s.plan, 1, 3, &io), "io.streams is 41, must be 0 without io.rows");
    io.rows = rows;
    fill(s.x, STREAMS * s.x_bytes, s.shape.type, 1);
    check_ok(ecornn_forward(s.plan, 1, 3, &io));
    io.rows = (const int32_t *)(const void *)((const char *)rows + 1);
    REFUSES(ecornn_forward(s.plan, 1, 3, &io), "must be aligned to 4 bytes");
    io.rows = rows, io.streams = 40;
    REFUSES(ecornn_forward(s.plan, 1, 3, &io), "io.rows[2] is 40, must be 6 to 39");
    rows[1] = 3, io.streams = STREAMS;
    REFUSES(ecornn_forward(s.plan, 1, 3, &io), "io.rows[1] is 3, must be 4 to 40");
    rows[1] = 5, io.streams = 0;
    REFUSES(ecornn_forward(s.plan, 1, 3, &io), "io.streams is 0, must be at least 1 with io.rows");
    io.streams = STREAMS, io.initial[0] = NULL;
    REFUSES(ecornn_forward(s.plan, 1, 3, &io), "io.initial[0] is NULL");
    io.initial[0] = s.together[0];
    REFUSES(ecornn_forward(s.plan, 0, 3, &io), "steps is 0");
    static const struct {
        const char *plan, *refusal;
        ecornn_status status;
    } other[] = {{"gru/train/T1/N41/I5/H9/streams", "needs inference", ECORNN_UNSUPPORTED},
                 {"gru/infer/T1/N41/I5/H9", "is without ECORNN_STREAMS", ECORNN_BAD_ARGUMENT},
                 {"infer/T1/N41/I5; gru/H9; gru/H9", "needs a plan of layers", ECORNN_UNSUPPORTED}};
    ecornn_plan *const layers = s.plan;
    check_refused(
        ecornn_plan_create(&s.plan, s.device, "gru/infer/models:2/T1/N41/I5/H9/streams", NULL),
        ECORNN_UNSUPPORTED, "needs one model");
    void *const reserve = ecornn_alloc(s.device, 64);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        check_ok(ecornn_plan_create(&s.plan, s.device, other[i].plan, NULL));
        io.reserve = i == 0 ? reserve : NULL;
        check_refused(ecornn_forward(s.plan, 1, 3, &io), other[i].status, other[i].refusal);
        ecornn_plan_free(s.plan);
    }
    ecornn_free(s.device, reserve);
    s.plan = layers;
    streams_close(&s);
}
END_TEST

TEST_MAIN("streams", {streams_are_as_alone, DEVICES *PROBLEMS_}, {misuse, 1})
