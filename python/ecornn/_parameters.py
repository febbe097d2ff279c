"""The parameters of a layer: one block of host memory, seen by name, and its packed copies.

Knows nothing of runs: it gives the packed weights that a plan's runs read.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Iterator, Mapping

import numpy

from . import _library as lib
from ._errors import BadArgument
from ._library import check, library
from ._memory import Memory, wait
from ._plan import Parameter, Plan

_KEPT = 8  # packed copies of a layer, of plans that cannot share one


class Parameters(Mapping):
    """Arrays by the names of parameters, ``0.fwd.W.i``, each a view of one block; of several
    models with [M] first.

    block: all of them, [count], in the order of ecornn_param.  An item may be written in place,
    ``p[name][...] = 0``, or assigned to, which copies: ``p[name] = array``.
    """

    def __init__(self, block: numpy.ndarray, table: list[Parameter], lead: tuple[int, ...] = ()):
        self.block, self._table, self._lead = block, table, lead
        models = block.reshape(*lead, -1)
        # Of models the first one's names and places are those of all, behind its number.
        self._views = {
            p.name.rpartition(":")[2]: models[..., p.offset:p.offset + p.rows * p.cols].reshape(
                *lead, *((p.rows,) if _is_vector(p.name) else (p.rows, p.cols)))
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
        return Parameters, (self.block, self._table, self._lead)  # so that a copy's views are its block's

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name} {list(view.shape)}" for name, view in self.items())
        return f"Parameters({inside})"


def _is_vector(name: str) -> bool:
    return name.split(".")[2] in ("b", "p")


def count_of(table: list[Parameter]) -> int:
    """Elements of the block."""
    return sum(parameter.rows * parameter.cols for parameter in table)


def addresses(base: int, table: list[Parameter], bytes: int):
    """Where each parameter of a block at that address begins: an array for ctypes."""
    return (ctypes.c_void_p * len(table))(*(base + p.offset * bytes for p in table))


def address_of(block: numpy.ndarray) -> int:
    """Of its first element."""
    return block.__array_interface__["data"][0]


class Packed:
    """The packed copies of a block: made for the first run that needs one, again after a change.

    Any thread may ask.  A copy lives on while a run holds it.
    """

    def __init__(self, device: str, block: numpy.ndarray, table: list[Parameter]):
        self._device, self._on_gpu = device, device.startswith("cuda")
        self._block, self._table = block, table
        self._blocks = addresses(address_of(block), table, block.itemsize)
        self._bytes = (ctypes.c_size_t * len(table))(
            *(p.rows * p.cols * block.itemsize for p in table))
        self._lock = threading.Lock()
        self._copies: list[tuple[Plan, Memory]] = []
        self._mark = 0
        self.stale = True

    def of(self, plan: Plan) -> Memory | None:
        """Weights that runs of this plan read; None where it has none."""
        if not plan.weights:
            return None
        with self._lock:
            mark = library.ecornn_fingerprint(self._blocks, self._bytes, len(self._table))
            if self.stale or mark != self._mark:
                self.stale, self._mark, self._copies = False, mark, []
            for packed, memory in self._copies:
                if plan.takes(packed):
                    return memory
            memory = self._pack(plan)
            del self._copies[:max(0, len(self._copies) - _KEPT + 1)]
            self._copies.append((plan, memory))
            return memory

    def _pack(self, plan: Plan) -> Memory:
        memory = Memory(self._device, plan.weights)
        blocks = self._blocks
        if self._on_gpu:
            block = Memory(self._device, self._block.nbytes)
            block.write(address_of(self._block), self._block.nbytes)
            blocks = addresses(block.address, self._table, self._block.itemsize)
            wait(self._device, 0)  # the copy may end after its call
        check(library.ecornn_pack(plan.handle, blocks, memory.address, 0))
        if self._on_gpu:
            wait(self._device, 0)  # runs on any stream may read it from here on
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


def convert(plan: Plan, system: str, block: numpy.ndarray, given: numpy.ndarray | None):
    """Another system's weights into the block, or, given None, the block as that system has it."""
    if not isinstance(system, str):
        raise TypeError(f"system is {system!r}, must be torch, cudnn, keras or onnx")
    elements = ctypes.c_size_t()
    name = system.encode("utf-8", "replace")
    check(library.ecornn_import_size(plan.handle, name, ctypes.byref(elements)))
    theirs = numpy.empty(elements.value, block.dtype) if given is None else given
    kind = lib.F64 if theirs.dtype == numpy.float64 else lib.F32
    if given is None:
        check(library.ecornn_export(plan.handle, name, address_of(block), address_of(theirs), kind,
                                    theirs.size))
    else:
        check(library.ecornn_import(plan.handle, name, address_of(theirs), kind, theirs.size,
                                    address_of(block)))
    return theirs
