"""Heads: modules whose R, and W where it is grouped, are blocks of a larger matrix."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402

K, T, N, I, H = 2, 5, 3, 4, 6


def step(module, x):
    """y, final states, and the gradients of x and of the parameters."""
    x = x.clone().requires_grad_()
    y, final = module(x)
    final = final if isinstance(final, tuple) else (final,)
    loss = sum((part * part.detach().cos()).sum() for part in (y, *final))
    return [y, *final, *torch.autograd.grad(loss, [x, *module.parameters()])]


def blocks_of(matrices, hidden=H, heads=K):
    """[...,count*H,C] -> [...,count*H,C/K]: of each row the columns of its own head."""
    parts = matrices.unflatten(-1, (heads, -1)).unflatten(-3, (-1, heads, hidden // heads))
    return torch.stack([parts[..., k, :, k, :] for k in range(heads)], -3).flatten(-4, -2)


def spread(blocks, columns):
    """The inverse: zeros in the columns that a row does not read."""
    whole = blocks.new_zeros(*blocks.shape[:-1], columns).requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(blocks_of(whole), whole, blocks)[0]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("make", [
    lambda **more: et.Recurrent(I, H, cell="slstm", num_layers=2, bidirectional=True, **more),
    lambda **more: et.Recurrent(I, H, cell="gru", batch_first=True, **more),
    lambda **more: et.MGU(I, H, **more),
    lambda **more: et.Ensemble(3, "lstm", I, H, num_layers=2, bias=False, **more)])
def test_blocks_of_a_larger_matrix(make, grouped, device):
    heads = make(heads=K, grouped_input=grouped, dtype=torch.float64, device=device)
    dense = make(dtype=torch.float64, device=device)
    parted = [name for name, _ in dense.named_parameters()
              if "weight_hh" in name or (grouped and "weight_ih" in name)]
    with torch.no_grad():
        for name, weight in dense.named_parameters():
            own = getattr(heads, name)
            if name in parted:
                assert own.shape == (*weight.shape[:-1], weight.shape[-1] // K)
                own = spread(own, weight.shape[-1])
            weight.copy_(own)
    x = torch.randn(T, N, I, dtype=torch.float64, device=device)
    found, right = step(heads, x), step(dense, x)
    names = [name for name, _ in dense.named_parameters()]
    for name, one, other in zip([None] * (len(right) - len(names)) + names, found, right):
        other = blocks_of(other) if name in parted else other
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-12), name


def test_compiled_and_exported():
    torch._dynamo.reset()
    module = et.Recurrent(I, H, cell="slstm", heads=K, grouped_input=True, num_layers=2)
    x = torch.randn(T, N, I)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert all(map(torch.equal, step(module, x), step(compiled, x)))
    program = torch.export.export(module.eval(), (x,))
    assert torch.equal(program.module()(x)[0], module(x)[0])


def test_copies_know_them():
    module, x = et.Recurrent(I, H, cell="slstm", heads=K, grouped_input=True), torch.randn(T, N, I)
    y, _ = module(x)
    assert repr(module) == "ecornn.torch.Recurrent(4, 6, cell='slstm', heads=2, grouped_input=True)"
    other = et.Recurrent(I, H, cell="slstm", heads=K, grouped_input=True)
    other.load_state_dict(module.state_dict())
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
        assert torch.equal(copied(x)[0], y)
    ensemble = et.Ensemble.of([module, et.Recurrent(I, H, cell="slstm", heads=K,
                                                    grouped_input=True)])
    assert torch.equal(ensemble(x)[0][0], y) and "heads=2, grouped_input=True" in repr(ensemble)
    other.load_state_dict(ensemble.state_dicts()[1])
    ensemble.load_state_dicts([module.state_dict(), module.state_dict()])
    assert torch.equal(ensemble(x)[0][1], y) and not torch.equal(other(x)[0], y)
    with pytest.raises(ValueError, match=r"modules\[1\] is ecornn.torch.Recurrent.*, must be as modules\[0\]"):
        et.Ensemble.of([module, et.Recurrent(I, H, cell="slstm")])


def test_a_net_has_the_same():
    net = et.Net(I, f"slstm/H{H}/heads:{K}/grouped-input")
    module, x = et.Recurrent(I, H, cell="slstm", heads=K, grouped_input=True), torch.randn(T, N, I)
    with torch.no_grad():
        for name, kind in (("weight_ih_l0", "_W_"), ("weight_hh_l0", "_R_"), ("bias_l0", "_b_")):
            getattr(module, name).copy_(torch.cat([
                value for own, value in net.named_parameters() if kind in own]))
    assert torch.allclose(net(x)[0], module(x)[0], atol=1e-6)


@pytest.mark.parametrize("make", [lambda **more: et.Recurrent(I, H, cell="lstm", **more),
                                  lambda **more: et.Ensemble(3, "lstm", I, H, **more)])
def test_what_is_wrong_is_said(make):
    for more, why in (({"heads": 0}, "heads is 0, must be at least 1"),
                      ({"heads": 4}, "heads is 4, must divide hidden_size, which is 6"),
                      ({"heads": 2**32 + 1}, "must divide hidden_size, which is 6"),
                      ({"grouped_input": True}, "heads is 1 with grouped_input, must be at"),
                      ({"heads": 3, "grouped_input": True}, "divide input_size, which is 4"),
                      ({"heads": 2, "proj_size": 4}, "proj is 4 with 2 heads")):
        with pytest.raises((ValueError, NotImplementedError), match=why):
            make(**more)
    with pytest.raises(TypeError, match="heads is True, must be an int"):
        make(heads=True)


def test_gradients_of_gradients_are_refused():
    module, x = et.Recurrent(I, H, cell="lstm", heads=K), torch.randn(T, N, I, requires_grad=True)
    with pytest.raises(NotImplementedError, match="create_graph=True.*with heads"):
        one, = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
        torch.autograd.grad(one.sum(), x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
        with pytest.raises(NotImplementedError, match="forward-mode differentiation with heads"):
            module(dual)
