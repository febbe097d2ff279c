"""Parts of x: columns of a row that no matrix multiplies, against loops of torch; what is refused."""

from __future__ import annotations

import pytest
import torch

import ecornn
import ecornn.torch as et

AUGRU = """cell augru(h; a[1])
u  = a * sigmoid(W x + R h + b)
r  = sigmoid(W x + R h + b)
h' = (1 - u) * h + u * tanh(W x + R (r * h) + b)
"""
LI_GRU = """cell li-gru(h; u[H], v[H])
z  = sigmoid(u + R h)
h' = z * h + (1 - z) * relu(v + R h)
"""
LI_GRU_OF_W = """cell li-gru-of-w(h)
z  = sigmoid(W x + R h)
h' = z * h + (1 - z) * relu(W x + R h)
"""
H = 5


def augru(x, module):
    w, r, b = module.weight_ih_l0, module.weight_hh_l0, module.bias_l0
    h, rows = torch.zeros(x.shape[1], H, dtype=x.dtype, device=x.device), []
    for each in x:
        score, sums = each[:, -1:], (each[:, :-1] @ w.T + b).split(H, 1)
        u = score * torch.sigmoid(sums[0] + h @ r[:H].T)
        reset = torch.sigmoid(sums[1] + h @ r[H:2 * H].T)
        h = (1 - u) * h + u * torch.tanh(sums[2] + (reset * h) @ r[2 * H:].T)
        rows.append(h)
    return torch.stack(rows)


@pytest.mark.parametrize("saving", ["all", "states", "every:4"])
def test_a_score_a_row(saving, device):
    module = et.Recurrent(4, H, cell=AUGRU, saving=saving).double().to(device)
    assert module.weight_ih_l0.shape == (3 * H, 3)
    x = torch.randn(7, 3, 4, dtype=torch.double, device=device, requires_grad=True)
    inputs, dy = [x, *module.parameters()], torch.randn(7, 3, H, dtype=torch.double, device=device)
    want = augru(x, module)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for run in (module, compiled) if saving == "all" else (module,):
        y = run(x)[0]
        assert torch.allclose(y, want, rtol=1e-12, atol=1e-12)
        for a, b in zip(torch.autograd.grad(y, inputs, dy), torch.autograd.grad(want, inputs, dy, retain_graph=True)):
            assert torch.allclose(a, b, rtol=1e-11, atol=1e-11)


def test_parts_replace_an_identity(device):
    parts = et.Recurrent(2 * H, H, cell=LI_GRU, bidirectional=True).double().to(device)
    whole = et.Recurrent(2 * H, H, cell=LI_GRU_OF_W, bidirectional=True).double().to(device)
    with torch.no_grad():
        for end in ("l0", "l0_reverse"):
            getattr(whole, f"weight_ih_{end}").copy_(torch.eye(2 * H))
            getattr(whole, f"weight_hh_{end}").copy_(getattr(parts, f"weight_hh_{end}"))
    x = torch.randn(6, 3, 2 * H, dtype=torch.double, device=device, requires_grad=True)
    found = [(y := module(x)[0], torch.autograd.grad(y.sum(), x)[0]) for module in (parts, whole)]
    for a, b in zip(*found):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_module_before_and_after():
    """What is made outside is trained with the layer: a batch norm over time and rows."""
    norm, layer = torch.nn.BatchNorm1d(2 * H), et.Recurrent(2 * H, H, cell=LI_GRU)
    product = torch.nn.Linear(4, 2 * H, bias=False)
    x = torch.randn(6, 3, 4)
    layer(norm(product(x).flatten(0, 1)).unflatten(0, (6, 3)))[0].sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for module in (norm, product, layer)
               for each in module.parameters())


def test_parts_are_named():
    cell = ecornn.Cell("cell c(h; a[1], u[H])\nh' = tanh(W x + R h + b) * a + u\n")
    assert cell.parts == (("a", 1), ("u", None)) and ecornn.Cell("gru").parts == ()
    assert cell.parameters == (("W", "h"), ("R", "h"), ("b", "h"))


def test_models_have_parts_of_their_own():
    layer = ecornn.Layer(AUGRU, 4, H, models=2, dtype="f64", device="cpu:1", seed=3)
    x = torch.randn(2, 7, 3, 4, dtype=torch.double).numpy()
    y = layer(x)[0]
    for k in range(2):
        one = ecornn.Layer(AUGRU, 4, H, dtype="f64", device="cpu:1")
        for name in one.parameters:
            one.parameters[name] = layer.parameters[f"{k}:{name}"] if f"{k}:{name}" in layer.parameters \
                else layer.parameters[name][k]
        assert (torch.from_numpy(one(x[k])[0]) == torch.from_numpy(y[k])).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="the parts of x of cell augru, 'a' alone, are 1 wide: must be larger"):
        et.Recurrent(1, H, cell=AUGRU)
    with pytest.raises(ecornn.Unsupported, match="layers is 2, but cell augru has part 'a' of x"):
        et.Recurrent(4, H, 2, cell=AUGRU)
    module = et.Recurrent(4, H, cell=AUGRU)
    with pytest.raises(Exception, match="it has part 'a' of x"):
        torch.func.jvp(lambda x: module(x)[0], (torch.zeros(2, 1, 4),), (torch.ones(2, 1, 4),))
    with pytest.raises(ValueError, match="which is 5, without 1 of parts"):
        et.Recurrent(5, 6, cell=AUGRU, heads=3, grouped_input=True)


@pytest.mark.parametrize("cell", ["scrn", "wmc-lstm"])
def test_matrices_that_no_tensor_holds_are_refused(cell):
    """R reads the projected state and one that is not."""
    with pytest.raises(ecornn.Unsupported, match="R of several widths"):
        et.Recurrent(6, 8, cell=ecornn.cells[cell], proj_size=2)
    y, _ = ecornn.Layer(cell, 6, 8, proj=2)(torch.ones(5, 2, 6))
    assert y.shape == (5, 2, 2)
