"""
Networks with gates, by the equations of their papers.
"""
import numpy as np

from gradient import clip, exp, maximum, of, relu, sigmoid, stop, tanh, where
from layer import lstm, lstm_memory, sums


def atr(L, x, h):
    p, q = L.W("u"), L.R("q", h)
    return [sigmoid(p + q) * p + sigmoid(p - q) * h]


def augru(L, x, h):
    u, r = L.part("a") * sigmoid(L.sum("u", h)), sigmoid(L.sum("r", h))
    return [h + u * (tanh(L.sum("n", r * h)) - h)]


def binary_gru(L, x, h):
    s = where(h.a > 0, 1, -1) + clip(h, -1, 1)
    s = s - stop(clip(h, -1, 1))
    w = L.p("w")
    rounded = w + stop(of(np.where(w.a > 0.5, 1.0, np.where(w.a < -0.5, -1.0, 0.0)) - w.a))
    z = sigmoid(L.sum("z", s))
    n = tanh(L.sum("n", s) + rounded * h)
    return [n + z * (h - n)]


def brc(L, x, h):
    a = 1 + tanh(L.sum("a") + L.p("a") * h)
    c = sigmoid(L.sum("c") + L.p("c") * h)
    return [c * h + (1 - c) * tanh(L.sum("h") + a * h)]


def nbrc(L, x, h):
    a, c = 1 + tanh(L.sum("a", h)), sigmoid(L.sum("c", h))
    return [c * h + (1 - c) * tanh(L.sum("h") + a * h)]


def cfc(L, x, h):
    s = 1.7159 * tanh(0.666 * L.sum("s", h))
    f, g, k = (L.R(line, s) + L.b(line) for line in "fgk")
    k = sigmoid(k)
    return [tanh(f) * (1 - k) + k * tanh(g)]


def cfn(L, x, h):
    return [sigmoid(L.sum("t", h)) * tanh(h) + sigmoid(L.sum("i", h)) * tanh(L.W("g"))]


def cornn(L, x, h, z):
    dt, gamma, epsilon = 0.05, 1.5, 2
    force = tanh(L.sum("z", h) + L.R("q", z))
    z = z + dt * force - dt * gamma * h - dt * epsilon * z
    return [h + dt * z, z]


def echo_state(L, x, h):
    learned = L.p("h")
    return [0.7 * h + 0.3 * tanh(learned * stop(L.sum("a", h)))]


def exponential_lstm(L, x, h, c, n, m):
    i, g, o = L.sum("i", h), tanh(L.sum("g", h)), sigmoid(L.sum("o", h))
    largest = maximum(m, i)
    c = c * exp(m - largest) + g * exp(i - largest)
    n = n * exp(m - largest) + exp(i - largest)
    return [o * c / (n + 1e-6), c, n, largest]


def fastrnn(L, x, h):
    return [sigmoid(L.p("k")) * tanh(L.sum("g", h)) + sigmoid(L.p("n")) * h]


def fastgrnn(L, x, h):
    a = L.plain("a", h)
    z, g = sigmoid(a + L.b("z")), tanh(a + L.b("g"))
    return [(sigmoid(L.p("k")) * (1 - z) + sigmoid(L.p("n"))) * g + z * h]


def gru_d(L, x, h):
    s = exp(-relu(L.p("g") * L.part("d") + L.b("g"))) * h
    r, z = sigmoid(L.sum("r", s)), sigmoid(L.sum("z", s))
    return [s + z * (tanh(L.sum("h", r * s)) - s)]


def indrnn(L, x, h):
    return [relu(L.sum("h") + L.p("h") * h)]


def intersection_rnn(L, x, y, h):
    k, g = sigmoid(L.sum("k", h)), sigmoid(L.sum("g", h))
    return [k * x + (1 - k) * relu(L.sum("d", h)), g * h + (1 - g) * tanh(L.sum("n", h))]


def janet(L, x, h):
    s, g = L.sum("s", h), tanh(L.sum("g", h))
    return [sigmoid(s) * h + (1 - sigmoid(s - 1)) * g]


def lem(L, x, y, z):
    d, e = sigmoid(L.sum("d", y)), sigmoid(L.sum("e", y))
    z = z + d * (tanh(L.sum("g", y)) - z)
    return [y + e * (tanh(L.sum("n", z)) - y), z]


def li_gru(L, x, h):
    z = sigmoid(L.part("u") + L.R("z", h))
    return [z * h + (1 - z) * relu(L.part("v") + L.R("h", h))]


def li_gru_plain(L, x, h):
    z = sigmoid(L.sum("z", h))
    return [z * h + (1 - z) * relu(L.sum("n", h))]


def local_lstm(L, x, h, c):
    return lstm(L, stop(h), c)


def lstm_1997(L, x, h, c):
    c = c + sigmoid(L.sum("i", h)) * tanh(L.sum("g", h))
    return sigmoid(L.sum("o", h)) * tanh(c), c


def minimal_rnn(L, x, h):
    z = tanh(L.sum("z"))
    u = sigmoid(L.R("u", h) + L.R("q", z) + L.b("u"))
    return [u * h + (1 - u) * z]


