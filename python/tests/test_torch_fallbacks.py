"""Calls that torch's own code runs are counted with a reason; subclasses run or are named there."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from abc import ABC, abstractmethod

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch.nn.utils import parametrizations, parametrize  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402


class Forecaster(ABC, torch.nn.RNNBase):
    """A subclass like the RNN of pytorch-forecasting."""

    @abstractmethod
    def kind(self):
        ...

    def forward(self, x, hx=None, lengths=None):
        if lengths is None:
            return super().forward(x, hx=hx)
        out, state = super().forward(pack_padded_sequence(x, lengths, enforce_sorted=False), hx=hx)
        return out.data, state


class ForecastingLSTM(Forecaster, torch.nn.LSTM):
    def kind(self):
        return "lstm"


class Sized(torch.nn.GRU):
    def __init__(self, size):
        super().__init__(size, size, batch_first=True)


class Doubling(torch.nn.RNN):
    def forward(self, x, hx=None):
        y, state = super(Doubling, self).forward(x, hx)
        return 2 * y, state


class Aside(torch.nn.LSTM):
    def forward(self, x):
        return torch.nn.LSTM.forward(self, x)


def replaced(module):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = et.replace(torch.nn.Sequential(module))
    return model, [str(one.message) for one in found]


@pytest.mark.parametrize("make", [lambda: ForecastingLSTM(3, 4, 2), lambda: Sized(3),
                                  lambda: Doubling(3, 4)])
def test_subclasses_are_taken(make, runs):
    theirs, x = make(), torch.randn(5, 2, 3)
    want = theirs(x)[0]
    model, said = replaced(theirs)
    ours = model[0]
    assert not said and isinstance(ours, type(theirs)) and isinstance(ours, et.modules._Layers)
    runs.clear()
    torch.testing.assert_close(ours(x)[0], want)
    assert len(runs) == 1 and model.state_dict().keys() == {"0." + k for k in theirs.state_dict()}
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)),
                  torch.load(file, weights_only=False)):
        assert type(other[0]) is type(ours)
        torch.testing.assert_close(other[0](x)[0], want)
    torch.testing.assert_close(torch.compile(ours, backend="aot_eager")(x)[0], want)
    if isinstance(theirs, ForecastingLSTM):
        lengths = torch.tensor([3, 5])
        torch.testing.assert_close(ours(x, lengths=lengths)[0], theirs(x, lengths=lengths)[0])
        assert ours.kind() == "lstm"


def test_others_are_named():
    model, said = replaced(Aside(3, 4))
    assert type(model[0]) is Aside and len(said) == 1
    assert "test_torch_fallbacks.Aside has a forward that does not call super().forward" in said[0]


def test_parametrised_modules_are_taken(runs):
    lstm, x = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)
    parametrizations.weight_norm(lstm, "weight_hh_l0")
    want = lstm(x)[0]
    model, said = replaced(lstm)
    assert not said and isinstance(model[0], et.LSTM)
    torch.testing.assert_close(model[0](x)[0], want)
    assert len(runs) == 1
    parametrize.remove_parametrizations(model[0], "weight_hh_l0")
    assert type(model[0]) is et.LSTM
    torch.testing.assert_close(model[0](x)[0], want)


def test_fallbacks_are_counted():
    x, lstm = torch.zeros(5, 2, 3), torch.nn.LSTM(3, 4, 2, dropout=1.0)
    et.fallbacks(reset=True)
    et.LSTM(3, 4)(x)
    assert et.fallbacks() == {}
    et.replace(lstm)(x.as_subclass(type("Own", (torch.Tensor,), {})))
    et.GRU(3, 4, device="meta")(x.to("meta"))
    torch.jit.trace(et.GRU(3, 4), x, check_trace=False)
    et.LSTMCell(3, 4).double()(x[0].double())
    with et.enabled():
        lstm(x)
    module = et.LSTM(3, 4, proj_size=2)
    grad = torch.func.grad
    grad(lambda v: grad(lambda v: module(v)[0].pow(2).sum())(v).pow(2).sum())(x)
    found = et.fallbacks(reset=True)
    assert found.pop("gradient of a gradient (create_graph=True) with a projection") > 0
    assert found == {"dropout is 1": 2, "x is on meta": 1, "torch.jit.trace": 1,
                     "a cell of torch.float64 on cpu": 1}
    assert et.fallbacks() == {}
