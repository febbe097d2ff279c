"""The parameters of a layer: one block of host memory, accessed by name, and its packed copies.

Knows nothing of runs: it provides the packed weights that a plan's runs read.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy

from . import _library as lib
from ._errors import BadArgument
from ._library import check, library
from ._memory import Memory, address_of, same_bytes, wait
from ._packed import Packed
from ._plan import Parameter, Plan


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


class PackedBlock(Packed):
    """Packed weights of a block, for runs of several plans; its blocks are (Memory, copy) each.

    Each was packed from a copy of the block.  A run compares that copy with the block, all bytes of
    it, and so detects every write.  Frozen: packed weights come from one copy, without comparison.
    Safe for any thread.
    """

    def __init__(self, device: str, block: numpy.ndarray, table: list[Parameter]):
        super().__init__()
        self._device, self._on_gpu = device, device.startswith("cuda")
        self._block, self._table = block, table
        self._frozen: numpy.ndarray | None = None
        self.repeats: dict[tuple[int, ...], Any] | None = None  # by shapes of x, of frozen weights

    def freeze(self, frozen: bool) -> None:
        """Keeps a copy of the block as it is now, or drops it."""
        self._frozen = self._block.copy() if frozen else None
        self.repeats = {} if frozen else None

    def memory(self, plan: Plan, may_be_frozen: bool) -> Memory | None:
        """Weights for runs of this plan; None if the plan has none."""
        if not plan.weights:
            return None
        frozen = self._frozen if may_be_frozen else None
        return self.of(plan, frozen is None, frozen)[0]

    def holds(self, block, frozen) -> bool:
        copy = block[1]
        return copy is frozen if frozen is not None else same_bytes(
            address_of(self._block), address_of(copy), copy.nbytes)

    def pack(self, plan: Plan, frozen) -> tuple[Memory, numpy.ndarray]:
        source = self._block.copy() if frozen is None else frozen
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
        return memory, source

    def unpack(self, plan: Plan, dweights: Memory, into: numpy.ndarray, add: bool, stream: int) -> None:
        """The gradient of the parameters [count] from that of the packed weights."""
        if not into.nbytes:
            return
        if not self._on_gpu:
            blocks = addresses(address_of(into), self._table, into.itemsize)
            check(library.ecornn_unpack(plan.handle, dweights.address, blocks, add, stream))
            return
        found = Memory(self._device, into.nbytes)
        blocks = addresses(found.address, self._table, into.itemsize)
        check(library.ecornn_unpack(plan.handle, dweights.address, blocks, 0, stream))
        wait(self._device, stream)
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
