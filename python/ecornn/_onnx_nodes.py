"""The recurrent nodes of a file .onnx, with their arrays, which are read when they are needed."""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any

import numpy

from ._errors import BadArgument, quoted
from ._files import Stored, contents, of_format, opened
from ._names import some

_MOST_GRAPH = (2 << 30) - 1  # bytes, which is the limit of protobuf
_INPUTS = {"W": 1, "R": 2, "B": 3, "P": 7}
_FOLDED = ("Concat", "Slice", "Unsqueeze")
_QUANTISED = {"W scale": 8, "W zero": 9, "R scale": 10, "R zero": 11}
_BYTES = {"FLOAT": 4, "DOUBLE": 8, "FLOAT16": 2, "BFLOAT16": 2, "INT8": 1, "UINT8": 1, "INT64": 8}


def nodes_of(path: str, prefix: str | None = None) -> list[dict[str, Any]]:
    """The LSTM, GRU and RNN nodes of a graph, in its order, or the one with this name: name, op, attributes, and
    its arrays W, R, B and P, each as its name in the file and values.  DynamicQuantizeLSTM counts as an LSTM."""
    import onnx

    text = contents(path, _MOST_GRAPH)
    with of_format(f"{path!r} is not a file .onnx"):
        graph = onnx.load_model_from_string(text).graph
        known = {each.name: each for each in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.output:
                known |= {node.output[0]: each.t for each in node.attribute if each.name == "value"}
        _fold(path, graph, known)
        found = [(node.name or f"{node.op_type}_{number}", node) for number, node in enumerate(graph.node)
                 if node.op_type in ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")]
        chosen = [each for each in found if prefix in (None, each[0])]
        if not found:
            raise BadArgument(f"{path!r} has no LSTM, GRU or RNN node; torch's exporter writes RNN with dynamo=False")
        if not chosen:
            raise BadArgument(f"prefix is {quoted(prefix)}, but {path!r} has the recurrent nodes "
                              f"{some(name for name, _ in found)}")
        return [_node(path, name, node, known) for name, node in chosen]


def arrays_of(nodes: list[dict[str, Any]]) -> dict[str, tuple[str, Stored]]:
    """The arrays of a stack of nodes by name, those of several layers with _l and a number."""
    return {kind + f"_l{k}" * (len(nodes) > 1): array for k, node in enumerate(nodes)
            for kind, array in node["arrays"].items()}


def _fold(path: str, graph: Any, known: dict[str, Any]) -> None:
    """Puts into known what nodes cut and join of initialisers: in all at most eight times the bytes of the file."""
    from onnx import numpy_helper, reference

    spent = 0
    for node in graph.node:
        if node.domain or node.op_type not in _FOLDED or not node.output or not known.keys() >= {*node.input}:
            continue
        with contextlib.suppress(TypeError, ValueError, IndexError, RuntimeError):  # what onnx does not compute
            given = {each: _initialiser(path, known[each])._take() for each in node.input}
            spent += sum(given[each].nbytes for each in node.input)
            if spent <= 8 * graph.ByteSize():
                known[node.output[0]] = numpy_helper.from_array(
                    reference.ReferenceEvaluator(node).run(None, given)[0], node.output[0])


def _node(path: str, own: str, node: Any, known: dict[str, Any]) -> dict[str, Any]:
    quantised = node.op_type == "DynamicQuantizeLSTM"
    arrays = {}
    for kind, place in (_INPUTS | _QUANTISED if quantised else _INPUTS).items():
        name = node.input[place] if place < len(node.input) else ""
        if name not in known and (name or kind in _QUANTISED):
            raise BadArgument(f"{path!r}: {kind} of {node.op_type} {quoted(own)} is {quoted(name)}, "
                              "must be an initialiser, or Slice, Concat and Unsqueeze of some: onnxruntime writes "
                              "such a file (SessionOptions.optimized_model_filepath, at ORT_ENABLE_BASIC)")
        if name:
            arrays[kind] = name, _initialiser(path, known[name])
    for kind in "WR" if quantised else "":
        name, integers = arrays.get(kind, ("", None))
        arrays[kind] = name, _real(path, name, integers, arrays.pop(f"{kind} scale")[1],
                                   arrays.pop(f"{kind} zero")[1])
    return {"name": own, "op": "LSTM" if quantised else node.op_type, "arrays": arrays,
            "attributes": {each.name: _attribute(each) for each in node.attribute}}


def _attribute(said: Any) -> Any:
    """The value of an attribute, with its bytes as text; None for a kind that these nodes lack."""
    def text(value: Any) -> Any:
        return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value

    single = {said.FLOAT: said.f, said.INT: said.i, said.STRING: said.s}
    several = {said.FLOATS: said.floats, said.INTS: said.ints, said.STRINGS: said.strings}
    return [*map(text, several[said.type])] if said.type in several else text(single.get(said.type))


def _initialiser(path: str, tensor: Any) -> Stored:
    size = _BYTES.get({getattr(tensor, kind): kind for kind in _BYTES}.get(tensor.data_type, ""))

    def take() -> Any:
        import onnx

        if size is None:
            raise BadArgument(f"{path!r}: {quoted(tensor.name)} is of type {tensor.data_type}, must be of "
                              f"{', '.join(_BYTES)}")
        if tensor.data_location == tensor.EXTERNAL:
            said = {each.key: each.value for each in tensor.external_data}
            place = said["location"]
            if os.path.isabs(place) or ".." in place.split("/"):
                raise BadArgument(f"{path!r}: {quoted(tensor.name)} is in {quoted(place)}, must be in a file "
                                  "below the same folder")
            with opened(os.path.join(os.path.dirname(path), place)) as file:
                file.seek(int(said.get("offset", 0)))
                tensor.raw_data = file.read(math.prod(tensor.dims) * size)
            tensor.data_location = tensor.DEFAULT
        return onnx.numpy_helper.to_array(tensor)

    return Stored(path, tensor.name, tensor.dims, 0, take)  # its bytes are in memory, or are read exactly


def _real(path: str, name: str, integers: Stored | None, scale: Stored, zero: Stored) -> Stored:
    """W or R of an LSTM, [D,4*H,columns], from integers [D,columns,4*H] and scales and zeros [D] or
    [D,4*H].  Packed as int8 they become the same integers, if zeros are 0."""
    if integers is None or len(integers.shape) != 3:
        raise BadArgument(f"{path!r}: {quoted(name)} has no integers [D,columns,4*H]")
    D, columns, rows = integers.shape
    for each in (scale, zero):
        if each.shape not in ((D,), (D, rows)):
            raise BadArgument(f"{path!r}: a scale or zero of {quoted(name)} is {list(each.shape)}, must be "
                              f"[{D}] or [{D}, {rows}]")

    def take() -> numpy.ndarray:
        whole, by, less = (numpy.asarray(each).astype(numpy.float32) for each in (integers, scale, zero))
        return ((whole - less.reshape(D, 1, -1)) * by.reshape(D, 1, -1)).swapaxes(1, 2)

    return Stored(path, name, (D, rows, columns), 0, take)
