"""A run under the transforms of torch.func, batched gradients and forward-mode differentiation.

Four functions, each of which has a rule for vmap (``_fold``), and of which two are derivatives of a
third: Forward's are Backward and Tangent, and theirs is Second, or another of the four.  Second's are
those of torch's elementary operators, and so are all derivatives that the library's tangents refuse.
Under vmap a batch becomes rows or models of one run.

All take the same arguments first: what, seed [1] int64 or None, lengths, resets, mask, x, initial
states and reset states, weights; shapes are _call.layer's, number types those of the run.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch

from .. import _library as lib
from . import _fold, _higher, _operators, _run, _tangent, _watched
from ._autograd import Call, as_results
from ._fallbacks import count
from ._derivative import refuse_second
from ._spec import Spec, words_of
from ._watched import forward_mode
from ._weights import dense

_LEAD = 5  # arguments before the states
_functorch = torch._C._functorch


class Kept(list):
    """A reserve and packed weights, in a class in which torch.func looks for no tensors to wrap."""


@dataclass(frozen=True)
class What:
    """The arguments of a run that are not tensors."""

    spec: Spec
    batch_major: bool
    flags: int
    drop: bool
    keep: bool                         # may backward follow?
    wanted: tuple[bool, ...] = ()      # gradients of x, states and weights
    kept: Kept | None = None           # reserve and packed weights, if forward was this very run

    @property
    def at(self) -> int:
        """The place of the rows in x and y."""
        return -3 if self.batch_major else -2

    @property
    def outputs(self) -> int:
        return 1 + self.spec.states * (2 if self.flags & lib.ALL_STATES else 1)

    def places(self) -> list[int]:
        """Of the rows in the results."""
        return [self.at] + [-2] * (self.outputs - 1)

    def counts(self, resets) -> tuple[int, int]:
        """The numbers of states and of weights."""
        return (self.spec.states * (1 if resets is None else 2),
                self.spec.pairs * len(self.spec.names))

    def call(self, seed, resets, mask, x, weights) -> Call:
        dtype = x.dtype
        job = _run.job_of(self.spec, x, tuple(x.shape[-3:-1]), _run.Kind(
            dtype, weights[0].dtype if weights else dtype, self.batch_major,
            self.keep or self.drop, self.drop, self.flags))
        return Call(self.spec, job, self.batch_major, seed, self.drop, None, dtype, (dtype,) * 3,
                    resets, mask, self.flags)


def _bottom(what: What, arguments):
    """Call and tensors of a run of plain tensors, and the rest."""
    seed, lengths, resets, mask, x, *rest = arguments
    count, number = what.counts(resets)
    states, weights, rest = rest[:count], rest[count:count + number], rest[count + number:]
    x, states, rest = dense(x), [dense(one) for one in states], [dense(one) for one in rest]
    call = what.call(0 if seed is None else int(seed), dense(resets), dense(mask), x, weights)
    half = what.spec.states
    return call, _run.Given(x, dense(lengths), states[:half], weights, call.resets, states[half:],
                            call.mask), rest


def _as_operator(what: What, arguments):
    """_watched.forward's arguments."""
    seed, lengths, resets, mask, x, *rest = arguments
    count, number = what.counts(resets)
    return (what.spec, x, lengths, rest[:count], rest[count:count + number], resets, mask,
            what.batch_major, what.flags, what.drop, seed)


def apply(function, what: What, *arguments):
    """The function of these tensors; it knows torch.autograd's own vmap, too."""
    if not any(map(_watched.is_batched, arguments)):
        return function.apply(what, *arguments)

    def rule(size, dims, *given):
        info = torch._functorch.autograd_function.VmapInfo(size, "error")
        return function.vmap(info, (None, *dims), what, *given)

    return _fold.of_autograd(rule, arguments)


def _layers(what: What, arguments):
    """Results of x, states and weights by elementary operators, as a function of them."""
    lengths, spec = arguments[1], what.spec

    def run(x, *tensors):
        weights = [one.to(x.dtype) for one in tensors[spec.states:]]  # F32 with 16-bit rows
        return _operators.run(spec, (x, lengths, tensors[:spec.states], weights), what.batch_major)

    return run


def _by_operators(what: What, arguments, derivative: str) -> None:
    """Refuses a run that the elementary operators do not know, either."""
    spec, why = what.spec, _why_not(what, arguments)
    if why is None:
        derivative, why = "third derivative", "of cells that torch.nn has not"
    if _operators.lacks(spec, *arguments[2:4], what.flags, what.drop):
        raise NotImplementedError(f"ecornn: no {derivative} {why}")
    count(f"{derivative} {why}" if _why_not(what, arguments) else derivative)


