"""Attention over a source without the array [T,N,S,H]: ``attention`` and ``AdditiveAttention``.

Shapes: T queries, S positions of the source, N batch, H width of queries and keys, V of values.
"""

from __future__ import annotations

import functools
import math

import torch

from .. import _library as lib
from .._library import ATTENTION_GRADIENT, ATTENTION_IO, check, library, packer
from .._plan import Made
from . import _derivative, _graph, _op, _run, _watched
from ._given import check_lengths, integers
from ._stream import stream_of

_NAMES = {lib.F32: "f32", lib.F64: "f64", lib.BF16: "bf16", lib.F16: "f16"}

_plan = functools.lru_cache(maxsize=128)(Made)
_pack_io, _pack_gradient = (packer(mirror, torch.Tensor.data_ptr) for mirror in (ATTENTION_IO, ATTENTION_GRADIENT))


class _Run:
    """One run: its plan, its sizes, and its tensors, all dense and of one type."""

    def __init__(self, tensors, batch_major, training):
        query, keys, values, *_ = self.tensors = tensors
        batch, steps = query.shape[:2] if batch_major else query.shape[1::-1]
        self.sizes = steps, keys.shape[1 if batch_major else 0], batch
        steps, source, batch = (max(size, 1) for size in self.sizes)
        self.plan = _plan(
            _run.device_name(query.device), f"attention/additive/{_NAMES[_run.TYPES[query.dtype]]}/"
            f"{'train' if training else 'infer'}/T{steps}/S{source}/N{batch}/H{query.shape[2]}"
            f"/V{values.shape[2]}{'/batch-major' * batch_major}")

    def io(self, context, weights, reserve):
        query, keys, values, vector, lengths = self.tensors
        on_gpu = not query.is_cpu
        self.workspace = _run._scratch(self.plan.most.workspace_bytes, query.device if on_gpu else None,
                                       "attention")
        return _pack_io(
            lengths=lengths, query=query, keys=keys, values=values, vector=vector, context=context, probs=weights,
            workspace=self.workspace, workspace_bytes=self.workspace.numel(), reserve=reserve,
            reserve_bytes=0 if reserve is None else reserve.numel(),
            stream=stream_of(query.device.index) if on_gpu else 0)


def _forward(tensors, batch_major: bool, want_weights: bool, training: bool):
    """Contexts, weights or None, and what backward needs, or None; all dense, vector F32 or F64."""
    run, query, values = _Run(tensors, batch_major, training), tensors[0], tensors[2]
    steps, source, batch = run.sizes
    first = (batch, steps) if batch_major else (steps, batch)
    context = query.new_empty((*first, values.shape[2]))
    weights = query.new_empty((*first, source)) if want_weights else None
    reserve = None
    if training:
        reserve = torch.empty(run.plan.most.reserve_bytes, dtype=torch.uint8, device=query.device)
    check(library.ecornn_attention_forward(run.plan.handle, *run.sizes,
                                           run.io(context, weights, reserve)))
    return context, weights, reserve


def _backward(tensors, batch_major: bool, reserve, dcontext, dweights, wanted):
    """Gradients of query, keys, values and vector, None each where not wanted; tensors: these and
    lengths, as forward had them."""
    run = _Run(tensors, batch_major, True)
    found = [torch.empty_like(tensor) if want else None for tensor, want in zip(tensors, wanted)]
    given = _run.dense(dcontext), _run.dense(dweights), *found  # they live until the run
    gradient = _pack_gradient(**dict(zip("dcontext dprobs dquery dkeys dvalues dvector".split(), given)))
    check(library.ecornn_attention_backward(run.plan.handle, *run.sizes, run.io(None, None, reserve),
                                            gradient))
    return found


class _Attend(torch.autograd.Function):
    """Contexts, and weights or None."""

    @staticmethod
    def forward(ctx, query, keys, values, vector, lengths, batch_major, want_weights):
        ctx.set_materialize_grads(False)
        tensors = query, keys, values, vector, lengths
        context, weights, reserve = _forward(tensors, batch_major, want_weights,
                                             any(ctx.needs_input_grad[:4]))
        ctx.save_for_backward(*tensors, reserve)
        ctx.batch_major, ctx.weighs = batch_major, want_weights
        return context, weights

    @staticmethod
    def backward(ctx, dcontext, dweights):
        if _watched.derived((dcontext, dweights)):
            return _graph_backward(ctx, ctx.needs_input_grad, (dcontext, dweights))[:7]
        *tensors, reserve = ctx.saved_tensors
        found = _backward(tensors, ctx.batch_major, reserve, dcontext, dweights,
                          ctx.needs_input_grad[:4])
        return (*found, None, None, None)


