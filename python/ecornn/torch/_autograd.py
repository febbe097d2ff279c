"""A run under autograd.  It keeps what backward needs; gradients of gradients use tangents."""

from __future__ import annotations

from typing import NamedTuple

import torch

from .. import _library as lib
from . import _operators, _run, _tangent
from ._packing import Packing
from ._spec import Spec


class Call(NamedTuple):
    """The arguments of a run that are not tensors."""

    spec: Spec
    job: _run.Job
    batch_major: bool
    seed: int
    drop: bool
    packing: Packing | None
    dtype: torch.dtype  # type of rows and states in the run; x and initial states may have another
    result: tuple[torch.dtype, torch.dtype, torch.dtype]  # types of y, the first state, other states
    resets: torch.Tensor | None = None  # [T,N] bytes
    mask: torch.Tensor | None = None
    flags: int = 0  # flags of the plan

    @property
    def shows(self) -> bool:
        """Are states of every step returned after the final ones?"""
        return bool(self.flags & lib.ALL_STATES)

    @property
    def given(self) -> int:
        """Number of state tensors: initial ones, and with resets the reset states."""
        return self.spec.states * (1 if self.resets is None else 2)


def forward_mode() -> bool:
    """Is torch.autograd.forward_ad active?"""
    return torch.autograd.forward_ad._current_level >= 0


def _is_batched(tensor) -> bool:
    """Is this tensor batched by a vmap, of torch.func or of torch.autograd?"""
    return tensor is not None and (torch._C._functorch.is_legacy_batchedtensor(tensor)
                                   or torch._C._functorch.is_batchedtensor(tensor))


