"""
Networks with norms, by the equations of their papers and of the packages that have them.
"""
from gradient import mean, sigmoid, sqrt, tanh


def normed(sums, epsilon, subtract=True):
    """Layer norm over several sums together, without gain and shift."""
    middle = mean(*sums) if subtract else 0
    sums = [a - middle for a in sums]
    return [a / sqrt(mean(*[b * b for b in sums]) + epsilon) for a in sums]


def scaled(L, line, a):
    return L.p(line) * a + L.b(line)


def block_gru(L, x, h):
    r, n, z = normed([L.plain(line, h) for line in ("ar", "an", "az")], 1e-3)
    r = sigmoid(L.p("r") * r + L.b("r"))
    n = tanh(r * (L.p("n") * n + L.b("n")))
    z = sigmoid(L.p("z") * z + L.b("z") - 1)
    return [h + z * (n - h)]


def norm_gru_haste(L, x, h):
    z, r, n = normed([L.W("x" + g) for g in "zrn"], 1e-5)
    qz, qr, qn = normed([L.R("r" + g, h) for g in "zrn"], 1e-5)
    z = sigmoid(L.p("z") * qz + scaled(L, "uz", z))
    r = sigmoid(L.p("r") * qr + scaled(L, "ur", r))
    n = tanh(r * scaled(L, "v", qn) + scaled(L, "un", n))
    return [z * h + (1 - z) * n]


def norm_indrnn_haste(L, x, h):
    a, = normed([L.W("a")], 1e-5)
    return [tanh(scaled(L, "h", a) + L.p("u") * h)]


def norm_lstm_haste(L, x, h, c):
    of_x = normed([L.W("x" + g) for g in "ifgo"], 1e-5)
    of_h = normed([L.R("r" + g, h) for g in "ifgo"], 1e-5)
    i, f, g, o = (L.p(g) * a + scaled(L, "u" + g, q) for g, a, q in zip("ifgo", of_x, of_h))
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(scaled(L, "m", normed([c], 1e-5)[0])), c


def norm_lstm_tf1(L, x, h, c):
    i, f, g, o = (scaled(L, g, normed([L.plain("a" + g, h)], 1e-12)[0]) for g in "ifgo")
    c = scaled(L, "c", normed([sigmoid(f + 1) * c + sigmoid(i) * tanh(g)], 1e-12)[0])
    return sigmoid(o) * tanh(c), c


def norm_lstm_torch(L, x, h, c):
    of_x = normed([L.W("x" + g) for g in "ifgo"], 1e-5)
    of_h = normed([L.R("r" + g, h) for g in "ifgo"], 1e-5)
    i, f, g, o = (scaled(L, g, q) + scaled(L, "u" + g, a) for g, a, q in zip("ifgo", of_x, of_h))
    c = scaled(L, "c", normed([sigmoid(f) * c + sigmoid(i) * tanh(g)], 1e-5)[0])
    return sigmoid(o) * tanh(c), c


def norm_rnn(L, x, h):
    a, = normed([L.plain("a", h)], 1e-5)
    return [tanh(scaled(L, "h", a))]


def rms_gru(L, x, h):
    r, z, q = normed([L.plain("ar", h), L.plain("az", h), L.R("q", h)], 1e-5, subtract=False)
    r, z = sigmoid(scaled(L, "r", r)), sigmoid(scaled(L, "z", z))
    n = tanh(L.sum("n") + r * (L.p("n") * q))
    return [(1 - z) * n + z * h]


def rms_lstm(L, x, h, c):
    a = normed([L.plain("a" + g, h) for g in "ifgo"], 1e-5, subtract=False)
    i, f, g, o = (scaled(L, g, s) for g, s in zip("ifgo", a))
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c
