"""Layers of Keras, against Keras's own: on the backend that is set, torch by default, and on jax."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras")
BACKEND = keras.config.backend()
from ecornn import BadArgument, Cell, Layer, cells  # noqa: E402
import ecornn.keras as ours  # noqa: E402

MINE = "cell mine(h, m = -1)\nu = sigmoid(W x + R h + b)\nh' = u * h + (1 - u) * tanh(W x + p * m)\nm' = max(m, h')\n"
FEW = pytest.mark.every(5 if BACKEND == "jax" else 1)  # JAX compiles each case
KINDS = ["LSTM", "GRU", "SimpleRNN"]
N, T, I, H = 3, 6, 5, 4


@pytest.fixture(autouse=True)
def double(monkeypatch):
    """Layers are F64 unless a test says otherwise: both sides then differ by rounding only.  Keras's
    operators would round F64 to F32."""
    keras.utils.set_random_seed(1)
    monkeypatch.setitem(keras.src.backend.common.dtypes.BIT64_TO_BIT32_DTYPE, "float64", "float64")
    before = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx(before[1])
    keras.config.set_dtype_policy(before[0])


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def array(tensor):
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float64")))


def twins(kind, shape=(N, T, I), **more):
    """A layer of Keras and ours with the same weights."""
    pair = getattr(keras.layers, kind)(H, **more), getattr(ours, kind)(H, **more)
    for layer in pair:
        layer.build(shape)
        for k, weight in enumerate(layer.weights):
            if "seed" not in weight.path:
                weight.assign(draw(*weight.shape, seed=k) / 2)
    return pair


def listed(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def run(layer, x, **call):
    """Results, and the gradients of a sum of them, weighted, for x and the weights."""
    def loss(results):
        return sum((y * keras.ops.convert_to_tensor(draw(*y.shape, seed=k))).sum()
                   for k, y in enumerate(listed(results)))

    if BACKEND == "torch":
        import torch

        x = torch.tensor(x, requires_grad=True)
        results = layer(x, **call)
        of = [x, *(weight.value for weight in layer.trainable_weights)]
        gradients = torch.autograd.grad(loss(results), of)
    else:
        import jax

        values = [weight.value for weight in layer.trainable_weights]
        rest = [each.value for each in layer.non_trainable_variables]

        def both(x, values):
            results, _ = layer.stateless_call(values, rest, x, **call)
            return loss(results), results

        (dx, dvalues), results = jax.grad(both, (0, 1), has_aux=True)(jax.numpy.asarray(x), values)
        gradients = [dx, *dvalues]
    return [array(each) for each in (*listed(results), *gradients)]


def same(found, right, tolerance=1e-9):
    assert len(found) == len(right)
    for one, other in zip(found, right):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


MASK = np.array([[0, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0], [0] * 6], bool)
OPTIONS = [{}, {"use_bias": False}, {"go_backwards": True}, {"dropout": 0.5, "seed": 3},
           {"recurrent_dropout": 0.4, "seed": 3}, {"recurrent_dropout": 0.4, "dropout": 0.3, "seed": 3},
           {"return_sequences": False}, {"unroll": True}]


@FEW
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("more", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [*KINDS, "GRU-before"])
def test_values_and_gradients_are_keras_s(kind, more, masked):
    kind, _, before = kind.partition("-")
    more = {"return_sequences": True, "return_state": True, **more, **({"reset_after": False} if before else {})}
    if "unroll" in more and masked and BACKEND == "torch":
        more["unroll"] = False  # Keras fails
    right, found = twins(kind, **more)
    call = {"mask": keras.ops.convert_to_tensor(MASK) if masked else None, "training": True,
            "initial_state": [keras.ops.convert_to_tensor(draw(N, H, seed=7 + k))
                              for k in range(1 + (kind == "LSTM"))]}
    same(run(found, draw(N, T, I), **call), run(right, draw(N, T, I), **call))
    del call["training"]
    same(run(found, draw(N, T, I), **call), run(right, draw(N, T, I), **call))


@FEW
@pytest.mark.parametrize("name", list(ours._ACTIVATIONS))
def test_activations_are_keras_s(name):
    for kind, more in (("LSTM", {"recurrent_activation": name}), ("LSTM", {"activation": name}),
                       ("GRU", {"recurrent_activation": name}), ("SimpleRNN", {"activation": name})):
        right, found = twins(kind, shape=(N, 2, I), **more)
        x = 4 * draw(N, 2, I)
        x[0] = 0
        for layer in (right, found):
            layer.bias.assign(0 * array(layer.bias)) if hasattr(layer, "bias") else None
        same(run(found, x), run(right, x), 1e-7)


def test_what_is_refused():
    for more, says in (({"activation": "gelu"}, "activation is gelu, must be one of tanh"),
                       ({"recurrent_activation": lambda x: x}, "recurrent_activation is <lambda>"),
                       ({"dropout": 1}, "dropout is 1.0, must be below 1"),
                       ({"recurrent_dropout": 1}, "recurrent_dropout is 1.0"),
                       ({"use_cudnn": True}, "use_cudnn is True")):
        with pytest.raises(BadArgument, match=says):
            ours.LSTM(4, **more)
    for arguments, says in (((0, "mgu"), "units is 0"), ((4, "none"), "cell is 'none'")):
        with pytest.raises(ValueError, match=says):
            ours.Recurrent(*arguments)
    parts = "cell scored(h; a[1], u[H])\nh' = tanh(W x + a * u + R h)\n"
    for text, more, says in (("mgu", {"heads": 3}, "heads is 3, must divide units, which is 4"),
                             ("mgu", {"heads": 2, "grouped_input": True},
                              "heads is 2, must divide with grouped_input the input's width without parts, which is 5"),
                             (parts, {}, "the input's width is 4, must be at least 5, that of the text's parts")):
        with pytest.raises(BadArgument, match=says):
            ours.Recurrent(4, text, **more).build((N, T, 4 if text is parts else I))
    with pytest.raises(BadArgument, match="dropout is 1"):
        ours.Recurrent(4, "mgu", dropout=1)


def model(layers, tokens=11):
    return keras.Sequential([
        keras.layers.Input((T,)), keras.layers.Embedding(tokens, I, mask_zero=True),
        keras.layers.Bidirectional(layers.LSTM(H, return_sequences=True, kernel_regularizer="l2")),
        layers.GRU(6, return_sequences=True, recurrent_constraint="max_norm"),
        layers.SimpleRNN(3, dropout=0.2, seed=5), keras.layers.Dense(2)])


TOKENS, TARGET = np.random.default_rng(0).integers(0, 11, (8, T)), draw(8, 2)


def train(made):
    if not getattr(made, "optimizer", None):
        made.compile(keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError(), jit_compile=BACKEND == "jax")
    made.fit(TOKENS, TARGET, epochs=3, batch_size=4, shuffle=False, verbose=0)
    return [array(weight) for weight in made.weights if "seed" not in weight.path]


def test_a_model_trains_as_keras_s():
    found = []
    for layers in (keras.layers, ours):
        keras.utils.set_random_seed(3)
        found.append(train(model(layers)))
    same(*found)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_files(tmp_path, suffix):
    right, path = model(keras.layers), str(tmp_path / f"x{suffix}")
    train(right)
    want = right.predict(TOKENS, verbose=0)
    right.save(path)
    loaded = ours.replace(keras.models.load_model(path))
    assert type(loaded.layers[1].forward_layer) is ours.LSTM and type(loaded.layers[2]) is ours.GRU
    same([loaded.predict(TOKENS, verbose=0)], [want])
    loaded.save(path)  # with our classes
    again = keras.models.load_model(path)
    assert type(again.layers[1].backward_layer) is ours.LSTM and type(again.layers[3]) is ours.SimpleRNN
    same([again.predict(TOKENS, verbose=0)], [want])
    again.save_weights(weights := str(tmp_path / "x.weights.h5"))
    fresh = model(keras.layers)
    fresh.load_weights(weights)
    same([fresh.predict(TOKENS, verbose=0)], [want])
    if suffix == ".keras":
        same(*([array(each) for each in made.optimizer.variables] for made in (again, right)))


def test_replace_in_the_middle_of_training():
    found = []
    for change in (lambda made: made, ours.replace):
        keras.utils.set_random_seed(3)
        made = model(keras.layers)
        train(made)
        before = [id(weight) for weight in made.weights]
        assert change(made) is made and [id(weight) for weight in made.weights] == before
        found.append(train(made))
    assert type(made.layers[2]) is ours.GRU
    same(*found)


def test_replace_names_what_stays():
    made = keras.Sequential([
        keras.layers.Input((T, I)), keras.layers.LSTM(H, activation="gelu", return_sequences=True, name="odd"),
        keras.layers.TimeDistributed(keras.layers.Dense(3)),
        keras.layers.RNN(keras.layers.GRUCell(H), return_sequences=True, name="loop"), ours.GRU(H)])
    with pytest.warns(UserWarning, match="odd: activation is gelu.*; loop: its class is RNN$"):
        ours.replace(made)
    assert type(made.layers[0]) is keras.layers.LSTM
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.replace(model(keras.layers))


@pytest.mark.parametrize("kind", KINDS)
def test_usual_layers_are_built_in_cells(kind):
    """Their text is a cell of the library, whatever has no bias; others have one of their own."""
    for more in ({}, {"use_bias": False}, {"reset_after": False} if kind == "GRU" else {}):
        assert Cell(getattr(ours, kind)(H, **more)._of(None)).text in cells()
    assert "\n" in getattr(ours, kind)(H, activation="selu")._of(None)


@pytest.mark.skipif(BACKEND != "torch", reason="ecornn.torch keeps memory")
@pytest.mark.parametrize("kind", KINDS)
def test_memory_stays_with_the_layer(kind, monkeypatch):
    """Weights are copied in each call, but packed only where they changed, and large blocks are lent again."""
    from ecornn.torch import _kept, _weights

    layer, packs, pack = twins(kind, return_sequences=True, dtype="float32")[1], [], _weights.pack
    monkeypatch.setattr(_weights, "pack", lambda *given: packs.append(1) or pack(*given))
    monkeypatch.setattr(_kept, "LARGE", 1)
    x, kernel = keras.ops.convert_to_tensor(draw(N, T, I).astype("float32")), layer.cell.kernel.value
    blocks = set()
    for count in (1, 1, 2):
        if count == 2:
            layer.cell.bias.assign(array(layer.cell.bias) + 1)
        layer(x).sum().backward()
        blocks |= {block.data_ptr() for block in _kept._layers[id(kernel)].blocks}
        assert len(packs) == count and len(blocks) == 1 and _kept._layers[id(kernel)].records


@pytest.mark.parametrize("kind", KINDS)
def test_stateful(kind):
    pair = twins(kind, stateful=True, return_sequences=True)
    for k in range(3):
        right, found = (array(layer(draw(N, T, I, seed=k))) for layer in pair)
        same([found], [right])
        if k == 1:
            for layer in pair:
                layer.reset_state()


def test_stateful_training():
    """One batch as without states.  Keras's own LSTM fails here on torch."""
    pair = [twins("LSTM", stateful=stateful, return_sequences=True)[1] for stateful in (True, False)]
    pair[1].set_weights(pair[0].get_weights())
    for layer in pair:
        model = keras.Sequential([keras.Input(batch_shape=(N, T, I)), layer])
        model.compile("sgd", "mse")
        model.fit(draw(N, T, I), draw(N, T, H), batch_size=N, verbose=0)
    same([array(pair[0].cell.kernel)], [array(pair[1].cell.kernel)])


