"""
Cells by the equations of their papers, and layers of them over a sequence: an implementation that
shares nothing with the library.  Numbers come from tape.py.
"""
import numpy as np

from tape import Errors, RUNS, Tape

GATES = {  # in the order of the parameters; R of "q" has no W and is inside r * (R h + b)
    "rnn-tanh": "h", "rnn-relu": "h", "lstm": "ifgo", "lstm-peephole": "ifgo",
    "lstm-coupled": "igo", "gru": "rzqn", "gru-reset-first": "rzn", "mgu": "fn",
}
LATER_GATES = {  # cells whose vectors follow those of GATES, with their own shapes
    "min-gru": "zn", "min-lstm": "fin", "sru": "ufr", "qrnn": "zfo", "slstm": "zoif",
}
STATES = {"lstm": 2, "lstm-peephole": 2, "lstm-coupled": 2, "sru": 2, "qrnn": 2, "slstm": 4}
WITHOUT_R = ("min-gru", "min-lstm", "sru", "qrnn")  # the state is read unit by unit


def parameters(cell, hidden, width, read):
    """[(name, shape)] of one layer and direction: matrices W [H,I], then R [H,P], then vectors."""
    gates = GATES.get(cell) or LATER_GATES[cell]
    rows = [("W." + g, (hidden, width)) for g in gates if g != "q"]
    rows += [("R." + g, (hidden, read)) for g in gates
             if cell not in WITHOUT_R and (cell, g) != ("gru", "n")]
    for g in gates:
        if (cell, g) != ("sru", "u"):
            rows.append(("b." + g, (hidden,)))
        if cell == "lstm-peephole" and g != "g":
            rows.append(("p." + g, (hidden,)))
    return rows


class Step:
    """One step of one cell: x, the states before, and its parameters."""

    def __init__(self, tape, x, state, of):
        self.t, self.x, self.of = tape, x, of
        self.h, self.c, self.n, self.m = (state + 3 * [None])[:4]

    def W(self, gate):
        return self.t.product(self.x, self.of["W." + gate])

    def R(self, gate, operand=None):
        return self.t.product(operand or self.h, self.of["R." + gate])

    def b(self, gate, a):
        return self.t.plus(a, self.of["b." + gate])

    def p(self, gate, c):
        return self.t.scale(self.of["p." + gate], c)

    def sum(self, gate):  # W x + R h + b
        return self.b(gate, self.W(gate) + self.R(gate))

    def input_sum(self, gate):  # W x + b
        return self.b(gate, self.W(gate))

    def rnn_tanh(self):
        return [self.t.tanh(self.sum("h"))]

    def rnn_relu(self):
        return [self.t.relu(self.sum("h"))]

    def lstm(self):
        t = self.t
        i, f = t.sigmoid(self.sum("i")), t.sigmoid(self.sum("f"))
        g, o = t.tanh(self.sum("g")), t.sigmoid(self.sum("o"))
        c = f * self.c + i * g
        return [o * t.tanh(c), c]

    def lstm_peephole(self):
        t = self.t
        i = t.sigmoid(self.sum("i") + self.p("i", self.c))
        f = t.sigmoid(self.sum("f") + self.p("f", self.c))
        c = f * self.c + i * t.tanh(self.sum("g"))
        o = t.sigmoid(self.sum("o") + self.p("o", c))
        return [o * t.tanh(c), c]

    def lstm_coupled(self):
        t = self.t
        i, g, o = t.sigmoid(self.sum("i")), t.tanh(self.sum("g")), t.sigmoid(self.sum("o"))
        c = t.one_minus(i) * self.c + i * g
        return [o * t.tanh(c), c]

    def gru(self):
        t = self.t
        r, z = t.sigmoid(self.sum("r")), t.sigmoid(self.sum("z"))
        n = t.tanh(self.b("n", self.W("n")) + r * self.b("q", self.R("q")))
        return [t.one_minus(z) * n + z * self.h]

    def gru_reset_first(self):
        t = self.t
        r, z = t.sigmoid(self.sum("r")), t.sigmoid(self.sum("z"))
        n = t.tanh(self.b("n", self.W("n") + self.R("n", r * self.h)))
        return [t.one_minus(z) * n + z * self.h]

    def mgu(self):
        t = self.t
        f = t.sigmoid(self.sum("f"))
        n = t.tanh(self.b("n", self.W("n") + self.R("n", f * self.h)))
        return [t.one_minus(f) * self.h + f * n]

    def min_gru(self):
        z = self.t.sigmoid(self.input_sum("z"))
        return [self.t.one_minus(z) * self.h + z * self.input_sum("n")]

    def min_lstm(self):
        f, i = (self.t.sigmoid(self.input_sum(gate)) for gate in "fi")
        both = f + i
        return [f / both * self.h + i / both * self.input_sum("n")]

    def sru(self):
        t = self.t
        f, r = (t.sigmoid(self.input_sum(gate)) for gate in "fr")
        c = f * self.c + t.one_minus(f) * self.W("u")
        return [r * t.tanh(c) + t.one_minus(r) * self.x, c]

    def qrnn(self):
        t = self.t
        z = t.tanh(self.input_sum("z"))
        f, o = (t.sigmoid(self.input_sum(gate)) for gate in "fo")
        c = f * self.c + t.one_minus(f) * z
        return [o * c, c]

    def slstm(self):
        t = self.t
        z, o = t.tanh(self.sum("z")), t.sigmoid(self.sum("o"))
        i, f = self.sum("i"), self.sum("f")
        zero, one = (t.given(np.full(f.number.shape[1:], k)) for k in (0.0, 1.0))
        # log(sigmoid(f)) + m
        kept = t.minimum(f, zero) - t.log(one + t.exp(t.minus_abs(f))) + self.m
        m = t.select(self.n, t.maximum(kept, i), i)
        u, v = t.exp(i - m), t.exp(kept - m)
        c, n = v * self.c + u * z, v * self.n + u
        return [o * c / n, c, n, m]


