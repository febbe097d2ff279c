"""A run under autograd: what backward needs is kept, gradients of gradients fall back to torch."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import torch

from . import _run
from ._packing import Packing
from ._spec import Spec


class Call(NamedTuple):
    """What a run has besides tensors."""

    spec: Spec
    job: _run.Job
    batch_major: bool
    seed: int
    drop: bool
    packing: Packing | None
    dtype: torch.dtype  # of rows and states in the run: x and given states may have another
    result: torch.dtype
    resets: torch.Tensor | None = None  # [T,N] bytes
    mask: torch.Tensor | None = None

    @property
    def given(self) -> int:
        """Tensors of states: initial ones, and with resets those that rows begin anew from."""
        return self.spec.states * (1 if self.resets is None else 2)


def in_run(tensor, dtype: torch.dtype):
    """Dense, in the run's type; or None.  Here a conversion costs no node of the graph."""
    if tensor is None:
        return None
    return tensor.contiguous() if tensor.dtype is dtype else tensor.to(dtype).contiguous()


def _back(gradient, like):
    """A gradient in the type of what it is of."""
    return gradient if gradient is None or gradient.dtype is like else gradient.to(like)


class Run(torch.autograd.Function):
    """y and the final states of x, initial states, starts where there are resets, and weights."""

    @staticmethod
    def forward(ctx, call: Call, x, lengths, *tensors):
        spec, job, dtype = call.spec, call.job, call.dtype
        count = call.given
        ctx.set_materialize_grads(False)
        states, weights = tensors[:count], tensors[count:]
        ctx.types = None  # all of the run's
        if x.dtype is not dtype or any(state is not None for state in states):
            ctx.types = x.dtype, *[None if state is None else state.dtype for state in states]
            states = [in_run(state, dtype) for state in states]
        rows = in_run(x, dtype) if call.packing is None else call.packing.pad(x).to(dtype)
        y, final, reserve, packed = _run.forward(
            spec, job, rows, lengths, states[:spec.states], weights, True, call.seed,
            not job.on_gpu, None, call.resets, states[spec.states:], call.mask)
        out = y if call.packing is None else call.packing.pack(y)
        ctx.call = call
        # Where backward reads y it is as the run left it; a packed copy is the caller's alone.
        ctx.save_for_backward(rows, reserve, packed, y if job.reads_y else None, lengths,
                              x if rows is not x else None, call.resets, call.mask, *states,
                              *weights)
        if call.result is not dtype:
            return (out.to(call.result), *[state.to(call.result) for state in final])
        return (out, *final)

    @staticmethod
    def backward(ctx, dy, *dfinal):
        call = ctx.call
        spec, dtype = call.spec, call.dtype
        rows, reserve, packed, y, lengths, x, resets, mask, *tensors = ctx.saved_tensors
        states, weights = tensors[:call.given], tensors[call.given:]
        wanted = (ctx.needs_input_grad[1], *ctx.needs_input_grad[3:])
        if torch.is_grad_enabled():
            x = rows if x is None else x
            return (None, *_twice(call, x, lengths, states, weights, (dy, *dfinal), wanted))
        if dy is not None:
            dy = (in_run(dy, dtype) if call.packing is None
                  else call.packing.pad(dy).to(dtype))
        dx, dstates, dweights = _run.backward(
            spec, call.job, rows, y, lengths, states[:spec.states], weights, reserve, packed,
            call.seed, dy, [in_run(d, dtype) for d in dfinal], wanted, resets,
            states[spec.states:], mask)
        if dx is not None and call.packing is not None:
            dx = call.packing.pack(dx)
        if ctx.types is not None:
            dx = _back(dx, ctx.types[0])
            dstates = [_back(d, like) for d, like in zip(dstates, ctx.types[1:])]
        return (None, dx, None, *dstates, *dweights)


# torch's own apply looks through all arguments for tensors of torch.func; here there are none.
apply = super(torch.autograd.Function, Run).apply

# ---- gradients of gradients: torch's own equations, run again -----------------------------------

_TORCH = {"lstm": "lstm", "gru": "gru", "rnn-tanh": "rnn_tanh", "rnn-relu": "rnn_relu"}


def _refuse_twice(call: Call, lengths, x) -> None:
    if x.dtype is not call.result:
        why = "with autocast: call the layer outside of it"
    elif not call.spec.torch:
        why = "of a cell from text"
    elif call.resets is not None:
        why = "with resets"
    elif call.mask is not None:
        why = "with a mask"
    elif call.drop:
        why = "with dropout: its mask is drawn inside the run"
    elif lengths is not None and call.packing is None:
        why = "with lengths: use pack_padded_sequence"
    else:
        return
    raise NotImplementedError(f"ecornn: no gradient of a gradient (create_graph=True) {why}")


def _twice(call: Call, x, lengths, states, weights, outputs, wanted):
    """Gradients that have a gradient themselves: through torch's own layers."""
    _refuse_twice(call, lengths, x)
    spec = call.spec
    rows = call.packing.batch if call.packing else x.shape[0 if call.batch_major else 1]
    states = [x.new_zeros((spec.pairs, rows, width)) if state is None else state
              for state, width in zip(states, spec.widths)]
    with torch.enable_grad(), differentiable():
        result = native(spec, x, states, weights, call.batch_major, call.packing)
        asked = [tensor for tensor, want in zip([x, *states, *weights], wanted) if want]
        pairs = [(out, d) for out, d in zip(result, outputs) if d is not None]
        found = iter(torch.autograd.grad([out for out, _ in pairs], asked,
                                         [d for _, d in pairs], create_graph=True,
                                         allow_unused=True))
    gradients = [next(found) if want else None for want in wanted]
    return (gradients[0], None, *gradients[1:])


@contextlib.contextmanager
def differentiable():
    """torch's layers of operators that can be differentiated any number of times, both ways."""
    # The public flags() of torch.backends set precisions too, with a warning.
    cudnn, onednn = torch._C._get_cudnn_enabled(), torch._C._get_mkldnn_enabled()
    torch._C._set_cudnn_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_cudnn_enabled(cudnn)
        torch._C._set_mkldnn_enabled(onednn)


def native(spec: Spec, x, states, weights, batch_major: bool, packing: Packing | None):
    """torch's own layers on the same tensors: y and the final states."""
    op = getattr(torch.ops.aten, _TORCH[spec.cell])
    hx = list(states) if spec.states > 1 else states[0]
    rest = (spec.bias, spec.layers, 0.0, False, spec.directions == 2)
    # Taken apart at once: nothing that is registered for these operators is asked.
    if packing is not None:
        return op.data.decompose(x, packing.batch_sizes(), hx, list(weights), *rest)
    return op.input.decompose(x, hx, list(weights), *rest, batch_major)
