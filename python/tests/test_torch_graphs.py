"""Graphs of torch.compile and torch.export: one for any T and N, with all options inside."""

from __future__ import annotations

import shutil

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

KINDS = ["LSTM", "GRU", "RNN"]


@pytest.fixture(autouse=True)
def compiles_anew():
    torch._dynamo.reset()


def _flat(found):
    """All tensors of nested results."""
    if torch.is_tensor(found):
        return [found]
    return [] if found is None else [tensor for part in found for tensor in _flat(part)]


def _compare(module, *arguments, **named):
    """A call compiled without a break against the eager call: results and all gradients."""
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    inputs = [t for t in [*arguments, *named.values()]
              if torch.is_tensor(t) and t.is_floating_point() and t.requires_grad]
    inputs += list(module.parameters())
    found = []
    for run in (module, compiled):
        torch.manual_seed(3)
        results = _flat(run(*arguments, **named))
        loss = sum(torch.sin(tensor + k).sum() for k, tensor in enumerate(results))
        found.append([*results, *torch.autograd.grad(loss, inputs)])
    for have, want in zip(*found):
        torch.testing.assert_close(have, want)


# ---- shapes -------------------------------------------------------------------------------------


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["dynamic", "automatic", "marked"])
def test_twenty_shapes(kind, how, device):
    module = getattr(et, kind)(6, 8, device=device)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(module, backend=counter, fullgraph=True,
                             dynamic=True if how == "dynamic" else None)
    for steps, batch in zip(range(5, 25), range(22, 2, -1)):
        x = torch.randn(steps, batch, 6, device=device, requires_grad=True)
        asked = [x, *module.parameters()]
        if how == "marked":
            torch._dynamo.mark_dynamic(x, 0)
            torch._dynamo.mark_dynamic(x, 1)
        y, want = compiled(x)[0], module(x)[0]
        assert torch.equal(y, want)
        for a, b in zip(torch.autograd.grad(y.pow(2).sum(), asked),
                        torch.autograd.grad(want.pow(2).sum(), asked)):
            assert torch.equal(a, b)
    assert counter.frame_count == (2 if how == "automatic" else 1)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_graph_runs_forward_once(runs, device, backend):
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("needs g++")
    module, x = et.LSTM(6, 8, device=device), torch.randn(5, 2, 6, device=device)
    compiled = torch.compile(module, fullgraph=True, backend=backend, dynamic=True)
    compiled(x)[0].sum().backward()
    assert len(runs) == 1
    found = module.weight_hh_l0.grad.clone()
    module.zero_grad()
    module(x)[0].sum().backward()
    torch.testing.assert_close(found, module.weight_hh_l0.grad)


def test_what_forward_kept_may_be_lost():
    """Hooks that copy what is saved lose the bytes in the storage; then forward is repeated."""
    module, x = et.GRU(6, 8), torch.randn(5, 2, 6)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    want = torch.autograd.grad(module(x)[0].pow(2).sum(), module.parameters())
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        loss = compiled(x)[0].pow(2).sum()
    for a, b in zip(torch.autograd.grad(loss, module.parameters()), want):
        assert torch.equal(a, b)


def test_a_gradient_of_a_gradient_in_a_graph():
    module, x = et.GRU(6, 8).eval(), torch.randn(5, 2, 6)
    again, found = torch.export.export(module, (x,)).module(), []
    for run in (module, again):
        one, = torch.autograd.grad(run(x)[0].sum(), run.weight_hh_l0, create_graph=True)
        found.append(torch.autograd.grad(one.sin().sum(), run.weight_hh_l0)[0])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_breaks_the_graph(kind, runs):
    """N is a value in batch_sizes; torch's own layers read it, too, and break there."""
    module = getattr(et, kind)(3, 4)
    x = pack_padded_sequence(torch.randn(5, 3, 3), torch.tensor([5, 2, 4]), enforce_sorted=False)
    compiled = torch.compile(lambda x: module(x)[0].data.sin(), backend="aot_eager")
    assert torch.allclose(compiled(x), module(x)[0].data.sin())
    assert len(runs) == 2


# ---- options ------------------------------------------------------------------------------------

BITS = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1]])


@pytest.mark.every(7)
@pytest.mark.parametrize("make", [
    lambda **more: et.LSTM(3, 4, 2, bidirectional=True, proj_size=2, **more),
    lambda **more: et.GRU(3, 4, 2, dropout=0.5, **more), lambda **more: et.MGU(3, 4, **more)])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("options", [
    dict(resets=BITS), dict(resets=BITS.bool(), reset_state=1), dict(mask=BITS.float()),
    dict(all_states=True), dict(lengths=torch.tensor([4, 1, 2]), repeat_padding=True),
    dict(resets=BITS, reset_state=3, mask=BITS, all_states=True)])
