/*
 * Tests the verbs of the CPU against plain loops (common/program/verbs.h): random shapes, strides,
 * types, lengths and resets, with one thread and with the threads of a team one after the other.
 */
#include <check.h>
#include <string.h>

#include "common/number.h"
#include "cpu/cpu.h"
#include "tests/kit/suite.h"

enum { CASES = 400, MOST_N = 6, MOST_T = 9, MOST_WIDTH = 11, ROOM = 1 << 14 };

/* ---- a random run ---------------------------------------------------------------------------- */

static uint32_t state;
static int32_t below(int32_t n)
{
    state = state * 1664525 + 1013904223;
    return (int32_t)((state >> 8) % (uint32_t)n);
}

struct machine {
    struct eco_args args;
    struct eco_op op;
    struct eco_cpu_run run;
    int32_t lengths[MOST_N], order[MOST_N], active[MOST_T + 1];
    uint8_t resets[MOST_T * MOST_N];
};

/* Rows in falling order of their lengths, as a run of the CPU has them. */
static void sort(struct machine *m)
{
    const int32_t N = m->args.N, T = m->args.T;
    int32_t place = 0;
    for (int32_t length = T; length >= 0; length--)
        for (int32_t n = 0; n < N; n++)
            if (m->lengths[n] == length)
                m->order[place++] = n;
    for (int32_t t = 0; t <= T; t++)
        for (int32_t n = m->active[t] = 0; n < N; n++)
            m->active[t] += m->lengths[n] > t;
}

static void machine_make(struct machine *m, uint32_t seed)
{
    state = seed;
    m->args = (struct eco_args){.T = 1 + below(MOST_T),
                                .N = 1 + below(MOST_N),
                                .seed = seed,
                                .first_step = (uint32_t)below(5),
                                .first_row = (uint32_t)below(5)};
    m->op = (struct eco_op){.layer = (uint8_t)below(3), .reversed = below(2)};
    for (int32_t n = 0; n < m->args.N; n++)
        m->lengths[n] = below(m->args.T + 1);
    for (int32_t i = 0; i < m->args.T * m->args.N; i++)
        m->resets[i] = below(3) == 0;
    sort(m);
    m->args.resets = m->resets;
    m->run = (struct eco_cpu_run){.args = &m->args, .rows = {0, m->args.N}, .count = 1};
    if (below(2)) {
        m->args.lengths = m->lengths;
        m->run.order = m->order;
        m->run.active = m->active;
    }
}

/* A view of `steps` steps in the memory, filled with small numbers that every type represents. */
static struct eco_view view_of(const struct machine *m, char *memory, int32_t steps, int32_t width)
{
    static const ecornn_type types[] = {ECORNN_F32, ECORNN_F64, ECORNN_BF16, ECORNN_F16};
    struct eco_view view = {.first = memory,
                            .mask = SIZE_MAX,
                            .row = (size_t)(width + below(3)),
                            .type = types[below(4)],
                            .caller = below(2)};
    const size_t rows = view.row * (size_t)m->args.N + (size_t)below(4);
    view.step = rows * eco_type_bytes(view.type);
    ck_assert_uint_le(view.step * (size_t)steps, ROOM);
    for (size_t i = 0; i < rows * (size_t)steps; i++)
        eco_type_set(memory, i, view.type, below(64) - 32);
    return view;
}

/* The row at a position, if `sorted`, else the caller's. */
static int32_t index_of(const struct machine *m, const struct eco_view *view, int32_t place)
{
    return view->caller && m->run.order != NULL ? m->order[place] : place;
}

static double get(const struct machine *m, const struct eco_view *view, int32_t t, int32_t place,
                  int32_t i)
{
    return view->first == NULL
               ? 0
               : eco_type_get(eco_view_at(view, t),
                              (size_t)index_of(m, view, place) * view->row + (size_t)i, view->type);
}

static void set(const struct machine *m, const struct eco_view *view, int32_t t, int32_t place,
                int32_t i, double value)
{
    eco_type_set(eco_view_at(view, t), (size_t)index_of(m, view, place) * view->row + (size_t)i,
                 view->type, value);
}

/* ---- the reference verbs --------------------------------------------------------------------- */

static bool is_reset(const struct machine *m, int32_t t, int32_t row, int32_t length)
{
    const int32_t at = t + (int32_t)m->op.reversed;
    return at >= 0 && at < length && m->resets[at * m->args.N + row];
}

static double drop(const struct machine *m, const struct eco_move *move, int32_t t, int32_t row,
                   int32_t i, double value)
{
    const struct eco_coordinates at = {.seed = m->args.seed,
                                       .layer = m->op.layer,
                                       .t = m->args.first_step + (uint32_t)t,
                                       .n = m->args.first_row + (uint32_t)row};
    uint32_t word[4];
    eco_random_quad(&at, (uint32_t)i / 4, word);
    return word[i % 4] < move->threshold ? 0 : value * move->scale;
}

