"""
Neurons that fire, by the equations of their papers and of the packages that have them.
"""
import math

import numpy as np

from gradient import clip, exp, maximum, relu, sigmoid, step, stop
from layer import lstm


def fast(k):
    """The slope of a fast sigmoid."""
    return lambda v: 1 / (1 + k * np.abs(v)) ** 2


def arctangent(v):
    return 1 / (1 + (math.pi * v) ** 2)


def adex(L, x, s, u, i, a):
    i = i + L.plain("j", s)
    m = u + 0.1 * (-u + 0.5 * exp((u - 1) / 0.5) + i - a)
    s = step(m - 1, fast(1))
    return s, (1 - s) * m, i - 0.2 * i, a + 0.002 * (4 * u - a) + 0.02 * s


def alif(L, x, s, u, a):
    a = 0.97 * a + 0.03 * s
    k = 1 + 1.8 * a
    u = sigmoid(L.p("u")) * u + L.sum("u", s) - stop(k * s)
    return step(u / k - 1, lambda v: 0.3 * np.maximum(0, 1 - np.abs(v))), u, a


def clif(L, x, s, u, q):
    m = u - u / 2 + L.sum("m", s)
    s = step(m - 1, lambda v: (np.abs(v) < 0.5) * 1.0)
    q = q * sigmoid(m / 2) + s
    return s, m - s * (1 + sigmoid(q)), q


def cuba_lif(L, x, s, u, i):
    i = sigmoid(L.p("i")) * i + L.sum("i", s)
    m = sigmoid(L.p("k")) * u + i
    s = step(m - 0.5, arctangent)
    return s, m * (1 - stop(s)), i


def reset(s, m, to):
    return (1 - stop(s)) * m + to * stop(s)


def eif(L, x, s, u):
    m = u + (L.sum("m", s) + exp(u - 0.8) - u) / 2
    s = step(m - 1, arctangent)
    return s, reset(s, m, -0.1)


def qif(L, x, s, u):
    m = u + (L.sum("m", s) + (u - 0) * (u - 0.8)) / 2
    s = step(m - 1, arctangent)
    return s, reset(s, m, -0.1)


def iaf(L, x, s, u):
    m = u + L.plain("m", s)
    s = step(m - 1, fast(1))
    return s, (1 - s) * m


def izhikevich(L, x, s, u, w):
    m = u + 0.25 * (0.04 * u ** 2 + 5 * u + 140 - w + L.plain("m", s))
    s = step(m - 30, fast(1))
    return s, (1 - s) * m - 65 * s, w + 0.25 * 0.02 * (0.2 * u - w) + 8 * s


def klif(L, x, s, u):
    m = relu(L.p("m") * (u + (L.sum("m", s) - u) / 2))
    s = step(m - 1, arctangent)
    return s, reset(s, m, 0)


def leaky(L, x, s, u):
    u = clip(L.p("u"), 0, 1) * u + L.sum("u") - stop(s)
    return step(u - 1, fast(25)), u


def lif(L, x, s, u):
    u = sigmoid(L.p("u")) * u + L.sum("u", s) - stop(s)
    return step(u - 1, fast(25)), u


def li(L, x, u, i):
    i = i + L.W("j")
    return u + 0.1 * (i - u), i - 0.2 * i


def lif_norse(L, x, s, u, i):
    i = i + L.plain("j", s)
    m = u + 0.1 * (i - u)
    s = step(m - 1, fast(1))
    return s, reset(s, m, 0), i - 0.2 * i


def lsnn(L, x, s, u, i, k):
    m = u + 0.1 * (i - u)
    n = k + 0.001 * (1 - k)
    before, s = s, step(m - n, fast(1))
    return s, reset(s, m, 0), i - 0.2 * i + L.plain("i", before), n + 1.8 * stop(s)


def plif(L, x, s, u):
    m = u + sigmoid(L.p("m")) * (L.sum("a", s) - u)
    s = step(m - 1, arctangent)
    return s, reset(s, m, 0)


def raf(L, x, s, g, u):
    a, c = L.p("a"), L.p("c")
    m = c * g + a * u
    g = a * g - c * u + L.sum("g", s)
    s = step(m - 1, arctangent)
    return s, g, reset(s, m, 0)


def spiking_lstm(L, x, s, u, c):
    u, c = lstm(L, u, c)
    return step(u - 0.5, fast(25)), u, c


def synaptic(L, x, s, i, u):
    i = clip(L.p("i"), 0, 1) * i + L.sum("i")
    u = clip(L.p("u"), 0, 1) * u + i - stop(s)
    return step(u - 1, fast(25)), i, u
