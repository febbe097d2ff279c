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
from ._errors import BadArgument, quoted
from ._plan import Shape

_MOST_NAMES, _MOST_DEPTH = 64 << 20, 64
_KERAS_PEEPHOLES = tuple(f"{gate}_gate_peephole_weights" for gate in ("input", "forget", "output"))


def table(system: str, shape: Shape, counts: dict[str, int],
          elements: int) -> dict[str, tuple[int, ...]]:
    """Each array by name, in the system's order; empty if the system's arrays have no names.

    counts: of W, R, b and p of a pair.  elements: of all arrays.  The number of gates follows from
    it, because a system may have gates that the cell lacks.
    """
    H, P, D, proj = shape.hidden, shape.width, shape.directions, shape.proj
    pairs = [(layer, reverse) for layer in range(shape.layers) for reverse in range(D)]
    widths = [shape.input if layer == 0 else shape.output for layer, _ in pairs]
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


def flattened(given: Mapping) -> dict[str, Any]:
    """Arrays of nested mappings, by path."""
    found: dict[str, Any] = {}
    room = _MOST_NAMES

    def take(above: str, mapping: Mapping, depth: int) -> None:
        nonlocal room
        for name, value in mapping.items():
            if not isinstance(name, (str, int)):
                raise BadArgument(f"given has a name of type {type(name).__name__} in {quoted(above)}, must be a str")
            path = f"{above}{name}"
            room -= len(path) + 256
            if depth > _MOST_DEPTH:
                raise BadArgument(f"given has {quoted(path)} {depth} deep, must be at most {_MOST_DEPTH}: is a "
                                  "dict in itself?")
            if room < 0:
                raise BadArgument(f"given has too many or too long names, the last of them {quoted(path)}")
            if isinstance(value, Mapping):
                take(f"{path}/", value, depth + 1)
                continue
            path = path.removesuffix("/value").removesuffix(":0")
            if path in found:
                raise BadArgument(f"given has {quoted(path)} twice")
            found[path] = value

    take("", given, 0)
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
    raise BadArgument(f"given has {some(names)}, which are names of no known system")


def some(names) -> str:
    names = list(map(quoted, names))
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or (
        "nothing")


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
        raise BadArgument(f"prefix is {quoted(prefix)}, but given has {some(flat)}")
    return found


def located(system: str, found: dict[str, tuple[str, Any]], layers: int | None = None,
            directions: int = 1) -> dict[str, tuple[str, Any]]:
    """Paths of keras or flax replaced by the names of our table; what is below the path of another
    layer is left out.

    layers: None: as many as there are.  What comes before an array's own name is the layer, with a
    part that begins with ``backward`` or ends with ``_reverse`` for that direction; layers differ in a
    number.
    """
    parts, recurrent = _OWN[system]
    place: dict[str, tuple[str, bool, str]] = {}
    for path in found:
        pieces = re.sub(r"^(\w+)(_l[0-9]+(?:_reverse)?)$", r"\2/\1", path).split("/")
        above, own = pieces[:-parts], "/".join(pieces[-parts:]).replace("_/", "/")
        forward = [re.sub("^backward", "forward", piece.removesuffix("_reverse")) for piece in above]
        place[path] = "/".join(forward), forward != above, own
    alike: dict[str, set[str]] = {}
    for layer, _, own in place.values():
        if re.fullmatch(recurrent, own):
            alike.setdefault(re.sub("_?[0-9]+", "", layer), set()).add(layer)
    if not alike:
        return found
    groups = max(alike.values(), key=len)
    if len(alike) > 1 or layers not in (None, len(groups)):
        raise BadArgument(f"given has layers {some(sorted(set().union(*alike.values())))}, must have "
                          f"{layers or 'some'} that differ in a number only: prefix chooses what is below "
                          "a path")
    groups = sorted(sorted(groups), key=lambda name: [(len(part), part) if k % 2 else (0, part) for k, part
                                                         in enumerate(re.split("0*([0-9]+)", name))])
    several, result = len(groups) * directions > 1, {}
    for path, (layer, reverse, own) in place.items():
        if layer not in groups:
            if "/" not in path:
                result[path] = found[path]
            continue
        suffix = f"l{groups.index(layer)}" + "_reverse" * (reverse and directions > 1)
        name = own if not several else f"{own}_{suffix}" if parts == 1 else f"{suffix}/{own}"
        if name in result:
            raise BadArgument(f"given has {quoted(name)} twice, as {quoted(result[name][0])} and "
                              f"{quoted(path)}: prefix chooses what is below a path")
        result[name] = found[path]
    return result


