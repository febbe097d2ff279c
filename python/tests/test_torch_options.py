"""Every combination of torch.nn's options: the same values, gradients, types and shapes."""

from __future__ import annotations

import itertools
import os

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as ecornn_torch  # noqa: E402
from ecornn.torch import _packing  # noqa: E402

# Relative to the largest value: two runs of one type round differently.  F32 is compared with torch's F64,
# since cuDNN's sigmoid and tanh of F32 are off by up to 2.5e-5 on a GPU.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-10, torch.bfloat16: 6e-2, torch.float16: 1e-2}
T, N, I, H, P = 6, 4, 5, 7, 3


def _states(kind, layers, both, proj, unbatched, dtype, device):
    first = (layers * (2 if both else 1),) + ((),  (N,))[not unbatched]
    h = torch.randn(*first, proj or H, dtype=dtype, device=device)
    if kind != "LSTM":
        return h
    return h, torch.randn(*first, H, dtype=dtype, device=device)


def _run(module, x, hx, packed, dtype=None):
    """All results of a training step; of x and hx as dtype, if given."""
    x = x.to(dtype, copy=True).requires_grad_()
    given = x
    if packed:
        given = torch.nn.utils.rnn.pack_padded_sequence(
            x, torch.tensor([3, 6, 1, 4]), batch_first=module.batch_first, enforce_sorted=False)
    if hx is not None:
        hx = (tuple(s.to(dtype, copy=True).requires_grad_() for s in hx) if isinstance(hx, tuple)
              else hx.to(dtype, copy=True).requires_grad_())
    y, final = module(given, hx)
    final = final if isinstance(final, tuple) else (final,)
    y = y.data if packed else y
    weight = torch.linspace(0, 1, y.numel(), device=y.device).view(y.shape)
    wide = torch.float64 if y.dtype == torch.float64 else torch.float32
    loss = (y.to(wide) * weight).sum() + sum((s.to(wide) ** 2).sum() for s in final)
    loss.backward()
    states = () if hx is None else hx if isinstance(hx, tuple) else (hx,)
    found = [y, *final, x.grad, *(s.grad for s in states), *(p.grad for p in module.parameters())]
    module.zero_grad()
    return found


# In 16 bits, rounding may change the sign of a value near 0, which relu shows.
KINDS = [(kind, dtype) for kind in ("LSTM", "GRU", "RNN", "RNN-relu") for dtype in TOLERANCE
         if kind != "RNN-relu" or dtype not in (torch.bfloat16, torch.float16)]


@pytest.mark.parametrize("kind, dtype", KINDS)
def test_options(kind, dtype, device, monkeypatch):
    """packed: 2: the packed rows run in pieces.  Each day half of the types run a combination."""
    relu = kind == "RNN-relu"
    kind = kind[:4].rstrip("-")
    options = itertools.product([1, 2], [0, 1], [0, 1], [0, 1], [0, P], [0, 1], [0, 1], [0, 1, 2])
    count, share = 0, 1 if os.environ.get("ECORNN_TESTS") == "all" else 2
    for layers, both, bias, first, proj, given, unbatched, packed in options:
        if proj and kind != "LSTM" or packed and unbatched:
            continue
        if (sum((layers, both, bias, first, bool(proj), given, packed)) + list(TOLERANCE).index(dtype)) % share:
            continue
        options = dict(num_layers=layers, bidirectional=bool(both), bias=bool(bias),
                       batch_first=bool(first), dtype=dtype, device=device)
        if proj:
            options["proj_size"] = proj
        if relu:
            options["nonlinearity"] = "relu"
        limits = _packing.Limits(0 if packed == 2 else 1 << 60, 0, 0, 32, 1)
        monkeypatch.setattr(_packing, "LIMITS", dict.fromkeys(_packing.LIMITS, limits))
        theirs = getattr(torch.nn, kind)(I, H, **options)
        ours = getattr(ecornn_torch, kind)(I, H, **options)
        ours.load_state_dict(theirs.state_dict())
        theirs.load_state_dict(ours.state_dict())
        exact = torch.float64 if dtype == torch.float32 else dtype
        theirs.to(exact)
        shape = (T, I) if unbatched else (N, T, I) if first else (T, N, I)
        x = torch.randn(*shape, dtype=dtype, device=device)
        hx = _states(kind, layers, both, proj, unbatched, dtype, device) if given else None
        expected, found = _run(theirs, x, hx, packed, exact), _run(ours, x, hx, packed)
        for k, (want, have) in enumerate(zip(expected, found)):
            what = (k, options, given, unbatched, packed)
            assert have.dtype == dtype and have.shape == want.shape, what
            limit = TOLERANCE[dtype] * max(1.0, float(want.detach().double().abs().max()))
            error = float((have.detach().double() - want.detach().double()).abs().max())
            assert error <= limit, what
        count += 1
    print("cases:", count)
