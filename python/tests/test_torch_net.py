"""Nets against torch's layers with joins written out, forward and backward, and refusals."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402


def torchs(net, layer, kind, inputs, hidden, directions=1):
    """torch.nn's layer with the parameters of a layer of the net; one bias."""
    made = kind(inputs, hidden, bidirectional=directions == 2).to(net.l0_0_fwd_W_i.device,
                                                                  net.l0_0_fwd_W_i.dtype)
    gates = "ifgo" if kind is torch.nn.LSTM else "rzn"
    for d, way in zip(range(directions), ("fwd", "rev")):
        suffix = "_l0" + "_reverse" * d
        for name, letter in (("weight_ih", "W"), ("weight_hh", "R"), ("bias_ih", "b")):
            parts = [getattr(net, f"l{layer}_0_{way}_{letter}_{gate}") for gate in gates]
            delattr(made, name + suffix)
            setattr(made, name + suffix, torch.cat(parts))
        torch.nn.init.zeros_(getattr(made, "bias_hh" + suffix))
    return made


def join(x, lengths, k):
    """[T,N,C] to [U,N,k*C]; zeros past lengths."""
    steps, batch, width = x.shape
    there = torch.arange(steps, device=x.device)[:, None] < lengths
    x = torch.where(there[..., None], x, 0)
    x = torch.cat([x, x.new_zeros(-steps % k, batch, width)])
    return x.reshape(-1, k, batch, width).transpose(1, 2).reshape(-1, batch, k * width)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_agrees_with_torch(device, batch_first, dtype, tolerance):
    net = et.Net(3, "join:2; lstm/H4/bi; join:3; lstm/H5", batch_first=batch_first,
                 device=device, dtype=dtype)
    x = torch.randn(11, 2, 3, device=device, dtype=dtype, requires_grad=True)
    whole = torch.tensor([11, 11], device=device)
    y, final = net(x.transpose(0, 1) if batch_first else x)
    y = y.transpose(0, 1) if batch_first else y
    exact, wide = copy.deepcopy(net).double(), x.detach().double().requires_grad_()
    middle, _ = torchs(exact, 0, torch.nn.LSTM, 6, 4, 2)(join(wide, whole, 2))
    should, last = torchs(exact, 1, torch.nn.LSTM, 24, 5)(join(middle, whole, 3))
    assert y.shape == (2, 2, 5) and (y - should).abs().max() < tolerance
    assert (final[1][1] - last[1]).abs().max() < tolerance
    dy = torch.randn_like(y)
    have = torch.autograd.grad(y, [x, *net.parameters()], dy)
    want = torch.autograd.grad(should, [wide, *exact.parameters()], dy.double())
    assert all((a - b).abs().max() < 10 * tolerance for a, b in zip(have, want))


def test_gradients_by_differences(device):
    own = "cell own(h)\nh' = tanh(W x + R h + b)\n"
    net = et.Net(2, "gru/H3 + lstm/H2/rev; join:2; own/H3", cells=[own], device=device,
                 dtype=torch.float64)
    x = torch.randn(5, 3, 2, device=device, dtype=torch.float64, requires_grad=True)
    initial = [torch.randn(1, 3, n, device=device, dtype=torch.float64, requires_grad=True)
               for n in (3, 2, 2, 3)]
    lengths = torch.tensor([5, 0, 3])
    assert net.output_lengths(lengths).tolist() == [3, 0, 2]

    def run(x, gru, h, c, own):
        y, final = net(x, lengths, [(gru,), (h, c), (own,)])
        return (y, *(state for layer in final for state in layer))

    assert torch.autograd.gradcheck(run, (x, *initial))
    h = initial[1].detach()
    some = net(x, lengths, [None, (h, None), None])[0]
    assert torch.equal(some, net(x, lengths, [(torch.zeros_like(initial[0]),), (h, 0 * h),
                                              (torch.zeros_like(initial[3]),)])[0])
    y, _ = net(x, lengths)
    assert not y[2, 2].any() and not y[:, 1].any() and y[1, 2].any()
    y.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.shape == parameter.shape
               for parameter in net.parameters())


