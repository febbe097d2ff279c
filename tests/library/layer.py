"""
A layer as an equation sees it.  A cell is a function of a layer L, its input x and the states in the
cell's order, and returns the next ones.
"""
from gradient import product, sigmoid, tanh


class Layer:
    """W("i") is W x of line i, R("i", h) is R h, b and p are vectors, sum("i", h) is W x + R h + b, and
    part("a") a part of x, whose rest is x."""

    def __init__(self, params, x, parts):
        self.params, self.x, self.part = params, x, parts.__getitem__

    def W(self, line):
        return product(self.params["W." + line], self.x)

    def R(self, line, h):
        return product(self.params["R." + line], h)

    def b(self, line):
        return self.params["b." + line]

    def p(self, line):
        return self.params["p." + line]

    def sum(self, line, h=None):
        a = self.W(line) + self.b(line)
        return a if h is None else a + self.R(line, h)

    def plain(self, line, h):
        return self.W(line) + self.R(line, h)


def sums(L, lines, h):
    return [L.sum(line, h) for line in lines.split()]


def lstm_memory(L, h, c):
    """The memory and the output gate of an LSTM whose gates read h."""
    i, f, g, o = sums(L, "i f g o", h)
    return sigmoid(f) * c + sigmoid(i) * tanh(g), sigmoid(o)


def lstm(L, h, c):
    c, o = lstm_memory(L, h, c)
    return o * tanh(c), c
