"""Layers of ecornn.torch and of torch.nn, in one process: microseconds of a call, as rows of CSV.

    python layers.py cpu[:THREADS,...]|cuda PROBLEM...

PROBLEM is like LSTM/L2/bi/T50/N32/I256/H256, or LSTMCell/N32/I256/H256; "/amp" at its end means
autocast to BF16, "/f64" F64.  Each is timed in inference, without gradients, and in a training
step: forward, backward, and on a CPU a step of SGD.  THREADS: 1 and all cores, if none is said.
"workspace MiB" and "peer MiB" are the peaks of a GPU's memory in training.
"""
import contextlib
import gc
import os
import statistics
import sys
import time

import torch

import ecornn.torch

SAMPLES, SECONDS = 7, 0.25
WARM, WARM_SECONDS = 8, 0.05  # calls before the first sample, fewer if they take longer than this
COLUMNS = ("problem,way,us,spread us,peer,peer us,peer spread us,workspace MiB,reserve MiB,"
           "peer MiB")


def read(problem):
    """The layer's arguments, the shape of x and the context to run in."""
    kind, *parts = problem.split("/")
    size = {part[0]: int(part[1:]) for part in parts if part[1:].isdigit()}
    arguments = {"input_size": size["I"], "hidden_size": size["H"]}
    if not kind.endswith("Cell"):
        arguments.update(num_layers=size.get("L", 1), bidirectional="bi" in parts)
    if "f64" in parts:
        arguments["dtype"] = torch.float64
    unknown = [p for p in parts
               if not (p[0] in "LTNIH" and p[1:].isdigit()) and p not in ("bi", "amp", "f64")]
    if unknown or kind.replace("Cell", "") not in ("LSTM", "GRU", "RNN"):
        sys.exit(f"{problem}: {(unknown or [kind])[0]} is not supported")
    return kind, arguments, (*([size["T"]] if "T" in size else []), size["N"], size["I"]), "amp" in parts


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def sample(call, device):
    """Median and half the distance of quartiles, in microseconds of a call."""
    start = time.perf_counter()
    for done in range(WARM):
        if done > 1 and time.perf_counter() - start > WARM_SECONDS:
            break
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


def calls(package, problem, device):
    """A call of inference, without gradients, and one of a training step."""
    kind, arguments, shape, amp = read(problem)
    torch.manual_seed(0)
    module = getattr(package, kind)(**arguments, device=device)
    x = torch.randn(*shape, device=device, dtype=arguments.get("dtype"))
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

    return infer, train


def peak(call):
    """The most MiB of a GPU's memory in use during a call, with what was there before it."""
    for _ in range(3):
        call()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2 ** 20


def measure(package, problem, device):
    """{"infer": (median, spread), "train": ...} and the peak of memory in training."""
    infer, train = calls(package, problem, device)
    found = {"infer": sample(infer, device), "train": sample(train, device)}
    return found, peak(train) if device == "cuda" else 0.0


def main():
    device, *problems = sys.argv[1:]
    device, _, said = device.partition(":")
    threads = ([int(count) for count in said.split(",")] if said
               else sorted({1, len(os.sched_getaffinity(0))}))
    print(COLUMNS)
    for problem in problems:
        for count in threads if device == "cpu" else [0]:
            if count:
                torch.set_num_threads(count)
            theirs, most = measure(torch.nn, problem, device)
            ours, own = measure(ecornn.torch, problem, device)
            for use in ours:
                way = f"{use}, {count} thread{'s' * (count > 1)}" if count else use
                (us, spread), (other, far) = ours[use], theirs[use]
                print(f"{problem},\"{way}\",{us:.5g},{spread:.2g},torch {torch.__version__},"
                      f"{other:.5g},{far:.2g},{own:.1f},,{most:.1f}", flush=True)


if __name__ == "__main__":
    main()