def test_types_and_modes():
    net = et.Net(4, "lstm/L2/H6/dropout:0.5; join:2; gru/H4")
    x = torch.randn(6, 2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        low = net.eval()(x)[0]
    assert low.dtype is torch.bfloat16 and (low - net(x)[0]).abs().max() < 0.05
    with torch.no_grad():
        assert torch.equal(net(x)[0], net(x)[0])
    net.train()
    assert not torch.equal(net(x)[0], net(x)[0])
    with torch.random.fork_rng():
        torch.manual_seed(3)
        one = net(x)[0]
        torch.manual_seed(3)
        assert torch.equal(one, net(x)[0])
    other = pickle.loads(pickle.dumps(net)).eval()
    assert torch.equal(other(x)[0], copy.deepcopy(net).eval()(x)[0])
    y, final = net.eval()(x[:0])
    assert y.shape == (0, 2, 4) and not final[0][0].any()
    y, final = net(x[:, :0])
    assert y.shape == (3, 0, 4) and final[1][0].shape == (1, 0, 4)


@pytest.mark.parametrize("pieces,common", [("own/H4", ""), ("gru/L2/H4", "dropout:0.5")])
def test_draws_are_of_training_alone(pieces, common):
    own = "cell own(h)\nh' = bernoulli(0.5, once) * tanh(W x + R h + b)\n"
    net, x = et.Net(3, pieces, cells=[own], common=common), torch.randn(5, 2, 3)
    with torch.no_grad():
        assert not torch.equal(net(x)[0], net(x)[0])
        expected = net.eval()(x)[0]
    assert torch.allclose(net(x)[0], expected)


def test_saves_less():
    net = et.Net(3, "gru/H4; join:2; lstm/H2/save:states; gru/H3/save:every:4/bf16-save")
    x = torch.randn(5, 2, 3)
    y, _ = net(x)
    y.sum().backward()
    with torch.no_grad():  # saves nothing
        assert torch.allclose(net(x)[0], y, atol=1e-6)


def test_what_is_wrong_is_said():
    import ecornn

    with pytest.raises(ecornn.BadArgument, match="layer 1 of a net: no built-in cell"):
        et.Net(3, "lstm/H4; nix/H2")
    net = et.Net(3, "lstm/H4; join:2; gru/H2")
    with pytest.raises(ValueError, match="the last 3"):
        net(torch.zeros(5, 2, 4))
    with pytest.raises(ValueError, match="must be floats"):
        net(torch.zeros(5, 2, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="lengths has 6, must be 0 to 5"):
        net(torch.zeros(5, 2, 3), torch.tensor([6, 1]))
    with pytest.raises(ValueError, match="initial has 1 layers with the shapes"):
        net(torch.zeros(5, 2, 3), initial=[(torch.zeros(1, 2, 4),)])
    elsewhere = [[torch.ones(1, 2, n, device="meta")] * k for n, k in ((4, 2), (2, 1))]
    with pytest.raises(ValueError, match="is on meta, must be on cpu"):
        net(torch.zeros(5, 2, 3), initial=elsewhere)
    other = copy.deepcopy(net)
    other.l1_0_fwd_R_z.data = other.l1_0_fwd_R_z.data.double()
    with pytest.raises(ValueError, match="l1_0_fwd_R_z is torch.float64 on cpu, must be"):
        other(torch.zeros(5, 2, 3))
    y, _ = net(torch.zeros(5, 2, 3))
    first = torch.autograd.grad(y.sum(), list(net.parameters()), create_graph=True)
    with pytest.raises(NotImplementedError, match="gradient of a gradient.*of a net"):
        torch.autograd.grad(first[0].sum(), list(net.parameters()))


def _saved(net, x):
    """Bytes that a forward run keeps, in addition to x and y."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
            lambda t: (kept.append(t.numel() * t.element_size()), t)[1], lambda t: t):
        net(x)
    return sum(kept)


@pytest.mark.parametrize("text, small", [
    ("lstm/H32", 150000), ("lstm/H16/bi; join:2; gru/H24 + lstm/H8/save:every:3", 500000)])
def test_what_is_saved(text, small):
    net, x = et.Net(16, text), torch.randn(100, 4, 16)

    def gradients():
        return torch.autograd.grad(net(x)[0].pow(2).sum(), list(net.parameters()))

    right, all_of_it = gradients(), _saved(net, x)
    for saving, limit in (("states", 0), ("every:8", 0), ("auto", small)):
        net.saving, net.memory_limit = saving, limit
        assert _saved(net, x) < 0.75 * all_of_it
        for ours, theirs in zip(gradients(), right):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        again = et.Net(16, text, saving=saving, memory_limit=limit)
        assert _saved(again, x) == _saved(net, x)
    net.saving = "all"  # which that limit has no room for
    with pytest.raises(ValueError, match="memory_limit"):
        net(x)
    net.saving, net.memory_limit = "auto", 50000
    with pytest.raises(ValueError, match="memory_limit is 50000"):
        net(x)
    with torch.no_grad():
        net(x)
    for bad in ({"saving": "evry:2"}, {"memory_limit": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            et.Net(16, text, **bad)


def test_y_may_change_in_place():
    net, x = et.Net(3, "lstm/H4; join:2; gru/H4 + lstm/H2"), torch.randn(5, 2, 3)
    right = torch.autograd.grad((2 * net(x)[0]).sum(), list(net.parameters()))
    found = torch.autograd.grad(net(x)[0].mul_(2).sum(), list(net.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(found, right))


def test_attention_has_nothing_to_save():
    with pytest.raises(AttributeError, match="saving"):
        et.AdditiveAttention(3, 4, 5).saving = "states"


def test_resets_and_masks_of_joined_steps(device):
    """By equations: torch's LSTM cell, step by step, of steps that are joined by hand."""
    torch.manual_seed(1)
    net = et.Net(3, "join:2; lstm/H4", device=device, dtype=torch.float64)
    x = torch.randn(7, 3, 3, device=device, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([7, 4, 5], device=device)
    resets, mask = (torch.rand(7, 3, device=device) < p for p in (0.3, 0.7))
    y, final = net(x, lengths, resets=resets, mask=mask)
    layer = torchs(net, 0, torch.nn.LSTM, 6, 4)
    cell = torch.nn.LSTMCell(6, 4, device=device, dtype=torch.float64)
    for name, value in cell.named_parameters():
        value.data = getattr(layer, name + "_l0").data
    there = mask & (torch.arange(7, device=device)[:, None] < lengths)
    wide = join(torch.where(there[..., None], x, 0), lengths, 2)
    rows = []
    for n in range(3):
        h, c = x.new_zeros(1, 4), x.new_zeros(1, 4)
        for u in range(4):
            steps = slice(2 * u, 2 * u + 2)
            if (resets & there)[steps, n].any():
                h, c = torch.zeros_like(h), torch.zeros_like(c)
            if there[steps, n].any():
                h, c = cell(wide[u, n:n + 1], (h, c))
            rows.append((n, u, h, c))
    state = {(n, u): h for n, u, h, c in rows}
    for n in range(3):
        for u in range(4):
            if there[2 * u:2 * u + 2, n].any():
                assert (y[u, n] - state[n, u][0]).abs().max() < 1e-12
        assert (final[0][1][0, n] - rows[4 * n + 3][3][0]).abs().max() < 1e-12
    counted = torch.stack([there[2 * u:2 * u + 2].any(0) for u in range(4)])
    dy = torch.randn_like(y) * counted[..., None]
    have = torch.autograd.grad(y, x, dy)[0]
    want = torch.autograd.grad(sum((state[n, u][0] * dy[u, n]).sum()
                                   for n in range(3) for u in range(4)), x)[0]
    assert (have - want).abs().max() < 1e-11 and not have[~there].any()


@pytest.mark.parametrize("compiled", [False, True])
def test_resets_and_masks_by_differences(device, compiled):
    net = et.Net(2, "gru/H3/bi; join:2; lstm/H2 + gru/H2/rev; join:2; gru/H2", batch_first=True,
                 device=device, dtype=torch.float64)
    x = torch.randn(3, 7, 2, device=device, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([7, 6, 3])
    resets, mask = (torch.rand(3, 7, device=device) < p for p in (0.3, 0.7))

    def run(x):
        y, final = net(x, lengths, resets=resets, mask=mask)
        return y, final[0][0], final[3][0]

    if not compiled:
        assert torch.autograd.gradcheck(run, (x,))
        assert not torch.equal(run(x)[0], net(x, lengths, mask=mask)[0])
    else:
        torch._dynamo.reset()
        eager, made = run(x), torch.compile(run, backend="aot_eager")(x)
        assert all(torch.equal(a, b) for a, b in zip(eager, made))
        grads = [torch.autograd.grad(out[0].sum(), x)[0] for out in (eager, made)]
        assert torch.equal(*grads)
    whole = torch.ones(3, 7, dtype=torch.bool)
    assert torch.equal(net(x, resets=~whole, mask=whole)[0], net(x)[0])
    with pytest.raises(ValueError, match="mask has shape"):
        net(x, mask=whole.T)


def test_dropout_between_layers(device):
    net = et.Net(3, "lstm/H5; dropout:0.25; join:2; dropout:0.5", device=device)
    x = torch.randn(40, 8, 3, device=device, requires_grad=True)
    plain = net.eval()(x)[0]
    assert torch.equal(plain, et_like(net, "lstm/H5; join:2")(x)[0])
    y = net.train()(x)[0]
    kept = y != 0
    assert abs(kept.float().mean() - 0.75 * 0.5) < 0.05
    assert (y - plain / (0.75 * 0.5))[kept].abs().max() < 1e-5
    dx, = torch.autograd.grad(y, x, torch.ones_like(y))
    want, = torch.autograd.grad(plain, x, kept / (0.75 * 0.5))
    assert (dx - want).abs().max() < 1e-4
    assert not torch.equal(net(x)[0] != 0, kept)


def et_like(net, pieces):
    """A net of other pieces with the same parameters, in evaluation."""
    other = et.Net(net.input_size, pieces, device=net.l0_0_fwd_W_i.device).eval()
    other.load_state_dict(net.state_dict())
    return other


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_models(device, shared, compiled):
    """Each model is a net of its own."""
    pieces, count = "gru/H4 + lstm/H3/rev; join:2; lstm/H5", 3
    net = et.Net(3, pieces, batch_first=True, device=device, dtype=torch.float64,
                 common=f"models:{count}" + "/shared-x" * shared)
    first = () if shared else (count,)
    x = torch.randn(*first, 2, 7, 3, device=device, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(*first, 2, 7, device=device) < 0.7
    lengths = torch.randint(1, 8, (*first, 2))
    initial = [None, None, tuple(torch.randn(count, 1, 2, 5, device=device, dtype=torch.float64)
                                 for _ in "hc")]
    torch._dynamo.reset()
    run = torch.compile(net, backend="aot_eager") if compiled else net
    y, final = run(x, lengths, initial, mask=mask)
    dy = torch.randn_like(y)
    dx, *dparams = torch.autograd.grad(y, [x, *net.parameters()], dy)
    total = torch.zeros_like(dx)
    for m in range(count):
        one = et.Net(3, pieces, batch_first=True, device=device, dtype=torch.float64)
        one.load_state_dict({name: value[m] for name, value in net.state_dict().items()})
        at = slice(None) if shared else m
        mine, last = one(x[at], lengths[at], [None, None, tuple(s[m] for s in initial[2])],
                         mask=mask[at])
        d, *more = torch.autograd.grad(mine, [x, *one.parameters()], dy[m])
        assert torch.equal(y[m], mine) and torch.equal(final[2][1][m], last[2][1])
        assert all(torch.equal(all_[m], own) for all_, own in zip(dparams, more))
        total += d
    assert (dx - total).abs().max() < 1e-12
    with pytest.raises(ValueError, match="must have"):
        net(x[0])
