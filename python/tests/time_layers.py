"""A layer of torch.nn beside ecornn's, in one process: microseconds of a call, medians.

    python time_layers.py [cpu|cuda] [THREADS]

Inference without gradients, and a training step: forward, backward, on a CPU SGD's step, too.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time

import torch

import ecornn.torch

# kind, input, hidden, steps, batch, layers, both directions
CPU = [("LSTM", 64, 64, 1, 1, 1, False), ("LSTM", 256, 256, 1, 1, 1, False),
       ("LSTM", 128, 128, 100, 1, 1, False), ("LSTM", 256, 256, 100, 1, 1, False),
       ("GRU", 256, 256, 100, 1, 1, False), ("LSTM", 64, 64, 50, 32, 1, False),
       ("LSTM", 256, 256, 50, 32, 2, False), ("GRU", 256, 256, 50, 32, 1, False),
       ("RNN", 256, 256, 50, 32, 1, False), ("LSTM", 512, 512, 50, 64, 1, False)]
CUDA = [("LSTM", 512, 512, 100, 64, 1, False), ("GRU", 512, 512, 100, 64, 1, False),
        ("LSTM", 650, 650, 35, 20, 2, False), ("LSTM", 1150, 1150, 70, 80, 3, False),
        ("GRU", 512, 512, 200, 32, 5, True), ("LSTM", 256, 256, 1, 1, 1, False)]


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def median(call, device: str, seconds: float = 0.7) -> float:
    """Microseconds of a call."""
    for _ in range(8):
        call()
    wait(device)
    start = time.perf_counter()
    call()
    wait(device)
    times = max(1, int(seconds / 7 / (time.perf_counter() - start)))
    found = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(times):
            call()
        wait(device)
        found.append((time.perf_counter() - start) / times)
    return statistics.median(found) * 1e6


def measure(module, x, device: str, context):
    """Microseconds of inference and of a training step, peak MiB on a GPU."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)

    def infer():
        with torch.no_grad(), context():
            module(x)

    def train():
        optimizer.zero_grad()
        with context():
            y, _ = module(x)
        y.sum().backward()
        if device == "cpu":
            optimizer.step()

    first = median(infer, device)
    peak = 0.0
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    second = median(train, device)
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2 ** 20
    return first, second, peak


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if len(sys.argv) > 2:
        torch.set_num_threads(int(sys.argv[2]))
    modes = {"f32": contextlib.nullcontext}
    if device == "cuda":
        modes["amp-bf16"] = lambda: torch.autocast("cuda", dtype=torch.bfloat16)
    for kind, input, hidden, steps, batch, layers, both in CPU if device == "cpu" else CUDA:
        for mode, context in modes.items():
            found = []
            for package in (torch.nn, ecornn.torch):
                torch.manual_seed(0)
                module = getattr(package, kind)(input, hidden, num_layers=layers,
                                                bidirectional=both, device=device)
                x = torch.randn(steps, batch, input, device=device)
                found.append(measure(module, x, device, context))
            (a, b, peak), (c, d, own) = found
            print(f"{kind} L{layers}{'/bi' * both} T{steps} N{batch} I{input} H{hidden} {mode}: "
                  f"inference {a:.0f} / {c:.0f} = {a / c:.2f}, training {b:.0f} / {d:.0f} = "
                  f"{b / d:.2f}" + f", MiB {peak:.0f} / {own:.0f}" * (device == "cuda"),
                  flush=True)


if __name__ == "__main__":
    main()