def run_direction(tape, case, reverse, rows, state, of):
    """Outputs of all steps, and the states after each row's last."""
    out = [None] * case.T
    zero = tape.given(np.zeros((case.N, case.P)))
    for t in range(case.T)[::-1 if reverse else 1]:
        step = Step(tape, rows[t], state, of)
        new = getattr(step, case.cell.replace("-", "_"))()
        if case.proj:
            new[0] = tape.product(new[0], of["proj"])
        if case.lengths is None:
            state, out[t] = new, new[0]
        else:  # a row that has ended, or not begun, keeps its states and gives 0
            runs = t < np.asarray(case.lengths)
            state = [tape.choose(runs, n, old) for n, old in zip(new, state)]
            out[t] = tape.choose(runs, new[0], zero)
    return out, state


def evaluate(case, inputs, errors):
    """Every result of a case, [RUNS, ...] each, by name."""
    tape = Tape(errors)
    given = {name: tape.given(a) for name, a in inputs.items() if name[0] in "0123456789"}
    x = inputs["x"].swapaxes(0, 1) if case.batch_major else inputs["x"]
    rows = first = [tape.given(x[t]) for t in range(case.T)]
    initial = {}
    final = [[] for s in range(case.states)]
    for layer in range(case.L):
        outs = []
        for d, reverse in enumerate(case.reverses):
            prefix = "%d.%s." % (layer, "rev" if reverse else "fwd")
            of = {n[len(prefix):]: v for n, v in given.items() if n.startswith(prefix)}
            at = layer * case.D + d
            state = []
            for s in range(case.states):
                known = inputs.get("initial%d" % s)
                empty = np.zeros((case.N, case.P if s == 0 else case.H))
                state.append(tape.given(empty if known is None else known[at]))
                initial[s, at] = state[-1]
            out, state = run_direction(tape, case, reverse, rows, state, of)
            outs.append(out)
            for s in range(case.states):
                final[s].append(state[s])
        rows = [tape.join(parts) if len(parts) > 1 else parts[0] for parts in zip(*outs)]
    return results(case, inputs, tape, given, first, initial, rows, final)


def results(case, inputs, tape, given, first, initial, rows, final):
    def by_order(steps):
        stacked = np.stack(steps, axis=1)
        return stacked.swapaxes(1, 2) if case.batch_major else stacked

    found = {"y": by_order([r.number for r in rows])}
    for s in range(case.states):
        found["final%d" % s] = np.stack([f.number for f in final[s]], axis=1)
    if not case.train:
        return found
    dy = inputs["dy"].swapaxes(0, 1) if case.batch_major else inputs["dy"]
    for t, row in enumerate(rows):
        d = np.broadcast_to(dy[t], (RUNS,) + dy[t].shape)
        if case.lengths is not None:
            d = d * (t < np.asarray(case.lengths))[None, :, None]
        row.receive(d)
    for s in range(case.states):
        known = inputs.get("dfinal%d" % s)
        for at, value in enumerate(final[s]):
            if known is not None:
                value.receive(np.broadcast_to(known[at], (RUNS,) + known[at].shape))
    tape.run_back()

    def gradient(value):
        return np.zeros_like(value.number) if value.gradient is None else value.gradient

    found["dx"] = by_order([gradient(r) for r in first])
    if case.given_states:
        for s in range(case.states):
            every = [gradient(initial[s, at]) for at in range(case.L * case.D)]
            found["dinitial%d" % s] = np.stack(every, axis=1)
    for name, value in given.items():
        found["d:" + name] = gradient(value)
    return found


def expect(case, inputs):
    """{name: (exact, bound)}: the bound is twice the largest error of the runs that are off, plus
    one unit in the last place of the array's largest magnitude."""
    errors = Errors(case.unit, case.sum_unit, case.seed)
    expected = {}
    for name, runs in evaluate(case, inputs, errors).items():
        exact, largest = runs[0], np.max(np.abs(runs[0]))
        spread = np.max(np.abs(runs[1:] - exact))
        expected[name] = exact, 2 * spread + case.last_place(largest)
    return expected
