"""Transforms of torch.func, batched gradients and forward mode give what torch's loop gives."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch.func import functional_call, grad, jacrev, vmap  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

KINDS = ["LSTM", "GRU", "RNN"]
MORE = [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}]


def make(kind, device="cpu", **more):
    if kind == "LSTM":
        more.setdefault("proj_size", 2 if more.get("num_layers") else 0)
    return getattr(et, kind)(3, 4, **more).double().to(device)


def flat(out):
    y, final = out
    y = y.data if not torch.is_tensor(y) else y
    return [y, *(final if isinstance(final, tuple) else (final,))]


def same(found, want):
    assert len(found) == len(want)
    for a, b in zip(found, want):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("kind", KINDS)
def test_vmap_over_batches(kind, more, device):
    module = make(kind, device, **more)
    xs = torch.randn(6, 5, 2, 3, dtype=torch.float64, device=device)
    with torch.no_grad():
        hx = module(xs[0])[1]
        many = [flat(vmap(lambda x: module(x))(xs)), flat(vmap(lambda x: module(x, hx))(xs)),
                flat(vmap(lambda x: module(x))(xs[:, :, 0]))]
        loops = [[flat(module(x)) for x in xs], [flat(module(x, hx)) for x in xs],
                 [flat(module(x)) for x in xs[:, :, 0]]]
    for found, loop in zip(many, loops):
        same(found, [torch.stack(each) for each in zip(*loop)])


@pytest.mark.parametrize("kind", KINDS)
def test_vmap_of_packed_rows_and_of_torchs_own(kind):
    module = make(kind)
    theirs = getattr(torch.nn, kind)(3, 4).double()
    theirs.load_state_dict(module.state_dict())
    xs = torch.randn(6, 5, 3, 3, dtype=torch.float64)

    def run(module, x):
        packed = pack_padded_sequence(x, torch.tensor([2, 5, 3]), enforce_sorted=False)
        return flat(module(packed))

    with torch.no_grad(), et.enabled():
        loop = [torch.stack(each) for each in zip(*[run(module, x) for x in xs])]
        plain = [torch.stack(each) for each in zip(*[flat(theirs(x)) for x in xs])]
        same(flat(vmap(lambda x: theirs(x))(xs)), plain)
        same(vmap(lambda x: tuple(run(module, x)))(xs), loop)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_each_sample(kind, more):
    module = make(kind, **more)
    params = {name: value.detach() for name, value in module.named_parameters()}
    xs = torch.randn(4, 5, 2, 3, dtype=torch.float64)

    def loss(params, x):
        return sum(part.square().sum() for part in flat(functional_call(module, params, (x,))))

    found = vmap(grad(loss), in_dims=(None, 0))(params, xs)
    for k, x in enumerate(xs):
        want = torch.autograd.grad(sum(part.square().sum() for part in flat(module(x))),
                                   list(module.parameters()))
        same([value[k] for value in found.values()], want)


def stacked(outs):
    return [torch.stack(each) for each in zip(*outs)]


def call(module, params, x, hx=None):
    return flat(functional_call(module, params, (x, hx)))


CELLS = [lambda: make("LSTM"), lambda: make("GRU", num_layers=2, bidirectional=True),
         lambda: et.Recurrent(4, 4, cell="lstm", heads=2, batch_first=True).double(),
         lambda: et.PeepholeLSTM(3, 4, num_layers=2, proj_size=2).double()]


@pytest.mark.parametrize("cell", CELLS)
def test_one_run_for_a_batch(cell, runs):
    """vmap over x, states and weights, together and nested, in any dimension."""
    module, others = cell(), [cell() for _ in range(3)]
    size = module.input_size
    weights, _ = torch.func.stack_module_state(others)
    weights = {name: value.detach() for name, value in weights.items()}
    own = {name: value.detach() for name, value in module.named_parameters()}
    xs = torch.randn(4, 5, 2, size, dtype=torch.float64)
    hx = [torch.randn(3, *state.shape, dtype=torch.float64) for state in call(module, own, xs[0])[1:]]

    def pack(states):
        return states[0] if len(hx) == 1 else tuple(states)

    own_hx = [state[0] for state in hx]
    with torch.no_grad():
        cases = [
            (lambda: vmap(lambda x: call(module, own, x), in_dims=2, out_dims=1)(xs.movedim(0, 2)),
             lambda: [one.movedim(0, 1) for one in stacked([call(module, own, x) for x in xs])]),
            (lambda: vmap(lambda *s: call(module, own, xs[0], pack(s)))(*hx),
             lambda: stacked([call(module, own, xs[0], pack(s)) for s in zip(*hx)])),
            (lambda: vmap(lambda p: call(module, p, xs[0], pack(own_hx)))(weights),
             lambda: stacked([flat(other(xs[0], pack(own_hx))) for other in others])),
            (lambda: vmap(lambda p, x, *s: call(module, p, x, pack(s)), in_dims=(0, 1) + (0,) * len(hx))(
                weights, xs[:3].movedim(0, 1), *hx),
             lambda: stacked([flat(other(x, pack(s))) for other, x, s in zip(others, xs, zip(*hx))])),
            (lambda: vmap(lambda p: vmap(lambda x: call(module, p, x))(xs))(weights),
             lambda: stacked([stacked([flat(other(x)) for x in xs]) for other in others])),
            (lambda: vmap(lambda x: vmap(lambda p: call(module, p, x))(weights))(xs),
             lambda: stacked([stacked([flat(other(x)) for other in others]) for x in xs]))]
        for many, loop in cases:
            want = loop()
            runs.clear()
            same(many(), want)
            assert len(runs) == 1


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_of_models_and_samples(cell, runs):
    module, others = cell(), [cell() for _ in range(3)]
    weights, _ = torch.func.stack_module_state(others)
    xs = torch.randn(3, 5, 2, module.input_size, dtype=torch.float64)

    def loss(params, x):
        return sum(part.square().sum() for part in call(module, params, x))

    def loop(modules, xs):
        return stacked([torch.autograd.grad(loss(dict(one.named_parameters()), x),
                                            [*one.parameters(), x])
                        for one, x in zip(modules, xs.clone().requires_grad_())])

    own = dict(module.named_parameters())
    for params, dims, modules in ((own, (None, 0), [module] * 3), (weights, (0, 0), others)):
        want = loop(modules, xs)
        runs.clear()
        dparams, dx = vmap(grad(loss, argnums=(0, 1)), in_dims=dims)(params, xs)
        same([*dparams.values(), dx], want)
        assert len(runs) == 2  # backward repeats forward
    # autograd around a vmap
    xs.requires_grad_()
    many = vmap(lambda x: loss(own, x))(xs)
    found = torch.autograd.grad(many.sum(), [*own.values(), xs])
    same(found, torch.autograd.grad(sum(loss(own, x) for x in xs), [*own.values(), xs]))


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_parameters(kind):
    module = make(kind)
    own = {name: value.detach() for name, value in module.named_parameters()}
    x = torch.randn(3, 2, 3, dtype=torch.float64)

    def last(*values):
        return call(module, dict(zip(own, values)), x)[0][-1].sum(0)

    at = tuple(range(len(own)))
    want = torch.autograd.functional.jacobian(last, tuple(own.values()))
    same(torch.func.jacrev(last, at)(*own.values()), want)
    same(torch.func.jacfwd(last, at)(*own.values()), want)
    out, along = torch.func.jvp(last, tuple(own.values()), tuple(own.values()))
    same([along], [sum((j * v).flatten(1).sum(1) for j, v in zip(want, own.values()))])
    pulled = torch.func.vjp(last, *own.values())[1](torch.ones_like(out))
    same(pulled, [one.sum(0) for one in want])

    def loss(x):
        return call(module, own, x)[0].square().sum()

    bent = torch.autograd.functional.hessian(loss, x)
    jacfwd = torch.func.jacfwd
    for found in (torch.func.hessian(loss)(x), jacrev(jacrev(loss))(x), jacrev(jacfwd(loss))(x),
                  jacfwd(jacfwd(loss))(x), vmap(torch.func.hessian(loss))(x[None])[0]):
        same([found], [bent])


@pytest.mark.parametrize("randomness", ["error", "different", "same"])
def test_dropout_of_each_sample(randomness):
    module = make("GRU", num_layers=2, dropout=0.5)
    own = dict(module.named_parameters())
    x = torch.randn(5, 2, 3, dtype=torch.float64)

    def loss(x, params):
        return call(module, params, x)[0].square().sum()

    def many(x, params, what=loss):
        torch.manual_seed(1)
        return vmap(what, in_dims=(0, None), randomness=randomness)(x.expand(3, *x.shape), params)

    if randomness == "error":
        with pytest.raises(RuntimeError, match="randomness error mode"):
            many(x, own)
        return
    assert (many(x, own)[0] == many(x, own)[1]).item() == (randomness == "same")
    # The gradient of each sample is that of its own mask.
    slopes = many(x, own, grad(loss))
    steps = [many(x + e * torch.ones_like(x), own) for e in (1e-6, -1e-6)]
    torch.testing.assert_close(slopes.flatten(1).sum(1), (steps[0] - steps[1]) / 2e-6, rtol=1e-6,
                               atol=1e-6)
    around = torch.autograd.grad(many(x, own).sum(), own["weight_hh_l1"])[0]
    of_each = many(x, own, grad(loss, argnums=1))["weight_hh_l1"]
    torch.testing.assert_close(of_each.sum(0), around)


def test_resets_masks_and_models():
    module, ensemble = make("LSTM"), et.Ensemble(2, "lstm", 3, 4).double()
    xs, given = torch.randn(4, 5, 2, 3, dtype=torch.float64), torch.rand(4, 2, 5, 2) < 0.5

    def run(x, given):
        y, final, states = module(x, resets=given[0], mask=given[1], all_states=True)
        return [y, *final, *states]

    with torch.no_grad():
        same(vmap(run)(xs, given), stacked([run(*each) for each in zip(xs, given)]))
        lengths = torch.tensor([[5, 1], [0, 3], [2, 2], [4, 5]])
        found = vmap(lambda x, lengths: flat(module(x, lengths=lengths)))(xs, lengths)
        same(found, stacked([flat(module(x, lengths=one)) for x, one in zip(xs, lengths)]))
        same(flat(vmap(ensemble)(xs)), stacked([flat(ensemble(x)) for x in xs]))
    own = dict(ensemble.named_parameters())

    def loss(params, x):
        return functional_call(ensemble, params, (x,))[0].square().sum()

    dparams, dx = vmap(grad(loss, argnums=(0, 1)), in_dims=(None, 0))(own, xs)
    want = stacked([torch.autograd.grad(loss(own, x), [*own.values(), x])
                    for x in xs.clone().requires_grad_()])
    same([*dparams.values(), dx], want)


@pytest.mark.parametrize("kind", KINDS)
def test_torchs_own_modules(kind, runs):
    theirs = getattr(torch.nn, kind)(3, 4, 2).double()
    own = {name: value.detach() for name, value in theirs.named_parameters()}
    xs = torch.randn(4, 5, 2, 3, dtype=torch.float64)

    def loss(params, x):
        return sum(part.square().sum() for part in call(theirs, params, x))

    want = stacked([torch.autograd.grad(loss(dict(theirs.named_parameters()), x),
                                        list(theirs.parameters())) for x in xs])
    with et.enabled():
        found = vmap(grad(loss), in_dims=(None, 0))(own, xs)
        assert len(runs) == 2
        same(list(grad(loss)(own, xs[0]).values()), [one[0] for one in want])
    same(list(found.values()), want)


@pytest.mark.parametrize("kind", KINDS)
def test_functional(kind):
    module = make(kind)
    x = torch.randn(3, 2, 3, dtype=torch.float64)

    def last(x):
        return module(x)[0][-1].sum(0)

    def loss(x):
        return module(x)[0].pow(2).sum()

    functional = torch.autograd.functional
    want, bent = functional.jacobian(last, x), functional.hessian(loss, x)
    for more in ({}, {"strategy": "forward-mode"}):
        same([functional.jacobian(last, x, vectorize=True, **more)], [want])
    same([functional.hessian(loss, x, vectorize=True)], [bent])
    rows = vmap(jacrev(lambda v: module(v)[0][-1]), in_dims=1)(x)  # [N,H,T,I]
    same([rows.permute(1, 2, 0, 3)], [want])


@pytest.mark.parametrize("dtype, proj", [(torch.float64, 2), (torch.bfloat16, 0)])
@pytest.mark.parametrize("given", ["padded", "lengths", "packed"])
def test_second_gradients_of_final_states(dtype, proj, given):
    module = et.LSTM(3, 4, proj_size=proj, num_layers=2, bidirectional=True).to(dtype)
    x = torch.randn(5, 3, 3, dtype=dtype, requires_grad=True)
    lengths = [2, 5, 3]

    def second(module, x, more):
        if given == "packed":
            rows = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        final = module(x if given != "packed" else rows, **more)[1]
        one, = torch.autograd.grad(sum(state.pow(2).sum() for state in final), x,
                                   create_graph=True)
        return one, torch.autograd.grad(one.pow(2).sum(), x)[0]

    theirs = torch.nn.LSTM(3, 4, proj_size=proj, num_layers=2, bidirectional=True).double()
    theirs.load_state_dict(module.state_dict())
    found = second(module, x, {"lengths": lengths} if given == "lengths" else {})
    if given == "lengths":
        given = "packed"
    want = second(theirs, x.detach().double().requires_grad_(), {})
    close = 1e-9 if dtype is torch.float64 else 0.05
    for a, b in zip(found, want):
        torch.testing.assert_close(a.double(), b, rtol=close, atol=close)
