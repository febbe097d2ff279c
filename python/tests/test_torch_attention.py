"""Attention against torch's own expression, forward and backward, and its refusals."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402


def unfused(query, keys, values, vector, lengths, batch_first):
    """Attention as a torch expression, which makes a large array [N,T,S,H]."""
    if not batch_first:
        query, keys, values = (tensor.transpose(0, 1) for tensor in (query, keys, values))
    scores = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1)) @ vector
    past = torch.arange(keys.shape[1], device=keys.device) >= lengths[:, None]
    weights = torch.softmax(scores.masked_fill(past[:, None], -torch.inf), 2)
    weights = torch.where(past.all(1)[:, None, None], 0, weights)
    context = weights @ values
    return (context, weights) if batch_first else (context.transpose(0, 1), weights.transpose(0, 1))


def tensors(device, dtype, batch_first, T=5, S=7, N=3, H=12, V=9):
    torch.manual_seed(0)
    first = [(N, T), (N, S), (N, S)] if batch_first else [(T, N), (S, N), (S, N)]
    made = [torch.randn(*f, w, device=device, dtype=torch.float64).to(dtype)
            for f, w in zip(first, (H, H, V))]
    made.append(torch.randn(H, device=device, dtype=torch.float64).to(dtype))
    return [tensor.requires_grad_() for tensor in made], torch.tensor([7, 2, 4], device=device)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5),
                                             (torch.bfloat16, 0.03), (torch.float16, 4e-3)])
def test_agrees_with_torch(device, dtype, tolerance, batch_first):
    given, lengths = tensors(device, dtype, batch_first)
    wide = [tensor.detach().double().requires_grad_() for tensor in given]
    context, weights = et.attention(*given, lengths=lengths, batch_first=batch_first,
                                    need_weights=True)
    should = unfused(*wide, lengths, batch_first)
    dcontext, dweights = torch.randn_like(context), torch.randn_like(weights)
    torch.autograd.backward([context, weights], [dcontext, dweights])
    torch.autograd.backward(should, [dcontext.double(), dweights.double()])
    for have, want in [(context, should[0]), (weights, should[1]),
                       *((tensor.grad, other.grad) for tensor, other in zip(given, wide))]:
        assert have.dtype is dtype and have.shape == want.shape
        assert (have.double() - want).abs().max() <= tolerance * max(want.abs().max(), 1)


def test_gradients_by_differences():
    given, lengths = tensors("cpu", torch.float64, True, T=2, S=3, N=3, H=4, V=2)
    lengths = torch.tensor([3, 1, 0])

    def run(*given):
        return et.attention(*given, lengths=lengths, batch_first=True, need_weights=True)

    assert torch.autograd.gradcheck(run, given)


def test_one_step_and_inference():
    (query, keys, values, vector), lengths = tensors("cpu", torch.float32, False, T=1)
    both = et.attention(query, keys, values, vector, lengths=lengths)
    with torch.no_grad():
        one, weights = et.attention(query[0], keys, values, vector, lengths=[7, 2, 4],
                                    need_weights=True)
    assert torch.equal(one, both[0]) and weights.shape == (3, 7) and not one.requires_grad


def test_nothing():
    query, keys, values = torch.randn(4, 3, 8), torch.randn(0, 3, 8), torch.randn(0, 3, 5)
    vector = torch.randn(8)
    assert torch.equal(et.attention(query, keys, values, vector), torch.zeros(4, 3, 5))
    query.requires_grad_()
    et.attention(query[:, :0], keys[:, :0], values[:, :0], vector).sum().backward()
    assert torch.equal(query.grad, torch.zeros_like(query))


def test_autocast():
    given, lengths = tensors("cpu", torch.float32, True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        context = et.attention(*given, lengths=lengths, batch_first=True)
    assert context.dtype is torch.bfloat16
    context.sum().backward()
    assert all(tensor.grad.dtype is torch.float32 for tensor in given)


def test_compile_goes_around():
    given, lengths = tensors("cpu", torch.float32, True)

    def step(*given):
        return 2 * et.attention(*given, lengths=lengths, batch_first=True)

    torch._dynamo.reset()
    assert torch.equal(torch.compile(step, backend="eager")(*given), step(*given))


@pytest.mark.parametrize("batch_first", [True, False])
def test_module(batch_first):
    module = et.AdditiveAttention(6, 9, 12, batch_first=batch_first)
    (query, _, memory, _), lengths = tensors("cpu", torch.float32, batch_first, H=6)
    context, weights = module(query, memory, lengths, need_weights=True)
    should = unfused(module.query_projection(query), module.keys(memory), memory, module.vector,
                     lengths, batch_first)
    assert torch.allclose(context, should[0], atol=1e-5)
    assert torch.allclose(weights, should[1], atol=1e-5)
    again = module(query, memory, lengths, keys=module.keys(memory))
    assert torch.equal(context, again)
    context.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


@pytest.mark.parametrize("change,word", [
    ({"keys": (7, 3, 11)}, "must be as wide as query, 12"),
    ({"lengths": [8, 2, 0]}, "must be 0 to 7"),
    ({"lengths": [1.0, 2.0, 0.0]}, "of integers")])
def test_refuses(change, word):
    given = {"query": (5, 3, 12), "keys": (7, 3, 12), "values": (7, 3, 9), "vector": (12,)}
    given.update(change)
    given = {name: torch.zeros(value) if isinstance(value, tuple) else value
             for name, value in given.items()}
    with pytest.raises(ValueError, match=word):
        et.attention(**given)


def test_refuses_a_gradient_of_a_gradient():
    given, _ = tensors("cpu", torch.float64, True)
    context = et.attention(given[0].mT.contiguous().mT, *given[1:], batch_first=True)  # not dense
    first, = torch.autograd.grad(context.sum(), given[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="create_graph.*of attention"):
        torch.autograd.grad(first.sum(), given[:1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_cuda_graph():
    given, lengths = tensors("cuda", torch.float32, True)
    lengths = lengths.to(torch.int32)
    with torch.no_grad():
        et.attention(*given, lengths=lengths, batch_first=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            context = et.attention(*given, lengths=lengths, batch_first=True)
        given[0].mul_(2)
        graph.replay()
        assert torch.equal(context, et.attention(*given, lengths=lengths, batch_first=True))
