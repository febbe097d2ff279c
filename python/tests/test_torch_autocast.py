"""Autocast: y and each final state have the types of torch.nn's, whatever is given."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
ONEDNN = torch.ops.mkldnn  # says which types torch's LSTM may have in oneDNN on this processor
LACKED = [kind for kind, there in ((BF16, ONEDNN._is_mkldnn_bf16_supported()),
                                   (F16, ONEDNN._is_mkldnn_fp16_supported() and torch.__version__ >= (2, 5))) if not there]
PAIRS = [(F32, F32), (BF16, F32), (F16, F32), (F32, BF16), (BF16, BF16), (F64, F64), (F64, F32)]


def _types(module, x, hx):
    """The types of y and the final states; None if the call is refused."""
    try:
        y, final = module(x, hx)
    except (RuntimeError, ValueError):
        return None
    y = y if torch.is_tensor(y) else y.data
    return [tensor.dtype for tensor in (y, *(final if isinstance(final, tuple) else (final,)))]


def _given(kind, x_type, states, device, packed, proj):
    x = torch.randn(4, 3, 5, device=device).to(x_type)
    if packed:
        x = pack_padded_sequence(x, torch.tensor([4, 2, 1]))
    if states is None:
        return x, None
    h, c = (torch.zeros(1, 3, width, dtype=states, device=device) for width in (proj or 6, 6))
    return x, (h, c) if kind == "LSTM" else h


@pytest.mark.parametrize("kind, proj, packed", [
    (kind, proj, packed) for kind in ("LSTM", "GRU", "RNN") for proj in (0, 2)
    for packed in (False, True) if kind == "LSTM" or not proj])
def test_types(kind, proj, packed, device):
    more = {"proj_size": proj} if proj else {}
    taken = 0
    for x_type, params in PAIRS:
        theirs = getattr(torch.nn, kind)(5, 6, dtype=params, device=device, **more)
        ours = getattr(et, kind)(5, 6, dtype=params, device=device, **more)
        for lower, states, grad in itertools.product(
                [None, BF16, F16], [None, F32, BF16, F64], [0, 1] if x_type is F16 else [1]):
            if device == "cuda" and lower is BF16:
                continue  # torch.nn casts to F16 there, because cuDNN once had no other type
            x, hx = _given(kind, x_type, states, device, packed, proj)
            with torch.set_grad_enabled(bool(grad)), torch.autocast(
                    device, dtype=lower or BF16, enabled=lower is not None):
                want, have = _types(theirs, x, hx), _types(ours, x, hx)
            case = (x_type, params, lower, states, grad)
            if (device == "cpu" and kind == "LSTM" and not (packed or proj or grad and x_type is F16)
                    and lower and {lower, x_type} & {*LACKED} and F64 not in (x_type, params, states)):
                want = [lower] * 3  # as where oneDNN has it; here torch fails, or takes another way
            if want is not None:
                assert have == want, case
                taken += 1
            elif device == "cpu" and F16 not in (x_type, params, lower, states):
                assert have is None, case  # torch may lack an F16 kernel for this CPU
    assert taken > 12


@pytest.mark.parametrize("kind, packed", [("LSTM", False), ("LSTM", True), ("GRU", False), ("GRU", True)])
def test_values_and_gradients(kind, packed):
    """Near torch's in double. Torch's own type decides nothing: an LSTM without lengths has BF16 in oneDNN."""
    ours = getattr(et, kind)(5, 6)
    exact = getattr(torch.nn, kind)(5, 6, dtype=F64)
    exact.load_state_dict(ours.state_dict())
    for x_type in (F32, BF16):
        x, _ = _given(kind, x_type, None, "cpu", packed, 0)
        found = []
        for module, given in ((exact, x.to(F64)), (ours, x)):
            with torch.autocast("cpu", dtype=BF16, enabled=module is ours):
                y, final = module(given)
            y = y if torch.is_tensor(y) else y.data
            state = final[1] if kind == "LSTM" else final
            loss, own = y.float().sum() + state.float().pow(2).sum(), list(module.parameters())
            once, again = [torch.autograd.grad(loss, own, None, True, more) for more in (0, 1)]
            found.append([y, state, *once, *torch.autograd.grad(again[1].sum(), own)])
        for a, b in zip(*found):
            torch.testing.assert_close(a, b.double(), rtol=0.05, atol=0.05)
