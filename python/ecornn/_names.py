"""Names and shapes of other systems' arrays (doc/guide/weights.md), for weights that come by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import arrays
from ._errors import BadArgument
from ._plan import Shape

_KERAS_PEEPHOLES = tuple(f"{gate}_gate_peephole_weights" for gate in ("input", "forget", "output"))


def table(system: str, shape: Shape, counts: dict[str, int],
          elements: int) -> dict[str, tuple[int, ...]]:
    """Each array by name, in the system's order; empty if the system's arrays have no names.

    counts: of W, R, b and p of a pair.  elements: of all arrays.  The number of gates follows from
    it, because a system may have gates that the cell lacks.
    """
    H, P, D, proj = shape.hidden, shape.width, shape.directions, shape.proj
    pairs = [(layer, reverse) for layer in range(shape.layers) for reverse in range(D)]
    widths = [shape.input if layer == 0 else D * P for layer, _ in pairs]
    peepholes = 3 if counts["p"] else 0
    biases = 2 if system != "keras" or counts["b"] > counts["W"] else 1
    rest = elements - len(pairs) * (peepholes * H + proj * H)
    gates = rest // sum(H * (width + P + biases) for width in widths) * H
    found: dict[str, tuple[int, ...]] = {}
    if system == "onnx":
        for layer in range(shape.layers):
            found |= _suffixed("_l{}", layer if shape.layers > 1 else None, {
                "W": (D, gates, widths[layer * D]), "R": (D, gates, P), "B": (D, 2 * gates),
                **({"P": (D, 3 * H)} if peepholes else {})})
    for (layer, reverse), width in zip(pairs, widths):
        suffix = f"_l{layer}" + "_reverse" * reverse
        if system == "torch":
            found |= _suffixed(suffix, layer, {
                "weight_ih": (gates, width), "weight_hh": (gates, P), "bias_ih": (gates,),
                "bias_hh": (gates,), **({"weight_hr": (proj, H)} if proj else {})})
        elif system == "keras":
            found |= _suffixed(suffix, layer if len(pairs) > 1 else None, {
                "kernel": (width, gates), "recurrent_kernel": (P, gates),
                "bias": (2, gates) if biases == 2 else (gates,),
                **dict.fromkeys(_KERAS_PEEPHOLES[:peepholes], (H,))})
    return found


def _suffixed(suffix: str, layer: int | None, arrays: dict) -> dict[str, tuple[int, ...]]:
    """layer None: the only layer, whose names have no suffix."""
    return {name + (suffix.format(layer) if layer is not None else ""): shape
            for name, shape in arrays.items()}


def in_order(system: str, given: Mapping, names: dict[str, tuple[int, ...]]) -> list[Any]:
    """The arrays of a mapping in the system's order.  Raises BadArgument for wrong names and
    shapes."""
    if not names:
        raise BadArgument(f"{system} has no names: its arrays must come as a list, in its order")
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    if missing or unknown:
        said = [f"lacks {', '.join(missing)}"] * bool(missing)
        said += [f"has {', '.join(map(repr, unknown))}, which the layer has not"] * bool(unknown)
        raise BadArgument(f"given {' and '.join(said)}; the names of {system} are "
                          f"{', '.join(names)}")
    found = [arrays.to_numpy(given[name], name) for name in names]
    for (name, shape), array in zip(names.items(), found):
        if array.shape != shape:
            raise BadArgument(f"{name} is {list(array.shape)}, must be {list(shape)}")
    return found
