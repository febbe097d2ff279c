"""Files with arrays by name: safetensors and .npz by themselves, .pt, .h5, .keras and .onnx by their
own libraries.  Lengths that a file states are checked before memory is taken.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from typing import Any

import numpy

from ._errors import BadArgument
from ._names import is_below

_HEADER = 100 << 20  # bytes
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_KERAS = {"0": "kernel", "1": "recurrent_kernel", "2": "bias"}


def _said(error: Exception) -> str:
    """The message of a library, which may quote much of the file."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(str(error).split())[:300])


def read(path: str, prefix: str | None = None, data: bool = False) -> dict[str, Any]:
    """The arrays of a file by name; None for each that is not below the prefix, which is not read.
    data: also takes .npy, whose array has no name.  Raises BadArgument for a file that is not of its
    format, ImportError if its library is missing.
    """
    suffix = os.path.splitext(path)[1].lower()
    readers = {".npy": _read_npy, **_READERS} if data else _READERS
    if suffix not in readers:
        raise BadArgument(f"{path!r} ends with {suffix!r}, must end with one of "
                          f"{', '.join(readers)}")
    try:
        return readers[suffix](path, prefix)
    except (BadArgument, ImportError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # of a library, for a file that is not of its format
        raise BadArgument(f"{path!r} is not a file {suffix}: {_said(error)}") from error


def write(path: str, arrays: dict[str, numpy.ndarray]) -> None:
    """Writes arrays by name to a .safetensors or .npz file."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".npz":
        with open(path, "wb") as file:  # to a path that ends with .NPZ, savez would add .npz
            numpy.savez(file, **arrays)
    elif suffix == ".safetensors":
        with open(path, "wb") as file:
            file.writelines(_safetensors_of(arrays))
    else:
        raise BadArgument(f"{path!r} ends with {suffix!r}, must end with .safetensors or .npz")


# ---- safetensors -------------------------------------------------------------------------------

def _safetensors_of(arrays: dict[str, numpy.ndarray]) -> list[bytes]:
    header, parts, at = {}, [], 0
    for name, array in arrays.items():
        kind = {8: "F64", 4: "F32"}[array.dtype.itemsize]
        parts.append(numpy.ascontiguousarray(array, _TYPES[kind]).tobytes())
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *parts]


def _read_safetensors(path: str, prefix: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size - 8
        length = int.from_bytes(file.read(8), "little")
        if size < 0 or length > min(size, _HEADER):
            raise BadArgument(f"{path!r} has a header of {length} bytes, must be at most "
                              f"{min(max(size, 0), _HEADER)}")
        header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise BadArgument(f"{path!r} has a header that is no object")
        header.pop("__metadata__", None)
        room = left = size - length
        for name, said in header.items():
            found[name] = None
            if is_below(name, prefix):
                found[name], bytes = _tensor(file, path, name, said, 8 + length, room, left)
                left -= bytes
    return found


def _tensor(file, path: str, name: str, said: Any, begin: int, room: int,
            left: int) -> tuple[numpy.ndarray, int]:
    """A tensor and its bytes in the file.  left: bytes that no tensor before it has."""
    try:
        kind, shape, (first, last) = said["dtype"], said["shape"], said["data_offsets"]
        counts = [*shape, first, last]
    except (TypeError, KeyError, ValueError):
        raise BadArgument(f"{path!r}: {name} lacks dtype, shape or data_offsets") from None
    if kind not in _TYPES:
        raise BadArgument(f"{path!r}: {name} is {kind}, must be {', '.join(_TYPES)}")
    if not all(type(count) is int and 0 <= count < 2**63 for count in counts):
        raise BadArgument(f"{path!r}: {name} has a shape or offsets that are no counts")
    bytes = math.prod(shape) * numpy.dtype(_TYPES[kind]).itemsize
    if not first <= last <= room or last - first != bytes:
        raise BadArgument(f"{path!r}: {name} is at bytes {first} to {last}, must be {bytes} of "
                          f"{room}")
    if bytes > left:
        raise BadArgument(f"{path!r}: {name} has {bytes} bytes, of which at most {left} are its "
                          "own: tensors overlap")
    file.seek(begin + first)
    array = numpy.frombuffer(file.read(bytes), _TYPES[kind]).reshape(shape)
    if kind == "BF16":
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array, bytes


# ---- formats of other libraries ----------------------------------------------------------------

def _read_npz(path: str, prefix: str | None) -> dict[str, Any]:
    with zipfile.ZipFile(path) as whole:
        _expands(path, sum(each.file_size for each in whole.infolist()
                           if is_below(each.filename.removesuffix(".npy"), prefix)))
    with numpy.load(path, allow_pickle=False) as file:
        return {name: file[name] if is_below(name, prefix) else None for name in file.files}


def _read_npy(path: str, _prefix: str | None) -> dict[str, Any]:
    form = numpy.lib.format
    with open(path, "rb") as file:
        header = {(1, 0): form.read_array_header_1_0}.get(form.read_magic(file), form.read_array_header_2_0)
        shape, _, dtype = header(file)
        room = os.fstat(file.fileno()).st_size - file.tell()
    if math.prod(shape) * dtype.itemsize > room:
        raise BadArgument(f"{path!r} has {room} bytes for an array {dtype} {list(shape)}")
    return {"": numpy.load(path, allow_pickle=False)}


def _expands(path: str, bytes: int) -> None:
    """Refuses contents that are far larger than the file."""
    most = 64 * os.path.getsize(path) + (1 << 20)
    if bytes > most:
        raise BadArgument(f"{path!r} has {bytes} bytes of arrays, must be at most {most}")


def _read_torch(path: str, _prefix: str | None) -> dict[str, Any]:
    import torch

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as whole:
            _expands(path, sum(each.file_size for each in whole.infolist()))
    return dict(torch.load(path, map_location="cpu", weights_only=True))


def _read_keras(path: str, prefix: str | None) -> dict[str, Any]:
    if path.lower().endswith(".keras"):
        with zipfile.ZipFile(path) as whole:
            info = whole.getinfo("model.weights.h5")
            _expands(path, info.file_size)
            return _read_h5(path, io.BytesIO(whole.read(info)), prefix)
    return _read_h5(path, path, prefix)


def _read_h5(path: str, source, prefix: str | None) -> dict[str, Any]:
    import h5py

    found: dict[str, Any] = {}
    bytes = 0

    def take(name: str, item) -> None:
        nonlocal bytes
        if isinstance(item, h5py.Dataset):
            above, _, number = name.rpartition("/vars/")
            named = above.split("/")[-1].endswith("cell") and number in _KERAS
            own = f"{above}/{_KERAS[number]}" if named else name
            found[own] = None
            if not is_below(own, prefix):
                return
            if item.external or item.is_virtual:
                raise BadArgument(f"{path!r}: {name} is in another file, must be in this one")
            bytes += item.nbytes
            _expands(path, bytes)
            found[own] = item[()]

    with h5py.File(source, "r") as file:
        file.visititems(take)
    return found


def _real(integers: Any, scale: Any, zero: Any) -> numpy.ndarray:
    """W or R of an LSTM, [D,4*H,columns], from integers [D,columns,4*H] and scales and zeros [D] or
    [D,4*H].  Packed as int8 they become the same integers, if zeros are 0."""
    scale, zero = (each.reshape(len(each), 1, -1) for each in (scale, zero))
    real = (integers.astype(numpy.float32) - zero.astype(numpy.float32)) * scale
    return real.swapaxes(1, 2)


def onnx_nodes(path: str) -> list[dict[str, Any]]:
    """The LSTM, GRU and RNN nodes of a graph, in its order: name, op, attributes, and its arrays W,
    R, B and P, each as its name in the file and values.  DynamicQuantizeLSTM counts as an LSTM."""
    try:
        import onnx
        model = onnx.load(path)
    except (ImportError, FileNotFoundError):
        raise
    except Exception as error:
        raise BadArgument(f"{path!r} is not a file .onnx: {_said(error)}") from error
    graph, folder = model.graph, os.path.dirname(os.path.abspath(path))
    known = {each.name: each for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            known |= {node.output[0]: each.t for each in node.attribute if each.name == "value"}
    nodes = []
    for number, node in enumerate(graph.node):
        quantised = node.op_type == "DynamicQuantizeLSTM"
        if not quantised and node.op_type not in ("LSTM", "GRU", "RNN"):
            continue
        inputs = {"W": 1, "R": 2, "B": 3, "P": 7}
        if quantised:
            inputs |= {"W scale": 8, "W zero": 9, "R scale": 10, "R zero": 11}
        arrays = {}
        for kind, place in inputs.items():
            name = node.input[place] if place < len(node.input) else ""
            if name and name not in known:
                raise BadArgument(f"{path!r}: {kind} of {node.op_type} {node.name!r} is {name!r}, "
                                  "must be an initialiser")
            if name:
                arrays[kind] = name, onnx.numpy_helper.to_array(known[name], folder)
        for kind in "WR" if quantised else "":
            name, integers = arrays[kind]
            arrays[kind] = name, _real(integers, arrays.pop(f"{kind} scale")[1],
                                       arrays.pop(f"{kind} zero")[1])
        nodes.append({"name": node.name or f"{node.op_type}_{number}",
                      "op": "LSTM" if quantised else node.op_type,
                      "arrays": arrays, **{"attributes": {
                          each.name: onnx.helper.get_attribute_value(each)
                          for each in node.attribute}}})
    return nodes


_READERS = {".safetensors": _read_safetensors, ".npz": _read_npz, ".pt": _read_torch,
            ".pth": _read_torch, ".h5": _read_keras, ".keras": _read_keras}
