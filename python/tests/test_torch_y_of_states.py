"""A y of several states: the arrow in the head of a text, against the states of every step; what is refused."""

from __future__ import annotations

import numpy
import pytest
import torch

import ecornn
import ecornn.torch as et
from ecornn import export

H = 5
LINES = "a = 0.7 * tanh(p)\nc = 0.7 * tanh(p)\nh' = a * h - c * g + W x\ng' = c * h + a * g + W x\n"
BOTH, FIRST = "cell turn(h, g) -> h, g\n" + LINES, "cell turn(h, g)\n" + LINES


def layers_of(module, both):
    """A layer at a time, by the states of every step."""
    for layer in range(module.num_layers):
        one = et.Recurrent(module.input_size if layer == 0 else (2 if both else 1) * 2 * H, H, cell=FIRST,
                           bidirectional=both).double()
        for name, parameter in module.named_parameters():
            if f"_l{layer}" in name:
                one.register_parameter(name.replace(f"_l{layer}", "_l0"), parameter)
        yield one


@pytest.mark.parametrize("layers, both, saving", [(1, False, "all"), (2, True, "all"), (2, False, "states")])
@pytest.mark.parametrize("steps", [6, 300])
def test_states_side_by_side(layers, both, saving, steps):
    module = et.Recurrent(3, H, layers, cell=BOTH, bidirectional=both, saving=saving).double()
    x = torch.randn(steps, 2, 3, dtype=torch.double, requires_grad=True)
    y = x
    for one in layers_of(module, both):
        *_, states = one(y, all_states=True)
        y = torch.cat([state[d] for d in range(1 + both) for state in states], -1)
    got, inputs, dy = module(x)[0], [x, *module.parameters()], torch.randn_like(y)
    assert got.shape == (steps, 2, (1 + both) * 2 * H)
    assert torch.allclose(got, y, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(got, inputs, dy), torch.autograd.grad(y, inputs, dy)):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)


def test_packed_and_compiled():
    module = et.Recurrent(3, H, 2, cell=BOTH, bidirectional=True).double()
    rows = [torch.randn(n, 3, dtype=torch.double) for n in (7, 2, 4)]
    packed = torch.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0])
    for n, row in enumerate(rows):
        assert torch.allclose(y[:len(row), n], module(row[:, None])[0][:, 0], atol=1e-12)
        assert (y[len(row):, n] == 0).all()
    x = torch.randn(4, 2, 3, dtype=torch.double)
    assert torch.equal(torch.compile(module, fullgraph=True, backend="aot_eager")(x)[0], module(x)[0])


def test_numpy():
    layer = ecornn.Layer(BOTH, 3, H, layers=2, seed=1)
    assert (layer.cell.outputs, layer.output) == (2, 2 * H)
    run = layer.forward(numpy.ones((4, 2, 3), numpy.float32))
    assert run.y.shape == (4, 2, 2 * H)
    numpy.testing.assert_array_equal(run.y[-1, :, H:], run.final[1][-1])


def test_refused(tmp_path):
    with pytest.raises(ecornn.Unsupported, match="y of cell kept has 2 states"):
        ecornn.Layer("cell kept(h, c) -> h, c\nc' = c + W x + R h\nh' = tanh(c')", 3, H, proj=2)
    with pytest.raises(ecornn.Unsupported, match="whose y is its first state"):
        export.export(ecornn.Layer(BOTH, 3, H), tmp_path / "turn.c")
    module = et.Recurrent(3, H, cell=BOTH).double()
    x = torch.randn(2, 1, 3, dtype=torch.double)
    with pytest.raises(Exception, match="y has 2 states, must be 1"):
        torch.func.jvp(lambda x: module(x)[0], (x,), (x,))
