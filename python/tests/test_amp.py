"""Models of amplifiers: values against equations of their formats, and files that are wrong."""

from __future__ import annotations

import copy
import json
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ecornn
from ecornn import Error, load_amp
from test_export import needs, run

DRAW = np.random.default_rng(6)


def draw(*shape):
    return (DRAW.standard_normal(shape) / 2).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def nam(I=1, H=3, L=2):
    layers = [[draw(4 * H, (H if layer else I) + H), draw(4 * H), draw(H), draw(H)]
              for layer in range(L)]
    head = [draw(1, H), draw(1)]
    flat = np.concatenate([np.ravel(each) for each in [*sum(layers, []), *head]])
    return {"version": "0.5.4", "architecture": "LSTM", "sample_rate": 48000, "config": {
        "input_size": I, "hidden_size": H, "num_layers": L}, "weights": flat.tolist()}, layers, head


def nam_y(layers, head, x):
    """The samples y [T] of x [T], as the format's own program computes them."""
    states, y = [[h.copy(), c.copy()] for _, _, h, c in layers], []
    for sample in x:
        a = np.float64([sample])
        for (w, b, _, _), state in zip(layers, states):
            i, f, g, o = np.split(w @ np.concatenate([a, state[0]]) + b, 4)
            state[1] = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
            a = state[0] = sigmoid(o) * np.tanh(state[1])
        y.append((head[0] @ a + head[1])[0])
    return np.float64(y)


def rtneural(kind="gru", I=1, H=4, L=1):
    gates = {"gru": 3, "lstm": 4}[kind]
    arrays = [[draw(H if layer else I, gates * H), draw(H, gates * H),
               draw(2, gates * H) if kind == "gru" else draw(gates * H)] for layer in range(L)]
    arrays.append([draw(H, 1), draw(1)])
    layers = [{"type": kind if k < L else "dense", "activation": "",
               "shape": [None, None, H if k < L else 1], "weights": [a.tolist() for a in each]}
              for k, each in enumerate(arrays)]
    return {"in_shape": [None, None, I], "layers": layers}, arrays


def rtneural_y(kind, arrays, x):
    """y [T] of x [T,I]: Keras's equations."""
    *layers, (kernel, bias) = arrays
    states, y = [np.zeros((2, len(each[1]))) for each in layers], []
    for a in np.float64(x):
        for (w, r, b), state in zip(layers, states):
            if kind == "lstm":
                i, f, g, o = np.split(a @ w + state[0] @ r + b, 4)
                state[1] = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
                state[0] = sigmoid(o) * np.tanh(state[1])
            else:
                (z, q, n), (zr, qr, nr) = np.split(a @ w + b[0], 3), np.split(state[0] @ r + b[1], 3)
                z, n = sigmoid(z + zr), np.tanh(n + sigmoid(q + qr) * nr)
                state[0] = z * state[0] + (1 - z) * n
            a = state[0]
        y.append((a @ kernel + bias)[0])
    return np.float64(y)


def written(tmp_path, model, name="model.json"):
    path = tmp_path / name
    path.write_text(model if isinstance(model, str) else json.dumps(model))
    return path


