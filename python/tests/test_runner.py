"""The module that runs layers on addresses, ecornn-run.so: where it is found, threads, processes."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ecornn
from ecornn import Layer, _runner
from ecornn._plan import Plans, Shape


def draw(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_one_that_is_not_there_is_named():
    run = subprocess.run([sys.executable, "-c", "import ecornn.layer"], capture_output=True, text=True,
                         env={**os.environ, "ECORNN_RUN_MODULE": "/nowhere/ecornn-run.so"})
    assert run.returncode
    assert "no ecornn-run.so: looked at /nowhere/ecornn-run.so (set ECORNN_RUN_MODULE" in run.stderr


def test_why_one_is_not_loaded_is_told(monkeypatch, tmp_path):
    path, wrong = tmp_path / "ecornn-run.so", [
        (b"no module", "cannot be loaded: .*(invalid ELF header|file too short)"),
        (Path(ecornn._library.file()).read_bytes(), "cannot be loaded: .*ecornn_run_open")]
    monkeypatch.setenv("ECORNN_RUN_MODULE", str(path))
    for bytes, why in wrong:
        path.unlink(missing_ok=True)  # one that is loaded must not change
        path.write_bytes(bytes)
        with pytest.raises(ImportError, match=f"{path} {why}"):
            _runner._load()
    monkeypatch.setenv("ECORNN_RUN_MODULE", "none")
    with pytest.raises(ImportError, match="ECORNN_RUN_MODULE is none"):
        _runner._load()


def test_one_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(_runner, "_VERSION", _runner._VERSION + 1)
    with pytest.raises(ImportError, match=r"ecornn-run\.so does not fit .*libecornn"):
        _runner._load()


def test_structures_of_another_size_are_refused():
    layer, (x, y) = Layer("lstm", 3, 4), (draw(5, 2, width) for width in (3, 4))
    ask = _runner.ask_of(layer._handle, False, (5, 2), layer._types, 0)
    io = ecornn._library.pack_io(x=x.ctypes.data, y=y.ctypes.data)
    layer._plans.infer(ask, io)
    for wrong in (0, 8, 1 << 40):
        other = wrong.to_bytes(8, sys.byteorder)
        for given in ((other + ask[8:], io), (ask, other + io[8:])):
            with pytest.raises(ecornn.BadArgument):
                layer._plans.infer(*given)


def test_memory_that_is_not_there():
    """Of the module itself; the library's last text is of another failure."""
    layer = Layer("lstm", 3, 4)
    with pytest.raises(ecornn.BadArgument):
        Layer("lstm", 3, 0)
    with pytest.raises(ecornn.NoMemory, match=f"no memory for {1 << 62} bytes"):
        layer._plans.take(0, 1 << 62, True)
    with pytest.raises(ecornn.NoMemory, match=f"no memory for {(1 << 64) - 1} bytes"):
        layer._plans.take(0, (1 << 64) - 1, True)


def test_a_plan_is_measured_once():
    """Seconds are asked for only where none serves the run."""
    asked = []
    plans = Plans(Shape("lstm", 3, 4), lambda on: asked.append(on) or 1e-6)
    first = plans.get("cpu:1", (97, 1), (0, 0), False)
    assert plans.get("cpu:1", (98, 1), (0, 0), False).handle == first.handle and asked == ["cpu:1"]
    assert "not measured: 12 runs" in str(first)
    assert plans.get("cpu:1", (200, 1), (0, 0), False).handle != first.handle and len(asked) == 2


def test_a_plan_at_the_place_of_a_freed_one():
    """What one said of packed weights does not count for the other."""
    def plan_of(hidden):
        return Plans(Shape("lstm", 3, hidden)).get("cpu:1", (2, 2), (0, 0), False)

    plan = plan_of(4)
    found = [plan.takes(plan_of(hidden)) for hidden in 50 * (8, 4)]  # freed at once, which an assert would not
    assert found == 50 * [False, True]


