"""Cells with a matrix state: fla's functions against loops in double, layers, and models of transformers."""

from __future__ import annotations

import copy
import itertools

import pytest

torch = pytest.importorskip("torch")
import ecornn  # noqa: E402
import ecornn.torch as et  # noqa: E402
from ecornn.torch import _linear, linear_attention as la  # noqa: E402
from torch.nn.functional import logsigmoid  # noqa: E402

KEYS, VALUES = 5, 3


@pytest.fixture
def everywhere(device):
    with torch.device(device):
        yield


def corrected(S, k, v, beta):
    read = torch.einsum("bhkv,bhk->bhv", S, k)
    return S + k[..., None] * (beta[..., None] * (v - read))[..., None, :]


def outer(k, v):
    return k[..., None] * v[..., None, :]


def rwkv7(S, w, k, v, a, b):
    return S * w.exp()[..., None] + outer(b, torch.einsum("bhkv,bhk->bhv", S, a)) + outer(k, v)


def wide(g):
    return g.exp()[..., None, None]


# The names of the parts after the query, and a step, apart from the texts.
RULES = {
    "delta_rule": (["k", "v", "beta"], corrected),
    "gated_delta_rule": (["k", "v", "g", "beta"],
                         lambda S, k, v, g, beta: corrected(S * wide(g), k, v, beta)),
    "kda": (["k", "v", "G", "beta"],
            lambda S, k, v, g, beta: corrected(S * g.exp()[..., None], k, v, beta)),
    "simple_gla": (["k", "v", "g"], lambda S, k, v, g: S * wide(g) + outer(k, v)),
    "gla": (["k", "v", "G"], lambda S, k, v, g: S * g.exp()[..., None] + outer(k, v)),
    "rwkv7": (["G", "k", "v", "a", "b"], rwkv7),
}
NORMED = ["delta_rule", "gated_delta_rule", "kda"]


def tensors(rule, batch=2, steps=7, heads=4, few=2, dtype=torch.float64):
    """Parts of x, the query first; queries and keys of few heads."""
    made = [torch.randn(batch, steps, few, KEYS, dtype=dtype)]
    for name in RULES[rule][0]:
        first = (batch, steps, few if name == "k" else heads)
        if name in ("k", "a", "b"):
            made.append(torch.randn(*first, KEYS, dtype=dtype) * 0.5)
        elif name == "v":
            made.append(torch.randn(*first, VALUES, dtype=dtype))
        elif name == "beta":
            made.append(torch.rand(first, dtype=dtype))
        else:
            made.append(logsigmoid(torch.randn(*first, *[KEYS] * (name == "G"), dtype=dtype)))
    return [one.requires_grad_() for one in made]


def loop(rule, parts, state=None, scale=KEYS ** -0.5, norm=False):
    """y and the final state, step by step."""
    names, step = RULES[rule]
    heads = parts[1 + names.index("v")].shape[2]
    parts = [one.double().repeat_interleave(heads // one.shape[2], 2) for one in parts]
    if norm:
        for k in (0, 1 + names.index("k")):
            parts[k] = parts[k] / (parts[k].square().sum(-1, keepdim=True) + 1e-6).sqrt()
    S, found = state, []
    if S is None:
        S = parts[0].new_zeros(parts[0].shape[0], heads, KEYS, VALUES)
    for t in range(parts[0].shape[1]):
        S = step(S, *[one[:, t] for one in parts[1:]])
        found.append(torch.einsum("bhkv,bhk->bhv", S, scale * parts[0][:, t]))
    return torch.stack(found, 1), S


def gradients(outputs, of):
    return torch.autograd.grad(sum(one.sin().sum() for one in outputs), of)


def close(found, expected, **more):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **more)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["chunk", "fused_recurrent"])
def test_is_the_loop(rule, kind, everywhere):
    parts, state = tensors(rule), torch.randn(2, 4, KEYS, VALUES, dtype=torch.float64, requires_grad=True)
    function = getattr(la, f"{kind}_{rule}")
    more = {"use_qk_l2norm_in_kernel": True} if rule in NORMED else {}
    found = function(*parts, 0.3, state, True, **more)
    expected = loop(rule, parts, state, 0.3, bool(more))
    close(found, expected)
    close(gradients(found, [*parts, state]), gradients(expected, [*parts, state]))
    y, none = function(*parts, output_final_state=False)
    scale = 1.0 if (kind, rule) == ("chunk", "rwkv7") else KEYS ** -0.5
    close([y], loop(rule, parts, scale=scale)[:1])
    assert none is None


