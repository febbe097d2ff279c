"""Packed sequences: the step and batch row of each row of packed data.

The library takes padded steps [T,N,I] with a length for each row; PackedSequence has the rows of
all steps one after the other, [sum of lengths,I], without padding.  Each conversion is one gather.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict

import torch

from ._stream import capturing, stream_of

_LIMIT = 32
# Another piece must save at least 1/_SHARE of all rows, and _LEAST numbers of a state.
_SHARE, _LEAST = 32, 1 << 16
# Steps and rows of a piece are multiples of at most these parts of all, which come again with other
# lengths: runs of sizes that come again are graphs of a GPU.
_PLACES, _WIDTHS = 32, 64
_kept: OrderedDict[tuple, tuple] = OrderedDict()


class Piece:
    """Some steps of a packed batch, as padded steps [K,n]."""

    __slots__ = ("first", "steps", "rows", "lengths", "_part", "_padded", "_packed")

    def __init__(self, first: int, steps: int, rows: int, part: slice):
        self.first, self.steps, self.rows = first, steps, rows
        self._part = part  # its rows of packed data
        self.lengths = None  # [n]; None: all K
        self._padded = self._packed = None

    def index(self, lengths, padded, packed) -> None:
        """For a piece with padding."""
        self.lengths, self._padded, self._packed = lengths, padded, packed[self._part]

    def take(self, data: torch.Tensor) -> torch.Tensor:
        """[sum,I] to [K,n,I]; values past a row's length are arbitrary."""
        rows = data[self._part] if self.lengths is None else data.index_select(0, self._padded)
        return rows.view(self.steps, self.rows, data.shape[1])

    def room(self, data: torch.Tensor) -> torch.Tensor:
        """Where a run writes [K,n,I] for put."""
        if self.lengths is None:
            return self.take(data)
        return data.new_empty((self.steps, self.rows, data.shape[1]))

    def put(self, data: torch.Tensor, padded: torch.Tensor) -> None:
        """[K,n,I] from `room` into [sum,I]."""
        if self.lengths is not None:
            torch.index_select(padded.flatten(0, 1), 0, self._packed, out=data[self._part])


class Packing:
    """The indices for one list of batch sizes, on one device."""

    def __init__(self, batch_sizes: torch.Tensor, device: torch.device):
        sizes = batch_sizes.to(torch.int64)
        if (sizes[1:] > sizes[:-1]).any():
            raise RuntimeError("batch_sizes of a PackedSequence increase, must be in decreasing order")
        self._on_host = tuple(sizes.tolist())
        self.steps, self.batch = len(sizes), self._on_host[0]
        last = sizes.cumsum(0)  # [T]
        self._ends = last.tolist()
        self.total = self._ends[-1]
        self._pieces: dict[tuple[int, ...], list[Piece]] = {}
        # One small copy, which a GPU does not wait for; what follows has no shape that depends on
        # values on the device.
        self._sizes, last = torch.stack((sizes, last)).to(device, non_blocking=True)
        self._first, self._rows = last - self._sizes, torch.arange(self.batch, device=device)
        self.lengths = (self._sizes[:, None] > self._rows).sum(0, dtype=torch.int32)

    @functools.cached_property
    def padded(self) -> torch.Tensor:
        """[T*N]: the row of packed data.  Past a row's length any data may be read: rows of later
        steps."""
        return self._padded(slice(0, self.steps), self.batch)

    def _padded(self, steps: slice, rows: int) -> torch.Tensor:
        return (self._first[steps, None] + self._rows[:rows]).clamp_(max=self.total - 1).flatten()

    @functools.cached_property
    def packed(self) -> torch.Tensor:
        """[sum]: the row of padded data."""
        return self._packed(torch.arange(self.steps, device=self._first.device) * self.batch)

    def _packed(self, first: torch.Tensor) -> torch.Tensor:
        """The place of each row in an array in which the steps begin at `first`."""
        return torch.arange(self.total, device=first.device) + torch.repeat_interleave(
            first - self._first, self._sizes, output_size=self.total)

    @functools.cached_property
    def turned(self) -> torch.Tensor:
        """[sum]: for each row that of the same sequence in the other order of steps."""
        device = self._first.device
        step = torch.repeat_interleave(torch.arange(self.steps, device=device), self._sizes,
                                       output_size=self.total)
        row = torch.arange(self.total, device=device) - self._first[step]
        return self._first[self.lengths[row] - 1 - step] + row

    def pieces(self, hidden: int) -> list[Piece]:
        """The batch cut into pieces for layers of that many units; see _pieces.py."""
        cuts = _cuts(self._on_host, max(self.total // _SHARE, _LEAST // hidden))
        found = self._pieces.get(cuts)
        if found is None:
            found = self._pieces.setdefault(cuts, self._cut(cuts))
        return found

    def _cut(self, cuts: tuple[int, ...]) -> list[Piece]:
        found, first, unit = [], [], _unit(self.batch, _WIDTHS)
        for begin, end in zip(cuts, [*cuts[1:], self.steps]):
            rows, steps = self._on_host[begin], end - begin
            part = slice(self._ends[begin] - rows, self._ends[end - 1])
            rows = min(-(-rows // unit) * unit, self.batch)
            first += range(0, steps * rows, rows)
            found.append(Piece(begin, steps, rows, part))
        if len(found) > 1:
            packed = self._packed(torch.tensor(first, device="cpu").to(self._first.device,
                                                                       non_blocking=True))
            for piece in found:
                end = piece.first + piece.steps
                if self._on_host[end - 1] < piece.rows:
                    piece.index((self.lengths[:piece.rows] - piece.first).clamp_(0, piece.steps),
                                self._padded(slice(piece.first, end), piece.rows), packed)
        return found

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


def _unit(size: int, parts: int) -> int:
    """The largest power of two that fits at least `parts` times into `size`."""
    return 1 << max((size // parts).bit_length() - 1, 0)


@functools.lru_cache(maxsize=_LIMIT)
def _cuts(sizes: tuple[int, ...], least: int) -> tuple[int, ...]:
    """The first steps of the pieces: a piece is cut where that saves most rows of padding, if it
    saves `least`."""
    cuts, open, unit = [], [(0, len(sizes))], _unit(len(sizes), _PLACES)
    while open:
        begin, end = open.pop()
        rows = sizes[begin]
        saved, at = max(((end - t) * (rows - sizes[t]), t)
                        for t in range(begin, end, unit))
        if saved < max(least, 1):
            cuts.append(begin)
        else:
            open += [(begin, at), (at, end)]
    return tuple(sorted(cuts))
