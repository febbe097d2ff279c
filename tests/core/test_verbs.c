/*
 * Tests the verbs of the CPU against plain loops (common/program/verbs.h): random shapes, strides,
 * types, lengths and resets, with one thread and with the threads of a team one after the other.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "cpu/cpu.h"
#include "tests/kit/planned.h"
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
        value = eco_type_round(drop(m, move, t, row, i, value), move->to.type);
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

START_TEST(sum_is_its_equation)
{
    struct machine m;
    memset(memory, 0, sizeof memory);
    machine_make(&m, (uint32_t)_i);
    struct eco_move move = {.op = &m.op,
                            .t = below(m.args.T),
                            .steps = 1,
                            .width = 1 + below(MOST_WIDTH),
                            .every = 1,
                            .rows = ECO_ROWS_LIVE,
                            .sums = true,
                            .add = below(2)};
    move.to_t = move.t;
    move.to = view_of(&m, memory[0], MOST_T + 3, 1);
    move.from = view_of(&m, memory[1], MOST_T + 1, move.width);
    memcpy(expected, memory, sizeof memory);
    const struct eco_view to = there(move.to), from = there(move.from);
    for (int32_t place = 0; place < m.args.N; place++) {
        const int32_t row = m.run.order != NULL ? m.order[place] : place;
        double sum = 0;
        for (int32_t i = 0; i < move.width; i++)
            sum += get(&m, &from, move.t, place, i);
        if (m.run.order == NULL || move.t < m.lengths[row])
            set(&m, &to, move.t, place, 0,
                eco_type_round(sum, eco_type_sum(to.type)) +
                    (move.add ? get(&m, &to, move.t, place, 0) : 0));
    }
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

/* ---- products: of small integers in F64, so sums in any order are equal ---------------------- */

static const char *const problems[] = {"lstm/f64/train/T3/N4/I5/H6", "gru/f64/train/T4/N3/I7/H5",
                                       "gru-reset-first/f64/train/T2/N5/I3/H9",
                                       "lstm-peephole/f64/train/T3/N2/I4/H7"};
enum { PROBLEMS = sizeof problems / sizeof *problems };

struct large {
    struct planned planned;
    struct eco_args args;
    struct eco_op op;
    struct eco_cpu_run run;
    double *a, *c; /* [T,N,a_row], [T,N,c_row] */
    size_t rows, a_row, c_row;
};

static double *numbers(size_t n)
{
    double *all = malloc(n * sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = below(16) - 8;
    return all;
}

static struct eco_view rows_of(const struct large *l, double *first, size_t row)
{
    return (struct eco_view){.first = (char *)first,
                             .step = (size_t)l->args.N * row * sizeof(double),
                             .mask = SIZE_MAX,
                             .row = row,
                             .type = ECORNN_F64};
}

static void large_open(struct large *l, int number, bool backward)
{
    state = (uint32_t)number;
    planned_open(&l->planned, "cpu:1", problems[number], NULL);
    const struct ecornn_plan *plan = l->planned.plan;
    const size_t accs = (size_t)(plan->problem.cell->lowered.n_accs +
                                 plan->problem.cell->lowered.n_extra),
                 H = (size_t)plan->problem.H;
    double *weights = l->planned.weights;
    for (size_t i = 0; i < l->planned.sizes.weight_bytes / sizeof *weights; i++)
        weights[i] = below(16) - 8;
    l->args = (struct eco_args){.T = plan->problem.T,
                                .N = plan->problem.N,
                                .weights = weights,
                                .dweights = l->planned.dweights,
                                .workspace = l->planned.workspace,
                                .backward = backward};
    l->op = (struct eco_op){.t1 = plan->problem.T};
    l->run = eco_cpu_run_of(plan, &plan->layout[ECO_LAYOUT_TRAIN], &l->args);
    l->run.count = 1;
    l->rows = (size_t)l->args.T * (size_t)l->args.N;
    l->a_row = accs * H + 3;
    l->c_row = H + (size_t)plan->problem.I + 2;
    l->a = numbers(l->rows * l->a_row);
    l->c = numbers(l->rows * l->c_row);
}

static void large_close(struct large *l)
{
    free(l->a);
    free(l->c);
    planned_close(&l->planned);
}

/* Calls `visit` for each element of a matrix: its accumulator's column of a row, its own column,
 * and its place. */
typedef void visitor(const struct large *l, size_t acc, size_t k, size_t place, void *data);
static void visit_matrix(const struct large *l, int weight_id, visitor *visit, void *data)
{
    const struct eco_matrix *m = eco_layout_matrix(l->run.layout, 0, weight_id);
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(l->run.lowered, weight_id, a, &span); a = span.end)
        for (int32_t u = 0; u < (span.end - span.first) * m->units; u++)
            for (int32_t k = 0; k < m->columns; k++)
                visit(l, (size_t)(span.first * m->units + u), (size_t)k,
                      (size_t)((span.before * m->units + u) * m->row + k), data);
}

struct matrix_sum {
    const double *m;
    double *sum; /* laid out as a, as c, or as the matrix */
};