def _why_not(what: What, arguments) -> str | None:
    """Why the library's tangents do not do this run, or None."""
    if _watched.recorded() or _watched.subclassed(arguments):
        return "of a recorded program, or with a tensor subclass"
    _, _, resets, mask, x, *rest = arguments
    count, number = what.counts(resets)
    return _tangent.refuses(what.call(0, resets, mask, x, rest[count:count + number]), x)


# ---- the functions ------------------------------------------------------------------------------


def _save(ctx, inputs, *more) -> None:
    ctx.set_materialize_grads(False)
    ctx.what = inputs[0]
    ctx.save_for_backward(*inputs[1:], *more)
    ctx.save_for_forward(*inputs[1:])


class Forward(torch.autograd.Function):
    """y, the final states, the states of every step if they are asked for, and what is kept."""

    @staticmethod
    def forward(what: What, *arguments):
        if _watched.by_operator(arguments):
            return (*_watched.forward(*_as_operator(what, arguments), keep=False), None)
        call, given, _ = _bottom(what, arguments)
        weights = given.weights
        cached = not call.job.on_gpu and bool(weights) and type(weights[0]) is torch.nn.Parameter
        y, final, reserve, packed = _run.forward(call.job, given, what.keep or what.drop, call.seed,
                                                 cached)
        return (y, *final, Kept((reserve, packed)) if what.keep else None)

    @staticmethod
    def setup_context(ctx, inputs, output):
        reads_y = output[-1] is not None and (inputs[0].spec.replays or not inputs[_LEAD].is_cpu)
        _save(ctx, inputs, output[0] if reads_y else None)
        ctx.kept = output[-1]

    @staticmethod
    def backward(ctx, *outputs):
        *arguments, y = ctx.saved_tensors
        what = replace(ctx.what, wanted=tuple(ctx.needs_input_grad[_LEAD:]), kept=ctx.kept)
        found = apply(Backward, what, *arguments, *outputs[:-1], y)
        return (*[None] * _LEAD, *found)

    @staticmethod
    def jvp(ctx, *tangents):
        what, arguments = ctx.what, ctx.saved_tensors
        if _why_not(what, arguments) is None:
            return (*apply(Tangent, what, *arguments, *tangents[_LEAD:]), None)
        _by_operators(what, arguments, "forward-mode differentiation")
        return (*_higher.along(_layers(what, arguments), arguments[_LEAD - 1:], tangents[_LEAD:]),
                None)

    @staticmethod
    def vmap(info, dims, what, *arguments):
        return _fold.batched(_forward, info, dims[1:], what, arguments)


class Backward(torch.autograd.Function):
    """The gradients of x, states and weights that what.wanted has, by those of the results; y is
    last: None, unless what.kept is of this run."""

    @staticmethod
    def forward(what: What, *arguments):
        if _watched.by_operator(arguments):
            *arguments, y = arguments
            of, outputs = Backward._parts(what, arguments)
            return _watched.backward(what.spec, (y, *(what.kept or (None, None))), outputs,
                                     what.wanted, *_as_operator(what, of)[1:])
        call, given, (*outputs, y) = _bottom(replace(what, keep=True), arguments)
        job, kept = call.job, what.kept
        if kept is None:
            y, _, *kept = _run.forward(job, given, True, call.seed, False)
        dx, dstates, dweights = _run.backward(
            job, given, (y if job.reads_y else None, *kept), call.seed, outputs, what.wanted)
        return (dx, *dstates, *dweights)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _save(ctx, inputs[:-1])

    @staticmethod
    def _work(what, arguments):
        """Its results as elementary operators of x, states, weights and gradients of results."""
        _by_operators(what, arguments, "gradient of a gradient (create_graph=True)")
        run, count = _layers(what, arguments), len(arguments) - _LEAD + 1

        def work(*tensors):
            return _higher.back(run, tensors[:count], what.wanted, tensors[count:])

        return work

    @staticmethod
    def _parts(what, saved):
        """The arguments of the run, and the gradients of its results."""
        end = len(saved) - what.outputs
        return saved[:end], saved[end:]

    @staticmethod
    def backward(ctx, *tangents):
        what = ctx.what
        arguments, outputs = Backward._parts(what, ctx.saved_tensors)
        tensors, need = arguments[_LEAD - 1:], ctx.needs_input_grad[_LEAD:-1]
        count = len(tensors)
        if _why_not(what, arguments) is not None:
            found = _higher.back(Backward._work(what, arguments), (*tensors, *outputs), need,
                                 tangents)
            return (*[None] * _LEAD, *found, None)
        dtensors, doutputs = [None] * count, [None] * len(outputs)
        if any(need[:count]):
            second = replace(what, wanted=tuple(need[:count]))
            dtensors = apply(Second, second, *arguments, *tangents, *outputs,
                             *[None] * len(outputs))
        if any(need[count:]):
            found = apply(Tangent, what, *arguments, *tangents)
            doutputs = [d if want else None for d, want in zip(found, need[count:])]
        return (*[None] * _LEAD, *dtensors, *doutputs, None)

    @staticmethod
    def jvp(ctx, *tangents):
        what = ctx.what
        arguments, outputs = Backward._parts(what, ctx.saved_tensors)
        tensors, count = arguments[_LEAD - 1:], len(arguments) - _LEAD + 1
        along, slopes = tangents[_LEAD:_LEAD + count], tangents[_LEAD + count:-1]
        if all(one is None for one in along):
            return apply(Backward, replace(what, kept=None), *arguments, *slopes, None)
        if _why_not(what, arguments) is None:
            return apply(Second, what, *arguments, *along, *outputs, *slopes)
        return _higher.along(Backward._work(what, arguments), (*tensors, *outputs),
                             (*along, *slopes))

    @staticmethod
    def vmap(info, dims, what, *arguments):
        dims, size = dims[1:], info.batch_size
        if what.kept is not None and all(dim is None for dim in dims[:-1 - what.outputs]):
            # Only gradients of results are batched.  The run is kept: read it for each of them.
            return _fold.loop(lambda *one: apply(Backward, what, *one), size, dims, arguments)
        return _fold.batched(_backward, info, dims[:-1], what, arguments[:-1], "o", True)


