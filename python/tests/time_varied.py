"""Times torch.nn's layer and ecornn's on sequences of varied lengths: with batches of one shape, and
with batches whose number of rows changes in each step.

    python time_varied.py [cpu|cuda] [rows]

An LSTM of 64 to 128 units, milliseconds, medians of turns.  packed: a training step of packed
sequences of up to 128 steps.  acting: one step of 1024 rows from a state, without gradients.
learning: a training step of a quarter of these rows over 128 steps, where episodes of 20 to 128
steps end at random: torch packs the pieces; ecornn packs them, or takes `resets`, which mark where
they begin.  A CPU has torch's threads.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
from torch.nn.utils.rnn import pack_sequence

import ecornn.torch

INPUT, HIDDEN, STEPS = 64, 128, 128


class Timer:
    """Runs functions of one step in turns."""

    def __init__(self, device: str):
        self.wait = torch.cuda.synchronize if device == "cuda" else lambda: None
        self.least = 6 if device == "cuda" else 1

    def once(self, step, first: int) -> float:
        self.wait()
        begun = time.perf_counter()
        for k in range(first, first + self.least):
            step(k)
        self.wait()
        return (time.perf_counter() - begun) / self.least * 1e3

    def report(self, name: str, steps: dict) -> None:
        found = {side: [] for side in steps}
        for turn in range(-2, 7):
            for side, step in steps.items():
                found[side].append(self.once(step, (turn + 2) * self.least))
        medians = {side: statistics.median(times[2:]) for side, times in found.items()}
        first = next(iter(medians.values()))
        print(f"{name}: " + ", ".join(f"{side} {median:.3f} ({first / median:.2f})"
                                      for side, median in medians.items()), flush=True)


def batches(counts, device: str) -> list:
    """Packed sequences of up to STEPS steps, one batch for each number of rows."""
    draw, found = torch.Generator().manual_seed(1), []
    for count in counts:
        lengths = torch.randint(STEPS // 4, STEPS + 1, (count,), generator=draw)
        lengths[0] = STEPS
        found.append(pack_sequence([torch.randn(int(length), INPUT, generator=draw)
                                    for length in lengths.sort(descending=True)[0]]).to(device))
    return found


def train(module, given) -> None:
    """given(k): the arguments of the module's call in step k."""
    def step(k):
        module.zero_grad(set_to_none=True)
        y, _ = module(*given(k)[0], **given(k)[1])
        y = y.data if isinstance(y, tuple) else y
        y.backward(y.detach())
    return step


def packed(timer: Timer, device: str, rows: int, sides: dict) -> None:
    draw = torch.Generator().manual_seed(0)
    varied = batches((rows + torch.randperm(rows // 3, generator=draw)[:60]).tolist(), device)
    for name, all in (("fixed", batches([rows + rows // 6], device)), ("varied", varied)):
        timer.report(f"{device} packed, {name} rows", {
            side: train(module, lambda k, all=all: (([again(all[k % len(all)])], {})))
            for side, module in sides.items()})


def again(packed):
    """The same batch as one that was never seen."""
    return packed._replace(batch_sizes=packed.batch_sizes.clone())


def acting(timer: Timer, device: str, rows: int, sides: dict) -> None:
    x = torch.randn(1, rows, INPUT, device=device)

    def step_of(module):
        state = [torch.zeros(1, rows, HIDDEN, device=device)] * 2

        def step(k):
            with torch.no_grad():
                for _ in range(32):
                    state[:] = module(x, tuple(state))[1]
        return step
    timer.report(f"{device} acting, 32 steps", {side: step_of(m) for side, m in sides.items()})


def learning(timer: Timer, device: str, rows: int, sides: dict) -> None:
    draw = torch.Generator().manual_seed(2)
    x = torch.randn(STEPS, rows, INPUT, device=device)
    starts = [torch.rand(STEPS, rows, generator=draw) < 1 / 74 for _ in range(60)]
    pieces = []
    for start in starts:
        start[0] = True
        t, row = start.T.nonzero()[:, 1], start.T.nonzero()[:, 0]
        lengths = torch.diff(t + row * STEPS, append=torch.tensor([rows * STEPS]))
        order = lengths.argsort(descending=True, stable=True)
        lengths, t = lengths[order], t[order]
        sizes = (lengths[:, None] > torch.arange(int(lengths[0]))).sum(0)
        pieces.append(torch.nn.utils.rnn.PackedSequence(torch.randn(
            STEPS * rows, INPUT, generator=draw).to(device), sizes))
    resets = [start.to(torch.uint8).to(device) for start in starts]
    steps = {side: train(module, lambda k: ([again(pieces[k % 60])], {}))
             for side, module in sides.items()}
    steps["ecornn, resets"] = train(sides["ecornn"], lambda k: ([x], {"resets": resets[k % 60]}))
    timer.report(f"{device} learning", steps)


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    sides = {"torch": torch.nn.LSTM(INPUT, HIDDEN).to(device),
             "ecornn": ecornn.torch.LSTM(INPUT, HIDDEN).to(device)}
    timer = Timer(device)
    acting(timer, device, 4 * rows, sides)
    packed(timer, device, rows, sides)
    learning(timer, device, rows, sides)


if __name__ == "__main__":
    main()
