"""Runs of layers as calls of XLA, whose handlers are in ``ecornn-jax.so``, and their place in JAX.

`ecornn_run` is a primitive of JAX for inference.  Its gradient rule runs `forward`, which keeps a
reserve, and stands for the gradient by the primitive `ecornn_tangent`, which is linear and only ever
transposed, to `backward`.  Under vmap, rows of all items run together as one batch, and items with
own parameters as several models; forward and backward of gradients taken inside of vmap run one
item after the other.  A program has its plan as text, so it may be stored.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from . import _library as lib
from ._errors import BadArgument
from ._locks import make_lock
from ._plan import Plan, Plans, Shape, device_info
from .arrays import NAMES

_VERSION = 6  # version of the interface between Python and the module
# Bits of `given`, as in python/native/xla.h.
LENGTHS, RESETS, MASK, SEED, DY, RESERVE, DPARAMS, DX = (1 << k for k in range(8))
INITIAL, STARTS, DFINAL, DINITIAL, DSTARTS, TASK = (1 << k for k in (8, 12, 16, 20, 24, 28))
_MARK = 64  # bytes behind a reserve; see xla.h


def _register() -> None:
    module = lib.module("jax", _VERSION)
    for platform, handler in (("cpu", module.ecornn_jax_run), ("CUDA", module.ecornn_jax_run_cuda)):
        jax.ffi.register_ffi_target("ecornn_run", jax.ffi.pycapsule(handler), platform=platform)


_register()
_plans: dict[Shape, Plans] = {}
_lock = make_lock()


@dataclass(frozen=True)
class Spec:
    """What is fixed in a run but T and N.  lead: [M] of several models.  count: parameters by name.
    given: bits of the inputs that come with x."""

    shape: Shape
    lead: tuple[int, ...]
    device: str
    type: int
    param_type: int
    count: int
    states: int
    draws: bool  # in training
    given: int

    @property
    def flags(self) -> int:
        return (lib.RESETS * bool(self.given & RESETS) | lib.MASK * bool(self.given & MASK))

    def size(self, x) -> tuple[int, int]:
        """T and N of x, without items of vmap."""
        first, second = x.shape[-3:-1]
        return (second, first) if self.shape.batch_major else (first, second)

    def plan(self, x, training: bool) -> Plan:
        with _lock:
            plans = _plans.setdefault(self.shape, Plans(self.shape))
        return plans.get(self.device, self.size(x), (self.type, self.param_type), training,
                         self.flags)

    def rows(self, x) -> list[jax.ShapeDtypeStruct]:
        """y and the final states of a run on x."""
        pairs, batch = self.shape.layers * self.shape.directions, self.size(x)[1]
        shapes = [(*x.shape[:-1], self.shape.output)]
        shapes += [(*self.lead, pairs, batch, self.shape.hidden if s else self.shape.width)
                   for s in range(self.states)]
        return [jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes]

    def named(self) -> list[int]:
        """The bit of each input after x, in order."""
        return [bit for bit in (LENGTHS, RESETS, MASK, SEED) if self.given & bit] + [
            first << s for first in (INITIAL, STARTS) for s in range(self.states)
            if self.given & first << s]


# ---- calls of XLA ------------------------------------------------------------------------------

def _block(bytes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((-(-bytes // 64) * 64,), jnp.uint8)


def _call(task: int, spec: Spec, plan: Plan, results, given: int, *arguments):
    cell = spec.shape.cell if "\n" in spec.shape.cell.strip() else ""
    device = spec.device
    if device == "cpu":  # the sizes are those of this number of threads
        device += f":{device_info(device)['threads']}"
    return jax.ffi.ffi_call("ecornn_run", results, vmap_method="expand_dims")(
        *arguments, cell=cell, device=device, given=numpy.int64(given + task * TASK),
        problem=str(plan).split(" ", 1)[0].rstrip(":"))


def pack(spec: Spec, plan: Plan, weights):
    return _call(0, spec, plan, [_block(plan.weights)], 0, *weights)[0]


def forward(spec: Spec, plan: Plan, packed, inputs, training: bool):
    """y, final states, and in training the reserve."""
    x = inputs[0]
    workspace, reserve = plan.sizes(*spec.size(x))
    results = [_block(workspace), *spec.rows(x)]
    if training:
        results.append(jax.ShapeDtypeStruct((_block(reserve).shape[0] + _MARK,), jnp.uint8))
    return _call(1, spec, plan, results, spec.given | RESERVE * training, packed, *inputs)[1:]


def backward(spec: Spec, plan: Plan, kept, cotangents, wanted: int):
    """The gradients that are wanted: of parameters, x, initial states and reset states."""
    packed, reserve, y, *inputs = kept
    x = inputs[0]
    given, dy = spec.given | wanted, []
    for bit, each in zip([DY, *(DFINAL << s for s in range(spec.states))], cotangents):
        if type(each) is not ad.Zero:
            given |= bit
            dy.append(each)
    results, likes = [_block(plan.sizes(*spec.size(x))[0])], []
    if wanted & DPARAMS:
        results.append(_block(plan.dweights))
        likes += _parameters_like(spec, plan)
    if wanted & DX:
        likes.append(x)
    likes += [spec.rows(x)[1 + s] for first in (DINITIAL, DSTARTS) for s in range(spec.states)
              if wanted & first << s]
    first = len(results)
    results += [jax.ShapeDtypeStruct(like.shape, like.dtype) for like in likes]
    return _call(2, spec, plan, results, given, packed, reserve, y, *inputs, *dy)[first:]


def _parameters_like(spec: Spec, plan: Plan) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct((*spec.lead, *p.shape), NAMES[spec.param_type])
            for p in plan.parameters()[:spec.count]]


# ---- the primitives ----------------------------------------------------------------------------

run_p, tangent_p = Primitive("ecornn_run"), Primitive("ecornn_tangent")
run_p.multiple_results = tangent_p.multiple_results = True


def _avals(spec: Spec, x):
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in spec.rows(x)]


def _run(*arguments, spec: Spec):
    weights, inputs = arguments[:spec.count], arguments[spec.count:]
    training = bool(spec.given & SEED)
    plan = spec.plan(inputs[0], training)
    results = forward(spec, plan, pack(spec, plan, weights), inputs, training)
    return results[:1 + spec.states]


def _jvp(primals, tangents, *, spec: Spec):
    if spec.draws and not spec.given & SEED:
        raise BadArgument("seed is None, must be a number: a gradient with dropout is drawn")
    weights, inputs = primals[:spec.count], primals[spec.count:]
    plan = spec.plan(inputs[0], True)
    packed = pack(spec, plan, weights)
    *results, reserve = forward(spec, plan, packed, inputs, True)
    moves = [type(each) is not ad.Zero for each in tangents]
    wanted, linear = 0, []
    if any(moves[:spec.count]):
        wanted |= DPARAMS
        linear += map(ad.instantiate_zeros, tangents[:spec.count])
    targets = [DX, *(bit * (DINITIAL // INITIAL) for bit in spec.named())]
    for bit, moved, tangent in zip(targets, moves[spec.count:], tangents[spec.count:]):
        if moved:
            wanted |= bit
            linear.append(tangent)
    kept = [packed, reserve, results[0], *inputs]
    return results, tangent_p.bind(*kept, *linear, spec=spec, wanted=wanted, count=len(kept))


def _transpose(cotangents, *arguments, spec: Spec, wanted: int, count: int):
    kept = arguments[:count]
    found = backward(spec, spec.plan(kept[3], True), kept, cotangents, wanted)
    return [None] * count + list(found)


def _refuse(*_, **__):
    raise NotImplementedError("ecornn.jax.run does not support forward mode: it has gradients by "
                              "jax.grad and jax.vjp")


def _batch(arguments, dims, *, spec: Spec):
    """vmap, where no gradient was taken inside: rows of all items together; several models for
    items with parameters of their own; one after the other where each item draws its own numbers
    from the same seed."""
    size = next(a.shape[d] for a, d in zip(arguments, dims) if d is not None)
    arguments = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(arguments, dims)]
    own = any(d is not None for d in dims[:spec.count])
    if spec.draws and spec.given & SEED or own and spec.lead:
        return _one_by_one(arguments, dims, spec), (0,) * (1 + spec.states)
    if own:
        models = replace(spec, shape=replace(spec.shape, models=size), lead=(size,))
        each = [a if d is not None else jnp.broadcast_to(a, (size, *a.shape))
                for a, d in zip(arguments, dims)]
        return run_p.bind(*_common_seed(each, spec), spec=models), (0,) * (1 + spec.states)
    weights, inputs = arguments[:spec.count], arguments[spec.count:]
    inputs = _common_seed([a if d is not None else jnp.broadcast_to(a, (size, *a.shape))
                           for a, d in zip(inputs, dims[spec.count:])], spec)
    axes = [-3 if spec.shape.batch_major else -2, *map(_axis, spec.named())]
    folded = [a if axis is None else _fold(a, axis) for a, axis in zip(inputs, axes)]
    results = run_p.bind(*weights, *folded, spec=spec)
    axes = [axes[0], *(-2 for _ in range(spec.states))]
    return [_unfold(a, axis, size) for a, axis in zip(results, axes)], (0,) * len(results)


def _axis(bit: int) -> int | None:
    """The axis of N in an input."""
    return {LENGTHS: -1, RESETS: -1, MASK: -1, SEED: None}.get(bit, -2)


def _fold(array, axis: int):
    """[B,..,N,..] to [..,B*N,..]."""
    place = array.ndim - 1 + axis
    moved = jnp.moveaxis(array, 0, place)
    return moved.reshape(*moved.shape[:place], -1, *moved.shape[place + 2:])


def _unfold(array, axis: int, size: int):
    place = array.ndim + axis
    apart = array.reshape(*array.shape[:place], size, -1, *array.shape[place + 1:])
    return jnp.moveaxis(apart, place, 0)


def _common_seed(inputs, spec: Spec):
    """A seed that is not used, once for all items."""
    if not spec.given & SEED:
        return inputs
    place = len(inputs) - len(spec.named()) + spec.named().index(SEED)
    return [*inputs[:place], inputs[place][0], *inputs[place + 1:]]


def _one_by_one(arguments, dims, spec: Spec):
    own = [a for a, d in zip(arguments, dims) if d is not None]

    def one(each):
        rest = iter(each)
        return run_p.bind(*(a if d is None else next(rest) for a, d in zip(arguments, dims)),
                          spec=spec)

    return jax.lax.map(one, own)


run_p.def_impl(_run)
run_p.def_abstract_eval(lambda *avals, spec: _avals(spec, avals[spec.count]))
mlir.register_lowering(run_p, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[run_p] = _jvp
batching.primitive_batchers[run_p] = _batch
tangent_p.def_impl(_refuse)
tangent_p.def_abstract_eval(lambda *avals, spec, wanted, count: _avals(spec, avals[3]))
mlir.register_lowering(tangent_p, _refuse)
ad.primitive_transposes[tangent_p] = _transpose


@functools.partial(jax.jit, static_argnames="spec")
def run(weights, inputs, spec: Spec):
    """y and final states.  weights: [count]; inputs: x and those that spec.given names."""
    return run_p.bind(*weights, *inputs, spec=spec)
