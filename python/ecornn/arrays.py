"""Arrays of any library, read without a copy.

Three protocols are supported: numpy's arrays, ``__dlpack__`` and ``__cuda_array_interface__``.
This module knows nothing of runs; results.py makes a run's results.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import _dlpack
from . import _library as lib
from ._errors import BadArgument, Error
from ._memory import address_of, wait

INT32 = 100  # for lengths, in addition to the library's number types
NAMES = {lib.F32: "float32", lib.F64: "float64", lib.BF16: "bfloat16", lib.F16: "float16",
         INT32: "int32"}
BYTES = {lib.F32: 4, lib.F64: 8, lib.BF16: 2, lib.F16: 2, INT32: 4}
TYPESTR = {lib.F32: "<f4", lib.F64: "<f8", lib.BF16: "<u2", lib.F16: "<f2", INT32: "<i4"}
CODES = {lib.F32: (_dlpack.FLOAT, 32), lib.F64: (_dlpack.FLOAT, 64),
          lib.BF16: (_dlpack.BFLOAT, 16), lib.F16: (_dlpack.FLOAT, 16), INT32: (_dlpack.INT, 32)}
_KINDS = {_dlpack.INT: "int", _dlpack.UINT: "uint", _dlpack.FLOAT: "float", _dlpack.BFLOAT: "bfloat"}


def device_name(name: str | None) -> str:
    """The canonical name of a device; None: the fastest one.  The device need not exist."""
    if name is None:
        return "cuda:0" if lib.device_count("cuda") > 0 else "cpu"
    if not isinstance(name, str):
        raise TypeError(f"device is {name!r}, must be a str such as cpu, cuda:0 or reference")
    if "\0" in name or not name.isascii():
        raise BadArgument(f"device is {name!r}, must be cpu, cpu:K, cuda, cuda:K or reference")
    return "cuda:0" if name == "cuda" else name


class Place:
    """The memory in which arrays for a device must be, in DLPack's terms."""

    __slots__ = ("device", "kind", "number", "on_gpu", "allowed")

    def __init__(self, device: str):
        self.device = device
        self.on_gpu = device.startswith("cuda")
        self.kind = _dlpack.CUDA if self.on_gpu else _dlpack.CPU
        self.number = int(device.partition(":")[2] or 0) if self.on_gpu else 0
        self.allowed = (_dlpack.CUDA, _dlpack.CUDA_MANAGED) if self.on_gpu else (
            _dlpack.CPU, _dlpack.CUDA_HOST)

    def check(self, name: str, kind: int, number: int) -> None:
        """Refuses an array in other memory."""
        if kind not in self.allowed or (self.on_gpu and number != self.number):
            where = {_dlpack.CPU: "the host", _dlpack.CUDA: f"cuda:{number}"}.get(
                kind, f"DLPack's device {kind}:{number}")
            want = f"cuda:{self.number}" if self.on_gpu else "the host"
            raise BadArgument(
                f"{name} is in memory of {where}, must be in that of {want}: "
                f"the layer runs on {self.device}")


class View:
    """A caller's array: its address, and the object that keeps it alive."""

    __slots__ = ("address", "shape", "type", "owner", "origin")

    def __init__(self, address: int, shape: tuple[int, ...], type: int | str, owner, origin):
        self.address, self.shape, self.type = address, shape, type
        self.owner, self.origin = owner, origin  # the holder of the memory, and the caller's object


def _type_of(dtype: numpy.dtype) -> int | str:
    """Number type of a dtype, or its name for an unsupported one."""
    if dtype.isnative:
        for number, name in NAMES.items():
            if dtype.name == name:
                return number
    return str(dtype)


_by_dtype: dict[numpy.dtype, int] = {}


