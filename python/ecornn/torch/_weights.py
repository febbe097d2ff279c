"""Packed weights.  A run never uses packed weights of other values than it is given.

A layer keeps packed weights for its next run.  On a CPU a block of them ends with a copy of the
weights that it was packed from, and each run compares that copy with the weights, all bytes of
them.  On a GPU each run packs what it does not read where it is (io.params), on its
stream, into the block that the stream keeps.  So it does not matter how weights are written to.
Only frozen weights are trusted; see Frozen.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
import sys
import threading
import weakref

import torch

from .._library import check, library
from .._memory import same_bytes
from .._plan import Plan
from . import _native, _reserve
from ._spec import NOWHERE, Spec

_entries: dict[int, "_Entry"] = {}  # by the id of the first weight
_KEPT = 8  # blocks kept by a layer for plans that cannot share one


def _references(record) -> int:
    return sys.getrefcount(record[1])


_FREE = _references((None, object()))


def _free(record) -> bool:
    """Is the block of a record unused, by runs (references) and graphs (uses)?"""
    uses = getattr(record[1], "_use_count", None)  # torch 2.4 has none: then it counts as used
    return _references(record) <= _FREE and uses is not None and uses() == 1


class _Entry:
    """Blocks of packed weights of one layer: (plan, block, stream).  On a CPU a block that a run
    may read is not written to; on a GPU the stream orders reads and writes."""

    def __init__(self, first=None):
        self.first = first  # a weak reference to the first weight
        self.packed: list[tuple[Plan, torch.Tensor, int]] = []
        self.lock = threading.Lock()

    def find(self, plan: Plan, stream: int) -> tuple | None:
        for record in self.packed:
            if record[2] == stream and plan.takes(record[0]):
                return record
        return None

    def note(self, record, most: int) -> None:
        self.packed.append(record)
        del self.packed[:max(0, len(self.packed) - most)]


class Frozen(list):
    """Copies of weights, and their packed forms, for runs that do not check for changes.  of: the
    tensors that were copied."""

    def __init__(self, weights):
        super().__init__(weight.detach().clone() for weight in weights)
        self.of, self.entry = list(weights), _Entry()
        self.of_net: dict[tuple, torch.Tensor] = {}  # by plan and stream: packed for a Net

    def serves(self, weights) -> bool:
        """Is this frozen copy for these tensors?"""
        return len(weights) == len(self.of) and all(map(operator.is_, weights, self.of))


def _entry_of(weights) -> _Entry | None:
    return weights.entry if type(weights) is Frozen else _entries.get(id(_reserve.owner(weights)))


def peek(plan: Plan, weights, stream: int) -> torch.Tensor | None:
    """A block of packed weights for that plan, possibly of earlier values, or None."""
    entry = _entry_of(weights) if weights else None
    record = entry.find(plan, stream) if entry is not None else None
    return None if record is None else record[1]


def packed(job, weights, stream: int, keep: bool) -> torch.Tensor | None:
    """The packed weights of a job's plan, [bytes or more].  keep: keeps them for the next run."""
    plan = job.plan
    if not plan.weights:
        return None
    if not keep:
        return _pack(job, weights, stream, _bytes(plan.weights, job.device))
    entry = _entry_of(weights)
    if entry is None:
        key = id(_reserve.owner(weights))
        first = weakref.ref(_reserve.owner(weights), lambda _, key=key: _entries.pop(key, None))
        entry = _entries.setdefault(key, _Entry(first))
    with entry.lock:
        return _kept(job, weights, stream, entry)


def _kept(job, weights, stream: int, entry: _Entry) -> torch.Tensor:
    plan, on_cpu = job.plan, not job.on_gpu
    record = entry.find(plan, stream)
    if record is not None:
        if type(weights) is Frozen or on_cpu and _hold(weights, record[1]):
            return record[1]
        if not on_cpu:
            return _pack(job, weights, stream, record[1])
        entry.packed.remove(record)  # from here on no run finds it
    count = plan.weights + on_cpu * sum(weight.nbytes for weight in weights)
    reuse = record is not None and record[1].numel() == count and _free(record)
    block = _pack(job, weights, stream, record[1] if reuse else _bytes(count, job.device))
    entry.note((plan, block, stream), _KEPT)
    return block


def _bytes(count: int, device) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.empty(count, dtype=torch.uint8, device=device)


