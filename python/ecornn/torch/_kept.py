"""What a layer keeps for its next runs: packed weights, and large blocks of CPU memory.

A run never uses packed weights of other values than it is given.  On a CPU a block of them ends with
a copy of the weights that it was packed from, and each run compares that copy with the weights, all
bytes of them.  On a GPU each run packs what it does not read where it is (io.params), on its stream,
into the block that the stream keeps.  So it does not matter how weights are written to.  Only frozen
weights are trusted; see Frozen.

malloc maps each large block again, and its page faults take up to a fifth of a training step.
A block is lent as a tensor of its own, and returns when nothing uses that tensor's storage any
more: no graph, no alias, no hook.  So two runs never share one.  All is kept with the first weight
of a layer, and freed with it.
"""

from __future__ import annotations

import ctypes
import operator
import weakref

import torch

from .._locks import make_lock
from .._plan import Plan
from . import _weights

LARGE = 8 << 20  # bytes; malloc keeps smaller ones itself
_MOST = 2        # blocks that a layer keeps
_PACKED = 8      # packed blocks of a layer, for plans that cannot share one


class Kept:
    """Of one layer.

    records: blocks of packed weights, (plan, block, stream) each, the newest last.  On a CPU a block is
    written once, before any other run finds it.  So a run, or a graph that waits for its backward, may read it
    as long as it refers to it, whatever happens to the parameters meanwhile.  For example a training loop
    packs once a step: the block of the step before is out of date and leaves the list.  Its memory returns
    when the last reference to it ends, mostly there.

    blocks: each is either in the list or lent.  Only list's own methods move it, which no other thread can
    interrupt, because it may return at any time in any thread.  gradients: the same for those of weights,
    which are lent as long as the weights have them.
    """

    def __init__(self, first=None):
        self.first = first  # a weak reference to the first weight
        self.records: list[tuple] = []
        self.lock = make_lock()  # of those that pack
        self.blocks: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []

    def find(self, plan: Plan, stream: int) -> tuple | None:
        """The record that runs of the plan on that stream can take, perhaps of earlier weights."""
        for record in self.records:
            if record[2] == stream and (record[0] is plan or plan.takes(record[0])):
                return record
        return None

    def of(self, job, weights, stream: int) -> torch.Tensor:
        """The block for a job's plan with the weights of now."""
        with self.lock:
            record = self.find(job.plan, stream)
            if record is not None and _holds(record[1], job, weights, stream):
                return record[1]
            if record is not None:
                self.records[:] = [one for one in self.records if one is not record]
            del record  # the last reference to its block, unless a run or a graph has one
            bytes = job.plan.weights
            block = _weights.pack(job, weights, stream, fresh(bytes, job.device) if job.on_gpu else self.lend(
                bytes + sum(weight.nbytes for weight in weights)))
            self.records.append((job.plan, block, stream))
            del self.records[:-_PACKED]
            return block

    def lend(self, bytes: int, blocks: list | None = None) -> torch.Tensor:
        """[bytes] of CPU memory; blocks: those of this list."""
        if bytes < LARGE:
            return fresh(bytes)
        blocks = self.blocks if blocks is None else blocks
        block = _take(blocks, bytes)
        lease = (ctypes.c_uint8 * block.numel()).from_address(block.data_ptr())
        weakref.finalize(lease, _give, blocks, block).atexit = False
        return torch.frombuffer(lease, dtype=torch.uint8, count=bytes)


def _take(blocks: list, bytes: int) -> torch.Tensor:
    """A kept block, else a new one; blocks that are too small are freed."""
    try:
        while True:
            block = blocks.pop()
            if block.numel() >= bytes:
                return block
    except IndexError:  # none left
        return fresh(bytes)


def _give(blocks: list, block: torch.Tensor) -> None:
    blocks.append(block)
    del blocks[:-_MOST]


def _holds(block: torch.Tensor, job, weights, stream: int) -> bool:
    """Has the block these weights?"""
    if job.on_gpu and type(weights) is not Frozen:
        return _weights.pack(job, weights, stream, block) is block  # in the order of the stream
    return type(weights) is Frozen or _weights.hold(weights, block)


def fresh(bytes: int, device="cpu") -> torch.Tensor:
    """[bytes], for any mode to come."""
    with torch.inference_mode(False):
        return torch.empty(bytes, dtype=torch.uint8, device=device)


class Frozen(list):
    """Copies of weights, and their packed forms, for runs that do not check for changes.  of: the
    tensors that were copied."""

    def __init__(self, weights):
        super().__init__(weight.detach().clone() for weight in weights)
        self.of, self.kept = list(weights), Kept()
        self.of_net: dict[tuple, torch.Tensor] = {}  # by plan and stream: packed for a Net

    def serves(self, weights) -> bool:
        """Is this frozen copy for these tensors?"""
        return len(weights) == len(self.of) and all(map(operator.is_, weights, self.of))


_layers: dict[int, Kept] = {}  # by the id of the first weight


def keep_with(tensor, weights) -> None:
    """Keeps what belongs to a layer of these weights with that tensor, of which they are copies."""
    if weights and weights[0] is not tensor:
        weights[0]._ecornn_kept = tensor


def _owner(weights):
    """The tensor with which a layer's memory is kept: its first weight, if keep_with said nothing."""
    return getattr(weights[0], "_ecornn_kept", weights[0])


def _of(weights) -> Kept:
    """What the layer of these weights keeps."""
    owner = _owner(weights)
    key = id(owner)
    found = _layers.get(key)
    if found is None:
        first = weakref.ref(owner, lambda _: _layers.pop(key, None))
        found = _layers.setdefault(key, Kept(first))
    return found


def peek(plan: Plan, weights, stream: int) -> torch.Tensor | None:
    """A block of packed weights for that plan, possibly of earlier values, or None."""
    kept = weights.kept if type(weights) is Frozen else _layers.get(id(_owner(weights))) if weights else None
    record = None if kept is None else kept.find(plan, stream)
    return None if record is None else record[1]


def packed(job, weights, stream: int, keep: bool) -> torch.Tensor | None:
    """The packed weights of a job's plan, [bytes or more].  keep: keeps them for the next run."""
    if not job.plan.weights:
        return None
    if not keep:
        return _weights.pack(job, weights, stream, fresh(job.plan.weights, job.device))
    kept = weights.kept if type(weights) is Frozen else _of(weights)
    return kept.of(job, weights, stream)


def lend(weights, bytes: int) -> torch.Tensor:
    """[bytes] of CPU memory for a run of a layer with these weights."""
    return _of(weights).lend(bytes) if weights and bytes >= LARGE else fresh(bytes)


def lend_gradients(weights, bytes: int) -> torch.Tensor:
    """[bytes] of CPU memory for the gradients of these weights, in the weights' type."""
    kept = _of(weights)
    return kept.lend(bytes, kept.gradients).view(weights[0].dtype)


def forget(weights) -> None:
    """Drops all that a layer keeps."""
    if weights:
        _layers.pop(id(_owner(weights)), None)
