"""Packed sequences in pieces: the same as in one run, for the memory of what counts."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

import ecornn.torch as et  # noqa: E402
from ecornn.torch import _packing  # noqa: E402

T, LENGTHS = 24, [3, 24, 17, 9, 24, 1, 9, 16, 21, 6]
MAKE = {
    "LSTM": lambda **more: et.LSTM(5, 8, 2, **more),
    "both": lambda **more: et.GRU(5, 8, 2, bidirectional=True, **more),
    "dropout": lambda **more: et.LSTM(5, 8, 3, dropout=0.4, **more),
    "drawn": lambda **more: et.ZoneoutLSTM(5, 8, **more),
    "drawn both": lambda **more: et.ZoneoutLSTM(5, 8, bidirectional=True, **more),
    "states": lambda **more: et.LSTM(5, 8, saving="states", **more),
    "every": lambda **more: et.GRU(5, 8, saving="every:4", **more),
    "limit": lambda **more: et.GRU(5, 8, memory_limit=1 << 20, **more)}


def cut(monkeypatch, often: bool) -> None:
    """Are batches cut into many pieces, or into none?"""
    limits = _packing.Limits(0 if often else 1 << 60, 0, 0, 32, 1)
    monkeypatch.setattr(_packing, "LIMITS", dict.fromkeys(_packing.LIMITS, limits))


def train(module, x, order: int = 1):
    """Results and gradients of a call; order 2: of the gradient's norm."""
    torch.manual_seed(1)
    x = x.clone().requires_grad_()
    y, _ = module(pack_padded_sequence(x, LENGTHS, enforce_sorted=False))
    weights = list(module.parameters())
    found = torch.autograd.grad((y.data * y.data.detach().cos()).sum(), [x, *weights],
                                create_graph=order == 2)
    if order == 2:
        found = torch.autograd.grad(sum(d.square().sum() for d in found), [x, *weights])
    return [y.data, *found]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", MAKE)
def test_pieces_are_one_run(name, order, monkeypatch):
    module, x = MAKE[name](dtype=torch.float64), torch.randn(T, len(LENGTHS), 5).double()
    cut(monkeypatch, False)
    whole = train(module, x, order)
    cut(monkeypatch, True)
    for one, other in zip(whole, train(module, x, order)):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-11)


def test_bits_of_rows_do_not_depend_on_pieces(monkeypatch):
    found, module, x = [], et.LSTM(5, 8, 2, bidirectional=True), torch.randn(T, len(LENGTHS), 5)
    for often in (True, False):
        cut(monkeypatch, often)
        found.append(train(module, x)[:2])
    assert all(map(torch.equal, *found))


def test_gradients_in_a_batch(monkeypatch):
    cut(monkeypatch, True)
    module, x = et.GRU(5, 8), torch.randn(T, len(LENGTHS), 5)
    y = module(pack_padded_sequence(x, LENGTHS, enforce_sorted=False))[0].data
    outputs = torch.randn(3, *y.shape)
    found, = torch.autograd.grad(y, module.weight_hh_l0, outputs, is_grads_batched=True,
                                 retain_graph=True)
    for one, output in zip(found, outputs):
        assert torch.allclose(one, torch.autograd.grad(y, module.weight_hh_l0, output,
                                                       retain_graph=True)[0], atol=1e-5)


def test_dropout_between_layers_of_both_directions(monkeypatch):
    """Torch's own, between runs of one layer each."""
    cut(monkeypatch, True)
    module = et.LSTM(5, 64, 2, dropout=0.5, bidirectional=True)
    torch.nn.init.ones_(module.bias_ih_l0)
    x = pack_padded_sequence(torch.randn(T, len(LENGTHS), 5), LENGTHS, enforce_sorted=False)
    torch.manual_seed(2)
    y = module(x)[0].data
    torch.manual_seed(2)
    assert torch.equal(y, module(x)[0].data)
    assert not torch.equal(y, module(x)[0].data)
    apart = y - module.eval()(x)[0].data
    assert 0.001 < apart.abs().mean() < 0.5


@pytest.mark.parametrize("lengths, both, more", [
    (torch.arange(2, 258) // 2, False, 1.18), (torch.tensor([128] * 4 + [2] * 124), True, 2.1)])
def test_memory_is_that_of_what_counts(lengths, both, more):
    """Backward keeps what counts, padding within pieces, and the states between them."""
    batch, sizes = len(lengths), []
    for packed in (False, True):
        found = []
        x = torch.randn(128, batch, 64)
        with torch.autograd.graph.saved_tensors_hooks(lambda one: found.append(one) or one,
                                                      lambda one: one):
            module = et.LSTM(64, 128, bidirectional=both)
            module(pack_padded_sequence(x, lengths, enforce_sorted=False) if packed else x)
        sizes.append(sum(one.nbytes for one in found))
    assert sizes[1] < more * float(lengths.sum()) / (128 * batch) * sizes[0]

@pytest.mark.parametrize("sizes", [(1000,) * 128, (300,) * 100, (7,) * 64, (5,)])
def test_pieces_of_equal_lengths_are_alike(sizes):
    cuts = (*_packing._cuts(sizes, 1 << 12, 1 << 14), len(sizes))
    steps = [end - begin for begin, end in zip(cuts, cuts[1:])]
    assert cuts[0] == 0 and all(steps) and max(steps) <= 2 * min(steps)