def forget(weights) -> None:
    """Drops the packed weights of a layer, and the memory that it keeps."""
    _reserve.forget(weights)
    if weights:
        _entries.pop(id(_reserve.owner(weights)), None)


# ---- packing ------------------------------------------------------------------------------------


def dense(tensor):
    """The tensor in the form the library reads, dense; or None."""
    if tensor is None:
        return None
    if tensor._is_zerotensor():  # has no memory
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if tensor.layout is not torch.strided:
        raise RuntimeError(f"a tensor is {tensor.layout}, must be torch.strided")
    found = tensor.contiguous().resolve_neg()
    return found.clone() if found.data_ptr() % found.itemsize else found  # memory of other libraries


def _hold(weights, block: torch.Tensor) -> bool:
    """Does the block end with a copy of these weights?"""
    tensors = [dense(weight.detach()) for weight in weights]
    at = block.data_ptr() + block.numel() - sum(tensor.nbytes for tensor in tensors)
    for tensor in tensors:
        if not same_bytes(at, tensor.data_ptr(), tensor.nbytes):
            return False
        at += tensor.nbytes
    return True


def expect(spec: Spec, weights, device: torch.device) -> None:
    """Refuses tensors that the library would misread."""
    names = spec.names
    if len(weights) != spec.pairs * len(names):
        raise RuntimeError(f"{len(weights)} weights, must be {spec.pairs * len(names)}")
    for k, weight in enumerate(weights):
        pair, number = divmod(k, len(names))
        layer, reverse = divmod(pair, spec.directions)
        shape, dtype = spec.shapes(layer)[number], weights[0].dtype
        if weight.shape != shape or weight.dtype != dtype or weight.device != device:
            name = f"{names[number]}_l{layer}" + "_reverse" * reverse
            raise RuntimeError(
                f"{name} is {list(weight.shape)}, {weight.dtype} on {weight.device}, must be "
                f"{list(shape)}, {dtype} on {device}")


def _pack(job, weights, stream: int, block: torch.Tensor) -> torch.Tensor:
    """Packs into a block.  On a CPU the source is a copy at its end, if there is room for one, so
    that both agree whatever is written meanwhile."""
    native, spec = job.native, job.spec
    if native and _native.pack(native, block, weights):
        return block
    expect(spec, weights, job.device)
    # Weights that all models share by a stride of 0 are read where they are.
    one = spec.models is not None and all(weight.stride(0) == 0 for weight in weights)
    tensors = [dense(weight.detach()[0] if one else weight.detach()) for weight in weights]
    places, added = spec.of_first if one else spec.of_each
    start, size = [tensor.data_ptr() for tensor in tensors], tensors[0].element_size()
    if block.numel() > job.plan.weights:
        at = block.data_ptr() + block.numel() - sum(tensor.nbytes for tensor in tensors)
        for k, tensor in enumerate(tensors):
            ctypes.memmove(at, start[k], tensor.nbytes)
            start[k] = at
            at += tensor.nbytes
    none = None
    if NOWHERE in places:
        none = tensors[0].new_zeros(spec.hidden)
    start.append(0 if none is None else none.data_ptr())  # number -1: zeros
    params = _block(start, places, size)
    start[-1] = 0
    check(library.ecornn_pack(job.plan.handle, params, _block(start, added, size),
                                   block.data_ptr(), stream))
    return block


def _block(start: list[int], places, size: int) -> bytes:
    """The addresses of all parameters in their tensors, in the library's form; 0 is NULL."""
    return _pointers(len(places))(*[start[tensor] and start[tensor] + offset * size
                                    for tensor, offset in places])


@functools.lru_cache(maxsize=None)
def _pointers(count: int):
    """Packs that many addresses; 0 is NULL."""
    return struct.Struct(f"@{count}P").pack


def gradients(job, dweights: torch.Tensor, weights, wanted, stream: int):
    """The gradients of the flat weights from the packed one; None for those not wanted."""
    found = [None if not want else torch.empty_like(weight) if weight.is_contiguous()
             else torch.empty_like(weight, memory_format=torch.contiguous_format)
             for weight, want in zip(weights, wanted)]
    size, spec = weights[0].element_size(), job.spec
    start = [0 if gradient is None else gradient.data_ptr() for gradient in found]
    start.append(0)  # number -1: nowhere
    for places in spec.of_each[:1 + (spec.torch and spec.bias)]:
        check(library.ecornn_unpack(job.plan.handle, dweights.data_ptr(), _block(start, places, size),
                                    0, stream))
    return found
