#!/usr/bin/env python3
"""
run.py LIBRARY [NAME]: runs every cell of the library of cells, or one, on the reference and on the
CPU, in double, and compares outputs, states and gradients with the equations of the cell's paper,
which were written apart from its text.
"""
import os
import re
import sys
import zlib

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
import ecornn_runtime  # noqa: E402
import gated  # noqa: E402
import linear  # noqa: E402
import matrix  # noqa: E402
import norms  # noqa: E402
import spiking  # noqa: E402
from gradient import Value, columns, run_back  # noqa: E402
from layer import Layer  # noqa: E402

T, N, I, H = 7, 3, 4, 5
K = matrix.ROWS
EXACT = 1e-12  # relative to an array's largest magnitude


def equations_of(name):
    """The step of a cell; None: it has no equations."""
    places = (getattr(place, name.replace("-", "_"), None) for place in (gated, norms, linear, matrix, spiking))
    return next(filter(None, places), None)


class Case(ecornn_runtime.Run):
    """A run of one cell, forward and, unless the cell draws, backward."""

    def __init__(self, machine, name, text):
        super().__init__(machine, self, "f64")
        self.name, self.lengths, self.steps, self.batch = name, None, T, N
        self.training = "bernoulli" not in text
        self.step = equations_of(name)
        self.matrix = "[K,V]" in text
        head = text[text.index("\ncell "):].split(";" if self.matrix else "(", 1)[1]
        self.parts = [(part, {"1": 1, "K": K}.get(count, H))
                      for part, count in re.findall(r"(\w+)\[(1|H|K|V)\]", head)]
        for self.rest in (I, H, 0):  # of x; as many as units, or none, where a cell reads it so
            self.width = self.rest + sum(count for _, count in self.parts)
            self.problem = "%s/f64/%s/T%d/N%d/I%d/H%d%s" % (
                name, "train" if self.training else "infer", T, N, self.width, H,
                "/key:%d" % K if self.matrix else "")
            try:
                self.create_plan()
                break
            except (RuntimeError, ecornn_runtime.Unsupported):
                if self.rest == 0:
                    raise

    def layer(self, params, x):
        """The layer of a step and its x without the parts, which follow in a row."""
        at, parts = self.rest, {}
        for part, count in self.parts:
            parts[part] = columns(x, at, at + count)
            at += count
        x = columns(x, 0, self.rest)
        return Layer(params, x, parts), x

    def shapes(self):
        found = {}
        for k in range(self.sizes.param_count):
            param = ecornn_runtime.Param(size=ecornn_runtime.ctypes.sizeof(ecornn_runtime.Param))
            self.machine.check(self.lib.ecornn_param_get(
                self.plan, k, ecornn_runtime.ctypes.byref(param)))
            matrix = param.name.decode().split(".")[2] in "WR"
            found[param.name.decode()] = (param.rows, param.cols) if matrix else (H,)
        return found

    def draw(self):
        count, cell = ecornn_runtime.ctypes.c_int(), ecornn_runtime.void()
        self.lib.ecornn_cell_parse(ecornn_runtime.ctypes.byref(cell), self.name.encode())
        self.machine.check(self.lib.ecornn_cell_states(
            cell, ecornn_runtime.ctypes.byref(count), None))
        self.states = count.value
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        self.inputs = {"x": random.normal(size=(T, N, self.width)),
                       "dy": random.normal(size=(T, N, H))}
        for name, shape in self.shapes().items():
            self.inputs[name] = random.uniform(-1, 1, shape)
        for s in range(self.states):
            width = ecornn_runtime.size()
            self.machine.check(self.lib.ecornn_plan_state(
                self.plan, s, ecornn_runtime.ctypes.byref(width), None))
            self.inputs["initial%d" % s] = random.uniform(0, 1, (1, N, width.value))
            self.inputs["dfinal%d" % s] = random.normal(size=(1, N, width.value))

    def expect(self):
        given = {name: Value(a) for name, a in self.inputs.items() if name.startswith("0.")}
        params = {name[len("0.fwd."):]: value for name, value in given.items()}
        x = [Value(a) for a in self.inputs["x"]]
        state = initial = [Value(self.inputs["initial%d" % s][0]) for s in range(self.states)]
        y = []
        for t in range(T):
            state = list(self.step(*self.layer(params, x[t]), *state))
            y.append(state[0])
        self.expected = {"y": np.stack([a.a for a in y])}
        for s in range(self.states):
            self.expected["final%d" % s] = state[s].a[None]
        if not self.training:
            Value.made.clear()
            return
        for t in range(T):
            y[t].gradient += self.inputs["dy"][t]
        for s in range(self.states):
            state[s].gradient += self.inputs["dfinal%d" % s][0]
        run_back()
        self.expected["dx"] = np.stack([a.gradient for a in x])
        for s in range(self.states):
            self.expected["dinitial%d" % s] = initial[s].gradient[None]
        self.expected.update(("d:" + name, value.gradient) for name, value in given.items())

    def worst(self):
        """The largest error of any array, relative to its largest magnitude, and its name."""
        self.draw()
        self.expect()
        found = self.results_of_plan()
        missing = set(self.expected) - set(found)
        if missing:
            return float("inf"), ", ".join(missing)
        return max((float(np.nan_to_num(np.max(np.abs(found[name] - a)), nan=np.inf))
                    / (np.max(np.abs(a)) or 1.0), name) for name, a in self.expected.items())


def library_cells(library):
    """{name: text}."""
    name, text, found = ecornn_runtime.ctypes.c_char_p(), ecornn_runtime.ctypes.c_char_p(), {}
    while library.ecornn_cell_library(len(found), ecornn_runtime.ctypes.byref(name),
                                      ecornn_runtime.ctypes.byref(text)) == 0:
        found[name.value.decode()] = text.value.decode()
    return found


def main(path, only=None):
    library = ecornn_runtime.load(path)
    failed = ran = 0
    for device in ("reference", "cpu:1"):
        machine = ecornn_runtime.Ecornn(library, device)
        for name, text in library_cells(library).items():
            if only not in (None, name):
                continue
            if equations_of(name) is None:
                print("FAILED: tests/library has no equations of %s" % name)
                failed += 1
                continue
            error, where = Case(machine, name, text).worst()
            ran += 1
            if not error <= EXACT:
                print("FAILED: %s on %s: %s is off by %.3g" % (name, device, where, error))
                failed += 1
        machine.close()
    print("cases: %d" % ran)
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
