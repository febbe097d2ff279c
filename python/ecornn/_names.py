"""Names and shapes of other systems' arrays (doc/guide/weights.md), for weights that come by name.

A name in a file or dict of a whole model is a path: the parts before the array's own name say which
layer and direction it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy

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


def flattened(given: Mapping, above: str = "") -> dict[str, Any]:
    """Arrays of nested mappings, by path."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        path = f"{above}{name}"
        below = flattened(value, f"{path}/") if isinstance(value, Mapping) else {
            path.removesuffix("/value").removesuffix(":0"): value}
        if below.keys() & found.keys():
            raise BadArgument(f"given has {next(iter(below.keys() & found.keys()))} twice")
        found |= below
    return found


def system_of(names) -> str:
    """The system that has such names.  Raises BadArgument if none has."""
    for system, pattern in (
            ("torch", r"(weight|bias)_(ih|hh|hr)_l[0-9]+(_reverse)?$"),
            ("keras", r"recurrent_kernel(_l[0-9]+)?(_reverse)?$"),
            ("flax", r"(^|/)([ih][ifgorzn]?_?|dense_[ih])/kernel$"),
            ("onnx", r"^[WR](_l[0-9]+)?$"), ("ecornn", r"^[0-9]+\.(fwd|rev)\.[WRbp]\.")):
        if any(re.search(pattern, name) for name in names):
            return system
    raise BadArgument(f"given has {_some(names)}, which are names of no known system")


def _some(names) -> str:
    names = list(map(repr, names))
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or (
        "no arrays")


def is_below(name: str, prefix: str | None) -> bool:
    """Whether a path is below a prefix, which may end with its separator."""
    return prefix is None or name.startswith(prefix) and (
        prefix[-1:] in "./" or name[len(prefix):][:1] in "./")


def chosen(flat: dict[str, Any], prefix: str | None) -> dict[str, tuple[str, Any]]:
    """The arrays below a prefix, by the rest of their path: path and array."""
    found = {name: (name, value) for name, value in flat.items()}
    if prefix is None:
        return found
    found = {name[len(prefix):].lstrip("./"): each for name, each in found.items()
             if is_below(name, prefix)}
    if not found:
        raise BadArgument(f"prefix is {prefix!r}, but given has {_some(flat)}")
    return found


def located(found: dict[str, tuple[str, Any]], names: dict[str, tuple[int, ...]], layers: int,
            directions: int, parts: int) -> dict[str, tuple[str, Any]]:
    """Paths of keras or flax replaced by the names of our table.

    parts: of the path that are the array's own name.  What comes before is the layer, with a part
    that begins with ``backward`` or ends with ``_reverse`` for that direction; layers differ in a
    number.
    """
    if not found or set(found) & set(names):
        return found
    place: dict[str, tuple[str, bool, str]] = {}
    for path in found:
        pieces = path.split("/")
        above, own = pieces[:-parts], "/".join(pieces[-parts:]).replace("_/", "/")
        forward = [re.sub("^backward", "forward", piece.removesuffix("_reverse"))
                   for piece in above]
        place[path] = "/".join(forward), forward != above, own
    groups = sorted({layer for layer, _, own in place.values() if _is_own(own, names)},
                    key=lambda name: [int(part) if part.isdigit() else part
                                      for part in re.split("([0-9]+)", name)])
    if len(groups) != layers or len({re.sub("_?[0-9]+", "", group) for group in groups}) > 1:
        raise BadArgument(f"given has layers {_some(groups)}, must have {layers} that differ in a "
                          "number only: prefix chooses what is below a path")
    several, result = layers * directions > 1, {}
    for path, (layer, reverse, own) in place.items():
        name = path
        if layer in groups and _is_own(own, names):
            suffix = f"l{groups.index(layer)}" + "_reverse" * (reverse and directions > 1)
            name = own if not several else f"{own}_{suffix}" if parts == 1 else f"{suffix}/{own}"
        if name in result:
            raise BadArgument(f"given has {name} twice, as {result[name][0]} and {path}: prefix "
                              "chooses what is below a path")
        result[name] = found[path]
    return result


def _is_own(own: str, names) -> bool:
    return own.startswith("dense_") or any(
        name == own or name.startswith(f"{own}_l") or name.endswith(f"/{own}") for name in names)


def in_order(system: str, found: dict[str, tuple[str, Any]],
             names: dict[str, tuple[int, ...]]) -> list[Any]:
    """The arrays in the system's order.  Biases are 0 if none is given.  Raises BadArgument for
    wrong names and shapes."""
    if not names:
        raise BadArgument(f"{system} has no names: its arrays must come as a list, in its order")
    missing = [name for name in names if name not in found]
    biases = [name for name in names if re.search(r"(^|/)(bias|B(_|$))", name)]
    if missing == biases or missing == [name for name in biases if "hn/" in name]:
        missing = []
    unknown = [path for name, (path, _) in found.items() if name not in names]
    if missing or unknown:
        said = [f"lacks {', '.join(missing)}"] * bool(missing)
        said += [f"has {_some(unknown)}, which the layer has not"] * bool(unknown)
        raise BadArgument(f"given {' and '.join(said)}; the names of {system} are "
                          f"{', '.join(names)}; prefix chooses what is below a path")
    return [_checked(*found[name], shape) if name in found else numpy.zeros(shape, numpy.float32)
            for name, shape in names.items()]


def _checked(path: str, value: Any, shape: tuple[int, ...]) -> numpy.ndarray:
    given = getattr(value, "shape", None)
    if given is not None and tuple(given) != shape:  # before a large array is read
        raise BadArgument(f"{path} is {list(given)}, must be {list(shape)}")
    array = arrays.to_numpy(value, path)
    if array.shape != shape:
        raise BadArgument(f"{path} is {list(array.shape)}, must be {list(shape)}")
    if array.dtype.kind not in "fiu":
        raise BadArgument(f"{path} is {array.dtype}, must be numbers")
    return array