@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_differences(rule, everywhere):
    state = torch.randn(1, 2, KEYS, VALUES, dtype=torch.float64, requires_grad=True)
    parts = tensors(rule, 1, 4, 2, 1)

    def run(state, *parts):
        return getattr(la, f"chunk_{rule}")(*parts, initial_state=state, output_final_state=True)

    assert torch.autograd.gradcheck(run, (state, *parts))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_sequences_in_one_row(dtype, everywhere):
    bounds = [0, 0, 3, 6, 6, 6, 13, 14, 14]
    ends, count = torch.tensor(bounds, dtype=dtype), len(bounds) - 1
    parts = tensors("gated_delta_rule", 1, bounds[-1])
    state = torch.randn(count, 4, KEYS, VALUES, dtype=torch.float64, requires_grad=True)
    found = la.chunk_gated_delta_rule(*parts, initial_state=state, output_final_state=True, cu_seqlens=ends)
    each = [la.chunk_gated_delta_rule(*[one[:, a:b] for one in parts], initial_state=state[n:n + 1],
                                      output_final_state=True)
            for n, (a, b) in enumerate(itertools.pairwise(bounds))]
    expected = [torch.cat(all, dim) for all, dim in zip(zip(*each), (1, 0))]
    close(found, expected, rtol=0, atol=0)
    close(found[:1], [torch.cat([loop("gated_delta_rule", [one[:, a:b] for one in parts], state[n:n + 1])[0]
                                 for n, (a, b) in enumerate(itertools.pairwise(bounds)) if b > a], 1)])
    close(gradients(found, [*parts, state]), gradients(expected, [*parts, state]))
    y, final = la.chunk_gated_delta_rule(*parts, output_final_state=True, cu_seqlens=ends)
    assert y.shape == (1, 14, 4, VALUES) and not final[[0, 3, 4, 7]].any()


def test_types(everywhere):
    parts = [one.detach() for one in tensors("gated_delta_rule")]
    for narrow in (torch.bfloat16, torch.float16, torch.float32):
        rounded = [one.to(narrow).requires_grad_() for one in parts]
        unit = torch.finfo(narrow).eps
        found = la.chunk_gated_delta_rule(*rounded, output_final_state=True)
        assert [one.dtype for one in found] == [narrow, torch.float32]
        expected = loop("gated_delta_rule", rounded)
        close([one.double() for one in found], expected, rtol=8 * unit, atol=8 * unit)
        of = gradients(found[:1], rounded)
        assert all(one.dtype is narrow for one in of)
        close([one.double() for one in of], [one.double() for one in gradients(expected[:1], rounded)],
              rtol=32 * unit, atol=32 * unit)
    *rounded, g, beta = [one.to(torch.bfloat16) for one in parts]
    y, _ = la.chunk_gated_delta_rule(*rounded, parts[3].float(), beta)  # a gate in F32 stays exact
    expected = loop("gated_delta_rule", [*rounded, parts[3].float(), beta])[0]
    torch.testing.assert_close(y, expected.to(torch.bfloat16))


def test_reads_columns_where_they_are(monkeypatch, everywhere):
    rows = torch.randn(2, 6, 2 * 2 * KEYS + 2 * VALUES + 4)
    q, k, v, g, beta = rows.split([2 * KEYS, 2 * KEYS, 2 * VALUES, 2, 2], -1)
    parts = [q.unflatten(2, (2, KEYS)), k.unflatten(2, (2, KEYS)), v.unflatten(2, (2, VALUES)), g, beta]
    given = _linear._Given(parts, None, None, la._text("gated_delta_rule", 1.0, False))
    assert [given._read(one)[0].data_ptr() for one in parts] == [one.data_ptr() for one in parts]
    dense = [one.contiguous() for one in parts]
    assert torch.equal(la.chunk_gated_delta_rule(*parts)[0], la.chunk_gated_delta_rule(*dense)[0])
    odd = [one.transpose(1, 2).contiguous().transpose(1, 2) for one in parts]
    assert torch.equal(la.chunk_gated_delta_rule(*odd)[0], la.chunk_gated_delta_rule(*dense)[0])


