"""The parameters of a layer: one block of host memory, accessed by name, and its packed copies.

Knows nothing of runs: it provides the packed weights that a plan's runs read.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy

from . import _library as lib
from ._errors import BadArgument
from ._library import check, library
from ._memory import Memory, address_of, same_bytes, wait
from ._plan import Parameter, Plan

_KEPT = 8  # packed weights kept for plans that cannot share them


class Parameters(Mapping):
    """Arrays by parameter name, ``0.fwd.W.i``, each a view of one block; with several models they
    have [M] first.

    block: all of them, [count], in the order of ecornn_param.  An item may be written in place,
    ``p[name][...] = 0``, or assigned, which copies: ``p[name] = array``.
    """

    def __init__(self, block: numpy.ndarray, table: list[Parameter], lead: tuple[int, ...] = ()):
        self.block, self._table, self._lead = block, table, lead
        models = block.reshape(*lead, -1)
        # With models, the names and offsets of model 0 serve for all, after its prefix.
        self._views = {
            p.name.rpartition(":")[2]: models[..., p.offset:p.offset + p.rows * p.cols].reshape(
                *lead, *p.shape)
            for p in table[:len(table) // math.prod(lead)]
        }

    def __getitem__(self, name: str) -> numpy.ndarray:
        return self._views[name]

    def __setitem__(self, name: str, value) -> None:
        view, value = self._views[name], numpy.asarray(value)
        if value.shape not in ((), view.shape):
            raise BadArgument(f"{name} is given {list(value.shape)}, must be {list(view.shape)}")
        view[...] = value

    def __reduce__(self):
        # A copy must have views of its own block.
        return Parameters, (self.block, self._table, self._lead)

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name} {list(view.shape)}" for name, view in self.items())
        return f"Parameters({inside})"


def count_of(table: list[Parameter]) -> int:
    """Number of elements in the block."""
    return sum(parameter.rows * parameter.cols for parameter in table)


def addresses(base: int, table: list[Parameter], bytes: int):
    """The address of each parameter of a block, as a ctypes array."""
    return (ctypes.c_void_p * len(table))(*(base + p.offset * bytes for p in table))


class Packed:
    """Packed weights of a block, for runs of several plans.

    Each was packed from a copy of the block.  A run compares that copy with the block, all bytes of
    it, and so detects every write.  Frozen: packed weights come from one copy, without comparison.
    Safe for any thread.  Packed weights live on while a run holds them.
    """

    def __init__(self, device: str, block: numpy.ndarray, table: list[Parameter]):
        self._device, self._on_gpu = device, device.startswith("cuda")
        self._block, self._table = block, table
        self._lock = threading.Lock()
        self._packed: list[tuple[Plan, Memory, numpy.ndarray]] = []  # the copy comes last
        self._frozen: numpy.ndarray | None = None
        self.repeats: dict[tuple[int, ...], Any] | None = None  # by shapes of x, of frozen weights

    def freeze(self, frozen: bool) -> None:
        """Keeps a copy of the block as it is now, or drops it."""
        self._frozen = self._block.copy() if frozen else None
        self.repeats = {} if frozen else None

    def of(self, plan: Plan, may_be_frozen: bool) -> Memory | None:
        """Weights for runs of this plan; None if the plan has none."""
        if not plan.weights:
            return None
        with self._lock:
            frozen = self._frozen if may_be_frozen else None
            for k, (packed, memory, copy) in enumerate(self._packed):
                if frozen is not None and copy is not frozen or not plan.takes(packed):
                    continue
                if copy is frozen or same_bytes(address_of(self._block), address_of(copy),
                                                copy.nbytes):
                    return memory
                del self._packed[k]
                break
            copy = self._block.copy() if frozen is None else frozen
            memory = self._pack(plan, copy)
            self._packed.append((plan, memory, copy))
            del self._packed[:-_KEPT]
            return memory

    def _pack(self, plan: Plan, source: numpy.ndarray) -> Memory:
        memory, at = Memory(self._device, plan.weights), address_of(source)
        if self._on_gpu:
            block = Memory(self._device, source.nbytes)
            block.write(at, source.nbytes)
            wait(self._device, 0)  # the copy may finish after its call
            at = block.address
        blocks = addresses(at, self._table, source.itemsize)
        check(library.ecornn_pack(plan.handle, blocks, None, memory.address, 0))
        if self._on_gpu:
            wait(self._device, 0)  # runs on any stream may read it from now on
        return memory


def unpack(device: str, plan: Plan, dweights: Memory, table: list[Parameter],
           into: numpy.ndarray, add: bool, stream: int) -> None:
    """The gradient of the parameters [count] from that of the packed weights."""
    if not into.nbytes:
        return
    if not device.startswith("cuda"):
        blocks = addresses(address_of(into), table, into.itemsize)
        check(library.ecornn_unpack(plan.handle, dweights.address, blocks, add, stream))
        return
    found = Memory(device, into.nbytes)
    blocks = addresses(found.address, table, into.itemsize)
    check(library.ecornn_unpack(plan.handle, dweights.address, blocks, 0, stream))
    wait(device, stream)
    target = numpy.empty_like(into) if add else into
    found.read(address_of(target), target.nbytes)
    if add:
        into += target


def size_in(plan: Plan, system: str) -> int:
    """Number of elements of the weights in another system."""
    if not isinstance(system, str):
        raise TypeError(f"system is {system!r}, must be torch, cudnn, keras or onnx")
    elements = ctypes.c_size_t()
    check(library.ecornn_import_size(plan.handle, system.encode("utf-8", "replace"),
                                     ctypes.byref(elements)))
    return elements.value


def convert(plan: Plan, system: str, block: numpy.ndarray, given: numpy.ndarray | None):
    """Converts another system's weights to the block, or, with given None, the block to that
    system's."""
    elements, name = size_in(plan, system), system.encode("utf-8", "replace")
    theirs = numpy.empty(elements, block.dtype) if given is None else given
    kind = lib.F64 if theirs.dtype == numpy.float64 else lib.F32
    if given is None:
        check(library.ecornn_export(plan.handle, name, address_of(block), address_of(theirs), kind,
                                    theirs.size))
    else:
        check(library.ecornn_import(plan.handle, name, address_of(theirs), kind, theirs.size,
                                    address_of(block)))
    return theirs
