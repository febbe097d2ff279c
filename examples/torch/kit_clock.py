"""Time, memory and progress of one side's training.  kit.py uses it; it knows nothing of models.

On a GPU times come from CUDA events, which are read at the end: no step waits for the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from pathlib import Path

import torch


class Clock:
    """Seconds of each step.  A step is one or more pieces, each from start to stop."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.pieces: list[list[tuple]] = []
        self.begun = None

    def now(self):
        """A point in time: a recorded CUDA event, or seconds."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self, new_step: bool = True) -> None:
        """Begin a piece, of a new step or of the present one."""
        if new_step:
            self.pieces.append([])
        self.begun = self.now()

    def stop(self) -> bool:
        """End the present piece.  False if none was begun."""
        if self.begun is None:
            return False
        self.pieces[-1].append((self.begun, self.now()))
        self.begun = None
        return True

    def seconds(self) -> list[float]:
        """Seconds of each step.  Waits for the GPU."""
        if self.cuda:
            torch.cuda.synchronize()
            return [sum(a.elapsed_time(b) for a, b in step) / 1000 for step in self.pieces]
        return [sum(b - a for a, b in step) for step in self.pieces]


def status_bytes(field: str) -> int:
    """A memory field of /proc/self/status in bytes; 0 where the system has no such file."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    rows = [line.split() for line in text.splitlines() if line.startswith(field + ":")]
    return int(rows[0][1]) * 1024 if rows else 0


def start_memory(device: torch.device) -> dict[str, int]:
    """Forget earlier peaks.  Returns what is in use now, for peak_memory to take off."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return {"allocated": torch.cuda.memory_allocated(device),
                "free": torch.cuda.mem_get_info(device)[0]}
    with contextlib.suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)  # memory that loading data left free would hide a model's
    try:
        Path("/proc/self/clear_refs").write_text("5")  # 5 resets VmHWM; it needs Linux 4.0
        return {"resident": status_bytes("VmRSS")}
    except OSError:
        return {"resident": status_bytes("VmHWM")}


def peak_memory(device: torch.device, start: dict[str, int]) -> dict[str, int]:
    """Bytes since start_memory.

    peak_bytes: by how much the peak is above the start: on a GPU of torch's allocator, on a CPU of
    the process' resident memory.
    device_bytes: on a GPU what the device has given away since, whoever asked: also to libraries
    that allocate beside torch, and what torch caches.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        return {"peak_bytes": torch.cuda.max_memory_allocated(device) - start["allocated"],
                "device_bytes": start["free"] - torch.cuda.mem_get_info(device)[0]}
    return {"peak_bytes": max(0, status_bytes("VmHWM") - start["resident"])}


class Progress:
    """A line on stderr: rewritten each second on a terminal, else printed ten times in all."""

    def __init__(self, name: str, steps: int, unit: str, quiet: bool = False) -> None:
        self.name, self.steps, self.unit, self.quiet = name, steps, unit, quiet
        self.terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.processes = 1  # number of processes that train together, each with as many samples
        self.begun = self.shown = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether to show this step.  Showing waits for the GPU, so it is rare."""
        if step == 0:
            self.begun = self.shown = time.monotonic()
        if self.quiet:
            return False
        if step + 1 == self.steps:
            return True
        if self.terminal:
            return time.monotonic() - self.shown >= 1
        tenth = max(1, self.steps // 10)
        return (step + 1) % tenth == 0

    def show(self, step: int, loss: float, samples: int) -> None:
        """Show a step's loss, the rate since the second step, and the time left."""
        self.shown = time.monotonic()
        spent = self.shown - self.begun
        rate = self.processes * samples * step / (step + 1) / spent if spent > 0 else 0.0
        left = spent / max(1, step) * (self.steps - step - 1)
        text = (f"{self.name:7} {step + 1:6}/{self.steps}  loss {loss:9.4f}  "
                f"{rate:12,.0f} {self.unit}/s  {left:5.0f} s left")
        print("\r" + text if self.terminal else text, end="" if self.terminal else "\n",
              file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line, so that other output begins on a new one."""
        if self.terminal and not self.quiet:
            print(file=sys.stderr)
