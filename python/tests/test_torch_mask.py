"""Masked steps: results and gradients against a loop over the steps."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402


def tuple_of(states):
    return states if isinstance(states, tuple) else (states,)


def loop(layer, x, hx, mask):
    """The reference, one step at a time: [T,N,I], forward in time."""
    y, states = [], tuple_of(hx)
    last = torch.zeros(x.shape[1], layer.hidden_size, device=x.device)
    for step, counts in zip(x, mask):
        out, new = layer(step[None], states if len(states) > 1 else states[0])
        last = torch.where(counts[:, None], out[0], last)
        states = tuple(torch.where(counts[None, :, None], a, b)
                       for a, b in zip(tuple_of(new), states))
        y.append(last)
    return torch.stack(y), states


def gradients(y, final, inputs):
    torch.manual_seed(1)
    loss = sum((out * torch.randn_like(out)).sum() for out in (y, *tuple_of(final)))
    return torch.autograd.grad(loss, inputs)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_equals_steps(kind, device):
    layer = getattr(et, kind)(3, 5).to(device)
    x = torch.randn(9, 4, 3, device=device, requires_grad=True)
    hx = [torch.randn(1, 4, 5, device=device, requires_grad=True)
          for _ in range(2 if kind == "LSTM" else 1)]
    mask = torch.rand(9, 4, device=device) < 0.6
    given = tuple(hx) if len(hx) > 1 else hx[0]
    y, final = layer(x, given, mask=mask)
    wanted_y, wanted_final = loop(layer, x, given, mask)
    inputs = [x, *hx, *layer.parameters()]
    torch.testing.assert_close(y, wanted_y)
    for a, b in zip(tuple_of(final), wanted_final):
        torch.testing.assert_close(a, b)
    for a, b in zip(gradients(y, final, inputs), gradients(wanted_y, wanted_final, inputs)):
        torch.testing.assert_close(a, b)


def test_left_padding_is_as_none():
    layer = et.GRU(3, 5, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(2, 6, 3)
    x[1, :2] = float("nan")
    mask = torch.ones(2, 6)
    mask[1, :2] = 0
    y, h = layer(x, mask=mask)
    short, short_h = layer(x[1:, 2:])
    torch.testing.assert_close(y[1:, 2:], short)
    torch.testing.assert_close(h[:, 1:], short_h)
    assert torch.equal(y[1, 0, 5:], y[1, 2, 5:]) and not y[1, :2, :5].any()


def test_padding_repeats():
    layer = et.LSTM(3, 5, bidirectional=True)
    x, lengths = torch.randn(5, 2, 3), torch.tensor([5, 2])
    y, _ = layer(x, lengths=lengths, repeat_padding=True)
    plain, _ = layer(x, lengths=lengths)
    assert torch.equal(y[:2], plain[:2]) and torch.equal(y[:, 0], plain[:, 0])
    assert torch.equal(y[3, 1, :5], y[1, 1, :5]) and not y[2:, 1, 5:].any()


def test_errors():
    layer, x = et.GRU(3, 5), torch.randn(4, 2, 3, requires_grad=True)
    with pytest.raises(ValueError, match=r"mask has shape \[2, 4\], must be \[4, 2\]"):
        layer(x, mask=torch.ones(2, 4))


def test_all_states(device):
    layer = et.LSTM(3, 5, num_layers=2).to(device)
    x = torch.randn(4, 2, 3, device=device, requires_grad=True)
    y, final, (h, c) = layer(x, all_states=True)
    assert torch.equal(h[1], y) and torch.equal(h[:, -1], final[0]) and torch.equal(c[:, -1], final[1])
    weight = torch.randn_like(c)
    inputs = [x, *layer.parameters()]
    found = torch.autograd.grad((c * weight).sum() + h[0].sum() + y.sum(), inputs)
    total, states = 0, None
    for t in range(4):
        out, states = layer(x[t:t + 1], states)
        total = total + (states[1] * weight[:, t]).sum() + states[0][0].sum() + out.sum()
    for a, b in zip(found, torch.autograd.grad(total, inputs)):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        assert torch.equal(layer(x, all_states=True)[2][1], c)
