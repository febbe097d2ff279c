"""Gradients of gradients and forward mode, by the library's tangents."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn.utils.rnn import pack_padded_sequence

import ecornn.torch as et
from ecornn.torch import _tangent


@pytest.fixture
def tangents(monkeypatch):
    """A list that grows by one with every run of tangents."""
    found, run = [], _tangent.run
    monkeypatch.setattr(_tangent, "run", lambda *args: found.append(1) or run(*args))
    return found


def results(module, x, *tensors, **more):
    """y and the final states; tensors: initial states, then parameters."""
    count = module._spec().states
    names = [name for name, _ in module.named_parameters()]
    hx = tensors[0] if count == 1 else tuple(tensors[:count])
    y, final = torch.func.functional_call(
        module, dict(zip(names, tensors[count:])), (x, hx), more)
    return (y, final) if count == 1 else (y, *final)


def inputs(module, batch=2):
    """x, initial states and parameters, all doubles that require a gradient."""
    spec = module.double()._spec()
    first = (batch, 4) if module.batch_first else (4, batch)
    given = [torch.randn(*first, module.input_size, dtype=torch.double),
             *(torch.randn(spec.pairs, batch, width, dtype=torch.double) for width in spec.widths),
             *(parameter.detach().clone() for parameter in module.parameters())]
    return [tensor.requires_grad_() for tensor in given]


@pytest.mark.parametrize("make", [
    lambda: et.LSTM(3, 4, num_layers=2, bidirectional=True),
    lambda: et.GRU(3, 4, num_layers=2, batch_first=True),
    lambda: et.GRU(3, 4, bias=False),
    lambda: et.RNN(3, 4, bidirectional=True),
    lambda: et.PeepholeLSTM(3, 4, num_layers=2)])
def test_twice(make, tangents):
    module = make()
    given = inputs(module)
    assert torch.autograd.gradgradcheck(lambda *all: results(module, *all), given, fast_mode=True)
    assert tangents


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
@pytest.mark.parametrize("more", [("resets",), ("mask",), ("resets", "mask", "repeat_padding")])
def test_twice_with_steps_apart(more, device, tangents):
    """Resets, with gradients of reset states, masks and repeated padding."""
    module = et.LSTM(3, 4, num_layers=2, bidirectional=True).to(device)
    given = [tensor.detach().to(device).requires_grad_() for tensor in inputs(module)]
    said = {"resets": torch.rand(4, 2, device=device) < 0.4,
            "mask": torch.rand(4, 2, device=device) < 0.7,
            "repeat_padding": True}
    said = {name: said[name] for name in more}
    if "repeat_padding" in more:
        said["lengths"] = torch.tensor([4, 3])
    starts = [torch.randn_like(one).requires_grad_() for one in given[1:3] if "resets" in more]

    def run(*tensors):
        began = {"reset_state": tensors[:2]} if starts else {}
        return results(module, *tensors[len(starts):], **said, **began)

    assert torch.autograd.gradgradcheck(run, (*starts, *given), fast_mode=True)
    assert torch.autograd.gradcheck(run, (*starts, *given), fast_mode=True, check_forward_ad=True)
    assert tangents


def test_twice_with_dropout(tangents):
    module = et.GRU(3, 4, num_layers=3, dropout=0.4)
    given = inputs(module)

    def run(*all):
        torch.manual_seed(5)
        return results(module, *all)

    assert torch.autograd.gradgradcheck(run, given, fast_mode=True)
    assert tangents


def test_rows_of_several_lengths(tangents):
    module = et.LSTM(3, 4)
    lengths = torch.tensor([4, 2])
    given = inputs(module)
    assert torch.autograd.gradgradcheck(lambda x, h, c, *all: results(  # states that are not dense
        module, x, h[:, :1].expand(-1, 2, -1), c, *all, lengths=lengths), given, fast_mode=True)

    def packed(x):
        return module(pack_padded_sequence(x, lengths))[0].data

    assert torch.autograd.gradgradcheck(packed, given[0]) and tangents


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_as_torch(kind):
    """The second and the third derivative; in single precision, too."""
    theirs, ours = getattr(torch.nn, kind)(3, 4), getattr(et, kind)(3, 4)
    ours.load_state_dict(theirs.state_dict())
    for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        x = torch.randn(4, 2, 3, dtype=dtype, requires_grad=True)
        found = []
        for module, x in ((theirs.double(), x.detach().double().requires_grad_()), (ours.to(dtype), x)):
            one, = torch.autograd.grad(module(x)[0].pow(3).sum(), x, create_graph=True)
            two, = torch.autograd.grad(one.pow(2).sum(), x, create_graph=True)
            kept, = torch.autograd.grad(one.pow(2).sum(), x, retain_graph=True)
            found.append((two.detach(), kept, torch.autograd.grad(two.pow(2).sum(), x)[0]))
        for a, b in zip(*found):
            assert torch.allclose(a, b.double(), atol=bound)


@pytest.mark.parametrize("both", [False, True])
def test_lengths_and_a_graph_of_the_second(both):
    """The second derivative is the same if a third is requested."""
    module = et.LSTM(3, 4, bidirectional=both).double()
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    y, (h, _) = module(x, lengths=[4, 2])
    one, = torch.autograd.grad(y.sum() + h.pow(2).sum(), x, create_graph=True)
    kept, = torch.autograd.grad(one.pow(2).sum(), x, retain_graph=True)
    two, = torch.autograd.grad(one.pow(2).sum(), x, create_graph=True)
    torch.testing.assert_close(two, kept)
    third, = torch.autograd.grad(two.pow(2).sum(), x)
    y, h = module(pack_padded_sequence(x, torch.tensor([4, 2])))
    one, = torch.autograd.grad(y.data.sum() + h[0].pow(2).sum(), x, create_graph=True)
    two, = torch.autograd.grad(one.pow(2).sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(two.pow(2).sum(), x)[0], third)


@pytest.mark.parametrize("make", [lambda: et.MGU(3, 4, num_layers=2),
                                  lambda: et.PeepholeLSTM(3, 4)])
def test_forward_mode(make, tangents):
    module = make()
    given = inputs(module)
    assert torch.autograd.gradcheck(lambda *all: results(module, *all), given, fast_mode=True,
                                    check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda *all: results(module, *all), given, fast_mode=True,
                                        check_fwd_over_rev=True)
    assert tangents
    x = given[0]
    with forward_ad.dual_level():
        y, _ = module(forward_ad.make_dual(x, torch.ones_like(x)))
        tangent = forward_ad.unpack_dual(y).tangent
        with pytest.raises(NotImplementedError, match="no third derivative"):
            torch.autograd.grad(tangent.sum(), x)
    found, = torch.autograd.grad(tangent.sum(), x)
    one, = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(one.sum(), x)[0])


def test_third_of_a_text():
    module = et.MGU(2, 3).double()
    x = torch.randn(3, 1, 2, dtype=torch.double, requires_grad=True)
    one, = torch.autograd.grad(module(x)[0].pow(2).sum(), x, create_graph=True)
    two, = torch.autograd.grad(one.sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="no third derivative"):
        torch.autograd.grad(two.sum(), x)