def _vmap_level() -> int:
    """Nesting depth of torch.autograd's vmaps: is_grads_batched, and vectorize in its functional
    API."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    return level


def _each(work, outputs):
    """Calls work for each gradient of such a vmap in turn, and batches the results."""
    level = _vmap_level()
    parts = [None if d is None else torch._remove_batch_dim(d, level, 1, 0) for d in outputs]
    size = max(part.shape[0] for part in parts if part is not None)
    found = [work([None if part is None else part[k % part.shape[0]] for part in parts])
             for k in range(size)]
    return [None if each[0] is None else torch._add_batch_dim(torch.stack(each), 0, level)
            for each in zip(*found)]


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
        states, weights = tensors[:count], tensors[count:]
        ctx.types = None  # those of the run
        if x.dtype is not dtype or any(state is not None for state in states):
            ctx.types = x.dtype, *[None if state is None else state.dtype for state in states]
            states = [in_run(state, dtype) for state in states]
        rows = in_run(x, dtype) if call.packing is None else call.packing.pad(x).to(dtype)
        y, final, reserve, packed = _run.forward(
            spec, job, rows, lengths, states[:spec.states], weights, True, call.seed,
            not job.on_gpu, call.resets, states[spec.states:], call.mask, call.shows)
        out = y if call.packing is None else call.packing.pack(y)
        ctx.call = call
        # If backward reads y, it must be as the run left it; the caller alone owns a packed copy.
        ctx.save_for_backward(rows, reserve, packed, y if job.reads_y else None, lengths,
                              x if rows is not x else None, call.resets, call.mask, *states,
                              *weights)
        if forward_mode():
            ctx.save_for_forward(x, lengths, *states, *weights)
        return as_results(call, (out, *final))

    @staticmethod
    def backward(ctx, dy, *dfinal):
        call = ctx.call
        spec, dtype = call.spec, call.dtype
        rows, reserve, packed, y, lengths, x, _, _, *tensors = ctx.saved_tensors
        states, weights = tensors[:call.given], tensors[call.given:]
        wanted = (ctx.needs_input_grad[1], *ctx.needs_input_grad[3:])
        many = any(map(_is_batched, (dy, *dfinal)))
        if torch.is_grad_enabled() or forward_mode() or many and not _vmap_level():
            x = rows if x is None else x
            return (None, *_twice(call, (reserve, packed, y), x, lengths, states, weights,
                                  (dy, *dfinal), wanted, many))

        def work(outputs):
            dx, dstates, dweights = _backward(call, (reserve, packed, y), rows, lengths, states,
                                              weights, outputs, wanted)
            if ctx.types is not None:
                dx = _back(dx, ctx.types[0])
                dstates = [_back(d, like) for d, like in zip(dstates, ctx.types[1:])]
            return (dx, *dstates, *dweights)

        found = _each(work, (dy, *dfinal)) if many else work((dy, *dfinal))
        return (None, found[0], None, *found[1:])

    @staticmethod
    def jvp(ctx, _, x_tangent, __, *tangents):
        x, lengths, *tensors = ctx.saved_tensors
        call = ctx.call
        why = _tangent.refuses(call, x)
        if why is not None:
            raise NotImplementedError(f"ecornn: no forward-mode differentiation {why}")
        half = 1 + len(tensors)

        def work(*given):
            found = _tangent_run(call, lengths, given[:half], given[half:])
            return (found.y, *found.final)

        return Last.apply(work, x, *tensors, x_tangent, *tangents)


class Last(torch.autograd.Function):
    """work(*tensors), whose results have no gradient: asking for one is an error."""

    @staticmethod
    def forward(ctx, work, *tensors):
        return work(*tensors)

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError("ecornn: no third derivative, and no gradient of a tangent")


def _tangent_run(call: Call, lengths, tensors, tangents, *back):
    """_tangent.run with x, states and weights as the caller gave them; back: outputs, their
    tangents, and the gradients to compute."""
    packing, count = call.packing, call.spec.states

    def ready(given):
        if given is None:
            return None
        x, *rest = given
        x = x if packing is None or x is None else packing.pad(x)
        return [_run.dense(tensor) for tensor in (x, *rest)]

    x, *rest = ready(tensors)
    outputs, slopes, wanted = back if back else (None, None, None)
    found = _tangent.run(call, x, lengths, rest[:count], rest[count:], ready(tangents),
                         ready(outputs), ready(slopes), wanted)
    if packing is None:
        return found
    return found._replace(y=packing.pack(found.y),
                          dx=None if found.dx is None else packing.pack(found.dx))


def _backward(call: Call, kept, rows, lengths, states, weights, outputs, wanted):
    """dx in the form of x, dstates and dweights of a run; kept: reserve, packed weights, and y or
    None; rows: x in the run; outputs: gradients of y and the final states."""
    reserve, packed, y = kept
    spec, dtype, dy = call.spec, call.dtype, outputs[0]
    if dy is not None:
        dy = in_run(dy, dtype) if call.packing is None else call.packing.pad(dy).to(dtype)
    dx, dstates, dweights = _run.backward(
        spec, call.job, rows, y, lengths, states[:spec.states], weights, reserve, packed,
        call.seed, dy, [in_run(d, dtype) for d in outputs[1:]], wanted, call.resets,
        states[spec.states:], call.mask)
    if dx is not None and call.packing is not None:
        dx = call.packing.pack(dx)
    return dx, dstates, dweights


# torch's own apply searches all arguments for tensors of torch.func; here there are none.
apply = super(torch.autograd.Function, Run).apply

# ---- gradients of gradients ---------------------------------------------------------------------


class Back(torch.autograd.Function):
    """The backward of a run as a function of gradients of its results, x, states and weights."""

    @staticmethod
    def forward(ctx, call: Call, kept, wanted, lengths, *tensors):
        ctx.set_materialize_grads(False)
        outputs, x, states, weights = _split(call, tensors)
        ctx.call, ctx.wanted = call, wanted
        ctx.save_for_backward(lengths, *tensors)
        if forward_mode():
            ctx.save_for_forward(lengths, *tensors)
        rows = in_run(x if call.packing is None else call.packing.pad(x), call.dtype)
        dx, dstates, dweights = _backward(call, kept, rows, lengths, [
            in_run(state, call.dtype) for state in states], weights, outputs, wanted)
        return (dx, *dstates, *dweights)

    @staticmethod
    def backward(ctx, *tangents):
        call = ctx.call
        lengths, *tensors = ctx.saved_tensors
        count, needed = 1 + call.spec.states, ctx.needs_input_grad[4:]

        def work(*given):
            outputs, of, along = given[:count], given[count:len(tensors)], given[len(tensors):]
            found = _tangent_run(call, lengths, of, along, outputs, None, needed[count:])
            results = (found.y, *found.final, found.dx, *found.dstates, *found.dweights)
            return tuple(result if need else None for result, need in zip(results, needed))

        many = any(map(_is_batched, tangents))
        if not torch.is_grad_enabled() and (not many or _vmap_level()):
            found = (_each(lambda each: work(*tensors, *each), tangents) if many
                     else work(*tensors, *tangents))
        elif call.spec.torch and (many or lengths is None or call.packing is not None):
            found = _thrice(call, lengths, tensors, tangents, ctx.wanted, needed)
        else:
            found = Last.apply(work, *tensors, *tangents)
        return (None, None, None, None, *found)

    @staticmethod
    def jvp(ctx, *tangents):
        call, count = ctx.call, 1 + ctx.call.spec.states
        lengths, *tensors = ctx.saved_tensors
        found = _tangent_run(call, lengths, tensors[count:], tangents[4 + count:], tensors[:count],
                             tangents[4:4 + count], ctx.wanted)
        return (found.dx, *found.dstates, *found.dweights)


def _split(call: Call, tensors):
    """Splits tensors into gradients of the results, x, states and weights."""
    count = call.spec.states
    return (tensors[:1 + count], tensors[1 + count], tensors[2 + count:2 + 2 * count],
            tensors[2 + 2 * count:])


def _twice(call: Call, kept, x, lengths, states, weights, outputs, wanted, many: bool):
    """Gradients that can be differentiated: by tangents, or by elementary operators.  many: they
    are batched by a vmap, which the library's tangents do not support."""
    why = "under vmap" if many else _tangent.refuses(call, x)
    if why is None:
        found = Back.apply(call, kept, wanted, lengths, *outputs, x, *states, *weights)
        return (found[0], None, *found[1:])
    if not _can_by_operators(call, x):
        raise NotImplementedError(
            f"ecornn: no gradient of a gradient (create_graph=True) {why}")
    gradients = _by_operators(call, x, lengths, states, weights, outputs, wanted)
    return (gradients[0], None, *gradients[1:])


