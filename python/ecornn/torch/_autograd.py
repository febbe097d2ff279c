"""A run under autograd.  It keeps what backward needs; _transforms.py has gradients of gradients."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch

from .. import _library as lib
from . import _pieces, _run
from ._packing import Packing
from ._spec import Spec
from ._watched import Weights, derived


class Call(NamedTuple):
    """The arguments of a run that are not tensors."""

    spec: Spec
    job: _run.Job | None
    batch_major: bool
    seed: int
    drop: bool
    packing: Packing | None
    dtype: torch.dtype  # type of rows and states in the run; x and initial states may have another
    result: tuple[torch.dtype, torch.dtype, torch.dtype]  # types of y, the first state, other states
    resets: torch.Tensor | None = None  # [T,N] bytes
    mask: torch.Tensor | None = None
    flags: int = 0  # flags of the plan
    works: list[_pieces.Work] | None = None  # packed sequences run in pieces; then job is None

    @property
    def shows(self) -> bool:
        """Are states of every step returned after the final ones?"""
        return bool(self.flags & lib.ALL_STATES)

    @property
    def given(self) -> int:
        """Number of state tensors: initial ones, and with resets the reset states."""
        return self.spec.states * (1 if self.resets is None else 2)


def in_run(tensor, dtype: torch.dtype):
    """The tensor dense and in the run's type, or None.  The conversion adds no node to the graph."""
    if tensor is None:
        return None
    return tensor.contiguous() if tensor.dtype is dtype else tensor.to(dtype).contiguous()


def as_results(call: Call, found):
    """y and states, including those of every step, in the types of the caller's results."""
    y, first, other = call.result
    count = call.spec.states
    kinds = [y, *([first] + [other] * (count - 1)) * (1 + call.shows)]
    return tuple(tensor if tensor.dtype is kind else tensor.to(kind)
                 for tensor, kind in zip(found, kinds))


def _back(gradient, like):
    """A gradient in the type of its tensor."""
    return gradient if gradient is None or gradient.dtype is like else gradient.to(like)


class Run(torch.autograd.Function):
    """y and the final states from x, initial states, reset states if there are resets, and weights."""

    @staticmethod
    def forward(ctx, call: Call, x, lengths, *tensors):
        spec, job, dtype = call.spec, call.job, call.dtype
        count = call.given
        ctx.set_materialize_grads(False)
        given, weights = tensors[:count], tensors[count:]
        refuse(weights, lengths is not None or any(state is not None for state in given),
               "leave out hx, lengths and resets")
        ctx.types = None  # those of the run
        if x.dtype is not dtype or any(state is not None for state in given):
            ctx.types = x.dtype, *[None if state is None else state.dtype for state in given]
        states = [in_run(state, dtype) for state in given]
        starts = states[spec.states:]
        if call.works:
            rows = in_run(x, dtype)
            y, final, kept = _pieces.forward(call.works, rows, states, weights, True, x.is_cpu)
            out, reads_y = y, call.works[0].job.reads_y
        else:
            rows = in_run(x, dtype) if call.packing is None else call.packing.pad(x).to(dtype)
            y, final, *kept = _run.forward(
                job, (rows, lengths, states[:spec.states], weights, call.resets, starts, call.mask),
                True, call.seed, not job.on_gpu)
            # If backward reads y, it must be as the run left it; the caller alone owns a packed copy.
            out, reads_y = y if call.packing is None else call.packing.pack(y), job.reads_y
            kept = [kept]
        ctx.call, ctx.kept = call, [len(each) for each in kept]
        ctx.save_for_backward(rows, y if reads_y else None, lengths, x if rows is not x else None,
                              call.resets, call.mask, *given, *itertools.chain(*kept))
        ctx.weights = Weights(weights)
        return as_results(call, (out, *final))

    @staticmethod
    def backward(ctx, dy, *dfinal):
        call, saved = ctx.call, list(ctx.saved_tensors)
        spec, dtype = call.spec, call.dtype
        rows, y, lengths, x, resets, mask = saved[:6]
        weights, kept = ctx.weights.tensors, []
        if not torch.compiler.is_compiling():
            ctx.weights.check()
            refuse(weights, any(d is not None for d in dfinal), "make the loss of y, not of h or c")
        for count in reversed(ctx.kept):
            kept.insert(0, saved[len(saved) - count:])
            saved = saved[:len(saved) - count]
        states = saved[6:]
        wanted = (ctx.needs_input_grad[1], *ctx.needs_input_grad[3:])
        if derived((dy, *dfinal)):
            given = (None, lengths, states, weights, resets, (), mask)
            from . import _transforms

            # A run in pieces is repeated as one.
            found = _transforms.gradients(
                call, (rows if x is None else x, *given[1:]),
                (None, None, None) if call.works else (y, *kept[0]), (dy, *dfinal), wanted)
            return (None, found[0], None, *found[1:])
        states = [in_run(state, dtype) for state in states]
        given = (rows, lengths, states[:spec.states], weights, resets, states[spec.states:], mask)
        dx, dstates, dweights = _backward(call, given, y, kept, (dy, *dfinal), wanted)
        if ctx.types is not None:
            dx = _back(dx, ctx.types[0])
            dstates = [_back(d, like) for d, like in zip(dstates, ctx.types[1:])]
        return (None, dx, None, *dstates, *dweights)


def _backward(call: Call, given, y, kept, outputs, wanted):
    """dx in the form of x, dstates and dweights of a run; y: or None; kept: reserve and packed
    weights, of each direction of a run in pieces; outputs: gradients of y and the final states."""
    dtype, dy = call.dtype, outputs[0]
    if call.works:
        return _pieces.backward(call.works, given, (y, kept), [in_run(d, dtype) for d in outputs],
                                wanted)
    if dy is not None:
        dy = in_run(dy, dtype) if call.packing is None else call.packing.pad(dy).to(dtype)
    outputs = [dy, *[in_run(d, dtype) for d in outputs[1:]]]
    dx, dstates, dweights = _run.backward(call.job, given, (y, *kept[0]), call.seed, outputs, wanted)
    if dx is not None and call.packing is not None:
        dx = call.packing.pack(dx)
    return dx, dstates, dweights


# torch's own apply searches all arguments for tensors of torch.func; here there are none.
apply = super(torch.autograd.Function, Run).apply


def refuse(weights, more: bool, what: str) -> None:
    """Opacus, which marks parameters by grad_sample, would silently leave these gradients out."""
    if more and weights and hasattr(weights[0], "grad_sample"):
        raise ValueError(f"Opacus has gradients only of y, and of calls with x alone: {what}")
