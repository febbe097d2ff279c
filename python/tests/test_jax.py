"""Layers inside JAX's programs: values, gradients, under jit and vmap."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from ecornn import BadArgument, Layer

jax = pytest.importorskip("jax")
jnp = jax.numpy
cpu = jax.local_devices(backend="cpu")[0]
DRAW = np.random.default_rng(6)


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(cpu):
        yield


def draw(*shape):
    return DRAW.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("cell, batch_first", [
    ("lstm", False), ("gru", True), ("lif", False),
    ("cell turn(h, g) -> h, g\nh' = p * h - g + W x\ng' = sigmoid(W x) * g + h\n", False)])
def test_values_and_gradients_are_the_layer_s(cell, batch_first):
    from ecornn.jax import parameters, run

    layer = Layer(cell, 3, 4, layers=2, direction="both", batch_first=batch_first, seed=1)
    x, lengths = draw(4, 4, 3), np.array([4, 0, 2, 3])
    initial = tuple(draw(4, 4, 4) for _ in range(layer.cell.states))
    right = layer.forward(x, initial, lengths)
    dy, dfinal = draw(4, 4, layer.output), tuple(draw(4, 4, 4) for _ in initial)
    grads = right.backward(dy, dfinal)
    values = parameters(layer)

    def loss(p, x, initial):
        y, final = run(layer, p, x, initial, lengths)
        return (y * dy).sum() + sum((a * b).sum() for a, b in zip(final, dfinal))

    y, final = jax.jit(lambda *a: run(layer, *a))(values, x, initial, lengths)
    np.testing.assert_array_equal(y, right.y)
    np.testing.assert_array_equal(final[-1], right.final[-1])
    layer.parameters.block[:] = 0  # those of the argument count
    for transform in (lambda f: f, jax.jit):
        dp, dx, dstates = transform(jax.grad(loss, argnums=(0, 1, 2)))(values, x, initial)
        np.testing.assert_allclose(dx, grads.x, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(dstates[-1], grads.initial[-1], rtol=1e-6, atol=1e-6)
        for name, gradient in grads.parameters.items():
            np.testing.assert_allclose(dp[name], gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("more", [
    {"weights": "bf16"}, {"fast_math": True, "row_invariant": True}, {"heads": 2},
    {"heads": 2, "grouped_input": True}, {"saving": "every:5"}, {"memory_limit": 10**7},
    {"models": 3}, {"proj": 4}, {"direction": "reverse"}, {"device": "cpu:1"}])
def test_every_option_of_a_layer(more):
    from ecornn.jax import parameters, run

    layer = Layer("lstm", 8, 8, **more)
    x = draw(*layer.lead, 20, 3, 8)
    right = layer.forward(x)
    grads = right.backward(right.y)
    dp, dx = jax.grad(lambda p, x: (run(layer, p, x)[0] ** 2).sum() / 2, (0, 1))(
        parameters(layer), x)
    np.testing.assert_array_equal(dx, grads.x)
    for name, gradient in grads.parameters.items():
        np.testing.assert_array_equal(dp[name], gradient)


def test_dropout_needs_a_seed_for_a_gradient():
    from ecornn.jax import parameters, run

    layer = Layer("lstm", 3, 8, layers=2, dropout=0.5)
    x, values = draw(5, 2, 3), parameters(layer)
    one, same, other, without = (run(layer, values, x, seed=s)[0] for s in (1, 1, 2, None))
    assert (one == same).all() and (one != other).any() and (one != without).any()
    np.testing.assert_array_equal(one, layer.forward(x, seed=1).y)
    gradient = jax.grad(lambda x, s: run(layer, values, x, seed=s)[0].sum())
    np.testing.assert_array_equal(
        gradient(jnp.asarray(x), 1), layer.forward(x, seed=1).backward(np.ones_like(one)).x)
    with pytest.raises(BadArgument, match="seed is None"):
        gradient(jnp.asarray(x), None)


def test_no_initial_state_is_zero():
    from ecornn.jax import parameters, run

    layer = Layer("gru", 3, 4)
    x, values = draw(5, 2, 3), parameters(layer)
    np.testing.assert_array_equal(run(layer, values, x)[0], layer(x)[0])
    state = draw(1, 2, 4)
    np.testing.assert_array_equal(run(layer, values, x, state)[0], layer(x, state)[0])


def test_misuse():
    from ecornn.jax import parameters, run

    layer = Layer("lstm", 3, 4)
    x, values = draw(5, 2, 3), parameters(layer)
    for wrong, says in (((values, x[0]), r"x is \[2, 3\], must be \[T,N,3\]"),
                        ((values, x[..., :2]), "x is"),
                        (({}, x), "parameters are"), ((values, x, (x,)), "initial has 1"),
                        ((values, x.astype(np.float16)), "x is float16, must be float32"),
                        ((values, x, (x, x)), "initial has a state of")):
        with pytest.raises(BadArgument, match=says):
            run(layer, *wrong)
    with pytest.raises(TypeError, match="initial is ndarray, must be"):
        run(layer, values, x, x)
    with pytest.raises(BadArgument, match=r"0.fwd.W.i is \[4\], must be \[4, 3\]"):
        run(layer, {**values, "0.fwd.W.i": values["0.fwd.W.i"][:, 0]}, x)
    with pytest.raises(Exception, match=r"lengths\[1\] is 6, must be 0 to 5"):
        jax.block_until_ready(run(layer, values, x, lengths=np.array([5, 6])))
    with pytest.raises(NotImplementedError, match="does not support forward mode"):
        jax.jvp(lambda x: run(layer, values, x)[0], (x,), (x,))


def test_documented_examples_run():
    import ecornn.jax

    assert doctest.testmod(ecornn.jax).failed == 0


def test_resets_and_masks_are_those_of_the_layer():
    from ecornn.jax import parameters, run
    layer = Layer("lstm", 3, 4)
    x = jnp.asarray(draw(6, 2, 3), jnp.float32)
    resets, mask = x[:, :, 0] > 0.5, x[:, :, 1] < 0.5
    start = tuple(jnp.ones((1, 2, 4), jnp.float32) for _ in range(2))

    def loss(x, start):
        y, _ = run(layer, parameters(layer), x, resets=resets, reset_state=start, mask=mask)
        return jnp.sum(y)

    dx, dstart = jax.jit(jax.grad(loss, (0, 1)))(x, start)
    made = layer.forward(np.asarray(x), resets=np.asarray(resets),
                        reset_state=tuple(map(np.asarray, start)), mask=np.asarray(mask))
    grads = made.backward(np.ones_like(made.y))
    assert np.array_equal(dx, grads.x)
    assert all(np.array_equal(a, b) for a, b in zip(dstart, grads.reset_state))
