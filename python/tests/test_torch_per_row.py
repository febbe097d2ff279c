"""Gradients of parameters for each row are those of a loop over the rows."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from ecornn.torch import per_row  # noqa: E402

CELLS = [lambda **more: et.LSTM(3, 4, 2, proj_size=2, bidirectional=True, **more),
         lambda **more: et.GRU(3, 4, **more), lambda **more: et.RNN(3, 4, bias=False, **more),
         lambda **more: et.Recurrent(4, 4, cell="slstm", heads=2, **more)]


def tuple_of(states):
    return states if isinstance(states, tuple) else (states,)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("make", CELLS)
def test_rows(make, batch_first, full, device, monkeypatch):
    module = make(batch_first=batch_first).double().to(device)
    place, rows = (0, 5) if batch_first else (1, 5)
    x = torch.randn(*((5, 6) if batch_first else (6, 5)), module.input_size, dtype=torch.double,
                    device=device)
    y, final = module(x)
    dy, lengths, hx, dfinal = torch.randn_like(y), None, None, None
    if full:
        lengths = torch.tensor([6, 2, 0, 1, 3])
        hx, dfinal = ([torch.randn_like(one) for one in tuple_of(final)] for _ in range(2))
        monkeypatch.setitem(per_row._PIECES, device, 1)  # pieces of some rows each

    def pack(states):
        return states if states is None or len(states) > 1 else states[0]

    found = et.per_row_gradients(module, x, dy, pack(hx), dfinal, lengths=lengths)
    for n in range(rows):
        def row(one):
            return one[:, n:n + 1]
        y, final = module(x.narrow(place, n, 1), pack(hx and [row(one) for one in hx]),
                          lengths=None if lengths is None else lengths[n:n + 1])
        loss = (y * dy.narrow(place, n, 1)).sum()
        if full:
            loss = loss + sum((one * row(d)).sum() for one, d in zip(tuple_of(final), dfinal))
        for a, b in zip(found.values(), torch.autograd.grad(loss, list(module.parameters()))):
            torch.testing.assert_close(a[n], b)
    assert list(found) == [name for name, _ in module.named_parameters()]


def test_a_module_with_a_limit():
    module = et.GRU(3, 4)
    x, dy = torch.randn(6, 5, 3), torch.randn(6, 5, 4)
    want = et.per_row_gradients(module, x, dy)
    module.memory_limit = 1 << 30
    found = et.per_row_gradients(module, x, dy)
    assert all(torch.equal(found[name], want[name]) for name in want)


def test_errors():
    gru, x = et.GRU(3, 4, 2, dropout=0.5), torch.zeros(5, 2, 3)
    for call, why in ((lambda: et.per_row_gradients(gru, x, x), "draws dropout"),
                      (lambda: et.per_row_gradients(gru.eval(), x[0], x), "must be .T,N,3."),
                      (lambda: et.per_row_gradients(gru, x, x), r"grad_y is \[5, 2, 3\]"),
                      (lambda: et.per_row_gradients(gru, x.double(), None), "input is .*float64"),
                      (lambda: et.per_row_gradients(gru, x, None, [x, x]), "hx has 2 tensors"),
                      (lambda: et.per_row_gradients(et.Ensemble(2, "gru", 3, 4), x, x), "Ensemble")):
        with pytest.raises(ValueError, match=why):
            call()


class Classifier(torch.nn.Module):
    def __init__(self, recurrent):
        super().__init__()
        self.recurrent, self.head = recurrent, torch.nn.Linear(4, 2)

    def forward(self, x, part=0):
        out = self.recurrent(x)
        return self.head(out[0][:, -1] + part * out[1][-1] if part else out[0][:, -1])


def test_opacus():
    opacus = pytest.importorskip("opacus")
    from opacus.layers import DPGRU
    from opacus.validators import ModuleValidator

    et.register_opacus()
    torch.manual_seed(0)
    ours, theirs = (Classifier(kind(3, 4, batch_first=True)) for kind in (et.GRU, DPGRU))
    theirs.recurrent.load_state_dict(ours.recurrent.state_dict())
    theirs.head.load_state_dict(ours.head.state_dict())
    assert ModuleValidator.validate(ours, strict=True) == []
    x, found = torch.randn(6, 5, 3), []
    for model in (ours, theirs):
        wrapped = opacus.GradSampleModule(model)
        torch.nn.functional.cross_entropy(wrapped(x), torch.zeros(6, dtype=torch.long)).backward()
        found.append({name: value.grad_sample for name, value in model.named_parameters()})
    assert found[0].keys() == found[1].keys()
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name])
    with pytest.raises(ValueError, match="make the loss of y"):
        ours(x, 1).sum().backward()
    with pytest.raises(ValueError, match="leave out hx"):
        ours.recurrent(x, torch.zeros(1, 6, 4))
