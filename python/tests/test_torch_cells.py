"""torch.nn's cells: the same values, gradients and errors, as modules, by replace and by enabled."""

from __future__ import annotations

import copy
import io
import itertools

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from ecornn.torch import _native, cells  # noqa: E402

KINDS = [("LSTMCell", {}), ("GRUCell", {}), ("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"})]
here = pytest.mark.skipif(_native._module is None, reason="no ecornn-torch.so for this torch")
kinds = pytest.mark.parametrize("name,more", KINDS, ids=["lstm", "gru", "tanh", "relu"])


@pytest.fixture
def steps(monkeypatch):
    """A list that grows by one each time the operator runs a step of a cell."""
    found, forward = [], cells._forward

    def counted(*args):
        made = forward(*args)
        found.extend([1] if made else [])
        return made

    if forward:
        monkeypatch.setattr(cells, "_forward", counted)
    return found


def pair(name, more, *sizes, **options):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*sizes, **more, **options)
    ours = getattr(et, name)(*sizes, **more, **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def states(name, *shape):
    made = torch.randn(*shape, requires_grad=True), torch.randn(*shape, requires_grad=True)
    return made if name == "LSTMCell" else made[0]


def listed(out):
    return list(out) if isinstance(out, tuple) else [out]


def gradients(cell, x, hx, count=3):
    """The results of some steps and all gradients."""
    out = hx
    for _ in range(count):
        out = cell(x, out)
    results = listed(out)
    weights = torch.linspace(-1, 1, results[0].numel()).view_as(results[0])
    loss = sum((result * (weights + k)).sum() for k, result in enumerate(results))
    return results + list(torch.autograd.grad(loss, [x, *listed(hx), *cell.parameters()]))


@here
@kinds
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 5, 33])
@pytest.mark.parametrize("sizes", [(7, 13), (32, 16), (1, 1), (300, 257)])
def test_values_and_gradients(name, more, bias, rows, sizes, steps):
    theirs, ours = pair(name, more, *sizes, bias=bias)
    x, hx = torch.randn(rows, sizes[0], requires_grad=True), states(name, rows, sizes[1])
    exact = copy.deepcopy(theirs).double()
    wide = [t.detach().double().requires_grad_() for t in (x, *listed(hx))]
    want = gradients(exact, wide[0], tuple(wide[1:]) if name == "LSTMCell" else wide[1])
    have, other = gradients(ours, x, hx), gradients(theirs, x, hx)
    assert len(steps) == 3
    for a, b, c in zip(want, have, other):
        near = max((c - a).abs().max().item() * 4, 4e-6 * max(1.0, a.abs().max().item()))
        assert (b - a).abs().max().item() <= near
    with torch.no_grad():
        plain = listed(ours(x, hx))
    for a, b in zip(plain, listed(ours(x, hx))):
        assert torch.equal(a, b)