@pytest.mark.parametrize("H, L", [(3, 1), (16, 2)])
def test_nam(tmp_path, H, L):
    model, layers, head = nam(1, H, L)
    amp, x = load_amp(written(tmp_path, model, "amp.nam")), draw(200)
    y = nam_y(layers, head, x)
    blocks = np.concatenate([amp(x[t:t + 64]) for t in range(0, 200, 64)])
    np.testing.assert_allclose(blocks, y, atol=2e-6)
    np.testing.assert_allclose(amp(x), nam_y(layers, head, np.concatenate([x, x]))[200:], atol=2e-6)
    amp.reset()
    np.testing.assert_allclose(amp(x), y, atol=2e-6)
    assert amp.sample_rate == 48000
    needs("gcc")
    amp.export(tmp_path / "amp.c")
    np.testing.assert_allclose(run(tmp_path, "amp", x[:, None], 1)[:, 0], y, atol=2e-6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("I, L", [(1, 1), (3, 2)])
def test_rtneural_and_aida_x(tmp_path, kind, I, L):
    model, arrays = rtneural(kind, I, 8, L)
    x = draw(100, I)
    np.testing.assert_allclose(load_amp(written(tmp_path, model))(x if I > 1 else x[:, 0]),
                               rtneural_y(kind, arrays, x), atol=2e-6)
    model |= {"in_skip": 1, "in_gain": 6.0, "out_gain": -3, "metadata": {"samplerate": "44100"}}
    amp = load_amp(written(tmp_path, model))
    x[:, 0] *= 10 ** (6 / 20)
    y = (rtneural_y(kind, arrays, x) + x[:, 0]) * 10 ** (-3 / 20)
    x[:, 0] /= 10 ** (6 / 20)
    np.testing.assert_allclose(amp(x), y, atol=1e-5)
    assert amp.sample_rate == 44100
    needs("gcc")
    amp.export(tmp_path / "amp.c")
    np.testing.assert_allclose(run(tmp_path, "amp", x, 1)[:, 0], y, atol=1e-5)


def paths(value, at=()):
    """The places of all members."""
    found = [at]
    members = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    for key, each in members:
        found += paths(each, (*at, key))
    return found


ODD = [None, True, -1, 0, 1, 2, 7, 10**400, 2**31, 1.5, float("nan"), float("inf"), 1e300, "", "4",
       "lstm", [], [1], [[1.0]], [None], {}, {"type": "dense"}, [[], [1]], "x" * 1000]


@pytest.mark.parametrize("make", [lambda: nam()[0], lambda: rtneural("gru")[0],
                                  lambda: {**rtneural("lstm", 2, 3, 2)[0], "in_gain": 1, "in_skip": 0}])
def test_altered_files_are_refused_or_load(tmp_path, make):
    """An altered member, or altered bytes: the model loads and runs, or an error of ours says why."""
    chance, model, loads = random.Random(3), make(), 0
    text = json.dumps(model)
    places = paths(model)
    short = [place for place in places if len(place) < 5 and place]
    for turn in range(600):
        if turn % 2:
            changed = copy.deepcopy(model)
            place = chance.choice(short if turn % 4 == 1 else places[1:])
            inside = changed
            for key in place[:-1]:
                inside = inside[key]
            if turn % 8 == 1:
                del inside[place[-1]]
            else:
                inside[place[-1]] = copy.deepcopy(chance.choice(ODD))
            given = json.dumps(changed)
        else:
            cut = chance.randrange(len(text))
            given = text[:cut] + chance.choice(["", "[", "}", "9", "\x00", "\"", text[:cut]]) + (
                text[cut + 1:] if turn % 4 else "")
        try:
            amp = load_amp(written(tmp_path, given))
        except Error as error:
            assert len(str(error)) < 600
            continue
        amp(np.zeros((2, amp.layer.input), np.float32))
        loads += 1
    assert loads > 10


@pytest.mark.parametrize("given, said", [
    ("[" * 100000, "is not JSON"), ("{}", "layers is"), ("[]", "must hold an object"),
    ('{"architecture": "WaveNet"}', "must be 'LSTM'"),
    ('{"architecture": "LSTM", "config": {"hidden_size": 4096, "num_layers": 4096}, "weights": [1]}',
     r"must be \["),
    ('{"in_shape": [1], "layers": [{"type": "conv1d"}, {"type": "dense"}]}', "must be lstm or gru")])
def test_the_error_says_what_is_wrong(tmp_path, given, said):
    with pytest.raises(Error, match=said):
        load_amp(written(tmp_path, given))


def test_the_example(tmp_path):
    program = Path(__file__).parents[2] / "examples" / "amp.c"
    if not program.exists():
        pytest.skip("no examples beside this test")
    needs("gcc")
    amp, x = load_amp(written(tmp_path, nam()[0])), draw(150)
    amp.export(tmp_path / "net.c")
    subprocess.run(["gcc", "-Wall", "-Werror", "-I.", program, "net.c", "-o", "amp"], cwd=tmp_path,
                   check=True)
    done = subprocess.run(["./amp"], cwd=tmp_path, input=x.tobytes(), stdout=subprocess.PIPE, check=True)
    np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32), amp(x), atol=2e-6)


def test_wrong_x(tmp_path):
    amp = ecornn.load_amp(written(tmp_path, nam()[0]))
    with pytest.raises(ecornn.BadArgument, match=r"must be \[T\]"):
        amp(np.zeros((2, 3)))
