"""torch's weights and the library's packed form of them, both ways."""

from __future__ import annotations

import ctypes
import functools
import struct

import torch

from .._library import check, library
from .._memory import same_bytes
from . import _native
from ._spec import NOWHERE, Spec


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


def hold(weights, block: torch.Tensor) -> bool:
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


def pack(job, weights, stream: int, block: torch.Tensor) -> torch.Tensor:
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
