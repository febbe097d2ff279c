"""Several models in one ecornn.Layer: each has the bits of a separate layer."""

from __future__ import annotations

import pickle

import numpy
import pytest

import ecornn

M, T, N, I, H = 3, 5, 2, 3, 4
SIZES = {"layers": 2, "direction": "both"}


def case(cell="lstm", batch_first=False, **more):
    """A layer of models, layers of one with the same parameters, and random numbers."""
    layer = ecornn.Layer(cell, I, H, models=M, batch_first=batch_first, **SIZES, **more)
    each = [ecornn.Layer(cell, I, H, batch_first=batch_first, **SIZES, **more) for _ in range(M)]
    for m, one in enumerate(each):
        for name, value in layer.parameters.items():
            one.parameters[name] = value[m]
    return layer, each, numpy.random.default_rng(1)


def normal(random, *shape):
    return random.normal(size=shape).astype(numpy.float32)


def seed_of(seed, m):
    """Random numbers of model m in a run: Philox4x32-10 by coordinates, as in common/number.h."""
    c, k = [0, m, 0, 254], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[1] << 32 | c[0] if m else seed


def test_seeds_that_count_up_draw_nothing_twice():
    layer, _, _ = case(dropout=0.5)
    for value in layer.parameters.values():
        value[1:] = value[0]
    layer.changed()
    steps = [layer.forward(numpy.ones((T, N, I), "f4"), seed=step).y for step in range(3)]
    drawn = [y[m].tobytes() for y in steps for m in range(M)]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_equals_layers_of_one(shared, batch_first):
    layer, each, random = case(batch_first=batch_first, dropout=0.5)
    lead, first = () if shared else (M,), (N, T) if batch_first else (T, N)
    x, initial = normal(random, *lead, *first, I), tuple(normal(random, M, 4, N, H) for _ in "hc")
    start = tuple(normal(random, M, 4, N, H) for _ in "hc")
    resets, lengths = random.random((*lead, *first)) < 0.3, random.integers(1, T, (*lead, N))
    mask = random.random((*lead, *first)) < 0.8
    run = layer.forward(x, initial, lengths, seed=7, resets=resets, reset_state=start, mask=mask,
                        all_states=True)
    dy, dstates = normal(random, *run.y.shape), tuple(normal(random, M, 4, T, N, H) for _ in "hc")
    found = run.backward(dy, run.final, dstates=dstates)
    dx = []
    for m, one in enumerate(each):
        def of(array, m=m):
            return array if shared else array[m]
        own = one.forward(of(x), tuple(s[m] for s in initial), of(lengths), seed=seed_of(7, m),
                          resets=of(resets), reset_state=tuple(s[m] for s in start), mask=of(mask),
                          all_states=True)
        grads = own.backward(dy[m], own.final, dstates=tuple(d[m] for d in dstates))
        pairs = [(run.y, own.y), *zip(run.final, own.final), *zip(run.states, own.states),
                 *zip(found.initial, grads.initial), *zip(found.reset_state, grads.reset_state),
                 *((found.parameters[name], grads.parameters[name]) for name in grads.parameters)]
        assert all(numpy.array_equal(a[m], b) for a, b in pairs)
        dx.append(grads.x)
    assert numpy.array_equal(found.x, sum(dx[1:], dx[0]) if shared else numpy.stack(dx))


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn-tanh", "mgu"])
def test_inference_after_training(cell):
    layer, each, random = case(cell)
    x = normal(random, T, N, I)
    layer.forward(x)
    for m, one in enumerate(each):
        assert numpy.array_equal(layer(x)[0][m], one(x)[0])


def test_parameters_and_their_copies():
    layer, each, random = case("gru")
    assert layer.parameters["0.fwd.W.r"].shape == (M, H, I)
    assert layer.parameters["1.rev.b.z"].shape == (M, H)
    x = normal(random, T, N, I)
    y, _ = layer(x)
    assert y.shape == (M, T, N, 2 * H) and not numpy.array_equal(y[0], y[1])
    layer.load("torch", each[0].save("torch"), model=2)
    for name, array in layer.save("torch", model=2).items():
        assert numpy.array_equal(array, each[0].save("torch")[name])
    assert numpy.array_equal(layer(x)[0][2], y[0]) and numpy.array_equal(layer(x)[0][1], y[1])
    again = pickle.loads(pickle.dumps(layer))
    assert again.models == M and "models=3" in repr(again)
    assert numpy.array_equal(again(x)[0], layer(x)[0])
    assert layer(x[:0])[0].shape == (M, 0, N, 2 * H)


def test_one_model_has_its_axis():
    layer = ecornn.Layer("gru", I, H, models=1)
    plain = ecornn.Layer("gru", I, H)
    x = normal(numpy.random.default_rng(2), T, N, I)
    assert numpy.array_equal(layer(x)[0][0], plain(x)[0])
    assert numpy.array_equal(layer(x[None])[0], layer(x)[0])
    assert layer.parameters["0.fwd.R.q"].shape == (1, H, H)


@pytest.mark.parametrize("shared", [False, True])
def test_on_a_gpu(shared):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    layer, _, random = case()
    other = ecornn.Layer("lstm", I, H, models=M, device="cuda:0", **SIZES)
    other.parameters.block[:] = layer.parameters.block
    x = normal(random, *(() if shared else (M,)), T, N, I)
    lengths = [4, 5] if shared else [[4, 5], [1, 2], [5, 3]]
    one, two = (each.forward(given, lengths=lengths) for each, given in (
        (layer, x), (other, torch.from_numpy(x).cuda())))
    found, grads = one.backward(one.y), two.backward(two.y)
    pairs = [(one.y, two.y), *zip(one.final, two.final), (found.x, grads.x),
             *zip(found.initial, grads.initial)]
    assert all(numpy.allclose(a, b.cpu().numpy(), atol=1e-4) for a, b in pairs)
    assert numpy.allclose(found.parameters.block, grads.parameters.block, atol=1e-3)


def test_errors():
    layer, each, random = case("gru")
    x = normal(random, M, T, N, I)
    with pytest.raises(ecornn.BadArgument, match=r"x is \[2,5,2,3\], must be \[3,T,N,3\]"):
        layer(x[:2])
    with pytest.raises(ecornn.BadArgument, match=r"x is \[3,5,2,3\], must be \[T,N,3\]"):
        each[0](x)
    with pytest.raises(ecornn.BadArgument, match=r"lengths are \[2\], must be \[3, 2\]"):
        layer(x, lengths=[5, 5])
    with pytest.raises(ecornn.BadArgument, match=r"lengths\[1, 0\] is 6, must be 0 to 5"):
        layer(x, lengths=[[5, 5], [6, 7], [1, 2]])
    with pytest.raises(ecornn.BadArgument, match=r"initial\[0\] is \[4,2,4\], must be \[3,4,2,4\]"):
        layer(x, normal(random, 4, N, H))
    with pytest.raises(ecornn.BadArgument, match="model is None, must be 0 to 2"):
        layer.save("torch")
    with pytest.raises(ecornn.BadArgument, match="model is 1, must be None"):
        each[0].save("torch", model=1)
    with pytest.raises(ecornn.BadArgument, match="models is 0, must be 1 to"):
        ecornn.Layer("gru", I, H, models=0)
