"""Resets and masks of ecornn.Layer, against a loop over the steps."""

from __future__ import annotations

import numpy
import pytest

import ecornn


def case(batch_first=False):
    layer = ecornn.Layer("lstm", 3, 4, batch_first=batch_first)
    random = numpy.random.default_rng(1)
    x = random.normal(size=(7, 2, 3)).astype(numpy.float32)
    states = [tuple(random.normal(size=(1, 2, 4)).astype(numpy.float32) for _ in range(2))
              for _ in range(2)]
    return layer, x, *states, random.random((7, 2)) < 0.4


def loop(layer, x, states, start, resets, mask):
    y, last = [], numpy.zeros((2, 4), numpy.float32)
    for step, reset, counts in zip(x, resets & mask, mask):
        before = tuple(numpy.where(reset[None, :, None], new, old)
                       for new, old in zip(start, states))
        out, after = layer(step[None], before)
        last = numpy.where(counts[:, None], out[0], last)
        states = tuple(numpy.where(counts[None, :, None], new, old)
                       for new, old in zip(after, states))
        y.append(last)
    return numpy.stack(y), states


def test_equals_steps():
    layer, x, initial, start, resets = case()
    mask = numpy.random.default_rng(2).random((7, 2)) < 0.6
    wanted, final = loop(layer, x, initial, start, resets, mask)
    y, found = layer(x, initial, resets=resets, reset_state=start, mask=mask.astype(numpy.float32))
    assert numpy.array_equal(y, wanted)
    assert all(numpy.array_equal(a, b) for a, b in zip(found, final))
    run = layer.forward(x, initial, resets=resets, reset_state=start, mask=mask)
    grads = run.backward(dy=numpy.ones_like(run.y))
    assert numpy.array_equal(run.y, wanted)
    assert [g.shape for g in grads.reset_state] == [(1, 2, 4)] * 2
    assert not grads.x[~mask].any() and grads.x[mask].all()


def test_gradient_of_starts():
    layer, x, _, start, _ = case()
    resets = numpy.zeros((7, 2), bool)
    resets[0] = True
    run = layer.forward(x, resets=resets, reset_state=start)
    other = layer.forward(x, start)
    dy = numpy.ones_like(run.y)
    found, wanted = run.backward(dy), other.backward(dy)
    assert all(numpy.array_equal(a, b) for a, b in zip(found.reset_state, wanted.initial))
    assert not any(state.any() for state in found.initial) and wanted.reset_state is None


def test_batch_first_and_padding():
    layer, x, _, _, resets = case()
    turned, *_ = case(batch_first=True)
    turned.parameters.block[:] = layer.parameters.block
    y, _ = layer(x, None, [7, 4], resets=resets, repeat_padding=True)
    other, _ = turned(x.transpose(1, 0, 2).copy(), None, [7, 4], resets=resets.T,
                      repeat_padding=True)
    assert numpy.array_equal(y, other.transpose(1, 0, 2))
    assert numpy.array_equal(y[5, 1], y[3, 1]) and y[3, 1].any()


def test_errors():
    layer, x, initial, start, resets = case()
    with pytest.raises(ecornn.BadArgument, match=r"resets are \[2, 7\], must be \[7, 2\]"):
        layer(x, resets=resets.T)
    with pytest.raises(ecornn.BadArgument, match="reset_state is given"):
        layer(x, reset_state=start)
    with pytest.raises(TypeError, match="masks"):
        layer(x, masks=resets)


def test_all_states():
    layer, x, initial, *_ = case()
    y, final, states = layer(x, initial, all_states=True)
    assert [state.shape for state in states] == [(1, 7, 2, 4)] * 2
    assert numpy.array_equal(states[0][0], y)
    for t in range(7):
        _, ends = layer(x[:t + 1], initial)
        assert all(numpy.array_equal(a[:, t], b) for a, b in zip(states, ends))
    run = layer.forward(x, initial, all_states=True)
    ones = numpy.ones_like(run.states[1])
    found = run.backward(dstates=(None, ones))
    sums = sum(layer.forward(x[:t + 1], initial).backward(dfinal=(None, ones[:, t])).initial[0]
               for t in range(7))
    assert numpy.allclose(found.initial[0], sums, rtol=1e-5)
    with pytest.raises(ecornn.BadArgument, match="without all_states"):
        layer.forward(x).backward(dstates=(None, ones))


def test_pieces_draw_as_the_whole():
    layer = ecornn.Layer("gru", 3, 8, layers=2, dropout=0.5)
    x = numpy.random.default_rng(3).normal(size=(6, 4, 3)).astype(numpy.float32)
    whole = layer.forward(x, seed=5).y
    piece = layer.forward(x[:, 2:], seed=5, first=(0, 2)).y
    assert numpy.array_equal(piece, whole[:, 2:])
    start = layer.forward(x[:2], seed=5)
    assert numpy.array_equal(layer.forward(x[2:], start.final, seed=5, first=(2, 0)).y, whole[2:])
    assert not numpy.array_equal(layer.forward(x[2:], start.final, seed=5).y, whole[2:])
