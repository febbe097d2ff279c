/*
 * The kernels of matrix states, compiled once for each instruction set like cpu/isa/isa.c: the walk
 * over the steps.  The loops over the rows of S are compiled for each combination of terms.
 */
#include "cpu/matrix/matrix.h"

#include <string.h>

#include "common/mark.h"
#include "common/type.h"
#include "cpu/matrix/run.h"

#include "cpu/isa/vec.h"
#include "cpu/isa/vec_sums.h"
#ifndef ECO_VEC_F64_H
#include "cpu/isa/vec_transpose.h"
#endif

enum { COLUMNS = ECO_MATRIX_COLUMNS, VECS = COLUMNS / VEC_LANES };
enum { UNROLLED = VEC_LANES > 1 ? VECS : 1 }; /* double is for checking */

/* The terms of a rule for which the loops over rows are compiled. */
enum decay { KEEPS, BY_NUMBER, BY_ROW, DECAYS };
enum read { READS_NOT, READS, READS_OTHER, READINGS }; /* no u; u in d; in a u^T, too */

static enum decay decay_of(const struct eco_matrix_terms *terms)
{
    return terms->decay == NULL ? KEEPS : terms->by_row ? BY_ROW : BY_NUMBER;
}

static enum read read_of(const struct eco_matrix_terms *terms)
{
    return terms->read == NULL ? READS_NOT : terms->other == NULL ? READS : READS_OTHER;
}

/* Row t of an array [steps,row]; NULL if there is no array. */
ALWAYS_INLINE const real *row_of(const void *array, size_t row, int32_t t)
{
    return array ? (const real *)array + row * (size_t)t : NULL;
}

ALWAYS_INLINE real *row_in(void *array, size_t row, int32_t t)
{
    return array ? (real *)array + row * (size_t)t : NULL;
}

/* Numbers from one step's decay to the next one's. */
static size_t decay_row(const struct eco_matrix_terms *terms)
{
    return terms->by_row ? terms->key_row : 1;
}

ALWAYS_INLINE vec spread(const real *from)
{
    return v_const((double)*from);
}

/* d = v + scale u, or v. */
static void add_scaled(real d[COLUMNS], const struct eco_matrix_terms *terms, int32_t t,
                       const real *u)
{
    const real *value = row_of(terms->value, terms->value_row, t);
    const real *scale = terms->read ? row_of(terms->scale, 1, t) : NULL;
    for (int c = 0; c < COLUMNS; c += VEC_LANES)
        v_store(d + c,
                scale ? v_fma(spread(scale), v_load(u + c), v_load(value + c)) : v_load(value + c));
}

#include "cpu/matrix/backward.inc"
#include "cpu/matrix/forward.inc"

/* ---- by terms -------------------------------------------------------------------------------- */

/* clang-format off */
#define COMBINATIONS(X)                                                                            \
    X(KEEPS, READS_NOT) X(KEEPS, READS) X(KEEPS, READS_OTHER)                                      \
    X(BY_NUMBER, READS_NOT) X(BY_NUMBER, READS) X(BY_NUMBER, READS_OTHER)                          \
    X(BY_ROW, READS_NOT) X(BY_ROW, READS) X(BY_ROW, READS_OTHER)
#define LOOPS(decay, read)                                                                         \
    static void step_##decay##_##read(const struct step *step)                                     \
    {                                                                                              \
        if (read != READS_NOT && step->next_read)                                                  \
            take_step(step, decay, read, true);                                                    \
        else                                                                                       \
            take_step(step, decay, read, false);                                                   \
    }                                                                                              \
    static void back_##decay##_##read(const struct back *back)                                     \
    {                                                                                              \
        pass_back(back, decay, read, true, true);                                                  \
    }
COMBINATIONS(LOOPS)

static const struct {
    void (*step)(const struct step *step);
    void (*back)(const struct back *back);
} loops[DECAYS][READINGS] = {
#define ROW(decay, read) [decay][read] = {step_##decay##_##read, back_##decay##_##read},
    COMBINATIONS(ROW)
};
/* clang-format on */

/* ---- steps ----------------------------------------------------------------------------------- */

/* Rows of S that forward keeps in packed memory between its steps: rows that are multiples of a
 * large power of two apart would fight for the same lines of the cache. */
enum { KEPT_ROWS = 8192 / COLUMNS };

/* The place of S' of step t: in states, else in kept until the last step, or in `to`. */
static void place_next(struct step *step, const struct eco_matrix_forward *call, int32_t t,
                       real *kept)
{
    const size_t keys = (size_t)call->terms.keys;
    const bool last = t + 1 == call->terms.steps;
    step->to = call->to;
    step->to_row = call->to_row;
    if (call->states) {
        step->to = (real *)call->states + keys * COLUMNS * (size_t)t;
        step->to_row = COLUMNS;
    } else if (!last && keys <= KEPT_ROWS) {
        step->to = kept;
        step->to_row = COLUMNS;
    }
}

