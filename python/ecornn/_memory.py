"""Memory of the library's devices as objects."""

from __future__ import annotations

import ctypes
from ctypes import addressof, c_char as _any

import numpy

from . import _library as lib
from ._errors import NoMemory
from ._library import library
from ._plan import device


def address_of(array: numpy.ndarray) -> int:
    """The address of its first element."""
    try:
        return addressof(_any.from_buffer(array))  # a quarter of the time
    except (TypeError, ValueError):  # read-only, strided or empty
        return array.__array_interface__["data"][0]


class Memory:
    """Bytes of a device's memory (ecornn_alloc), freed with the object."""

    __slots__ = ("address", "bytes", "device", "_handle", "__weakref__")

    def __init__(self, on: str, bytes: int):
        self.address = 0
        self._handle = device(on)
        # No bytes are NULL to the library, and NULL often has another meaning.
        address = library.ecornn_alloc(self._handle, max(bytes, 1))
        if not address:
            raise NoMemory(library.ecornn_error_detail().decode("utf-8", "replace"))
        self.address, self.bytes, self.device = address, bytes, on

    def __del__(self, free=library.ecornn_free):
        if self.address:
            free(self._handle, self.address)

    def write(self, source: int, bytes: int) -> None:
        """Copies from host memory."""
        lib.check(library.ecornn_upload(self._handle, self.address, source, bytes))

    def read(self, target: int, bytes: int) -> None:
        """Copies the current contents to host memory; first wait for the stream that writes them."""
        lib.check(library.ecornn_download(self._handle, target, self.address, bytes))


_compare = ctypes.CDLL(None).memcmp
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def same_bytes(one: int, other: int, bytes: int) -> bool:
    """Do two addresses of host memory have equal contents?"""
    return _compare(one, other, bytes) == 0


def wait(on: str, stream: int) -> None:
    """Waits until everything queued on this stream of a device is done."""
    lib.check(library.ecornn_wait(device(on), stream))
