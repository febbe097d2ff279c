"""Recurrent layers in int8 with torch's calls: near torch.nn's, with errors at most 1.05 of torch's own."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
from torch.nn.utils.rnn import pack_sequence  # noqa: E402

import ecornn.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = [("LSTM", {}), ("LSTM", {"batch_first": True, "bidirectional": True, "num_layers": 2, "bias": False}),
         ("GRU", {"bidirectional": True, "num_layers": 2}), ("LSTM", {"proj_size": 20, "num_layers": 2}),
         ("RNN", {"nonlinearity": "relu"})]


def flat(result):
    if isinstance(result, torch.Tensor):
        return result.detach().ravel()
    parts = [result.data] if hasattr(result, "batch_sizes") else result
    return torch.cat([flat(part) for part in parts])


def error(ours, right):
    return float((flat(ours) - flat(right)).square().mean().sqrt())


@pytest.mark.parametrize("kind,more", KINDS)
def test_results_are_near(kind, more):
    torch.manual_seed(1)
    module = getattr(torch.nn, kind)(30, 40, **more)
    ours = ecornn.torch.quantize_dynamic(module)
    x = torch.randn(7, 3, 30)
    states = [torch.randn_like(part) * 0.3 for part in (
        module(x)[1] if kind == "LSTM" else [module(x)[1]])]
    hx = tuple(states) if kind == "LSTM" else states[0]
    packed = pack_sequence([torch.randn(t, 30) for t in (4, 9, 2)], enforce_sorted=False)
    few = tuple(state[:, :3 if not module.batch_first else 3] for state in states)
    few = few if kind == "LSTM" else few[0]
    alone = tuple(state[:, 0] for state in states) if kind == "LSTM" else states[0][:, 0]
    for given in [(x,), (x, hx), (packed,), (packed, few), (x[:, 0], alone)]:
        right = module(*given)
        found = ours(*given)
        assert flat(found).shape == flat(right).shape
        assert 0 < error(found, right) < 0.02 * float(flat(right).square().mean().sqrt())
    assert torch.equal(flat(ours(torch._neg_view(-x))), flat(ours(x)))
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert torch.equal(flat(other(x)), flat(ours(x)))
    other = ecornn.torch.quantize_dynamic(getattr(torch.nn, kind)(30, 40, **more))
    other.load_state_dict(ours.state_dict())
    assert torch.equal(flat(other(x)), flat(ours(x)))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_models_that_torch_quantised(kind):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = getattr(torch.nn, kind)(16, 24), torch.nn.Linear(24, 5)

        def forward(self, x):
            return self.head(self.rnn(x)[0])

    torch.manual_seed(2)
    net, x = Net(), torch.randn(20, 4, 16)
    theirs = torch.ao.quantization.quantize_dynamic(net, {getattr(torch.nn, kind), torch.nn.Linear})
    ours = ecornn.torch.quantize_dynamic(theirs)
    assert type(ours.head) is type(theirs.head) and type(theirs.rnn) is not type(ours.rnn)
    assert error(ours.rnn(x)[0], net.rnn(x)[0]) <= 1.05 * error(theirs.rnn(x)[0], net.rnn(x)[0])
    exact = ecornn.Layer(kind.lower(), 16, 24)
    exact.load(theirs.rnn)
    weights = ecornn.torch.quantize_dynamic(theirs, "int8-weights")
    torch.testing.assert_close(weights.rnn(x)[0], torch.from_numpy(exact(x.numpy())[0]), rtol=0, atol=2e-6)


def test_what_is_refused():
    with pytest.raises(TypeError, match="module is Linear"):
        ecornn.torch.Quantized(torch.nn.Linear(2, 2))
    module = ecornn.torch.quantize_dynamic(torch.nn.GRU(3, 4))
    with pytest.raises(ecornn.BadArgument, match="x is float64, must be float32"):
        module(torch.zeros(2, 2, 3, dtype=torch.float64))
    for name in ("int4", "bf16", "f32", None):
        with pytest.raises(ecornn.BadArgument, match="weights is .*, must be int8 or int8-weights"):
            ecornn.torch.quantize_dynamic(torch.nn.Linear(2, 2), name)
        with pytest.raises(ecornn.BadArgument, match="weights is .*, must be int8 or int8-weights"):
            ecornn.torch.Quantized(None, name)
    with pytest.raises(ecornn.BadArgument, match="initial has 0 states"):
        ecornn.torch.quantize_dynamic(torch.nn.LSTM(3, 4))(torch.zeros(2, 2, 3), ())


class Own(torch.nn.GRU):
    def forward(self, x, hx=None):
        y, h = super().forward(x, hx)
        return y + 1, h


def test_subclasses_stay():
    changed = torch.nn.GRU(3, 4)
    changed.forward = lambda x, hx=None: None
    for module in (Own(3, 4), changed):
        with pytest.raises(TypeError, match="no subclass, without a forward of its own"):
            ecornn.torch.Quantized(module)
        with pytest.warns(UserWarning, match=rf"as they are: 1 \({type(module).__name__}\)"):
            model = ecornn.torch.quantize_dynamic(torch.nn.Sequential(torch.nn.Identity(), module))
        assert type(model[1]) is type(module)
    assert isinstance(ecornn.torch.quantize_dynamic(ecornn.torch.GRU(3, 4)), ecornn.torch.Quantized)


def test_hooks_and_sizes_stay():
    module, seen = torch.nn.LSTM(3, 4, 2, batch_first=True, dropout=0.5, proj_size=2, bidirectional=True), []
    module.register_forward_pre_hook(lambda module, given: seen.append("before"))
    module.register_forward_hook(lambda module, given, made: (made[0] * 0, made[1]))
    module.register_forward_pre_hook(
        lambda module, given, named: (given, {**named, "lengths": [2, 5]}), with_kwargs=True)
    ours = ecornn.torch.quantize_dynamic(torch.nn.ModuleList([module, module]))
    assert ours[0] is ours[1]
    assert not ours[0](torch.ones(2, 5, 3))[0].any() and seen == ["before"]
    for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
                 "proj_size"):
        assert getattr(ours[0], name) == getattr(module, name)


@pytest.mark.parametrize("kind,more", KINDS[1:3])
def test_lengths(kind, more):
    ours = ecornn.torch.quantize_dynamic(getattr(torch.nn, kind)(30, 40, **more))
    parts = [torch.randn(t, 30) for t in (4, 9, 2)]
    padded = torch.nn.utils.rnn.pad_sequence(parts, more.get("batch_first", False))
    y, final = ours(padded, lengths=[4, 9, 2])
    packed = ours(pack_sequence(parts, enforce_sorted=False))
    right = torch.nn.utils.rnn.pad_packed_sequence(packed[0], more.get("batch_first", False))[0]
    assert torch.equal(y, right) and torch.equal(flat(final), flat(packed[1]))
    with pytest.raises(ValueError, match="lengths has 10, must be 0 to 9"):
        ours(padded, lengths=[4, 10, 2])


def test_traces():
    model, x = torch.nn.Sequential(ecornn.torch.quantize_dynamic(torch.nn.GRU(3, 4))), torch.randn(5, 2, 3)
    for run in (torch.jit.trace(model, x[:2]), torch.fx.symbolic_trace(model),
                torch.compile(model, fullgraph=True, backend="aot_eager")):
        torch.testing.assert_close(run(x)[0], model(x)[0], rtol=0, atol=0)