def test_options_stay_in_the_graph(make, first, options):
    module, options = make(batch_first=first), dict(options)
    x = torch.randn(4, 3, 3, requires_grad=True)
    x = x.transpose(0, 1) if first else x
    for name in ("resets", "mask"):
        if name in options and first:
            options[name] = options[name].t()
    rows = options.pop("reset_state", None)
    if rows:
        states = [torch.randn(module.num_layers * (1 + module.bidirectional), rows, width)
                  for width in (module.proj_size or 4, 4)]
        options["reset_state"] = tuple(states) if isinstance(module, et.LSTM) else states[0]
    _compare(module, x, **options)


def test_a_reset_state_is_learned_in_a_graph():
    module, start = et.GRU(3, 4), torch.randn(1, 1, 4, requires_grad=True)
    _compare(module, torch.randn(4, 3, 3), None, resets=BITS, reset_state=start)


def test_options_are_checked_in_a_graph():
    module = et.LSTM(3, 4)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for wrong, error in ((dict(resets=torch.full((4, 3), 0.5)), "floats must be 0 or 1"),
                         (dict(mask=torch.ones(3, 4)), "mask"),
                         (dict(lengths=torch.tensor([9, 1, 1])), "9")):
        with pytest.raises(Exception, match=error):
            compiled(torch.randn(4, 3, 3), **wrong)


@pytest.mark.every(5)
@pytest.mark.parametrize("cell", ["lstm", "gru", "mgu"])
@pytest.mark.parametrize("shared", [False, True])
def test_an_ensemble_stays_in_the_graph(cell, shared):
    module = et.Ensemble(3, cell, 3, 4, 2)
    x = torch.randn(*([] if shared else [3]), 4, 3, 3, requires_grad=True)
    state = torch.randn(3, 2, 3, 4)
    _compare(module, x, (state, state + 1) if cell == "lstm" else state)
    bits = BITS if shared else torch.stack([BITS, 1 - BITS, BITS])
    lengths = torch.tensor([4, 1, 2]) if shared else torch.tensor([[4, 1, 2]] * 3)
    _compare(module, x, None, lengths, bits, mask=bits, all_states=True)


# ---- opcheck, recomputation, export -------------------------------------------------------------


def _arguments(module, x, options=(), flags=0, keep=True):
    options = dict(options)
    weights = [p.detach().requires_grad_() for p in module.parameters()]
    cell = {"LSTM": "lstm", "GRU": "gru"}.get(module.mode, getattr(module, "cell_text", ""))
    return (x, options.get("lengths"), options.get("states"), weights, options.get("resets"),
            options.get("starts"), options.get("mask"), cell,
            et._spec.problem_of(module._sizes(), False, flags), "save:all", module.dropout, module.dropout > 0, torch.tensor([7]) if module.dropout else None, keep)


def _opcheck(name, *arguments):
    """opcheck; and no tensor on the meta device may be among others, apart from the seed."""
    operator = getattr(torch.ops.ecornn, name)
    torch.library.opcheck(operator.default, arguments)
    leaves, tree = torch.utils._pytree.tree_flatten(arguments)
    for place, leaf in enumerate(leaves):
        if torch.is_tensor(leaf) and leaf is not arguments[-2]:
            mixed = [*leaves[:place], leaf.to("meta"), *leaves[place + 1:]]
            with pytest.raises(RuntimeError, match=" meta"), torch.no_grad():
                operator(*tree.unflatten(mixed))


@pytest.mark.every(3)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("case", range(5))
def test_opcheck(case, keep):
    x, state = torch.randn(4, 3, 3, requires_grad=True), torch.randn(1, 3, 4, requires_grad=True)
    arguments = [
        _arguments(et.LSTM(3, 4), x, keep=keep),
        _arguments(et.GRU(3, 4, 2, dropout=0.5, bidirectional=True), x, keep=keep),
        _arguments(et.LSTM(3, 4), x, dict(states=[state, state.detach() + 1],
                                          lengths=torch.tensor([4, 1, 2], dtype=torch.int32)),
                   keep=keep),
        _arguments(et.GRU(3, 4), x, dict(resets=BITS, starts=[state], mask=BITS),
                   et._op.lib.ALL_STATES, keep),
        _arguments(et.Ensemble(2, "gru", 3, 4), torch.randn(2, 4, 3, 3), keep=keep)][case]
    _opcheck("layer", *arguments)
    with torch.no_grad():
        arguments = torch.utils._pytree.tree_map(
            lambda given: given.detach() if torch.is_tensor(given) else given, arguments)
        results = torch.ops.ecornn.layer(*arguments)
    gradients = [None, *map(torch.ones_like, results[1:-2])]
    wanted = [True] * (1 + len(arguments[3]) + (len(results) - 3) // (1 + (case == 3)) * (
        1 + (case == 3)))
    _opcheck("layer_backward", gradients, results[0], *results[-2:], *arguments[:-1], wanted)


