"""A run as a torch operator, ``torch.ops.ecornn.layer``, for torch.compile, torch.export, fake
tensors and other users of operators.

Eager calls of modules do not use it: an autograd.Function around the same run is faster.
"""

from __future__ import annotations

import torch

from . import _call, _run, _weights
from ._given import integers
from ._spec import CELLS, Spec, spec_of

torch.library.define(
    "ecornn::layer",
    "(Tensor x, Tensor? lengths, Tensor[]? states, Tensor[] weights, str cell, int[] shape, "
    "str saving, float dropout, bool batch_major, bool drop, Tensor? seed, bool keep) -> Tensor[]")
# x is not read, but torch's checkpoints need an input.
torch.library.define("ecornn::draw", "(Tensor x) -> Tensor",
                     tags=(torch.Tag.nondeterministic_seeded,))
torch.library.define(
    "ecornn::layer_backward",
    "(Tensor? dy, Tensor?[] dfinal, Tensor x, Tensor y, Tensor? lengths, Tensor[] states, "
    "Tensor[] weights, Tensor reserve, Tensor packed, str cell, int[] shape, str saving, "
    "float dropout, bool batch_major, bool drop, Tensor? seed, bool[] wanted) -> Tensor[]")


torch.library.define(  # repeats forward before backward, for a forward that kept nothing
    "ecornn::layer_again",
    "(Tensor? dy, Tensor?[] dfinal, Tensor x, Tensor? lengths, Tensor[] states, Tensor[] weights, "
    "str cell, int[] shape, str saving, float dropout, bool batch_major, bool drop, Tensor? seed, "
    "bool[] wanted) -> Tensor[]")


def _spec(cell: str, shape, saving: str, dropout) -> Spec:
    """shape: sizes, layers, bias, bidirectional, proj, memory_limit, heads, grouped_input."""
    input, hidden, layers, bias, both, proj, limit, heads, grouped = (
        int(number) for number in shape)
    return spec_of(cell, input, hidden, layers, bool(bias), float(dropout), bool(both), proj,
                   saving, limit, None, heads, bool(grouped))


def _check(spec: Spec, x, lengths, states, batch_major: bool) -> None:
    """Refuses tensors that the library would misread; weights are checked when they are packed."""
    if x.dim() != 3 or x.shape[2] != spec.input or x.dtype not in _run.TYPES:
        raise RuntimeError(f"x is {list(x.shape)}, {x.dtype}, must be [T,N,{spec.input}] of floats")
    steps, batch = (x.shape[1], x.shape[0]) if batch_major else (x.shape[0], x.shape[1])
    if steps < 1:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    states = states or ()
    if len(states) not in (0, spec.states):
        raise RuntimeError(f"{len(states)} initial states, must be 0 or {spec.states}")
    for state, width in zip(states, spec.widths):
        _run.expect("an initial state", state, (spec.pairs, batch, width), x.dtype, x.device)
    _run.expect("lengths", lengths, (batch,), torch.int32, x.device)


def _given(spec: Spec, states):
    return list(states or ()) or [None] * spec.states


def _job(spec: Spec, x, weights, batch_major: bool, drop: bool, keep: bool):
    flags = 0 if x.is_cpu else _call.flags_of("cuda", x.dtype)
    params = weights[0].dtype if weights else x.dtype
    return _run.job_of(spec, x, x.dtype, params, x.shape[:2], batch_major, keep or drop, drop,
                       flags)


@torch.library.impl("ecornn::draw", ("cpu", "cuda"))
def _draw(x):
    return torch.randint(0, 2 ** 62, (1,), device="cpu")


@torch.library.register_fake("ecornn::draw")
def _draw_fake(x):
    return torch.empty(1, dtype=torch.int64, device="cpu")


def _seed(seed) -> int:
    return 0 if seed is None else int(seed)


@torch.library.impl("ecornn::layer", ("cpu", "cuda"))
def _layer(x, lengths, states, weights, cell, shape, saving, dropout, batch_major, drop,
           seed, keep):
    spec = _spec(cell, shape, saving, dropout)
    _check(spec, x, lengths, states, batch_major)
    job = _job(spec, x, weights, batch_major, drop, keep)
    states = [_run.dense(state) for state in _given(spec, states)]
    # The caller owns an operator's results: with keep, weights are packed for this run alone.
    y, final, reserve, packed = _run.forward(
        spec, job, _run.dense(x), _run.dense(lengths), states, weights, keep or drop, _seed(seed),
        not keep)
    # An empty tensor each: two results of an operator must not be one tensor.
    if not keep or packed is None:
        packed = x.new_empty(0, dtype=torch.uint8)
    return [y, *final, reserve if keep else x.new_empty(0, dtype=torch.uint8), packed]


