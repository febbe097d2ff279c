"""The module in C: its results have the bits of those computed by way of Python."""

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
    """All results and gradients of a training step."""
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
    module.flatten_parameters()  # to be packed again
    second = gradients(module, x, states, lengths, dtype)
    assert len(calls) == 2
    for one, other in zip(first, second):
        assert torch.equal(one, other)


@here
def test_wishes_of_another_version_make_no_job():
    module = ecornn.torch.LSTM(3, 4)
    module(torch.randn(2, 1, 3))
    job = next(iter(module._spec().jobs.values()))
    assert job.native
    for size in (0, ctypes.sizeof(_native.Wish) - 8, ctypes.sizeof(_native.Wish) + 8):
        wish = _native.Wish(plan=job.plan.handle, desc=ctypes.pointer(job.plan.desc), cell=b"lstm", bias=1,
                            steps=2, batch=1)
        number = _native._module.ecornn_torch_job(wish)
        assert size != wish.size and number > 0
        _native._module.ecornn_torch_job_free(number)
        wish.size = size
        assert _native._module.ecornn_torch_job(wish) == 0
    assert _native.Handle(_native.Wish(plan=job.plan.handle, desc=ctypes.pointer(job.plan.desc),
                                       cell=b"lstm", steps=1 << 20, batch=1), None).number == 0


def test_bits_are_those_of_the_header():
    header = Path(__file__).parents[1] / "native" / "operator.h"
    found = re.findall(r"(?:GIVEN|WANT)_(\w+) = 1 << (\d+)", header.read_text())
    bits = {name: 1 << int(shift) for name, shift in found}
    assert len(bits) == 12
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
        _run.forward(job, _run.Given(torch.zeros(2, 1, 3), None, [None] * 2, weights), False, 0, True)


