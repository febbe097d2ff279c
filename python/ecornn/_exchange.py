"""A layer's weights by name, from and to other systems and files."""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import TYPE_CHECKING, Any

import numpy

from . import _files, _flax, _names, _onnx_nodes
from ._errors import BadArgument, Unsupported, quoted
from ._parameters import convert, size_in
from ._plan import Shape

if TYPE_CHECKING:
    from .layer import Layer

# ONNX's activations of built-in cells, for each direction; others have the operator's defaults.
_ACTIVATIONS = {"rnn-tanh": ["Tanh"], "rnn-relu": ["Relu"], "LSTM": ["Sigmoid", "Tanh", "Tanh"],
                "GRU": ["Sigmoid", "Tanh"]}


def _counts(layer: Layer) -> dict[str, int]:
    kinds = [kind for kind, _ in layer.cell.parameters]
    return {kind: kinds.count(kind) for kind in "WRbp"}


def _shape(layer: Layer) -> Shape:
    return layer._plans_of_one.shape


def _gates(layer: Layer) -> int:
    """Number of gates of Flax's cell, which is torch's, too."""
    try:
        size_in(layer._plan_of_one(), "torch")
    except Unsupported as error:
        raise Unsupported(re.sub(r"\btorch\b", "flax", str(error))) from None
    return _counts(layer)["W"]


def names_of(layer: Layer, system: str) -> dict[str, tuple[int, ...]]:
    """The arrays of a system by name, with their shapes, in its order."""
    if system == "ecornn":
        lead = len(layer.lead)
        return {name: view.shape[lead:] for name, view in layer.parameters.items()}
    if system == "flax":
        return _flax.table(_shape(layer), _gates(layer))
    return _names.table(system, _shape(layer), _counts(layer), size_in(layer._plan_of_one(), system))


def dequantised(module: Any) -> dict[str, numpy.ndarray]:
    """The arrays of a layer of torch.ao.nn.quantized.dynamic by the names of a state_dict."""
    found = {name: weight.dequantize() for name, weight in module.get_weight().items()}
    return {name: array.detach().numpy() for name, array in {**found, **module.get_bias()}.items()}


def arrays_of(layer: Layer, system: str | None, given: Any,
              prefix: str | None) -> tuple[str, list[numpy.ndarray]]:
    """The arrays of a file or mapping in the order of a system, and that system.

    Raises BadArgument for names and shapes other than the layer's.
    """
    path = None if hasattr(given, "items") else os.fsdecode(given)
    shape = _shape(layer)
    if path is not None and path.lower().endswith(".onnx"):
        if system not in (None, "onnx"):
            raise BadArgument(f"system is {system!r}, must be 'onnx' of {path!r}")
        return "onnx", _names.in_order("onnx", _nodes(layer, path, prefix), names_of(layer, "onnx"))
    with contextlib.ExitStack() as keep:
        flat = _names.flattened(given if path is None else _files.read(path, keep))
        found = _names.chosen(flat, prefix)
        system = system or _names.system_of(found)
        names = names_of(layer, system)
        if system in ("keras", "flax"):
            found = _names.located(system, found, shape.layers, shape.directions)
        if system != "flax":
            return system, _names.in_order(system, found, names)
        gates = _gates(layer)
        ordered = _names.in_order(system, _flax.apart(found, shape, gates), names)
        return "torch", _flax.to_torch(ordered, shape, gates)


def with_biases(layer: Layer, system: str, parts: list[numpy.ndarray]) -> list[numpy.ndarray]:
    """The arrays in a system's order; those of a list of all but the biases are completed by 0."""
    if system == "flax":
        raise BadArgument("given is a list, but flax's arrays have no order: must be a dict of arrays by name")
    names = names_of(layer, system) if system in ("torch", "keras", "onnx") else {}
    weights = [name for name in names if not _names.is_bias(name)]
    shapes = [names[name] for name in weights]
    if len(parts) == len(names) or [part.shape for part in parts] != shapes:
        return parts
    return _names.in_order(system, {name: (name, part) for name, part in zip(weights, parts)}, names)


def saved(layer: Layer, system: str, model: int | None, path: Any) -> Any:
    """The arrays of a system by name; one array for a system without names."""
    part, plan = layer._part_of(model), layer._plan_of_one()
    gates = _gates(layer) if system == "flax" else 0
    names = names_of(layer, "torch" if system == "flax" else system)
    block = part.copy() if system == "ecornn" else (
        convert(plan, "torch" if system == "flax" else system, part, None))
    if not names:
        if path is not None:
            raise BadArgument(f"{system} has no names: it has no file")
        return block
    ends = numpy.cumsum([math.prod(shape) for shape in names.values()])
    arrays = [each.reshape(shape) for each, shape in zip(numpy.split(block, ends[:-1]),
                                                         names.values())]
    if system == "flax":
        arrays = _flax.from_torch(arrays, _shape(layer), gates)
        names = names_of(layer, "flax")
    flat = dict(zip(names, arrays))
    if path is not None:
        _files.write(os.fspath(path), flat)
    return flat if system != "flax" else _nested(flat)


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        *above, own = name.split("/")
        at = tree
        for piece in above:
            at = at.setdefault(piece, {})
        at[own] = array
    return tree


# ---- ONNX --------------------------------------------------------------------------------------

def _nodes(layer: Layer, path: str, prefix: str | None) -> dict[str, tuple[str, Any]]:
    """The arrays of the nodes that are the layer's, by the names of our table."""
    chosen = _onnx_nodes.nodes_of(path, prefix)
    if len(chosen) != layer.layers:
        names = _names.some(node["name"] for node in chosen)
        raise BadArgument(f"{path!r} has the recurrent nodes {names}, must have {layer.layers} for "
                          "this layer: prefix chooses one by its name")
    for node in chosen:
        _fits(layer, node)
    found = _onnx_nodes.arrays_of(chosen)
    for name, shape in names_of(layer, "onnx").items():
        if _names.is_bias(name):
            found.setdefault(name, ("B", numpy.zeros(shape, numpy.float32)))
    return found


def _fits(layer: Layer, node: dict[str, Any]) -> None:
    """Refuses a node whose attributes, which its arrays do not show, are not the layer's."""
    said, counts = node["attributes"], _counts(layer)
    wanted: dict[str, tuple[Any, Any]] = {
        "direction": ("forward", {"both": "bidirectional"}.get(
            "both" if layer.bidirectional else layer.direction, layer.direction)),
        "clip": (None, None), "activation_alpha": (None, None), "activation_beta": (None, None),
        "input_forget": (0, int(layer.cell.name == "lstm-coupled")),
        "linear_before_reset": (0, int(counts["b"] > counts["W"]))}
    usual = _ACTIVATIONS.get(layer.cell.name, _ACTIVATIONS.get(node["op"], ["Tanh"]))
    default = _ACTIVATIONS.get(node["op"], ["Tanh"]) * layer.directions
    wanted["activations"] = default, usual * layer.directions
    for name, (default, value) in wanted.items():
        if (found := said.get(name, default)) != value:
            raise BadArgument(f"{name} of {quoted(node['name'])} is {quoted(found)}, must be {quoted(value)} "
                              "for the layer")