/* One element of a row at step number k. */
static void move_element(const struct machine *m, const struct eco_move *move, int32_t k,
                         int32_t place, int32_t i)
{
    const int32_t row = m->run.order ? m->order[place] : place,
                  length = m->run.order ? m->lengths[row] : m->args.T;
    const bool at_last = move->rows == ECO_ROWS_AT_LAST && m->run.order != NULL;
    const int32_t t = at_last ? length - 1 : move->t + k * move->every,
                  to_t = at_last ? t : move->to_t + k;
    const bool ended = move->rows >= ECO_ROWS_LIVE && t >= length;
    double value = get(m, move->resets && is_reset(m, t, row, length) ? &move->start : &move->from,
                       t, place, i);
    if (ended && (move->rows == ECO_ROWS_LIVE || move->add || !move->to.caller))
        return; /* it may be anything; the CPU leaves it */
    if (move->drop && !ended)
        value = drop(m, move, t, row, i, value);
    set(m, &move->to, to_t, place, i,
        ended ? 0 : value + (move->add ? get(m, &move->to, to_t, place, i) : 0));
}

static void reference_move(const struct machine *m, const struct eco_move *move)
{
    for (int32_t k = 0; k < move->steps; k++)
        for (int32_t place = 0; place < m->args.N; place++)
            for (int32_t i = 0; i < move->width; i++)
                move_element(m, move, k, place, i);
}

static void reference_cut(const struct machine *m, const struct eco_cut *cut)
{
    for (int32_t place = 0; place < m->args.N; place++) {
        const int32_t row = m->run.order ? m->order[place] : place,
                      length = m->run.order ? m->lengths[row] : m->args.T;
        for (int32_t i = 0; is_reset(m, cut->t, row, length) && i < cut->width; i++) {
            if (cut->sum.first != NULL)
                set(m, &cut->sum, 0, place, i,
                    get(m, &cut->sum, 0, place, i) + get(m, &cut->carry, 0, place, i));
            set(m, &cut->carry, 0, place, i, 0);
        }
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static char memory[3][ROOM], expected[3][ROOM];

/* The same view in the memory of the reference. */
static struct eco_view there(struct eco_view view)
{
    if (view.first != NULL)
        view.first = (char *)expected + (view.first - (char *)memory);
    return view;
}

static void check_same(uint32_t seed)
{
    ck_assert_msg(memcmp(memory, expected, sizeof memory) == 0, "case %u", seed);
}

/* Calls a verb as each thread of a team in turn: MOVE and CUT do not wait. */
#define BY_TEAM(m, verb, call)                                                                     \
    for ((m)->run.count = 1 + below(3), (m)->run.id = 0; (m)->run.id < (m)->run.count;             \
         (m)->run.id++)                                                                            \
    eco_cpu_verbs.verb(&(m)->run, call)

START_TEST(move_is_its_equation)
{
    struct machine m;
    memset(memory, 0, sizeof memory);
    machine_make(&m, (uint32_t)_i);
    struct eco_move move = {.op = &m.op,
                            .t = below(m.args.T),
                            .to_t = below(3),
                            .width = 1 + below(MOST_WIDTH),
                            .every = 1 + below(2),
                            .rows = (enum eco_move_rows)below(4),
                            .add = below(4) == 0,
                            .threshold = eco_random_threshold(0.25),
                            .scale = 1 / 0.75};
    const int32_t last = move.rows == ECO_ROWS_AT_LAST;
    move.steps = last ? 1 : 1 + below((m.args.T - 1 - move.t) / move.every + 1);
    if (last && m.run.order == NULL)
        move.to_t = move.t;
    for (int32_t n = 0; last && n < m.args.N; n++) /* every row has a last step */
        if (m.lengths[n] == 0)
            return;
    move.to = view_of(&m, memory[0], MOST_T + 3, move.width);
    move.from = view_of(&m, memory[1], MOST_T + 1, move.width);
    move.start = view_of(&m, memory[2], 1, move.width);
    move.start.step = 0;
    move.drop = below(2);
    move.resets = !last && !move.drop && below(2);
    if (!move.drop && below(4) == 0)
        move.from.first = NULL;
    memcpy(expected, memory, sizeof memory);
    struct eco_move plain = move;
    plain.to = there(move.to);
    plain.from = there(move.from);
    plain.start = there(move.start);
    reference_move(&m, &plain);
    BY_TEAM(&m, move, &move);
    check_same((uint32_t)_i);
}
END_TEST

START_TEST(cut_is_its_equation)
{
    struct machine m;
    memset(memory, 0, sizeof memory);
    machine_make(&m, (uint32_t)_i);
    struct eco_cut cut = {.op = &m.op, .t = below(m.args.T), .width = 1 + below(MOST_WIDTH)};
    cut.carry = view_of(&m, memory[0], 1, cut.width);
    cut.sum = view_of(&m, memory[1], 1, cut.width);
    cut.sum.type = cut.carry.type = ECORNN_F32;
    cut.sum.caller = cut.carry.caller = false;
    memset(memory, 0, sizeof memory);
    for (int32_t i = 0; i < 64; i++)
        ((float *)(void *)memory[0])[i] = (float)below(64);
    if (below(4) == 0)
        cut.sum.first = NULL;
    memcpy(expected, memory, sizeof memory);
    const struct eco_cut plain = {cut.op, there(cut.sum), there(cut.carry), cut.t, cut.width};
    reference_cut(&m, &plain);
    BY_TEAM(&m, cut, &cut);
    check_same((uint32_t)_i);
}
END_TEST

TEST_MAIN("verbs", 0, {move_is_its_equation, CASES}, {cut_is_its_equation, CASES})
