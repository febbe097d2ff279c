"""What a call of ecornn.torch takes beyond the library's own functions: LSTM T1 N1, one thread.

    python time_overhead.py

Microseconds, medians.  The library's functions are called again with a module's own arguments.
"""

from __future__ import annotations

import statistics
import time

import torch

import ecornn.torch
from ecornn import _library
from ecornn.torch import _run, _weights


def median(call, times: int = 2000) -> float:
    for _ in range(300):
        call()
    found = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(times):
            call()
        found.append((time.perf_counter() - start) / times)
    return statistics.median(found) * 1e6


class Recorder:
    """The library, remembering each call: name and arguments."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        function = getattr(_library.library, name)

        def call(*arguments):
            self.calls.append((name, arguments))
            return function(*arguments)

        return call


def record(call):
    """The library's functions in a call, with arguments, and what must live for another."""
    recorder, alive = Recorder(), []
    forward, backward = _run.forward, _run.backward

    def kept(function):
        def run(*arguments, **more):
            result = function(*arguments, **more)
            alive.append((arguments, result))
            return result
        return run

    _run.library = _weights.library = recorder
    _run.forward, _run.backward = kept(forward), kept(backward)
    natively, _run.Job.native = _run.Job.native, 0  # Python's way calls the library by itself
    try:
        alive.append(call())
    finally:
        _run.library = _weights.library = _library.library
        _run.forward, _run.backward = forward, backward
        _run.Job.native = natively
    return recorder.calls, alive


def main() -> None:
    torch.set_num_threads(1)
    for hidden in (64, 256):
        module, x = ecornn.torch.LSTM(hidden, hidden), torch.randn(1, 1, hidden)
        weights = list(module.parameters())

        def infer():
            return module(x)

        def train():
            for weight in weights:
                weight.grad = None
            y, state = module(x)
            y.sum().backward()
            return y, state, [weight.grad for weight in weights]

        for name, call in (("inference", infer), ("training", train)):
            torch.set_grad_enabled(name == "training")
            call()
            calls, alive = record(call)
            own = sum(median(lambda f=getattr(_library.library, function), a=arguments: f(*a))
                      for function, arguments in calls)
            whole = median(call, 1000)
            print(f"H{hidden} {name}: library {own:.1f}, call {whole:.1f}, beyond "
                  f"{whole - own:.1f}", flush=True)
            del alive


if __name__ == "__main__":
    main()
