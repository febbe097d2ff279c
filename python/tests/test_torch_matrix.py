"""Each kind of module under torch's newer machinery gives what it gives without, by ecornn, or one
message with the reason: the table of doc/guide/python.md, "Modes, transforms, tracers"."""

from __future__ import annotations

import contextlib
import socket

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from torch.func import functional_call, grad, jvp, vjp, vmap  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

FIRST = torch.arange(10).view(5, 2) % 3 == 0


class Model(torch.nn.Module):
    """A module inside another, called with x in all these places and with these other arguments."""

    def __init__(self, module, places=1, **more):
        super().__init__()
        self.module, self.places, self.more = module, places, more

    def forward(self, x):
        return self.module(*[x] * self.places, **self.more)


KINDS = {
    "layers": lambda: Model(et.LSTM(3, 4, 2, bidirectional=True)),
    "lengths": lambda: Model(et.GRU(3, 4, batch_first=True), lengths=torch.tensor([2, 1, 0, 2, 1])),
    "resets": lambda: Model(et.LSTM(3, 4), resets=FIRST, mask=~FIRST, all_states=True),
    "text cells": lambda: Model(et.Recurrent(3, 4, cell="slstm", heads=2)),
    "Net": lambda: Model(et.Net(3, "lstm/H4; join:2; gru/H3/bi"), resets=FIRST),
    "attention": lambda: Model(et.AdditiveAttention(3, 3, 5), 2, need_weights=True),
    "Ensemble": lambda: Model(et.Ensemble(2, "gru", 3, 4)),
    "cells": lambda: Model(et.LSTMCell(3, 4))}


class Mode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        return f(*args, **(kwargs or {}))


def within(mode, work):
    with mode():
        return work()


def leaves(found):
    return [one for one in torch.utils._pytree.tree_leaves(found) if torch.is_tensor(one)]


def loss(found):
    return sum(torch.sin(one + k).sum() for k, one in enumerate(leaves(found)))


def step(run, model, x, around=contextlib.nullcontext):
    """Results and gradients; around: of backward only."""
    model.zero_grad()
    x = torch.nn.Parameter(x.clone())
    results = run(x)
    with around():
        loss(results).backward()
    return [*map(torch.Tensor.detach, leaves(results)), x.grad, *(p.grad for p in model.parameters())]


def flops(model, x):
    with FlopCounterMode(display=False) as counter:
        found = step(model, model, x)
    counts = {str(name): count for name, count in counter.get_flop_counts()["Global"].items()}
    ours = [name for name in counts if name.startswith("ecornn.")]
    assert all(counts.values()) and len(ours) == 2 * (not isinstance(model.module, et.LSTMCell))
    if isinstance(model.module, et.LSTM) and not model.more:  # two layers, directions
        assert counts["ecornn.layer"] * 3 == counter.get_total_flops() == 36480
    with FlopCounterMode(display=False) as counter:  # no W
        et.Recurrent(3, 4, cell="cell a(h)\nh' = R h\n")(torch.ones(5, 2, 3))[0].sum().backward()
    assert counter.get_total_flops() == 960
    return found


def selective(model, x):
    contexts = getattr(torch.utils.checkpoint, "create_selective_checkpoint_contexts", None) or pytest.skip(
        "selective checkpointing came with torch 2.5")
    return step(lambda x: checkpoint(model, x, use_reentrant=False, context_fn=lambda: (
        contexts([torch.ops.aten.mm.default]))), model, x)


def compiled_autograd(model, x):
    from torch._dynamo import compiled_autograd
    enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable
    whole = not isinstance(model.module, et.LSTMCell)  # its gradient breaks the graph
    return [step(model, model, one, lambda: enable(torch.compile(
        backend="aot_eager", fullgraph=whole))) for one in (2 * x, x)][1]  # other values, same graph


def pulled(model, x):
    own = dict(model.named_parameters())
    found, pull = vjp(lambda x, own: tuple(leaves(functional_call(model, own, x))), x, own)
    return [*found, *leaves(pull(tuple(torch.cos(one + k) for k, one in enumerate(found))))]


