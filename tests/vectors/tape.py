"""
Arithmetic in double that records what it does and differentiates it: a tape of some operations.

Every value has a leading axis of runs.  Run 0 is exact.  In the others each result is off by a
random part of what a good implementation may be off by (class Errors), so that the spread of the
runs says how far such errors carry.  Knows no cells.
"""
import numpy as np

RUNS = 13


class Errors:
    """What one operation may be off by.  `kept`: rounding of a result to the type; `summed`: of the
    running sum, which types of 16 bits keep in F32."""

    def __init__(self, kept, summed, seed):
        self.kept, self.summed = kept, summed
        self.random = np.random.Generator(np.random.Philox(seed))

    def add(self, value, amount):
        noise = self.random.uniform(-1, 1, (RUNS - 1,) + value.shape[1:])
        value[1:] += noise * amount[1:]
        return value

    def rounded(self, value, inside=0):
        """Rounds to the type, after `inside` roundings to the type of sums."""
        return self.add(value, (self.kept + inside * self.summed) * np.abs(value))

    def product(self, a, b, rounded=True):
        """a @ b: sqrt(k) roundings of a sum of k terms, whose parts are as large as terms of
        random sign make them, or as the sum."""
        value = a @ b
        parts = np.sqrt(np.square(a) @ np.square(b)) + np.abs(value)
        value = self.add(value, self.summed * np.sqrt(a.shape[-1]) * parts)
        return self.rounded(value) if rounded else value


class Value:
    """A node: its value, and a function that passes its gradient on to its arguments."""

    def __init__(self, tape, number, back=None):
        self.tape, self.number, self.back, self.gradient = tape, number, back, None
        tape.values.append(self)

    def receive(self, gradient, rounded=True):
        if self.gradient is None:
            self.gradient = gradient
            return
        errors = self.tape.errors
        total = self.gradient + gradient
        unit = errors.kept if rounded else errors.summed
        self.gradient = errors.add(total, unit * np.abs(total))

    def __add__(self, other):
        def back(d):
            self.receive(d)
            other.receive(d)
        return self.tape.result(self.number + other.number, back)

    def __sub__(self, other):
        def back(d):
            self.receive(d)
            other.receive(-d)
        return self.tape.result(self.number - other.number, back)

    def __mul__(self, other):
        errors = self.tape.errors

        def back(d):
            self.receive(errors.rounded(d * other.number))
            other.receive(errors.rounded(d * self.number))
        return self.tape.result(self.number * other.number, back)

    def __truediv__(self, other):
        errors = self.tape.errors

        def back(d):
            part = errors.rounded(d / other.number)
            self.receive(part)
            other.receive(errors.rounded(-part * result.number))
        result = self.tape.result(self.number / other.number, back)
        return result


class Tape:
    FUNCTION_ROUNDINGS = 8  # inside a sigmoid, tanh, exp or log: 4 ulp, 8 halves of one

    def __init__(self, errors):
        self.errors, self.values = errors, []

    def result(self, number, back, inside=0):
        return Value(self, self.errors.rounded(number, inside), back)

    def given(self, number):
        """An input: the same exact number in all runs."""
        return Value(self, np.broadcast_to(number, (RUNS,) + number.shape).copy())

    def product(self, a, matrix):
        """a [N,k] times the transpose of matrix [m,k]."""
        def back(d):
            a.receive(self.errors.product(d, matrix.number))
            outer = self.errors.product(np.swapaxes(d, -1, -2), a.number, rounded=False)
            matrix.receive(outer, rounded=False)
        number = self.errors.product(a.number, np.swapaxes(matrix.number, -1, -2))
        return Value(self, number, back)

    def _of_rows(self, vector, d):
        rows = d.shape[-2]
        size = np.sqrt(np.sum(np.square(d), axis=-2)) + np.abs(np.sum(d, axis=-2))
        amount = self.errors.summed * np.sqrt(rows) * size
        vector.receive(self.errors.add(np.sum(d, axis=-2), amount), rounded=False)

    def plus(self, a, vector):
        """a [N,H] and a vector [H] to each row."""
        def back(d):
            a.receive(d)
            self._of_rows(vector, d)
        return self.result(a.number + vector.number[:, None, :], back)

    def scale(self, vector, a):
        """Multiplies each row of a [N,H] by a vector [H], unit by unit."""
        def back(d):
            a.receive(self.errors.rounded(d * vector.number[:, None, :]))
            self._of_rows(vector, d * a.number)
        return self.result(a.number * vector.number[:, None, :], back)

    def _function(self, a, number, slope):
        """slope: the derivative as a function of the result, which implementations keep."""
        def back(d):
            a.receive(self.errors.rounded(d * slope(result.number), 1))
        result = self.result(number, back, self.FUNCTION_ROUNDINGS)
        return result

    def sigmoid(self, a):
        e = np.exp(-np.abs(a.number))
        number = np.where(a.number >= 0, 1, e) / (1 + e)
        return self._function(a, number, lambda s: s * (1 - s))

    def tanh(self, a):
        return self._function(a, np.tanh(a.number), lambda t: 1 - t * t)

    def exp(self, a):
        return self._function(a, np.exp(a.number), lambda e: e)

    def log(self, a):
        return self._function(a, np.log(a.number), lambda _: 1 / a.number)

    def minus_abs(self, a):
        sign = np.sign(a.number)
        return Value(self, -np.abs(a.number), lambda d: a.receive(-d * sign))

    def relu(self, a):
        positive = a.number > 0
        return Value(self, a.number * positive, lambda d: a.receive(d * positive))

    def one_minus(self, a):
        return self.result(1 - a.number, lambda d: a.receive(-d))

    def _pick(self, mask, a, b):
        """a where mask, else b: nothing is computed."""
        def back(d):
            a.receive(d * mask)
            b.receive(d * ~mask)
        return Value(self, np.where(mask, a.number, b.number), back)

    def choose(self, mask, a, b):
        """Rows of a where mask [N], else of b."""
        return self._pick(mask[None, :, None], a, b)

    def select(self, condition, a, b):
        return self._pick(condition.number > 0, a, b)

    def maximum(self, a, b):
        return self._pick(a.number >= b.number, a, b)

    def minimum(self, a, b):
        return self._pick(a.number <= b.number, a, b)

    def join(self, parts):
        """Concatenates along the last axis."""
        ends = np.cumsum([part.number.shape[-1] for part in parts])

        def back(d):
            for part, end in zip(parts, ends):
                part.receive(d[..., end - part.number.shape[-1]:end])
        return Value(self, np.concatenate([part.number for part in parts], axis=-1), back)

    def run_back(self):
        """Computes the gradients of all values from those given for some."""
        for value in reversed(self.values):
            if value.gradient is not None and value.back:
                value.back(value.gradient)
