/*
 * The cells of the opponent "loop" (loop.c): for each cell, the elementwise passes between the
 * products of a step. There is one pass for each operation, as automatic differentiation would run
 * them.
 */
#include "loop.h"

/* to [N,H] = dy of step t plus the gradient from the next step */
static void sum_dh(const struct loop *loop, int t, struct rows to)
{
    const size_t at = (size_t)t * (size_t)loop->N * (size_t)loop->H;
    float *dy = (float *)loop->problem->dy + at;
    loop_pass(loop, PASS_ADD, to, (struct rows){dy, loop->H}, (struct rows){loop->dh, loop->H});
}

/* ---- rnn-tanh, rnn-relu ---- */

enum { RNN_DH, RNN_BACKWARD_SLOTS };

static void rnn_forward(struct loop *loop, int t, enum pass activation)
{
    const struct rows a = loop_gate(loop, loop->gates_x, 0);
    loop_pass(loop, activation, loop_h(loop, t + 1), a, a);
}

static void rnn_backward(struct loop *loop, int t, enum pass derivative)
{
    const struct rows dh = loop_backward_slot(loop, RNN_DH);
    sum_dh(loop, t, dh);
    loop_pass(loop, derivative, loop_gate(loop, loop->dgates_x, 0), dh, loop_h(loop, t + 1));
}

static void rnn_tanh_forward(struct loop *loop, int t)
{
    rnn_forward(loop, t, PASS_TANH);
}

static void rnn_tanh_backward(struct loop *loop, int t)
{
    rnn_backward(loop, t, PASS_D_TANH);
}

static void rnn_relu_forward(struct loop *loop, int t)
{
    rnn_forward(loop, t, PASS_RELU);
}

static void rnn_relu_backward(struct loop *loop, int t)
{
    rnn_backward(loop, t, PASS_D_RELU);
}

/* ---- lstm ---- */

enum { LSTM_I, LSTM_F, LSTM_G, LSTM_O, LSTM_C, LSTM_TANH_C, LSTM_FC, LSTM_IG, LSTM_SLOTS };
enum {
    LSTM_DH,
    LSTM_DO,
    LSTM_DTANH,
    LSTM_DC_H,
    LSTM_DC,
    LSTM_DC_NEXT,
    LSTM_DGATE,
    LSTM_BACKWARD_SLOTS
};

static struct rows lstm_c(const struct loop *loop, int t)
{
    return t < 0 ? (struct rows){loop->zeros, loop->H} : loop_slot(loop, LSTM_C, t);
}

static void lstm_forward(struct loop *loop, int t)
{
    static const enum pass activation[] = {PASS_SIGMOID, PASS_SIGMOID, PASS_TANH, PASS_SIGMOID};
    struct rows gate[4];
    for (int g = 0; g < 4; g++) {
        const struct rows a = loop_gate(loop, loop->gates_x, g);
        gate[g] = loop_slot(loop, LSTM_I + g, t);
        loop_pass(loop, activation[g], gate[g], a, a);
    }
    const struct rows fc = loop_slot(loop, LSTM_FC, t), ig = loop_slot(loop, LSTM_IG, t);
    const struct rows c = lstm_c(loop, t), tanh_c = loop_slot(loop, LSTM_TANH_C, t);
    loop_pass(loop, PASS_MUL, fc, gate[LSTM_F], lstm_c(loop, t - 1));
    loop_pass(loop, PASS_MUL, ig, gate[LSTM_I], gate[LSTM_G]);
    loop_pass(loop, PASS_ADD, c, fc, ig);
    loop_pass(loop, PASS_TANH, tanh_c, c, c);
    loop_pass(loop, PASS_MUL, loop_h(loop, t + 1), gate[LSTM_O], tanh_c);
}

static void lstm_backward(struct loop *loop, int t)
{
    const struct rows i = loop_slot(loop, LSTM_I, t), f = loop_slot(loop, LSTM_F, t);
    const struct rows g = loop_slot(loop, LSTM_G, t), o = loop_slot(loop, LSTM_O, t);
    const struct rows tanh_c = loop_slot(loop, LSTM_TANH_C, t);
    const struct rows dh = loop_backward_slot(loop, LSTM_DH);
    const struct rows d_o = loop_backward_slot(loop, LSTM_DO);
    const struct rows dtanh = loop_backward_slot(loop, LSTM_DTANH);
    const struct rows dc_h = loop_backward_slot(loop, LSTM_DC_H);
    const struct rows dc = loop_backward_slot(loop, LSTM_DC);
    const struct rows dc_next = loop_backward_slot(loop, LSTM_DC_NEXT);
    const struct rows dgate = loop_backward_slot(loop, LSTM_DGATE);
    sum_dh(loop, t, dh);
    loop_pass(loop, PASS_MUL, d_o, dh, tanh_c);
    loop_pass(loop, PASS_D_SIGMOID, loop_gate(loop, loop->dgates_x, 3), d_o, o);
    loop_pass(loop, PASS_MUL, dtanh, dh, o);
    loop_pass(loop, PASS_D_TANH, dc_h, dtanh, tanh_c);
    loop_pass(loop, PASS_ADD, dc, dc_h, dc_next);
    loop_pass(loop, PASS_MUL, dgate, dc, g);
    loop_pass(loop, PASS_D_SIGMOID, loop_gate(loop, loop->dgates_x, 0), dgate, i);
    loop_pass(loop, PASS_MUL, dgate, dc, lstm_c(loop, t - 1));
    loop_pass(loop, PASS_D_SIGMOID, loop_gate(loop, loop->dgates_x, 1), dgate, f);
    loop_pass(loop, PASS_MUL, dgate, dc, i);
    loop_pass(loop, PASS_D_TANH, loop_gate(loop, loop->dgates_x, 2), dgate, g);
    loop_pass(loop, PASS_MUL, dc_next, dc, f);
}

