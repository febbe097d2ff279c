"""Arguments of a module: those that torch lacks go by name, and nothing is cut silently."""

from __future__ import annotations

import inspect

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

KINDS = ["LSTM", "GRU", "RNN"]
T, N, I, H = 5, 3, 4, 6
NOT_INTEGERS = [torch.tensor([1.0, 0.8, 0.5]), [9.9, 2.7, 1.0], torch.tensor([True, False, True]),
                torch.tensor([1, 2, 3], dtype=torch.complex64)]
TAKERS = {
    "LSTM": lambda lengths: et.LSTM(I, H)(torch.zeros(T, N, I), lengths=lengths),
    "MGU": lambda lengths: et.MGU(I, H)(torch.zeros(T, N, I), lengths=lengths),
    "with a mask": lambda lengths: et.GRU(I, H)(torch.zeros(T, N, I), lengths=lengths,
                                                mask=torch.ones(T, N)),
    "Net": lambda lengths: et.Net(I, "lstm/H4")(torch.zeros(T, N, I), lengths),
    "output_lengths": lambda lengths: et.Net(I, "lstm/H4; join:2; gru/H4").output_lengths(lengths),
    "Ensemble": lambda lengths: et.Ensemble(2, "gru", I, H)(torch.zeros(T, N, I), None, lengths),
    "attention": lambda lengths: et.attention(torch.zeros(T, N, I), torch.zeros(T, N, I),
                                              torch.zeros(T, N, I), torch.zeros(I), lengths=lengths)}


@pytest.mark.parametrize("lengths", NOT_INTEGERS, ids=str)
@pytest.mark.parametrize("name", list(TAKERS))
def test_lengths_are_integers(name, lengths):
    with pytest.raises(ValueError, match="lengths is torch.*must be of integers"):
        TAKERS[name](lengths)


@pytest.mark.parametrize("name", list(TAKERS))
def test_lengths_of_any_integers(name):
    for lengths in ([1, 2, 3], torch.tensor([1, 2, 3], dtype=torch.int16), (torch.tensor(1), 2, 3)):
        TAKERS[name](lengths)


def test_compiled_lengths_are_integers():
    module = torch.compile(et.GRU(I, H), backend="eager")
    with pytest.raises(ValueError, match="must be of integers"):
        module(torch.zeros(T, N, I), lengths=NOT_INTEGERS[0])


@pytest.mark.parametrize("name", ["mask", "resets"])
def test_floats_of_steps_are_0_or_1(name):
    module, x = et.LSTM(I, H), torch.randn(T, N, I)
    steps = torch.randint(0, 2, (T, N))
    want = module(x, **{name: steps.bool()})[0]
    for good in (steps, steps.float(), 3 * steps):
        assert torch.equal(module(x, **{name: good})[0], want)
    for bad in (steps - 0.5, torch.full((T, N), float("-inf")), steps * float("nan")):
        with pytest.raises(ValueError, match=f"{name} has .*floats must be 0 or 1"):
            module(x, **{name: bad})


def test_lengths_of_packed_rows_are_refused():
    packed = pack_padded_sequence(torch.zeros(T, N, I), [5, 3, 1])
    for make in (et.LSTM, et.MGU):
        with pytest.raises(ValueError, match="lengths"):
            make(I, H)(packed, lengths=[5, 3, 1])


@pytest.mark.parametrize("make", [et.LSTM, et.GRU, et.RNN, et.MGU, et.PeepholeLSTM])
def test_what_torch_has_not_goes_by_name(make):
    module, x = make(I, H), torch.zeros(T, N, I)
    with pytest.raises(TypeError, match="positional"):
        module(x, None, [1, 2, 3])
    order = list(inspect.signature(make).parameters.values())
    named = [p.name for p in order if p.kind is p.KEYWORD_ONLY]
    assert set(named) >= {"saving", "memory_limit"}


@pytest.mark.parametrize("make", [et.PeepholeLSTM, et.CoupledLSTM, et.ResetFirstGRU, et.MGU,
                                  et.IndRNN, et.LayerNormLSTM, et.ZoneoutLSTM])
def test_positions_are_those_of_torch(make):
    theirs = torch.nn.LSTM(I, H, 2, False, True, 0.25, True)
    ours = make(I, H, 2, False, True, 0.25, True)
    for name in ("num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert not any(name.startswith("bias") for name, _ in ours.named_parameters())
    assert "bias=False, batch_first=True" in repr(ours)
    ours.eval()
    other = make(I, H, 2, True, True, 0.25, True).eval()
    for name, value in other.named_parameters():
        with torch.no_grad():
            value.copy_(getattr(ours, name)) if not name.startswith("bias") else value.zero_()
    x = torch.randn(N, T, I)
    y = ours(x)[0]
    assert torch.equal(y, other(x)[0])
    for a, b in zip(torch.autograd.grad(y.sum(), list(ours.parameters())),
                    torch.autograd.grad(other(x)[0].sum(), [
                        p for name, p in other.named_parameters() if not name.startswith("bias")])):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["bias", "batch_first", "bidirectional"])
