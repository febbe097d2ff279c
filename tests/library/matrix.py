"""
Matrix states, by the equations of their papers, with the matrices I - beta k k^T and so on in full.
One head; y before the step is not read.
"""
import numpy as np

from gradient import Value, exp, maximum, stop, where

ROWS = 3


def as_matrices(a, rows):
    """[N,rows*columns] as [N,rows,columns]."""
    return Value(a.a.reshape(len(a.a), rows, -1), (a, lambda d: d.reshape(a.a.shape)))


def as_rows(a):
    return Value(a.a.reshape(len(a.a), -1), (a, lambda d: d.reshape(a.a.shape)))


def column(a):
    return as_matrices(a, a.a.shape[1])


def times(a, b):
    """The product of each row's matrices."""
    return Value(a.a @ b.a, (a, lambda d: d @ b.a.swapaxes(1, 2)), (b, lambda d: a.a.swapaxes(1, 2) @ d))


def transposed(a):
    return Value(a.a.swapaxes(1, 2), (a, lambda d: d.swapaxes(1, 2)))


def diagonal(a):
    """diag(a) of [N,K]."""
    return column(a) * Value(np.eye(a.a.shape[1]))


def rule(L, S, factor, added, query, value="v"):
    """S' = factor S + added value^T and S'^T query."""
    S = times(factor, as_matrices(S, ROWS)) + times(column(added), transposed(column(L.part(value))))
    return as_rows(times(transposed(S), column(query))), as_rows(S)


def eye(by=1.0):
    return by * Value(np.eye(ROWS)[None]) if not isinstance(by, Value) else column(by) * Value(np.eye(ROWS))


def away(key, by):
    """I - by key key^T"""
    return eye() - column(by) * times(column(key), transposed(column(key)))


def linear_attention(L, x, y, S):
    return rule(L, S, eye() + column(0 * L.part("q")) * 0, L.part("k"), L.part("q"))


def retnet(L, x, y, S):
    return rule(L, S, eye(L.part("g")), L.part("k"), L.part("q"))


def mamba_2(L, x, y, S):
    dt = L.part("dt")
    y, S = rule(L, S, eye(exp(dt * L.part("A"))), L.part("B") * dt, L.part("C"), "u")
    return y + L.part("D") * L.part("u"), S


def gla(L, x, y, S):
    return rule(L, S, diagonal(L.part("g")), L.part("k"), L.part("q"))


def delta_net(L, x, y, S):
    k, beta = L.part("k"), L.part("beta")
    return rule(L, S, away(k, beta), k * beta, L.part("q"))


def gated_delta(L, x, y, S):
    k, beta = L.part("k"), L.part("beta")
    return rule(L, S, column(L.part("g")) * away(k, beta), k * beta, L.part("q"))


def kimi_delta(L, x, y, S):
    k, beta = L.part("k"), L.part("beta")
    return rule(L, S, times(away(k, beta), diagonal(L.part("g"))), k * beta, L.part("q"))


def rwkv_7(L, x, y, S):
    k, kk = L.part("k"), L.part("kk")
    factor = diagonal(L.part("w")) - times(column(L.part("eta") * kk), transposed(column(kk)))
    y, S = rule(L, S, factor, k, L.part("r"))
    bonus = times(transposed(column(L.part("r"))), column(L.part("rho") * k))
    return y + as_rows(bonus) * L.part("v"), S


def mlstm(L, x, y, S, n, m):
    """With the logarithm of a sigmoid as log1p has it."""
    f, i = L.part("f"), L.part("i")
    log_f = Value(-np.logaddexp(0, -f.a), (f, lambda d: d / (1 + np.exp(f.a))))
    m_next = stop(maximum(log_f + m, i))
    keep, take = exp(log_f + stop(m) - m_next), exp(i - m_next)
    y, S = rule(L, S, eye(keep), take * L.part("k"), L.part("q"))
    n = keep * n + take * L.part("k")
    read = as_rows(times(transposed(column(n)), column(L.part("q"))))
    size = where(read.a > 0, read, -read)
    return y / maximum(size, exp(-m_next)), S, n, m_next