def test_opcheck_of_the_seed():
    torch.library.opcheck(torch.ops.ecornn.draw.default, (torch.randn(3),), test_utils=(
        "test_schema", "test_autograd_registration", "test_faketensor"))


@pytest.mark.every(4)
@pytest.mark.parametrize("budget", [0.9, 0.5, 0.0])
@pytest.mark.parametrize("make", [lambda: et.LSTM(6, 8, 3, dropout=0.5), lambda: et.ZoneoutLSTM(6, 8),
                                  lambda: et.Net(6, "lstm/H8/L3/dropout:0.5")])
def test_recomputation_draws_nothing_new(make, budget):
    """Gradients against finite differences of the loss with the same seed."""
    module, step = make().double(), 1e-6
    x = torch.randn(20, 4, 6, dtype=torch.double, requires_grad=True)
    along = torch.randn_like(x)

    def value(x):
        torch.manual_seed(1)
        return compiled(x)

    with torch._functorch.config.patch(activation_memory_budget=budget):
        compiled = torch.compile(
            lambda x: torch.sin(module(torch.tanh(x * 2))[0]).pow(2).sum(),
            backend="aot_eager_decomp_partition", fullgraph=True)
        found, = torch.autograd.grad(value(x), x)
        with torch.no_grad():
            slope = (value(x + step * along) - value(x - step * along)) / (2 * step)
    torch.testing.assert_close((found * along).sum(), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.every(5)
@pytest.mark.parametrize("budget", [0.9, 0.3, 0.0])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("make", [lambda: et.LSTM(6, 8, 3, dropout=0.5),
                                  lambda: et.ZoneoutLSTM(6, 8)])
def test_dropout_is_not_drawn_again(make, wrapped, budget):
    """Whatever a compiled graph computes again in backward, gradients are those of its loss."""
    from torch.utils.checkpoint import checkpoint

    module, x = make(), torch.randn(20, 4, 6, requires_grad=True)

    def loss(x):
        return torch.sin(module(torch.tanh(x * 2))[0]).pow(2).sum()

    def run(x):
        return checkpoint(loss, x, use_reentrant=False) if wrapped else loss(x)

    found = []
    for share, function in ((1.0, loss), (budget, run)):
        torch._dynamo.reset()
        torch.manual_seed(1)
        with torch._functorch.config.patch(activation_memory_budget=share):
            compiled = torch.compile(function, backend="aot_eager_decomp_partition",
                                     fullgraph=True)
            value = compiled(x)
            found.append([value, *torch.autograd.grad(value, [x, *module.parameters()])])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("make", [lambda: et.LSTM(3, 4), lambda: et.MGU(3, 4, bidirectional=True),
                                  lambda: et.Net(3, "lstm/H4/bi; join:2; gru/H5")])
def test_vmap_in_a_graph(make):
    module, x = make(), torch.randn(3, 5, 2, 3)
    compiled = torch.compile(torch.func.vmap(lambda x: module(x)[0]), backend="aot_eager",
                             fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.stack([module(one)[0] for one in x]))


# ---- attention ----------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("lengths", [None, torch.tensor([5, 2])])
def test_attention_stays_in_the_graph(first, lengths):
    module = et.AdditiveAttention(3, 4, 6, batch_first=first)
    query, memory = torch.randn(3, 2, 3, requires_grad=True), torch.randn(5, 2, 4)
    if first:
        query, memory = query.transpose(0, 1), memory.transpose(0, 1)
    _compare(module, query, memory, lengths, need_weights=True)
    _compare(module, query[:, 0] if first else query[0], memory, lengths)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="lengths has 9"):
        compiled(query, memory, torch.tensor([9, 1]))


@pytest.mark.parametrize("weighs, keep", [(True, True), (False, False)])
def test_opcheck_of_attention(weighs, keep):
    tensors = [torch.randn(*shape, requires_grad=True) for shape in (
        (3, 2, 6), (5, 2, 6), (5, 2, 4), (6,))]
    more = torch.tensor([5, 2]), False
    _opcheck("attention", *tensors, *more, weighs, keep)
    tensors = [tensor.detach() for tensor in tensors]
    context, weights, reserve = torch.ops.ecornn.attention(*tensors, *more, weighs, keep)
    _opcheck("attention_backward", torch.ones_like(context), torch.ones_like(weights) if weighs else None,
             reserve, *tensors, *more, [True] * 4)


# ---- nets ---------------------------------------------------------------------------------------

TEXTS = ["lstm/H4/bi; join:2; gru/H5", "lstm/H4/L2/dropout:0.5 + gru/H3/rev; mgu/H4"]