def test_cells_of_the_library_and_their_starts():
    layer = ours.Recurrent(H, "exponential-lstm", stateful=True, dtype="float64")
    first = array(layer(draw(N, T, I)))
    assert layer.cell.text == cells["exponential-lstm"] and layer.compute_dtype == "float64"
    assert not np.array_equal(array(layer(draw(N, T, I))), first)
    layer.reset_state()
    np.testing.assert_array_equal(array(layer(draw(N, T, I))), first)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16", "bfloat16", "float16"])
def test_types(policy):
    """Of a state that Keras rounds at each step, an error of some units in the last place is left."""
    unit = {"float32": 1e-7, "bfloat16": 2 ** -8, "float16": 2 ** -11}[policy.removeprefix("mixed_")]
    for kind in KINDS:
        right, found = twins(kind, dtype=policy, return_sequences=True, recurrent_initializer="zeros")
        x = draw(N, T, I).astype("float32")
        for layer in (right, found):
            assert layer(x).dtype == layer(x)[0].dtype
        one, other = found(x, mask=MASK), right(x, mask=MASK)
        assert one.dtype == other.dtype and found.cell.kernel.dtype == right.cell.kernel.dtype
        np.testing.assert_allclose(array(one), array(other), atol=8 * unit)


def test_functional_models_and_states():
    x, state = keras.Input((None, I)), keras.Input((H,))
    y, h, c = ours.LSTM(H, return_state=True)(x, initial_state=[state, state])
    z, m = ours.Recurrent(H, MINE)(x, initial_state=[h, c]), ours.Recurrent(H, MINE, return_state=True)(x)
    made = keras.Model([x, state], [y, z, *m])
    assert [each.shape for each in made.outputs] == [(None, H)] * 5
    given = [draw(2, T, I), draw(2, H)]
    copy = keras.models.clone_model(made)
    copy.set_weights(made.get_weights())
    same(made.predict(given, verbose=0), copy.predict(given, verbose=0))


