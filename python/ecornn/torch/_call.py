"""One call of a stack of layers: number types, autocast, and how it runs.

Used by modules, by torch.nn's own modules sent here, and by compiled graphs.
"""

from __future__ import annotations

import torch

from .. import _library as lib
from . import _fallbacks, _operators, _pieces, _run, _transforms, _watched
from ._autograd import Call, apply, as_results, in_run
from ._packing import Packing
from ._run import Given
from ._spec import Spec, has_matrix
from ._stream import capturing
from ._watched import PLAIN, anything, transformed

# For any device; torch 2.4 lacks it.
_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: (
    torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")))


def fits(x, weights, alone: bool = False) -> bool:
    """Are these floats in memory of one CPU or CUDA device?  Their classes may be subclasses, but
    weights' must leave operators to torch.  alone: torch has no such layer, so others are an error."""
    if not torch.is_tensor(x) or not (x.is_cpu or x.is_cuda) or x.dtype not in _run.TYPES or (
            x.layout is not torch.strided):
        return False
    get_device = x.get_device()  # -1 on a CPU
    for weight in weights:
        if type(weight) not in PLAIN and _watched.foreign(weight):
            if alone:
                raise ValueError(f"a weight is a {type(weight).__name__}, must be a torch.Tensor")
            return False
        if weight.get_device() != get_device:
            return False
    return True


def number_types(cell: str, kind: str, x, weights, states=(), packed=False, proj=0):
    """The types of rows in the run, of parameters, and of the results (y, the first state, others),
    or None if torch should report what is wrong.  states: the initial ones, or None each."""
    dtype = x.dtype
    params = weights[0].dtype if weights else dtype
    given = [state.dtype for state in states if state is not None]
    if kind == "cpu" and dtype != torch.float64 and has_matrix(cell):
        row = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else dtype
        if row != torch.float32 and all(state in (row, dtype, torch.float32) for state in given):
            return torch.float32, torch.float32, (row, row, torch.float32)  # the matrix stays F32
    if dtype == torch.float64 or not torch.is_autocast_enabled(kind):
        if params != dtype or any(other != dtype for other in given):
            return None
        results = (dtype, dtype, dtype)
    else:
        if torch.float64 in (params, *given):
            return None
        dtype = torch.get_autocast_dtype(kind)
        results = (dtype, dtype, dtype)
        if kind == "cpu":
            apart = packed or proj > 0 or (x.dtype == torch.float16 and torch.is_grad_enabled())
            results = _cpu_autocast(cell, dtype, [state.dtype if state is not None else x.dtype
                                                  for state in (states or (None, None))],
                                    apart, proj)
            if cell == "gru":
                dtype = results[0]
        params = params if params == torch.float32 else dtype
    if kind == "cpu" and torch.float16 in (dtype, params):
        return torch.float32, torch.float32, results
    return dtype, params, results


def _cpu_autocast(cell: str, lower: torch.dtype, states, apart: bool, proj: int):
    """The types that torch's layers produce on a CPU.  Products are in the lower type, but a state
    that is carried element by element, c of an LSTM and h of a GRU, keeps the type it begins with.
    apart: torch runs an LSTM operator by operator, not by oneDNN, which has one type."""
    wide = [lower if state == lower else torch.float32 for state in states]
    if cell == "gru":
        return wide[0], wide[0], wide[0]
    if cell != "lstm" or not apart:
        return lower, lower, lower
    first = lower if proj else wide[1]
    return first, first, wide[1]


def flags_of(kind: str, dtype: torch.dtype) -> int:
    """TF32, if torch allows it for cuDNN's layers."""
    if kind == "cpu" or dtype != torch.float32:
        return 0
    precision = getattr(getattr(torch.backends.cudnn, "rnn", None), "fp32_precision", None)
    allowed = torch._C._get_cudnn_allow_tf32() if precision is None else precision == "tf32"
    return lib.FAST_MATH if allowed else 0


def draw_seed() -> int:
    """A seed from torch's generator, so that torch.manual_seed and checkpointing work."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_())


def layer(spec: Spec, given: Given, batch_major: bool, train: bool, more: int = 0, types=None):
    """y and final states, or None if torch's own code should run or report what is wrong.

    given: x may be [sum of lengths,I], with a Packing as lengths.  train: draws dropout and
    bernoulli.  more: flags of the plan; with ALL_STATES the states of every step follow the final
    states.  types: those of number_types.
    """
    x, lengths, states, weights, resets, starts, mask = given
    packing = lengths if isinstance(lengths, Packing) else None
    kind = "cpu" if x.is_cpu else "cuda"
    types = types or number_types(spec.cell, kind, x, weights, states, packing is not None,
                                  spec.proj)
    if types is None or (train and spec.drops_all):
        return _elementary(spec, given, batch_major, train, more)
    dtype, params, result = types
    if weights and weights[0].dtype is not params:
        weights = [weight.to(params) for weight in weights]
    drop = train and (spec.random or (spec.dropout > 0 and spec.layers > 1))
    if resets is not None:
        states = [*states, *starts]
    gradient = _wants_gradient(x, states, weights)
    flags = (more | (0 if x.is_cpu else flags_of("cuda", dtype)) | lib.RESETS * (resets is not None)
             | lib.MASK * (mask is not None))
    call = Call(spec, None, batch_major, 0, drop, packing, dtype, result, resets, mask, flags)
    if packing is not None:
        lengths = packing.lengths
    if transformed():
        return _transforms.layer(call, x, lengths, states, weights) or _elementary(
            spec, given, batch_major, train, more)
    if _watched.by_operator((x, lengths, resets, mask), states, weights):
        return _by_operator(call, x, lengths, states, weights)
    if packing is not None and _pieces.one_by_one(spec, packing):
        return _each_layer(call, x, states, weights, train)
    runs = _run.Kind(dtype, params, batch_major, gradient or drop, drop, flags)
    first, works, job = x.shape[-3:-1], None, None
    seed = draw_seed() if drop else 0
    if packing is not None:
        first = packing.steps, packing.batch
        works = _pieces.works(spec, packing, x, runs, seed)
    if works is None:
        job = _run.job_of(spec, x, first, runs)
    call = call._replace(job=job, seed=seed, works=works)
    if gradient:
        return apply(call, x, lengths, *states, *weights)
    return run(call, x, lengths, states, weights)


def _elementary(spec: Spec, given: Given, batch_major: bool, train: bool, flags: int):
    """The results under a transform by torch's elementary operators; None of what these do not know."""
    x, _, states, weights, resets, _, mask = given
    if not transformed() or _operators.lacks(spec, resets, mask, flags):
        return None
    _fallbacks.count(_fallbacks.reason(x, weights, states, train and spec.drops_all))
    return _operators.run(spec, given[:4], batch_major, spec.dropout * train)


def _by_operator(call: Call, x, lengths, states, weights):
    """The run as an operator; None if torch.jit.trace can take torch's own layers."""
    spec, packing = call.spec, call.packing
    if _watched.traced() and (lengths is None or packing is not None) and (
            not _operators.lacks(spec, call.resets, call.mask, call.flags)):
        return None
    if packing is not None:
        x = packing.pad(x)
    x, *states = [None if one is None else one.to(call.dtype) for one in (x, *states)]
    y, *final = _watched.forward(
        spec, x, lengths, states, weights, call.resets, call.mask, call.batch_major, call.flags,
        call.drop, torch.ops.ecornn.draw(x) if call.drop else None,
        keep=_watched.keeps((x, *states, *weights)))
    return as_results(call, (y if packing is None else packing.pack(y), *final))


def _each_layer(call: Call, x, states, weights, train: bool):
    """Packed sequences in pieces by bidirectional layers: a layer has to end before the next."""
    spec, packing, (last, *others) = call.spec, call.packing, call.result
    pairs, tensors, found = spec.directions, len(weights) // spec.layers, []
    params = weights[0].dtype if weights else call.dtype
    for k in range(spec.layers):
        kinds = call.dtype, params, (last if k + 1 == spec.layers else call.dtype, *others)
        own = [None if state is None else state[k * pairs:(k + 1) * pairs] for state in states]
        x, *final = layer(_pieces.layer_of(spec, k), Given(
            x, packing, own, weights[k * tensors:(k + 1) * tensors]), False, train, call.flags, kinds)
        if train and spec.dropout > 0 and k + 1 < spec.layers:
            x = torch.dropout(x, spec.dropout, True)
        found.append(final)
    return x, *[torch.cat(each) for each in zip(*found)]


def run(call: Call, x, lengths, states, weights):
    """The run without gradients."""
    if call.works:
        y, final, _ = _pieces.forward(call.works, in_run(x, call.dtype), [
            in_run(state, call.dtype) for state in states], weights, call.drop, True)
        return as_results(call, (y, *final))
    rows = in_run(x if call.packing is None else call.packing.pad(x), call.dtype)
    states = [in_run(state, call.dtype) for state in states]
    count = call.spec.states
    y, final, _, _ = _run.forward(
        call.job, (rows, lengths, states[:count], weights, call.resets, states[count:], call.mask),
        call.drop, call.seed, True)
    return as_results(call, (y if call.packing is None else call.packing.pack(y), *final))


def _wants_gradient(x, states, weights) -> bool:
    if not torch.is_grad_enabled():
        return False
    if x.requires_grad:
        return True
    for weight in weights:
        if weight.requires_grad:
            return True
    return any(state is not None and state.requires_grad for state in states)


# ---- the same call again ------------------------------------------------------------------------


class Again:
    """A module's call, with or without gradients: the next equal call goes directly to the run."""

    __slots__ = ("shape", "dtype", "where", "job", "call", "shapes", "none", "flags", "gradient",
                 "params", "kind", "lower")

    def __init__(self, call: Call, x, params: torch.dtype, gradient: bool, flags: int):
        self.flags, self.gradient, self.params = flags, gradient, params
        self.kind = "cpu" if x.is_cpu else "cuda"
        self.lower = _lower(self.kind)
        self.shape, self.dtype, self.where = x.shape, x.dtype, _where(x)
        self.call, self.job = call, call.job
        self.shapes = call.spec.state_shapes(call.job.batch)
        self.none = [None] * call.spec.states

    def run(self, x, hx, weights):
        """The module's result, or None if this call differs."""
        if (x.shape != self.shape or x.dtype is not self.dtype or _where(x) != self.where
                or anything() or not x.is_contiguous()):
            return None
        if (_lower(self.kind) if _autocast() else None) is not self.lower:
            return None
        if self.job.on_gpu and flags_of("cuda", self.call.dtype) != self.flags:
            return None
        states = self.none if hx is None else self._states(x, hx)
        if states is None:
            return None
        out = (self._graph if self.gradient else self._kept)(x, states, weights)
        if out is None:
            return None
        return out[0], out[1] if len(out) == 2 else tuple(out[1:])

    def _kept(self, x, states, weights):
        """Without gradients."""
        job = self.job
        if job.on_gpu and capturing() or not self._takes(x, weights):
            return None
        dtype = self.call.dtype
        if dtype is not self.dtype:
            x, states = x.to(dtype), [in_run(state, dtype) for state in states]
        y, final, _, _ = _run.forward(job, (x, None, states, weights, None, (), None), False, 0, True)
        return (y, *final)

    def _graph(self, x, states, weights):
        """With gradients; autograd determines of which tensors."""
        if not weights[0].requires_grad or not self._takes(x, weights):
            return None
        return apply(self.call, x, None, *states, *weights)

    def _takes(self, x, weights) -> bool:
        where = x.get_device()
        for weight in weights:
            if (type(weight) not in PLAIN or weight.get_device() != where
                    or weight.dtype is not self.params):
                return False
        return True

    def _states(self, x, hx):
        states = hx if len(self.shapes) > 1 else [hx]
        if not isinstance(states, (tuple, list)) or len(states) != len(self.shapes):
            return None
        where = x.get_device()
        for state, shape in zip(states, self.shapes):
            if (type(state) not in PLAIN or state.shape != shape
                    or state.dtype is not self.dtype or state.get_device() != where
                    or not state.is_contiguous()):
                return None
        return states


def _lower(kind: str):
    """The type of autocast, or None."""
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def _where(x) -> int:
    return -torch.get_num_threads() if x.is_cpu else x.get_device()


def again(spec: Spec, x, weights, batch_major: bool, train: bool, gradient: bool) -> Again | None:
    """A record for calls like this one, which ran; None if it must not be kept."""
    types = number_types(spec.cell, "cpu" if x.is_cpu else "cuda", x, weights, proj=spec.proj)
    if types is None or not weights:
        return None
    dtype, params, result = types
    if (result != (dtype, dtype, dtype) or weights[0].dtype is not params
            or (train and (spec.random or spec.dropout > 0))):
        return None
    flags = 0 if x.is_cpu else flags_of("cuda", dtype)
    job = _run.job_of(spec, x, x.shape[:2],
                      _run.Kind(dtype, params, batch_major, gradient, False, flags))
    call = Call(spec, job, batch_major, 0, False, None, dtype, result, flags=flags)
    return Again(call, x, params, gradient, flags)
