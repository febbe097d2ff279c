"""Layers inside JAX programs, on CPUs and GPUs: under jit, grad, vmap and scan.

The parameters are an argument, as usual in JAX; the Layer's own are not read.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy

from . import _xla
from ._errors import BadArgument, Unsupported
from ._run import states_of
from .arrays import NAMES
from .layer import Layer


def parameters(layer: Layer) -> dict[str, jax.Array]:
    """A copy of a layer's parameters by name, for run; gradients have the same form."""
    return {name: jnp.array(value) for name, value in layer.parameters.items()}


def run(layer: Layer, parameters: dict[str, Any], x: Any, initial: Any = None,
        lengths: Any = None, seed: Any = None, *, resets: Any = None, reset_state: Any = None,
        mask: Any = None) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """y and a tuple of final states, as Layer gives them; differentiable but for lengths, seed,
    resets and mask, which are Layer's.

    seed: None is inference; a key of jax.random or a number draws dropout and bernoulli, as
    training does.  With a number the draws are those of Layer.forward; on a GPU drawing waits for
    the stream.  Has gradients in reverse mode (jax.grad, jax.vjp), once.  The program runs on
    layer.device, or on every GPU for a layer on one.  Raises BadArgument for shapes and types other
    than the layer's, when it is traced.

    >>> layer = Layer("gru", 3, 4)
    >>> x = jnp.ones((5, 2, 3))
    >>> def loss(p):
    ...     return jnp.sum(run(layer, p, x)[0] ** 2)
    >>> jax.jit(jax.grad(loss))(parameters(layer))["0.fwd.W.r"].shape
    (4, 3)
    """
    if layer.cell.has_matrix:
        raise Unsupported(f"cell {layer.cell.name} has a matrix state, which ecornn.jax does not support")
    x = jnp.asarray(x)
    if x.ndim != 3 + len(layer.lead) or x.shape[-1] != layer.input or (
            x.shape[:-3] != layer.lead):
        want = [*layer.lead, *("NT" if layer.batch_first else "TN"), layer.input]
        raise BadArgument(f"x is {list(x.shape)}, must be [{','.join(map(str, want))}]")
    steps, batch = (x.shape[-2], x.shape[-3]) if layer.batch_first else x.shape[-3:-1]
    if x.dtype.name != NAMES[layer._type]:
        raise BadArgument(f"x is {x.dtype}, must be {NAMES[layer._type]}")
    if reset_state is not None and resets is None:
        raise BadArgument("reset_state is given, but no resets")
    shapes, weights = layer._state_shapes(batch), _weights(layer, parameters)
    inputs, given = [x], 0
    if lengths is not None:
        inputs.append(_integers("lengths", lengths, (*layer.lead, batch)))
        given |= _xla.LENGTHS
    for name, bit, each in (("resets", _xla.RESETS, resets), ("mask", _xla.MASK, mask)):
        if each is not None:
            inputs.append(_steps(layer, name, each, x.shape[:-1]))
            given |= bit
    if seed is not None:
        inputs.append(_seed(seed))
        given |= _xla.SEED
    for name, bit, each in (("initial", _xla.INITIAL, initial),
                            ("reset_state", _xla.STARTS, reset_state)):
        for s, state in enumerate(_states(layer, each, name, shapes)):
            if state is not None:
                inputs.append(state)
                given |= bit << s
    if not steps or not batch:
        return _empty(layer, x, initial, shapes)
    spec = _xla.Spec(
        layer._plans.shape, layer.lead, layer.device, layer._type, layer._param_type, len(weights),
        layer.cell.states,
        layer.dropout > 0 and layer.layers > 1 or "bernoulli" in layer.cell.text, given)
    y, *final = _xla.run(weights, inputs, spec)
    return y, tuple(final)


def _weights(layer: Layer, given: dict[str, Any]) -> list[jax.Array]:
    own = layer.parameters
    if set(given) != set(own):
        raise BadArgument(f"parameters are {sorted(given)}, must be {sorted(own)}")
    for name, array in own.items():
        if jnp.shape(given[name]) != array.shape:
            raise BadArgument(f"{name} is {list(jnp.shape(given[name]))}, must be "
                              f"{list(array.shape)}")
    return [jnp.asarray(given[name], NAMES[layer._param_type]) for name in own]


def _integers(name: str, given: Any, shape: tuple[int, ...]) -> jax.Array:
    """Refuses floats and bools, which would be truncated silently."""
    kind = given.dtype if hasattr(given, "dtype") else numpy.asarray(given).dtype
    if kind.kind not in "iu" and numpy.size(given):
        raise BadArgument(f"{name} is {kind}, must be integers")
    if jnp.shape(given) != shape:
        raise BadArgument(f"{name} is {list(jnp.shape(given))}, must be {list(shape)}")
    return jnp.asarray(given, jnp.int32)


def _seed(given: Any) -> jax.Array:
    """The lower and the upper 32 bits of a seed."""
    if hasattr(given, "dtype") and (jnp.issubdtype(given.dtype, jax.dtypes.prng_key) or (
            given.dtype == jnp.uint32 and given.shape == (2,))):
        return jax.random.bits(given, (2,), jnp.uint32)
    if isinstance(given, int) and not isinstance(given, bool):
        if not 0 <= given < 2**64:
            raise BadArgument(f"seed is {given}, must be 0 to 2**64 - 1")
        return jnp.asarray([given % 2**32, given >> 32], jnp.uint32)
    if not jnp.issubdtype(jnp.asarray(given).dtype, jnp.integer) or jnp.shape(given):
        raise BadArgument(f"seed is {given}, must be a whole number or a key of jax.random")
    wide = jnp.asarray(given)
    upper = wide >> 32 if wide.dtype.itemsize == 8 else jnp.zeros((), jnp.uint32)
    return jnp.stack([wide.astype(jnp.uint32), upper.astype(jnp.uint32)])


def _steps(layer: Layer, name: str, given: Any, shape: tuple[int, ...]) -> jax.Array:
    """Steps of rows as bytes, [T,N]."""
    if jnp.shape(given) != shape:
        raise BadArgument(f"{name} are {list(jnp.shape(given))}, must be {list(shape)}")
    found = (jnp.asarray(given) != 0).astype(jnp.uint8)
    return found.swapaxes(-1, -2) if layer.batch_first else found


def _states(layer: Layer, given: Any, name: str, shapes) -> list[jax.Array | None]:
    states = [None if state is None else jnp.asarray(state)
              for state in states_of(given, name, len(shapes))]
    for state, shape in zip(states, shapes):
        if state is not None and state.dtype.name != NAMES[layer._type]:
            raise BadArgument(f"{name} is {state.dtype}, must be {NAMES[layer._type]}")
        if state is not None and state.shape != shape:
            raise BadArgument(f"{name} has a state of {list(state.shape)}, must be {list(shape)}")
    return states


def _empty(layer: Layer, x, initial: Any, shapes):
    """A run without steps or rows only copies states."""
    y = jnp.zeros((*x.shape[:-1], layer.output), x.dtype)
    given = _states(layer, initial, "initial", shapes)
    return y, tuple(jnp.full(shape, start, x.dtype) if state is None else state
                    for state, shape, start in zip(given, shapes, layer.cell.starts))
