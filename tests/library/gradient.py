"""
Arithmetic on arrays of doubles that keeps how each value was made, and gives gradients: reverse
mode differentiation of a few operations.  Knows no cells.
"""
import numpy as np


def fit(d, shape):
    """Sums a gradient over the axes that were broadcast."""
    d = d.sum(axis=tuple(range(d.ndim - len(shape))))
    for axis, extent in enumerate(shape):
        if extent == 1 and d.shape[axis] != 1:
            d = d.sum(axis=axis, keepdims=True)
    return d


class Value:
    """An array; `parts` has its arguments, each with the function that makes their gradient of it."""
    made = []  # every value, in order

    def __init__(self, a, *parts):
        self.a, self.parts = np.asarray(a, float), parts
        self.gradient = np.zeros_like(self.a)
        Value.made.append(self)

    def __add__(self, other):
        other = of(other)
        return Value(self.a + other.a, (self, lambda d: d), (other, lambda d: d))

    def __mul__(self, other):
        other = of(other)
        return Value(self.a * other.a, (self, lambda d: d * other.a), (other, lambda d: d * self.a))

    def __truediv__(self, other):
        other = of(other)
        return Value(self.a / other.a, (self, lambda d: d / other.a),
                     (other, lambda d: -d * self.a / other.a ** 2))

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -of(other)

    def __rsub__(self, other):
        return of(other) + -self

    def __rtruediv__(self, other):
        return of(other) / self

    def __pow__(self, k):
        return Value(self.a ** k, (self, lambda d: d * k * self.a ** (k - 1)))

    __radd__, __rmul__ = __add__, __mul__


def of(a):
    return a if isinstance(a, Value) else Value(a)


def stop(a):
    return Value(a.a)


def product(matrix, a):
    """a [N,k] times the transpose of matrix [m,k]."""
    return Value(a.a @ matrix.a.T, (a, lambda d: d @ matrix.a), (matrix, lambda d: d.T @ a.a))


def function(a, value, slope):
    return Value(value, (a, lambda d: d * slope))


def sigmoid(a):
    s = 1 / (1 + np.exp(-a.a))
    return function(a, s, s * (1 - s))


def tanh(a):
    t = np.tanh(a.a)
    return function(a, t, 1 - t * t)


def exp(a):
    return function(a, np.exp(a.a), np.exp(a.a))


def sqrt(a):
    return a ** 0.5


def relu(a):
    return function(a, np.maximum(a.a, 0), (a.a > 0) * 1.0)


def softplus(a):
    return function(a, np.logaddexp(0, a.a), 1 / (1 + np.exp(-a.a)))


def clip(a, low, high):
    return function(a, np.clip(a.a, low, high), ((a.a > low) & (a.a < high)) * 1.0)


def where(condition, a, b):
    """Of an array of truths, and two values."""
    a, b = of(a), of(b)
    return Value(np.where(condition, a.a, b.a), (a, lambda d: d * condition),
                 (b, lambda d: d * ~condition))


def maximum(a, b):
    return where(a.a > b.a, a, b)


def step(v, slope):
    """1 where v > 0, else 0; its gradient is slope(v), an array."""
    return function(v, (v.a > 0) * 1.0, slope(v.a))


def mean(*values):
    """Of all units of a row, over several values."""
    count = sum(v.a.shape[-1] for v in values)
    total = sum(v.a.sum(axis=-1, keepdims=True) for v in values) / count
    return Value(total, *((v, lambda d, v=v: d / count + np.zeros_like(v.a)) for v in values))


def columns(a, first, last):
    def back(d):
        whole = np.zeros_like(a.a)
        whole[:, first:last] = d
        return whole
    return Value(a.a[:, first:last], (a, back))


def run_back():
    """Computes the gradients of all values from those that some were given, and forgets them."""
    for value in reversed(Value.made):
        for part, gradient in value.parts:
            part.gradient += fit(gradient(value.gradient), part.a.shape)
    Value.made.clear()