static void forward(const struct large *l, size_t acc, size_t k, size_t place, void *data)
{
    const struct matrix_sum *to = data;
    for (size_t r = 0; r < l->rows; r++)
        to->sum[r * l->a_row + acc] += l->c[r * l->c_row + k] * to->m[place];
}

static void back(const struct large *l, size_t acc, size_t k, size_t place, void *data)
{
    const struct matrix_sum *to = data;
    for (size_t r = 0; r < l->rows; r++)
        to->sum[r * l->c_row + k] += l->a[r * l->a_row + acc] * to->m[place];
}

static void gradient(const struct large *l, size_t acc, size_t k, size_t place, void *data)
{
    const struct matrix_sum *to = data;
    for (size_t r = 0; r < l->rows; r++)
        to->sum[place] += l->a[r * l->a_row + acc] * l->c[r * l->c_row + k];
}

/* Accumulators begin as their biases. */
static void begin_accs(const struct large *l, double *accs)
{
    const size_t H = (size_t)l->run.problem->H;
    for (size_t r = 0; r < l->rows; r++)
        for (int a = 0; a < l->run.lowered->n_accs; a++) {
            const double *bias = eco_cpu_bias(&l->run, &l->op, a);
            for (size_t u = 0; u < H; u++)
                accs[r * l->a_row + (size_t)a * H + u] = bias == NULL ? 0 : bias[u];
        }
}

START_TEST(product_is_its_equation)
{
    struct large l;
    const bool is_back = _i / PROBLEMS % 2, recurrent = _i / PROBLEMS / 2 % 2, bias = !recurrent;
    large_open(&l, _i % PROBLEMS, is_back);
    const int weight_id = recurrent ? ECO_WEIGHT_RECURRENT : ECO_WEIGHT_INPUT;
    const size_t row = is_back ? l.c_row : l.a_row, n = l.rows * row;
    double *c = numbers(n), *plain = malloc(n * sizeof *plain);
    memcpy(plain, c, n * sizeof *plain);
    const struct eco_view accs = rows_of(&l, l.a, l.a_row), other = rows_of(&l, l.c, l.c_row);
    const struct eco_weight_product product = {.op = &l.op,
                                               .weight_id = weight_id,
                                               .t1 = l.op.t1,
                                               .a = is_back ? accs : other,
                                               .c = rows_of(&l, c, row),
                                               .back = is_back,
                                               .bias = !is_back && bias,
                                               .add = is_back || !bias};
    const struct matrix_sum sum = {eco_bind_weights(l.run.layout, &l.args, &l.op, weight_id),
                                   plain};
    if (product.bias)
        begin_accs(&l, plain);
    visit_matrix(&l, weight_id, is_back ? back : forward, (void *)(uintptr_t)&sum);
    eco_cpu_verbs.product(&l.run, &product);
    ck_assert_mem_eq(c, plain, n * sizeof *c);
    free(c);
    free(plain);
    large_close(&l);
}
END_TEST

/* Sums of the columns of dacc, vector by vector. */
static void sum_vectors(const struct large *l, double *sum)
{
    const struct eco_recipe *recipe = &l->run.problem->cell->recipe;
    const size_t H = (size_t)l->run.problem->H;
    for (int i = 0; i < recipe->n_params; i++) {
        if (recipe->param[i].kind != ECO_PARAM_VECTOR)
            continue;
        const int column = eco_vector_column(l->run.lowered, i);
        for (size_t r = 0; column >= 0 && r < l->rows; r++)
            for (size_t u = 0; u < H; u++)
                sum[u] += l->a[r * l->a_row + (size_t)column * H + u];
        sum += H;
    }
}

START_TEST(gradients_are_their_equation)
{
    struct large l;
    large_open(&l, _i, true);
    const size_t bytes = l.planned.sizes.dweight_bytes;
    char *plain = calloc(1, bytes);
    struct eco_gradients gradients = {.op = &l.op, .dacc = rows_of(&l, l.a, l.a_row)};
    for (int k = 0; k <= l.run.lowered->n_operands; k++) {
        const int weight_id = k == 0 ? (int)ECO_WEIGHT_INPUT : ECO_WEIGHT_RECURRENT + k - 1;
        const struct matrix_sum sum = {
            NULL, (void *)(plain + eco_layout_gradient(l.run.layout, 0, 0, weight_id))};
        gradients.part[gradients.n++] =
            (struct eco_gradient_term){weight_id, 0, l.op.t1, rows_of(&l, l.c, l.c_row)};
        visit_matrix(&l, weight_id, gradient, (void *)(uintptr_t)&sum);
    }
    sum_vectors(&l, (void *)(plain + eco_layout_gradient(l.run.layout, 0, 0, ECO_WEIGHT_VECTORS)));
    eco_cpu_verbs.gradients(&l.run, &gradients);
    ck_assert_mem_eq(l.planned.dweights, plain, bytes);
    free(plain);
    large_close(&l);
}
END_TEST

TEST_MAIN("verbs", {move_is_its_equation, CASES}, {sum_is_its_equation, CASES},
          {cut_is_its_equation, CASES}, {product_is_its_equation, 4 * PROBLEMS},
          {gradients_are_their_equation, PROBLEMS})
