"""``python -m ecornn check --weights FILE --data FILE``: what smaller weights cost on your own data.

Prints the errors of y in int8, int8-weights and bf16 weights, compared with the same layer in double.
For one step from exact states it also prints the largest error in int8 and a bound of it.
The bound follows from norms of rows and from slopes of the cell's functions; over many steps it would
grow too large to be of use.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from . import _files, _names, _plan, export
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
    items = _plan.items(_plan.cell(layer.cell.text))
    if layer.output != layer.directions * layer.width:
        raise Unsupported("there is no bound for a y of several states")
    if layer.proj or any(item.stage > 0 or item.word == "store_operand" for item in items):
        raise Unsupported("there is no bound for a projection or a computed operand")
    states = [item.name for item in items if item.word == "state"]
    values, sums, after = {}, defaultdict(lambda: Ranged(0.0, 0.0)), {}
    for item in (item for item in items if item.stage == 0):
        word, at, argument = item.word, item.index, item.arguments[0]
        array = layer.parameters.get(f"{k}.fwd.{item.name}")
        if word in ("input", "product"):
            rows = operands["x" if word == "input" else states[item.arguments[1]]]
            sums[at] += _product(array, rows, quantises)
        elif word in ("bias", "copy"):
            sums[at] += Ranged(operands["x"].most if array is None else abs(array), 0.0)
        elif word == "load_acc":
            values[at] = sums[argument]
        elif word in ("load_state", "load_vector"):
            values[at] = Ranged(operands[item.name].most if array is None else abs(array), 0.0)
        elif word == "const":
            values[at] = Ranged(abs(item.value), 0.0)
        elif word == "store_next":
            after[at] = float(numpy.max(values[argument].error))
        elif word in _STEPS:
            values[at] = _STEPS[word](*(values[value] for value in item.arguments if value >= 0))
        elif word != "store_save":
            raise Unsupported(f"there is no bound for {word}")
    return [after[s] for s in range(layer.cell.states)]


def _one_step(layer: Layer, k: int, x: numpy.ndarray, states: Sequence[numpy.ndarray]) -> tuple[
        list[float], float]:
    """Of layer k: the bound of each state after a step, and the largest error of h, from exact states
    [T,N,*] and inputs [T,N,*]."""
    before = [numpy.concatenate([numpy.full_like(state[:1], start), state[:-1]])
              for state, start in zip(states, layer.cell.starts)]
    names = (state.name for state in _plan.items_of(_plan.cell(layer.cell.text), "state"))
    found = bound(layer, k, {"x": Rows.of(x), **dict(zip(names, map(Rows.of, before)))})
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
