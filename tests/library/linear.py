"""
Linear recurrences, by the equations of their papers.
"""
import numpy as np

from gradient import exp, function, relu, sigmoid, softplus, sqrt


def causal_conv(L, x, y, d1, d2, d3):
    z = L.p("z0") * d3 + L.p("z1") * d2 + L.p("z2") * d1 + L.p("z") * x + L.b("z")
    return z * sigmoid(z), x, d1, d2


def d_linoss(L, x, y, z):
    a, g, d = relu(L.p("a")), relu(L.p("g")), sigmoid(L.p("d"))
    z = (z + d * (L.W("z") - a * y)) / (1 + d * g)
    return y + d * z, z


def linoss_im(L, x, y, z):
    """Solves z' = z + d (f - a y'), y' = y + d z' for both."""
    a, d, force = relu(L.p("a")), sigmoid(L.p("d")), L.W("z")
    y = (y + d * z + d * d * force) / (1 + d * d * a)
    return y, z + d * (force - a * y)


def linoss_imex(L, x, y, z):
    a, d = relu(L.p("a")), sigmoid(L.p("d"))
    z = z + d * (L.W("z") - a * y)
    return y + d * z, z


def lru(L, x, h, g):
    """The eigenvalue by its size and its angle."""
    size, angle = exp(-exp(L.p("r"))), 2 * np.arctan(L.p("t").a)
    half = L.p("t")
    turn = Turn(half, angle)
    k = sqrt(1 - size * size + 1e-12)
    return (size * (turn.cos * h - turn.sin * g) + k * L.W("h"),
            size * (turn.sin * h + turn.cos * g) + k * L.W("g"))


class Turn:
    """Cosine and sine of an angle, with gradients to the tangent of half of it."""

    def __init__(self, half, angle):
        slope = 2 / (1 + half.a ** 2)
        self.cos = function(half, np.cos(angle), -np.sin(angle) * slope)
        self.sin = function(half, np.sin(angle), np.cos(angle) * slope)


def rg_lru(L, x, h):
    r, i = sigmoid(L.sum("r")), sigmoid(L.sum("i"))
    a = exp(-8 * softplus(L.p("l")) * r)
    return [a * h + sqrt(1 - a * a + 1e-12) * (i * x)]


def s5(L, x, h, g):
    """The implicit form: the right side, divided by 1 - z."""
    d = exp(L.p("d"))
    re, im = -exp(L.p("k")) * d / 2, L.p("m") * d / 2
    right = h + re * h - im * g + d * L.W("r"), g + re * g + im * h + d * L.W("s")
    size = (1 - re) * (1 - re) + im * im
    return ((right[0] * (1 - re) - right[1] * im) / size,
            (right[0] * im + right[1] * (1 - re)) / size)


def t_rnn(L, x, h):
    f = sigmoid(L.sum("f"))
    return [f * h + (1 - f) * L.W("z")]
