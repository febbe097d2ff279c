/*
 * Ticks of streams, see streams.h.
 */
#include "tests/kit/streams.h"

#include <check.h>
#include <string.h>

#include "common/problem.h"

static bool clear(struct part_row a, struct part_row b, void *context)
{
    (void)b, (void)context;
    memset(a.at, 0, a.array->row);
    return true;
}

static void restart(struct trial *trial, int32_t row)
{
    const struct part part = {.of = trial, .row = row, .rows = 1};
    part_each(part, INITIAL, part, INITIAL, clear, NULL);
}

void streams_restart(struct streams *s, int32_t stream)
{
    restart(&s->kept, stream);
}

void streams_open(struct streams *s, ecornn_device *device, const char *problem, int32_t count,
                  bool gathered)
{
    trial_open(&s->tick, device, problem, NULL);
    trial_open_beside(&s->own, &s->tick), trial_open_beside(&s->kept, &s->tick);
    s->count = count, s->gathered = gathered;
    s->tick.alias = s->own.alias = true;
    s->tick.ragged = s->own.ragged = s->tick.T > 1;
    s->rows = ecornn_alloc(device, (size_t)count * sizeof *s->rows);
    s->tick.io.rows = s->rows, s->tick.io.streams = count;
    trial_size(&s->tick, s->tick.T, s->tick.N, count);
    trial_size(&s->kept, s->tick.T, count, 0);
    for (int32_t stream = 0; stream < count; stream++)
        restart(&s->kept, stream);
}

void streams_close(struct streams *s)
{
    ecornn_free(s->tick.device, s->rows);
    trial_close(&s->kept), trial_close(&s->own), trial_close(&s->tick);
}

void streams_fill(struct streams *s, const int32_t *rows, int32_t N, uint64_t seed)
{
    trial_size(&s->tick, s->tick.T, N, s->count);
    trial_fill(&s->tick, seed);
    part_copy((struct part){.of = &s->tick}, INITIAL, (struct part){.of = &s->kept}, INITIAL);
    check_ok(ecornn_upload(s->tick.device, s->rows, rows, (size_t)N * sizeof *rows));
}

/* Runs rows [n0, n0 + N) of the tick apart and compares y. */
static void check_rows(struct streams *s, const int32_t *rows, int32_t n0, int32_t N)
{
    const struct part tick = {.of = &s->tick, .row = n0, .rows = N}, own = {.of = &s->own};
    trial_size(&s->own, s->tick.T, N, 0);
    part_copy_inputs(own, tick);
    for (int out = 0; out < 2; out++) {
        for (int32_t n = 0; n < N; n++) {
            const struct part row = {.of = &s->own, .row = n, .rows = 1};
            const struct part kept = {.of = &s->kept, .row = rows[n0 + n], .rows = 1};
            if (rows[n0 + n] < 0 || rows[n0 + n] >= s->count)
                restart(&s->own, n);
            else if (out)
                part_copy(kept, INITIAL, row, FINAL);
            else
                part_copy(row, INITIAL, kept, INITIAL);
        }
        if (!out)
            trial_run(&s->own);
    }
    part_check(tick, own, Y, Y, "a stream by itself");
}

void streams_check(struct streams *s, const int32_t *rows, int32_t N)
{
    for (int32_t n = 0; n < N; n += s->gathered ? N : 1)
        check_rows(s, rows, n, s->gathered ? N : 1);
    ck_assert(
        part_same((struct part){.of = &s->tick}, FINAL, (struct part){.of = &s->kept}, INITIAL));
}
