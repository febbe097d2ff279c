"""Results of runs, as arrays of the caller's library.

They are numpy arrays if the run's x was, otherwise memory of ecornn that the caller's library takes
over.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Callable

import numpy

from . import _dlpack, _plan
from . import _library as lib
from ._errors import BadArgument
from ._memory import Memory, address_of, wait
from .arrays import BYTES, CODES, NAMES, TYPESTR, Place, View, device_name, read_numpy


class Array:
    """A dense array in memory of ecornn, which lives as long as it is referenced.

    The result of a run on arrays of a library without ``from_dlpack``.  Other libraries take it
    over with theirs, such as ``torch.from_dlpack(array)``.
    """

    __slots__ = ("shape", "_memory", "_type", "_place", "_stream", "__weakref__")

    def __init__(self, place: Place, shape: tuple[int, ...], type: int, stream: int = 0):
        self._memory = Memory(place.device, math.prod(shape) * BYTES[type])
        self.shape, self._type, self._place, self._stream = shape, type, place, stream

    @classmethod
    def of(cls, device: str, values: Any) -> Array:
        """A copy in device memory, such as ``cuda:0``, of anything that numpy can read."""
        name = device_name(device)
        _plan.device(name)  # raises for an unknown device
        place = Place(name)
        view = read_numpy(numpy.asarray(values), values)
        if not isinstance(view.type, int):
            raise BadArgument(f"values are {view.type}, must be {', '.join(NAMES.values())}")
        made = cls(place, view.shape, view.type)
        made._memory.write(view.address, made._memory.bytes)
        wait(place.device, 0)  # the copy may finish after its call
        return made

    @property
    def address(self) -> int:
        """Address of the first element."""
        return self._memory.address

    @property
    def dtype(self) -> str:
        """``float32`` and so on."""
        return NAMES[self._type]

    @property
    def device(self) -> str:
        """The device of its memory, e.g. ``cuda:0``."""
        return self._place.device

    def __repr__(self) -> str:
        return f"ecornn.Array({list(self.shape)}, {self.dtype}, {self.device})"

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place.kind, self._place.number

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        own = self.__dlpack_device__()
        if dl_device not in (None, own):
            raise BufferError(f"dl_device is {dl_device}, must be {own}: arrays are not moved")
        if copy:
            raise BufferError("copy is True, must be False or None")
        if not self._place.on_gpu and stream is not None:
            raise BufferError(f"stream is {stream}, must be None on a CPU")
        if self._place.on_gpu and stream != -1:
            # 1 is the default stream, which is 0 here.  Another stream sees the run's results only
            # after the run.
            if (0 if stream in (None, 1) else stream) != self._stream:
                wait(self.device, self._stream)
        return _dlpack.capsule_of(self._memory, self.address, self.shape, CODES[self._type], own,
                                  max_version)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._place.on_gpu or self._type == lib.BF16:
            raise AttributeError("numpy has no such array")
        return {"version": 3, "shape": self.shape, "typestr": TYPESTR[self._type],
                "data": (self.address, False)}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self._place.on_gpu or self._type == lib.BF16:
            raise AttributeError("not an array that the protocol knows")
        return {"version": 3, "shape": self.shape, "typestr": TYPESTR[self._type],
                "data": (self.address, False), "strides": None, "stream": self._stream or 1}

    def numpy(self) -> numpy.ndarray:
        """A copy in host memory; bfloat16 as float32."""
        found = numpy.empty(self.shape, TYPESTR[self._type])
        wait(self.device, self._stream)
        self._memory.read(address_of(found), found.nbytes)
        if self._type == lib.BF16:
            return (found.astype(numpy.uint32) << 16).view(numpy.float32)
        return found


def _taker_of(kind: type, value) -> Callable[[Array], Any]:
    """The function that makes an array of the caller's library from one of ours."""
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        module = sys.modules.get({"jaxlib": "jax.numpy", "jax": "jax.numpy"}.get(root, root))
        take = getattr(module, "from_dlpack", None)
        if callable(take):
            return take
    namespace = getattr(value, "__array_namespace__", None)
    if callable(namespace):
        take = getattr(namespace(), "from_dlpack", None)
        if callable(take):
            return take
    return lambda array: array


_takers: dict[type, Callable[[Array], Any]] = {}


class Results:
    """Creates the results of one run in the form of one of its arrays."""

    __slots__ = ("_place", "_stream", "_type", "_dtype", "_take")

    def __init__(self, like: View, place: Place, stream: int):
        self._place, self._stream, self._type = place, stream, like.type
        self._dtype = like.owner.dtype if isinstance(like.owner, numpy.ndarray) else None
        if self._dtype is None:
            kind = type(like.origin)
            if kind not in _takers:
                _takers[kind] = _taker_of(kind, like.origin)
            self._take = _takers[kind]

    def new(self, shape: tuple[int, ...]):
        """A holder of memory for one result, and its address."""
        if self._dtype is not None:
            made = numpy.empty(shape, self._dtype)
            return made, address_of(made)
        array = Array(self._place, shape, self._type, self._stream)
        return array, array.address

    def give(self, holder):
        """The caller's result for a holder, once the run that writes it is queued."""
        return holder if self._dtype is not None else self._take(holder)