# ---- the operator, for graphs that are compiled or exported ------------------------------------

_TENSORS = "Tensor query, Tensor keys, Tensor values, Tensor vector, Tensor? lengths, bool batch_major, "
torch.library.define("ecornn::attention", f"({_TENSORS}bool want_weights, bool keep) -> Tensor[]")
torch.library.define("ecornn::attention_backward", "(Tensor? dcontext, Tensor? dweights, "
                     f"Tensor reserve, {_TENSORS}bool[] wanted) -> Tensor[]")


def _ready(query, keys, values, vector, lengths, batch_major: bool):
    """The tensors, dense and checked."""
    _check(query, keys, values, vector, batch_major)
    batch, source = keys.shape[:2] if batch_major else keys.shape[1::-1]
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    _run.expect("vector", vector, (query.shape[2],), wide, query.device)
    if lengths is not None:
        lengths = check_lengths(lengths, source, (batch,), query.device)
    return *map(_run.dense, (query, keys, values, vector)), lengths


@torch.library.impl("ecornn::attention", ("cpu", "cuda"))
def _attention(*arguments):
    *arguments, batch_major, want_weights, keep = arguments
    tensors = _ready(*arguments, batch_major)
    context, weights, reserve = _forward(tensors, batch_major, want_weights, keep)
    return [context, context.new_empty(0) if weights is None else weights,
            _op.hidden(reserve, context)]


@_op.fake("attention")
def _attention_fake(query, keys, values, *arguments):
    vector, _, batch_major, want_weights, _ = arguments
    _check(query, keys, values, vector, batch_major, ("cpu", "cuda", "meta"))
    source = keys.shape[1 if batch_major else 0]
    return [query.new_empty((*query.shape[:2], values.shape[2])),
            query.new_empty((*query.shape[:2], source) if want_weights else 0),
            query.new_empty(0, dtype=torch.uint8)]


@torch.library.impl("ecornn::attention_backward", ("cpu", "cuda"))
def _attention_backward(dcontext, dweights, reserve, *arguments):
    *arguments, batch_major, wanted = arguments
    tensors = _ready(*arguments, batch_major)
    _op.expect_counts((dcontext, dweights), wanted, 2, 4)
    query, source = tensors[0], tensors[1].shape[1 if batch_major else 0]
    for gradient, width in ((dcontext, tensors[2].shape[2]), (dweights, source)):
        _run.expect("a gradient", gradient, (*query.shape[:2], width), query.dtype, query.device)
    bytes = _Run(tensors, batch_major, True).plan.most.reserve_bytes
    kept = _op.shown(reserve, bytes, query.device)
    if kept is None:
        kept = _forward(tensors, batch_major, False, True)[2]
    found = _backward(tensors, batch_major, kept, dcontext, dweights, wanted)
    return [query.new_empty(0) if gradient is None else gradient for gradient in found]


@_op.fake("attention_backward")
def _attention_backward_fake(dcontext, dweights, reserve, *arguments):
    *tensors, _, _, wanted = arguments
    return [tensor.new_empty(tensor.shape if want else 0) for tensor, want in zip(tensors, wanted)]


def _setup(ctx, inputs, output):
    ctx.batch_major, ctx.weighs = inputs[5:7]
    ctx.save_for_backward(*inputs[:5], output[2])


def _graph_backward(ctx, need, gradients):
    *tensors, reserve = ctx.saved_tensors
    wanted = list(need[:4])
    found = torch.ops.ecornn.attention_backward(
        gradients[0], gradients[1] if ctx.weighs else None, reserve, *tensors, ctx.batch_major,
        wanted)
    return (*[gradient if want else None for gradient, want in zip(found, wanted)], *[None] * 4)


_derivative.register("attention", "attention", _graph_backward, _setup)


def _check(query, keys, values, vector, batch_first: bool, kinds=("cpu", "cuda")) -> None:
    which = 0 if batch_first else 1
    if query.dim() != 3:
        raise ValueError(f"query is {list(query.shape)}, must have three dimensions")
    for name, tensor in (("keys", keys), ("values", values)):
        if tensor.dim() != 3 or tensor.dtype is not query.dtype or tensor.device != query.device:
            raise ValueError(f"{name} is {list(tensor.shape)}, {tensor.dtype} on {tensor.device}, "
                             f"must have three dimensions, {query.dtype} on {query.device}")
        if tensor.shape[which] != query.shape[which] or (
                tensor.shape[1 - which] != keys.shape[1 - which]):
            raise ValueError(f"{name} is {list(tensor.shape)}, with query {list(query.shape)} and "
                             f"keys {list(keys.shape)}")
    if query.dtype not in _run.TYPES or query.device.type not in kinds:
        raise ValueError(f"query is {query.dtype} on {query.device}, must be of floats on a CPU or "
                         "a CUDA device")
    if keys.shape[2] != query.shape[2]:
        raise ValueError(f"keys is {list(keys.shape)}, must be as wide as query, "
                         f"{query.shape[2]}")
    if tuple(vector.shape) != (query.shape[2],) or vector.device != query.device:
        raise ValueError(f"vector is {list(vector.shape)} on {vector.device}, must be "
                         f"[{query.shape[2]}] on {query.device}")


