"""Layers on numpy's arrays: values, gradients, parameters, threads."""

from __future__ import annotations

import copy
import ctypes
import pickle

import numpy as np
import pytest

import ecornn
from ecornn import Layer

DRAW = np.random.default_rng(3)
NUMPY = {"f32": np.float32, "f64": np.float64}
# Relative to the largest number: a few times the type's precision.
NEAR = {"f32": 1e-5, "f64": 1e-13, "bf16": 0.05}


def draw(*shape, dtype="f32"):
    values = DRAW.standard_normal(shape)
    if dtype == "bf16":
        return values.astype(pytest.importorskip("ml_dtypes").bfloat16)
    return values.astype(NUMPY[dtype])


def near(ours, right, dtype="f32"):
    ours, right = np.asarray(ours, np.float64), np.asarray(right, np.float64)
    assert ours.shape == right.shape
    assert np.all(np.isfinite(ours))
    assert abs(ours - right).max(initial=0) <= NEAR[dtype] * max(abs(right).max(initial=0), 1e-3)


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def step(cell, p, x, state):
    """States after a step by the textbook. p: parameters of one layer and direction."""
    def sums(line, h):
        return x @ p[f"W.{line}"].T + h @ p[f"R.{line}"].T + p[f"b.{line}"]

    h = state[0]
    if cell == "rnn-tanh":
        return [np.tanh(sums("h", h))]
    if cell == "gru":
        r, z = sigmoid(sums("r", h)), sigmoid(sums("z", h))
        q = h @ p["R.q"].T + p["b.q"]
        n = np.tanh(x @ p["W.n"].T + p["b.n"] + r * q)
        return [(1 - z) * n + z * h]
    i, f, o = (sigmoid(sums(gate, h)) for gate in "ifo")
    c = f * state[1] + i * np.tanh(sums("g", h))
    u = o * np.tanh(c)
    return [u @ p["proj"].T if "proj" in p else u, c]


def equations(layer, x, initial, lengths):
    """y and final states [T,N,*] in double: every row by itself, every direction, every layer."""
    names = {"forward": ["fwd"], "reverse": ["rev"], "both": ["fwd", "rev"]}[layer.direction]
    rows = np.asarray(x, np.float64)
    final = [np.array(state, np.float64) for state in initial]
    for number in range(layer.layers):
        out = np.zeros((*rows.shape[:2], layer.directions * layer.width))
        for turn, way in enumerate(names):
            start = f"{number}.{way}."
            p = {name[len(start):].rstrip("."): np.asarray(value, np.float64)
                 for name, value in layer.parameters.items() if name.startswith(start)}
            pair = number * layer.directions + turn
            place = slice(turn * layer.width, (turn + 1) * layer.width)
            for row, length in enumerate(lengths):
                state = [s[pair, row] for s in final]
                for t in range(length) if way == "fwd" else reversed(range(length)):
                    state = step(layer.cell.name, p, rows[t, row], state)
                    out[t, row, place] = state[0]
                for s, value in zip(final, state):
                    s[pair, row] = value
        rows = out
    return rows, final


