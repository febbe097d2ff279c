"""Packed sequences: the step and batch row of each row of packed data.

The library takes padded steps [T,N,I] with a length for each row; PackedSequence has the rows of
all steps one after the other, [sum of lengths,I], without padding.  Each conversion is one gather.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict

import torch

from ._stream import capturing, stream_of

_LIMIT = 32
_kept: OrderedDict[tuple, tuple] = OrderedDict()


class Packing:
    """The indices for one list of batch sizes, on one device."""

    __slots__ = ("steps", "batch", "lengths", "padded", "packed")

    def __init__(self, batch_sizes: torch.Tensor, device: torch.device):
        sizes = batch_sizes.to(torch.int64)
        if (sizes[1:] > sizes[:-1]).any():
            raise RuntimeError("batch_sizes of a PackedSequence increase, must be in decreasing order")
        self.steps, self.batch = len(sizes), int(sizes[0])
        last = sizes.cumsum(0)  # [T]
        total = int(last[-1])
        # One small copy, which a GPU does not wait for; what follows has no shape that depends on
        # values on the device.
        sizes, last = torch.stack((sizes, last)).to(device, non_blocking=True)
        first, rows = last - sizes, torch.arange(self.batch, device=device)
        self.lengths = (sizes[:, None] > rows).sum(0, dtype=torch.int32)
        # Past a row's length any data may be read: rows of later steps.
        self.padded = (first[:, None] + rows).clamp_(max=total - 1).flatten()
        skipped = torch.arange(self.steps, device=device) * self.batch - first
        self.packed = torch.arange(total, device=device) + torch.repeat_interleave(
            skipped, sizes, output_size=total)

    def batch_sizes(self) -> torch.Tensor:
        """In the form of PackedSequence, [T]."""
        steps = torch.arange(self.steps, device="cpu")
        return (self.lengths.cpu() > steps[:, None]).sum(1)

    def pad(self, data: torch.Tensor) -> torch.Tensor:
        """[sum,I] to [T,N,I]; values past a row's length are arbitrary."""
        return data.index_select(0, self.padded).view(self.steps, self.batch, data.shape[1])

    def pack(self, padded: torch.Tensor) -> torch.Tensor:
        """[T,N,I] to [sum,I]."""
        return padded.reshape(-1, padded.shape[2]).index_select(0, self.packed)


def packing_of(batch_sizes: torch.Tensor, device: torch.device) -> Packing:
    """The packing of these batch sizes; recent ones are kept, because layers share them."""
    functorch = torch._C._functorch
    while functorch.is_batchedtensor(batch_sizes):  # under vmap, where all are equal
        batch_sizes = functorch.get_unwrapped(batch_sizes).select(
            functorch.maybe_get_bdim(batch_sizes), 0)
    stream = 0
    if device.type != "cpu":
        if capturing():  # its tensors would belong to the graph
            return Packing(batch_sizes, device)
        stream = stream_of(device.index)
    key = (id(batch_sizes), device, stream)
    kept = _kept.get(key)
    if kept is not None and kept[0]() is batch_sizes and kept[1] == batch_sizes._version:
        return kept[2]
    packing = Packing(batch_sizes, device)
    try:
        version = batch_sizes._version
    except RuntimeError:  # in inference mode: not kept
        return packing
    _kept[key] = (weakref.ref(batch_sizes), version, packing)
    while len(_kept) > _LIMIT:
        _kept.popitem(last=False)
    return packing
