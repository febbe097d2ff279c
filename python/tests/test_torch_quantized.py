"""Recurrent layers in int8 with torch's calls: near torch.nn's, as near as torch's own or nearer."""

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