def attention(query, keys, values, vector, *, lengths=None, batch_first: bool = False,
              need_weights: bool = False):
    """Contexts [T,N,V] of queries [T,N,H]; with need_weights also the weights [T,N,S].

    keys: [S,N,H]; values: [S,N,V]; with batch_first all have N first.  vector: [H]; a score is
    vector . tanh(query + key) (Bahdanau et al. 2015).  lengths: [N], of the sources.  A query [N,H]
    is one step, and its result has one step too.  Under autocast all tensors except the vector have
    the lower type.
    """
    arguments = (query, keys, values, vector)
    named = {"lengths": lengths, "batch_first": batch_first, "need_weights": need_weights}
    if not torch.compiler.is_compiling():
        node = _graph.node(attention, arguments, named)
        if node is not None:
            return node
    kind = query.device.type
    if kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind):
        lower = torch.get_autocast_dtype(kind)
        if query.dtype is not torch.float64:
            query, keys, values = (tensor.to(lower) for tensor in (query, keys, values))
    if query.dim() not in (2, 3):
        raise ValueError(f"query is {list(query.shape)}, must be [T,N,H] or [N,H]")
    step = query.dim() == 2
    if step:
        query = query.unsqueeze(1 if batch_first else 0)
    _check(query, keys, values, vector, batch_first)
    vector = vector.to(torch.float64 if query.dtype is torch.float64 else torch.float32)
    tensors = query, keys, values, vector
    if torch.compiler.is_compiling() or _watched.transformed() or _watched.by_operator(
            (*tensors, lengths)):
        lengths = None if lengths is None else integers("lengths", lengths).to(query.device)
        context, weights, _ = torch.ops.ecornn.attention(
            *tensors, lengths, batch_first, need_weights, _watched.keeps(tensors))
    else:
        batch, source = keys.shape[:2] if batch_first else keys.shape[1::-1]
        if lengths is not None:
            lengths = check_lengths(lengths, source, (batch,), query.device)
        # Dense already here, so that the copies have a graph for gradients of gradients.
        context, weights = _Attend.apply(*map(_run.dense, tensors), lengths, batch_first,
                                         need_weights)
    if step:
        context = context.squeeze(1 if batch_first else 0)
        weights = weights.squeeze(1 if batch_first else 0) if need_weights else None
    return (context, weights) if need_weights else context


class AdditiveAttention(torch.nn.Module):
    """Attention of Bahdanau et al. 2015 with its projections of queries and of the memory.

    A decoder computes ``keys(memory)`` once for all its steps.
    """

    def __init__(self, query_size: int, memory_size: int, hidden_size: int, *, bias: bool = True,
                 batch_first: bool = False, device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.batch_first = batch_first
        self.query_projection = torch.nn.Linear(query_size, hidden_size, bias=False, **where)
        self.key_projection = torch.nn.Linear(memory_size, hidden_size, bias=bias, **where)
        self.vector = torch.nn.Parameter(torch.empty(hidden_size, **where))
        self.reset_parameters()

    def __setattr__(self, name, value):
        if name in ("saving", "memory_limit"):
            raise AttributeError(f"{name}: attention keeps no more than it needs")
        super().__setattr__(name, value)

    def reset_parameters(self) -> None:
        self.query_projection.reset_parameters()
        self.key_projection.reset_parameters()
        bound = 1 / math.sqrt(self.vector.numel())
        torch.nn.init.uniform_(self.vector, -bound, bound)

    def keys(self, memory):
        """The projection [S,N,H] of a memory [S,N,*]."""
        return self.key_projection(memory)

    def forward(self, query, memory, lengths=None, *, keys=None, need_weights: bool = False):
        """Contexts [T,N,*] of queries [T,N,*] or [N,*]; keys: of this memory, if already computed."""
        if not torch.compiler.is_compiling():
            node = _graph.node(self, (query, memory, lengths),
                               {"keys": keys, "need_weights": need_weights})
            if node is not None:
                return node
        keys = self.keys(memory) if keys is None else keys
        return attention(self.query_projection(query), keys, memory.to(keys.dtype), self.vector,
                         lengths=lengths, batch_first=self.batch_first, need_weights=need_weights)