# Systems with paths: parts of a path that are the array's own name, and this name in recurrent layers.
_OWN = {"keras": (1, "recurrent_kernel"), "flax": (2, "(h[ifgorzn]?|dense_h)/kernel")}
# Where the sizes are: the array with I, and its axis; those with H, by layer, and their axis.
_SIZES = {"torch": ("weight_ih_l0", 1, r"weight_hh_l(\d+)", 1), "onnx": ("W(_l0)?", 2, r"R(?:_l(\d+))?", 2),
          "keras": ("kernel(_l0)?", 0, r"recurrent_kernel(?:_l(\d+))?", 0),
          "flax": ("(l0/)?(i[ifgorzn]?|dense_i)/kernel", 0,
                   r"(?:l(\d+)/)?(?:h[ifgorzn]?|dense_h)/kernel", 0),
          "ecornn": (r"0\.fwd\.W\..*", 1, r"(\d+)\.fwd\.W\..*", 0)}


def sizes(system: str, found: dict[str, tuple[str, Any]]) -> dict[str, int]:
    """Sizes of a layer that has such arrays, as far as these tell them.  The arrays that tell them are
    read, so no layer is larger than a file by much."""
    input, axis, hidden, at = _SIZES[system]
    shapes = {name: numpy.shape(value) for name, (_, value) in found.items()}
    first = [name for name, shape in shapes.items() if re.fullmatch(input, name) and len(shape) > axis]
    again = {each[1]: name for name, shape in shapes.items()
             if (each := re.fullmatch(hidden, name)) and len(shape) > at}
    if not first or not again:
        return {}
    for name in (first[0], *again.values()):
        checked(*found[name], shapes[name])
    said = {"input": shapes[first[0]][axis], "layers": len(again), "hidden": shapes[again.popitem()[1]][at],
            "proj": 0}
    for name in ("weight_hr_l0", "0.fwd.proj"):
        if len(shape := shapes.get(name, ())) == 2:
            said |= {"proj": shape[0], "hidden": shape[1]}
    return said


def is_bias(name: str) -> bool:
    """Whether a name of our table is a bias's."""
    return re.search(r"(^|/)(bias|B(_|$))", name) is not None


def in_order(system: str, found: dict[str, tuple[str, Any]],
             names: dict[str, tuple[int, ...]]) -> list[Any]:
    """The arrays in the system's order.  Biases are 0 if none is given.  Raises BadArgument for
    wrong names and shapes."""
    if not names:
        raise BadArgument(f"{system} has no names: its arrays must come as a list, in its order")
    missing = [name for name in names if name not in found]
    biases = [*filter(is_bias, names)]
    if missing == biases or missing == [name for name in biases if "hn/" in name]:
        missing = []
    unknown = [path for name, (path, _) in found.items() if name not in names]
    if missing or unknown:
        said = [f"lacks {', '.join(missing)}"] * bool(missing)
        said += [f"has {some(unknown)}, which the layer has not"] * bool(unknown)
        raise BadArgument(f"given {' and '.join(said)}; the names of {system} are "
                          f"{', '.join(names)}; prefix chooses what is below a path")
    return [checked(*found[name], shape) if name in found else numpy.zeros(shape, numpy.float32)
            for name, shape in names.items()]


def checked(path: str, value: Any, shape: tuple[int, ...]) -> numpy.ndarray:
    """The array at a path, as numpy's.  Raises BadArgument unless it has this shape and numbers."""
    given = getattr(value, "shape", None)
    if given is not None and tuple(given) != shape:  # before a large array is read
        raise BadArgument(f"{quoted(path)} is {list(given)}, must be {list(shape)}")
    array = numbers(path, value)
    if array.shape != shape:
        raise BadArgument(f"{quoted(path)} is {list(array.shape)}, must be {list(shape)}")
    return array


def numbers(path: str, value: Any) -> numpy.ndarray:
    """The array at a path, as numpy's, which has numbers."""
    try:
        array = arrays.to_numpy(value, quoted(path))
    except TypeError as error:
        raise BadArgument(str(error)) from error
    if array.dtype.kind not in "fiu":
        raise BadArgument(f"{quoted(path)} is {array.dtype}, must be numbers")
    return array