def multiplicative_lstm(L, x, h, c):
    m = L.W("q") * L.R("m", h)
    c = sigmoid(L.sum("f", m)) * c + sigmoid(L.sum("i", m)) * L.sum("g", m)
    return tanh(c * sigmoid(L.sum("o", m))), c


def mut1(L, x, h):
    z, r = sigmoid(L.sum("z")), sigmoid(L.sum("r", h))
    n = tanh(L.R("n", r * h) + tanh(L.W("q")) + L.b("n"))
    return [n * z + h * (1 - z)]


def mut2(L, x, h, seen=lambda h: h):
    z, r = sigmoid(L.sum("z", seen(h))), sigmoid(L.sum("r", h))
    return [tanh(L.sum("n", r * h)) * z + h * (1 - z)]


def mut3(L, x, h):
    return mut2(L, x, h, seen=tanh)


def nas(L, x, h, c):
    a, d, e, g, i, j, k = sums(L, "a d e g i j k", h)
    f = L.W("x3") * L.R("r3", h)
    c = tanh(tanh(sigmoid(a) * relu(d)) + c) * tanh(sigmoid(e) + relu(f))
    return tanh(c * tanh(tanh(tanh(g) * sigmoid(i)) + sigmoid(tanh(j) + sigmoid(k)))), c


def phased_lstm(L, x, h, c, t):
    t = t + sigmoid(L.p("q") + 0.3)
    t = where(t.a > 1, t - 1, t)
    k = where(t.a > 0.1, 0.001 * t, where(t.a > 0.05, 2 - 20 * t, 20 * t))
    i = sigmoid(L.sum("i", h) + L.p("i") * c)
    f = sigmoid(L.sum("f", h) + L.p("f") * c)
    u = f * c + i * tanh(L.sum("g", h))
    o = sigmoid(L.sum("o", h) + L.p("o") * u)
    return k * o * tanh(u) + (1 - k) * h, k * u + (1 - k) * c, t


def ran(L, x, h, c):
    c = sigmoid(L.sum("i", h)) * L.W("g") + sigmoid(L.sum("f", h)) * c
    return tanh(c), c


def residual_lstm(L, x, h, c):
    i = sigmoid(L.sum("i", h) + L.p("i") * c)
    f = sigmoid(L.sum("f", h) + L.p("f") * c)
    c = f * c + i * tanh(L.sum("g", h))
    o = sigmoid(L.sum("o", h) + L.p("o") * c)
    return o * (L.R("h", tanh(c)) + L.W("h")), c


def rhn(L, x, h):
    t = sigmoid(L.sum("t", h))
    s = h + t * (tanh(L.sum("g", h)) - h)
    k = sigmoid(L.R("k", s) + L.b("k"))
    return [s + k * (tanh(L.R("n", s) + L.b("n")) - s)]


def scrn(L, x, h, s):
    s = 0.05 * L.W("s") + 0.95 * s
    return sigmoid(L.R("q", s) + L.plain("h", h)), s


def sru_peephole(L, x, h, c):
    f = sigmoid(L.sum("f") + L.p("f") * c)
    r = sigmoid(L.sum("r") + L.p("r") * c)
    c = f * c + (1 - f) * L.W("u")
    return r * c + (1 - r) * x, c


def star(L, x, h):
    k = sigmoid(L.sum("k", h))
    return [tanh((1 - k) * h + k * tanh(L.sum("z")))]


def t_gru(L, x, h, v):
    return sigmoid(L.sum("f", v)) * h + L.sum("z", v) * tanh(L.sum("o", v)), x


def t_lstm(L, x, h, c, v):
    f = sigmoid(L.sum("f", v))
    c = f * c + (1 - f) * L.sum("z", v)
    return c * tanh(L.sum("o", v)), c, x


def ugrnn(L, x, h):
    g = sigmoid(L.sum("g", h) + 1)
    return [g * h + (1 - g) * tanh(L.sum("c", h))]


def unicornn(L, x, y, z):
    d = 0.1 * sigmoid(L.p("d"))
    z = z - d * (tanh(L.p("z") * y + L.sum("z")) + y)
    return y + d * z, z


def wmc_lstm(L, x, h, c):
    def seen(line, c):
        return tanh(L.R(line, c) + L.b(line))

    i = sigmoid(L.sum("i", h) + seen("mi", c))
    f = sigmoid(L.sum("f", h) + seen("mf", c))
    c = f * c + i * tanh(L.sum("g", h))
    return sigmoid(L.sum("o", h) + seen("mo", c)) * tanh(c), c


# ---- dropout: what is expected of each draw, as outside training ---------------------------------

def recurrent_dropout_lstm(L, x, h, c):
    return lstm(L, h, c)


variational_lstm = recurrent_dropout_lstm


def zoneout_gru(L, x, h):
    r, z = sigmoid(L.sum("r", h)), sigmoid(L.sum("z", h))
    n = tanh(L.sum("n") + r * (L.R("q", h) + L.b("q")))
    return [0.1 * h + 0.9 * (n + z * (h - n))]


def zoneout_lstm(L, x, h, c):
    u, o = lstm_memory(L, h, c)
    return 0.05 * h + 0.95 * o * tanh(u), 0.5 * c + 0.5 * u
