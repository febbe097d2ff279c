"""
The list of vectors, and the inputs of each.  Inputs are drawn by a generator of five lines, in
the order and shapes that a case lists; every number is exact in the case's type.
"""
import math
import re

import numpy as np

from textbook import GATES, LATER_GATES, STATES, parameters

# What is drawn has so many bits; sums are kept in `sum` of them; smallest: exponent of the least
# denormal.
TYPES = {
    "f64": dict(bits=53, sum=53, smallest=-1074),
    "f32": dict(bits=24, sum=24, smallest=-149),
    "bf16": dict(bits=8, sum=24, smallest=-133),
    "f16": dict(bits=11, sum=24, smallest=-24),
}

# Problem strings behind cell and type (include/ecornn.h: ecornn_desc_parse); states: initial states
# and gradients of final ones are given; lengths: of the rows.
SHAPES = [
    ("train/T1/N1/I1/H1", {}),
    ("train/T7/N3/I5/H4", {"states": True}),
    ("train/T13/N5/I17/H19", {"states": True}),
    ("T20/N1/I8/H33", {}),
    ("train/bi/T9/N4/I6/H8", {"states": True, "lengths": [9, 1, 4, 6]}),
    ("train/L2/T11/N3/I7/H5", {"states": True}),
    ("train/L3/bi/T6/N2/I3/H9", {"states": True, "lengths": [3, 6]}),
    ("train/T5/N16/I33/H64", {}),
    ("T100/N2/I4/H16", {}),
    ("train/rev/T6/N4/I4/H7", {"states": True, "lengths": [2, 0, 6, 5]}),
    ("train/bi/T5/N3/I4/H6/batch-major", {"states": True, "lengths": [5, 2, 3]}),
    ("train/L2/T8/N1/I40/H24/batch-major", {}),
]
PROJECTED = [("train/T7/N3/I5/H12/P5", {"states": True}),
             ("train/L2/bi/T5/N2/I4/H10/P3", {"states": True, "lengths": [5, 3]})]
OTHER_TYPES = (1, 2, 4, 6, 7, 8)  # shapes that the types but F32 have
LATER, LATER_OTHER_TYPES = (0, 1, 3, 4, 5, 9, 10), (1, 4)  # for the cells of LATER_GATES


class Case:
    def __init__(self, cell, type, shape, more, number):
        self.cell, self.type, self.seed = cell, type, number
        self.name = "%s-%s-%03d" % (cell, type, number)
        self.problem = "/".join((cell, type, shape))
        part = {"L": 1, "P": 0}
        words = shape.split("/")
        part.update((w[0], int(w[1:])) for w in words if w[1:].isdigit())
        self.T, self.N, self.I, self.H, self.L = (part[k] for k in "TNIHL")
        self.proj, self.P = part["P"], part["P"] or part["H"]
        self.train, self.batch_major = "train" in words, "batch-major" in words
        self.reverses = {"bi": [False, True], "rev": [True]}.get(
            next((w for w in words if w in ("bi", "rev")), None), [False])
        self.D = len(self.reverses)
        self.states = STATES.get(cell, 1)
        self.given_states, self.lengths = more.get("states", False), more.get("lengths")
        self.unit, self.sum_unit = (2.0 ** -TYPES[type][k] for k in ("bits", "sum"))

    def last_place(self, magnitude):
        """The distance of adjacent numbers of the type at this magnitude."""
        facts = TYPES[self.type]
        exponent = math.frexp(magnitude)[1] if magnitude > 0 else -2000
        return math.ldexp(1, max(exponent - facts["bits"], facts["smallest"]))

    def params(self):
        """[(name, shape)] in the order of ecornn's parameter block."""
        every = []
        for layer in range(self.L):
            for reverse in self.reverses:
                width = self.I if layer == 0 else self.D * self.P
                prefix = "%d.%s." % (layer, "rev" if reverse else "fwd")
                own = parameters(self.cell, self.H, width, self.P)
                own += [("proj", (self.P, self.H))] if self.proj else []
                every += [(prefix + name, shape) for name, shape in own]
        return every

    def inputs(self):
        """[(name, shape, scale)] in the order in which they are drawn."""
        def sequence(width):
            return (self.N, self.T, width) if self.batch_major else (self.T, self.N, width)

        rows = [("x", sequence(self.I), 1.0)]
        for name, shape in self.params():
            # a power of two near 1/sqrt(k): sums are of ordinary size
            scale = 2.0 ** -math.ceil(math.log2(shape[-1]) / 2) if len(shape) == 2 else 0.5
            rows.append((name, shape, scale))
        state = [(self.L * self.D, self.N, self.P if s == 0 else self.H)
                 for s in range(self.states)]
        if self.given_states:
            rows += [("initial%d" % s, state[s], 1.0) for s in range(self.states)]
        if self.train:
            rows.append(("dy", sequence(self.D * self.P), 1.0))
            if self.given_states:
                rows += [("dfinal%d" % s, state[s], 1.0) for s in range(self.states)]
        return rows

    def draw(self):
        """{name: array of doubles}, by SplitMix64 (Steele, Lea and Flood 2014)."""
        shapes = self.inputs()
        bits, count = TYPES[self.type]["bits"], sum(math.prod(s) for _, s, _ in shapes)
        with np.errstate(over="ignore"):
            z = np.uint64(self.seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(
                1, count + 1, dtype=np.uint64)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = (z ^ (z >> np.uint64(31))) >> np.uint64(64 - bits)
        numbers = z.astype(np.float64) * 2.0 ** (1 - bits) - 1
        found, at = {}, 0
        for name, shape, scale in shapes:
            size = math.prod(shape)
            found[name] = scale * numbers[at:at + size].reshape(shape)
            at += size
        if self.cell == "slstm" and "initial2" in found:  # n is never negative
            found["initial2"] = np.abs(found["initial2"])
        return found


def later_shape(cell, type, shape):
    if cell == "sru":  # it passes x on
        shape = re.sub(r"/I\d+/H(\d+)", r"/I\1/H\1", shape)
    if cell == "slstm" and type in ("bf16", "f16"):
        # m is the larger of two numbers that are often nearer than rounding, and its gradient
        # belongs to one of them
        shape = shape.replace("train/", "")
    return shape


def all_cases():
    """New cells are added after the others, so that each vector keeps its number."""
    cases = []
    for type in TYPES:
        for cell in GATES:
            shapes = SHAPES + (PROJECTED if cell in ("lstm", "rnn-tanh") else [])
            for k, (shape, more) in enumerate(shapes):
                if type == "f32" or k in OTHER_TYPES or k >= len(SHAPES):
                    cases.append(Case(cell, type, shape, more, len(cases) + 1))
    for type in TYPES:
        for cell in LATER_GATES:
            for k in LATER if type == "f32" else LATER_OTHER_TYPES:
                shape, more = SHAPES[k]
                cases.append(Case(cell, type, later_shape(cell, type, shape), more,
                                  len(cases) + 1))
    return cases
