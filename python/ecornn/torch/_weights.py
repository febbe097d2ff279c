"""Packed weights, kept until the parameters change.

A change is seen by the tensors' identity, address and version.  Writes through ``.data`` have no
version: on a CPU a fingerprint of the values shows those that write everywhere; on a GPU a run
with gradients packs each time.  ``flatten_parameters`` forgets a layer's packed weights.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
import weakref

import torch

from .._library import check, library
from .._plan import Plan
from . import _native, _reserve
from ._spec import NOWHERE, Spec

_fingerprint = library.ecornn_fingerprint
_lock = threading.Lock()
_entries: dict[int, "_Entry"] = {}  # by the id of the first weight


def _refcount(values: list) -> int:
    for value in values:
        return sys.getrefcount(value)
    return 0


_FREE = _refcount([object()])  # of what only a list and the loop hold


def _free(buffer: torch.Tensor, references: int) -> bool:
    """Does nobody hold the buffer any more: no run (a reference), no graph (a use)?"""
    uses = getattr(buffer, "_use_count", None)  # torch 2.4 has none: then never
    return references <= _FREE and uses is not None and uses() == 1


def _version(weight: torch.Tensor) -> int:
    try:
        return weight._version
    except RuntimeError:  # of inference mode: none is kept
        return -1


class _Entry:
    """Packed weights of one list of tensors."""

    def __init__(self, weights, forget):
        self.first = weakref.ref(weights[0], forget)
        self.refs = [weakref.ref(weight) for weight in weights]
        self.packed: list[tuple[Plan, torch.Tensor, int]] = []  # plan, buffer, stream
        self.spare: list[torch.Tensor] = []
        self.versions: list[int] = []
        self.pointers: list[int] = []
        self.mark = 0
        self.blocks = self.bytes = None

    def holds(self, weights) -> bool:
        """Are these the tensors that were packed, unchanged as far as they say?"""
        try:
            for ref, version, pointer, weight in zip(self.refs, self.versions, self.pointers,
                                                     weights):
                if (ref() is not weight or weight.data_ptr() != pointer
                        or weight._version != version):
                    return False
        except RuntimeError:  # of inference mode: has no version
            if not self._holds_unversioned(weights):
                return False
        if self.blocks is not None:
            return _fingerprint(self.blocks, self.bytes, len(self.refs)) == self.mark
        return len(self.refs) == len(weights) and bool(self.versions)

    def _holds_unversioned(self, weights) -> bool:
        return all(ref() is weight and weight.data_ptr() == pointer and _version(weight) == version
                   for ref, version, pointer, weight in zip(
                       self.refs, self.versions, self.pointers, weights))

    def note(self, weights, on_cpu: bool) -> None:
        """Remembers what is about to be packed."""
        self.refs = [weakref.ref(weight) for weight in weights]
        self.versions = [_version(weight) for weight in weights]
        self.pointers = [weight.data_ptr() for weight in weights]
        if on_cpu:  # a GPU's may still be read by what is queued
            self.spare += [buffer for _, buffer, _ in self.packed]
        self.packed = []
        if on_cpu and all(weight.is_contiguous() for weight in weights):
            count = len(weights)
            self.blocks = (ctypes.c_void_p * count)(*self.pointers)
            self.bytes = (ctypes.c_size_t * count)(*(w.nbytes for w in weights))
            self.mark = _fingerprint(self.blocks, self.bytes, count)

    def find(self, plan: Plan, stream: int) -> torch.Tensor | None:
        for packed, buffer, on in self.packed:
            if on == stream and plan.takes(packed):
                return buffer
        return None

    def buffer(self, plan: Plan, device) -> torch.Tensor:
        """Memory for packed weights: what no pending backward reads any more, or new."""
        count = 0
        for spare in self.spare:
            references = sys.getrefcount(spare)
            if spare.numel() == plan.weights and _free(spare, references):
                del self.spare[count]
                return spare
            count += 1
        del self.spare[2:]
        return torch.empty(plan.weights, dtype=torch.uint8, device=device)


def packed(spec: Spec, job, weights, stream: int, keep: bool) -> torch.Tensor:
    """The packed weights of a job's plan, [bytes].  keep: not to be packed anew while they
    hold."""
    plan = job.plan
    if not plan.weights:
        return None
    if not keep:
        return _pack(spec, job, weights, stream,
                     torch.empty(plan.weights, dtype=torch.uint8, device=weights[0].device))
    key = id(weights[0])
    entry = _entries.get(key)
    if entry is not None and entry.holds(weights):
        found = entry.find(plan, stream)
        if found is not None:
            return found
    with _lock:
        return _packed_anew(spec, job, weights, stream, key)


def peek(plan: Plan, weights, stream: int) -> torch.Tensor | None:
    """The packed weights of a plan where they are there and hold, else None."""
    entry = _entries.get(id(weights[0])) if weights else None
    return entry.find(plan, stream) if entry is not None and entry.holds(weights) else None


def _packed_anew(spec: Spec, job, weights, stream: int, key: int) -> torch.Tensor:
    plan = job.plan
    entry = _entries.get(key)
    if entry is None or entry.first() is not weights[0]:
        entry = _Entry(weights, lambda _, key=key: _entries.pop(key, None))
        _entries[key] = entry
    if entry.holds(weights):
        found = entry.find(plan, stream)
        if found is not None:  # another thread was faster
            return found
    else:
        entry.note(weights, weights[0].device.type == "cpu")
    device = weights[0].device
    buffer = _pack(spec, job, weights, stream, entry.buffer(plan, device))
    entry.packed.append((plan, buffer, stream))
    return buffer


def forget(weights) -> None:
    """Drops the packed weights of a layer, and memory that it keeps."""
    _reserve.forget(weights)
    if weights:
        _entries.pop(id(weights[0]), None)


def _check(spec: Spec, weights) -> None:
    """Refuses tensors that are not what the library will read."""
    names = spec.names()
    if len(weights) != spec.pairs * len(names):
        raise RuntimeError(f"{len(weights)} weights, must be {spec.pairs * len(names)}")
    first = weights[0]
    for k, weight in enumerate(weights):
        pair, number = divmod(k, len(names))
        layer, reverse = divmod(pair, spec.directions)
        shape = spec.shapes(layer)[number]
        if weight.shape != shape or weight.dtype != first.dtype or weight.device != first.device:
            name = f"{names[number]}_l{layer}" + "_reverse" * reverse
            raise RuntimeError(
                f"{name} is {list(weight.shape)}, {weight.dtype} on {weight.device}, must be "
                f"{list(shape)}, {first.dtype} on {first.device}")


def _pack(spec: Spec, job, weights, stream: int, buffer: torch.Tensor) -> torch.Tensor:
    native = job.native
    if native and _native.pack(native, buffer, weights, stream):
        return buffer
    _check(spec, weights)
    tensors = [weight if weight.is_contiguous() else weight.detach().contiguous()
               for weight in weights]
    start, size = [tensor.data_ptr() for tensor in tensors], tensors[0].element_size()
    none = None
    if NOWHERE in spec.places:
        none = tensors[0].new_zeros(spec.hidden)
    start.append(0 if none is None else none.data_ptr())  # number -1: zeros
    handle = job.plan.handle
    check(library.ecornn_pack(handle, _block(start, spec.places, size), buffer.data_ptr(), stream))
    if spec.two_biases:
        start[-1] = 0
        check(library.ecornn_pack_add(handle, _block(start, spec.added, size), buffer.data_ptr(),
                                      stream))
    return buffer


def _block(start: list[int], places, size: int) -> bytes:
    """Addresses of all parameters in their tensors, as the library takes them; 0 is NULL."""
    return _pointers(len(places))(*[start[tensor] and start[tensor] + offset * size
                                    for tensor, offset in places])


@functools.lru_cache(maxsize=None)
def _pointers(count: int):
    """Packs that many addresses; 0 is NULL."""
    return struct.Struct(f"@{count}P").pack


def gradients(spec: Spec, plan: Plan, dweights: torch.Tensor, weights, wanted, stream: int):
    """The gradients of the flat weights from the packed one; None where not wanted."""
    found = [None if not want else torch.empty_like(weight) if weight.is_contiguous()
             else torch.empty_like(weight, memory_format=torch.contiguous_format)
             for weight, want in zip(weights, wanted)]
    size = weights[0].element_size()
    start = [0 if gradient is None else gradient.data_ptr() for gradient in found]
    start.append(0)  # number -1: nowhere
    for places in (spec.targets, spec.twins)[:1 + spec.two_biases]:
        check(library.ecornn_unpack(plan.handle, dweights.data_ptr(), _block(start, places, size),
                                    0, stream))
    return found
