"""Resets inside a sequence: results, gradients and errors, against the sequence cut into pieces."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402


def tuple_of(states):
    return states if isinstance(states, tuple) else (states,)


def cut(layer, x, hx, resets, start):
    """The reference, one step at a time: [T,N,I], forward in time."""
    y, states = [], tuple_of(hx)
    for step, reset in zip(x, resets):
        mask = (reset != 0)[None, :, None]
        states = tuple(torch.where(mask, new, old) for new, old in zip(start, states))
        out, states = layer(step[None], states if len(states) > 1 else states[0])
        states = tuple_of(states)
        y.append(out)
    return torch.cat(y), states


def case(kind, device, **options):
    layer = getattr(et, kind)(3, 5, **options).to(device)
    x = torch.randn(9, 4, 3, device=device, requires_grad=True)
    resets = torch.rand(9, 4, device=device) < 0.3
    count = 2 if kind == "LSTM" else 1
    rows = options.get("num_layers", 1)
    hx = tuple(torch.randn(rows, 4, 5, device=device, requires_grad=True) for _ in range(count))
    start = tuple(torch.randn(rows, 1, 5, device=device, requires_grad=True) for _ in range(count))
    return layer, x, hx, resets, start


def gradients(y, final, inputs):
    torch.manual_seed(1)
    loss = sum((out * torch.randn_like(out)).sum() for out in (y, *tuple_of(final)))
    return torch.autograd.grad(loss, inputs, allow_unused=True)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_equals_steps(kind, device):
    layer, x, hx, resets, start = case(kind, device)
    given = hx if len(hx) > 1 else hx[0]
    y, final = layer(x, given, resets=resets, reset_state=start if len(start) > 1 else start[0])
    inputs = [x, *hx, *start, *layer.parameters()]
    found = gradients(y, final, inputs)
    wanted_y, wanted_final = cut(layer, x, given, resets, start)
    wanted = gradients(wanted_y, wanted_final, inputs)
    torch.testing.assert_close(y, wanted_y)
    for a, b in zip(tuple_of(final), wanted_final):
        torch.testing.assert_close(a, b)
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b)


def test_starts_are_zeros(device):
    layer, x, hx, resets, _ = case("GRU", device, num_layers=1)
    with torch.no_grad():
        y, h = layer(x, hx[0], resets=resets.to(torch.int64))
        wanted, final = cut(layer, x, hx[0], resets, (torch.zeros_like(hx[0]),))
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(h, final[0])


def test_batch_first_and_lengths():
    layer, x, _, resets, _ = case("LSTM", "cpu", num_layers=2)
    turned = et.LSTM(3, 5, num_layers=2, batch_first=True)
    turned.load_state_dict(layer.state_dict())
    lengths = torch.tensor([9, 4, 0, 7])
    y, final = layer(x, lengths=lengths, resets=resets)
    other, other_final = turned(x.transpose(0, 1), lengths=lengths, resets=resets.T)
    assert torch.equal(y, other.transpose(0, 1))
    assert all(torch.equal(a, b) for a, b in zip(final, other_final))


def test_a_step_without_reset_is_as_before():
    layer, x, hx, resets, start = case("GRU", "cpu")
    y, h = layer(x, hx[0], resets=torch.zeros_like(resets))
    wanted, final = layer(x, hx[0])
    assert torch.equal(y, wanted) and torch.equal(h, final)
    with pytest.raises(ValueError, match="reset_state is given"):
        layer(x, reset_state=start[0])


def test_any_cell():
    layer = et.MGU(3, 4, bidirectional=True)
    x, resets = torch.randn(6, 2, 3, requires_grad=True), torch.rand(6, 2) < 0.4
    y, _ = layer(x, resets=resets)
    y.sum().backward()
    assert y.shape == (6, 2, 8) and x.grad is not None


def test_errors():
    layer, x, hx, resets, start = case("GRU", "cpu")
    with pytest.raises(ValueError, match=r"resets has shape \[9, 3\], must be \[9, 4\]"):
        layer(x, resets=resets[:, :3])
    with pytest.raises(ValueError, match=r"reset_state is .*, must be"):
        layer(x, resets=resets, reset_state=hx[0][:, :3])
    with pytest.raises(ValueError, match=r"hx is .*, must be"):
        layer(x, hx[0][:, :3], resets=resets)
    with pytest.raises(ValueError, match="not packed"):
        layer(torch.nn.utils.rnn.pack_sequence([x[:, 0]]), resets=resets)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_both_directions_keep_episodes_apart(kind, device):
    layer = getattr(et, kind)(3, 5, num_layers=2, bidirectional=True).to(device)
    x, first = torch.randn(9, 1, 3, device=device, requires_grad=True), [0, 4, 5]
    resets = torch.zeros(9, 1, dtype=torch.bool, device=device)
    resets[first] = True
    y = layer(x, resets=resets)[0]
    cut = torch.cat([layer(part)[0] for part in x.split([4, 1, 4])])
    dy = torch.randn_like(y)
    torch.testing.assert_close(y, cut)
    torch.testing.assert_close(*(torch.autograd.grad(out, x, dy)[0] for out in (y, cut)))