def test_threads_run_while_parameters_change(in_threads):
    """Each turn all threads run with new parameters, in shapes of several plans."""
    layer, turns, right = Layer("lstm", 8, 16), threading.Barrier(4), {}
    inputs = [draw(steps, batch, 8) for steps, batch in ((1, 1), (7, 3), (30, 40), (3, 20))]

    def work(k):
        for turn in range(40):
            if turns.wait(60) == 0:
                layer.parameters.block[:] *= 0.99
                alone = Layer("lstm", 8, 16)
                alone.parameters.block[:] = layer.parameters.block
                for number, x in enumerate(inputs):
                    run = alone.forward(x)
                    right[number] = run.y, run.backward(run.y).parameters.block
            turns.wait(60)
            for number in range(4):
                number = (number + k) % 4
                run = layer.forward(inputs[number])
                np.testing.assert_array_equal(layer(inputs[number])[0], right[number][0])
                np.testing.assert_array_equal(run.backward(run.y).parameters.block, right[number][1])

    in_threads(work)


def test_backward_has_the_weights_of_its_forward():
    layer, x = Layer("lstm", 8, 16), draw(7, 3, 8)
    run = layer.forward(x)
    right = run.backward(run.y)
    for _ in range(3):
        layer.parameters.block[:] *= 0.5
        later = layer.forward(x)
        assert (layer(x)[0] != run.y).any() and (later.y != run.y).any()
    np.testing.assert_array_equal(run.backward(run.y).x, right.x)


def test_threads_add_to_one_gradient(in_threads):
    """Equal numbers, so their order does not matter."""
    layer, x = Layer("gru", 256, 256, device="cpu:1"), draw(2, 2, 256)
    run, turns = layer.forward(x), 20
    dy = np.ones_like(run.y)
    right, sum = (run.backward(np.zeros_like(dy)) for _ in range(2))
    for _ in range(4 * turns):
        run.backward(dy, accumulate=right)

    def work(k):
        for _ in range(turns):
            run.backward(dy, accumulate=sum)

    in_threads(work)
    np.testing.assert_array_equal(sum.parameters.block, right.parameters.block)


@pytest.mark.parametrize("models", [None, 2])
def test_parameters_by_way_of_device_memory(models, monkeypatch):
    """As on a GPU, whose memory the host cannot read; here it can."""
    def step(layer):
        run = layer.forward(x)
        grads = run.backward(run.y)
        run.backward(run.y, accumulate=grads)
        return layer(x)[0], grads.x, grads.parameters.block

    x = draw(5, 2, 4)
    plain, other = (Layer("lstm", 4, 8, layers=2, models=models) for _ in range(2))
    ask_of = _runner.ask_of
    for _ in range(3):
        right = step(plain)
        with monkeypatch.context() as patch:
            patch.setattr("ecornn._run.ask_of", lambda device, on_gpu, *more: ask_of(device, True, *more))
            for ours, theirs in zip(step(other), right):
                np.testing.assert_array_equal(ours, theirs)
        for layer in (plain, other):
            layer.parameters.block[:] *= 0.5


def test_a_process_made_while_threads_run_and_make_plans():
    """A lock that one of them holds would never be released there."""
    layer, x, ends = Layer("lstm", 3, 4, device="cpu:1"), draw(5, 2, 3), threading.Event()
    right = layer(x)[0]

    def work():
        for size in itertools.count(1):
            if ends.is_set():
                return
            Layer("gru", 3, 4, device="cpu:1")(draw(size % 900 + 1, 1, 3))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                layer.parameters.block[:] *= 0.5
                changed = (layer(x)[0] != right).any()
                run = Layer("gru", 3, 4, device="cpu:1").forward(x)
                os._exit(0 if changed and run.backward(run.y).x.any() else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ends.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("call", ["layer(x)", "layer.forward(x).backward(y)"])
def test_the_interpreter_ends_while_threads_run(call):
    code = f"""
import numpy, threading, time
from ecornn import Layer
layer, x, y = Layer("lstm", 32, 64), numpy.ones((400, 8, 32), "f"), numpy.ones((400, 8, 64), "f")
def work():
    while True:
        {call}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
kept = layer.forward(x)
"""
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert (run.returncode, run.stderr) == (0, "")
