"""JAX's transforms of runs, each against the same computation one item after the other."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from ecornn import Layer

jax = pytest.importorskip("jax")
jnp = jax.numpy
from ecornn.jax import parameters, run  # noqa: E402

cpu = jax.local_devices(backend="cpu")[0]
DRAW = np.random.default_rng(7)
MGU = """cell mgu(h)
f  = sigmoid(W x + R h + b)
n  = tanh(W x + R (f * h) + b)
h' = (1 - f) * h + f * n
"""


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(cpu):
        yield


def draw(*shape):
    return jnp.asarray(DRAW.standard_normal(shape), jnp.float32)


def stacked(function, *arguments):
    """vmap by hand."""
    found = [function(*each) for each in zip(*arguments)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)


def assert_close(found, right, factor=1.0):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(
        a, b, rtol=1e-5, atol=1e-6 * factor * jnp.abs(b).max(initial=1)), found, right)


def many(trees, count=3):
    """Parameters of several models."""
    return jax.tree.map(lambda a: jnp.stack([a * (1 + 0.1 * k) for k in range(count)]), trees)


@pytest.mark.every(3)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_vmap_over_rows(cell, batch_first):
    layer = Layer(cell, 3, 4, layers=2, bidirectional=True, batch_first=batch_first)
    p, x = parameters(layer), draw(3, 5, 2, 3)
    initial = tuple(draw(3, 4, 5 if batch_first else 2, 4) for _ in range(layer.cell.states))
    lengths = jnp.asarray([[1, 2], [2, 0], [2, 1]]) if not batch_first else (
        jnp.asarray([[1, 2, 0, 2, 1]] * 3))
    resets = draw(3, 5, 2) > 0.5

    def value(x, initial, lengths, resets):
        y, final = run(layer, p, x, initial, lengths, resets=resets)
        return y, final

    def loss(x, initial, lengths, resets):
        y, final = value(x, initial, lengths, resets)
        return (y ** 2).sum() + sum(each.sum() for each in final)

    inputs = (x, initial, lengths, resets)
    items = [jax.tree.map(lambda a: a[k], inputs) for k in range(3)]
    right = jax.tree.map(lambda *a: jnp.stack(a), *(value(*each) for each in items))
    assert_close(jax.vmap(value)(*inputs), right)
    slopes = jax.grad(loss, (0, 1))
    right = jax.tree.map(lambda *a: jnp.stack(a), *(slopes(*each) for each in items))
    assert_close(jax.jit(jax.vmap(slopes))(*inputs), right)
    total = jax.grad(lambda x, initial: jax.vmap(loss)(x, initial, lengths, resets).sum(), (0, 1))
    assert_close(jax.jit(total)(x, initial), right)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_vmap_over_any_axis_and_some_arguments(axis):
    layer = Layer("gru", 3, 4)
    p, x, state = parameters(layer), draw(4, 5, 6), draw(1, 4, 4)
    whole = jnp.stack([x[..., :3], x[..., 3:]])
    moved = jnp.moveaxis(whole, 0, axis)
    found = jax.vmap(lambda x: run(layer, p, x, state[:, :, :].repeat(2, 1)[:, :5]),
                     in_axes=axis, out_axes=1)(moved)
    right = stacked(lambda x: run(layer, p, x, state.repeat(2, 1)[:, :5]), whole)
    assert_close(found, jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1), right))
    states = draw(3, 1, 5, 4)  # x is the same for all
    assert_close(jax.vmap(lambda s: run(layer, p, whole[0], s))(states),
                 stacked(lambda s: run(layer, p, whole[0], s), states))


def test_gradients_of_parameters_for_each_item_and_in_all():
    layer = Layer("lstm", 3, 4, layers=2)
    p, x = parameters(layer), draw(3, 5, 2, 3)
    slope = jax.grad(lambda p, x: (run(layer, p, x)[0] ** 2).sum())
    right = stacked(lambda x: slope(p, x), x)
    assert_close(jax.jit(jax.vmap(slope, (None, 0)))(p, x), right)
    found = jax.grad(lambda p: jax.vmap(lambda x: (run(layer, p, x)[0] ** 2).sum())(x).sum())(p)
    assert_close(found, jax.tree.map(lambda a: a.sum(0), right), 3)


def test_models_by_vmap():
    layer = Layer("gru", 3, 4, bidirectional=True)
    p, x = many(parameters(layer)), draw(3, 5, 2, 3)
    value = lambda p, x: run(layer, p, x)  # noqa: E731
    assert_close(jax.vmap(value)(p, x), jax.tree.map(lambda *a: jnp.stack(a), *(
        value(jax.tree.map(lambda a: a[k], p), x[k]) for k in range(3))))
    slope = jax.grad(lambda p, x: (value(p, x)[0] ** 2).sum(), (0, 1))
    right = jax.tree.map(lambda *a: jnp.stack(a), *(
        slope(jax.tree.map(lambda a: a[k], p), x[k]) for k in range(3)))
    assert_close(jax.jit(jax.vmap(slope))(p, x), right)
    assert_close(jax.grad(lambda p, x: (jax.vmap(value)(p, x)[0] ** 2).sum(), (0, 1))(p, x), right)
    one = jax.tree.map(lambda a: a[:1], p)
    assert_close(jax.vmap(value, (0, None))(one, x[0])[0][0],
                 value(jax.tree.map(lambda a: a[0], p), x[0])[0])


def test_many_models():
    """Of more than 1024 arrays of parameters."""
    layer, several, x = Layer("lstm", 3, 4), Layer("lstm", 3, 4, models=90), draw(5, 2, 3)
    p = parameters(several)
    value = lambda p: run(layer, p, x)[0]  # noqa: E731
    slope = jax.grad(lambda p: (value(p) ** 2).sum())
    each = [jax.tree.map(lambda a: a[k], p) for k in range(90)]  # noqa: B023
    right = jnp.stack([value(one) for one in each])
    assert_close(jax.vmap(value)(p), right)
    assert_close(run(several, p, jnp.stack([x] * 90))[0], right)
    assert_close(jax.vmap(slope)(p), jax.tree.map(lambda *a: jnp.stack(a), *map(slope, each)))


def test_vmap_in_vmap():
    layer = Layer("lstm", 3, 4)
    p, x = many(parameters(layer), 2), draw(2, 3, 5, 2, 3)
    for function in (lambda p, x: run(layer, p, x)[0],
                     jax.grad(lambda p, x: (run(layer, p, x)[0] ** 2).sum(), (0, 1))):
        found = jax.vmap(lambda p, x: jax.vmap(lambda x: function(p, x))(x))(p, x)
        found_other = jax.vmap(lambda x: jax.vmap(function)(p, x), 1, 1)(x)
        right = jax.tree.map(lambda *a: jnp.stack(a), *(
            stacked(lambda x: function(jax.tree.map(lambda a: a[k], p), x), x[k])
            for k in range(2)))
        assert_close(found, right)
        assert_close(found_other, right)


def test_a_layer_of_several_models():
    layer = Layer("gru", 3, 4, models=2, batch_first=True)
    p, x = parameters(layer), draw(2, 2, 5, 3)
    made = layer.forward(np.asarray(x))
    grads = made.backward(np.ones_like(made.y))
    np.testing.assert_array_equal(run(layer, p, x)[0], made.y)
    dp, dx = jax.grad(lambda p, x: run(layer, p, x)[0].sum(), (0, 1))(p, x)
    assert_close(dx, jnp.asarray(grads.x))
    assert_close(dp, {name: jnp.asarray(each) for name, each in grads.parameters.items()})
    more = jnp.stack([x, 2 * x])
    assert_close(jax.vmap(lambda x: run(layer, p, x))(more),
                 stacked(lambda x: run(layer, p, x), more))


def test_a_branch_that_an_item_does_not_take():
    """vmap of `cond` computes both branches, and replaces what one kept by zeros."""
    layer = Layer("lstm", 3, 4)
    p, x = parameters(layer), draw(4, 5, 2, 3)

    def loss(p, x):
        return jax.lax.cond(x[0, 0, 0] > 0, lambda: (run(layer, p, x)[0] ** 2).sum(),
                            lambda: (x ** 2).sum())

    slope = jax.grad(loss, (0, 1))
    x = x.at[:, 0, 0, 0].set(jnp.asarray([1.0, -1.0, 1.0, -1.0]))
    assert_close(jax.vmap(slope, (None, 0))(p, x), stacked(lambda x: slope(p, x), x))


def test_in_scan_and_checkpoint():
    layer = Layer("gru", 3, 3)
    p, x, state = parameters(layer), draw(4, 2, 3), jnp.zeros((1, 2, 3))

    def steps(p, x, state):
        def step(state, x):
            y, (state,) = run(layer, p, x[None], state)
            return state, y[0]
        return jax.lax.scan(step, state, x)[1]

    plain = jax.grad(lambda p, x: (run(layer, p, x, state)[0] ** 2).sum(), (0, 1))
    right = plain(p, x)
    for wrapped in (steps, jax.checkpoint(steps)):
        loss = lambda p, x: (wrapped(p, x, state) ** 2).sum()  # noqa: B023, E731
        assert_close(jax.jit(jax.grad(loss, (0, 1)))(p, x), right)
    kept = jax.grad(lambda p, x: (jax.checkpoint(lambda p, x: run(layer, p, x, state)[0])(p, x)
                                  ** 2).sum(), (0, 1))
    assert_close(kept(p, x), right)


def test_jacobian():
    layer = Layer("gru", 2, 3)
    p, x = parameters(layer), draw(3, 1, 2)
    function = lambda x: run(layer, p, x)[0].ravel()  # noqa: E731
    rows = [jax.grad(lambda x: function(x)[k])(x) for k in range(9)]
    assert_close(jax.jacrev(function)(x), jnp.stack(rows))


def test_keys_draw_and_each_item_draws_its_own():
    layer = Layer("lstm", 3, 8, layers=2, dropout=0.5)
    p, x, keys = parameters(layer), draw(5, 2, 3), jax.random.split(jax.random.key(3), 3)
    value = lambda key, x=x: run(layer, p, x, seed=key)[0]  # noqa: E731
    one, same, other = value(keys[0]), value(keys[0]), value(keys[1])
    assert (one == same).all() and (one != other).any()
    old = jax.random.PRNGKey(3)
    np.testing.assert_array_equal(value(old), value(jax.random.wrap_key_data(old)))
    np.testing.assert_array_equal(jax.vmap(value)(keys), stacked(value, keys))
    slope = jax.grad(lambda x, key: value(key, x).sum())
    np.testing.assert_array_equal(jax.vmap(slope, (None, 0))(x, keys),
                                  stacked(lambda key: slope(x, key), keys))
    seeded = lambda seed: run(layer, p, x, seed=seed)[0]  # noqa: E731
    np.testing.assert_array_equal(jax.vmap(seeded)(jnp.arange(3)),
                                  stacked(seeded, jnp.arange(3)))
    wide = 5 << 40 | 3
    np.testing.assert_array_equal(seeded(wide), layer.forward(np.asarray(x), seed=wide).y)


def test_only_the_wanted_gradients_are_computed():
    layer = Layer("lstm", 3, 4)
    p, x = parameters(layer), draw(5, 2, 3)
    loss = lambda p, x: (run(layer, p, x)[0] ** 2).sum()  # noqa: E731
    both = jax.grad(loss, (0, 1))(p, x)
    for which, count in ((0, 2 + len(p)), (1, 2)):  # blocks and gradients
        text = jax.jit(jax.grad(loss, which)).lower(p, x).as_text()
        *_, call = [line for line in text.splitlines() if "@ecornn_run" in line]  # the last is backward
        assert call.count("tensor<", call.index("->")) == count
    assert_close(jax.grad(loss)(p, x), both[0])
    assert_close(jax.grad(loss, 1)(p, x), both[1])


@pytest.mark.parametrize("dtype", ["bf16", "f64"])
def test_types(dtype):
    with (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(dtype == "f64"):
        layer = Layer("gru", 8, 8, dtype=dtype)
        kind = {"bf16": jnp.bfloat16, "f64": jnp.float64}[dtype]
        x, p = jnp.asarray(draw(4, 2, 8), kind), parameters(layer)
        y, _ = run(layer, p, x)
        assert y.dtype == kind
        dx = jax.grad(lambda x: run(layer, p, x)[0].astype(jnp.float32).sum())(x)
        made = layer.forward(np.asarray(x))
        grads = made.backward(np.ones_like(made.y))
        np.testing.assert_array_equal(np.asarray(y), np.asarray(made.y))
        np.testing.assert_array_equal(np.asarray(dx), np.asarray(grads.x))


@pytest.mark.parametrize("shape", [(0, 2, 3), (5, 0, 3)])
def test_empty_runs(shape):
    layer = Layer("lstm", 3, 4)
    p, x = parameters(layer), jnp.zeros(shape)
    state = tuple(draw(1, shape[1], 4) for _ in range(2))
    y, final = run(layer, p, x, state)
    assert y.shape == (*shape[:2], 4)
    assert_close(final, state)
    dp = jax.grad(lambda p: sum(map(jnp.sum, run(layer, p, x, state)[1])))(p)
    assert not any(each.any() for each in jax.tree.leaves(dp))


def test_an_own_cell():
    layer = Layer(MGU, 3, 4)
    x = draw(5, 2, 3)
    np.testing.assert_array_equal(run(layer, parameters(layer), x)[0], layer(np.asarray(x))[0])


def test_threads(in_threads):
    layer = Layer("lstm", 3, 16)
    p, found = parameters(layer), {}
    slope = jax.jit(jax.grad(lambda p, x: (run(layer, p, x)[0] ** 2).sum()))

    def work(k):
        x = jnp.full((20 + k % 3, 2, 3), k / 8, jnp.float32)
        with jax.default_device(cpu):
            found[k] = [slope(p, x) for _ in range(5)]

    in_threads(work, 8)
    for k, each in found.items():
        right = slope(p, jnp.full((20 + k % 3, 2, 3), k / 8, jnp.float32))
        for one in each:
            jax.tree.map(np.testing.assert_array_equal, one, right)


RUNS = """
import sys, numpy, jax.export, ecornn.jax
blob, x = open(sys.argv[1], "rb").read(), numpy.load(sys.argv[2])
numpy.save(sys.argv[3], jax.export.deserialize(bytearray(blob)).call(x))
"""


def test_an_exported_program_runs_in_another_process(tmp_path):
    pytest.importorskip("flatbuffers")
    layer = Layer("gru", 3, 4)
    p, x = parameters(layer), draw(5, 2, 3)
    function = jax.jit(jax.grad(lambda x: (run(layer, p, x)[0] ** 2).sum()))
    export = pytest.importorskip("jax.export")
    checks = [export.DisabledSafetyCheck.custom_call("ecornn_run")]
    program = export.export(function, platforms=["cpu"], disabled_checks=checks)(x)
    names = [str(tmp_path / name) for name in ("program", "x.npy", "y.npy")]
    (tmp_path / "program").write_bytes(program.serialize())
    np.save(names[1], x)
    subprocess.run([sys.executable, "-c", RUNS, *names], check=True,
                   env={**os.environ, "JAX_PLATFORMS": "cpu"})
    np.testing.assert_array_equal(np.load(names[2]), function(x))


@pytest.mark.parametrize("says, changes", [
    (r"argument 1 of a program, x, is \[5,2,2\] of type 11, must be \[5,2,3\]", {"x": (5, 2, 2)}),
    ("argument 0 of a program, weights, is .* at least", {"packed": (8,)}), ("not .T,N,I", {"x": (5, 3)}),
    (r"result 0 of a program, workspace, is \[64\] .* at least", {"space": (64,)}),
    ("has 2 results, must have 3", {"results": 2}), ("`given`", {"given": 1 << 40}),
    ("device is a GPU", {"device": "cuda:0"}), ("attributes", {"other": "1"}),
    ("attributes", {"problem": "gru\0"}), ("none", {"problem": "none/T3"}), ("other", {"device": "other"}),
    ("input is 0", {"problem": "none/T3/N2", "cell": MGU, "device": "reference"})])
def test_a_program_that_does_not_fit_is_refused(says, changes):
    made = {"x": (5, 2, 3), "packed": (1 << 16,), "space": (1 << 16,), "results": 3, "cell": "", "given": 0,
            "device": "cpu", "problem": str(Layer("gru", 3, 4).plan(5, 2)).split(" ", 1)[0], **changes}
    x, packed = jnp.zeros(made.pop("x")), jnp.zeros(made.pop("packed"), jnp.uint8)
    results = [jax.ShapeDtypeStruct(made.pop("space"), jnp.uint8)] + [
        jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((5, 2, 4), (1, 2, 4))]
    call = jax.ffi.ffi_call("ecornn_run", results[:made.pop("results")])
    with pytest.raises(Exception, match=says):
        jax.block_until_ready(call(packed, x, **{**made, "given": np.int64(made["given"] + (1 << 28))}))


def test_several_devices():
    """Programs of two devices, by shard_map, in a process with two CPUs."""
    code = """