def read_numpy(array: numpy.ndarray, origin) -> View:
    """A view of a numpy array, or of a copy if it is not dense."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = numpy.require(array, requirements=["C", "A"])
    found: int | str | None = _by_dtype.get(array.dtype)
    if found is None:
        found = _type_of(array.dtype)
        if isinstance(found, int):
            _by_dtype[array.dtype] = found
    return View(address_of(array), array.shape, found, array, origin)


def _is_dense(shape, strides) -> bool:
    """Are strides in elements row-major without gaps?"""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != step:
            return 0 in shape
        step *= size
    return True


def _must_be_dense(name: str, shape, strides) -> None:
    if not _is_dense(shape, strides):
        raise BadArgument(f"{name} is {list(shape)} with strides {list(strides)}, must be dense "
                          "and row-major: make a contiguous copy of it")


def _must_have_memory(name: str, shape, address) -> None:
    """NULL would mean that the array is not given."""
    if not address and 0 not in shape:
        raise BadArgument(f"{name} is {list(shape)} without memory, must have its numbers")


def _read_dlpack(value, name: str, place: Place, stream: int) -> View:
    if hasattr(value, "resolve_neg"):  # a tensor of torch's whose memory may have the other sign
        value = value.resolve_neg()
    kind, number = value.__dlpack_device__()
    place.check(name, kind, number)
    capsule = _dlpack.ask(value, kind, stream)
    tensor = _dlpack.tensor_of(capsule)
    shape = tuple(tensor.shape[:tensor.ndim])
    if tensor.strides:
        _must_be_dense(name, shape, tensor.strides[:tensor.ndim])
    code = (tensor.code, tensor.bits) if tensor.lanes == 1 else ()
    found: int | str = f"{_KINDS.get(tensor.code, 'code')}{tensor.bits}"
    for number, wanted in CODES.items():
        if code == wanted:
            found = number
    _must_have_memory(name, shape, tensor.data)
    return View((tensor.data or 0) + tensor.byte_offset, shape, found, capsule, value)


def _read_cuda(value, name: str, place: Place, stream: int) -> View:
    said = value.__cuda_array_interface__
    place.check(name, _dlpack.CUDA, place.number)  # the protocol does not say which GPU
    dtype = numpy.dtype(said["typestr"])
    shape = tuple(said["shape"])
    if said.get("strides") is not None:
        _must_be_dense(name, shape, [step / max(dtype.itemsize, 1) for step in said["strides"]])
    _must_have_memory(name, shape, said["data"][0])
    other = said.get("stream")
    if other is not None and (0 if other == 1 else other) != stream:
        wait(place.device, other)
    return View(said["data"][0], shape, _type_of(dtype), value, value)


def read(value: Any, name: str, place: Place, stream: int = 0) -> View:
    """Reads the address of an array.  name: of the argument, for errors.

    numpy arrays may have any strides, and are copied if they are not dense; arrays of other
    libraries must be dense.  Raises BadArgument for memory other than the device's, TypeError if
    the object is not an array.
    """
    if type(value) is numpy.ndarray and not place.on_gpu:
        return read_numpy(value, value)
    if isinstance(value, numpy.ma.MaskedArray):
        raise BadArgument(f"{name} is a masked array, must be an array without a mask")
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        place.check(name, _dlpack.CPU, 0)
        return read_numpy(numpy.asarray(value), value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _read_dlpack(value, name, place, stream)
    if hasattr(value, "__cuda_array_interface__"):
        return _read_cuda(value, name, place, stream)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        place.check(name, _dlpack.CPU, 0)
        return read_numpy(numpy.asarray(value), value)
    try:
        bytes_of = memoryview(value)
    except TypeError:
        raise TypeError(f"{name} is {_short(value)}, must be an array: of numpy, with __dlpack__ "
                        "or with __cuda_array_interface__") from None
    place.check(name, _dlpack.CPU, 0)
    return read_numpy(numpy.asarray(bytes_of), value)


def is_on_gpu(value: Any) -> bool:
    """Does the array claim to be in GPU memory?"""
    if hasattr(value, "__dlpack_device__"):
        return value.__dlpack_device__()[0] in (_dlpack.CUDA, _dlpack.CUDA_MANAGED)
    return hasattr(value, "__cuda_array_interface__")


def _short(value) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def expect(view: View, name: str, shape, type: int) -> View:
    """Refuses another number type or shape.  A letter in shape stands for any number."""
    if view.type != type:
        raise BadArgument(f"{name} is {NAMES.get(view.type, view.type)}, must be {NAMES[type]}")
    fits = len(view.shape) == len(shape) and all(
        isinstance(want, str) or size == want for size, want in zip(view.shape, shape))
    if not fits:
        want = ",".join(map(str, shape))
        raise BadArgument(f"{name} is [{','.join(map(str, view.shape))}], must be [{want}]")
    return view


def to_numpy(value: Any, name: str) -> numpy.ndarray:
    """An array of host memory as numpy's; bfloat16 becomes float32.  Raises BadArgument if the array's
    library cannot give its numbers."""
    try:
        return _to_numpy(value, name)
    except Error:
        raise
    except (BufferError, RuntimeError, ValueError) as error:
        raise BadArgument(f"{name} is {type(value).__name__}, whose numbers cannot be read: {error}") from error


def _to_numpy(value: Any, name: str) -> numpy.ndarray:
    detach = getattr(value, "detach", None)  # for tensors that require a gradient
    place = Place("cpu")
    if isinstance(value, (list, tuple, int, float)):
        return numpy.asarray(value)
    view = read(detach() if callable(detach) else value, name, place)
    if view.type == lib.BF16:
        words = _dlpack.host_view(view.owner, view.address, view.shape, "<u2")
        return (words.astype(numpy.uint32) << 16).view(numpy.float32)
    if isinstance(view.owner, numpy.ndarray):
        return view.owner
    try:
        typestr = TYPESTR[view.type] if isinstance(view.type, int) else numpy.dtype(view.type).str
    except TypeError:
        raise BadArgument(f"{name} is {view.type}, must be a number type of numpy's") from None
    return _dlpack.host_view(view.owner, view.address, view.shape, typestr)
