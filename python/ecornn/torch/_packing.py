"""Packed sequences: the step and batch row of each row of packed data.

The library takes padded steps [T,N,I] with a length for each row; PackedSequence has the rows of
all steps one after the other, [sum of lengths,I], without padding.  Each conversion is one gather.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from typing import NamedTuple

import torch

from ._stream import capturing, stream_of

_LIMIT = 32
# Steps and rows of a piece are multiples of at most these parts of all, which come again with other
# lengths: runs of sizes that come again are graphs of a GPU.
_PLACES, _WIDTHS = 32, 64
_kept: OrderedDict[tuple, tuple] = OrderedDict()


class Limits(NamedTuple):
    """When a batch is cut into pieces.  Each costs time of the host, and on a GPU of launches."""

    worth: int  # numbers of states in all padding, below which a batch is one run
    both: int   # numbers of states of a step, below which two directions run at once, padded,
    #             unless three of four steps are padding
    least: int  # numbers of states that a further piece saves at least
    share: int  # part of the rows that count which it saves at least: 1/share
    most: int   # numbers of states in a piece, or 1/16 of all: the largest decides the workspace


LIMITS = {"cpu": Limits(1 << 20, 1 << 17, 1 << 12, 512, 1 << 40),
          "cuda": Limits(1 << 20, 1 << 17, 1 << 15, 64, 1 << 20)}


class Piece(NamedTuple):
    """Some steps of a packed batch, as padded steps [K,n]."""

    first: int  # step
    steps: int
    rows: int
    slot: int  # its first row of all pieces, which follow each other
    block: int  # the first row of its states, if those of all pieces follow each other
    lengths: torch.Tensor | None  # [n]; None: all K


class Group(NamedTuple):
    """Pieces that follow each other, whose rows backward copies together."""

    pieces: list[int]  # their numbers
    slot: int
    slots: int
    part: slice  # rows of packed data
    padded: torch.Tensor | None  # [slots]: the row of packed data; None: there is no padding
    packed: torch.Tensor | None  # the slot in this group for each row of `part`

    def take(self, data: torch.Tensor) -> torch.Tensor:
        """[sum,I] to [slots,I]; values past a row's length are arbitrary."""
        return data[self.part] if self.padded is None else data.index_select(0, self.padded)

    def room(self, data: torch.Tensor) -> torch.Tensor:
        """Where runs write [slots,I] for put."""
        if self.padded is None:
            return data[self.part]
        return data.new_empty((self.slots, data.shape[1]))

    def put(self, data: torch.Tensor, padded: torch.Tensor) -> None:
        """[slots,I] from `room` into [sum,I]."""
        if self.padded is not None:
            torch.index_select(padded, 0, self.packed, out=data[self.part])


