/*
 * LSTM, GRU and plain RNN from their equations by hand, one layer, forward in time: outputs, final
 * states and all gradients.  Uses nothing of the library, so that it can check the reference; the
 * names of the gates are those of ecornn's parameters.
 */
#include "tests/kit/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 }; /* of I and H */

/* One layer: its parameters as loaded and their gradients, by gate. */
struct gate {
    double W[MOST][MOST], R[MOST][MOST], b[MOST];
    double dW[MOST][MOST], dR[MOST][MOST], db[MOST];
};

/* What a step of one row computed. */
struct step {
    double x[MOST], h[MOST], c[MOST]; /* its input and the states before it */
    double a[4][MOST];                /* gates after their activation; gru: r z n q */
    double c1[MOST], h1[MOST];        /* the states after it */
};

struct net {
    int T, N, I, H;
    const char *gates; /* one letter each */
    struct gate gate[4];
};

static double sigmoid(double a)
{
    return 1 / (1 + exp(-a));
}

/* out = R_gate h, in part: one element. */
static double recurrent(const struct net *net, int gate, const double *h, int j)
{
    double sum = 0;
    for (int k = 0; k < net->H; k++)
        sum += net->gate[gate].R[j][k] * h[k];
    return sum;
}

static double input(const struct net *net, int gate, const double *x, int j)
{
    double sum = 0;
    for (int k = 0; k < net->I; k++)
        sum += net->gate[gate].W[j][k] * x[k];
    return sum;
}

/* The gradient da of gate's W x at unit j to W and x. */
static void input_back(struct net *net, int gate, double da, int j, const double *x, double *dx)
{
    for (int k = 0; k < net->I; k++) {
        net->gate[gate].dW[j][k] += da * x[k];
        dx[k] += da * net->gate[gate].W[j][k];
    }
}

static void recurrent_back(struct net *net, int gate, double da, int j, const double *h, double *dh)
{
    for (int k = 0; k < net->H; k++) {
        net->gate[gate].dR[j][k] += da * h[k];
        dh[k] += da * net->gate[gate].R[j][k];
    }
    net->gate[gate].db[j] += da;
}

/* ---- LSTM: i f g o; c1 = f c + i g, h1 = o tanh(c1) ------------------------------------------ */

static void lstm_step(struct net *net, struct step *s)
{
    for (int j = 0; j < net->H; j++) {
        for (int k = 0; k < 4; k++) {
            const double a =
                input(net, k, s->x, j) + recurrent(net, k, s->h, j) + net->gate[k].b[j];
            s->a[k][j] = net->gates[k] == 'g' ? tanh(a) : sigmoid(a);
        }
        s->c1[j] = s->a[1][j] * s->c[j] + s->a[0][j] * s->a[2][j];
        s->h1[j] = s->a[3][j] * tanh(s->c1[j]);
    }
}

/* dh, dc: gradients of h1 and c1 in, of h and c out. */
static void lstm_back(struct net *net, const struct step *s, double *dh, double *dc, double *dx)
{
    double dh0[MOST] = {0};
    for (int j = 0; j < net->H; j++) {
        const double i = s->a[0][j], f = s->a[1][j], g = s->a[2][j], o = s->a[3][j];
        const double tanh_c = tanh(s->c1[j]);
        const double dc1 = dc[j] + dh[j] * o * (1 - tanh_c * tanh_c);
        const double da[4] = {dc1 * g * i * (1 - i), dc1 * s->c[j] * f * (1 - f),
                              dc1 * i * (1 - g * g), dh[j] * tanh_c * o * (1 - o)};
        for (int k = 0; k < 4; k++) {
            input_back(net, k, da[k], j, s->x, dx);
            recurrent_back(net, k, da[k], j, s->h, dh0);
        }
        dc[j] = dc1 * f;
    }
    memcpy(dh, dh0, sizeof dh0);
}

/* ---- GRU: r z n q; q = R h + b, n = tanh(W x + b + r q), h1 = (1 - z) n + z h ---------------- */

static void gru_step(struct net *net, struct step *s)
{
    for (int j = 0; j < net->H; j++) {
        for (int k = 0; k < 2; k++)
            s->a[k][j] =
                sigmoid(input(net, k, s->x, j) + recurrent(net, k, s->h, j) + net->gate[k].b[j]);
        s->a[3][j] = recurrent(net, 3, s->h, j) + net->gate[3].b[j];
        s->a[2][j] = tanh(input(net, 2, s->x, j) + net->gate[2].b[j] + s->a[0][j] * s->a[3][j]);
        s->h1[j] = (1 - s->a[1][j]) * s->a[2][j] + s->a[1][j] * s->h[j];
    }
}