@torch.library.register_fake("ecornn::layer")
def _layer_fake(x, lengths, states, weights, cell, shape, saving, dropout, batch_major,
                drop, seed, keep):
    spec = _spec(cell, shape, saving, dropout)
    _check(spec, x, lengths, states, batch_major)
    batch = x.shape[0 if batch_major else 1]
    y = x.new_empty((x.shape[0], x.shape[1], spec.out))
    final = [x.new_empty((spec.pairs, batch, width)) for width in spec.widths]
    sizes = (0, 0)
    if keep:
        flags = 0 if x.device.type == "cpu" else _call.flags_of("cuda", x.dtype)
        first = (int(x.shape[0]), int(x.shape[1]))
        params = weights[0].dtype if weights else x.dtype
        plan = _run.plan_of(spec, x, x.dtype, params, first, batch_major, True, drop, flags)
        steps, batch = first[::-1] if batch_major else first
        sizes = (plan.sizes(steps, batch)[1], plan.weights if steps and batch else 0)
    return [y, *final, *(x.new_empty(size, dtype=torch.uint8) for size in sizes)]


@torch.library.impl("ecornn::layer_backward", ("cpu", "cuda"))
def _layer_backward(dy, dfinal, x, y, lengths, states, weights, reserve, packed, cell, shape,
                    saving, dropout, batch_major, drop, seed, wanted):
    spec = _spec(cell, shape, saving, dropout)
    _check(spec, x, lengths, states, batch_major)
    job = _job(spec, x, weights, batch_major, drop, True)
    _weights.expect(spec, weights, x.device)
    if len(dfinal) != spec.states or len(wanted) != 1 + spec.states + len(weights):
        raise RuntimeError(f"{len(dfinal)} gradients of final states and {len(wanted)} wanted, must "
                           f"be {spec.states} and {1 + spec.states + len(weights)}")
    rows, bytes = (*x.shape[:2], spec.out), torch.uint8
    for name, tensor, size, dtype in (
            ("y", y, rows, x.dtype), ("dy", dy, rows, x.dtype),
            *(("a gradient of a final state", d, (spec.pairs, job.batch, width), x.dtype)
              for d, width in zip(dfinal, spec.widths)),
            ("packed", packed, (job.plan.weights if job.batch else 0,), bytes),
            ("reserve", reserve, (job.reserve,), bytes)):
        _run.expect(name, tensor, size, dtype, x.device)
    states = [_run.dense(state) for state in _given(spec, states)]
    dx, dstates, dweights = _run.backward(
        spec, job, _run.dense(x), _run.dense(y), _run.dense(lengths), states, weights,
        _run.dense(reserve), _run.dense(packed), _seed(seed), _run.dense(dy),
        [_run.dense(d) for d in dfinal], wanted)
    found, seen = [], set()
    for gradient in (dx, *dstates, *dweights):
        if gradient is not None and id(gradient) in seen:
            gradient = gradient.clone()  # results of an operator share no memory
        seen.add(id(gradient))
        found.append(x.new_empty(0) if gradient is None else gradient)
    return found


@torch.library.register_fake("ecornn::layer_backward")
def _layer_backward_fake(dy, dfinal, x, y, lengths, states, weights, reserve, packed, cell,
                         shape, saving, dropout, batch_major, drop, seed, wanted):
    spec = _spec(cell, shape, saving, dropout)
    batch = x.shape[0 if batch_major else 1]
    like = [torch.empty_like(x, memory_format=torch.contiguous_format),
            *(x.new_empty((spec.pairs, batch, width)) for width in spec.widths),
            *(torch.empty_like(w, memory_format=torch.contiguous_format) for w in weights)]
    return [tensor if want else x.new_empty(0) for tensor, want in zip(like, wanted)]


@torch.library.impl("ecornn::layer_again", ("cpu", "cuda"))
def _layer_again(dy, dfinal, x, lengths, states, weights, *run):
    with torch.no_grad():
        y, *_, reserve, packed = torch.ops.ecornn.layer(x, lengths, states, weights, *run[:-1],
                                                        True)
        return torch.ops.ecornn.layer_backward(dy, dfinal, x, y, lengths, states, weights,
                                               reserve, packed, *run)


@torch.library.register_fake("ecornn::layer_again")
def _layer_again_fake(dy, dfinal, x, lengths, states, weights, *run):
    return _layer_backward_fake(dy, dfinal, x, None, lengths, states, weights, None, None, *run)


