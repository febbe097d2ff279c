"""Modules of the library's cells, ecornn.cells, by their names."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
import ecornn  # noqa: E402
import ecornn.torch as et  # noqa: E402


def test_a_name_is_its_text():
    layer, same = et.Recurrent(3, 4, cell="lif"), et.Recurrent(3, 4, cell=ecornn.cells["lif"])
    same.load_state_dict(layer.state_dict())
    x = torch.randn(6, 2, 3)
    y, states = layer(x)
    assert torch.equal(y, same(x)[0]) and len(states) == 2 and set(y.unique().tolist()) <= {0.0, 1.0}
    assert repr(layer) == "ecornn.torch.Recurrent(3, 4, cell='lif')" == repr(pickle.loads(pickle.dumps(layer)))
    y.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("name", sorted(ecornn.cells))
def test_every_cell_is_a_module(name):
    heads, sizes = 1, [size for _, size in ecornn.Cell(name).parts]
    if ecornn.Cell(name).has_matrix:
        heads, sizes = 2, [{"K": 2 * 3, "V": 4, 1: 2}[size] for size in sizes]
    parts = sum(size or 4 for size in sizes)
    inputs = [I for I in (3 + parts, 4, parts) if I and takes(name, I, heads)][0]
    layer = et.Recurrent(inputs, 4, cell=name, heads=heads)
    y, _ = layer(torch.randn(5, 2, inputs, requires_grad=True))
    y.sum().backward()
    assert y.shape == (5, 2, 4) and torch.isfinite(y).all()


def takes(name, inputs, heads):
    try:
        ecornn.Layer(name, inputs, 4, heads=heads)
    except ecornn.Error:
        return False
    return True


def test_draws_of_the_library_are_off_in_evaluation():
    net = et.Net(3, "zoneout-gru/H4; lif/H4").eval()
    x = torch.randn(5, 2, 3)
    assert torch.equal(net(x)[0], net(x)[0]) and torch.equal(copy.deepcopy(net)(x)[0], net(x)[0])
    layer = et.Recurrent(3, 4, cell="zoneout-gru")
    assert not torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(layer.eval()(x)[0], layer(x)[0])


def test_a_text_of_ones_own_comes_first():
    net = et.Net(3, "lif/H4", cells=["cell lif(h)\nh' = tanh(W x + R h)\n"])
    assert len(list(net.parameters())) == 2


def test_is_compiled():
    layer = et.Recurrent(3, 4, cell="lif")
    x = torch.randn(5, 2, 3)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x)[0], layer(x)[0])


def test_an_unknown_name_is_refused():
    with pytest.raises(ecornn.BadArgument, match="'lif2', must be one of rnn-tanh, .*, one of ecornn.cells"):
        et.Recurrent(3, 4, cell="lif2")
