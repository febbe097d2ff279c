"""Packed sequences in pieces, so that they cost the sum of their lengths instead of T times N.

Rows of a packed batch are sorted by length: later steps have fewer rows.  So its steps are cut into
pieces.  Each piece is a run of as many rows as its first step has; the next one goes on with the
states of the rows that are left.  For example 256 rows, two of each length from 1 to 128, become
for layers of 32 units on a CPU the pieces [16,256], [16,224], [16,192] and so on to [16,32]: 18 432 steps,
16 512 of which count; padded to [128,256] they would be 32 768.  Backward goes through the pieces from last to first.
Where little is padded, a batch remains one padded run.

The second direction of bidirectional layers is a run over reversed sequences, in the same pieces;
such layers run one by one (_call.py).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from .._library import check, library
from . import _kept, _run, _weights
from ._packing import Packing, Pieces
from ._spec import Spec, spec_of
from ._stream import capturing, stream_of

_ALIGNED = 256


@functools.lru_cache(maxsize=None)
def _directions(spec: Spec) -> list[Spec]:
    """A spec for each direction of a layer."""
    if spec.directions == 1:
        return [spec]
    return [spec_of(spec.of._replace(layers=1, dropout=0.0, bidirectional=False, memory_limit=0))] * 2


def layer_of(spec: Spec, layer: int) -> Spec:
    """The spec of one layer of a stack."""
    return spec_of(spec.of._replace(input=spec.out if layer else spec.input, layers=1, dropout=0.0,
                                    memory_limit=0))


class Work(NamedTuple):
    """The runs of one call in one direction."""

    spec: Spec
    job: _run.Job  # its plan is for the longest piece and all rows
    packing: Packing
    pieces: Pieces
    seed: int


class _Memory:
    """The addresses of what all runs of a direction share."""

    def __init__(self, work: Work, packed, reserve):
        job = work.job
        sizes = [job.plan.sizes(piece.steps, piece.rows) for piece in work.pieces]
        self.sizes, self.packed, self.reserve = sizes, packed, reserve
        self.device = job.device if job.on_gpu else None
        self.workspace = _run._scratch(max(size for size, _ in sizes), self.device, "workspace")
        self.stream = stream_of(job.index) if job.on_gpu else 0
        self.at = [0]
        for _, size in sizes:
            self.at.append(self.at[-1] + -(-size // _ALIGNED) * _ALIGNED)

    def io(self, work: Work, k: int, **given) -> bytes:
        piece, size = work.pieces[k], self.sizes[k][1]
        reserve = 0 if self.reserve is None else self.reserve.data_ptr() + self.at[k]
        return _run.pack_io(
            lengths=piece.lengths, weights=self.packed, workspace=self.workspace, reserve=reserve,
            workspace_bytes=self.workspace.numel(), reserve_bytes=size if reserve else 0, seed=work.seed,
            stream=self.stream, first_step=piece.first, **given)


def _row(data, row: int) -> int:
    """The address of a row of dense data; 0 without data."""
    return 0 if data is None else data.data_ptr() + row * data.shape[1] * data.itemsize


def _forward(work: Work, x, states, weights, keep: bool, cached: bool):
    """y [sum,P], final states, and what backward needs: reserve, packed weights, and `before`, from
    which _begins takes the states before a piece.  x: [sum,I]."""
    spec, job, pieces = work.spec, work.job, work.pieces
    stream = stream_of(job.index) if job.on_gpu else 0
    packed = _kept.packed(job, weights, stream, cached)
    memory = _Memory(work, packed, None)
    if keep:
        memory.reserve = (torch.empty(memory.at[-1], dtype=torch.uint8, device=job.device)
                          if job.on_gpu else _kept.lend(weights, memory.at[-1]))
    x, y = pieces.take(x), x.new_empty((pieces.slots, spec.out))
    after = [x.new_empty((spec.pairs * pieces.blocks, width)) for width in spec.widths]
    before = after if spec.pairs == 1 else []
    for k, piece in enumerate(pieces):
        if k and spec.pairs > 1:
            before += _first_rows(after, pieces[k - 1], spec.pairs, piece.rows)
        check(library.ecornn_forward(job.plan.handle, piece.steps, piece.rows, memory.io(
            work, k, x=_row(x, piece.slot), y=_row(y, piece.slot), initial=_begins(work, k, states, before),
            final=[_row(state, spec.pairs * piece.block) for state in after])))
    return (pieces.put(y), [pieces.final(state, spec.pairs) for state in after],
            [memory.reserve, packed, *before])


def _first_rows(after, piece, pairs: int, rows: int):
    """Copies of the states of the first rows after a piece, [pairs,rows,*]."""
    begin, end = pairs * piece.block, pairs * (piece.block + piece.rows)
    return [state[begin:end].view(pairs, piece.rows, -1)[:, :rows].contiguous() for state in after]


def _begins(work: Work, k: int, states, before) -> list:
    """The states before a piece, or their addresses.  before: with one layer and direction, states
    after each piece, of which the next one reads the first rows; else copies of these."""
    count = work.spec.states
    if not k:
        return states
    if work.spec.pairs == 1:
        return [_row(state, work.pieces[k - 1].block) for state in before]
    return before[(k - 1) * count:k * count]


def _backward(work: Work, given, kept, outputs, wanted):
    """dx [sum,I], dstates and dweights; None for those that are not wanted."""
    (x, states, weights), (y, (reserve, packed, *before)), (dy, *dfinal) = given, kept, outputs
    spec, job = work.spec, work.job
    memory, count = _Memory(work, packed, reserve), spec.states
    want_weights = wanted[1 + count:]
    dweights = None
    if any(want_weights):
        dweights = _run._scratch(job.plan.dweights, memory.device, "dweights")
    dx = x.new_empty(x.shape) if wanted[0] else None
    flow = _Flow(work, x, dfinal)
    for group in work.pieces.groups:
        rows, out, dout = (None if d is None else group.take(d) for d in (x, y, dy))
        din = None if dx is None else group.room(dx)
        for k in reversed(group.pieces):
            piece = work.pieces[k]
            at = piece.slot - group.slot
            ends, begins = flow.tensors(piece.rows)
            gradient = _run.pack_gradient(
                [_row(dout, at), *ends],
                [_row(din, at), *(to if k or want else None for to, want in zip(begins, wanted[1:]))],
                dweights=dweights if job.plan.dweights else None, add=int(k + 1 < len(work.pieces)))
            check(library.ecornn_backward(job.plan.handle, piece.steps, piece.rows, memory.io(
                work, k, x=_row(rows, at), y=_row(out, at), initial=_begins(work, k, states, before)), gradient))
            flow.back(piece.rows)
        if dx is not None:
            group.put(dx, din)
        del rows, out, dout, din  # before those of the next group are made
    found = [None] * len(weights)
    if dweights is not None:
        memory.workspace = None  # as _run.backward
        found = _weights.gradients(job, dweights, weights, want_weights, memory.stream)
    return dx, [d if want else None for d, want in zip(flow.states, wanted[1:])], found


class _Flow:
    """Gradients of states [L*D,N,*], which flow from piece to piece: for rows that the pieces so far
    have, before these; for others, of the final states.

    A piece has the first rows.  With one layer and direction these are a block: then two copies
    take turns.  Otherwise a piece reads and writes blocks of its own.
    """

    def __init__(self, work: Work, x, dfinal):
        spec = work.spec
        self.states = [
            x.new_zeros((spec.pairs, work.packing.batch, width)) if d is None else d.clone()
            for d, width in zip(dfinal, spec.widths)]
        self._alone = spec.pairs == 1
        self._written = [d.clone() for d in self.states] if self._alone else []
        self._read = self.states

    def tensors(self, rows: int):
        """What the run of a piece reads, and what it writes."""
        if not self._alone:
            self._read = [d[:, :rows].contiguous() for d in self.states]
            self._written = [torch.empty_like(d) for d in self._read]
        return self._read, self._written

    def back(self, rows: int) -> None:
        """After that run."""
        if self._alone:
            self.states, self._written = self._written, self.states
            self._read = self.states
        else:
            for d, written in zip(self.states, self._written):
                d[:, :rows] = written


# ---- both directions ----------------------------------------------------------------------------


def _cut(spec: Spec, packing: Packing) -> bool:
    """Does a call run in pieces?"""
    limits = packing.limits
    if spec.memory_limit or packing.padding * spec.pairs * spec.hidden < limits.worth:
        return False
    # The two directions of a cell that draws would draw the same.
    if spec.directions == 2 and spec.random:
        return False
    # Two directions at once are faster with few rows, but not at any price in memory.
    if (spec.directions == 2 and packing.batch * spec.hidden < limits.both and
            packing.padding < 3 * packing.total):
        return False
    return len(packing.pieces(spec.hidden)) > 1


def one_by_one(spec: Spec, packing: Packing) -> bool:
    """Do the layers of a call run one by one?"""
    return spec.layers > 1 and spec.directions == 2 and _cut(spec, packing)


def works(spec: Spec, packing: Packing, x, kind: _run.Kind, seed: int) -> list[Work] | None:
    """The work of a call for each direction; None: the call has to be one padded run."""
    if not _cut(spec, packing):
        return None
    pieces = packing.pieces(spec.hidden)
    first = max(piece.steps for piece in pieces), packing.batch
    return [Work(one, _run.job_of(one, x, first, kind), packing, pieces, seed)
            for one in _directions(spec)]


def _half(tensors, d: int):
    """A direction's part of a layer's weights."""
    size = len(tensors) // 2
    return tensors[d * size:(d + 1) * size]


def _of(states, d: int):
    """A direction's part of a layer's states."""
    return [None if state is None else state[d:d + 1] for state in states]


def forward(works: list[Work], x, states, weights, keep: bool, cached: bool):
    """y [sum,D*P], final states, and for each direction what backward needs.  x: [sum,I]."""
    if works[0].job.on_gpu and capturing():
        cached, weights = False, getattr(weights, "of", weights)
    if len(works) == 1:
        y, final, kept = _forward(works[0], x, states, weights, keep, cached)
        return y, final, [kept]
    turned, found = works[0].packing.turned, []
    for d, work in enumerate(works):
        found.append(_forward(work, x.index_select(0, turned) if d else x,
                              _of(states, d), _half(weights, d), keep, cached))
    (y, final, kept), (y_back, final_back, kept_back) = found
    return (torch.cat((y, y_back.index_select(0, turned)), 1),
            [torch.cat(pair) for pair in zip(final, final_back)], [kept, kept_back])


def backward(works: list[Work], given, kept, outputs, wanted):
    """dx [sum,I], dstates and dweights of one forward; None for gradients that are not wanted.
    given: as _run.backward's; kept: y, and what each direction kept; outputs: gradients of y and of
    the final states."""
    (x, _, states, weights, *_), (y, kept), (dy, *dfinal) = given, kept, outputs
    if len(works) == 1:
        return _backward(works[0], (x, states, weights), (y, kept[0]), outputs, wanted)
    turned, width, count = works[0].packing.turned, works[0].spec.out, works[0].spec.states
    found = []
    for d, work in enumerate(works):
        def own(tensor, d=d):
            if tensor is None:
                return None
            part = tensor[:, d * width:(d + 1) * width]
            return part.index_select(0, turned) if d else part.contiguous()
        found.append(_backward(
            work, (x.index_select(0, turned) if d else x, _of(states, d), _half(weights, d)),
            (own(y), kept[d]), (own(dy), *_of(dfinal, d)),
            (*wanted[:1 + count], *_half(wanted[1 + count:], d))))
    (dx, dstates, dweights), (dx_back, dstates_back, dweights_back) = found
    if dx is not None:
        dx += dx_back.index_select(0, turned)
    return dx, [None if one is None else torch.cat((one, other))
                for one, other in zip(dstates, dstates_back)], [*dweights, *dweights_back]