/* ---- gru, reset after the product ---- */

enum { GRU_R, GRU_Z, GRU_N, GRU_Q, GRU_SUM, GRU_RQ, GRU_KEEP, GRU_NEW, GRU_OLD, GRU_SLOTS };
enum { GRU_DH, GRU_DN, GRU_DZ_OLD, GRU_DZ_NEW, GRU_DZ, GRU_DR, GRU_BACKWARD_SLOTS };

static void gru_forward(struct loop *loop, int t)
{
    const struct rows r = loop_slot(loop, GRU_R, t), z = loop_slot(loop, GRU_Z, t);
    const struct rows n = loop_slot(loop, GRU_N, t), q = loop_slot(loop, GRU_Q, t);
    const struct rows sum = loop_slot(loop, GRU_SUM, t), rq = loop_slot(loop, GRU_RQ, t);
    const struct rows keep = loop_slot(loop, GRU_KEEP, t), fresh = loop_slot(loop, GRU_NEW, t);
    const struct rows old = loop_slot(loop, GRU_OLD, t), a = loop_gate(loop, loop->gates_h, 2);
    const struct rows gate[] = {r, z};
    for (int g = 0; g < 2; g++) {
        loop_pass(loop, PASS_ADD, sum, loop_gate(loop, loop->gates_x, g),
                  loop_gate(loop, loop->gates_h, g));
        loop_pass(loop, PASS_SIGMOID, gate[g], sum, sum);
    }
    if (loop->problem->training) /* the next step overwrites the products */
        loop_pass(loop, PASS_COPY, q, a, a);
    loop_pass(loop, PASS_MUL, rq, r, a);
    loop_pass(loop, PASS_ADD, sum, loop_gate(loop, loop->gates_x, 2), rq);
    loop_pass(loop, PASS_TANH, n, sum, sum);
    loop_pass(loop, PASS_ONE_MINUS, keep, z, z);
    loop_pass(loop, PASS_MUL, fresh, keep, n);
    loop_pass(loop, PASS_MUL, old, z, loop_h(loop, t));
    loop_pass(loop, PASS_ADD, loop_h(loop, t + 1), fresh, old);
}

static void gru_backward(struct loop *loop, int t)
{
    const struct rows r = loop_slot(loop, GRU_R, t), z = loop_slot(loop, GRU_Z, t);
    const struct rows n = loop_slot(loop, GRU_N, t), q = loop_slot(loop, GRU_Q, t);
    const struct rows dh = loop_backward_slot(loop, GRU_DH), dn = loop_backward_slot(loop, GRU_DN);
    const struct rows dz_old = loop_backward_slot(loop, GRU_DZ_OLD);
    const struct rows dz_new = loop_backward_slot(loop, GRU_DZ_NEW);
    const struct rows dz = loop_backward_slot(loop, GRU_DZ), dr = loop_backward_slot(loop, GRU_DR);
    struct rows x[3], h[3];
    for (int g = 0; g < 3; g++) {
        x[g] = loop_gate(loop, loop->dgates_x, g);
        h[g] = loop_gate(loop, loop->dgates_h, g);
    }
    sum_dh(loop, t, dh);
    loop_pass(loop, PASS_MUL, dn, dh, loop_slot(loop, GRU_KEEP, t));
    loop_pass(loop, PASS_D_TANH, x[2], dn, n);
    loop_pass(loop, PASS_MUL, h[2], x[2], r);
    loop_pass(loop, PASS_MUL, dr, x[2], q);
    loop_pass(loop, PASS_D_SIGMOID, x[0], dr, r);
    loop_pass(loop, PASS_MUL, dz_old, dh, loop_h(loop, t));
    loop_pass(loop, PASS_MUL, dz_new, dh, n);
    loop_pass(loop, PASS_SUB, dz, dz_old, dz_new);
    loop_pass(loop, PASS_D_SIGMOID, x[1], dz, z);
    loop_pass(loop, PASS_COPY, h[0], x[0], x[0]);
    loop_pass(loop, PASS_COPY, h[1], x[1], x[1]);
    loop_pass(loop, PASS_MUL, (struct rows){loop->dh, loop->H}, dh, z);
}

/* clang-format off */
const struct loop_cell loop_cells[] = {
    {"rnn-tanh", 1, false, 0, RNN_BACKWARD_SLOTS, rnn_tanh_forward, rnn_tanh_backward},
    {"rnn-relu", 1, false, 0, RNN_BACKWARD_SLOTS, rnn_relu_forward, rnn_relu_backward},
    {"lstm", 4, false, LSTM_SLOTS, LSTM_BACKWARD_SLOTS, lstm_forward, lstm_backward},
    {"gru", 3, true, GRU_SLOTS, GRU_BACKWARD_SLOTS, gru_forward, gru_backward},
};
/* clang-format on */
const int loop_cell_count = sizeof loop_cells / sizeof *loop_cells;