def _can_by_operators(call: Call, x) -> bool:
    return (call.spec.torch and call.spec.models is None and call.spec.heads == 1
            and call.resets is None and call.mask is None and not call.flags & lib.REPEAT_PADDING
            and not call.shows and not call.drop and call.result == (x.dtype,) * 3)


def _by_operators(call: Call, x, lengths, states, weights, outputs, wanted):
    """The gradients through torch's elementary operators, which can be differentiated and batched
    any number of times."""
    spec = call.spec
    rows = call.packing.batch if call.packing else x.shape[0 if call.batch_major else 1]
    states = [x.new_zeros((spec.pairs, rows, width)) if state is None else state
              for state, width in zip(states, spec.widths)]
    with torch.enable_grad():
        result = _operators.run(spec.cell, x, states, weights, batch_first=call.batch_major,
                                packing=call.packing, lengths=lengths, bias=spec.bias,
                                count=spec.layers, both=spec.directions == 2)
        asked = [tensor for tensor, want in zip([x, *states, *weights], wanted) if want]
        pairs = [(out, d) for out, d in zip(result, outputs) if d is not None]
        found = iter(torch.autograd.grad([out for out, _ in pairs], asked,
                                         [d for _, d in pairs], create_graph=True,
                                         allow_unused=True))
    return [next(found) if want else None for want in wanted]


def _thrice(call: Call, lengths, tensors, tangents, wanted, needed):
    """The gradients of Back's results, which can be differentiated too."""
    # Aliases, so that dependencies between the tensors are not counted here.
    tensors = [None if tensor is None else tensor.view_as(tensor) for tensor in tensors]
    outputs, x, states, weights = _split(call, tensors)
    gradients = _by_operators(call, x, lengths, states, weights, outputs, wanted)
    asked = [tensor for tensor, need in zip(tensors, needed) if need]
    pairs = [(out, d) for out, d in zip(gradients, tangents) if d is not None and out is not None]
    found = iter(torch.autograd.grad([out for out, _ in pairs], asked, [d for _, d in pairs],
                                     create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needed]
