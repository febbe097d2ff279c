"""The operator: compiled and exported graphs, fake tensors; torch.nn's own modules sent here."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

KINDS = ["LSTM", "GRU", "RNN"]
double = pytest.mark.usefixtures("double")


@pytest.fixture(autouse=True)
def compiles_anew():
    torch._dynamo.reset()


def _step(function, module, x, hx=None):
    x = x.clone().requires_grad_()
    y, _ = function(x, hx) if hx is not None else function(x)
    return [y, *torch.autograd.grad(y.pow(2).sum(), [x, *module.parameters()])]


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first,unbatched,given", [(0, 0, 0), (1, 0, 1), (0, 1, 1)])
def test_compile(kind, first, unbatched, given):
    module = getattr(et, kind)(3, 4, num_layers=2, bidirectional=True, batch_first=bool(first))
    x = torch.randn(5, 3) if unbatched else torch.randn(5, 2, 3)
    h = torch.randn(4, 4) if unbatched else torch.randn(4, 5 if first else 2, 4)
    hx = None if not given else (h, 2 * h) if kind == "LSTM" else h
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for want, have in zip(_step(module, module, x, hx), _step(compiled, module, x, hx)):
        assert torch.equal(want, have)


def test_compile_is_one_node():
    seen = []

    def backend(graph, _):
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    module = et.LSTM(3, 4, num_layers=3)
    torch.compile(module, fullgraph=True, backend=backend)(torch.randn(50, 2, 3))
    assert sum("layer" in str(target) for target in seen) == 1


def test_compile_in_a_model():
    model = torch.nn.Sequential()
    model.embed, model.rnn = torch.nn.Linear(3, 3), et.GRU(3, 4, num_layers=2, dropout=0.5)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return torch.relu(self.parts.rnn(torch.tanh(self.parts.embed(x)))[0])

    net = Net()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 2, 3)
    torch.manual_seed(1)
    first = compiled(x)
    torch.manual_seed(1)
    assert torch.equal(first, compiled(x)) and not torch.equal(first, compiled(x))
    net.eval()
    assert torch.allclose(compiled(x), net(x), atol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.allclose(compiled(x).float(), net(x).float(), atol=2e-2)


def test_export():
    module = et.LSTM(3, 4, num_layers=2).eval()
    x = torch.randn(5, 2, 3)
    program = torch.export.export(module, (x,))
    assert any("ecornn.layer" in str(node.target) for node in program.graph.nodes)
    assert torch.equal(program.module()(x)[0], module(x)[0])


@pytest.mark.parametrize("saving, limit", [("states", 0), ("every:2", 0), ("auto", 1 << 20)])
def test_what_is_saved_is_compiled_and_gives_the_same(saving, limit):
    module = et.LSTM(3, 4, num_layers=2)
    x = torch.randn(5, 2, 3)
    right = torch.autograd.grad(module(x)[0].square().sum(), module.parameters())
    module.saving, module.memory_limit = saving, limit
    for run in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
        found = torch.autograd.grad(run(x)[0].square().sum(), module.parameters())
        for ours, theirs in zip(found, right):
            assert torch.allclose(ours, theirs, atol=1e-5)


def test_what_is_saved_takes_less_memory():
    sizes = []
    for saving in ("all", "states", "every:8"):
        module = et.LSTM(32, 32)
        module.saving = saving
        y = module(torch.randn(64, 8, 32))[0]
        reserve = y.grad_fn.saved_tensors[-2]
        sizes.append(reserve.numel())
    assert sizes[0] > 3 * sizes[1] > 6 * sizes[2]


@pytest.mark.parametrize("saving", ["none", "every:0", "every:", "states:2", 3, None])
def test_what_cannot_be_saved_is_refused(saving):
    module = et.GRU(3, 4)
    module.saving = saving
    with pytest.raises(ValueError, match="saving is"):
        module(torch.randn(5, 2, 3))


def test_a_limit_too_small_names_the_least():
    module = et.LSTM(64, 64)
    module.memory_limit = 1000
    with pytest.raises((RuntimeError, ValueError), match="memory_limit"):
        module(torch.randn(50, 8, 64))


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        module = et.LSTM(3, 4, bidirectional=True, proj_size=2)
        y, (h, c) = module(torch.randn(5, 2, 3))
    assert (y.shape, h.shape, c.shape) == ((5, 2, 4), (2, 2, 2), (2, 2, 4))


def test_compiled_refuses():
    module = et.LSTM(3, 4)
    compiled = torch.compile(module, backend="aot_eager")
    with pytest.raises(Exception, match="initial state"):
        compiled(torch.randn(5, 2, 3), (torch.zeros(1, 3, 4), torch.zeros(1, 2, 4)))


# ---- torch.nn's own modules ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_enabled(kind, packed, runs):
    module = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(5, 3, 3, requires_grad=True)

    def given():
        if packed:
            return pack_padded_sequence(x, torch.tensor([5, 2, 4]), enforce_sorted=False)
        return x

    def step():
        y, _ = module(given())
        y = y.data if packed else y
        return [y, *torch.autograd.grad(y.pow(2).sum(), [x, *module.parameters()])]

    want = step()
    with et.enabled():
        have = step()
        assert len(runs) == 1
        with torch.no_grad():
            module(given())
        with torch.inference_mode():
            module(given())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            module(given())
        assert len(runs) == 4
    count = len(runs)
    step()
    assert len(runs) == count
    for a, b in zip(want, have):
        assert torch.allclose(a, b, atol=1e-5)


@double
def test_enabled_refuses_to_torch():
    module = torch.nn.LSTM(3, 4)
    x = torch.randn(5, 2, 3)
    want = module(x)[0]
    with et.enabled():
        with pytest.raises(RuntimeError, match="input.size"):
            module(torch.randn(5, 2, 4))
        with pytest.raises(RuntimeError):
            module(torch.randn(0, 2, 3))
        many = torch.func.vmap(lambda x: module(x)[0])(torch.stack([x, x]))
        assert torch.allclose(many[0], want, atol=1e-6)
        double = torch.nn.LSTM(2, 3).double()
        x = torch.randn(3, 2, 2, dtype=torch.double, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: double(x)[0], x)
        assert torch.autograd.gradgradcheck(lambda x: double(x)[0], x)


@double
def test_enabled_nests():
    module, x = torch.nn.GRU(3, 4), torch.randn(5, 2, 3)
    outer = et.enabled()
    with et.enabled():
        pass
    want = module(x)[0]
    outer.disable()
    outer.disable()
    assert torch.allclose(module(x)[0], want, atol=1e-6)


# ---- cells of one's own, and swapping -----------------------------------------------------------

CELLS = ["CoupledLSTM", "IndRNN", "LayerNormLSTM", "MGU", "PeepholeLSTM", "ResetFirstGRU",
         "ZoneoutLSTM"]


@pytest.mark.parametrize("name", CELLS)
def test_cells(name):
    import pickle

    module = getattr(et, name)(3, 4, num_layers=2, bidirectional=True).double().eval()
    x = torch.randn(4, 2, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: module(x)[0], (x, *module.parameters()))
    y = module(x)[0]
    with torch.no_grad():  # what runs with a gradient draws no more
        assert torch.allclose(module(x)[0], y)
    assert torch.equal(pickle.loads(pickle.dumps(module))(x)[0], y)
    assert torch.equal(torch.compile(module, fullgraph=True, backend="aot_eager")(x)[0], y)
    packed = module(pack_padded_sequence(x, torch.tensor([4, 2])))[0]
    assert packed.data.shape == (6, 8)
    module.train()
    module(x)[0].sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    if name in ("LayerNormLSTM", "ZoneoutLSTM"):
        with pytest.raises(NotImplementedError, match="more than 192 values|bernoulli"):
            one, = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
            torch.autograd.grad(one.sum(), x)
    else:
        assert torch.autograd.gradgradcheck(lambda x: module(x)[0], x, fast_mode=True)


@pytest.mark.parametrize("arguments,error", [
    (dict(), "cell is missing"), (dict(cell="mug"), "cell is 'mug', must be one of"),
    (dict(cell="cell a(h)\nh' = W y"), "2:8"),
    (dict(cell="mgu", hidden_size=0), "hidden_size is 0"),
    (dict(cell="mgu", dropout=2), "dropout is 2"), (dict(cell="mgu", proj_size=2), "projection")])
def test_recurrent_errors(arguments, error):
    arguments = {"input_size": 3, "hidden_size": 4, **arguments}
    with pytest.raises((ValueError, NotImplementedError), match=error):
        et.Recurrent(**arguments)(torch.randn(5, 2, 3))


def test_recurrent_input_errors():
    module = et.MGU(3, 4)
    for arguments in ((torch.randn(5, 2, 4),), (torch.randn(3),), (torch.randn(5, 2, 3).double(),),
                      (torch.randn(5, 2, 3), torch.zeros(1, 3, 4)), (torch.randn(0, 2, 3),)):
        with pytest.raises(ValueError, match="MGU takes x"):
            module(*arguments)


def test_replace():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.LSTM(3, 4)
            self.b = torch.nn.Sequential(torch.nn.GRU(4, 5), torch.nn.Linear(2, 2))
            self.c, self.again = torch.nn.LSTMCell(2, 2), self.a
            self.own = type("Own", (torch.nn.GRU,), {"forward": lambda self, x: x})(2, 2)

    net = Net()
    before, names = [id(p) for p in net.parameters()], list(net.state_dict())
    seen = []
    net.a.register_forward_hook(lambda *_: seen.append(1))
    report = et.Report()
    assert et.replace(net, report) is net and report.swapped == 3
    assert [name for name, _ in report] == ["own"] and "own" in str(report)
    assert net.again is net.a and type(net.a) is et.LSTM and type(net.b[0]) is et.GRU
    assert [id(p) for p in net.parameters()] == before and list(net.state_dict()) == names
    net.a(torch.randn(5, 2, 3))
    assert seen == [1]
    assert type(et.replace(torch.nn.RNN(2, 3, nonlinearity="relu").eval())) is et.RNN


def _described(model):
    """What must be the same after replace and restore; parameters and hooks as objects."""
    return [(name, type(module), module.training, module.extra_repr(), sorted(module.__dict__),
             list(map(id, module._forward_hooks.values())), [id(p) for p in module._parameters.values()])
            for name, module in model.named_modules(remove_duplicate=False)], list(model.state_dict())


def test_restore_is_the_inverse_of_replace():
    class Own(torch.nn.GRU):
        def forward(self, x, hx=None):
            return super().forward(2 * x, hx)

    model = torch.nn.ModuleList([
        torch.nn.LSTM(3, 4, 2, dropout=0.1, proj_size=2), Own(3, 4, bidirectional=True), torch.nn.RNN(3, 4, nonlinearity="relu"),
        torch.nn.LSTMCell(3, 4), torch.nn.GRUCell(3, 4), torch.nn.RNNCell(3, 4), torch.nn.GRU(3, 4), torch.nn.LSTM(3, 4)])
    model.append(model[0])
    model[7].weight_ih_l0 = torch.nn.Parameter(model[3].weight_ih)  # tied in memory
    torch.nn.utils.parametrizations.weight_norm(model[6], "weight_hh_l0")
    model[2].register_forward_hook(lambda *_: None)
    model[1].eval()
    x = torch.randn(5, 2, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before, model = _described(model), model.append(copy.deepcopy(model[6]))
    report = et.Report()
    assert et.replace(model) is model and isinstance(model[6], et.GRU) and isinstance(model[8], et.LSTM)
    model[7].saving = "every:2"
    want = [module(x)[0] for module in model[1:3]]
    model[6](x)[0].sum().backward()
    assert et.restore(model, report) is model and report == [] and report.swapped == 9
    assert type(model[9]) is type(model[6])
    del model[9]
    assert _described(model) == before
    for module, y in zip(model[1:3], want):
        torch.testing.assert_close(module(x)[0], y)
    right = model[6](x)[0]
    optimizer.step()
    assert (model[6](x)[0] != right).any()
    torch.nn.utils.parametrize.remove_parametrizations(model[6], "weight_hh_l0")
    assert type(model[6]) is torch.nn.GRU and type(et.restore(et.LSTM(3, 4))) is torch.nn.LSTM
    torch.jit.script(model[7])


def test_restore_names_what_only_ecornn_has():
    class Mine(et.LSTM):
        pass

    model = torch.nn.ModuleList([et.MGU(3, 4), Mine(3, 4), et.Ensemble(2, "lstm", 3, 4), et.GRU(3, 4),
                                 et.Net(3, "lstm/H4"), et.AdditiveAttention(3, 4, 5)])
    with pytest.warns(UserWarning, match="left what ecornn runs: 0: torch.nn has no MGU; 1: .*Mine is a subclass of "
                                         "ecornn's module; 2: .* Ensemble; 4: .* Net; 5: .* AdditiveAttention"):
        et.restore(model)
    assert type(model[3]) is torch.nn.GRU and type(model[1]) is Mine
    with pytest.warns(UserWarning, match="the model: torch.nn has no MGU"):
        et.restore(et.MGU(3, 4))
