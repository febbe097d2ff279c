"""What a stack of layers is to the library: its shape, its plans, and which tensor each of the
library's parameters lies in.

Knows the layout of torch.nn's weights, nothing of tensors' values.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from .. import _library as lib
from .._plan import Plan, Plans, Shape, cell

# torch.nn's RNNBase.mode -> the library's cell.
CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn-tanh", "RNN_RELU": "rnn-relu"}

# Where torch keeps two biases for a gate the library has one, their sum.  The rows of vectors in
# the library's order: (sum, hh or ih, number of the gate).
_TWO_BIASES = {
    "lstm": [("sum", 0), ("sum", 1), ("sum", 2), ("sum", 3)],
    "gru": [("sum", 0), ("sum", 1), ("hh", 2), ("ih", 2)],
    "rnn-tanh": [("sum", 0)],
    "rnn-relu": [("sum", 0)],
}
GATES = {"lstm": 4, "gru": 3, "rnn-tanh": 1, "rnn-relu": 1}


class Spec:
    """One stack of layers as the library sees it.  Made once for equal ones: see spec_of."""

    def __init__(self, name: str, input: int, hidden: int, layers: int, bias: bool,
                 dropout: float, bidirectional: bool, proj: int):
        self.cell, self.input, self.hidden, self.proj = name, input, hidden, proj
        self.layers, self.bias, self.dropout = layers, bias, dropout
        self.directions = 2 if bidirectional else 1
        self.pairs = layers * self.directions
        self.torch = name in _TWO_BIASES
        self.states = lib.library.ecornn_cell_states(cell(name))
        self.width = proj or hidden
        self.out = self.directions * self.width
        self.widths = [self.width] + [hidden] * (self.states - 1)
        self.random = "bernoulli" in name
        # A probability of 1 is none of the library's: see drops_all.
        self.drops_all = dropout >= 1.0 and layers > 1
        shape = Shape(name, input, hidden, proj, layers,
                      lib.BIDIRECTIONAL if bidirectional else lib.FORWARD,
                      dropout=dropout if layers > 1 and dropout < 1.0 else 0.0)
        self._shape = shape
        self.jobs: dict[tuple, object] = {}  # of _run.py
        self._plans: dict[tuple[bool, bool, int], Plans] = {}

    def plans(self, batch_major: bool, drop: bool, flags: int) -> Plans:
        """The plans of this stack, with or without dropout."""
        key = (batch_major, drop, flags)
        plans = self._plans.get(key)
        if plans is None:
            shape = replace(self._shape, batch_major=batch_major, flags=flags,
                            dropout=self._shape.dropout if drop else 0.0)
            plans = self._plans.setdefault(key, Plans(shape))
        return plans

    # ---- tensors --------------------------------------------------------------------------

    @functools.cached_property
    def parameters(self):
        """The library's parameters, in its order."""
        return Plan("reference", self._shape, 1, 1, lib.F32, lib.F32, False).parameters()

    @functools.cached_property
    def counts(self) -> dict[str, int]:
        """How many W, R, b and p a layer's direction has."""
        counts = {"W": 0, "R": 0, "b": 0, "p": 0}
        for parameter in self.parameters:
            layer, direction, kind = parameter.name.split(".")[:3]
            if layer == "0" and direction == "fwd" and kind in counts:
                counts[kind] += 1
        return counts

    def names(self) -> list[str]:
        """Of the tensors of a pair, in order: ``weight_ih`` and so on."""
        return self._names

    @functools.cached_property
    def _names(self) -> list[str]:
        if self.torch:
            names = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * self.bias
        else:
            kinds = {"W": "weight_ih", "R": "weight_hh", "b": "bias", "p": "factor"}
            names = [kinds[kind] for kind, count in self.counts.items() if count]
        return names + ["weight_hr"] * (self.proj > 0)

    def shapes(self, layer: int) -> list[tuple[int, ...]]:
        """Of the tensors of a pair of that layer, as names."""
        return self._first_shapes if layer == 0 else self._later_shapes

    @functools.cached_property
    def _first_shapes(self):
        return self._find_shapes(0)

    @functools.cached_property
    def _later_shapes(self):
        return self._find_shapes(1)

    def _find_shapes(self, layer: int) -> list[tuple[int, ...]]:
        width, hidden = self.input if layer == 0 else self.out, self.hidden
        count = self.counts
        shape = {
            "weight_ih": (count["W"] * hidden, width),
            "weight_hh": (count["R"] * hidden, self.width),
            "bias": (count["b"] * hidden,),
            "factor": (count["p"] * hidden,),
            "weight_hr": (self.proj, hidden),
        }
        gates = (GATES.get(self.cell, 0) * hidden,)
        shape["bias_ih"] = shape["bias_hh"] = gates
        return [shape[name] for name in self.names()]

    @functools.cached_property
    def _both(self) -> list[tuple[int, int, int]]:
        """Of each parameter: the tensor it is packed from, its offset there in elements, and the
        tensor of its gradient.

        Numbers count the flat weights of all pairs; after them come the sums of biases, one a
        pair.  A gradient of number -1 is nowhere.
        """
        names, both = self.names(), []
        number = {name: k for k, name in enumerate(names)}
        seen: dict[tuple[int, str], int] = {}
        for parameter in self.parameters:
            layer, direction, kind = parameter.name.split(".")[:3]
            pair = int(layer) * self.directions + (direction != "fwd")
            first = pair * len(names)
            turn = seen.get((pair, kind), 0)
            seen[pair, kind] = turn + 1
            size = parameter.rows * parameter.cols
            if kind == "b" and self.torch:
                both.append(self._bias(pair, first, number, turn, size))
                continue
            name = {"W": "weight_ih", "R": "weight_hh", "b": "bias", "p": "factor"}.get(
                kind, "weight_hr")
            both.append((first + number[name], turn * size, first + number[name]))
        return both

    def _bias(self, pair: int, first: int, number: dict[str, int], turn: int, size: int):
        source, gate = _TWO_BIASES[self.cell][turn]
        total = self.pairs * len(self.names()) + pair
        if not self.bias:
            return total, gate * size, -1
        own = first + number["bias_hh" if source == "hh" else "bias_ih"]
        return total if source == "sum" else own, gate * size, own

    @functools.cached_property
    def places(self) -> list[tuple[int, int]]:
        """Of each parameter: tensor and offset to pack it from."""
        return [(tensor, offset) for tensor, offset, _ in self._both]

    @functools.cached_property
    def targets(self) -> list[tuple[int, int]]:
        """Of each parameter: tensor and offset of its gradient."""
        return [(tensor, offset) for _, offset, tensor in self._both]

    @functools.cached_property
    def shared_rows(self) -> int:
        """Rows of both biases' gradients that are the same: those of gates with a sum."""
        return sum(source == "sum" for source, _ in _TWO_BIASES[self.cell]) * self.hidden

    @functools.cached_property
    def bias_pairs(self) -> list[tuple[int, int]]:
        """The numbers of both biases of each pair, () without."""
        if not (self.torch and self.bias):
            return []
        step = len(self.names())
        return [(pair * step + 2, pair * step + 3) for pair in range(self.pairs)]


@functools.lru_cache(maxsize=None)
def spec_of(name: str, input: int, hidden: int, layers: int, bias: bool, dropout: float,
            bidirectional: bool, proj: int) -> Spec:
    """The spec of such a stack; name: a built-in cell's, or a cell's text."""
    return Spec(name, input, hidden, layers, bias, dropout, bidirectional, proj)