def test_flags_are_bools(name):
    with pytest.raises(TypeError, match=f"{name} is 1, must be a bool"):
        et.MGU(I, H, **{name: 1})


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "MGU"])
def test_states_of_another_type_are_refused(kind, packed):
    module = getattr(et, kind)(I, H)
    x = torch.zeros(T, N, I)
    x = pack_padded_sequence(x, [5, 3, 1]) if packed else x
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        h = torch.zeros(1, N, H, dtype=dtype)
        with pytest.raises((RuntimeError, ValueError)):
            module(x, (h, h) if kind == "LSTM" else h)
    h = torch.zeros(1, N, H)
    module(x, (h, h) if kind == "LSTM" else h)


@pytest.mark.parametrize("make", [et.LSTM, et.GRU, et.RNN, et.MGU,
                                  lambda *a, **k: et.Recurrent(*a, cell="slstm", **k),
                                  lambda *a, **k: et.Ensemble(2, "gru", *a, **k)])
def test_constructors_check_what_is_kept(make):
    module = make(I, H, saving="every:2")
    assert module.saving == "every:2" and "saving='every:2'" in repr(module)
    for bad, kind in (({"saving": "evry:2"}, ValueError), ({"saving": None}, ValueError),
                      ({"memory_limit": -1}, ValueError), ({"memory_limit": 1.5}, (TypeError,
                                                                                   ValueError))):
        with pytest.raises(kind, match=next(iter(bad))):
            make(I, H, **bad)
    assert "saving" not in repr(make(I, H))


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_of_torch(kind):
    ours = getattr(et, kind)(I, H)
    assert isinstance(ours, getattr(torch.nn, kind))
    assert repr(ours) == f"ecornn.torch.{kind}({I}, {H})"
    theirs = getattr(torch.nn, kind)(I, H)
    report = et.Report()
    et.replace(torch.nn.Sequential(ours, theirs), report)
    assert report == [] and report.swapped == 1
    torch._dynamo.reset()

    class Mine(getattr(et, kind)):
        pass

    x = torch.randn(T, N, I)
    for module in (ours, Mine(I, H), torch.nn.Sequential(ours)):
        compiled = torch.compile(module, fullgraph=True, backend="eager")
        assert torch.equal(compiled(x)[0], module(x)[0])


def test_replace_names_what_stays():
    class Own(torch.nn.LSTM):
        def forward(self, x):
            return torch.nn.LSTM.forward(self, x)

    model = torch.nn.Sequential(torch.nn.LSTM(I, H), Own(I, H), torch.nn.GRU(I, H, device="meta"))
    with pytest.warns(UserWarning, match="left.*1: .*Own has.*; 2: .* on meta"):
        et.replace(model)
    assert type(model[0]) is et.LSTM and type(model[1]) is Own
    with pytest.warns(UserWarning, match="left.*the model: "):
        et.replace(Own(I, H))


def test_quantisation_is_warned_of():
    model = torch.nn.Sequential(et.LSTM(I, H)).eval()
    with pytest.warns(UserWarning, match="quantise before ecornn.torch.replace"):
        torch.ao.quantization.quantize_dynamic(model, {torch.nn.LSTM}, dtype=torch.qint8)


def test_dropout_of_one_layer_is_warned_of():
    for make in (et.LSTM, et.MGU):
        with pytest.warns(UserWarning, match="dropout"):
            make(I, H, dropout=0.5)


def test_what_help_and_dir_say():
    import ecornn

    for module in (ecornn, et):
        assert not {"Any", "annotations", "importlib", "TYPE_CHECKING"} & set(dir(module))
        assert set(module.__all__) <= set(dir(module))
    for name in KINDS:
        kind = getattr(et, name)
        arguments = inspect.signature(kind).parameters.values()
        assert all(a.annotation is not a.empty and a.kind is not a.VAR_POSITIONAL
                   for a in arguments)
    for word in ("input_size", "proj_size", "saving", "memory_limit", "Raises", "[L*D,N,P]"):
        assert word in et.LSTM.__doc__


@pytest.mark.parametrize("make", [*(lambda kind=kind: getattr(et, kind)(I, H) for kind in KINDS),
                                  lambda: et.MGU(I, H), lambda: et.Ensemble(2, "lstm", I, H)])
@pytest.mark.parametrize("what", ["double", "half", "load", "assign"])
def test_parameters_may_be_swapped(make, what):
    module, x = make(), torch.ones(T, N, I)
    module(x)[0].sum().backward()
    with torch.no_grad():
        module(x)
    module.zero_grad()
    other = make().state_dict()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        if what in ("double", "half"):
            getattr(module, what)()
            x = getattr(x, what)()
        else:
            module.load_state_dict(other, assign=what == "assign")
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    fresh = make().to(x.dtype)
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(module(x)[0], fresh(x)[0])
    if what not in ("double", "half"):
        assert all(torch.equal(value, other[name]) for name, value in module.state_dict().items())
