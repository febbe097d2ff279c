"""stop(a) of a text: spikes against a loop of torch with derivatives of its own."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import functional_call, jvp

import ecornn.torch as et

LIF = """cell lif(s, u)
u' = {} * u + W x + R s + b - stop(s)
v  = u' - 1
s' = select(v, 1, 0) + stop({}) * (v - stop(v))
"""
SLOPES = [("1 / ((1 + 25 * abs(v)) * (1 + 25 * abs(v)))", lambda v: (1 + 25 * v.abs()) ** -2),
          ("1 / (1 + 9.869604401089358 * v * v)", lambda v: 1 / (1 + (math.pi * v) ** 2)),
          ("relu(1 - abs(v))", lambda v: (1 - v.abs()).clamp(min=0)), ("1", torch.ones_like)]


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, slope):
        ctx.slope = slope(v.detach())
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, d):
        return d * ctx.slope, None


def loop(x, weights, decay, slope):
    w, r, b = weights
    s = u = torch.zeros(x.shape[1], len(b), dtype=x.dtype, device=x.device)
    rows = []
    for each in x:
        u = decay * u + each @ w.T + s @ r.T + b - s.detach()
        s = Spike.apply(u - 1, slope)
        rows.append(s)
    return torch.stack(rows)


@pytest.mark.parametrize("text, slope", SLOPES)
@pytest.mark.parametrize("saving", ["all", "states", "every:4"])
def test_spikes(text, slope, saving, device):
    module = et.Recurrent(4, 7, cell=LIF.format(0.75, text), saving=saving).double().to(device)
    x = 3 * torch.randn(9, 5, 4, dtype=torch.double, device=device, requires_grad=True)
    inputs, dy = [x, *module.parameters()], torch.randn(9, 5, 7, dtype=torch.double, device=device)
    want = loop(x, inputs[1:], 0.75, slope)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for run in (module, compiled) if saving == "all" else (module,):
        y = run(x)[0]
        assert torch.equal(y, want) and 0.05 < y.mean() < 0.95
        for a, b in zip(torch.autograd.grad(y, inputs, dy), torch.autograd.grad(want, inputs, dy, retain_graph=True)):
            assert torch.allclose(a, b, rtol=1e-11, atol=1e-11)


def test_spikes_in_16_bits(device):
    module = et.Recurrent(4, 7, cell=LIF.format(0.5, "relu(1 - abs(v))")).to(device)
    x = torch.randint(-16, 17, (9, 5, 4), device=device) / 8
    for p in module.parameters():  # sums of these numbers are exact
        p.data = torch.randint(-8, 9, p.shape, device=device) / 8
    want = loop(x, list(module.parameters()), 0.5, SLOPES[2][1])
    want_d = torch.autograd.grad(want.sum(), module.parameters())
    module.to(torch.bfloat16)
    y = module(x.to(torch.bfloat16))[0]
    assert torch.equal(y, want.to(torch.bfloat16)) and 0 < y.mean() < 1
    for a, b in zip(torch.autograd.grad(y.sum(), module.parameters()), want_d):
        assert torch.allclose(a.float(), b, rtol=0.02, atol=0.02 * b.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_what_only_stop_reads(dtype, device):
    """Gradients of 0 are written, and tangents are 0; second gradients hold what is stopped."""
    text = "cell only(h)\nk = stop(sigmoid(W x + R h + b))\nh' = k * h + k * stop(p) * W x\n"
    module = et.Recurrent(4, 7, cell=text).to(device, dtype)
    x = torch.randn(6, 5, 4, dtype=dtype, device=device)
    weights = dict(module.named_parameters())
    module(x)[0].sum().backward()
    assert [bool(p.grad.any()) for p in weights.values()] == [name.startswith("weight_ih") for name in weights]
    assert not module.weight_ih_l0.grad[:7].any() and module.weight_ih_l0.grad[7:].all()
    stopped = {name: torch.ones_like(p) for name, p in weights.items()}
    stopped["weight_ih_l0"][7:] = 0
    assert not jvp(lambda given: functional_call(module, given, (x,))[0], (weights,), (stopped,))[1].any()
    one, = torch.autograd.grad(module(x.requires_grad_())[0].sum(), x, create_graph=True)
    assert not torch.autograd.grad(one.sum(), x)[0].any()
