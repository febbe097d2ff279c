"""Memory that a CPU keeps between runs for backward; two runs never share it."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import re
import signal
import threading

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from ecornn import _locks  # noqa: E402
from ecornn.torch import _kept, _native  # noqa: E402

T, N, I, H = 6, 2, 3, 5


@pytest.fixture(autouse=True)
def every_reserve_is_large(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(_kept, "LARGE", 1)


@pytest.fixture
def lent(monkeypatch):
    """Addresses of the blocks that were lent, in order."""
    found, lend = [], _kept.lend

    def noted(*args):
        made = lend(*args)
        found.append(made.data_ptr())
        return made

    monkeypatch.setattr(_kept, "lend", noted)
    return found


def kept(module):
    layer = _kept._layers.get(id(next(module.parameters())))
    return [] if layer is None else [block.numel() for block in layer.blocks]


def gradients(module, x, **more):
    return torch.autograd.grad(module(x)[0].square().sum(), list(module.parameters()), **more)


@pytest.mark.parametrize("make", [
    lambda: et.LSTM(I, H), lambda: et.Ensemble(2, "lstm", I, H), lambda: et.Net(I, f"lstm/H{H}")])
def test_the_next_run_has_the_same_block(make, lent):
    module, x = make(), torch.randn(T, N, I)
    first = gradients(module, x)
    assert len(kept(module)) == 1
    assert all(map(torch.equal, first, gradients(module, x))) and lent[0] == lent[1]
    gradients(module, torch.randn(2, N, I))  # a shorter one, too
    assert lent[2] == lent[0]
    gradients(module, torch.randn(5 * T, N, I))  # the shorter block is freed
    assert len(kept(module)) == 1
    with torch.no_grad():
        module(x)
    assert len(lent) == 4


@pytest.mark.parametrize("turned", [False, True])
def test_two_that_wait(turned, lent):
    module = et.LSTM(I, H)
    xs = [torch.randn(T, N, I) for _ in range(3)]
    right = [gradients(module, x) for x in xs]
    runs = list(enumerate([module(x)[0] for x in xs]))
    assert len(set(lent[3:])) == 3
    for k, y in reversed(runs) if turned else runs:
        found = torch.autograd.grad(y.square().sum(), list(module.parameters()))
        assert all(map(torch.equal, found, right[k]))
    del runs, y
    assert len(kept(module)) == _kept._MOST
    module.flatten_parameters()
    assert not kept(module)


def test_kept_graphs():
    module, x, other = et.LSTM(I, H), torch.randn(T, N, I), torch.randn(T, N, I)
    right = gradients(module, x)
    loss = module(x)[0].square().sum()
    for _ in range(2):
        found = torch.autograd.grad(loss, list(module.parameters()), retain_graph=True)
        assert all(map(torch.equal, found, right))
        gradients(module, other)
    module.double()
    x = x.double().requires_grad_()
    one, = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
    gradients(module, other.double())
    two, = torch.autograd.grad(one.square().sum(), x)
    again, = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
    assert torch.equal(two, torch.autograd.grad(again.square().sum(), x)[0])


@pytest.mark.skipif(not _native.backward, reason="needs ecornn-torch.so")
@pytest.mark.parametrize("kind, parts", [("GRU", "weight_hh"), ("LSTM", "weight")])
def test_gradients_of_weights_are_parts_of_one_block(kind, parts):
    """Not all of a GRU: packed gradients have W's gates in another order."""
    module, x, gone = getattr(et, kind)(I, H, 2), torch.randn(T, N, I), torch.randn(T, N, I)
    right = gradients(module, x)
    matrices = [weight for name, weight in module.named_parameters() if name.startswith(parts)]
    for _ in range(3):
        module.zero_grad()
        module(x)[0].square().sum().backward()
        assert len({weight.grad.untyped_storage().data_ptr() for weight in matrices}) == 1
        gradients(module, gone)  # in another block
        for weight, gradient in zip(module.parameters(), right):
            assert torch.equal(weight.grad, gradient)
    first = matrices[0].grad.data_ptr()
    for weight, gradient in zip(module.parameters(), right):
        weight.grad.mul_(3)  # of this one alone
        assert torch.equal(weight.grad, gradient * 3)
    module.zero_grad()
    module(x)[0].square().sum().backward()
    assert matrices[0].grad.data_ptr() == first
    assert len(next(iter(_kept._layers.values())).gradients) <= _kept._MOST


def advised(tensor):
    """Are huge pages wanted where the middle of the tensor is?"""
    at = tensor.data_ptr() + tensor.nbytes // 2
    with open("/proc/self/smaps") as file:
        for line in file:
            ends = re.match("([0-9a-f]+)-([0-9a-f]+) ", line)
            if ends:
                inside = int(ends[1], 16) <= at < int(ends[2], 16)
            elif inside and line.startswith("VmFlags:"):
                return "hg" in line.split()
    return False


@pytest.mark.skipif(not (_native.backward and os.path.exists("/sys/kernel/mm/transparent_hugepage")),
                    reason="needs ecornn-torch.so and huge pages")