class Tangent(torch.autograd.Function):
    """The tangents of the results along those of x, states and weights, which come last."""

    @staticmethod
    def forward(what: What, *arguments):
        found = _tangent.run(*_bottom(replace(what, keep=True), arguments))
        return (found.y, *found.final)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _save(ctx, inputs)

    @staticmethod
    def backward(ctx, *outputs):
        what, saved = ctx.what, ctx.saved_tensors
        count = (len(saved) - _LEAD + 1) // 2
        arguments, along = saved[:-count], saved[-count:]
        need = ctx.needs_input_grad[_LEAD:]
        dtensors, dalong = [None] * count, [None] * count
        if any(need[:count]):
            second = replace(what, wanted=tuple(need[:count]))
            dtensors = apply(Second, second, *arguments, *along, *outputs, *[None] * len(outputs))
        if any(need[count:]):
            back = replace(what, wanted=tuple(need[count:]))
            dalong = _backward(back, *arguments, *outputs)
        return (*[None] * _LEAD, *dtensors, *dalong)

    @staticmethod
    def jvp(ctx, *tangents):
        what, saved = ctx.what, ctx.saved_tensors
        tensors = saved[_LEAD - 1:]
        run, count = _layers(what, saved), len(tensors) // 2
        _by_operators(what, saved, "third derivative")
        return _higher.along(lambda *given: _higher.along(run, given[:count], given[count:]),
                             tensors, tangents[_LEAD:])

    @staticmethod
    def vmap(info, dims, what, *arguments):
        return _fold.batched(_tangent_of, info, dims[1:], what, arguments, "t", as_models=False)


class Second(torch.autograd.Function):
    """The gradients that what.wanted has of <outputs, tangents of the results> + <slopes, results>;
    the last arguments are the tangents of x, states and weights, outputs and slopes."""

    @staticmethod
    def forward(what: What, *arguments):
        call, given, rest = _bottom(replace(what, keep=True), arguments)
        count = 1 + len(given.states) + len(given.starts) + len(given.weights)
        along, outputs, slopes = (rest[:count], rest[count:count + what.outputs],
                                  rest[count + what.outputs:])
        found = _tangent.run(call, given, along, outputs, slopes, what.wanted)
        return (found.dx, *found.dstates, *found.dweights)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _save(ctx, inputs)

    @staticmethod
    def _work(what, saved):
        """Its results as elementary operators of the tensors from x on."""
        _by_operators(what, saved, "third derivative")
        count = (len(saved) - _LEAD + 1 - 2 * what.outputs) // 2
        run = _layers(what, saved)

        def work(*tensors):
            of, along, outputs = tensors[:count], tensors[count:2 * count], tensors[2 * count:]

            def both(*of):
                return (*_higher.along(run, of, along), *run(*of))

            return _higher.back(both, of, what.wanted, outputs)

        return work

    @staticmethod
    def backward(ctx, *tangents):
        what, saved = ctx.what, ctx.saved_tensors
        found = _higher.back(Second._work(what, saved), saved[_LEAD - 1:],
                             ctx.needs_input_grad[_LEAD:], tangents)
        return (*[None] * _LEAD, *found)

    @staticmethod
    def jvp(ctx, *tangents):
        saved = ctx.saved_tensors
        return _higher.along(Second._work(ctx.what, saved), saved[_LEAD - 1:], tangents[_LEAD:])

    @staticmethod
    def vmap(info, dims, what, *arguments):
        return _fold.batched(_second, info, dims[1:], what, arguments, "too", True, as_models=False)