def _setup(ctx, inputs, output):
    x, lengths, states, weights, *ctx.stack, ctx.batch_major, ctx.drop, seed, ctx.keep = inputs
    y, *_, reserve, packed = output
    ctx.count = None if states is None else len(states)
    ctx.save_for_backward(x, y, lengths, seed, reserve, packed, *(states or ()), *weights)


def _backward(ctx, gradients):
    x, y, lengths, seed, reserve, packed, *tensors = ctx.saved_tensors
    count = ctx.count or 0
    states, weights = tensors[:count], tensors[count:]
    need = ctx.needs_input_grad
    spec = _spec(*ctx.stack)
    given = list(need[2]) if count else [False] * spec.states
    wanted = [need[0], *given, *need[3]]
    outputs = gradients[0], list(gradients[1:1 + spec.states])
    run = *ctx.stack, ctx.batch_major, ctx.drop, seed, wanted
    if ctx.keep:
        found = torch.ops.ecornn.layer_backward(*outputs, x, y, lengths, states, weights, reserve,
                                                packed, *run)
    else:
        found = torch.ops.ecornn.layer_again(*outputs, x, lengths, states, weights, *run)
    found = [gradient if want else None for gradient, want in zip(found, wanted)]
    dstates = found[1:1 + spec.states] if count else None if ctx.count is None else []
    return (found[0], None, dstates, found[1 + spec.states:], *[None] * 8)


torch.library.register_autograd("ecornn::layer", _backward, setup_context=_setup)


_POWERS = [3, *(2**k for k in range(2, 24))]
_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # torch 2.4 lacks it


def _is_fixed(size) -> bool:
    """Is a size a number in the graph being built, not a symbol?"""
    from torch.fx.experimental.symbolic_shapes import statically_known_true as _known

    for least in _POWERS:
        if not (_known(size >= least) or _known(size < least)):
            return False
    return True


def _drawn(x):
    """A seed, [1].  torch's partitioner may draw again in backward and get another one
    (torch._functorch.config.activation_memory_budget); in a checkpoint it replays the generator."""
    if torch.is_grad_enabled() and torch.compiler.is_dynamo_compiling():
        return torch.utils.checkpoint.checkpoint(torch.ops.ecornn.draw, x, use_reentrant=False)
    return torch.ops.ecornn.draw(x)


def module(self, x, hx, lengths, weights):
    """A module's forward in a graph that is being compiled; None if torch's own code runs.

    Written so that torch.compile can trace it: no caches, no library.
    """
    cell = self.cell_text if self.mode == "TEXT" else CELLS[self.mode]
    states = [] if hx is None else list(hx) if isinstance(hx, (tuple, list)) else [hx]
    if not torch.is_tensor(x) or x.dim() not in (2, 3) or x.shape[-1] != self.input_size:
        return None
    types = _call.number_types(cell, x.device.type, x, weights, states, False, self.proj_size)
    if types is None:
        return None
    drop = self.training and (self.num_layers > 1 and self.dropout > 0 or "bernoulli" in cell)
    if drop and self.dropout >= 1:
        return None
    dtype, params, results = types
    unbatched = x.dim() == 2
    batch_dim = 0 if self.batch_first else 1
    if unbatched:
        x = x.unsqueeze(batch_dim)
    states = [state.unsqueeze(1) if unbatched else state for state in states]
    states = [state if state.dtype == dtype else state.to(dtype) for state in states]
    x = x if x.dtype == dtype else x.to(dtype)
    weights = [weight if weight.dtype == params else weight.to(params) for weight in weights]
    if lengths is not None:
        lengths = integers("lengths", lengths).to(x.device, torch.int32)
    # A graph for any T and N keeps nothing, because sizes are a plan's: its backward repeats
    # forward.
    keep = torch.is_grad_enabled() and not _exporting() and (
        _is_fixed(x.shape[0]) and _is_fixed(x.shape[1]))
    seed = _drawn(x) if drop else None
    shape = [self.input_size, self.hidden_size, self.num_layers, int(self.bias),
             int(self.bidirectional), self.proj_size, self.memory_limit,
             self.heads, int(self.grouped_input)]
    # None, not an empty list, which AOTInductor's packages lose.
    out = torch.ops.ecornn.layer(x, lengths, states or None, weights, cell, shape, self.saving,
                                 self.dropout, self.batch_first, drop, seed, keep)
    y, final = out[0], out[1:-2]
    if unbatched:
        y, final = y.squeeze(batch_dim), [state.squeeze(1) for state in final]
    y = y.to(results[0])
    final = [state.to(results[1 + (k > 0)]) for k, state in enumerate(final)]
    return y, final[0] if len(final) == 1 else tuple(final)