def test_large_blocks_take_huge_pages():
    module = et.LSTM(512, 512)
    module(torch.randn(2, 1, 512))[0].sum().backward()
    layer = _kept._layers[id(module.weight_ih_l0)]
    assert advised(module.weight_ih_l0.grad) and advised(layer.records[0][1])


def test_what_hooks_hold_is_not_lent(lent):
    """An alias holds the storage alone, no tensor that the run made."""
    module, x = et.LSTM(I, H), torch.randn(T, N, I)
    right = gradients(module, x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        loss = module(x)[0].square().sum()
    gradients(module, torch.randn(T, N, I))
    assert lent[1] != lent[2]
    found = torch.autograd.grad(loss, list(module.parameters()))
    assert all(map(torch.equal, found, right))


def test_threads(in_threads):
    module = et.LSTM(I, H)
    xs = [torch.randn(T, N, I) for _ in range(4)]
    right, wrong = [gradients(module, x) for x in xs], []

    def work(k):
        for _ in range(20):
            if not all(map(torch.equal, gradients(module, xs[k]), right[k])):
                wrong.append(k)

    in_threads(work)
    assert not wrong and len(kept(module)) <= _kept._MOST


def test_blocks_go_with_the_module():
    gc.collect()
    before, module = len(_kept._layers), et.LSTM(I, H)
    loss = module(torch.randn(T, N, I))[0].sum()
    assert len(_kept._layers) == before + 1
    weight = module.weight_hh_l0
    del module
    loss.backward()  # the graph holds its block until here
    assert weight.grad.abs().sum() > 0
    del loss
    gc.collect()
    assert len(_kept._layers) == before


def test_the_operator_of_compiled_graphs(lent):
    module, x = et.LSTM(I, H), torch.randn(T, N, I)
    weights, right = list(module.parameters()), gradients(module, x)
    ys = [torch.ops.ecornn.layer(x, None, [], weights, None, None, None, "lstm",
                                 f"L1/I{I}/H{H}", "", 0.0, False, None, True)[0] for _ in range(2)]
    assert len(set(lent)) == 2
    for y in ys:
        found = torch.autograd.grad(y.square().sum(), weights)
        assert all(map(torch.equal, found, right))


# ---- packed weights -----------------------------------------------------------------------------


def change(module):
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(0.9)


@pytest.mark.parametrize("native", [False, True])
def test_training_packs_into_memory_that_it_has(native, monkeypatch):
    """A step packs where the step before did, once its graph is gone; and so does inference."""
    if not native:
        monkeypatch.setattr(_native, "forward", lambda *_: None)
    module, x, made, places = et.LSTM(I, H), torch.randn(T, N, I), [], set()
    fresh = _kept.fresh
    monkeypatch.setattr(_kept, "fresh", lambda *args: made.append(args) or fresh(*args))
    for _ in range(4):
        right = gradients(copy.deepcopy(module), x)
        del made[:]
        with torch.no_grad():
            module(x)
        assert all(map(torch.equal, gradients(module, x), right))
        count = len(made)
        change(module)
        records = _kept._layers[id(module.weight_ih_l0)].records
        places |= {record[1].data_ptr() for record in records}
    assert count == 0 and len(places) == len(records)


@pytest.mark.parametrize("alias", [False, True])
def test_graphs_that_wait_keep_their_weights(alias):
    """Also where a hook holds an alias, which no tensor that the run made refers to."""
    module, x, runs = et.LSTM(I, H), torch.randn(T, N, I), []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach() if alias else t, lambda t: t)
    for _ in range(4):
        right = gradients(copy.deepcopy(module), x)
        with hooks:
            runs.append((module(x)[0].square().sum(), list(module.parameters()), right))
        for weight in module.parameters():
            weight.data = weight.data * 0.9
    for loss, weights, right in runs:
        assert all(map(torch.equal, torch.autograd.grad(loss, weights), right))


def test_threads_that_pack(in_threads):
    module, x = et.LSTM(I, H), torch.randn(T, N, I)
    turns, expected = threading.Barrier(4), [None]

    def work(k):
        for _ in range(40):
            if k == 0:
                change(module)
                expected[0] = gradients(copy.deepcopy(module), x)
            turns.wait(60)
            right = all(map(torch.equal, gradients(module, x), expected[0]))
            turns.wait(60)
            assert right

    in_threads(work)


def test_a_process_made_while_a_thread_packs():
    """Its lock would never be released there."""
    module, x = et.LSTM(I, H), torch.randn(T, N, I)
    right = module(x)[0]
    with contextlib.ExitStack() as stack:  # as threads that pack, or make plans
        for lock in list(_locks._all):
            stack.enter_context(lock)
        child = os.fork()
        if child == 0:  # without backward, which torch refuses in a child
            signal.alarm(30)
            change(module)
            os._exit(1 if torch.equal(module(x)[0], right) else 0)
    assert os.waitpid(child, 0)[1] == 0


def test_small_ones_are_malloc_s(monkeypatch):
    monkeypatch.setattr(_kept, "LARGE", 1 << 20)
    module, x = et.LSTM(I, H, 3), torch.randn(T, N, I)
    gradients(module, x)
    assert not kept(module)