static void forward(const struct eco_matrix_forward *call)
{
    const struct eco_matrix_terms *const terms = &call->terms;
    const enum decay decay = decay_of(terms);
    const enum read read = read_of(terms);
    _Alignas(64) real kept[KEPT_ROWS * COLUMNS], d[COLUMNS], u[2][COLUMNS] = {{0}},
                                                             unwanted[COLUMNS];
    struct step step = {
        .keys = terms->keys, .from = call->from, .from_row = call->from_row, .d = d};
    if (read != READS_NOT && terms->steps > 0) {
        step.next_read = terms->read;
        step.next_u = u[0];
        read_state(&step);
    }
    for (int32_t t = 0; t < terms->steps; t++) {
        place_next(&step, call, t, kept);
        step.u = u[t % 2];
        step.next_u = u[(t + 1) % 2];
        add_scaled(d, terms, t, step.u);
        if (call->u)
            memcpy(row_in(call->u, COLUMNS, t), step.u, COLUMNS * sizeof(real));
        step.decay = row_of(terms->decay, decay_row(terms), t);
        step.key = row_of(terms->key, terms->key_row, t);
        step.query = row_of(terms->query, terms->key_row, t);
        step.other = row_of(terms->other, terms->key_row, t);
        step.next_read = t + 1 < terms->steps ? row_of(terms->read, terms->key_row, t + 1) : NULL;
        step.out = call->out ? row_in(call->out, terms->value_row, t) : unwanted;
        loops[decay][read].step(&step);
        step.from = step.to;
        step.from_row = step.to_row;
    }
    if (step.from != call->to)
        for (int32_t i = 0; i < terms->keys; i++)
            memcpy((real *)call->to + (size_t)i * call->to_row,
                   step.from + (size_t)i * step.from_row, COLUMNS * sizeof(real));
}

/* du of a step: scale dd, and what was added up; dscale. */
static void complete_du(const struct back *back, const struct eco_matrix_backward *call, int32_t t)
{
    const real *scale = row_of(call->terms.scale, 1, t);
    vec product[VEC_GROUP_VECS];
    if (scale == NULL)
        return;
    for (int v = 0; v < VECS; v++) {
        const int c = v * VEC_LANES;
        const vec dd = v_load(back->dd + c);
        v_store(back->next_du + c, v_fma(spread(scale), dd, v_load(back->next_du + c)));
        add_product(product, v, v_load(back->u + c), dd);
    }
    *row_in(call->dscale, 1, t) += v_total(product);
}

/* What a pass needs of step t when it leaves it. */
static void set_leaving(struct back *back, const struct eco_matrix_backward *call, int32_t t)
{
    const struct eco_matrix_terms *const terms = &call->terms;
    back->w = row_of(terms->decay, decay_row(terms), t);
    back->b = row_of(terms->read, terms->key_row, t);
    back->to[DW] = row_in(call->ddecay, decay_row(terms), t);
    back->to[DB] = row_in(call->dread, terms->key_row, t);
}

static void set_entering(struct back *back, const struct eco_matrix_backward *call, int32_t t)
{
    const struct eco_matrix_terms *const terms = &call->terms;
    const size_t row = terms->key_row;
    back->k = row_of(terms->key, row, t);
    back->q = row_of(terms->query, row, t);
    back->a = row_of(terms->other, row, t);
    back->to[DK] = row_in(call->dkey, row, t);
    back->to[DQ] = row_in(call->dquery, row, t);
    back->to[DA] = row_in(call->dother, row, t);
    back->dout = row_of(call->dout, terms->value_row, t);
    back->u = row_of(call->u, COLUMNS, t);
    back->dd = row_in(call->dvalue, terms->value_row, t);
    back->state = row_of(call->states, (size_t)terms->keys * COLUMNS, t);
    back->state_row = COLUMNS;
}

static void backward(const struct eco_matrix_backward *call)
{
    const struct eco_matrix_terms *const terms = &call->terms;
    _Alignas(64) real d[COLUMNS], du[2][COLUMNS] = {{0}};
    struct back back = {.keys = terms->keys,
                        .decay = decay_of(terms),
                        .read = read_of(terms),
                        .dstate = call->dstate,
                        .d = d};
    for (int32_t t = terms->steps; t >= 0; t--) {
        const bool leaves = t<terms->steps, enters = t> 0;
        back.du = du[t % 2];
        back.next_du = du[(t + 1) % 2];
        back.state = call->before;
        back.state_row = call->before_row;
        if (leaves)
            set_leaving(&back, call, t);
        if (enters) {
            set_entering(&back, call, t - 1);
            add_scaled(d, terms, t - 1, back.u);
        }
        (!leaves ? enter_last : !enters ? leave_first : loops[back.decay][back.read].back)(&back);
        if (enters && back.read != READS_NOT)
            complete_du(&back, call, t - 1);
    }
}

#include "cpu/matrix/job.inc"

const struct eco_matrix_kernels JOIN(eco_matrix_, ECO_ISA) = {
    .forward = forward, .backward = backward, .job = run_job};
