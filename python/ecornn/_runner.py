"""Runs of layers on addresses, by ``ecornn-run.so``: the plan for a T and N, packed weights that follow the
parameters, workspace and reserve are found there, in C (python/native/runner.h)."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

from . import _library as lib
from ._errors import BY_STATUS, Error

_VERSION = 2  # version of the interface between Python and the module


class _Found(ctypes.Structure):
    """struct run_plan."""

    _fields_ = [("held", c_void_p), ("plan", c_void_p), ("desc", POINTER(lib.Desc))]


_FUNCTIONS = {
    "new": (c_int, [POINTER(lib.Desc), POINTER(c_void_p)]),
    "error": (c_char_p, [c_int]),
    "free": (None, [c_void_p]),
    "take": (c_int, [c_void_p, c_void_p, c_size_t, c_int]),
    "plan": (c_int, [c_void_p, c_char_p, POINTER(_Found)]),
    "let_go": (None, [c_void_p]),
    "places": (c_int, [c_void_p, POINTER(lib.Desc), c_char_p, c_int, c_void_p, c_void_p, POINTER(c_int64 * 2)]),
    "forward": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "backward": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p, c_int]),
    "end": (None, [c_void_p]),
}


def _load() -> ctypes.CDLL:
    module = lib.module("run", _VERSION)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(module, f"ecornn_run_{name}")
        function.restype, function.argtypes = result, arguments
    return module


_module = _load()
_forward = _module.ecornn_run_forward


def check(status: int) -> None:
    """Raises unless the status is OK."""
    if status:
        raise BY_STATUS.get(status, Error)(_module.ecornn_run_error(status).decode("utf-8", "replace"))


_ASK = struct.Struct("@NPiiiiiId")


def ask_of(device: int, on_gpu: bool, size: tuple[int, int], types: tuple[int, int], flags: int,
           measure: float = 0.0) -> bytes:
    """struct ask: a run on a device, of T and N, with types of arrays and of parameters.  flags: of the plan,
    in addition to the stack's.  measure: seconds for measuring a new plan; below 0: none is made."""
    return _ASK.pack(_ASK.size, device, on_gpu, *size, *types, flags, measure)


class Stack:
    """A stack of layers: its plans and, once it has taken a block of them, its parameters."""

    __slots__ = ("handle", "__weakref__")

    def __init__(self, desc: lib.Desc):
        handle = c_void_p()
        check(_module.ecornn_run_new(byref(desc), byref(handle)))
        self.handle: int = handle.value

    def __del__(self, free=_module.ecornn_run_free):
        free(getattr(self, "handle", None))

    def take(self, address: int, bytes: int, frozen: bool) -> None:
        """The block of parameters from now on, in host memory that lives as long as the stack.  frozen:
        inference uses it as it is now."""
        check(_module.ecornn_run_take(self.handle, address, bytes, frozen))

    def infer(self, ask: bytes, io: bytes) -> None:
        """A run without gradients; io: ecornn_io with the addresses of the caller's arrays."""
        status = _forward(self.handle, ask, io, None)
        if status:  # else a call would take as long
            check(status)

    def forward(self, ask: bytes, io: bytes) -> Kept:
        """A training run."""
        return Kept(self, ask, io)


class Kept:
    """A training run that has what its backward needs: the plan, packed weights and the reserve."""

    __slots__ = ("handle",)

    def __init__(self, stack: Stack, ask: bytes, io: bytes):
        handle = c_void_p()
        check(_forward(stack.handle, ask, io, byref(handle)))
        self.handle: int = handle.value

    def __del__(self, end=_module.ecornn_run_end):
        end(getattr(self, "handle", None))

    def backward(self, io: bytes, gradient: bytes, dparams: int, add: bool) -> None:
        """dparams: address of a block for the gradient of the parameters, 0: it is not wanted; add: to
        what is there."""
        check(_module.ecornn_run_backward(self.handle, io, gradient, dparams, add))


class Held:
    """A plan of a stack, which lives as long as the object; desc: what it was made for."""

    __slots__ = ("_held", "handle", "desc")

    def __init__(self, stack: Stack, ask: Callable[[float], bytes], measure: Callable[[], float]):
        """ask: given seconds for measuring, which are asked for only before a new plan is made."""
        found = _Found()
        check(_module.ecornn_run_plan(stack.handle, ask(-1.0), byref(found)))
        if not found.held:
            check(_module.ecornn_run_plan(stack.handle, ask(measure()), byref(found)))
        self._held, self.handle, self.desc = found.held, found.plan, found.desc.contents

    def __del__(self, let_go=_module.ecornn_run_let_go):
        let_go(getattr(self, "_held", None))

    def places(self, cell: str, bias: bool) -> tuple[list, list]:
        """Of torch's layers with that cell: kind, rows and columns of each array, columns 0: a vector; and for
        each parameter the array and element that it is packed from, and those that are added, array -1:
        none."""
        arrays, places, count = (), (), (c_int64 * 2)()
        for _ in range(2):  # the first counts
            check(_module.ecornn_run_places(self.handle, self.desc, cell.encode(), bias, arrays or None, places or None,
                                            byref(count)))
            if count[0] < 0:
                raise lib.BY_STATUS[5]("with a projection the cell has matrices R of several widths, which torch's "
                                       "layers do not support: ecornn.Layer does")
            arrays, places = arrays or ((c_int64 * 3) * count[0])(), places or ((c_int64 * 4) * count[1])()
        return [tuple(one) for one in arrays], [tuple(one) for one in places]
