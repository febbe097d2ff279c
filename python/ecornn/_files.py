"""Files with arrays by name: safetensors and .npz by themselves, .pt, .h5 and .keras by their own
libraries; and how every file is opened.

A reader finds the name and the shape of each array.  Its numbers are read when they are needed, after
a layer has compared the shape with its own; so memory follows the layer, not what a file claims.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import mmap
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy

from . import arrays
from ._errors import BadArgument, Error, printable, quoted
from ._names import flattened

_HEADER = 100 << 20  # bytes
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_KERAS = {"0": "kernel", "1": "recurrent_kernel", "2": "bias"}


# ---- all formats -------------------------------------------------------------------------------

def opened(path: str) -> BinaryIO:
    """A file to read; links are followed.  A pipe or a device, which may have no end, is refused
    without waiting for it."""
    if "\0" in path:
        raise BadArgument(f"path is {path!r}, must be without a NUL")
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise BadArgument(f"{path!r} is a pipe or a device, must be a regular file")
    return file


def contents(path: str, most: int) -> bytes:
    """The bytes of a file; refuses one with more than `most`."""
    with opened(path) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise BadArgument(f"{path!r} has more than {most} bytes, which is the most")
    return found


@contextlib.contextmanager
def of_format(what: str) -> Iterator[None]:
    """Makes errors of a format's library, or of our reader, into ours, with their reasons."""
    try:
        yield
    except (Error, ImportError):
        raise
    except Exception as error:
        said = printable(" ".join(str(error).split())[:300])
        raise BadArgument(f"{what}: {type(error).__name__}: {said}") from error


class Stored:
    """An array in a file.  numpy.asarray reads it.

    take: reads it.  bytes: that it adds to memory.
    """

    def __init__(self, path: str, name: str, shape: Sequence[int], bytes: int, take: Callable[[], Any]):
        self.shape = tuple(shape)
        if not all(0 <= count < 2**63 for count in self.shape):
            raise BadArgument(f"{path!r}: {quoted(name)} is {quoted([*shape])}, must have counts")
        self._path, self._name, self._bytes, self._take = path, name, bytes, take

    def __array__(self, dtype: Any = None, copy: Any = None) -> numpy.ndarray:
        _expands(self._path, self._bytes)
        with of_format(f"{self._path!r}: {quoted(self._name)} cannot be read"):
            return numpy.asarray(arrays.to_numpy(self._take(), quoted(self._name)), dtype)


def _expands(path: str, bytes: int) -> None:
    """Refuses contents that are far larger than the file."""
    most = 64 * os.path.getsize(path) + (1 << 20)
    if bytes > most:
        raise BadArgument(f"{path!r} has {bytes} bytes of arrays, must be at most {most}")


def read(path: str, keep: contextlib.ExitStack, data: bool = False) -> dict[str, Any]:
    """The arrays of a file by name, which can be read as long as the stack is open.
    data: also takes .npy, whose array has no name.  Raises BadArgument for a file that is not of its
    format, ImportError if its library is missing.
    """
    suffix = os.path.splitext(path)[1].lower()
    readers = {".npy": _read_npy, **_READERS} if data else _READERS
    if suffix not in readers:
        endings = [*readers] + [".onnx"] * (not data)  # which _onnx_nodes reads
        raise BadArgument(f"{path!r} ends with {suffix!r}, must end with one of {', '.join(endings)}")
    file = keep.enter_context(opened(path))
    with of_format(f"{path!r} is not a file {suffix}"):
        return readers[suffix](path, file, keep)


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
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *parts]


def _read_safetensors(path: str, file: BinaryIO, _keep) -> dict[str, Any]:
    size = os.fstat(file.fileno()).st_size - 8
    if size < 0:
        raise BadArgument(f"{path!r} has {size + 8} bytes, must be at least 8")
    length, most = int.from_bytes(file.read(8), "little"), min(size, _HEADER)
    if length > most:
        raise BadArgument(f"{path!r} has a header of {length} bytes, must be at most {most}")
    header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise BadArgument(f"{path!r} has a header that is no object")
    header.pop("__metadata__", None)
    found, room, taken = {}, size - length, 0
    for name, said in header.items():
        found[name], bytes = _tensor(path, file, name, said, room)
        taken += bytes
    if taken > room:
        raise BadArgument(f"{path!r} has {taken} bytes of tensors in {room}: they overlap")
    return found


