"""CPU memory from a forward run to its backward: large blocks are reused by the next run.

malloc maps large blocks anew each time, and the page faults take up to a fifth of a training step.
A block is lent as a tensor of its own, and returns when nothing uses that tensor's storage any
more: no graph, no alias, no hook.  So two runs never share one.  Blocks are kept with the first
weight of a layer, and freed with it.
"""

from __future__ import annotations

import ctypes
import weakref

import torch
from torch.utils.weak import WeakTensorKeyDictionary

LARGE = 8 << 20  # bytes; malloc keeps smaller ones itself
_MOST = 2        # blocks that a layer keeps


class _Blocks:
    """The blocks that one layer keeps.  Each block is either in this list or lent.  Only list's own
    methods move it, which no other thread can interrupt, because it may return at any time in any
    thread."""

    def __init__(self):
        self.kept: list[torch.Tensor] = []

    def lend(self, bytes: int) -> torch.Tensor:
        block = self._take(bytes)
        lease = (ctypes.c_uint8 * block.numel()).from_address(block.data_ptr())
        weakref.finalize(lease, self._give, block).atexit = False
        return torch.frombuffer(lease, dtype=torch.uint8, count=bytes)

    def _take(self, bytes: int) -> torch.Tensor:
        """A kept block, else a new one; blocks that are too small are freed."""
        try:
            while True:
                block = self.kept.pop()
                if block.numel() >= bytes:
                    return block
        except IndexError:  # none left
            with torch.inference_mode(False):
                return torch.empty(bytes, dtype=torch.uint8, device="cpu")

    def _give(self, block: torch.Tensor) -> None:
        self.kept.append(block)
        del self.kept[:-_MOST]


_all = WeakTensorKeyDictionary()


def keep_with(tensor, weights) -> None:
    """Keeps what belongs to a layer of these weights with that tensor, of which they are copies."""
    if weights and weights[0] is not tensor:
        weights[0]._ecornn_kept = tensor


def owner(weights):
    """The tensor with which a layer's memory is kept: its first weight, if keep_with said nothing."""
    return getattr(weights[0], "_ecornn_kept", weights[0])


def lend(weights, bytes: int) -> torch.Tensor:
    """[bytes] of CPU memory for a run of a layer with these weights."""
    if not weights or bytes < LARGE:
        return torch.empty(bytes, dtype=torch.uint8, device="cpu")
    of = owner(weights)
    blocks = _all.get(of)
    if blocks is None:
        blocks = _all.setdefault(of, _Blocks())
    return blocks.lend(bytes)


def forget(weights) -> None:
    """Frees the blocks that a layer keeps."""
    if weights:
        _all.pop(owner(weights), None)
