"""Ensembles: each model against a separate module, and torch.func's stacked parameters."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402

M, T, N, I, H = 3, 5, 2, 3, 4


def same(a, b, device):
    """On a CPU bit by bit; on a GPU another algorithm may run a model by itself."""
    return torch.equal(a, b) if device == "cpu" else torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def gradients(out, given):
    y, final = out
    final = final if isinstance(final, tuple) else (final,)
    loss = sum((part * part.detach().cos()).sum() for part in (y, *final))
    return torch.autograd.grad(loss, given)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind,more", [
    (et.LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
    (et.GRU, {"bias": False, "batch_first": True}), (et.RNN, {"nonlinearity": "relu"}),
    (et.LayerNormLSTM, {})])
def test_equals_modules(kind, more, shared, device):
    each = [kind(I, H, device=device, **more) for _ in range(M)]
    ensemble = et.Ensemble.of(each)
    first = (N, T) if ensemble.batch_first else (T, N)
    x = torch.randn(*(() if shared else (M,)), *first, I, device=device, requires_grad=True)
    lengths = torch.tensor([4, 5]) if shared else torch.tensor([[4, 5], [2, 1], [5, 3]])
    resets = torch.rand(x.shape[:-1], device=device) < 0.3
    states = [torch.randn(M, s.shape[0], N, s.shape[2], device=device, requires_grad=True)
              for s in _final(each[0](torch.zeros(*first, I, device=device)))]
    y, final = ensemble(x, tuple(states), lengths, resets)
    names, params = zip(*ensemble.named_parameters())
    dx, *found = gradients((y, final), [x, *states, *params])
    owns = []
    for m, module in enumerate(each):
        hx = tuple(state[m] for state in states)
        own = module(x if shared else x[m], hx if len(hx) > 1 else hx[0],
                     lengths=lengths if shared else lengths[m],
                     resets=resets if shared else resets[m])
        assert same(y[m], own[0], device)
        assert all(same(a[m], b, device) for a, b in zip(_final((y, final)), _final(own)))
        dx_m, *rest = gradients(own, [x, *states, *(dict(module.named_parameters())[name]
                                                    for name in names)])
        owns.append(dx_m)
        for a, b in zip(found, rest):
            assert same(a[m], b[m] if b.shape == a.shape else b, device)
    assert same(dx, sum(owns[1:], owns[0]), device)


def _final(out):
    return out[1] if isinstance(out[1], tuple) else (out[1],)


def test_gradients_by_differences():
    ensemble = et.Ensemble(2, "cell own(h)\nh' = tanh(W x + R h + b)\n", 2, 3, num_layers=2,
                           dtype=torch.float64)
    x, start = (torch.randn(*shape, dtype=torch.float64, requires_grad=True)
                for shape in ((4, 2, 2), (2, 2, 1, 3)))
    resets = torch.tensor([[0, 0], [1, 0], [0, 1], [0, 0]])
    names, params = zip(*ensemble.named_parameters())

    def run(x, start, *params):
        y, final, shown = torch.func.functional_call(
            ensemble, dict(zip(names, params)), (x,),
            {"resets": resets, "reset_state": start, "all_states": True})
        return y, final, shown

    assert torch.autograd.gradcheck(run, (x, start, *params))
    with pytest.raises(NotImplementedError, match="gradient of a gradient.*several models"):
        one, = torch.autograd.grad(ensemble(x)[0].sum(), x, create_graph=True)
        torch.autograd.grad(one.sum(), x)


def test_stacked_state():
    each = [torch.nn.LSTM(I, H) for _ in range(M)]
    for module in each:
        module.bias_hh_l0.requires_grad_(False)
    params, _ = torch.func.stack_module_state(each)
    ensemble, x = et.Ensemble.of(each), torch.randn(T, N, I)
    assert list(params) == list(ensemble.state_dict())
    assert all(torch.equal(params[name], value) for name, value in ensemble.state_dict().items())
    assert not ensemble.bias_hh_l0.requires_grad and ensemble.bias_ih_l0.requires_grad
    other = et.Ensemble(M, "lstm", I, H)
    y, _ = torch.func.functional_call(other, params, (x,))
    assert torch.equal(y, ensemble(x)[0]) and not torch.equal(y, other(x)[0])
    other.load_state_dict(params)
    assert torch.equal(copy.deepcopy(other)(x)[0], y)
    with torch.no_grad():
        other.weight_ih_l0[2] = other.weight_ih_l0[0]  # as population training does
    back = torch.nn.LSTM(I, H)
    back.load_state_dict(other.state_dicts()[2])
    assert torch.equal(back.weight_ih_l0, each[0].weight_ih_l0)
    assert torch.allclose(back.double()(x.double())[0], other(x)[0][2].double(), atol=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        low = other(x)[0]
    assert low.dtype is torch.bfloat16 and (low - other(x)[0]).abs().max() < 0.05
    dropping = et.Ensemble(M, "lstm", I, H, num_layers=2, dropout=0.5)
    assert not torch.equal(dropping(x)[0], dropping(x)[0])
    assert torch.equal(dropping.eval()(x)[0], dropping(x)[0])
    assert ensemble(x[:, :0])[0].shape == (M, T, 0, H)
    assert et.Ensemble(1, "gru", I, H)(x)[1].shape == (1, 1, N, H)


def test_what_is_wrong_is_said():
    ensemble, x = et.Ensemble(M, "gru", I, H), torch.zeros(M, T, N, I)
    for wrong in (x[:2], x[0, 0], x[..., :2]):
        with pytest.raises(ValueError, match=r"must be \[3,T,N,3\], or \[T,N,3\] for all models"):
            ensemble(wrong)
    for arguments, why in (
            ((x, torch.zeros(1, N, H)), r"hx is \[\[1, 2, 4\]\], must be \[\[3, 1, 2, 4\]\]"),
            ((x, None, [5, 5]), r"lengths has shape \[2\], must be \[3, 2\]"),
            ((x, None, None, torch.zeros(T, N)), r"resets has shape \[5, 2\], must be \[3, 5, 2\]"),
            ((x[:, :0],), "must have one step or more"),
            ((x.double(),), "float64, which does not go with parameters of torch.float32")):
        with pytest.raises(ValueError, match=why):
            ensemble(*arguments)
    modules = [torch.nn.GRU(I, H), torch.nn.GRU(I, H + 1)]
    with pytest.raises(ValueError, match=r"modules\[1\] is GRU\(3, 5\), must be as modules\[0\]"):
        et.Ensemble.of(modules)
    modules = [torch.nn.GRU(I, H), torch.nn.GRU(I, H).double()]
    with pytest.raises(ValueError, match=r"modules\[1\].weight_ih_l0 is torch.float64 on cpu"):
        et.Ensemble.of(modules)
    with pytest.raises(ValueError, match=r"modules\[1\].training is False"):
        et.Ensemble.of([torch.nn.GRU(I, H), torch.nn.GRU(I, H).eval()])
    with pytest.raises(TypeError, match=r"modules\[0\] is Linear"):
        et.Ensemble.of([torch.nn.Linear(2, 2)])
    with pytest.raises(ValueError, match="dicts has 2, must have 3"):
        ensemble.load_state_dicts([module.state_dict() for module in modules])
    with pytest.raises(ValueError, match="models is 0, must be at least 1"):
        et.Ensemble(0, "gru", I, H)