static void gru_back(struct net *net, const struct step *s, double *dh, double *dc, double *dx)
{
    double dh0[MOST] = {0};
    (void)dc;
    for (int j = 0; j < net->H; j++) {
        const double r = s->a[0][j], z = s->a[1][j], n = s->a[2][j], q = s->a[3][j];
        const double da_n = dh[j] * (1 - z) * (1 - n * n), dq = da_n * r;
        const double da_r = da_n * q * r * (1 - r);
        const double da_z = dh[j] * (s->h[j] - n) * z * (1 - z);
        input_back(net, 0, da_r, j, s->x, dx);
        input_back(net, 1, da_z, j, s->x, dx);
        input_back(net, 2, da_n, j, s->x, dx);
        recurrent_back(net, 0, da_r, j, s->h, dh0);
        recurrent_back(net, 1, da_z, j, s->h, dh0);
        recurrent_back(net, 3, dq, j, s->h, dh0);
        net->gate[2].db[j] += da_n;
        dh0[j] += dh[j] * z;
    }
    memcpy(dh, dh0, sizeof dh0);
}

/* ---- plain: h1 = tanh(W x + R h + b), or max(0, ...) ----------------------------------------- */

static double plain_sum(const struct net *net, const struct step *s, int j)
{
    return input(net, 0, s->x, j) + recurrent(net, 0, s->h, j) + net->gate[0].b[j];
}

static void tanh_step(struct net *net, struct step *s)
{
    for (int j = 0; j < net->H; j++)
        s->h1[j] = tanh(plain_sum(net, s, j));
}

static void relu_step(struct net *net, struct step *s)
{
    for (int j = 0; j < net->H; j++)
        s->h1[j] = fmax(0, plain_sum(net, s, j));
}

static void plain_back(struct net *net, const struct step *s, const double *slope, double *dh,
                       double *dx)
{
    double dh0[MOST] = {0};
    for (int j = 0; j < net->H; j++) {
        input_back(net, 0, dh[j] * slope[j], j, s->x, dx);
        recurrent_back(net, 0, dh[j] * slope[j], j, s->h, dh0);
    }
    memcpy(dh, dh0, sizeof dh0);
}

static void tanh_back(struct net *net, const struct step *s, double *dh, double *dc, double *dx)
{
    double slope[MOST];
    (void)dc;
    for (int j = 0; j < net->H; j++)
        slope[j] = 1 - s->h1[j] * s->h1[j];
    plain_back(net, s, slope, dh, dx);
}

static void relu_back(struct net *net, const struct step *s, double *dh, double *dc, double *dx)
{
    double slope[MOST];
    (void)dc;
    for (int j = 0; j < net->H; j++)
        slope[j] = plain_sum(net, s, j) > 0;
    plain_back(net, s, slope, dh, dx);
}

static const struct kind {
    const char *cell, *gates;
    int states;
    void (*step)(struct net *, struct step *);
    void (*back)(struct net *, const struct step *, double *, double *, double *);
} kinds[] = {
    {"lstm", "ifgo", 2, lstm_step, lstm_back},
    {"gru", "rznq", 1, gru_step, gru_back},
    {"rnn-tanh", "h", 1, tanh_step, tanh_back},
    {"rnn-relu", "h", 1, relu_step, relu_back},
};

/* ---- parameters and sequences ---------------------------------------------------------------- */

/* Copies matrices W R b of every gate from the inputs, or their gradients to the results. */
static void move_param(struct net *net, int k, char letter, const struct data *inputs,
                       struct data *results)
{
    char name[32], dname[40];
    snprintf(name, sizeof name, "0.fwd.%c.%c", letter, net->gates[k]);
    snprintf(dname, sizeof dname, "d:%s", name);
    const struct array *from = data_find(inputs, name);
    if (!from) /* a GRU has neither R.n nor W.q */
        return;
    struct gate *gate = &net->gate[k];
    struct array *to = results ? data_add(results, dname, from->rank, from->extent) : NULL;
    const int rows = from->extent[0], cols = from->extent[1];
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < cols; i++) {
            double *param = letter == 'W'   ? &gate->W[j][i]
                            : letter == 'R' ? &gate->R[j][i]
                                            : &gate->b[j];
            const double *dparam = letter == 'W'   ? &gate->dW[j][i]
                                   : letter == 'R' ? &gate->dR[j][i]
                                                   : &gate->db[j];
            if (to)
                to->value[j * cols + i] = *dparam;
            else
                *param = from->value[j * cols + i];
        }
}

static void move_params(struct net *net, const struct data *inputs, struct data *results)
{
    for (int k = 0; net->gates[k]; k++)
        for (const char *letter = "WRb"; *letter; letter++)
            move_param(net, k, *letter, inputs, results);
}

/* Element j of state s of row n in an input array, 0 where it is not given. */
static double state_input(const struct data *inputs, const char *kind, int s, int at)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", kind, s);
    const struct array *array = data_find(inputs, name);
    return array ? array->value[at] : 0;
}

struct sink {                                                  /* the result arrays */
    struct array *y, *dx, *final[2], *dinitial[2], *dstart[2]; /* the last: or NULL */
};