@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
@pytest.mark.parametrize("cell, proj", [("lstm", 0), ("lstm", 3), ("gru", 0), ("rnn-tanh", 0)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_values_are_those_of_the_equations(cell, proj, direction, dtype):
    layer = Layer(cell, 3, 5, layers=2, direction=direction, proj=proj, dtype=dtype, seed=4)
    x, lengths = draw(6, 4, 3, dtype=dtype), [6, 0, 2, 5]
    shapes = [(2 * layer.directions, 4, layer.width), (2 * layer.directions, 4, 5)]
    initial = [draw(*shape, dtype=dtype) for shape in shapes[:layer.cell.states]]
    x[3:, 2] = np.nan  # past a row's length x may hold anything
    y, final = layer(x, initial, lengths)
    right_y, right_final = equations(layer, x, initial, lengths)
    near(y, right_y, dtype)
    for ours, right in zip(final, right_final):
        near(ours, right, dtype)
    assert y.dtype == x.dtype and not y[5:, 3].any()


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru", "lstm-peephole", "mgu", "min-gru"])
def test_a_cpu_computes_what_the_reference_does(cell, batch_first, dtype):
    x = draw(4, 3, 6, dtype=dtype)
    made = []
    for device in ("cpu", "reference"):
        layer = Layer(cell, 6, 7, layers=2, direction="both", batch_first=batch_first, dtype=dtype,
                      device=device, seed=9)
        run = layer.forward(x, lengths=np.array([3, 2, 1] + [0] * batch_first))
        grads = run.backward(dy=np.ones_like(run.y), dfinal=run.final)
        made.append([run.y, *run.final, grads.x, *grads.initial, grads.parameters.block])
    assert made[0][0].shape == (4, 3, 14) and made[0][0].dtype == x.dtype
    for ours, right in zip(*made):
        near(ours, right, dtype)


def test_packed_weights_may_be_half_as_wide():
    with pytest.raises(ecornn.Unsupported):
        Layer("lstm", 8, 8, weights="f16", device="cpu")
    layer = Layer("lstm", 8, 8, weights="bf16", seed=2)
    x = draw(5, 2, 8)
    y, right = layer(x)[0], Layer("lstm", 8, 8, seed=2)(x)[0]
    assert 0 < abs(y - right).max() < 0.02


def test_inference_and_training_agree_and_states_go_on():
    layer = Layer("lstm", 3, 4)
    x = draw(7, 2, 3)
    y, final = layer(x)
    run = layer.forward(x)
    near(run.y, y)
    first, state = layer(x[:3])
    second, state = layer(x[3:], state)
    np.testing.assert_array_equal(np.concatenate([first, second]), y)
    for ours, right in zip(state, final):
        np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("cell, proj", [("lstm", 2), ("gru", 0), ("lstm-coupled", 0)])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_gradients_are_finite_differences(cell, proj, device):
    layer = Layer(cell, 2, 3, layers=2, direction="both", proj=proj, dtype="f64", device=device)
    x, lengths = draw(4, 2, 2, dtype="f64"), [4, 2]
    shapes = layer._state_shapes(2)
    initial = [draw(*shape, dtype="f64") for shape in shapes]
    dy, dfinal = draw(4, 2, 2 * layer.width, dtype="f64"), [draw(*s, dtype="f64") for s in shapes]
    dy[2:, 1] = np.nan  # past a row's length dy is not read

    def loss():
        y, final = layer(x, initial, lengths)
        return (y[:2] * dy[:2]).sum() + (y[2:, 0] * dy[2:, 0]).sum() + sum(
            (a * b).sum() for a, b in zip(final, dfinal))

    grads = layer.forward(x, initial, lengths).backward(dy, tuple(dfinal))
    assert not grads.x[2:, 1].any()
    pairs = [(x, grads.x), *zip(initial, grads.initial),
             *((layer.parameters[name], grads.parameters[name]) for name in layer.parameters)]
    for values, gradient in pairs:
        for at in DRAW.choice(values.size, min(values.size, 6), replace=False):
            was = values.flat[at]
            values.flat[at] = was + 1e-5
            more = loss()
            values.flat[at] = was - 1e-5
            less = loss()
            values.flat[at] = was
            assert abs((more - less) / 2e-5 - gradient.flat[at]) < 1e-8


def test_backward_gives_what_is_wanted_and_runs_again():
    layer = Layer("lstm", 3, 4)
    run = layer.forward(draw(5, 2, 3))
    dy = draw(5, 2, 4)
    all_of_it = run.backward(dy)
    again = run.backward(dy, wanted=("x",))
    np.testing.assert_array_equal(again.x, all_of_it.x)
    assert again.initial is None and again.parameters is None
    assert run.backward(dy, wanted=()).x is None
    one = run.backward(None, (draw(1, 2, 4), None))
    assert one.x.any() and not run.backward().x.any()


@pytest.mark.parametrize("cell", ["lstm", "gru", "lstm-peephole"])
@pytest.mark.parametrize("saving, limit", [("states", 0), ("every:3", 0), ("every:99", 0),
                                           ("auto", 1 << 22)])
def test_what_is_saved_changes_no_gradient(cell, saving, limit):
    x, made = draw(7, 3, 5), []
    for keys in ({}, dict(saving=saving, memory_limit=limit)):
        run = Layer(cell, 5, 6, layers=2, direction="both", seed=5, **keys).forward(x)
        grads = run.backward(dy=np.ones_like(run.y))
        made.append([run.y, grads.x, grads.parameters.block])
    for ours, right in zip(*made):
        near(ours, right)


def test_a_budget_is_kept():
    all, some = (Layer("lstm", 64, 64, saving=saving).plan(100, 8, training=True)
                 for saving in ("all", "every:10"))
    assert some.reserve < all.reserve / 20
    least = Layer("lstm", 64, 64, memory_limit=1 << 20).plan(100, 8, training=True)
    assert least.reserve + least.workspace <= 1 << 20
    for keys in ({"memory_limit": 100}, {"memory_limit": 1 << 20, "saving": "all"}):
        with pytest.raises(ecornn.Error, match="memory_limit"):
            Layer("lstm", 64, 64, **keys).plan(100, 8, training=True)


def test_lengths_are_copied():
    layer, lengths = Layer("lstm", 3, 4), np.array([5, 2], np.int32)
    run = layer.forward(draw(5, 2, 3), lengths=lengths)
    lengths[:] = 1
    assert not run.backward(run.y).x[2:, 1].any()


def test_gradients_of_parameters_add_up():
    layer = Layer("gru", 3, 4, dtype="f64")
    runs = [layer.forward(draw(5, 2, 3, dtype="f64")) for _ in range(3)]
    dy = draw(5, 2, 4, dtype="f64")
    alone = [run.backward(dy).parameters.block for run in runs]
    first = runs[0].backward(dy)
    second = runs[1].backward(dy, accumulate=first)
    third = runs[2].backward(dy, accumulate=True)
    assert third.parameters is second.parameters is first.parameters
    near(third.parameters.block, sum(alone), "f64")


def test_adds_without_parameters():
    layer, x = ecornn.Layer("retnet", 25, 8), np.ones((3, 2, 25), np.float32)
    for accumulate in (False, True, True):
        layer.forward(x).backward(np.ones((3, 2, 8), np.float32), accumulate=accumulate)


def test_no_steps_or_no_rows():
    layer = Layer("lstm", 3, 4)
    state = (draw(1, 2, 4), draw(1, 2, 4))
    y, final = layer(draw(0, 2, 3), state)
    assert y.shape == (0, 2, 4)
    np.testing.assert_array_equal(final[1], state[1])
    run = layer.forward(draw(0, 2, 3), state)
    grads = run.backward(dfinal=state)
    np.testing.assert_array_equal(grads.initial[0], state[0])
    assert not grads.parameters.block.any()
    y, final = layer(draw(5, 0, 3), lengths=[])
    assert y.shape == (5, 0, 4) and final[0].shape == (1, 0, 4)
    assert layer.forward(draw(5, 0, 3)).backward(draw(5, 0, 4)).x.shape == (5, 0, 3)


def test_dropout_follows_the_seed():
    layer = Layer("lstm", 3, 16, layers=2, dropout=0.5)
    x = draw(5, 2, 3)
    one, same, other = (layer.forward(x, seed=seed).y for seed in (1, 1, 2**64 - 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert (layer(x)[0] != one).any()
    np.testing.assert_array_equal(layer(x)[0], layer(x)[0])


def test_a_cell_from_text_runs_and_trains():
    text = "cell leaky(h)\nu  = sigmoid(W x + b)\nh' = u * h + (1 - u) * tanh(W x + R h + b)\n"
    for cell in (text, ecornn.Cell(text)):
        layer = Layer(cell, 3, 4, direction="both")
        run = layer.forward(draw(5, 2, 3), lengths=[5, 1])
        assert run.backward(run.y).parameters["0.rev.W.u"].shape == (4, 3)


# ---- parameters -------------------------------------------------------------------------------

def test_parameters_are_views_of_one_block():
    layer = Layer("lstm", 3, 4, layers=2, proj=2, seed=7)
    parameters = layer.parameters
    assert parameters["0.fwd.W.i"].shape == (4, 3) and parameters["1.fwd.W.i"].shape == (4, 2)
    assert parameters["0.fwd.R.o"].shape == (4, 2) and parameters["0.fwd.b.f"].shape == (4,)
    assert sum(value.size for value in parameters.values()) == parameters.block.size
    assert all(value.base is not None for value in parameters.values())
    assert abs(parameters.block).max() <= 0.5 < 2 * abs(parameters.block).max()
    assert "0.fwd.W.i [4, 3]" in repr(parameters)
    same, other = (Layer("lstm", 3, 4, layers=2, proj=2, seed=s).parameters for s in (7, 8))
    np.testing.assert_array_equal(same.block, parameters.block)
    assert (other.block != parameters.block).any()


def test_every_way_to_write_parameters_is_seen():
    layer = Layer("rnn-tanh", 100, 100)
    x = draw(2, 1, 100)

    def same():
        return np.array_equal(before, layer(x)[0])

    before = layer(x)[0]
    assert same()
    layer.parameters["0.fwd.W.h"][3, 5] += 1
    assert not same()
    before = layer(x)[0]
    layer.parameters["0.fwd.b.h"] += 0.5
    assert not same()
    before = layer(x)[0]
    layer.parameters["0.fwd.R.h"] = np.zeros((100, 100))
    layer.parameters["0.fwd.W.h"] = 0.25
    assert not same() and layer.parameters["0.fwd.W.h"][0, 0] == 0.25
    kept, block = layer.parameters["0.fwd.W.h"], layer.parameters.block
    before = layer(x)[0]
    kept *= 0.5
    assert not same()
    before = layer(x)[0]
    block -= 0.125
    assert not same()
    before = layer(x)[0]
    kept[7, 3] = 9
    assert not same()


def test_a_run_keeps_its_weights():
    layer = Layer("lstm", 3, 4)
    run = layer.forward(draw(5, 2, 3))
    before = run.backward(np.ones_like(run.y))
    layer.parameters.block[:] = 0
    layer(draw(5, 2, 3))
    np.testing.assert_array_equal(run.backward(np.ones_like(run.y)).x, before.x)


def block_of(layer, system, *more):
    """The weights of a system as one array."""
    saved = layer.save(system, *more)
    return saved if system == "cudnn" else np.concatenate([a.ravel() for a in saved.values()])


@pytest.mark.parametrize("system", ["torch", "keras", "onnx", "cudnn"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn-tanh"])
def test_weights_of_other_systems_come_back(system, cell):
    layer = Layer(cell, 3, 4, layers=2, direction="both", seed=1)
    block = block_of(layer, system)
    assert block.dtype == np.float32
    other = Layer(cell, 3, 4, layers=2, direction="both", seed=2)
    other.load(system, block)
    np.testing.assert_array_equal(other.parameters.block, layer.parameters.block)
    parts = np.split(block, [5, 17])
    for given in (parts, tuple(parts), block.astype(np.float64), block.tolist(), iter(parts)):
        other.parameters.block[:] = 0
        other.load(system, given)
        x = draw(3, 2, 3)
        np.testing.assert_array_equal(other(x)[0], layer(x)[0])


SHAPES = {  # of lstm, I 3, H 4, two layers in both directions
    "torch": {"weight_ih_l0": (16, 3), "weight_hh_l0": (16, 4), "bias_ih_l0": (16,),
              "bias_hh_l0": (16,), "weight_ih_l1_reverse": (16, 8)},
    "keras": {"kernel_l0": (3, 16), "recurrent_kernel_l0_reverse": (4, 16), "bias_l1": (16,)},
    "onnx": {"W_l0": (2, 16, 3), "R_l1": (2, 16, 4), "B_l0": (2, 32)},
}


@pytest.mark.parametrize("system", SHAPES)
@pytest.mark.parametrize("cell", ["lstm", "gru", "gru-reset-first", "rnn-tanh", "lstm-peephole",
                                  "lstm-coupled"])
@pytest.mark.parametrize("sizes", [{}, {"layers": 2, "direction": "both"},
                                   {"layers": 2, "proj": 2}])
def test_weights_by_name(system, cell, sizes):
    try:
        layer, other = Layer(cell, 3, 4, seed=1, **sizes), Layer(cell, 3, 4, seed=2, **sizes)
        given = layer.save(system)
    except ecornn.Unsupported:
        return
    names = {name: array.shape for name, array in given.items()}
    if cell == "lstm" and sizes.get("direction"):
        assert SHAPES[system].items() <= names.items()
    other.load(system, dict(sorted(given.items())))
    np.testing.assert_array_equal(block_of(other, system), block_of(layer, system))
    before = other.parameters.block.copy()
    first, *_ = names
    for wrong, word in (({**given, "more": 1}, "has 'more', which the layer has not"),
                        ({**given, 3: 1}, "has '3', which"),
                        ({name: given[name] for name in names if name != first}, f"lacks {first}"),
                        ({**given, first: given[first][..., :-1]}, f"{first}' is .*, must be"),
                        ({**given, first: given[first].ravel()[None]}, f"{first}' is .*, must be"),
                        ({}, "lacks")):
        with pytest.raises(ecornn.BadArgument, match=word):
            other.load(system, wrong)
    np.testing.assert_array_equal(other.parameters.block, before)


def test_weights_of_cudnn_have_no_names():
    layer = Layer("lstm", 3, 4)
    with pytest.raises(ecornn.BadArgument, match="cudnn has no names"):
        layer.load("cudnn", {"a": layer.save("cudnn")})


def test_loading_keeps_precision_and_is_seen():
    layer = Layer("lstm", 3, 4, dtype="f64")
    other = Layer("lstm", 3, 4, dtype="f64", seed=5)
    other.load("torch", layer.save("torch"))
    np.testing.assert_array_equal(other.parameters.block, layer.parameters.block)
    large, x = Layer("rnn-tanh", 100, 100), draw(2, 1, 100)
    before, block = large(x)[0], block_of(large, "torch")
    block[12] += 1
    large.load("torch", block)
    assert (large(x)[0] != before).any()


def test_weights_that_do_not_fit_are_refused():
    layer = Layer("lstm", 3, 4)
    before = layer.parameters.block.copy()
    with pytest.raises(ecornn.BadArgument, match="7"):
        layer.load("torch", np.zeros(7))
    with pytest.raises(ecornn.BadArgument, match="caffe"):
        layer.load("caffe", np.zeros(7))
    with pytest.raises(TypeError, match="system"):
        layer.load(3, np.zeros(7))
    with pytest.raises(ecornn.BadArgument, match="numbers"):
        layer.load("torch", np.zeros(7, complex))
    with pytest.raises(ecornn.Unsupported):
        Layer("mgu", 3, 4).save("torch")
    np.testing.assert_array_equal(layer.parameters.block, before)


# ---- objects ----------------------------------------------------------------------------------

@pytest.mark.parametrize("wrong", [
    lambda block: block.astype(np.float64), lambda block: block.astype(np.float16),
    lambda block: block.astype(block.dtype.newbyteorder()), lambda block: block[:-1],
    lambda block: np.repeat(block, 2)[::2], lambda block: block.tolist(), lambda block: None,
    lambda block: block.view(np.int32), lambda block: block[None], lambda block: block[:0],
    lambda block: np.lib.stride_tricks.as_strided(block[:1], block.shape, (0,))])
def test_a_pickle_is_not_believed(wrong):
    layer, other = Layer("lstm", 3, 4), Layer("lstm", 3, 4, seed=1)
    state = layer.__getstate__()
    with pytest.raises(ecornn.BadArgument, match="the block of a layer is"):
        other.__setstate__({**state, "block": wrong(state["block"])})
    for odd in (None, [], {}, {"block": state["block"]}, {**state, "more": 1},
                {**state, "arguments": [1]}):
        with pytest.raises(ecornn.BadArgument, match="the state of a layer must be"):
            other.__setstate__(odd)
    for name, value in (("hidden", -1), ("cell", 3), ("direction", []), ("dtype", "i8"),
                        ("memory_limit", "1"), ("unknown", 1), ("models", 2.5), ("device", 7)):
        with pytest.raises((ecornn.Error, TypeError)):
            other.__setstate__({**state, "arguments": {**state["arguments"], name: value}})


def test_a_block_that_is_mapped_is_copied():
    layer, other = Layer("lstm", 3, 4), Layer("lstm", 3, 4, seed=1)
    state = layer.__getstate__()
    state["block"].flags.writeable = False
    other.__setstate__(state)
    other.parameters["0.fwd.b.i"] = 0.25
    assert other.parameters.block is not state["block"]


def test_gradients_that_lie_elsewhere_are_not_added_to():
    layer = Layer("lstm", 3, 4)
    run = layer.forward(draw(5, 2, 3))
    grads = run.backward(np.ones_like(run.y))
    grads.parameters.block = np.repeat(grads.parameters.block, 2)[::2]
    with pytest.raises(ecornn.BadArgument, match="accumulate is"):
        run.backward(np.ones_like(run.y), accumulate=grads)


@pytest.mark.parametrize("models", [None, 3])
def test_frozen_weights(models):
    layer, x = Layer("lstm", 3, 4, models=models), draw(5, 2, 3)
    for thaw in (layer.unfreeze_weights, lambda: layer.load("torch", layer.save("torch", which),
                                                            which)):
        which = None if models is None else 1
        before = layer(x)[0]
        layer.freeze_weights()
        layer.parameters.block[::3] += 1
        np.testing.assert_array_equal(layer(x)[0], before)
        np.testing.assert_array_equal(layer(x[:3])[0], before[..., :3, :, :])
        changed = pickle.loads(pickle.dumps(layer))(x)[0]
        assert (changed != before).any()
        np.testing.assert_array_equal(layer.forward(x).y, changed)
        thaw()
        np.testing.assert_array_equal(layer(x)[0], changed)


@pytest.mark.parametrize("more", [{}, {"models": 2}, {"bidirectional": True, "layers": 2, "proj": 2}])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_frozen_runs_repeat(cell, more):
    if cell == "gru" and "proj" in more:
        more = {**more, "proj": 0}
    plain, layer = Layer(cell, 3, 4, **more), Layer(cell, 3, 4, **more)
    layer.freeze_weights()
    x = draw(*layer.lead, 5, 2, 3)
    start = tuple(draw(*state.shape) for state in plain(x)[1])
    fixed = x.copy()
    fixed.flags.writeable = False
    wide = np.repeat(x, 2, -1)[..., ::2]
    odd = np.frombuffer(b"1" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    for given, initial in [(x, None), (x, None), (fixed, start), (wide, start), (odd, list(start)),
                           (x, (start[0][..., ::-1].copy()[..., ::-1], *start[1:]))]:
        for ours, right in zip((*layer(given, initial)[1], layer(given, initial)[0]),
                               (*plain(x, initial)[1], plain(x, initial)[0])):
            np.testing.assert_array_equal(ours, right)
    kept = [layer(x), layer(x)[0][..., 1:], layer(x)[1]]
    del kept[0]
    seen = [part.copy() for part in (kept[0], *kept[1])]
    for _ in range(3):
        layer(-x)
    for part, right in zip((kept[0], *kept[1]), seen):
        np.testing.assert_array_equal(part, right)
    assert layer._repeats
    lengths = np.full((*layer.lead, 2), 3, np.int32)
    np.testing.assert_array_equal(layer(x, lengths=lengths)[0], plain(x, lengths=lengths)[0])
    for wrong in (x.astype(np.float64), x.byteswap().view(x.dtype.newbyteorder()), x[..., :2]):
        with pytest.raises(ecornn.BadArgument, match="x is"):
            layer(wrong)
    with pytest.raises(ecornn.BadArgument, match="initial"):
        layer(x, start[:1] + start)
    layer.parameters.block[:] = 0
    layer.freeze_weights()
    assert not layer(x, None)[0].any()


@pytest.fixture
def large():
    """A frozen layer and an x, of whose runs the memory of results is used again."""
    layer = Layer("gru", 2, 64)
    layer.freeze_weights()
    x = draw(200, 4, 2)
    layer(x)
    return layer, x


HOLDERS = {"y": lambda made: made[0], "slice": lambda made: made[0][5:, 1:], "state": lambda made: made[1],
           "view": lambda made: made[0].view(np.int32), "memoryview": lambda made: memoryview(made[0]),
           "base": lambda made: made[0].base, "DLPack": lambda made: made[0].__dlpack__(),
           "iterator": lambda made: made[0].flat}


@pytest.mark.parametrize("name", HOLDERS)
def test_results_that_are_held_stay(large, name):
    layer, x = large
    made = layer(x)
    part = made[1][0] if name == "state" else made[0]
    right, place, count = part.copy(), part.ctypes.data, part.size
    held = HOLDERS[name](made)  # noqa: F841
    del made, part
    places = [layer(-x)[0].ctypes.data for _ in range(3)]
    assert places[1] == places[2]  # what was dropped is used again
    np.testing.assert_array_equal((ctypes.c_float * count).from_address(place), right.ravel())


def test_results_have_metadata_of_their_own(large):
    layer, x = large
    right = layer(x)[0].copy()
    for change in (lambda y: setattr(y, "shape", (-1,)), lambda y: setattr(y, "dtype", np.int32),
                   lambda y: y.setflags(write=False), lambda y: y.resize(1, refcheck=False)):
        y = layer(x)[0]
        try:
            change(y)
        except ValueError:  # a view cannot be resized
            pass
        del y
        y = layer(x)[0]
        assert y.flags.writeable and y.flags.c_contiguous and y.flags.aligned
        np.testing.assert_array_equal(y, right)


def test_threads_get_results_of_their_own(large, in_threads):
    layer, x = large
    inputs = [x * k for k in range(4)]
    right = [layer(each)[0].copy() for each in inputs]

    def work(k):
        for turn in range(20):
            y, (h,) = layer(inputs[k % 4])
            z = layer(inputs[(k + turn) % 4])[0]
            np.testing.assert_array_equal(y, right[k % 4])
            np.testing.assert_array_equal(h[0], right[k % 4][-1])
            np.testing.assert_array_equal(z, right[(k + turn) % 4])

    in_threads(work)


def test_spare_memory_is_limited():
    layer = Layer("rnn-relu", 1, 256)
    layer.freeze_weights()
    for steps in range(900, 930):
        layer(draw(steps, 1, 1))
    kept = [each.spare_bytes for each in layer._repeats.values()]
    assert len(kept) == 30 and 15 << 20 < sum(kept) <= 16 << 20


def test_layers_are_pickled_and_copied():
    layer = Layer("lstm", 3, 4, layers=2, direction="both", dtype="f64", dropout=0.25, proj=2,
                  batch_first=True)
    layer.parameters.block[:] *= 2
    x = draw(5, 2, 3, dtype="f64")
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer), copy.copy(layer)):
        assert repr(other) == repr(layer)
        np.testing.assert_array_equal(other(x)[0], layer(x)[0])
        other.parameters.block[:] = 0
        assert not other(x)[0].any() and layer(x)[0].any()
    assert repr(layer) == ("Layer('lstm', 3, 4, layers=2, direction='both', proj=2, "
                           "batch_first=True, dropout=0.25, dtype='f64', device='cpu')")
    assert "algorithm" in str(layer.plan(5, 2))


def test_gradients_are_pickled_and_copied():
    run = Layer("lstm", 3, 4).forward(draw(5, 2, 3))
    grads = run.backward(run.y)
    for other in (pickle.loads(pickle.dumps(grads)), copy.deepcopy(grads)):
        np.testing.assert_array_equal(other.x, grads.x)
        other.parameters.block[:] = 7
        assert (other.parameters["0.fwd.W.i"] == 7).all()
    assert not (grads.parameters["0.fwd.W.i"] == 7).all()


def test_threads_share_a_layer(in_threads):
    layer = Layer("lstm", 8, 16, layers=2, direction="both")
    inputs = [draw(3 + k % 4, 1 + k % 3, 8) for k in range(8)]
    right = []
    for x in inputs:
        run = layer.forward(x)
        right.append((layer(x)[0], run.y, run.backward(run.y)))

    def work(k):
        for turn in range(60):
            x, (y, trained, grads) = inputs[(k + turn) % 8], right[(k + turn) % 8]
            np.testing.assert_array_equal(layer(x)[0], y)
            run = layer.forward(x)
            found = run.backward(run.y)
            np.testing.assert_array_equal(run.y, trained)
            np.testing.assert_array_equal(found.x, grads.x)
            np.testing.assert_array_equal(found.parameters.block, grads.parameters.block)

    in_threads(work)


# ---- memory -----------------------------------------------------------------------------------

def test_memory_that_no_thread_keeps_changes_nothing():
    """A run with more than a thread keeps of each: rows have the bits that they have alone."""
    layer, x = Layer("lstm", 16, 128), draw(200, 140, 16)
    run = layer.forward(x)
    assert layer.plan(200, 140, training=True).sizes(200, 140)[1] > 64 << 20
    grads, again = (run.backward(run.y) for _ in range(2))
    few = layer.forward(x[:, :3].copy())
    np.testing.assert_array_equal(run.y[:, :3], few.y)
    np.testing.assert_array_equal(grads.x[:, :3], few.backward(few.y).x)
    np.testing.assert_array_equal(grads.parameters.block, again.parameters.block)


def reserve_of(run) -> int:
    """The third pointer of struct run in runner.c."""
    return ctypes.c_void_p.from_address(run._kept.handle + 2 * ctypes.sizeof(ctypes.c_void_p)).value


def test_a_thread_takes_the_memory_of_its_last_run_again():
    layer, x = Layer("lstm", 3, 4), draw(5, 2, 3)
    first = layer.forward(x)
    address = reserve_of(first)
    second = layer.forward(x)
    assert reserve_of(second) != address
    del first
    address = reserve_of(second)
    del second
    assert reserve_of(layer.forward(x)) == address


def test_runs_outlive_the_plans_that_are_kept():
    layer, x = Layer("gru", 3, 4, memory_limit=1 << 30), draw(5, 2, 3)  # a plan for each size
    run = layer.forward(x)
    right = run.backward(run.y)
    for steps in range(1, 140):
        other = layer.forward(draw(steps, 1 + steps % 5, 3))
        other.backward(other.y)
    np.testing.assert_array_equal(run.backward(run.y).x, right.x)
    np.testing.assert_array_equal(layer.forward(x).y, run.y)


def test_many_shapes_whose_packed_weights_change():
    """Compared with a copy of the layer that has run nothing else."""
    layer = Layer("lstm", 64, 64)
    inputs = [draw(steps, batch, 64) for steps in (1, 9, 40) for batch in (1, 2, 3, 7, 16, 40)]
    for _ in range(3):
        layer.parameters.block[:] += 0.125
        for x in inputs:
            copied = pickle.loads(pickle.dumps(layer))
            np.testing.assert_array_equal(layer(x)[0], copied(x)[0])
            run, right = layer.forward(x), copied.forward(x)
            np.testing.assert_array_equal(run.backward(run.y).x, right.backward(right.y).x)


def test_no_memory_is_an_exception():
    with pytest.raises(ecornn.NoMemory, match=str(2**52)):
        ecornn.Array(ecornn.arrays.Place("cpu"), (2**50,), ecornn._library.F32)


@pytest.mark.parametrize("grouped", [False, True])
def test_heads_are_blocks_of_a_larger_matrix(grouped):
    heads = Layer("slstm", 12, 8, heads=4, grouped_input=grouped, seed=1)
    dense = Layer("slstm", 12, 8, seed=1)
    for name in dense.parameters:
        blocks = heads.parameters[name]
        if ".R." in name or (grouped and ".W." in name):
            columns = dense.parameters[name].shape[1] // 4
            assert blocks.shape == (8, columns)
            whole = np.zeros((8, 4 * columns), np.float32)
            for k in range(4):
                whole[2 * k:2 * k + 2, columns * k:columns * (k + 1)] = blocks[2 * k:2 * k + 2]
            blocks = whole
        dense.parameters[name] = blocks
    x = np.random.default_rng(2).standard_normal((7, 2, 12)).astype(np.float32)
    assert np.allclose(heads(x)[0], dense(x)[0], atol=1e-6)
    assert ("grouped_input=True" in repr(heads)) == grouped
    assert np.array_equal(pickle.loads(pickle.dumps(heads))(x)[0], heads(x)[0])


def test_heads_that_do_not_fit():
    with pytest.raises(ecornn.BadArgument, match="must be 2 or more and divide input, which is 3"):
        Layer("slstm", 3, 8, heads=2, grouped_input=True)
    with pytest.raises(ecornn.BadArgument, match="heads is 3, must divide hidden, which is 8"):
        Layer("slstm", 3, 8, heads=3)


def test_bidirectional():
    x = np.ones((5, 2, 3), np.float32)
    layer, other = (Layer("gru", 3, 4, seed=1, **{name: value}) for name, value in (
        ("bidirectional", True), ("direction", "both")))
    assert (layer(x)[0] == other(x)[0]).all() and "bidirectional=True" in repr(layer)
    assert pickle.loads(pickle.dumps(layer)).bidirectional
    with pytest.raises(ecornn.BadArgument, match="direction is 'reverse'"):
        Layer("gru", 3, 4, direction="reverse", bidirectional=True)


def test_attributes_are_fixed():
    layer = Layer("gru", 3, 4)
    for name in ("saving", "memory_limit", "dropout", "batch_first", "bidirectional", "device"):
        with pytest.raises(AttributeError, match=f"{name} of a layer cannot be changed"):
            setattr(layer, name, getattr(layer, name))
    for bad in (True, 2.0, "2"):
        with pytest.raises(TypeError, match="must be a whole number"):
            Layer("gru", 3, 4, layers=bad)
    with pytest.warns(UserWarning, match="goes between layers"):
        Layer("gru", 3, 4, dropout=0.5)
    x = np.ones((5, 2, 3), np.float32)
    with pytest.raises(ecornn.BadArgument, match="floats must be 0 or 1"):
        layer(x, mask=np.full((5, 2), 0.5))