def test_is_compiled_and_known_to_fake_tensors(everywhere):
    parts = tensors("kda", dtype=torch.float32)
    ends = torch.tensor([0, 3, 7])

    def run(*parts):
        y, final = la.chunk_kda(*parts, output_final_state=True, use_qk_l2norm_in_kernel=True)
        return y, final, la.fused_recurrent_kda(*[one[:1] for one in parts], cu_seqlens=ends)[0]

    found, expected = torch.compile(run, fullgraph=True)(*parts), run(*parts)
    close(found, expected)
    close(gradients(found, parts), gradients(expected, parts))
    text = la._text("kda", 1.0, True).replace("\n", "\v")
    torch.library.opcheck(torch.ops.ecornn.linear_attention.default, (parts, None, None, text, True, True))
    with torch.no_grad():
        program = torch.export.export(Kda(), tuple(one.detach() for one in parts))
        close([program.module()(*parts)], [la.chunk_kda(*parts)[0]])


class Kda(torch.nn.Module):
    def forward(self, *parts):
        return la.chunk_kda(*parts)[0]


def test_under_vmap_and_second_gradients(everywhere):
    parts = tensors("gla", dtype=torch.float32)
    rows = [torch.stack([one, one.flip(0)]).detach() for one in parts]
    found = torch.func.vmap(lambda *one: la.chunk_gla(*one)[0])(*rows)
    torch.testing.assert_close(found[1], la.chunk_gla(*[one[1] for one in rows])[0])
    slopes = torch.autograd.grad(la.chunk_gla(*parts)[0].sum(), parts, create_graph=True)
    with pytest.raises(NotImplementedError, match="gradient of a gradient"):
        slopes[0].sum().backward()


@pytest.mark.parametrize("change, text", [
    (lambda p: p.update(v=p["v"][:1]), r"q is \[2, 7, 2, 5\].*must be \[1, 7, 4, 5\]"),
    (lambda p: p.update(g=p["g"][..., :3]), r"g is \[2, 7, 3\].*must be \[2, 7, 4\]"),
    (lambda p: p.update(q=p["q"].long()), "q is .*int64"),
    (lambda p: p.update(beta=None), "beta is NoneType"),
    (lambda p: p.update(chunk=1), "got 0 arguments and .*chunk"),
    (lambda p: p.update(cu_seqlens=torch.tensor([0, 7])), "cu_seqlens .* B = 1, which is 2"),
    (lambda p: p.update(initial_state=torch.zeros(2, 4, 3, 5)), r"initial_state is \[2, 4, 3, 5\]"),
])
def test_says_what_is_wrong(change, text):
    given = dict(zip(["q", "k", "v", "g", "beta"], tensors("gated_delta_rule")))
    change(given)
    with pytest.raises((ValueError, TypeError, RuntimeError), match=text):
        la.chunk_gated_delta_rule(**given)


def test_says_which_ends_are_wrong():
    parts = tensors("gla", 1)
    for ends in ([0, 8], [1, 7], [0, 5, 3, 7]):
        with pytest.raises(ValueError, match=f"cu_seqlens is .*{ends[1]}.*from 0 to T, which is 7"):
            la.chunk_gla(*parts, cu_seqlens=torch.tensor(ends))


# ---- layers --------------------------------------------------------------------------------------

WIDE = 2 * (5 + 5 + 3 + 1 + 1)  # two heads of gated-delta with K 5 and V 3


def test_a_layer_is_its_rule():
    layer, x = et.Recurrent(WIDE, 6, cell="gated-delta", heads=2, key=5), torch.randn(7, 2, WIDE)
    x[..., -4:] = x[..., -4:].sigmoid()
    y, (h, S) = layer(x.requires_grad_())
    q, k, v, g, beta = x.transpose(0, 1).split([10, 10, 6, 2, 2], -1)
    parts = q.unflatten(2, (2, 5)), k.unflatten(2, (2, 5)), v.unflatten(2, (2, 3)), g.log(), beta
    expected = la.chunk_gated_delta_rule(*parts, 1.0, output_final_state=True)
    close([y.unflatten(2, (2, 3)).transpose(0, 1), S.view(2, 2, 5, 3)], expected)
    close(gradients([y, S], [x]), gradients(expected, [x]))
    assert h.shape == (1, 2, 6) and torch.equal(h[0], y[-1])
    again, _ = layer(x[3:], layer(x[:3])[1])
    torch.testing.assert_close(again, y[3:])
    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x)[0], y)
    low, (_, wide) = layer(x.bfloat16())
    assert low.dtype is torch.bfloat16 and wide.dtype is torch.float32
    layer(x.bfloat16(), layer(x.bfloat16())[1])
    plain = ecornn.Layer("gated-delta", WIDE, 6, heads=2)
    run = plain.forward(x.detach().numpy())
    close([torch.tensor(one) for one in (run.y, run.final[1])], [y.detach(), S.detach()])
    dx = run.backward(dy=y.detach().cos().numpy()).x
    close([torch.tensor(dx)], gradients([layer(x)[0]], [x]))