@here
@kinds
def test_each_gradient_alone(name, more):
    theirs, ours = pair(name, more, 5, 6)
    for x_wants, h_wants, w_wants in itertools.product([False, True], repeat=3):
        if not (x_wants or h_wants or w_wants):
            continue
        found = []
        for cell in (theirs, ours):
            cell.requires_grad_(w_wants)
            torch.manual_seed(1)
            x, hx = torch.randn(5, 3).mT.requires_grad_(x_wants), states(name, 3, 6)
            for state in listed(hx):
                state.requires_grad_(h_wants)
            asked = [t for t in (x, *listed(hx), *cell.parameters()) if t.requires_grad]
            for which in range(len(listed(hx))):  # for an LSTM only h, then only c
                found.append(torch.autograd.grad(listed(cell(x, hx))[which].sum(), asked,
                                                 allow_unused=True))
        for want, have in zip(found[:len(found) // 2], found[len(found) // 2:]):
            for a, b in zip(want, have):
                torch.testing.assert_close(torch.zeros_like(b) if a is None else a, b)


@here
@kinds
@pytest.mark.parametrize("rows", [3, 9])
def test_threads_and_large_values(name, more, rows):
    """A product's error in F32 is at most some roundings of the sum of its absolute terms, and no function
    makes it larger."""
    theirs, ours = pair(name, more, 600, 500)
    x, hx = 1e3 * torch.randn(rows, 600), states(name, rows, 500)
    wide = [t.detach().double() for t in (x, *listed(hx))]
    terms = wide[0].abs() @ theirs.weight_ih.abs().double().T
    want = listed(copy.deepcopy(theirs).double()(wide[0], tuple(wide[1:]) if wide[2:] else wide[1]))
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for a, b in zip(want, listed(ours(x, hx))):
                torch.testing.assert_close(a, b.double(), rtol=0, atol=4 * 2**-24 * terms.max().item())
    finally:
        torch.set_num_threads(before)
    x[1, 2] = float("nan")
    for a, b in zip(listed(theirs(x, hx)), listed(ours(x, hx))):
        assert torch.equal(a.isnan(), b.isnan())


@here
@kinds
def test_weights_are_never_stale(name, more):
    theirs, ours = pair(name, more, 4, 8)
    x, hx = torch.randn(2, 4), states(name, 2, 8)
    ours(x, hx)
    for cell in (theirs, ours):
        cell.weight_ih.data.mul_(2)
        cell.bias_hh.data.numpy()[:] = 3
    for a, b in zip(listed(theirs(x, hx)), listed(ours(x, hx))):
        torch.testing.assert_close(a, b)


@kinds
def test_as_torch(name, more, steps):
    """Shapes, types, errors, copies: whatever the operator does not support is torch's."""
    theirs, ours = pair(name, more, 4, 8)
    assert isinstance(ours, type(theirs)) and repr(ours) == "ecornn.torch." + repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    one = states(name, 8)
    for args in [(torch.randn(4), None), (torch.randn(4), one), (torch.randn(3, 4), None),
                 (torch.randn(4, 3).t(), None), (torch.randn(0, 4), None),
                 (torch.randn(3, 4).bfloat16().float()[:, :4], states(name, 3, 8))]:
        for a, b in zip(listed(theirs(*args)), listed(ours(*args))):
            assert a.shape == b.shape
            torch.testing.assert_close(a, b)
    for args in [(torch.randn(2, 3, 4),), (torch.randn(3, 5),), (torch.randn(3, 4).double(),),
                 (torch.randn(3, 4), states(name, 2, 8)), (torch.randn(3, 4), states(name, 3, 7)),
                 (torch.randn(3, 4), 5), ("x",), (torch.zeros(3, 4, dtype=torch.int64),)]:
        with pytest.raises(Exception) as want:
            theirs(*args)
        with pytest.raises(type(want.value)) as have:
            ours(*args)
        assert str(have.value) == str(want.value)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    x = torch.randn(3, 4)
    for other in (copy.deepcopy(ours), torch.load(file, weights_only=False)):
        assert type(other) is type(ours)
        assert torch.equal(listed(other(x))[0], listed(ours(x))[0])
    for kind in (torch.float64, torch.bfloat16):
        a, b = theirs.to(kind)(x.to(kind)), ours.to(kind)(x.to(kind))
        assert torch.equal(listed(a)[0], listed(b)[0])
    theirs, ours = pair(name, more, 4, 8)
    count = len(steps)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a, b = theirs(x), ours(x)
    assert listed(a)[0].dtype == listed(b)[0].dtype and torch.equal(listed(a)[0], listed(b)[0])
    assert len(steps) == count


@here
@kinds
def test_transforms_and_second_gradients(name, more):
    theirs, ours = pair(name, more, 3, 4)
    x, hx = torch.randn(2, 3, requires_grad=True), states(name, 2, 4)
    found = []
    for cell in (theirs, ours):
        def f(x, cell=cell):
            return listed(cell(x, hx))[-1]

        g, = torch.autograd.grad(f(x).pow(2).sum(), x, create_graph=True)
        found.append([
            *torch.autograd.grad(g.pow(2).sum(), [x, cell.weight_hh]),
            torch.func.vmap(lambda x: listed(cell(x))[0])(torch.ones(5, 2, 3))
            if cell is ours else listed(cell(torch.ones(10, 3)))[0].view(5, 2, 4),
            torch.autograd.functional.jacobian(f, x, vectorize=True),
            torch.func.jvp(f, (x.detach(),), (torch.ones(2, 3),))[1],
            torch.autograd.grad(f(x), x, torch.eye(8).view(8, 2, 4), is_grads_batched=True)[0],
            torch.compile(cell, backend="eager", fullgraph=True)(x, hx)
            if name != "LSTMCell" else cell(x, hx)[0],
            listed(torch.jit.script(cell)(x, hx))[0],
            listed(torch.jit.trace(cell, (x, hx))(x, hx))[0]])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@here
@kinds
def test_replace_and_enabled(name, more, steps):
    cell, _ = pair(name, more, 4, 8)
    model = torch.nn.Sequential(cell)
    report = et.Report()
    assert type(et.replace(model, report)[0]) is getattr(et, name) and not report
    assert model[0].weight_ih is cell.weight_ih and report.swapped == 1
    x, hx = torch.randn(3, 4, requires_grad=True), states(name, 3, 8)
    want, scripted = gradients(cell, x, hx), torch.jit.script(cell)
    assert not steps
    with et.enabled():
        have, others = gradients(cell, x, hx), gradients(scripted, x, hx)
        with torch.no_grad():
            plain = listed(scripted(x, hx))
        with torch.inference_mode():
            listed(scripted(x, hx))
        assert len(steps) >= 6
    for a, b, c in zip(want, have, others):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(a, c, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(plain[0], listed(cell(x, hx))[0])
    count = len(steps)
    cell(x, hx)
    assert len(steps) == count
