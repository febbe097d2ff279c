"""What it takes that a run never has stale weights: calls as they are, and with frozen weights.

    python time_weights.py [cpu|cuda]

Inference of an LSTM, I = H, microseconds, medians of turns of both.  beyond: of the call as it is,
over the frozen one.  read: a sum of all parameters, which reads them once.  A CPU has one thread.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy
import torch

import ecornn
import ecornn.torch


def turns_of(calls, wait, least: float = 0.02) -> list[float]:
    """The median microseconds of each call, in turns of `least` seconds each."""
    times: list[int] = []
    for call in calls:
        for _ in range(3):
            call()
        wait()
        start = time.perf_counter()
        call()
        wait()
        times.append(max(1, int(least / (time.perf_counter() - start))))
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(9):
        for call, count, one in zip(calls, times, found):
            start = time.perf_counter()
            for _ in range(count):
                call()
            wait()
            one.append((time.perf_counter() - start) / count * 1e6)
    return [statistics.median(one) for one in found]


def report(name: str, times: list[float], bytes: int) -> None:
    call, frozen, read = times
    print(f"{name}: call {call:.1f}, frozen {frozen:.1f}, beyond {call - frozen:.1f} "
          f"({100 * (call / frozen - 1):.1f} %), read {read:.1f} of {bytes} bytes", flush=True)


def of_torch(device: str, steps: int, batch: int, hidden: int, dtype) -> None:
    module = ecornn.torch.LSTM(hidden, hidden).to(device, dtype)
    frozen = ecornn.torch.LSTM(hidden, hidden).to(device, dtype)
    frozen.freeze_weights()
    x = torch.randn(steps, batch, hidden, device=device, dtype=dtype)
    flat = torch.cat([weight.detach().flatten() for weight in module.parameters()])
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = turns_of([lambda: module(x), lambda: frozen(x), flat.sum], wait)
    report(f"{device} T{steps} N{batch} H{hidden} {str(dtype)[6:]}", times, flat.nbytes)


def of_layer(steps: int, batch: int, hidden: int) -> None:
    layer, frozen = (ecornn.Layer("lstm", hidden, hidden, device="cpu:1") for _ in range(2))
    frozen.freeze_weights()
    x = numpy.random.default_rng(0).standard_normal((steps, batch, hidden)).astype(numpy.float32)
    flat = torch.from_numpy(layer.parameters.block)
    times = turns_of([lambda: layer(x), lambda: frozen(x), flat.sum], lambda: None)
    report(f"Layer T{steps} N{batch} H{hidden}", times, flat.nbytes)


def main() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    types = [torch.float32, torch.bfloat16] if device == "cuda" else [torch.float32]
    for steps, batch in ((1, 1), (100, 32)):
        for hidden in (16, 64, 128, 256, 512, 1024)[:5 if device == "cpu" and steps > 1 else 6]:
            for dtype in types:
                of_torch(device, steps, batch, hidden, dtype)
            if device == "cpu":
                of_layer(steps, batch, hidden)


if __name__ == "__main__":
    main()
