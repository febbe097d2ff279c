"""``python -m ecornn check --weights FILE --data FILE``: what smaller weights cost on your own data.

Prints the errors of y in int8, int8-weights and bf16 weights, compared with the same layer in double.
For one step from exact states it also prints the largest error in int8 and a bound of it.
The bound follows from norms of rows and from slopes of the cell's functions; over many steps it would
grow too large to be of use.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from . import _files, _names, export
from ._errors import BadArgument, Unsupported
from .layer import Layer

_FORMS = ("int8", "int8-weights", "bf16")


@dataclass
class Ranged:
    """Numbers [H] whose absolute values are at most `most`, and which may be off by `error`."""

    most: Any
    error: Any

    def __add__(self, other: Ranged) -> Ranged:
        return Ranged(self.most + other.most, self.error + other.error)

    def __mul__(self, other: Ranged) -> Ranged:
        return Ranged(self.most * other.most, self.error * (other.most + other.error)
                      + self.most * other.error)


def _wave(a: Ranged) -> Ranged:
    """A function between -1 and 1 with f(0) = 0, of a slope of at most 1."""
    return Ranged(numpy.minimum(a.most, 1), numpy.minimum(a.error, 2))


def _largest(a: Ranged, b: Ranged) -> Ranged:
    return Ranged(numpy.maximum(a.most, b.most), numpy.maximum(a.error, b.error))


# An instruction of a cell, on bounds.
_STEPS = {"add": Ranged.__add__, "sub": Ranged.__add__, "mul": Ranged.__mul__, "neg": lambda a: a,
          "max": _largest, "min": _largest, "abs": lambda a: a, "relu": lambda a: a,
          "tanh": _wave, "sin": _wave, "sigmoid": lambda a: Ranged(1, numpy.minimum(a.error / 4, 1))}


@dataclass
class Rows:
    """What rows of an operand [rows,K] have at most: |x|, the sum of |x|, and the range with 0."""

    most: float
    sum: float
    range: float

    @classmethod
    def of(cls, array: numpy.ndarray) -> Rows:
        rows = array.reshape(-1, array.shape[-1]).astype(numpy.float64)
        size = abs(rows)
        return cls(size.max(), size.sum(1).max(),
                   (rows.max(1).clip(0) - rows.min(1).clip(max=0)).max())


def _product(matrix: numpy.ndarray, rows: Rows, quantises: bool) -> Ranged:
    """A matrix [H,K] times rows, both rounded: a weight by half of its row's largest over 127, a
    number by half of its row's range over 255."""
    size = abs(matrix.astype(numpy.float64))
    weight = size.max(1) / 254
    number = rows.range / 510 if quantises else 0
    return Ranged(size.sum(1) * rows.most,
                  weight * rows.sum + number * size.sum(1) + matrix.shape[1] * weight * number)


def bound(layer: Layer, k: int, operands: dict[str, Rows], quantises: bool = True) -> list[float]:
    """How far each new state of layer k may be off after a step from exact x and states, of which
    `operands` has the rows: "x", and each state by its name.

    Raises Unsupported for a cell with a function or an operand without a bound here.
    """
    if layer.cell.has_matrix:
        raise Unsupported("there is no bound for a matrix state")
    made = export.compiled(layer.cell)
    if layer.output != layer.directions * layer.width:
        raise Unsupported("there is no bound for a y of several states")
    if layer.proj or set(made.operands) != set(range(len(made.operands))) or len(made.stages) > 1:
        raise Unsupported("there is no bound for a projection or a computed operand")
    parameters, values, after = layer.parameters, {}, {}

    def accumulator(number: int) -> Ranged:
        acc = made.accumulators[number]
        parts = [(acc.input, "x")] if acc.input else []
        parts += [(name, made.states[made.operands[o]]) for o, name in acc.recurrent.items()]
        total = Ranged(abs(parameters[f"{k}.fwd.{acc.vector}"]) if acc.vector else 0.0, 0.0)
        for name, rows in parts:
            total += _product(parameters[f"{k}.fwd.{name}"], operands[rows], quantises)
        return total + Ranged(operands["x"].most, 0.0) if acc.copy else total

    def value(text: str) -> Ranged:
        if found := re.fullmatch(r"accumulator (\d+)", text):
            return accumulator(int(found[1]))
        if text in made.states:
            return Ranged(operands[text].most, 0.0)
        if f"{k}.fwd.{text}" in parameters:
            return Ranged(abs(parameters[f"{k}.fwd.{text}"]), 0.0)
        if not (call := re.fullmatch(r"(\w+)\((.*)\)", text)):
            return Ranged(abs(float(text)), 0.0)
        if call[1] not in _STEPS:
            raise Unsupported(f"there is no bound for {call[1]}")
        return _STEPS[call[1]](*(values[word] for word in call[2].split(", ")))

    for to, text in made.stages[0]:
        if to.startswith("next state"):
            after[int(to.rpartition(" ")[2])] = float(numpy.max(values[text].error))
        elif to.startswith("v"):
            values[to] = value(text)
    return [after[s] for s in range(len(made.states))]


