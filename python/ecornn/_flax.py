"""Parameters of Flax's cells (linen and nnx) as those of torch.nn, and back.

A layer of torch has weight_ih [G*H,I], weight_hh [G*H,H] and two biases [G*H].  Flax's cells have a
kernel [I,H] or [H,H] for each gate, or all gates in one kernel [I,G*H], and one bias a gate, but
two for the n of a GRU.
"""

from __future__ import annotations

from typing import Any

import numpy

from ._errors import BadArgument, Unsupported, quoted
from ._names import numbers
from ._plan import Shape

_GATES = {4: "ifgo", 3: "rzn", 1: " "}  # in torch's order; a simple cell has i/kernel


def _gates(shape: Shape, gates: int) -> str:
    if shape.proj:
        raise Unsupported("flax has no cell with a projection")
    return _GATES[gates]


def _own(kind: str, gate: str) -> str:
    return (kind + gate).strip()


def _pairs(shape: Shape) -> list[tuple[str, int]]:
    """Prefix of the names of each pair of layer and direction, and the width of its input."""
    several = shape.layers * shape.directions > 1
    return [(f"l{layer}{'_reverse' * reverse}/" if several else "",
             shape.directions * shape.hidden if layer else shape.input)
            for layer in range(shape.layers) for reverse in range(shape.directions)]


def table(shape: Shape, gates: int) -> dict[str, tuple[int, ...]]:
    """Each array by name, with its shape."""
    H, letters = shape.hidden, _gates(shape, gates)
    found: dict[str, tuple[int, ...]] = {}
    for above, width in _pairs(shape):
        for gate in letters:
            found[f"{above}{_own('i', gate)}/kernel"] = (width, H)
            found[f"{above}{_own('h', gate)}/kernel"] = (H, H)
        for gate in letters:
            found[f"{above}{_own('h' if gates == 4 else 'i', gate)}/bias"] = (H,)
        if gates == 3:
            found[f"{above}hn/bias"] = (H,)
    return found


def apart(found: dict[str, tuple[str, Any]], shape: Shape,
          gates: int) -> dict[str, tuple[str, Any]]:
    """Kernels and biases of all gates, ``dense_i/kernel``, replaced by those of each."""
    letters, result = _gates(shape, gates), {}
    for name, (path, value) in found.items():
        above, dense, rest = name.rpartition("dense_")
        if not dense:
            result[name] = path, value
            continue
        array = numbers(path, value)
        if array.ndim == 0 or array.shape[-1] != gates * shape.hidden:
            raise BadArgument(f"{quoted(path)} is {list(array.shape)}, must have {gates * shape.hidden} "
                              "columns")
        for gate, part in zip(letters, numpy.split(array, gates, axis=-1)):
            result[f"{above}{_own(rest[0], gate)}{rest[1:]}"] = f"{path}, gate {gate}", part
    return result


def to_torch(arrays: list[numpy.ndarray], shape: Shape, gates: int) -> list[numpy.ndarray]:
    """Arrays in the order of the table as torch's, in its order."""
    by_name = dict(zip(table(shape, gates), arrays))
    letters, made = _gates(shape, gates), []
    for above, _ in _pairs(shape):
        made += [numpy.concatenate([by_name[f"{above}{_own(kind, gate)}/kernel"].T
                                    for gate in letters]) for kind in "ih"]
        one = [by_name[f"{above}{_own('h' if gates == 4 else 'i', gate)}/bias"] for gate in letters]
        other = [numpy.zeros_like(bias) for bias in one]
        if gates == 3:
            other[2] = by_name[f"{above}hn/bias"]
        made += [numpy.concatenate(one), numpy.concatenate(other)]
    return made


def from_torch(arrays: list[numpy.ndarray], shape: Shape, gates: int) -> list[numpy.ndarray]:
    """Arrays in torch's order as flax's, in the order of the table."""
    made = []
    for pair, _ in enumerate(_pairs(shape)):
        ih, hh, one, other = (numpy.split(a, gates) for a in arrays[4 * pair:4 * pair + 4])
        made += [each for i, h in zip(ih, hh) for each in (i.T, h.T)]
        sums = [a + b for a, b in zip(one, other)]
        made += [*sums[:2], one[2], other[2]] if gates == 3 else sums
    return [numpy.ascontiguousarray(each) for each in made]