@pytest.mark.parametrize("arguments, more, text", [
    ((WIDE + 1, 6), {}, "width of x is 31, must be heads\\*K"), ((WIDE, 6), {"key": 4}, "key is 4, must be 5"),
    ((WIDE, 6, 2), {}, "matrix state"), ((WIDE, 6), {"bidirectional": True}, "matrix state")])
def test_a_layer_says_what_is_wrong(arguments, more, text):
    with pytest.raises((ValueError, ecornn.Unsupported), match=text):
        et.Recurrent(*arguments, cell="gated-delta", heads=2, **more)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_keeps_its_matrix_in_float32(dtype):
    layer, x = et.Recurrent(WIDE, 6, cell="gated-delta", heads=2), 0.3 * torch.randn(5, 3, WIDE)
    expected, (_, state) = layer(x)
    for given in (x, x.to(dtype)):
        with torch.autocast("cpu", dtype, enabled=given is x):
            given = given.clone().requires_grad_()
            y, (h, matrix) = layer(given)
            assert (y.dtype, h.dtype, matrix.dtype) == (dtype, dtype, torch.float32)
        y.float().sum().backward()
        torch.testing.assert_close(y.float(), expected, atol=0.02, rtol=0.02)
        torch.testing.assert_close(matrix, state, atol=0.05, rtol=0.05)
        assert given.grad.isfinite().all()


def test_what_has_no_matrix_state_says_so():
    from ecornn import export

    layer = ecornn.Layer("gated-delta", WIDE, 6, heads=2)
    with pytest.raises(ecornn.Unsupported, match="matrix state"):
        export.source(layer)
    with pytest.raises(ecornn.BadArgument, match="matrix state"):
        ecornn.Layer("gated-delta", WIDE, 6, heads=2, dtype="bf16")
    pytest.importorskip("jax")
    import ecornn.jax as jax
    with pytest.raises(ecornn.Unsupported, match="matrix state"):
        jax.run(layer, {}, torch.zeros(3, 2, WIDE).numpy())


# ---- models of transformers ----------------------------------------------------------------------

SIZES = {"vocab_size": 32, "hidden_size": 24, "intermediate_size": 24, "num_hidden_layers": 4,
         "num_attention_heads": 2, "num_key_value_heads": 1, "linear_num_value_heads": 4,
         "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
MODELS = {"Qwen3Next": {"head_dim": 12, "shared_expert_intermediate_size": 8, **EXPERTS}, "OlmoHybrid": {},
          "KimiLinear": {"kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
                         "linear_head_dim": 8, "linear_num_heads": 2, "num_key_value_heads": 2,
                         "layer_types": ["linear_attention"] * 3 + ["full_attention"], **EXPERTS}}


def losses(model, steps):
    optimizer, found = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(steps):
        words = torch.arange(40).add(step).remainder(32).repeat(2, 1)
        loss = model(words, labels=words).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_transformers(name, monkeypatch):
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, f"{name}Config"):
        pytest.skip(f"could not import 'transformers' with {name}")
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**{**SIZES, **MODELS[name]}))
    calls, run = [], _linear.run
    monkeypatch.setattr(_linear, "run", lambda *given: calls.append(1) or run(*given))
    words = torch.randint(32, (2, 70))
    with torch.no_grad():
        expected = model(words).logits
        with la.patch() as switch:
            close([model(words).logits], [expected], rtol=1e-5, atol=1e-5)
            assert len(calls) == 3
            switch.close()
            assert torch.equal(model(words).logits, expected) and len(calls) == 3
    others = losses(copy.deepcopy(model), 20)
    with la.patch():
        close([torch.tensor(losses(copy.deepcopy(model), 20))], [torch.tensor(others)], rtol=1e-5, atol=1e-5)
        found = model.generate(words[:1, :5], max_new_tokens=6, do_sample=False)
    assert len(calls) == 3 + 3 * 20 + 3 * 6
    assert torch.equal(found, model.generate(words[:1, :5], max_new_tokens=6, do_sample=False))


def test_patch_needs_something_to_replace():
    with pytest.raises(ValueError, match="none of the modules"):
        la.patch(torch)
