"""Layers inside JAX programs, on a CPU: under jit, grad and vmap, through a callback to the host.

The parameters are an argument, as usual in JAX; the Layer's own are not read.  A gradient repeats
the layer's forward, because only arrays can be passed from one to the other.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from ._errors import BadArgument
from ._run import states_of
from .arrays import NAMES
from .layer import Layer, Run

_locks: weakref.WeakKeyDictionary[Layer, threading.Lock] = weakref.WeakKeyDictionary()


def parameters(layer: Layer) -> dict[str, jax.Array]:
    """A copy of a layer's parameters by name, for run; gradients have the same form."""
    return {name: jnp.array(value) for name, value in layer.parameters.items()}


def run(layer: Layer, parameters: dict[str, Any], x: Any, initial: Any = None,
        lengths: Any = None, seed: Any = None, *, resets: Any = None, reset_state: Any = None,
        mask: Any = None) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """y and a tuple of final states, as Layer gives them; differentiable but for lengths, seed,
    resets and mask, which are Layer's.

    seed: None is inference; a number of 32 bits draws dropout and bernoulli, as training does.
    Raises BadArgument for shapes and types other than the layer's, when it is traced.

    >>> layer = Layer("gru", 3, 4)
    >>> x = jnp.ones((5, 2, 3))
    >>> def loss(p):
    ...     return jnp.sum(run(layer, p, x)[0] ** 2)
    >>> jax.jit(jax.grad(loss))(parameters(layer))["0.fwd.W.r"].shape
    (4, 3)
    """
    if layer.device.startswith("cuda"):
        raise BadArgument(f"the layer's device is {layer.device}, must be a CPU")
    if layer.models is not None:
        raise BadArgument(f"the layer's models are {layer.models}, must be None: vmap runs one")
    x = jnp.asarray(x)
    if x.ndim != 3 or x.shape[2] != layer.input:
        raise BadArgument(f"x is {list(x.shape)}, must have 3 dimensions, the last {layer.input}")
    steps, batch = (x.shape[1], x.shape[0]) if layer.batch_first else x.shape[:2]
    shapes = layer._state_shapes(batch)
    if x.dtype.name != NAMES[layer._type]:
        raise BadArgument(f"x is {x.dtype}, must be {NAMES[layer._type]}")
    if reset_state is not None and resets is None:
        raise BadArgument("reset_state is given, but no resets")
    states = _states(layer, initial, "initial", shapes)
    starts = () if resets is None else _states(layer, reset_state, "reset_state", shapes)
    for name, given in (("resets", resets), ("mask", mask)):
        if given is not None and jnp.shape(given) != x.shape[:2]:
            raise BadArgument(f"{name} are {list(jnp.shape(given))}, must be {list(x.shape[:2])}")
    steps_of = tuple(None if given is None else jnp.asarray(given) != 0
                     for given in (resets, mask))
    if set(parameters) != set(layer._block):
        raise BadArgument(f"parameters are {sorted(parameters)}, must be {sorted(layer._block)}")
    flat = jnp.concatenate([jnp.ravel(parameters[name]) for name in layer._block])
    flat = flat.astype(layer._block.block.dtype)
    lengths = (jnp.full(batch, steps, jnp.int32) if lengths is None
               else _integers("lengths", lengths, jnp.int32))
    return _run(layer, seed is not None, flat, x, (states, starts), (lengths, *steps_of),
                _integers("seed", 0 if seed is None else seed, jnp.uint32))


def _integers(name: str, given: Any, dtype) -> jax.Array:
    """Refuses floats and bools, which would be truncated silently."""
    kind = given.dtype if hasattr(given, "dtype") else numpy.asarray(given).dtype
    if kind.kind not in "iu" and numpy.size(given):
        raise BadArgument(f"{name} is {kind}, must be integers")
    return jnp.asarray(given, dtype)


def _states(layer: Layer, given: Any, name: str, shapes) -> tuple[jax.Array, ...]:
    dtype = NAMES[layer._type]
    each = zip(states_of(given, name, len(shapes)), shapes, layer.cell.starts)
    states = tuple(jnp.full(shape, start, dtype) if state is None else jnp.asarray(state)
                   for state, shape, start in each)
    for state, shape in zip(states, shapes):
        if state.dtype.name != dtype:
            raise BadArgument(f"{name} is {state.dtype}, must be {dtype}")
        if state.shape != shape:
            raise BadArgument(f"{name} has a state of {list(state.shape)}, must be {list(shape)}")
    return states


def _arguments(x, states, steps):
    """The arguments in the form of Layer on the host."""
    initial, starts = (tuple(map(numpy.asarray, each)) for each in states)
    lengths, resets, mask = (None if each is None else numpy.asarray(each) for each in steps)
    more = {"resets": resets, "reset_state": starts or None, "mask": mask}
    return (numpy.asarray(x), initial, lengths), more


def _forward(layer: Layer, training: bool, flat, x, states, steps, seed):
    """On the host: y, final states."""
    with _locks.setdefault(layer, threading.Lock()):
        layer.unfreeze_weights()
        layer.parameters.block[:] = flat
        arrays, more = _arguments(x, states, steps)
        if training:
            made: Run = layer.forward(*arrays, seed=int(seed), **more)
            return made.y, made.final
        return layer(*arrays, **more)


def _backward(layer: Layer, flat, x, states, steps, seed, dy, dfinal):
    """On the host: gradients of parameters, x, initial states and reset states."""
    with _locks.setdefault(layer, threading.Lock()):
        layer.parameters.block[:] = flat
        arrays, more = _arguments(x, states, steps)
        made = layer.forward(*arrays, seed=int(seed), **more)
        grads = made.backward(numpy.asarray(dy), tuple(map(numpy.asarray, dfinal)))
    assert grads.parameters is not None
    return grads.parameters.block, grads.x, (grads.initial, grads.reset_state or ())


def _like(array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _run(layer: Layer, training: bool, flat, x, states, steps, seed):
    y = jax.ShapeDtypeStruct((*x.shape[:2], layer.directions * layer.width), x.dtype)
    return jax.pure_callback(
        functools.partial(_forward, layer, training), (y, tuple(map(_like, states[0]))),
        flat, x, states, steps, seed, vmap_method="sequential")


def _run_kept(layer: Layer, training: bool, *arguments):
    draws = (layer.dropout > 0 and layer.layers > 1) or "bernoulli" in layer.cell.text
    if draws and not training:
        raise BadArgument("seed is None, must be a number: a gradient with dropout is drawn")
    return _run(layer, training, *arguments), arguments


def _run_back(layer: Layer, training: bool, kept, cotangents):
    flat, x, states, steps, seed = kept
    dflat, dx, dstates = jax.pure_callback(
        functools.partial(_backward, layer),
        (_like(flat), _like(x), tuple(tuple(map(_like, each)) for each in states)),
        flat, x, states, steps, seed, *cotangents, vmap_method="sequential")
    return dflat, dx, dstates, None, None


_run.defvjp(_run_kept, _run_back)