def test_without_it_python_does_all():
    """And defines the same operator."""
    code = ("import torch, ecornn.torch as et; from ecornn.torch import _native; "
            "assert _native._module is None; m = et.LSTM(3, 4); "
            "m(torch.randn(2, 1, 3))[0].sum().backward(); print(m.weight_hh_l0.grad.shape); "
            "print(torch.ops.ecornn.layer.default._schema)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                         env={**os.environ, "ECORNN_TORCH_MODULE": "none"})
    assert run.stdout == f"torch.Size([16, 4])\n{torch.ops.ecornn.layer.default._schema}\n", run.stderr


def test_one_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("ECORNN_TORCH_MODULE", "/nowhere/it.so")
    with pytest.raises(ImportError, match="no ecornn-torch.so: looked at /nowhere/it.so "):
        _native._load()


# ---- tensors that are not what they should be ---------------------------------------------------


def a_job(device="cpu"):
    """A layer, its job, and tensors that the operators take."""
    torch.manual_seed(0)
    module = ecornn.torch.LSTM(30, 64).to(device)
    x = torch.randn(50, 8, 30, device=device)
    with torch.enable_grad():
        module(x)
    job = module._again[True].job
    weights = [weight.detach() for weight in module.parameters()]
    states = [torch.randn(1, 8, 64, device=device) for _ in "hc"]
    lengths = torch.full((8,), 50, dtype=torch.int32, device=device)
    return module, job, x, states, lengths, weights


GIVEN = _native.LENGTHS | _native.STATE | _native.STATE << 1 | _native.RESERVE | _native.WEIGHTS


def odd(tensor):
    """The tensor at an address that is not a multiple of its elements' bytes."""
    plain = tensor.contiguous().view(-1).view(torch.uint8)
    return torch.frombuffer(bytearray([0, *plain.tolist()]), dtype=tensor.dtype, offset=1).view(tensor.shape)


def wrong_ones(tensor):
    """Wrong tensors of the same device: another type, count, rank or strides, or too few bytes."""
    yield tensor.to(torch.float64 if tensor.dtype != torch.float64 else torch.float32)
    yield tensor[..., :-1].contiguous()
    yield tensor[None]
    yield tensor.new_empty(0)
    yield tensor.flatten()[:1].view((1,) * tensor.dim()).expand(tensor.shape)
    yield torch.stack([tensor, tensor], -1)[..., 0]
    yield odd(tensor)
    yield torch._efficientzerotensor(tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)


@here
def test_operators_refuse_what_they_would_read_wrongly():
    module, job, x, states, lengths, weights = a_job()
    tensors = [x, lengths, *states, *weights]
    run = torch.ops.ecornn_native.forward
    right = run(job.native, GIVEN, tensors, 0)
    assert len(right) == 5
    for k, tensor in enumerate(tensors):
        for wrong in wrong_ones(tensor):
            assert run(job.native, GIVEN, [*tensors[:k], wrong, *tensors[k + 1:]], 0) == []
        assert k == 0 or run(job.native, GIVEN, tensors[:k], 0) == []
    assert run(job.native, GIVEN, [*tensors, x], 0) == []
    y, h, c, reserve, packed = right
    given = (_native.PACKED | _native.LENGTHS | _native.STATE | _native.STATE << 1 | _native.Y
             | _native.DY | _native.DFINAL | _native.DFINAL << 1 | _native.DX | _native.DWEIGHTS)
    tensors = [x, reserve, packed, y, lengths, *states, torch.randn_like(y), h, c]
    back = torch.ops.ecornn_native.backward
    assert len(back(job.native, given, tensors, 0)) == 5
    for k, tensor in enumerate(tensors):
        for wrong in wrong_ones(tensor):
            assert back(job.native, given, [*tensors[:k], wrong, *tensors[k + 1:]], 0) == []
        assert k == 0 or back(job.native, given, tensors[:k], 0) == []
    pack = torch.ops.ecornn_native.pack
    assert pack(job.native, packed, weights)
    for wrong in list(wrong_ones(packed))[:-1]:  # a zero tensor is written to: torch refuses it
        assert not pack(job.native, wrong, weights)
    for wrong in wrong_ones(weights[1]):
        assert not pack(job.native, packed, [weights[0], wrong, *weights[2:]])


@here
def test_numbers_that_are_no_job():
    module, job, x, states, lengths, weights = a_job()
    tensors, packed = [x, lengths, *states, *weights], torch.empty(job.plan.weights, dtype=torch.uint8)
    gone = job.native
    for number in (0, 1, -1, gone + 1, gone + (1 << 20), gone - (1 << 20), 1 << 62, -(1 << 63),
                   id(job), x.data_ptr()):
        assert torch.ops.ecornn_native.forward(number, GIVEN, tensors, 0) == []
        assert torch.ops.ecornn_native.backward(number, GIVEN, tensors, 0) == []
        assert not torch.ops.ecornn_native.pack(number, packed, weights)
    job.handle.__del__()
    assert torch.ops.ecornn_native.forward(gone, GIVEN, tensors, 0) == []
    job.handle.number = 0


@here
def test_any_bits_of_what_is_given():
    module, job, x, states, lengths, weights = a_job()
    random = torch.Generator().manual_seed(1)
    pool = [x, lengths, *states, *weights, *torch.ops.ecornn_native.forward(
        job.native, GIVEN, [x, lengths, *states, *weights], 0)]
    for _ in range(2000):
        bits, count = (int(torch.randint(0, high, (), generator=random)) for high in (2**21, 13))
        chosen = [pool[int(k)] for k in torch.randint(0, len(pool), (count + 1,), generator=random)]
        torch.ops.ecornn_native.forward(job.native, bits, chosen, 0)
        torch.ops.ecornn_native.backward(job.native, bits, chosen, 0)


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN", "Recurrent", "Ensemble", "Net"])
@pytest.mark.parametrize("native", [False, True])
def test_zero_tensors_are_zeros(kind, native, monkeypatch):
    if not native:
        monkeypatch.setattr(_native, "forward", lambda *_: None)
        monkeypatch.setattr(_native, "backward", lambda *_: None)
    torch.manual_seed(0)
    made = {"Recurrent": lambda: ecornn.torch.Recurrent(30, 64, cell="mgu"),
            "Ensemble": lambda: ecornn.torch.Ensemble(2, "gru", 30, 64),
            "Net": lambda: ecornn.torch.Net(30, "gru/H64")}
    module = made.get(kind, lambda: getattr(ecornn.torch, kind)(30, 64))()
    shape = (1, 8, 64) if kind != "Ensemble" else (2, 1, 8, 64)

    def call(x, h):
        if kind == "Net":
            return module(x, None, [(h,)])[0]
        return module(x, (h, h) if kind == "LSTM" else h)[0]

    def zero(shape):
        return torch._efficientzerotensor(tuple(shape))

    x, h = torch.randn(50, 8, 30), torch.randn(shape)
    with torch.no_grad():
        assert torch.equal(call(zero(x.shape), h), call(torch.zeros(x.shape), h))
        assert torch.equal(call(x, zero(shape)), call(x, torch.zeros(shape)))
        turned = torch._neg_view(x.neg())  # the same numbers, their signs not yet turned
        assert torch.equal(call(turned, h), call(x, h))
        assert torch.equal(call(odd(x), odd(h)), call(x, h))
    x.requires_grad_()
    y = call(x, h)
    y.backward(zero(y.shape))
    assert x.grad.abs().max() == 0