def mapped(model, x):
    own, xs = dict(model.named_parameters()), torch.stack([2 * x, x])
    found = vmap(lambda x: leaves(model(x)))(xs)
    slopes = vmap(grad(lambda own, x: loss(functional_call(model, own, x)), (1, 0)), (None, 0))(own, xs)
    return [one[1] for one in [*found, *leaves(slopes)]]


def batched(model, x):
    x = x.clone().requires_grad_()
    found = leaves(model(x))
    slopes = [torch.cos(one.detach() + k) for k, one in enumerate(found)]
    many = torch.autograd.grad(found, [x, *model.parameters()], [
        torch.stack([2 * one, one]) for one in slopes], is_grads_batched=True)
    return [*found, *(one[1] for one in many)]


def sharded(model, x):
    from torch import distributed
    from torch.distributed import fsdp
    shard = getattr(fsdp, "fully_shard", None) or pytest.skip("FSDP2 came with torch 2.6")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        shard(model, mesh=distributed.device_mesh.init_device_mesh("cpu", (1,)))
        if isinstance(model.module, et.Recurrent):  # without FSDP's hooks
            with pytest.raises(ValueError, match="a weight is a DTensor, must be"):
                model.module(x)
        return [getattr(one, "full_tensor", lambda: one)() for one in step(model, model, x)]
    finally:
        distributed.destroy_process_group()


WAYS = {
    "FLOP counters": flops, "selective checkpointing": selective, "batched gradients": batched,
    "modes": lambda model, x: within(Mode, lambda: within(Mode, lambda: step(model, model, x))),
    "compiled autograd": compiled_autograd, "func": pulled, "vmap": mapped, "FSDP2": sharded,
    "func in a mode": lambda model, x: within(Mode, lambda: pulled(model, x)),
    "mode in backward": lambda model, x: step(model, model, x, Mode),
    "compile": lambda model, x: step(
        torch.compile(model, fullgraph=True, backend="aot_eager"), model, x),
    "export": lambda model, x: step(
        torch.export.export(model, (x,), strict=False).module(), model, x),
    "fx": lambda model, x: step(torch.fx.symbolic_trace(model), model, x),
    "trace": lambda model, x: step(torch.jit.trace(model, (x,)), model, x),
    "subclass": lambda model, x: step(
        lambda x: model(x.as_subclass(type("Own", (torch.Tensor,), {}))), model, x)}


# Of layers' options, which are one operator, layers alone are compiled for a gradient each day.
@pytest.mark.parametrize("kind, way", [
    pytest.param(kind, way, marks=[pytest.mark.long] * (
        way == "compiled autograd" and kind in ("lengths", "resets", "text cells", "Ensemble")))
    for way in WAYS for kind in KINDS])
def test_the_same(kind, way, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", socket.if_nameindex()[0][1])  # needs no network
    model, x = KINDS[kind](), torch.randn(5, 2, 3)[0 if kind == "cells" else slice(5)]
    want = step(model, model, x)
    torch._dynamo.reset()
    et.fallbacks(reset=True)
    for a, b in zip(WAYS[way](model, x), want, strict=True):
        torch.testing.assert_close(a, b)
    quiet = ["compile", "export"] + (et.cells._forward is not None) * [
        "batched gradients", "compiled autograd", "FSDP2", "mode in backward", "fx"]
    assert bool(et.fallbacks()) == (
        way not in quiet if kind == "cells" else (kind, way) == ("layers", "trace"))


@pytest.mark.parametrize("kind, reason", [
    ("resets", "states of every step"), ("text cells", "heads"), ("Net", "a net"),
    ("attention", "attention"), ("Ensemble", "several models")])
def test_refused_with_a_reason(kind, reason):
    model, x = KINDS[kind](), torch.randn(5, 2, 3, requires_grad=True)
    for mode in (contextlib.nullcontext, Mode):
        with mode():
            with pytest.raises(NotImplementedError, match=f"forward-mode.* {reason}"):
                jvp(lambda x: leaves(model(x)), (x.detach(),), (x.detach(),))
            with pytest.raises(NotImplementedError, match=f"gradient of a gradient.* {reason}"):
                first, = torch.autograd.grad(loss(model(x)), x, create_graph=True)
                first.sum().backward()