def _one_step(layer: Layer, k: int, x: numpy.ndarray, states: Sequence[numpy.ndarray]) -> tuple[
        list[float], float]:
    """Of layer k: the bound of each state after a step, and the largest error of h, from exact states
    [T,N,*] and inputs [T,N,*]."""
    before = [numpy.concatenate([numpy.full_like(state[:1], start), state[:-1]])
              for state, start in zip(states, layer.cell.starts)]
    found = bound(layer, k, {"x": Rows.of(x), **{
        name: Rows.of(state) for name, state in zip(export.compiled(layer.cell).states, before)}})
    rows = [state.reshape(1, -1, state.shape[-1]).astype(numpy.float32) for state in (x, *before)]
    y = export.like(layer, "cpu", "f32", "int8", k)(rows[0], tuple(rows[1:]))[0]
    return found, float(abs(y[0] - states[0].reshape(-1, layer.width)).max())


def report(layer: Layer, x: numpy.ndarray) -> list[str]:
    """Lines about a layer, with float32 parameters and in one direction, on data [T,N,I].  Raises
    BadArgument for parameters that are not finite."""
    export.check_finite(layer.parameters)
    exact = export.like(layer, "reference", "f64", None)
    y, _, states = exact(x.astype(numpy.float64), all_states=True)
    lines = [f"y [{','.join(map(str, y.shape))}]: root mean square {numpy.sqrt((y**2).mean()):.3g}"]
    for form in _FORMS:
        error = abs(export.like(layer, "cpu", "f32", form)(x)[0] - y)
        lines.append(f"{form}: error of y: root mean square {numpy.sqrt((error**2).mean()):.2g}, "
                     f"largest {error.max():.2g}")
    for k in range(layer.layers):
        try:
            found, error = _one_step(layer, k, states[0][k - 1] if k else x, [state[k] for state in states])
        except Unsupported as failure:
            return [*lines, f"int8, one step: {failure}"]
        lines.append(f"int8, one step of layer {k} from exact states: error of h at most "
                     f"{found[0]:.2g}, largest {error:.2g}")
    return lines


def _data(path: str, layer: Layer) -> numpy.ndarray:
    with contextlib.ExitStack() as keep:
        name, found = next(iter(_files.read(path, keep, data=True).items()), ("", numpy.zeros(0)))
        found = _names.checked(name or "x", found, numpy.shape(found))
    with numpy.errstate(over="ignore"):
        x = found.astype(numpy.float32)
    x = x[:, None] if x.ndim == 2 else x
    if x.ndim != 3 or x.shape[2] != layer.input or not x.size:
        raise BadArgument(f"{path!r} has {list(x.shape)}, must have [T,N,{layer.input}] or "
                          f"[T,{layer.input}]")
    export.check_finite({repr(path): x})
    return x


def main(words: Sequence[str]) -> int:
    """The command ``python -m ecornn check``.  Returns its exit status."""
    parser = export.Parser(prog="python -m ecornn check", allow_abbrev=False, description=(
        "What smaller weights cost on your data: errors of y, and a bound of one step in int8."))
    export.add_options(parser)
    parser.add_argument("--data", required=True, help="x [T,N,I]: .npy, or the first array of .npz "
                        "or .safetensors")
    options = parser.parse_args(words)

    def work() -> str:
        layer, _ = export.loaded(options, None)
        return "\n".join([repr(layer), *report(layer, _data(options.data, layer))])

    return export.said(parser, work)