# ---- any cell -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cell, more", [("lstm", {}), ("rnn-relu", {}), (MINE, {}), ("lstm-peephole", {}), ("mgu", {"heads": 2}),
                                        ("gru", {"heads": 2, "grouped_input": True}),
                                        ("cell scored(h; a[1])\nh' = h + a * tanh(W x + R h + b)\n", {})])
def test_a_text_is_the_library_s(cell, more):
    """Without an initial state, which Keras on jax takes for the output of masked first steps."""
    made = ours.Recurrent(H, cell, return_sequences=True, return_state=True, bias_initializer="normal", **more)
    x = draw(N, T, 6)
    y, *final = listed(made(x, mask=MASK))
    layer = Layer(cell, 6, H, batch_first=True, dtype="f64", **more)
    for kind, name in zip("WRbp", ("kernel", "recurrent_kernel", "bias", "factor")):
        own = [value for key, value in layer.parameters.items() if key.split(".")[2] == kind]
        if own:
            for value, part in zip(own, np.split(array(getattr(made.cell, name)).T, len(own))):
                value[:] = part
    right = layer(x, mask=MASK)
    same([array(y), *map(array, final)], [right[0], *(state[0] for state in right[1])])
    assert all(np.any(each) for each in run(made, x))


def test_a_text_is_keras_s_lstm():
    right = keras.layers.LSTM(H, go_backwards=True, return_sequences=True)
    right.build((N, T, I))
    found = ours.Recurrent(H, ours._text("lstm", "tanh", "sigmoid", True, None), go_backwards=True,
                           return_sequences=True)
    found.build((N, T, I))
    for one, other in zip(found.trainable_weights, right.trainable_weights):
        assert one.path.split("/")[-2:][-1] == other.path.split("/")[-1]
        one.assign(other)
    same(run(found, draw(N, T, I)), run(right, draw(N, T, I)))


