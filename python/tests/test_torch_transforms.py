"""Transforms of torch.func, batched gradients and forward mode give what torch's loop gives."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch.func import functional_call, grad, jacrev, vmap  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

KINDS = ["LSTM", "GRU", "RNN"]
MORE = [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}]
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


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


@pytest.mark.parametrize("device", DEVICES)
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


@pytest.mark.parametrize("kind", [*KINDS, "MGU"])
def test_batched_gradients(kind):
    module = getattr(et, kind)(3, 4).double()
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    hx = [torch.randn_like(state).requires_grad_() for state in flat(module(x))[1:]]
    out = flat(module(x, tuple(hx) if len(hx) > 1 else hx[0]))
    for result in out[:2]:
        dys = torch.randn(3, *result.shape, dtype=torch.float64)
        of = [x, *hx, *module.parameters()]
        many = torch.autograd.grad(result, of, dys, is_grads_batched=True, retain_graph=True,
                                   allow_unused=True)
        loop = [torch.autograd.grad(result, of, dy, retain_graph=True, allow_unused=True)
                for dy in dys]
        same([m for m in many if m is not None],
             [torch.stack(each) for each in zip(*loop) if each[0] is not None])


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

    def second(module, more):
        if given == "packed":
            rows = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        final = module(x if given != "packed" else rows, **more)[1]
        one, = torch.autograd.grad(sum(state.pow(2).sum() for state in final), x,
                                   create_graph=True)
        return one, torch.autograd.grad(one.pow(2).sum(), x)[0]

    theirs = torch.nn.LSTM(3, 4, proj_size=proj, num_layers=2, bidirectional=True).to(dtype)
    theirs.load_state_dict(module.state_dict())
    found = second(module, {"lengths": lengths} if given == "lengths" else {})
    if given == "lengths":
        given = "packed"
    want = second(theirs, {})
    close = 1e-9 if dtype is torch.float64 else 0.05
    for a, b in zip(found, want):
        torch.testing.assert_close(a, b, rtol=close, atol=close)
