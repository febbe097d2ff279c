"""The module in C: what it returns has the bits of what Python's own way returns."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ecornn.torch
from ecornn.torch import _native, _run

here = pytest.mark.skipif(_native._module is None, reason="no ecornn-torch.so for this torch")
LAYERS = [("LSTM", {}), ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 4}),
          ("GRU", {"batch_first": True}), ("GRU", {"bias": False, "num_layers": 3}),
          ("RNN", {"bidirectional": True}), ("LSTM", {"num_layers": 2, "dropout": 0.4})]


def gradients(module, x, states, lengths, dtype):
    """Everything that a training step makes."""
    torch.manual_seed(3)
    x = x.clone().requires_grad_()
    states = None if states is None else [state.clone().requires_grad_() for state in states]
    given = states if states is None or len(states) > 1 else states[0]
    y, final = module(x, given, lengths=lengths)
    final = final if isinstance(final, tuple) else (final,)
    loss = y.sin().sum() + sum(state.cos().sum() for state in final)
    asked = [x, *(states or ()), *module.parameters()]
    return [y, *final, *torch.autograd.grad(loss, asked)]


@here
@pytest.mark.parametrize("kind, more", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("given", [False, True])
def test_same_bits(kind, more, dtype, given, monkeypatch):
    torch.manual_seed(1)
    module = getattr(ecornn.torch, kind)(6, 7, **more).to(dtype)
    x = torch.randn(5, 5, 6, dtype=dtype)
    pairs = module.num_layers * (1 + module.bidirectional)
    states = [torch.randn(pairs, 5, width, dtype=dtype) for width in module._spec().widths]
    lengths = torch.tensor([5, 0, 3, 1, 4]) if given else None
    states = states if given else None
    first = gradients(module, x, states, lengths, dtype)
    calls = []
    for name in ("forward", "backward"):
        monkeypatch.setattr(_native, name, lambda *_: calls.append(0))
    monkeypatch.setattr(_native, "pack", lambda *_: False)
    with torch.no_grad():  # to be packed again
        for weight in module.parameters():
            weight.mul_(1)
    second = gradients(module, x, states, lengths, dtype)
    assert len(calls) == 2
    for one, other in zip(first, second):
        assert torch.equal(one, other)


@here
def test_wrong_numbers_make_no_job(monkeypatch):
    module = ecornn.torch.LSTM(3, 4)
    module(torch.randn(2, 1, 3))
    job = next(iter(module._spec().jobs.values()))
    assert job.native
    make = _native._module.ecornn_torch_job
    spec = module._spec()
    written, begin = [], _native.Handle.__init__
    monkeypatch.setattr(_native.Handle, "__init__", lambda self, numbers, keeps: (
        written.append(numbers), begin(self, numbers, keeps))[1])
    _native.handle(spec, job, torch.device("cpu"), 0, 0, 4, (2, 1, 3), (2, 1, 4),
                   [(1, 1, 4), (1, 1, 4)])
    numbers = written[0]

    def made(numbers):
        found = make((ctypes.c_int64 * len(numbers))(*numbers), len(numbers))
        _native._module.ecornn_torch_job_free(found)
        return found is not None

    assert made(numbers)
    assert not any(made(numbers[:count]) for count in range(len(numbers)))
    assert not made([*numbers, 0])
    for place in range(7, 15):  # types, sizes and counts
        if place in (9, 10, 14):  # steps, batch, an address
            continue
        for wrong in (-2, 1 << 40):
            assert not made([*numbers[:place], wrong, *numbers[place + 1:]]), place


def test_bits_are_those_of_the_header():
    header = Path(__file__).parents[1] / "native" / "operator.h"
    found = re.findall(r"(?:GIVEN|WANT)_(\w+) = 1 << (\d+)", header.read_text())
    bits = {name: 1 << int(shift) for name, shift in found}
    assert len(bits) == 10
    assert bits == {name: getattr(_native, name) for name in bits}


@here
def test_a_large_net_is_python_s():
    module = ecornn.torch.LSTM(2, 2, num_layers=51)  # 204 weights
    y, _ = module(torch.randn(2, 1, 2))
    y.sum().backward()
    assert not next(iter(module._spec().jobs.values())).native
    assert module.weight_hh_l50.grad.abs().sum() > 0


@here
def test_a_weight_of_another_shape_is_named():
    module = ecornn.torch.LSTM(3, 4)
    module(torch.randn(2, 1, 3))
    job = next(iter(module._spec().jobs.values()))
    weights = [torch.zeros(16, 3), torch.zeros(16, 5), torch.zeros(16), torch.zeros(16)]
    with pytest.raises(RuntimeError, match=r"weight_hh_l0 is \[16, 5\]"):
        _run.forward(module._spec(), job, torch.zeros(2, 1, 3), None, [None] * 2, weights, False,
                     0, True)


@pytest.mark.parametrize("module", ["none", "/nowhere/ecornn-torch.so"])
def test_without_it_python_does_all(module):
    code = ("import torch, ecornn.torch as et; from ecornn.torch import _native; "
            "assert _native._module is None; m = et.LSTM(3, 4); "
            "m(torch.randn(2, 1, 3))[0].sum().backward(); print(m.weight_hh_l0.grad.shape)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                         env={**os.environ, "ECORNN_TORCH_MODULE": module})
    assert run.stdout == "torch.Size([16, 4])\n", run.stderr
