"""Attention by ecornn.torch and by the same expression of torch: time and peak memory.

    python bench/python/attention.py [--device cuda] [--shape T,S,N,H] [--types f32,bf16]
                                     [--runs 50]

Prints CSV: the type, the library, milliseconds of forward and of backward (median and quartiles), the
peak of memory in bytes during a step, and how far that is above the inputs, which both have.  The two
take turns.  On a GPU times are taken by events, and peaks are torch.cuda.max_memory_allocated; on a
CPU there are no peaks.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import ecornn.torch as et

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}


def unfused(query, keys, values, vector):
    """torch's expression, whose array [T,N,S,H] needs most of the memory."""
    q, k, v = (tensor.transpose(0, 1) for tensor in (query, keys, values))
    scores = torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)) @ vector
    return (torch.softmax(scores, 2) @ v).transpose(0, 1)


def fused(query, keys, values, vector):
    return et.attention(query, keys, values, vector)


class Clock:
    """Milliseconds between marks."""

    def __init__(self, device):
        self.on_gpu, self.marks = device.type == "cuda", []

    def mark(self):
        if self.on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def between(self, first):
        a, b = self.marks[first], self.marks[first + 1]
        if self.on_gpu:
            torch.cuda.synchronize()
            return a.elapsed_time(b)
        return 1e3 * (b - a)


def step(function, given, dcontext, device):
    """Milliseconds of forward and backward."""
    clock = Clock(device)
    clock.mark()
    context = function(*given)
    clock.mark()
    wanted = [tensor for tensor in given if tensor is not None]
    torch.autograd.grad(context, wanted, dcontext)
    clock.mark()
    return clock.between(0), clock.between(1)


def peak(function, given, dcontext, device):
    """Bytes at most during a step, and bytes before it."""
    if device.type != "cuda":
        return 0, 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(function, given, dcontext, device)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(), before


def spread(numbers):
    low, middle, high = statistics.quantiles(numbers, n=4)
    return f"{middle:.4f},{low:.4f},{high:.4f}"


def compare(name, options, device):
    T, S, N, H = options.shape
    dtype = TYPES[name]
    torch.manual_seed(0)
    given = [torch.randn(rows, N, H, device=device, dtype=dtype).requires_grad_()
             for rows in (T, S, S)]
    given.append(torch.randn(H, device=device, dtype=dtype).mul_(H ** -0.5).requires_grad_())
    dcontext = torch.randn(T, N, H, device=device, dtype=dtype)
    who = {"ecornn": fused, "torch": unfused}
    error = (fused(*given).double() - unfused(*given).double()).abs().max().item()
    times = {key: [] for key in who}
    for k in range(options.runs + 3):
        for key, function in who.items():
            took = step(function, given, dcontext, device)
            if k >= 3:
                times[key].append(took)
    for key, function in who.items():
        most, before = peak(function, given, dcontext, device)
        forward, backward = zip(*times[key])
        print(f"{name},{key},{spread(forward)},{spread(backward)},{most},{most - before},"
              f"{error:.3g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shape", default="50,50,128,512",
                        type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--types", default="f32,bf16", type=lambda text: text.split(","))
    parser.add_argument("--runs", default=50, type=int)
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        print(f"# {torch.cuda.get_device_name(device)}, torch {torch.__version__}")
    print(f"# T,S,N,H = {','.join(map(str, options.shape))}, {options.runs} runs")
    print("type,who,forward_ms,forward_low,forward_high,backward_ms,backward_low,backward_high,"
          "peak_bytes,bytes_above_inputs,largest_difference")
    for name in options.types:
        compare(name, options, device)


if __name__ == "__main__":
    main()
