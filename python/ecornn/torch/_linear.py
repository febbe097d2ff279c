"""Runs of a cell with a matrix state on tensors of heads, as the operator ``ecornn::linear_attention``.

Each part of x is a tensor of its own, [B,T,heads,*], which the library reads where it is.  Sequences
that follow each other in one row are runs of their own, those of equal lengths together.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from typing import NamedTuple

import torch

from .._library import check, library
from .._plan import Plan, Plans, Shape, parts
from . import _derivative, _op, _run, _watched
from ._spec import lines, one_line
from ._stream import stream_of

_ALIGNED = 256  # bytes, of the library's blocks


@functools.lru_cache(256)
def _plans(text: str, heads: int, key: int, value: int) -> Plans:
    width = {"1": 1, "K": key, "V": value}
    return Plans(Shape(text, heads * sum(width[size] for _, size in parts(text)), heads * value,
                       batch_major=True, heads=heads))


class _Piece(NamedTuple):
    """Sequences of one length that follow each other."""

    plan: Plan
    steps: int
    batch: int
    first: int  # sequence
    row: int  # its first, of all rows of x
    reserve: int  # its part of the reserve, in bytes, begins here
    end: int


class _Given:
    """The tensors of a run, real or fake: checked; sizes, and types of rows and of the state."""

    def __init__(self, tensors, initial, ends, cell: str):
        self.tensors, self.initial, self.ends, self.text = tensors, initial, ends, lines(cell)
        names, sizes = zip(*parts(self.text))
        if len(tensors) != len(names) or not {"K", "V"} <= set(sizes):
            raise RuntimeError(f"{len(tensors)} parts, must be {len(names)}, of a cell with a matrix state")
        first, value = tensors[sizes.index("K")], tensors[sizes.index("V")]
        if first.dim() != 4 or value.dim() != 4:
            raise ValueError(f"{names[sizes.index('K')]} is {list(first.shape)}, and values "
                             f"{list(value.shape)}, must be [B,T,heads,*]")
        self.batch, self.steps, self.heads, self.value = value.shape
        self.key, self.device = first.shape[3], value.device
        self.y_shape = tuple(value.shape)
        if self.device.type not in ("cpu", "cuda", "meta"):
            raise ValueError(f"values are on {self.device}: a matrix state needs a CPU or a CUDA device")
        self.dtype = functools.reduce(torch.promote_types, [one.dtype for one in tensors])
        if self.dtype is torch.float16 and self.device.type != "cuda":
            self.dtype = torch.float32
        self.wide = torch.float64 if self.dtype is torch.float64 else torch.float32
        for name, size, one in zip(names, sizes, tensors):
            most = value.shape[:3] + {"1": (), "K": (self.key,), "V": (self.value,)}[size]
            own = one.shape[2] if one.dim() == len(most) else 0
            if one.shape != (*most[:2], own, *most[3:]) or not own or self.heads % own or (
                    one.device != self.device or one.dtype not in _run.TYPES):
                raise ValueError(f"{name} is {list(one.shape)}, {one.dtype} on {one.device}, must be "
                                 f"{list(most)} of floats on {self.device}, or of heads that divide these")
        if ends is not None and (ends.dim() != 1 or len(ends) < 2 or self.batch != 1
                                 or ends.dtype not in (torch.int32, torch.int64)):
            raise ValueError(f"cu_seqlens is {list(ends.shape)}, {ends.dtype}, must be [sequences + 1] "
                             f"of int32 or int64, with B = 1, which is {self.batch}")
        self.state_shape = (self.batch if ends is None else len(ends) - 1, self.heads, self.key, self.value)
        _run.expect("initial_state", initial, self.state_shape, self.wide, self.device)

    def _read(self, one):
        """The part where the library can read it, in the run's type, and the length of its rows."""
        one = one if one.dtype is self.dtype else one.to(self.dtype)
        if one.shape[2] != self.heads:
            one = one.repeat_interleave(self.heads // one.shape[2], 2)
        width = math.prod(one.shape[2:])
        if one.is_contiguous():
            return one, width
        row = one.stride(1)
        if not one[:1, :1].is_contiguous() or row < width or (
                self.batch > 1 and one.stride(0) != row * self.steps):
            return one.contiguous(), width
        return one, row

    def pieces(self, training: bool) -> list[_Piece]:
        groups, found, at, first, row = [(self.steps, self.batch)], [], 0, 0, 0
        if self.ends is not None:
            bounds = self.ends.tolist()
            lengths = [b - a for a, b in itertools.pairwise(bounds)]
            if bounds[0] != 0 or bounds[-1] != self.steps or min(lengths) < 0:
                raise ValueError(f"cu_seqlens is {bounds}, must ascend from 0 to T, which is {self.steps}")
            groups = [(length, len(list(group))) for length, group in itertools.groupby(lengths)]
        types, on = (_run.TYPES[self.dtype], _run.TYPES[self.wide]), _run.device_name(self.device)
        plans = _plans(self.text, self.heads, self.key, self.value)
        for steps, batch in groups:
            plan = plans.get(on, (max(steps, 1), max(batch, 1)), types, training)
            bytes = plan.sizes(steps, batch)[1] if training else 0
            found.append(_Piece(plan, steps, batch, first, row, at, at + bytes))
            at, first, row = at + -(-bytes // _ALIGNED) * _ALIGNED, first + batch, row + steps * batch
        return found

    def calls(self, reserve=None, y=None, final=None):
        """Each piece, and ecornn_io, which is valid until the next one is asked for."""
        read, training = [self._read(one) for one in self.tensors], reserve is not None
        initial = _run.dense(self.initial)
        rows = (ctypes.c_size_t * len(read))(*[row for _, row in read])
        on = None if self.device.type == "cpu" else self.device
        for piece in self.pieces(training):
            inputs = (ctypes.c_void_p * len(read))(*[
                one.data_ptr() + piece.row * row * one.element_size() for one, row in read])
            space = _run._scratch(piece.plan.sizes(piece.steps, piece.batch)[0], on, "workspace")
            yield piece, _run.pack_io(
                y=_at(y, 2, piece.row), initial=(None, _at(initial, 1, piece.first)), workspace=space,
                final=(None, _at(final, 1, piece.first)), workspace_bytes=space.numel(),
                reserve=reserve.data_ptr() + piece.reserve if training else 0,
                reserve_bytes=piece.end - piece.reserve, inputs=ctypes.addressof(inputs),
                input_rows=ctypes.addressof(rows), stream=0 if on is None else stream_of(on.index))


def _at(tensor, lead: int, number: int) -> int:
    """The address of row `number`, past the leading axes, of a dense tensor; None: 0."""
    if tensor is None:
        return 0
    return tensor.data_ptr() + number * math.prod(tensor.shape[lead:]) * tensor.element_size()


def _forward(given: _Given, want_final: bool, keep: bool):
    """y, the final state, empty if not wanted, and what backward needs, or None."""
    y = torch.empty(given.y_shape, dtype=given.dtype, device=given.device)
    final = y.new_empty(given.state_shape if want_final else 0, dtype=given.wide)
    reserve = y.new_empty(given.pieces(True)[-1].end, dtype=torch.uint8) if keep else None
    for piece, io in given.calls(reserve, y, final if want_final else None):
        check(library.ecornn_forward(piece.plan.handle, piece.steps, piece.batch, io))
    return y, final, reserve


def _backward(given: _Given, reserve, outputs, wanted):
    """Gradients of the parts and of the initial state, None each where not wanted."""
    made = [torch.empty((*given.y_shape[:3], *one.shape[3:]), dtype=given.dtype, device=given.device) if want
            else None for one, want in zip(given.tensors, wanted)]
    start = given.tensors[0].new_empty(given.state_shape, dtype=given.wide) if wanted[-1] else None
    dy, last = map(_run.dense, outputs)
    for piece, io in given.calls(reserve):
        inputs = (ctypes.c_void_p * len(made))(*[_at(one, 2, piece.row) for one in made])
        gradient = _run.pack_gradient(
            (_at(dy, 2, piece.row), None, _at(last, 1, piece.first)), (None, None, _at(start, 1, piece.first)),
            dinputs=ctypes.addressof(inputs))
        check(library.ecornn_backward(piece.plan.handle, piece.steps, piece.batch, io, gradient))
    return [*[one if one is None else one.to(like.dtype) if one.shape == like.shape else
              one.unflatten(2, (like.shape[2], -1)).sum(3).to(like.dtype)
              for one, like in zip(made, given.tensors)], start]


# ---- the operator --------------------------------------------------------------------------------

_TENSORS = "Tensor[] parts, Tensor? initial, Tensor? ends, str cell, "
torch.library.define("ecornn::linear_attention", f"({_TENSORS}bool want_final, bool keep) -> Tensor[]")
torch.library.define("ecornn::linear_attention_backward", "(Tensor?[] doutputs, Tensor reserve, "
                     f"{_TENSORS}bool[] wanted) -> Tensor[]")


@torch.library.impl("ecornn::linear_attention", ("cpu", "cuda"))
def _linear(*arguments):
    *arguments, want_final, keep = arguments
    y, final, reserve = _forward(_Given(*arguments), want_final, keep)
    return [y, final, _op.hidden(reserve, y)]


@torch.library.register_fake("ecornn::linear_attention")
def _linear_fake(*arguments):
    *arguments, want_final, _ = arguments
    given = _Given(*arguments)
    return [torch.empty(shape, dtype=kind, device=given.device) for shape, kind in (
        (given.y_shape, given.dtype), (given.state_shape if want_final else 0, given.wide), (0, torch.uint8))]


@torch.library.impl("ecornn::linear_attention_backward", ("cpu", "cuda"))
def _linear_backward(doutputs, reserve, *arguments):
    *arguments, wanted = arguments
    given = _Given(*arguments)
    _op.expect_counts(doutputs, wanted, 2, len(given.tensors) + 1)
    for one, shape, kind in zip(doutputs, (given.y_shape, given.state_shape), (given.dtype, given.wide)):
        _run.expect("a gradient", one, shape, kind, given.device)
    kept = _op.shown(reserve, given.pieces(True)[-1].end, given.device)
    if kept is None:
        kept = _forward(given, False, True)[2]
    found = _backward(given, kept, doutputs, wanted)
    return [torch.empty(0, device=given.device) if one is None else one for one in found]


@torch.library.register_fake("ecornn::linear_attention_backward")
def _linear_backward_fake(_, reserve, tensors, initial, *arguments):
    return [torch.empty_like(one, memory_format=torch.contiguous_format) if want
            else reserve.new_empty(0, dtype=torch.get_default_dtype())
            for one, want in zip((*tensors, initial), arguments[-1])]


def _setup(ctx, inputs, output):
    tensors, initial, ends, ctx.cell, ctx.has_final, _ = inputs
    ctx.save_for_backward(output[2], initial, ends, *tensors)


def _graph_backward(ctx, need, gradients):
    reserve, initial, ends, *tensors = ctx.saved_tensors
    wanted = [*need[0], initial is not None and need[1]]
    found = torch.ops.ecornn.linear_attention_backward(
        [gradients[0], gradients[1] if ctx.has_final else None], reserve, tensors, initial, ends, ctx.cell,
        wanted)
    *found, start = [one if want else None for one, want in zip(found, wanted)]
    return found, start, None, None, None, None


_derivative.register("linear_attention", "linear attention", _graph_backward, _setup)


def run(text: str, tensors, initial, ends, want_final: bool):
    """y [B,T,heads,V], and the final state [sequences,heads,K,V] or None."""
    every = [*tensors, initial]
    keep = _watched.keeps(every)
    if keep or not tensors[0].is_cpu or torch.compiler.is_compiling() or _watched.anything() or (
            _watched.subclassed(every)):
        y, final, _ = torch.ops.ecornn.linear_attention(tensors, initial, ends, one_line(text), want_final,
                                                        keep)
    else:
        y, final, _ = _forward(_Given(tensors, initial, ends, text), want_final, False)
    return y, final if want_final else None
