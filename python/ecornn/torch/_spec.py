"""A stack of layers in the library's terms: its shape, its plans, and the tensor that holds each of
the library's parameters.

Knows the layout of torch.nn's weights, but no values.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
import sys
import warnings
from dataclasses import replace
from operator import index
from typing import NamedTuple

from .. import _library as lib
from .._library import check, library
from .._plan import Plan, Plans, Shape, cell, items_of, key_of, limit_of, outputs, saving_of
from ..cell import expected
from ._stream import capturing

# torch.nn's RNNBase.mode -> the library's cell.
CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn-tanh", "RNN_RELU": "rnn-relu"}

NOWHERE = (-1, 0)
# Kinds of arrays, as in python/native/layout.h, of torch's cells and of others.
_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
_OTHERS = ("weight_ih", "weight_hh", "bias", "factor", "weight_hr")
# Words of a run in an operator's problem, by their flags.
_WORDS = {lib.BIDIRECTIONAL: "bi", lib.GROUPED_INPUT: "grouped-input", lib.BATCH_MAJOR: "batch-major",
          lib.FAST_MATH: "fast", lib.ROW_INVARIANT: "row-invariant", lib.REPEAT_PADDING: "repeat-padding",
          lib.ALL_STATES: "all-states", lib.SHARED_INPUT: "shared-x"}
GATES = {"lstm": 4, "gru": 3, "rnn-tanh": 1, "rnn-relu": 1}


def one_line(text: str) -> str:
    """The text of a cell as an operator takes it.  Inductor puts an operator's arguments into
    comments of its code, which a new line would end."""
    return text.replace("\n", "\v")


def measure_seconds(on: str) -> float:
    """The time that ``ecornn.torch.benchmark`` gives to measuring a new plan; 0: none."""
    asked = sys.modules[__package__].benchmark
    if not 0 <= asked <= 1000:
        raise RuntimeError(f"ecornn.torch.benchmark is {asked}, must be a bool or 0 to 1000 (seconds)")
    if asked and on.startswith("cuda") and capturing():
        warnings.warn("ecornn.torch.benchmark: a plan is not measured, because it is made in a capture")
        return 0.0
    return 0.05 if asked is True else float(asked)


class Layers(NamedTuple):
    """The arguments of a stack of layers.  cell: the name of a built-in one, or a text; models: 0: one
    model, whose arrays have no [M] first."""

    cell: str
    input: int
    hidden: int
    layers: int = 1
    bias: bool = True
    bidirectional: bool = False
    proj: int = 0
    memory_limit: int = 0
    heads: int = 1
    grouped_input: bool = False
    models: int = 0
    saving: str = "auto"
    dropout: float = 0.0


class Spec:
    """One stack of layers as the library sees it.  Equal ones are one object; see spec_of."""

    def __init__(self, of: Layers):
        (name, self.input, hidden, layers, self.bias, bidirectional, proj, self.memory_limit,
         self.heads, self.grouped_input, models, saving, dropout) = of
        self.of, self.cell, self.hidden, self.proj = of, name, hidden, proj
        self.layers, self.dropout, memory_limit = layers, dropout, self.memory_limit
        self.models = models or None
        self.lead = (models,) if models else ()  # leading axes of weights, states and y
        self.directions = 2 if bidirectional else 1
        self.pairs = layers * self.directions
        self.torch = name in GATES
        self.states = len(items_of(cell(name), "state"))
        self.width = proj or hidden
        self.out = self.directions * self.width * outputs(name)
        self.random = "bernoulli" in name
        # The library does not support a probability of 1; see drops_all.
        self.drops_all = dropout >= 1.0 and layers > 1
        save, every = saving_of(saving)
        # or may replay
        self.replays = save == lib.SAVE_STATES or every > 0 or (memory_limit > 0 and save == 0)
        shape = Shape(name, self.input, hidden, proj, layers,
                      lib.BIDIRECTIONAL * bidirectional,
                      dropout=dropout if layers > 1 and dropout < 1.0 else 0.0,
                      flags=lib.GROUPED_INPUT * self.grouped_input, save=save, save_every=every,
                      memory_limit=limit_of(memory_limit), heads=self.heads, models=models or 1)
        self._shape = shape
        self.widths = [self.width] + [hidden] * (self.states - 1)
        self.matrix = key_of(name, self.input, hidden, self.heads) > 0
        if self.matrix:
            self.widths = [elements for elements, _ in self._of_one_step().states()]
        self.jobs: dict[tuple, object] = {}  # used by _run.py
        # The plans of this stack, without and with dropout and draws.
        self.plans = [Plans(replace(shape, cell=self.drawing(drop), dropout=shape.dropout * drop),
                            measure_seconds) for drop in (False, True)]

    def drawing(self, drop: bool) -> str:
        """The cell that draws, or the one with expected values instead: every run with a reserve
        draws."""
        return self.cell if drop or not self.random else expected(self.cell)

    def of_models(self, models: int) -> Spec:
        """The spec of that many such models, without memory_limit, which several cannot have; results
        do not depend on it."""
        return spec_of(self.of._replace(models=models, memory_limit=0))

    def state_shapes(self, batch: int) -> list[tuple[int, ...]]:
        """[L*D,N,*] of each state, with models [M] first."""
        return [(*self.lead, self.pairs, batch, width) for width in self.widths]

    # ---- tensors --------------------------------------------------------------------------

    @functools.cached_property
    def parameters(self):
        """The library's parameters of one model, in its order."""
        return self._of_one_step().parameters()

    def _of_one_step(self) -> Plan:
        return Plans(replace(self._shape, models=1)).get("reference", (1, 1), (lib.F32, lib.F32), False)

    @functools.cached_property
    def _layout(self) -> tuple[list, list]:
        """Arrays and places of the first model; see _runner.py."""
        return self._of_one_step().places(self.cell, self.bias)

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of a pair's tensors, in order: ``weight_ih`` and so on."""
        arrays, _ = self._layout
        return [(_KINDS if self.torch else _OTHERS)[kind] for kind, *_ in arrays[:len(arrays) // self.pairs]]

    def shapes(self, layer: int) -> list[tuple[int, ...]]:
        """Shapes of the tensors of a pair of that layer, in the order of names."""
        return self._shapes[layer * self.directions]

    @functools.cached_property
    def _shapes(self) -> list[list[tuple[int, ...]]]:
        shapes, count = [(*self.lead, *filter(None, sizes)) for _, *sizes in self._layout[0]], len(self.names)
        return [shapes[count * pair:count * (pair + 1)] for pair in range(self.pairs)]

    @functools.cached_property
    def of_first(self) -> tuple[list, list]:
        """of_each with the first model's weights for all models."""
        return tuple([place[k:k + 2] for place in self._layout[1]] * (self.models or 1) for k in (0, 2))

    @functools.cached_property
    def of_each(self) -> tuple[list, list]:
        """For each parameter tensor and offset to pack it from, NOWHERE: it is 0; and the same of what is
        added to it."""
        sizes = [math.prod(shape) // (self.models or 1) for pair in range(self.pairs)
                 for shape in self.shapes(pair // self.directions)]
        count = len(self._layout[1])
        return tuple([place if place == NOWHERE else (place[0], place[1] + k // count * sizes[place[0]])
                      for k, place in enumerate(places)] for places in self.of_first)


spec_of = functools.lru_cache(maxsize=None)(Spec)


def lines(text: str) -> str:
    """The text from one_line."""
    return text.replace("\v", "\n")


def has_matrix(text: str) -> bool:
    """Has it a matrix state?  Such a text, and no other, declares a part [K]."""
    return any("[K" in line.partition("#")[0] for line in lines(text).split("\n"))


def problem_of(sizes, batch_major: bool, flags: int) -> str:
    """An operator's problem: what the library's problem strings say of a run, but for T, N, types and training.
    sizes: the fields of Layers from input to models."""
    input, hidden, layers, _, bidirectional, proj, _, heads, grouped, models = sizes
    parts = [f"L{index(layers)}", f"I{index(input)}", f"H{index(hidden)}"]  # int leaves a graph's symbols
    for key, number, least in (("P", proj, 1), ("heads:", heads, 2), ("models:", models, 1)):
        if number >= least:
            parts.append(f"{key}{index(number)}")
    if bidirectional:
        flags |= lib.BIDIRECTIONAL
    if grouped:
        flags |= lib.GROUPED_INPUT
    if batch_major:
        flags |= lib.BATCH_MAJOR
    return "/".join(parts + [word for flag, word in _WORDS.items() if flags & flag])


def training_of(saving: str, memory_limit: int) -> str:
    """An operator's training: further parts of the problem string of a training run."""
    parts = [] if saving == "auto" else [f"save:{saving}"]
    return "/".join(parts + [f"memory:{index(memory_limit)}"] * (memory_limit > 0))


class Words(NamedTuple):
    """What an operator's words say."""

    spec: Spec
    batch_major: bool
    flags: int


@functools.lru_cache(maxsize=4096)
def _read(text: str, problem: str, training: str) -> tuple[Layers, bool, int]:
    handle, desc = cell(text), lib.Desc()
    parts = ["cell/T16777216/N1/train", problem] + [training] * (training != "")
    said = dict(re.findall(r"\b(I|H|heads:)(\d+)", problem))
    if has_matrix(text) and "I" in said and "H" in said:  # its K follows from the width of x
        key = key_of(text, *(int(said.get(name, 1)) for name in ("I", "H", "heads:")))
        parts.append(f"key:{key}")
    check(library.ecornn_desc_parse(ctypes.byref(desc), "/".join(parts).encode(), handle))
    odd = desc.flags & ~(sum(_WORDS) | lib.TRAINING | lib.SAVE_ALL | lib.SAVE_STATES)
    if odd or desc.type != lib.F32 or desc.param_type or desc.weight_type or desc.save_type or desc.dropout:
        raise lib.BY_STATUS[1](f"problem is {problem!r} and training {training!r}, must have no part but sizes, "
                               f"{', '.join(_WORDS.values())}, and in training save: and memory:")
    saving = (f"every:{desc.save_every}" if desc.save_every else "all" if desc.flags & lib.SAVE_ALL else
              "states" if desc.flags & lib.SAVE_STATES else "auto")
    flags = desc.flags & sum(_WORDS) & ~(lib.BIDIRECTIONAL | lib.GROUPED_INPUT | lib.BATCH_MAJOR)
    return Layers(text, desc.input, desc.hidden, max(desc.layers, 1), True, bool(desc.flags & lib.BIDIRECTIONAL),
                  desc.proj, desc.memory_limit, max(desc.heads, 1), bool(desc.flags & lib.GROUPED_INPUT), desc.models,
                  saving), bool(desc.flags & lib.BATCH_MAJOR), flags


def words_of(name: str, problem: str, training: str, dropout: float, weights: int) -> Words:
    """What an operator's arguments say of a run with that many weights, which tell if there are biases."""
    of, batch_major, flags = _read(lines(name), problem, training)
    if not 0 <= dropout <= 1:
        raise RuntimeError(f"dropout is {dropout}, must be 0 to 1")
    spec = spec_of(of._replace(dropout=float(dropout)))
    if weights != spec.pairs * len(spec.names):
        plain = spec_of(spec.of._replace(bias=False))
        spec = plain if weights == plain.pairs * len(plain.names) else spec
    return Words(spec, batch_major, flags)
