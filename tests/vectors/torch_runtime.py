"""
PyTorch on the CPU: torch.nn.RNN, LSTM and GRU, with autograd.
"""
import warnings

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ecornn_runtime import Unsupported

KINDS = {  # module, its gates in PyTorch's order
    "rnn-tanh": (torch.nn.RNN, "h", {"nonlinearity": "tanh"}),
    "rnn-relu": (torch.nn.RNN, "h", {"nonlinearity": "relu"}),
    "lstm": (torch.nn.LSTM, "ifgo", {}),
    "gru": (torch.nn.GRU, "rzn", {}),
}
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16,
         "f16": torch.float16}


class Run:
    def __init__(self, vector):
        module, self.gates, more = KINDS[vector.cell]
        self.v, self.type = vector, TYPES[vector.type]
        if vector.proj:
            more = dict(more, proj_size=vector.proj)
        self.net = module(vector.input, vector.hidden, vector.layers,
                          bidirectional=len(vector.directions) == 2,
                          batch_first=vector.batch_major, dtype=self.type, **more)
        with torch.no_grad():
            for layer, direction, prefix, suffix in self.pairs():
                self.each(prefix, suffix, self.set)

    def pairs(self):
        for layer in range(self.v.layers):
            for d, direction in enumerate(self.v.directions):
                yield (layer, d, "%d.%s." % (layer, "rev" if direction == "reverse" else "fwd"),
                       "_l%d%s" % (layer, "_reverse" if d else ""))

    def each(self, prefix, suffix, do):
        """Calls do(our name, their parameter, its rows) for each of our parameters."""
        H = self.v.hidden
        gru = self.v.cell == "gru"
        for k, g in enumerate(self.gates):
            rows = slice(k * H, (k + 1) * H)
            second = "q" if gru and g == "n" else g
            do(prefix + "W." + g, "weight_ih" + suffix, rows)
            do(prefix + "R." + second, "weight_hh" + suffix, rows)
            do(prefix + "b." + g, "bias_ih" + suffix, rows)
            do(prefix + "b.q" if second == "q" else None, "bias_hh" + suffix, rows)
        if self.v.proj:
            do(prefix + "proj", "weight_hr" + suffix, slice(None))

    def tensor(self, array):
        return torch.from_numpy(np.array(array)).to(self.type)

    def set(self, ours, theirs, rows):
        to = getattr(self.net, theirs)[rows]
        to.copy_(self.tensor(self.v.inputs[ours]) if ours else torch.zeros_like(to))

    def given(self, name, like):
        known = self.v.inputs.get(name)
        return torch.zeros(like, dtype=self.type) if known is None else self.tensor(known)

    def results(self):
        v = self.v
        states = [self.given("initial%d" % s, v_shape).requires_grad_()
                  for s, v_shape in enumerate(self.state_shapes())]
        x = self.tensor(v.inputs["x"]).requires_grad_()
        rows = x
        if v.lengths is not None:
            rows = pack_padded_sequence(x, torch.tensor(v.lengths), batch_first=v.batch_major,
                                        enforce_sorted=False)
        y, final = self.net(rows, tuple(states) if v.states == 2 else states[0])
        final = list(final) if v.states == 2 else [final]
        if v.lengths is not None:
            y, _ = pad_packed_sequence(y, batch_first=v.batch_major, total_length=v.steps)
        found = {"y": y}
        found.update(("final%d" % s, f) for s, f in enumerate(final))
        if v.training:
            self.back(found, y, final, x, states)
        return {name: t.detach().double().numpy() for name, t in found.items()
                if name in v.expected}

    def state_shapes(self):
        v = self.v
        pairs = v.layers * len(v.directions)
        return [(pairs, v.batch, (v.proj or v.hidden) if s == 0 else v.hidden)
                for s in range(v.states)]

    def back(self, found, y, final, x, states):
        outputs = [y] + final
        gradients = [self.given("dy", y.shape)]
        gradients += [self.given("dfinal%d" % s, f.shape) for s, f in enumerate(final)]
        torch.autograd.backward(outputs, gradients)
        found["dx"] = x.grad
        found.update(("dinitial%d" % s, h.grad) for s, h in enumerate(states))

        def take(ours, theirs, rows):
            if ours:
                found["d:" + ours] = getattr(self.net, theirs).grad[rows]
        for layer, d, prefix, suffix in self.pairs():
            self.each(prefix, suffix, take)


class Torch:
    def __init__(self):
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")  # torch warns if it lacks a fast kernel

    def run(self, vector):
        if vector.cell not in KINDS or (vector.proj and vector.cell != "lstm"):
            raise Unsupported("no module for it")
        if vector.directions == ["reverse"] or (vector.lengths and min(vector.lengths) == 0):
            raise Unsupported("no reverse direction alone, no empty rows")
        try:
            return Run(vector).results()
        except RuntimeError as reason:
            if "not implemented" in str(reason):
                raise Unsupported(str(reason))
            raise