_forward, _tangent_of, _second = (functools.partial(apply, kind) for kind in (Forward, Tangent, Second))


def _backward(what: What, *arguments):
    return apply(Backward, replace(what, kept=None), *arguments, None)


def gradients(call: Call, given, kept, outputs, wanted):
    """Gradients of x, states and weights of a run outside of transforms, which can be differentiated
    and batched; given: as _run.Given, x as the caller's; kept: y, its reserve and packed weights, or
    None each."""
    x, lengths, states, weights, resets, starts, mask = given
    states = [*states, *starts]
    what = What(call.spec, call.batch_major, call.flags, call.drop, True, wanted,
                None if kept[1] is None else Kept(kept[1:]))
    seed = torch.tensor([call.seed], device="cpu") if call.drop else None
    packing, dtype = call.packing, call.dtype
    dy, *dfinal = outputs
    rows = x
    if packing is not None:
        rows, dy, lengths = (packing.pad(x), None if dy is None else packing.pad(dy),
                             packing.lengths)
    tensors = [None if one is None else one.to(dtype) for one in (rows, *states)]
    outputs = [None if one is None else one.to(dtype) for one in (dy, *dfinal)]
    if torch.compiler.is_compiling():  # compiled autograd: one node, where a graph would break
        dx, *found = _watched.backward(
            call.spec, kept, outputs, wanted, tensors[0], lengths, tensors[1:], weights, resets,
            mask, call.batch_major, call.flags, call.drop, seed)
    else:
        dx, *found = apply(Backward, what, seed, lengths, resets, mask, *tensors, *weights,
                           *outputs, kept[0])
    dx = dx if dx is None or packing is None else packing.pack(dx)
    return tuple(d if d is None else d.to(one.dtype)
                 for d, one in zip((dx, *found), (x, *states, *weights)))


def second(arguments, tangents):
    """Gradients of layer_backward's arguments by those of its results, outside of transforms, which
    need no operator: by the run again."""
    doutputs, _, _, _, x, lengths, states, weights, resets, starts, mask, *words = arguments
    *words, drop, seed, wanted = words
    if torch.is_grad_enabled() or _watched.recorded() or _watched.subclassed([x], weights):
        refuse_second("a compiled, exported or recorded program, and no third derivative")
    spec, batch_major, flags = words_of(*words, len(weights))
    flags |= lib.RESETS * (resets is not None) | lib.MASK * (mask is not None)
    what = What(spec, batch_major, flags, drop, True, tuple(wanted))
    resets, mask = (one if one is None else one.ne(0).to(torch.uint8) for one in (resets, mask))
    if batch_major:
        resets, mask = (one if one is None else one.transpose(-1, -2) for one in (resets, mask))
    none = [None] * what.spec.states
    groups = [doutputs, [x], states or none, (starts or none) if resets is not None else [], weights]
    with torch.enable_grad():
        of = [[one if one is None else one.detach().requires_grad_() for one in group]
              for group in groups]
        found = apply(Backward, what, seed, lengths, resets, mask, *sum(of[1:], []), *of[0], None)
        pairs = [(one, d) for one, d in zip(found, tangents) if one is not None and d is not None]
        slopes = iter(torch.autograd.grad(
            [one for one, _ in pairs], [one for one in sum(of, []) if one is not None],
            [d for _, d in pairs], allow_unused=True))
    douts, dx, dstates, dstarts, dweights = [
        [None if one is None else next(slopes) for one in group] for group in of]
    return (douts, None, None, None, *dx, None, dstates if states else states, dweights, None,
            dstarts if starts else starts, *[None] * (len(arguments) - 10))


def layer(call: Call, x, lengths, states, weights):
    """_call.layer's results, with reset states after the initial ones; None: elementary operators
    have to do it, with torch's dropout.  call: without seed and job."""
    if call.drop and _orders() > 1:
        return None
    packing = call.packing
    seed = torch.randint(2**62, (1,), device="cpu") if call.drop else None  # vmap knows what to do
    if packing is not None:
        x, lengths = packing.pad(x), packing.lengths
    tensors = [None if one is None else one.to(call.dtype) for one in (x, *states)] + list(weights)
    what = What(call.spec, call.batch_major, call.flags, call.drop, _watched.keeps(tensors))
    y, *final, _ = apply(Forward, what, seed, lengths, call.resets, call.mask, *tensors)
    return as_results(call, (y if packing is None else packing.pack(y), *final))


def _orders() -> int:
    """How many derivatives the active transforms may take."""
    kinds = _functorch.TransformType
    stack = [each.key() for each in _functorch.get_interpreter_stack() or ()]
    return stack.count(kinds.Grad) + 2 * stack.count(kinds.Jvp) + 2 * forward_mode()