static bool is_reset(const struct net *net, const struct data *inputs, int t, int n)
{
    const struct array *resets = data_find(inputs, "resets");
    return resets && resets->value[t * net->N + n] != 0;
}

/* The states before a step are those that row n starts from, ... */
static void start_anew(const struct net *net, struct step *step, int n, const struct data *inputs)
{
    for (int j = 0; j < net->H; j++) {
        step->h[j] = state_input(inputs, "start", 0, n * net->H + j);
        step->c[j] = state_input(inputs, "start", 1, n * net->H + j);
    }
}

/* ... and have their gradients. */
static void end_back(const struct net *net, int n, const struct sink *sink, double *d, int s)
{
    for (int j = 0; j < net->H; j++)
        if (sink->dstart[s])
            sink->dstart[s]->value[n * net->H + j] += d[j];
    memset(d, 0, MOST * sizeof *d);
}

/* Row n forward and back. */
static void run_row(struct net *net, const struct kind *kind, int n, const struct data *inputs,
                    const struct sink *sink)
{
    const int T = net->T, N = net->N, I = net->I, H = net->H;
    const struct array *x = data_find(inputs, "x"), *dy = data_find(inputs, "dy");
    struct step *step = calloc((size_t)T + 1, sizeof *step); /* [T] only its states */
    double dh[MOST] = {0}, dc[MOST] = {0};
    for (int j = 0; j < H; j++) {
        step[0].h[j] = state_input(inputs, "initial", 0, n * H + j);
        step[0].c[j] = state_input(inputs, "initial", 1, n * H + j);
        dh[j] = state_input(inputs, "dfinal", 0, n * H + j);
        dc[j] = state_input(inputs, "dfinal", 1, n * H + j);
    }
    for (int t = 0; t < T; t++) {
        memcpy(step[t].x, x->value + (t * N + n) * I, (size_t)I * sizeof(double));
        if (is_reset(net, inputs, t, n))
            start_anew(net, &step[t], n, inputs);
        kind->step(net, &step[t]);
        memcpy(step[t + 1].h, step[t].h1, sizeof step[t].h1);
        memcpy(step[t + 1].c, step[t].c1, sizeof step[t].c1);
        memcpy(sink->y->value + (t * N + n) * H, step[t].h1, (size_t)H * sizeof(double));
    }
    for (int t = T - 1; t >= 0; t--) {
        for (int j = 0; dy && j < H; j++)
            dh[j] += dy->value[(t * N + n) * H + j];
        kind->back(net, &step[t], dh, dc, sink->dx->value + (t * N + n) * I);
        if (is_reset(net, inputs, t, n)) {
            end_back(net, n, sink, dh, 0);
            end_back(net, n, sink, dc, 1);
        }
    }
    for (int s = 0; s < kind->states; s++)
        for (int j = 0; j < H; j++) {
            sink->final[s]->value[n * H + j] = s == 0 ? step[T].h[j] : step[T].c[j];
            sink->dinitial[s]->value[n * H + j] = s == 0 ? dh[j] : dc[j];
        }
    free(step);
}

void textbook_run(const char *cell, const struct data *inputs, struct data *results)
{
    const struct kind *kind = kinds;
    while (strcmp(kind->cell, cell) != 0)
        kind++;
    char name[32];
    snprintf(name, sizeof name, "0.fwd.W.%c", kind->gates[0]);
    const struct array *x = data_find(inputs, "x"), *W = data_find(inputs, name);
    struct net *net = calloc(1, sizeof *net);
    net->T = x->extent[0], net->N = x->extent[1], net->I = x->extent[2], net->H = W->extent[0];
    net->gates = kind->gates;
    if (net->I > MOST || net->H > MOST)
        abort();
    /* an array is found again by name: adding one may move the others */
    data_add(results, "y", 3, (int32_t[]){net->T, net->N, net->H});
    data_add(results, "dx", 3, x->extent);
    for (int s = 0; s < kind->states; s++) {
        const int32_t extent[] = {1, net->N, net->H};
        data_add(results, s == 0 ? "final0" : "final1", 3, extent);
        data_add(results, s == 0 ? "dinitial0" : "dinitial1", 3, extent);
        if (data_find(inputs, "resets"))
            data_add(results, s == 0 ? "dstart0" : "dstart1", 3, extent);
    }
    struct sink sink = {data_find(results, "y"),
                        data_find(results, "dx"),
                        {data_find(results, "final0"), data_find(results, "final1")},
                        {data_find(results, "dinitial0"), data_find(results, "dinitial1")},
                        {data_find(results, "dstart0"), data_find(results, "dstart1")}};
    move_params(net, inputs, NULL);
    for (int n = 0; n < net->N; n++)
        run_row(net, kind, n, inputs, &sink);
    move_params(net, inputs, results);
    free(net);
}
