"""What a module of torch.nn does besides computing: errors, copies, parametrisations, transforms."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from ecornn.torch import _net_plan, _run, _spec  # noqa: E402
from ecornn.torch._spec import Layers, spec_of  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

KINDS = ["LSTM", "GRU", "RNN"]
double = pytest.mark.usefixtures("double")


def pair(kind, *args, **kwargs):
    theirs, ours = getattr(torch.nn, kind)(*args, **kwargs), getattr(et, kind)(*args, **kwargs)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("kind", KINDS)
def test_runs_by_the_library(kind, runs):
    _, ours = pair(kind, 3, 4)
    ours(torch.randn(5, 2, 3))
    assert len(runs) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arguments", [
    dict(input_size=0, hidden_size=4), dict(input_size=3, hidden_size=0),
    dict(input_size=3, hidden_size=4, num_layers=0), dict(input_size=3, hidden_size=4, dropout=2),
    dict(input_size=3.5, hidden_size=4), dict(input_size=3, hidden_size=4, bias=1),
    dict(input_size=3, hidden_size=4, batch_first=0),
    dict(input_size=3, hidden_size=4, proj_size=4),
    dict(input_size=3, hidden_size=4, proj_size=-1), dict(input_size=3),
    dict(input_size=3, hidden_size=4, nonlinearity="sigmoid")])
def test_constructor_errors(kind, arguments):
    try:
        getattr(torch.nn, kind)(**arguments)
    except Exception as theirs:
        with pytest.raises(type(theirs)):
            getattr(et, kind)(**arguments)
    else:
        pytest.skip("this torch takes it")


def _calls(kind):
    two = kind == "LSTM"

    def states(*shape):
        return (torch.zeros(*shape), torch.zeros(*shape)) if two else torch.zeros(*shape)

    x = torch.randn(5, 2, 3)
    return [(torch.randn(3),), (torch.randn(5, 2, 4),), (torch.randn(5, 2, 2, 3),),
            (x, states(2, 2, 4)), (x, states(1, 3, 4)), (x, states(1, 4)), (x, states(1, 2, 5)),
            (x.double(),), (x.long(),), (torch.randn(0, 2, 3),), (x[:, 0], states(1, 1, 4)),
            (x.half(),), (pack_padded_sequence(torch.randn(5, 2, 4), torch.tensor([5, 2])),)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", range(len(_calls("GRU"))))
def test_forward_errors(kind, call):
    theirs, ours = pair(kind, 3, 4)
    arguments = _calls(kind)[call]
    with pytest.raises(Exception) as error:
        theirs(*arguments)
    with pytest.raises(error.type) as ours_error:
        ours(*arguments)
    assert str(ours_error.value) == str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_copies(kind):
    theirs, ours = pair(kind, 3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(5, 2, 3)
    y, _ = ours(x)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)),
                  torch.load(file, weights_only=False)):
        assert torch.equal(other(x)[0], y)
        assert repr(other) == "ecornn.torch." + repr(theirs)
        with torch.no_grad():
            other.weight_ih_l0.zero_()
        assert not torch.equal(other(x)[0], y)
    assert torch.equal(ours(x)[0], y)


def test_conversions():
    theirs, ours = pair("LSTM", 3, 4)
    x = torch.randn(5, 2, 3)
    for dtype in (torch.double, torch.bfloat16, torch.half, torch.float):
        assert ours.to(dtype)(x.to(dtype))[0].dtype == dtype
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert ours.all_weights[0][0] is ours.weight_ih_l0
    meta = et.LSTM(3, 4, device="meta")
    assert meta(torch.empty(5, 2, 3, device="meta"))[0].shape == (5, 2, 4)
    assert meta.to_empty(device="cpu")(x)[0].shape == (5, 2, 4)


@double
@pytest.mark.parametrize("parametrize", ["weight_norm", "spectral_norm"])
def test_parametrisations(parametrize):
    theirs, ours = pair("LSTM", 3, 4)
    x = torch.randn(5, 2, 3)
    for module in (theirs, ours):
        torch.manual_seed(1)
        getattr(torch.nn.utils.parametrizations, parametrize)(module, "weight_hh_l0")
        module.eval()
    for _ in range(2):
        assert torch.allclose(theirs(x)[0], ours(x)[0], atol=1e-6)
        for module in (theirs, ours):
            module.zero_grad()
            module(x)[0].sum().backward()
        for want, have in zip(theirs.parameters(), ours.parameters()):
            assert torch.allclose(want.grad, have.grad, atol=1e-5)
        with torch.no_grad():
            for a, b in zip(theirs.parameters(), ours.parameters()):
                a.mul_(1.1)
                b.mul_(1.1)


def test_hooked_weight_norm_and_shared_weights():
    ours = torch.nn.utils.weight_norm(et.LSTM(3, 4), "weight_hh_l0")
    ours(torch.randn(5, 2, 3))[0].sum().backward()
    assert all(p.grad is not None for p in ours.parameters())
    first, second = et.GRU(4, 4), et.GRU(4, 4)
    second.weight_hh_l0 = first.weight_hh_l0
    x = torch.randn(5, 2, 4)
    before = second(x)[0]
    with torch.no_grad():
        first.weight_hh_l0.add_(1)
    assert not torch.equal(before, second(x)[0])


def test_weights_that_change():
    """Every way to write to a parameter is seen."""
    ours = et.LSTM(3, 4)
    x = torch.randn(5, 2, 3)

    def changes(write):
        before = ours(x)[0]
        with torch.no_grad():
            before_too = ours(x)[0]
        assert torch.equal(before, before_too)
        write()
        with torch.no_grad():
            assert not torch.equal(ours(x)[0], before)
        assert not torch.equal(ours(x)[0], before)

    with torch.no_grad():
        changes(lambda: ours.weight_hh_l0.mul_(2))
    changes(lambda: ours.weight_hh_l0.data.mul_(2))
    changes(lambda: ours.bias_hh_l0.data[1:2].add_(1))
    changes(lambda: ours.weight_ih_l0.detach().numpy().__setitem__((0, 0), 3.0))
    changes(lambda: setattr(ours, "weight_ih_l0", torch.nn.Parameter(torch.randn(16, 3))))
    changes(lambda: setattr(ours.weight_ih_l0, "data", torch.randn(16, 3)))
    changes(lambda: ours.load_state_dict(et.LSTM(3, 4).state_dict()))
    ours(x)[0].sum().backward()
    changes(torch.optim.Adam(ours.parameters(), lr=0.1).step)
    big = et.LSTM(64, 128)
    x = torch.randn(2, 1, 64)
    with torch.no_grad():
        before = big(x)[0]
        big.weight_hh_l0.data.mul_(2)
        big.weight_ih_l0.data.mul_(2)
        assert not torch.equal(before, big(x)[0])


def test_weights_changed_before_backward():
    ours = et.LSTM(3, 4)
    y, _ = ours(torch.randn(5, 2, 3, requires_grad=True))
    with torch.no_grad():
        ours.weight_ih_l0.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_graph_kept():
    ours = et.LSTM(3, 4, num_layers=2)
    x = torch.randn(5, 2, 3, requires_grad=True)
    loss = ours(x)[0].pow(2).sum()
    first = torch.autograd.grad(loss, [x, *ours.parameters()], retain_graph=True)
    ours(x)[0].sum().backward()  # another run in between
    second = torch.autograd.grad(loss, [x, *ours.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@double
def test_partial_gradients():
    theirs, ours = pair("LSTM", 3, 4, num_layers=2)
    x = torch.randn(5, 2, 3)
    for module in (theirs, ours):
        module.weight_hh_l0.requires_grad_(False)
        module.bias_ih_l1.requires_grad_(False)
        module(x)[1][1].sum().backward()  # c alone
    for want, have in zip(theirs.parameters(), ours.parameters()):
        assert (want.grad is None) == (have.grad is None)
        assert want.grad is None or torch.allclose(want.grad, have.grad, atol=1e-5)


@double
def test_strides_and_views():
    theirs, ours = pair("GRU", 3, 4)
    wide = torch.randn(2, 5, 6)
    for x in (wide.transpose(0, 1)[..., ::2], wide[..., :3].transpose(0, 1),
              torch.randn(5, 1, 3).expand(5, 2, 3)):
        assert torch.allclose(theirs(x)[0], ours(x)[0], atol=1e-6)
    h = torch.randn(1, 1, 4).expand(1, 2, 4)
    assert torch.allclose(theirs(x, h)[0], ours(x, h)[0], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_empty(kind):
    _, ours = pair(kind, 3, 4)
    x = torch.randn(5, 0, 3, requires_grad=True)
    y, _ = ours(x)
    assert y.shape == (5, 0, 4)
    y.sum().backward()
    assert not ours.weight_ih_l0.grad.any() and x.grad.shape == x.shape


@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(kind):
    _, ours = pair(kind, 3, 4, num_layers=2, bidirectional=True)
    ours = ours.double()
    x = torch.randn(4, 2, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: ours(x)[0], (x, *ours.parameters()))
    assert torch.autograd.gradgradcheck(lambda x: ours(x)[0], x)
    one = getattr(et, kind)(2, 3).double()
    lengths = torch.tensor([4, 2])

    def packed(data):
        return one(pack_padded_sequence(data, lengths))[0].data

    x = torch.randn(4, 2, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(packed, x) and torch.autograd.gradgradcheck(packed, x)


def test_dropout():
    ours = et.LSTM(3, 16, num_layers=2, dropout=0.5)
    x = torch.randn(5, 2, 3)
    torch.manual_seed(1)
    first = ours(x)[0]
    second = ours(x)[0]
    torch.manual_seed(1)
    assert torch.equal(first, ours(x)[0]) and not torch.equal(first, second)
    with torch.no_grad():
        torch.manual_seed(1)
        assert torch.equal(first, ours(x)[0])
    ours.eval()
    assert torch.equal(ours(x)[0], ours(x)[0])
    whole = et.LSTM(3, 4, num_layers=2, dropout=1.0)
    assert torch.equal(whole(x)[0][0, 0], whole(x)[0][0, 1])  # the result does not depend on x


def test_checkpointing():
    ours = et.LSTM(3, 4, num_layers=2, dropout=0.5)
    x = torch.randn(5, 2, 3, requires_grad=True)
    found = []
    for use in (True, False):
        torch.manual_seed(3)
        y = (torch.utils.checkpoint.checkpoint(lambda x: ours(x)[0], x, use_reentrant=False)
             if use else ours(x)[0])
        found.append(torch.autograd.grad(y.sum(), x)[0])
    assert torch.equal(*found)


@double
def test_transforms():
    theirs, ours = pair("LSTM", 3, 4)
    x = torch.randn(5, 2, 3)

    def loss(module):
        return lambda x: module(x)[0].pow(2).sum()

    assert torch.allclose(torch.func.grad(loss(theirs))(x), torch.func.grad(loss(ours))(x),
                          atol=1e-6)
    many = torch.func.vmap(lambda x: ours(x)[0])(torch.stack([x, 2 * x]))
    assert torch.allclose(many[1], theirs(2 * x)[0], atol=1e-6)
    zero = {name: torch.zeros_like(p) for name, p in ours.named_parameters()}
    assert not torch.func.functional_call(ours, zero, (x,))[0].any()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        assert torch.autograd.forward_ad.unpack_dual(ours(dual)[0]).tangent is not None
    assert torch.allclose(torch.jit.trace(ours, (x,))(x)[0], theirs(x)[0], atol=1e-6)
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(ours))
    assert "call_module" in [node.op for node in traced.graph.nodes]
    assert torch.equal(traced(x)[0], ours(x)[0])


def test_saved_tensors():
    ours, x = et.LSTM(3, 4, num_layers=2), torch.randn(5, 2, 3, requires_grad=True)
    want = torch.autograd.grad(ours(x)[0].pow(2).sum(), [x, *ours.parameters()])
    with torch.autograd.graph.save_on_cpu():
        have = torch.autograd.grad(ours(x)[0].pow(2).sum(), [x, *ours.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(want, have))


def test_hooks():
    ours = et.GRU(3, 4)
    seen = []
    ours.register_forward_hook(lambda *_: seen.append("forward"))
    ours.register_full_backward_hook(lambda *_: seen.append("backward"))
    ours.weight_ih_l0.register_hook(lambda g: seen.append("gradient"))
    ours(torch.randn(5, 2, 3, requires_grad=True))[0].sum().backward()
    assert sorted(seen) == ["backward", "forward", "gradient"]


def test_autocast():
    x = torch.randn(5, 2, 3)
    for kind in KINDS:
        theirs, ours = pair(kind, 3, 4)
        want = theirs.double()(x.double())[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            have = ours(x)[0]
        lower = torch.float32 if kind == "GRU" else torch.bfloat16  # as torch's; GRU's h stays
        assert have.dtype == lower and torch.allclose(want, have.double(), atol=2e-2)
        have.float().sum().backward()
        assert ours.weight_ih_l0.grad.dtype == torch.float32


def test_threads(in_threads):
    ours = et.LSTM(8, 16, num_layers=2)
    x = torch.randn(7, 3, 8)
    want = ours(x)[0]

    def work(_):
        for _ in range(50):
            assert torch.equal(ours(x)[0], want)
            ours(x)[0].sum().backward()

    in_threads(work)


@double
@pytest.mark.parametrize("lengths", [[3, 5], [0, 5], [5, 1]])
def test_lengths(lengths):
    theirs, ours = pair("LSTM", 3, 4, bidirectional=True)
    x = torch.randn(5, 2, 3)
    y, (h, _) = ours(x, lengths=torch.tensor(lengths))
    if 0 not in lengths:
        packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        want, (wanted, _) = theirs(packed)
        want, _ = torch.nn.utils.rnn.pad_packed_sequence(want, total_length=5)
        assert torch.allclose(y, want, atol=1e-6) and torch.allclose(h, wanted, atol=1e-6)
    for row, length in enumerate(lengths):
        assert not y[length:, row].any()
    with pytest.raises(ValueError, match="lengths has 6, must be 0 to 5"):
        ours(x, lengths=torch.tensor([6, 1]))
    with pytest.raises(ValueError, match=r"shape \[3\], must be \[2\]"):
        ours(x, lengths=torch.tensor([1, 1, 1]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_batch_sizes_that_increase_are_refused(kind):
    rows = torch.nn.utils.rnn.PackedSequence(torch.randn(7, 3), torch.tensor([2, 3, 2]))
    for layer in pair(kind, 3, 4):
        with pytest.raises(RuntimeError):
            layer(rows)


def test_wrong_tensors_are_refused():
    """No memory outside the tensors is read."""
    x = torch.randn(5, 2, 3)
    for wrong in (torch.randn(15, 3), torch.randn(16, 2), torch.randn(16, 3).double()):
        ours = et.LSTM(3, 4, num_layers=2)
        ours.weight_ih_l0 = torch.nn.Parameter(wrong)
        with pytest.raises((RuntimeError, ValueError)):
            ours(x)
    ours = et.LSTM(3, 4)
    ours.bias_hh_l0 = torch.nn.Parameter(torch.randn(4))
    with pytest.raises(RuntimeError, match=r"bias_hh_l0 is \[4\], .* must be \[16\]"):
        ours(x)
    ours = et.LSTM(3, 4, num_layers=2)
    ours.weight_hh_l1 = torch.nn.Parameter(torch.randn(16, 4).half())
    with pytest.raises(RuntimeError, match="weight_hh_l1"):
        ours(x)
    with pytest.raises((RuntimeError, ValueError)):
        et.LSTM(3, 4)(x, (torch.zeros(1, 2, 4, device="meta"), torch.zeros(1, 2, 4, device="meta")))


@pytest.mark.parametrize("native", [False, True])
def test_the_default_device_is_no_part_of_a_run(native, monkeypatch):
    from ecornn.torch import _kept, _native

    if not native:
        monkeypatch.setattr(_native, "_module", None)
        monkeypatch.setattr(_native, "pack", lambda *_: False)
        monkeypatch.setattr(_kept, "LARGE", 1)
    x = torch.randn(6, 3, 5, requires_grad=True)
    packed = pack_padded_sequence(x, torch.tensor([6, 4, 1]))
    layer = et.LSTM(5, 7 + native, num_layers=2, dropout=0.5)
    net = et.Net(5, "lstm/L2/H4/dropout:0.5")

    def results():
        torch.manual_seed(1)
        rows = packed._replace(batch_sizes=packed.batch_sizes.clone())  # not seen before
        ys = [layer(x)[0], layer(x, lengths=[6, 1, 3])[0], layer(rows)[0].data,
              net(x, [6, 1, 3])[0], et.attention(x, x, x, x[0, 0], lengths=[6, 1, 3])[0]]
        return [*ys, torch.autograd.grad(sum(y.square().sum() for y in ys), x,
                                         retain_graph=True)[0]]

    right = results()
    with torch.device("meta"):
        assert all(map(torch.equal, results(), right))


def test_benchmark_measures_new_plans(monkeypatch):
    spec = spec_of(Layers("lstm", 7, 9))

    def plans(steps):
        kind = _run.Kind(torch.float32, torch.float32, False, False, True, 0)
        yield _run.job_of(spec, torch.ones(1), (steps, 2), kind).plan
        yield _net_plan.plan_of("cpu:1", f"f32/T{steps}/N2/I7; lstm/H9; gru/H8", ())

    assert not any("measured" in str(plan) for plan in plans(3))
    monkeypatch.setattr(et, "benchmark", 1e-6)  # too little for any run
    assert not any("measured" in str(plan) for plan in plans(3))  # made before
    assert ["not measured: 12 runs" in str(plan) for plan in plans(4)] == [True, True]
    monkeypatch.setattr(et, "benchmark", True)
    assert _spec.measure_seconds("cpu:1") == 0.05
    monkeypatch.setattr(_spec, "capturing", lambda: True)
    with pytest.warns(UserWarning, match="is not measured"):
        assert _spec.measure_seconds("cuda:0") == 0
    monkeypatch.setattr(et, "benchmark", -1)
    with pytest.raises(RuntimeError, match="benchmark is -1, must be"):
        list(plans(5))