def _tensor(path: str, file: BinaryIO, name: str, said: Any, room: int) -> tuple[Stored, int]:
    """A tensor and its bytes in the last `room` bytes of the file."""
    shown = f"{path!r}: {quoted(name)}"
    try:
        kind, shape, (first, last) = said["dtype"], said["shape"], said["data_offsets"]
        counts = [*shape, first, last]
    except (TypeError, KeyError, ValueError):
        raise BadArgument(f"{shown} lacks dtype, shape or data_offsets") from None
    if len(counts) > 66 or not all(type(count) is int and 0 <= count < 2**63 for count in counts):
        raise BadArgument(f"{shown} has a shape or offsets that are no counts")
    known = _TYPES.get(kind) if isinstance(kind, str) else None
    bytes = math.prod(shape) * numpy.dtype(known).itemsize if known else max(last - first, 0)
    if last - first != bytes:
        raise BadArgument(f"{shown} is at bytes {first} to {last}, must have {bytes}")
    if last > room:
        raise BadArgument(f"{shown} is at bytes {first} to {last}, but the file has only {room} bytes of data")

    def take() -> numpy.ndarray:
        if known is None:
            raise BadArgument(f"{shown} is {quoted(kind)}, must be {', '.join(_TYPES)}")
        file.seek(first - room, os.SEEK_END)
        array = numpy.frombuffer(file.read(bytes), known).reshape(shape)
        return array if kind != "BF16" else (array.astype(numpy.uint32) << 16).view(numpy.float32)

    return Stored(path, name, shape, bytes, take), bytes


# ---- formats of other libraries ----------------------------------------------------------------

def _npy(path: str, name: str, start: Callable[[], Any], size: int) -> Stored:
    """An array in the form .npy; start() opens its first byte, and it has `size` bytes."""
    form = numpy.lib.format
    with start() as file:  # numpy refuses headers above 10 000 bytes, but reads all of them first
        head = io.BytesIO(file.read(1 << 14))
    header = {(1, 0): form.read_array_header_1_0}.get(form.read_magic(head), form.read_array_header_2_0)
    shape, _, dtype = header(head)
    room = size - head.tell()
    bytes = math.prod(shape) * dtype.itemsize
    if bytes > room:
        raise BadArgument(f"{path!r} has {room} bytes for an array {dtype} {list(shape)}")

    def take() -> numpy.ndarray:
        with start() as file:
            return form.read_array(file, allow_pickle=False)

    return Stored(path, name, shape, bytes, take)


def _read_npz(path: str, file: BinaryIO, keep: contextlib.ExitStack) -> dict[str, Any]:
    whole = keep.enter_context(zipfile.ZipFile(file))
    return {name: _npy(path, name, functools.partial(whole.open, info), info.file_size)
            for info in whole.infolist() if (name := info.filename.removesuffix(".npy")) != info.filename}


def _read_npy(path: str, file: BinaryIO, _keep) -> dict[str, Any]:
    return {"": _npy(path, "x", lambda: opened(path), os.fstat(file.fileno()).st_size)}


def _read_torch(path: str, file: BinaryIO, _keep) -> dict[str, Any]:
    import torch

    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as whole:
            _expands(path, sum(each.file_size for each in whole.infolist()))
            large = any(b"bytearray" in whole.read(name) for name in whole.namelist() if name.endswith(".pkl"))
    else:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if text[:2] == b"PK":
                raise BadArgument(f"{path!r} begins as a zip file, but lacks its end: it is cut")
            large = text.find(b"bytearray") >= 0
    if large:  # torch would make one of any size that the file claims
        raise BadArgument(f"{path!r} holds a bytearray, must hold a dict of tensors")
    file.seek(0)
    found = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(found, dict):
        raise BadArgument(f"{path!r} holds {type(found).__name__}, must hold a dict of tensors")
    return {name: Stored(path, name, value.shape, value.numel() * value.element_size(), value.detach().contiguous)
            if isinstance(value, torch.Tensor) and not value.is_nested else None
            for name, value in flattened(found).items()}


def _read_keras(path: str, file: BinaryIO, keep: contextlib.ExitStack) -> dict[str, Any]:
    with zipfile.ZipFile(file) as whole:
        info = whole.getinfo("model.weights.h5")
        _expands(path, info.file_size)
        return _read_h5(path, io.BytesIO(whole.read(info)), keep)


def _read_h5(path: str, source: Any, keep: contextlib.ExitStack) -> dict[str, Any]:
    import h5py

    found: dict[str, Any] = {}

    def take(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or name.split("/")[0].startswith("optimizer"):
            return
        above, _, number = name.rpartition("/vars/")
        named = re.search("cell(_[0-9]+)?$", above) and number in _KERAS
        own = f"{above}/{_KERAS[number]}" if named else name

        def numbers() -> numpy.ndarray:
            if item.external or item.is_virtual or item.dtype.kind not in "fiu":
                raise BadArgument(f"{path!r}: {quoted(own)} must be numbers in this file")
            return item[()]

        found[own] = Stored(path, own, item.shape or (), item.nbytes, numbers)

    keep.enter_context(h5py.File(source, "r")).visititems(take)
    return found


_READERS = {".safetensors": _read_safetensors, ".npz": _read_npz, ".h5": _read_h5, ".keras": _read_keras,
            **dict.fromkeys((".pt", ".pth", ".th", ".ckpt", ".bin", ".tar"), _read_torch)}
