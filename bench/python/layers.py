"""Layers of ecornn.torch and of torch.nn, in one process: microseconds of a call, as rows of CSV.

    python layers.py cpu|cuda PROBLEM...

PROBLEM is like LSTM/L2/bi/T50/N32/I256/H256, or LSTMCell/N32/I256/H256; "/amp" at its end means
autocast to BF16.  Each is timed
in inference, without gradients, and in a training step: forward, backward, and on a CPU a step of SGD.
A CPU is measured with one thread and with all.  "workspace MiB" is the peak of a GPU's memory in
training.
"""
import contextlib
import os
import statistics
import sys
import time

import torch

import ecornn.torch

SAMPLES, SECONDS = 7, 0.5
COLUMNS = ("problem,way,us,spread us,peer,peer us,peer spread us,workspace MiB,reserve MiB")


def read(problem):
    """The layer's arguments, the shape of x and the context to run in."""
    kind, *parts = problem.split("/")
    size = {part[0]: int(part[1:]) for part in parts if part[1:].isdigit()}
    arguments = {"input_size": size["I"], "hidden_size": size["H"]}
    if not kind.endswith("Cell"):
        arguments.update(num_layers=size.get("L", 1), bidirectional="bi" in parts)
    unknown = [p for p in parts if not p[1:].isdigit() and p not in ("bi", "amp")]
    if unknown or kind.replace("Cell", "") not in ("LSTM", "GRU", "RNN"):
        sys.exit(f"{problem}: {(unknown or [kind])[0]} is not supported")
    return kind, arguments, (*([size["T"]] if "T" in size else []), size["N"], size["I"]), "amp" in parts


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def sample(call, device):
    """Median and half the distance of quartiles, in microseconds of a call."""
    for _ in range(8):
        call()
    wait(device)
    start = time.perf_counter()
    call()
    wait(device)
    times = max(1, int(SECONDS / SAMPLES / (time.perf_counter() - start)))
    found = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        for _ in range(times):
            call()
        wait(device)
        found.append((time.perf_counter() - start) / times * 1e6)
    low, _, high = statistics.quantiles(found, n=4)
    return statistics.median(found), (high - low) / 2


def measure(package, problem, device):
    """{"infer": (median, spread), "train": ...} and the peak of memory in MiB."""
    kind, arguments, shape, amp = read(problem)
    torch.manual_seed(0)
    module = getattr(package, kind)(**arguments, device=device)
    x = torch.randn(*shape, device=device)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    context = ((lambda: torch.autocast(device, dtype=torch.bfloat16)) if amp
               else contextlib.nullcontext)

    def infer():
        with torch.no_grad(), context():
            module(x)

    def train():
        optimizer.zero_grad()
        with context():
            y = module(x)
        (y if torch.is_tensor(y) else y[0]).sum().backward()
        if device == "cpu":
            optimizer.step()

    found, peak = {"infer": sample(infer, device)}, 0.0
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    found["train"] = sample(train, device)
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2 ** 20
    return found, peak


def main():
    device, *problems = sys.argv[1:]
    threads = sorted({1, len(os.sched_getaffinity(0))}) if device == "cpu" else [0]
    print(COLUMNS)
    for problem in problems:
        for count in threads:
            if count:
                torch.set_num_threads(count)
            theirs, _ = measure(torch.nn, problem, device)
            ours, peak = measure(ecornn.torch, problem, device)
            for use in ours:
                way = f"{use}, {count} thread{'s' * (count > 1)}" if count else use
                (us, spread), (other, far) = ours[use], theirs[use]
                print(f"{problem},\"{way}\",{us:.5g},{spread:.2g},torch {torch.__version__},"
                      f"{other:.5g},{far:.2g},{peak:.1f},", flush=True)


if __name__ == "__main__":
    main()
