"""Memory of the library's devices as objects, and the memory that each thread keeps for its runs."""

from __future__ import annotations

import ctypes
import sys
import threading
from ctypes import addressof, c_char as _any

import numpy

from . import _library as lib
from ._errors import NoMemory
from ._library import library
from ._plan import device

_KEPT = 64 << 20  # bytes of each scratch that a thread keeps
_local = threading.local()


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


def scratch(on: str, bytes: int, stream: int, name: str) -> Memory:
    """The calling thread's own memory for one purpose, with at least this many bytes.

    The thread's next call for the same device, stream and purpose gets the same memory, so its
    contents matter during one run only.
    """
    if bytes > _KEPT:
        return Memory(on, bytes)
    key = (on, stream, name)
    kept = _local.__dict__.get(key)
    if kept is None or kept.bytes < bytes:
        kept = _local.__dict__[key] = Memory(on, bytes)
    return kept


def reserve(on: str, bytes: int, stream: int) -> Memory:
    """Memory that lives from a forward run to its last backward.

    The thread keeps the last block and reuses it when it has no other user, because the pages of
    fresh memory cost more than a small run.
    """
    if bytes > _KEPT:
        return Memory(on, bytes)
    kept, key = _local.__dict__, (on, stream, "reserve")
    if key not in kept or kept[key].bytes < bytes or _references(kept, key) > _ALONE:
        kept[key] = Memory(on, bytes)
    return kept[key]


def _references(table: dict, key) -> int:
    return sys.getrefcount(table[key])


_ALONE = _references({0: object()}, 0)  # references to an object that only the table has