import jax, numpy as np, jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P
from ecornn import Layer; from ecornn.jax import parameters, run
layer = Layer("gru", 3, 4); p = parameters(layer)
x = jnp.asarray(np.random.default_rng(0).standard_normal((5, 4, 3)), jnp.float32)
mesh = Mesh(np.array(jax.devices()), ("n",))
part = jax.shard_map(lambda p, x: run(layer, p, x)[0], mesh=mesh, in_specs=(P(), P(None, "n")),
                     out_specs=P(None, "n"), check_vma=False)
assert len(jax.devices()) == 2
np.testing.assert_allclose(jax.jit(part)(p, x), run(layer, p, x)[0], rtol=1e-6)
slope = lambda f: jax.jit(jax.grad(lambda p, x: (f(p, x) ** 2).sum(), (0, 1)))(p, x)
jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), slope(part),
             slope(lambda p, x: run(layer, p, x)[0]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={
        **os.environ, "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2"})


def test_bits_are_those_of_the_header():
    import re
    from pathlib import Path

    from ecornn import _xla

    header = Path(__file__).parents[1] / "native" / "xla.h"
    bits = {name: 1 << int(shift)
            for name, shift in re.findall(r"XLA_(\w+) = 1 << (\d+)", header.read_text())}
    assert len(bits) == 14
    assert bits == {name: getattr(_xla, name) for name in bits}