@pytest.mark.every(3)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("first", [False, True])
def test_a_net_stays_in_the_graph(text, first):
    net = et.Net(3, text, batch_first=first)
    x = torch.randn(7, 2, 3, requires_grad=True)
    _compare(net, x.transpose(0, 1) if first else x)
    _compare(net, x.transpose(0, 1) if first else x, torch.tensor([7, 3]))
    state = torch.randn(1 + ("bi" in text), 2, 4, requires_grad=True)
    if "bi" in text:
        _compare(net, x.transpose(0, 1) if first else x, None, [(state, None), None])


@pytest.mark.parametrize("make", [
    lambda text: et.Recurrent(3, 4, cell=text),
    lambda text: et.Net(3, "own/H4; gru/H3", cells=[text])])
def test_arguments_of_a_graph_have_one_line(make):
    """Inductor writes them into comments of its code."""
    seen = []

    def backend(graph, _):
        seen.extend(argument for node in graph.graph.nodes for argument in node.args
                    if isinstance(argument, str) and "tanh" in argument)
        return graph

    module, x = make("cell own(h)\nh' = tanh(W x + R h)  # a comment\n"), torch.randn(5, 2, 3)
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x)[0], module(x)[0])
    assert len(seen) == 1 and "\n" not in seen[0]


@pytest.mark.every(3)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_opcheck_of_a_net(text, keep):
    net, draws = et.Net(3, text), "dropout" in text
    params = [p.detach().requires_grad_() for p in net.parameters()]
    states = [torch.randn(*net._state_shapes(2)[1], requires_grad=True)]
    resets = (torch.rand(7, 2) < 0.3).to(torch.uint8)
    arguments = (torch.randn(7, 2, 3, requires_grad=True), torch.tensor([7, 3]), resets, None,
                 params, states, "1", 3, text, False, "", "", "all", 0, draws,
                 torch.tensor([7]) if draws else None)
    _opcheck("net", *arguments, keep)
    arguments = torch.utils._pytree.tree_map(
        lambda given: given.detach() if torch.is_tensor(given) else given, arguments)
    y, *final, reserve, packed = torch.ops.ecornn.net(*arguments, keep)
    wanted = [True] * (2 + len(params))
    _opcheck("net_backward", [torch.ones_like(y), *[None] * len(final)], y, reserve, packed,
             *arguments, wanted)


# ---- core ATen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, more", [("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 3}),
                                        ("GRU", {"batch_first": True, "bias": False}), ("RNN", {})])
def test_an_exported_layer_in_core_aten(kind, more):
    module = getattr(et, kind)(6, 8, **more).eval()
    x, rows = torch.randn(3, 3, 6), torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(module, (x,), {"lengths": torch.tensor([3, 0, 2])},
                                  dynamic_shapes={"input": {0 if module.batch_first else 1: rows}, "lengths": {0: rows}},
                                  strict=True)
    core = program.run_decompositions(et.decompositions())
    calls = {node.target for node in core.graph.nodes if node.op == "call_function"}
    operators = {call for call in calls if isinstance(call, torch._ops.OpOverload)}
    assert not [call for call in operators if torch.Tag.core not in call.tags and "assert" not in str(call)]  # torch's
    assert operators & {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}
    assert all(call.__module__ in ("_operator", "math") for call in calls - operators), calls
    assert any("ecornn.layer" in str(node.target) for node in program.graph.nodes)
    for batch in (3, 2):
        given = torch.randn(*((batch, 3) if module.batch_first else (3, batch)), 6)
        lengths = torch.arange(1, batch + 1)
        torch.testing.assert_close(_flat(core.module()(given, lengths=lengths)),
                                   _flat(module(given, lengths=lengths)))


def test_what_core_aten_lacks_is_refused():
    x = torch.randn(2, 2, 6)
    for module, more, says in ((et.MGU(6, 8), {}, "the cell mgu"), (et.LSTM(6, 8), {"mask": x[..., 0] > 0}, "mask"),
                               (et.GRU(6, 8), {"all_states": True}, "all_states"),
                               (et.Recurrent(6, 8, cell="lstm", heads=2), {}, "heads"),
                               (et.LSTM(6, 8, 2, dropout=0.5).train(), {}, "dropout")):
        program = torch.export.export(module, (x,), more)
        with pytest.raises(Exception, match=f"no layer with {says}"):
            program.run_decompositions(et.decompositions())
    steps = torch.export.Dim("steps", min=2, max=64)
    program = torch.export.export(et.GRU(6, 8), (x,), dynamic_shapes={"input": {0: steps}})
    with pytest.raises(Exception, match="T is dynamic, must be fixed"):
        program.run_decompositions(et.decompositions())