class Pieces:
    """All pieces of a packed batch, and the indices between its rows and theirs."""

    def __init__(self, packing: Packing, cuts: tuple[int, ...]):
        sizes, ends, device = packing.on_host, packing.ends, packing.lengths.device
        unit, self.slots, self.blocks = _unit(packing.batch, _WIDTHS), 0, 0
        places, shapes = [], []
        for begin, end in zip(cuts, [*cuts[1:], packing.steps]):
            rows = min(-(-sizes[begin] // unit) * unit, packing.batch)
            shapes.append((begin, end - begin, rows, self.slots, self.blocks))
            places += ((self.slots + k * rows, rows) for k in range(end - begin))
            self.slots += (end - begin) * rows
            self.blocks += rows
        self._shapes = torch.tensor(shapes, device="cpu")
        begins, steps = self._shapes[:, :2, None].unbind(1)
        lengths = (packing.on_cpu - begins).clamp_(min=0).minimum(steps).to(torch.int32).to(
            device, non_blocking=True)
        first, rows = torch.tensor(places, device="cpu").to(device, non_blocking=True).T
        shift = first - packing.first
        self.padded = (torch.arange(self.slots, device=device) - torch.repeat_interleave(
            shift, rows, output_size=self.slots)).clamp_(max=packing.total - 1)
        self.packed = torch.arange(packing.total, device=device) + torch.repeat_interleave(
            shift, packing.sizes, output_size=packing.total)
        self.exact = self.slots == packing.total
        parts = [slice(ends[begin] - sizes[begin], ends[begin + steps - 1])
                 for begin, steps, *_ in shapes]
        self._all = [Piece(*shape, None if part.stop - part.start == shape[1] * shape[2]
                           else length[:shape[2]])
                     for shape, part, length in zip(shapes, parts, lengths)]
        self.groups = self._grouped(parts)
        self._index: dict[int, torch.Tensor] = {}  # of `final`, by pairs

    def _grouped(self, parts: list[slice]) -> list[Group]:
        """Groups of at most twice the largest piece, and alike: with padding, or without."""
        largest, found = max(piece.steps * piece.rows for piece in self), []
        for k in reversed(range(len(self))):
            piece = self[k]
            slots = piece.steps * piece.rows
            exact = piece.lengths is None
            if found and found[-1][1] + slots <= 2 * largest and found[-1][2] == exact:
                numbers, more, _ = found.pop()
                found.append(([k, *numbers], more + slots, exact))
            else:
                found.append(([k], slots, exact))
        groups = []
        for numbers, slots, exact in found:
            slot = self[numbers[0]].slot
            part = slice(parts[numbers[0]].start, parts[numbers[-1]].stop)
            groups.append(Group(numbers, slot, slots, part, *((None, None) if exact else (
                self.padded[slot:slot + slots], self.packed[part] - slot))))
        return groups

    def __iter__(self):
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, k: int) -> Piece:
        return self._all[k]

    def take(self, data: torch.Tensor) -> torch.Tensor:
        """[sum,I] to [slots,I]; values past a row's length are arbitrary."""
        return data if self.exact else data.index_select(0, self.padded)

    def put(self, padded: torch.Tensor) -> torch.Tensor:
        """[slots,I] to [sum,I]."""
        return padded if self.exact else padded.index_select(0, self.packed)

    def final(self, states: torch.Tensor, pairs: int) -> torch.Tensor:
        """[pairs,N,*]: the states of each row after the last of its pieces.  states: [pairs*blocks,*],
        those after each piece."""
        index = self._index.get(pairs)
        if index is None:
            rows, block = self._shapes[:, 2], self._shapes[:, 4]
            left = rows.diff(append=rows.new_zeros(1)).neg().flip(0)
            row = torch.arange(self._shapes[0, 2], device="cpu")
            block, rows = (each.flip(0).repeat_interleave(left) for each in (block, rows))
            pair = torch.arange(pairs, device="cpu")[:, None]
            index = self._index[pairs] = (pairs * block + pair * rows + row).flatten().to(
                states.device, non_blocking=True)
        return states.index_select(0, index).view(pairs, -1, states.shape[1])


class Packing:
    """The indices for one list of batch sizes, on one device."""

    def __init__(self, batch_sizes: torch.Tensor, device: torch.device):
        sizes = batch_sizes.to(torch.int64)
        if (sizes[1:] > sizes[:-1]).any():
            raise RuntimeError("batch_sizes of a PackedSequence increase, must be in decreasing order")
        self.on_host = tuple(sizes.tolist())
        self.steps, self.batch = len(sizes), self.on_host[0]
        last = sizes.cumsum(0)  # [T]
        *_, self.total = self.ends = last.tolist()
        self.padding = self.steps * self.batch - self.total
        self.limits = LIMITS[device.type]
        self._pieces: dict[tuple[int, ...], Pieces] = {}
        # Small copies, which a GPU does not wait for; what follows has no shape that depends on
        # values on the device.
        self.sizes, self.first = torch.stack((sizes, last - sizes)).to(device, non_blocking=True)
        ended = sizes.diff(append=sizes.new_zeros(1)).neg().flip(0)  # [T]: rows after T, T-1, .. steps
        self.on_cpu = torch.arange(self.steps, 0, -1, device="cpu").repeat_interleave(ended)
        self.lengths = self.on_cpu.to(torch.int32).to(device, non_blocking=True)

    @functools.cached_property
    def padded(self) -> torch.Tensor:
        """[T*N]: the row of packed data.  Past a row's length any data may be read: rows of later
        steps."""
        rows = torch.arange(self.batch, device=self.first.device)
        return (self.first[:, None] + rows).clamp_(max=self.total - 1).flatten()

    @functools.cached_property
    def packed(self) -> torch.Tensor:
        """[sum]: the row of padded data."""
        device = self.first.device
        shift = torch.arange(self.steps, device=device) * self.batch - self.first
        return torch.arange(self.total, device=device) + torch.repeat_interleave(
            shift, self.sizes, output_size=self.total)

    @functools.cached_property
    def turned(self) -> torch.Tensor:
        """[sum]: for each row that of the same sequence in the other order of steps."""
        device = self.first.device
        step = torch.repeat_interleave(torch.arange(self.steps, device=device), self.sizes,
                                       output_size=self.total)
        row = torch.arange(self.total, device=device) - self.first[step]
        return self.first[self.lengths[row] - 1 - step] + row

    def pieces(self, hidden: int) -> Pieces:
        """The batch cut into pieces for layers of that many units; see _pieces.py."""
        least = max(self.total // self.limits.share, self.limits.least // hidden)
        cuts = _cuts(self.on_host, least, max(self.total // 16, self.limits.most // hidden))
        found = self._pieces.get(cuts)
        if found is None:
            found = self._pieces.setdefault(cuts, Pieces(self, cuts))
        return found

    def batch_sizes(self) -> torch.Tensor:
        """In the form of PackedSequence, [T]."""
        return torch.tensor(self.on_host, device="cpu")

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


def _unit(size: int, parts: int) -> int:
    """The largest power of two that fits at least `parts` times into `size`."""
    return 1 << max((size // parts).bit_length() - 1, 0)


@functools.lru_cache(maxsize=_LIMIT)
def _cuts(sizes: tuple[int, ...], least: int, most: int) -> tuple[int, ...]:
    """The first steps of the pieces: a piece is cut where that saves most rows of padding, if it
    saves `least` or has more than `most`.  A cut takes the states of its rows, about as a step."""
    cuts, open, unit = [], [(0, len(sizes))], _unit(len(sizes), _PLACES)
    while open:
        begin, end = open.pop()
        rows = sizes[begin]
        saved, _, at = max((((end - t) * (rows - sizes[t]) - sizes[t], -abs(begin + end - 2 * t), t)
                            for t in range(begin + unit, end, unit)), default=(0, 0, end))
        if saved < max(least, 1) and (at == end or (end - begin) * rows <= most):
            cuts.append(begin)
        else:
            open += [(begin, at), (at, end)]
    return tuple(sorted(cuts))
