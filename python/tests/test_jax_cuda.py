"""Layers on a GPU inside JAX's programs, against the same layers on a CPU."""

from __future__ import annotations

import numpy as np
import pytest

from ecornn import Layer
from ecornn._library import device_count

jax = pytest.importorskip("jax")
jnp = jax.numpy
from ecornn.jax import parameters, run  # noqa: E402

if not device_count("cuda"):
    pytest.skip("no GPU", allow_module_level=True)
if not any(device.platform == "gpu" for device in jax.devices()):
    pytest.skip("no GPU for jax", allow_module_level=True)
DRAW = np.random.default_rng(8)


def draw(*shape):
    return jnp.asarray(DRAW.standard_normal(shape), jnp.float32)


def on_cpu(function, *arguments):
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.default_device(cpu):
        return function(*jax.device_put(arguments, cpu))


def assert_close(found, right):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(
        a, b, rtol=1e-4, atol=2e-5 * max(1.0, float(np.abs(b).max(initial=1)))),
        jax.device_get(found), jax.device_get(right))


@pytest.mark.parametrize("cell, more", [
    ("lstm", {}), ("gru", {"layers": 2, "bidirectional": True}), ("lstm", {"proj": 16}),
    ("gru", {"batch_first": True}), ("rnn-tanh", {}), ("lstm", {"saving": "every:4"})])
def test_jit_and_gradients(cell, more):
    layers = [Layer(cell, 32, 64, device=device, **more) for device in ("cuda", "cpu")]
    p, x = parameters(layers[0]), draw(20, 8, 32)
    batch = 20 if more.get("batch_first") else 8
    states = tuple(jnp.asarray(draw(*shape)) for shape in layers[0]._state_shapes(batch))
    lengths = jnp.asarray(DRAW.integers(0, 9, batch), jnp.int32)
    resets = draw(20, 8) > 1

    def values(layer):
        def value(p, x, states):
            y, final = run(layer, p, x, states, lengths, resets=resets)
            return (y ** 2).sum() + sum(each.sum() for each in final), (y, final)
        return jax.jit(jax.value_and_grad(value, (0, 1, 2), has_aux=True))

    ours, right = (values(layer) for layer in layers)
    assert_close(ours(p, x, states), on_cpu(right, p, x, states))


def test_transforms():
    layers = [Layer("lstm", 16, 32, device=device) for device in ("cuda:0", "cpu")]
    p, x = parameters(layers[0]), draw(3, 12, 4, 16)
    many = jax.tree.map(lambda a: jnp.stack([a, 2 * a, -a]), p)
    for made in (
            lambda slope: jax.vmap(slope, (None, 0))(p, x),
            lambda slope: jax.vmap(slope)(many, x),
            lambda slope: jax.lax.scan(lambda _, x: (None, slope(p, x)), None, x)[1]):
        found, right = (jax.grad(lambda p, x, layer=layer: (run(layer, p, x)[0] ** 2).sum(), (0, 1))
                        for layer in layers)
        assert_close(jax.jit(lambda: made(found))(),  # noqa: B023
                     on_cpu(lambda: made(right)))
    total = [jax.grad(lambda p, layer=layer: (jax.vmap(lambda x: run(layer, p, x)[0])(x) ** 2)
                      .sum()) for layer in layers]
    assert_close(jax.jit(total[0])(p), on_cpu(total[1], p))


def test_draws_are_those_of_the_cpu():
    layers = [Layer("gru", 16, 32, layers=2, dropout=0.5, device=device)
              for device in ("cuda", "cpu")]
    p, x, key = parameters(layers[0]), draw(6, 4, 16), jax.random.key(1)
    slopes = [jax.jit(jax.grad(lambda p, key, layer=layer: (
        run(layer, p, x, seed=key)[0] ** 2).sum())) for layer in layers]
    assert_close(slopes[0](p, key), on_cpu(slopes[1], p, key))


def test_repeated_and_on_other_streams_of_work():
    """Runs that follow each other in a program, and programs that are queued without waiting."""
    layer = Layer("gru", 64, 64, device="cuda")
    p, x = parameters(layer), draw(10, 8, 64)

    @jax.jit
    def chain(p, x):
        for _ in range(4):
            x = run(layer, p, x)[0] + x
        return x

    right = chain(p, x)
    found = [chain(p, x) for _ in range(20)]
    for each in found:
        np.testing.assert_array_equal(each, right)


def test_a_layer_of_a_cpu_is_refused():
    layer = Layer("gru", 3, 4)
    p, x = parameters(layer), draw(5, 2, 3)
    with pytest.raises(Exception, match="the layer's device is a CPU, but the program runs on a"):
        jax.block_until_ready(jax.jit(lambda p, x: run(layer, p, x)[0])(p, x))