def test_draws_of_a_text(tmp_path):
    text = "cell some(h)\nk = bernoulli(0.5)\nh' = h + k + 0 * (W x)\n"
    made = ours.Recurrent(64, text, return_sequences=True, seed=4)
    x = draw(N, T, I)
    np.testing.assert_allclose(array(made(x))[:, -1], T / 2)  # expected
    first, second = (array(made(x, training=True)) for _ in range(2))
    assert set(np.unique(np.diff(first, axis=1))) == {0, 1} and (first != second).any()
    same([array(ours.Recurrent(64, text, return_sequences=True, seed=4)(x, training=True))], [first])
    dropped = ours.Recurrent(64, "cell a(h)\nh' = x\n", dropout=0.5, return_sequences=True)
    y = array(dropped(np.ones((2, T, 64)), training=True))
    assert set(np.unique(y)) == {0, 2} and (y == y[:, :1]).all()
    both = keras.Sequential([keras.layers.Input((T, I)), keras.layers.Bidirectional(made), ours.Recurrent(4, MINE)])
    both.compile("sgd", "mse")
    both.fit(x, np.ones((N, 4)), verbose=0)
    both.save(path := str(tmp_path / "x.keras"))
    same([keras.models.load_model(path).predict(x, verbose=0)], [both.predict(x, verbose=0)])


# ---- backends -----------------------------------------------------------------------------------


@pytest.mark.skipif(BACKEND != "torch", reason="torch's compiler")
def test_in_a_graph():
    import torch

    for layer, call in ((twins("LSTM", return_sequences=True)[1], {"mask": torch.tensor(MASK)}),
                        (twins("GRU", recurrent_dropout=0.4, seed=3)[1], {"training": True}),
                        (ours.Recurrent(H, MINE), {})):
        x = torch.tensor(draw(N, T, I))
        torch.manual_seed(1)
        right = layer(x, **call)
        compiled = torch.compile(lambda x: layer(x, **call), backend="aot_eager")
        if "training" in call:
            layer.cell.seed_generator.state.assign(keras.random.SeedGenerator(3).state)
        same([array(compiled(x))], [array(right)])


def test_documentation():
    assert doctest.testmod(ours)[0] == 0


def _in_a_process(backend, *command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env={
        **os.environ, "KERAS_BACKEND": backend, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"})


@pytest.mark.skipif(BACKEND != "torch", reason="this is it")
def test_all_of_this_on_jax():
    pytest.importorskip("jax")
    found = _in_a_process("jax", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
                          str(Path(__file__)))
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]


def test_other_backends_are_refused():
    found = _in_a_process("numpy", "-c", "import ecornn.keras")
    assert found.returncode and "backend is numpy, ecornn.keras needs torch or jax" in found.stderr
