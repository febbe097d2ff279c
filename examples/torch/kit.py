"""What the examples share: one model is trained with torch.nn's recurrent modules and ecornn's.

An example is a training function and four lines:

    import kit

    def train(run: kit.Run) -> None:
        data = load(run.args)                           # before run.model: not in the peak bytes
        model = run.model(lambda: Net(run.args))        # same weights on both sides, on run.device
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for step in run.loop():                         # run.args.steps times, with progress
            with run.autocast():
                loss = model(data[step])
            run.optimise(loss, optimizer, clip=0.25)    # backward, clip, step, zero the gradients
            run.record(loss, samples=35 * 20)           # loss: a tensor, not .item(): no waiting
        with run.untimed():                             # also within the loop: clocks stand still
            run.figure("validation perplexity", evaluate(model))

    if __name__ == "__main__":
        parser = kit.arguments(__doc__)
        parser.add_argument("--batch", type=int, default=20)
        raise SystemExit(kit.main(kit.parse(parser, steps=400, quick=dict(steps=60, batch=4)),
                                  train, unit="tokens"))

Each side runs `train` in a child process of its own, so that peaks and caches stay apart.  `train`
must be a function at the top of its file.  `run.model` seeds torch before and after it builds, so
weights are equal, and dropout's masks too if data come from a generator of the example's own.
Masks inside a recurrent module are each library's own.
Options with "dropout" in their name are set to 0 by --exact, which checks that losses agree.
kit_options.py has the options, kit_report.py makes the plot, the table and the JSON file.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import importlib.util
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import kit_report
from kit_clock import Clock, Progress, peak_memory, start_memory
from kit_options import PRECISIONS, SIDES, arguments, parse

__all__ = ["Run", "arguments", "main", "parse"]


class Run:
    """One side's training: what `train` gets.

    side: "torch" or "ecornn".  device: torch.device.  args: the parsed options.  dtype: autocast's
    type or None.  unit: what samples are, for display.
    """

    def __init__(self, side: str, args: argparse.Namespace, unit: str, quiet: bool = False) -> None:
        self.side, self.args, self.unit = side, args, unit
        self.device = set_up_torch(args)
        self.dtype = PRECISIONS[args.precision]
        self.figures: dict[str, float] = {}
        self.notes: dict[str, object] = {}
        # One tensor: a small one kept from each step would split the freed memory of the heap,
        # which then grows step by step, by as much as 0.8 MB.
        self.losses = torch.zeros(args.steps, device=self.device)
        self.samples: list[int] = []
        self.progress = Progress(side, args.steps, unit, quiet)
        if side == "ecornn":
            importlib.import_module("ecornn.torch")  # before memory is measured
        if self.device.type == "cpu":
            warm_up(side)
        self.clock = Clock(self.device)
        self.scaler = torch.amp.GradScaler(self.device.type,
                                           enabled=args.precision == "amp-f16")
        self.start = start_memory(self.device)

    def model(self, build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        """Build the model on the CPU from the seed, swap its recurrent modules on ecornn's side,
        and move it to the device.  The checksum of its weights is compared between the sides."""
        torch.manual_seed(self.args.seed)
        self.start = start_memory(self.device)
        model = build()
        self.notes["weights"] = checksum(model)
        if self.side == "ecornn":
            model, self.notes["swapped"] = swap(model)
            if checksum(model) != self.notes["weights"]:
                raise RuntimeError("weights changed as ecornn's modules took them over")
        model = model.to(self.device)
        torch.manual_seed(self.args.seed + 1)
        return torch.compile(model) if self.args.compile else model

    def loop(self) -> Iterator[int]:
        """Step numbers 0 .. args.steps - 1.  The time of a step is that of the loop's body."""
        for step in range(self.args.steps):
            self.clock.start()
            yield step
            self.clock.stop()
            if len(self.samples) != step + 1:
                raise RuntimeError(f"step {step}: call run.record once a step")
            if self.progress.due(step):
                self.progress.show(step, self.losses[step].item(), sum(self.samples))
        self.progress.end()

    def autocast(self) -> contextlib.AbstractContextManager:
        """Autocast in the requested precision; does nothing for f32 and tf32."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None)

    def optimise(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer,
                 clip: float | None = None) -> None:
        """Backward, gradients' norm clipped to `clip` (None: not), one step, gradients freed.

        Losses in F16 are scaled; a step whose gradients overflow is left out, as usual.
        """
        self.scaler.scale(loss).backward()
        if clip is not None:
            self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(
                [p for group in optimizer.param_groups for p in group["params"]], clip)
        self.scaler.step(optimizer)
        self.scaler.update()
        optimizer.zero_grad(set_to_none=True)

    def record(self, loss: torch.Tensor, samples: int) -> None:
        """Keep a step's loss (a tensor of one element, or a number) and its number of samples."""
        self.losses[len(self.samples)] = torch.as_tensor(loss).detach()
        self.samples.append(samples)

    @contextlib.contextmanager
    def untimed(self) -> Iterator[None]:
        """Time inside does not count: evaluation, an environment, printing."""
        running = self.clock.stop()
        try:
            yield
        finally:
            if running:
                self.clock.start(new_step=False)

    def figure(self, name: str, value: float) -> None:
        """Add a number to the table, such as a perplexity."""
        self.figures[name] = float(value)

    def result(self) -> dict:
        """All that was recorded, as plain numbers."""
        seconds = self.clock.seconds()
        return {"side": self.side, "unit": self.unit, "loss": self.losses.tolist(),
                "seconds": seconds, "samples": self.samples, "figures": self.figures,
                **peak_memory(self.device, self.start), **self.notes}


def set_up_torch(args: argparse.Namespace) -> torch.device:
    """Threads, TF32 and determinism.  torch lets cuDNN use TF32 unless it is told not to.

    Returns the device with its number, and makes it the current one.
    """
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    if args.exact:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # It would fill every new tensor with NaN, which takes time.
        torch.utils.deterministic.fill_uninitialized_memory = False
    device = torch.device(args.device)
    if device.type == "cuda":
        torch.cuda.init()
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    return device


def warm_up(side: str) -> None:
    """Train a tiny layer for a step, so that no peak counts what a first use loads: torch's
    optimizers import more than 100 MB."""
    model: torch.nn.Module = torch.nn.LSTM(2, 2)
    if side == "ecornn":
        model, _ = swap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.ones(1, 1, 2))[0].sum().backward()
    optimizer.step()


def swap(model: torch.nn.Module) -> tuple[torch.nn.Module, str]:
    """The model with ecornn's recurrent modules, same weights, and what was done.

    Raises RuntimeError where not one module could be replaced.
    """
    from ecornn.torch import Report, replace

    report = Report()
    model = replace(model, report)
    if not report.swapped:
        raise RuntimeError(f"nothing to measure: {report}")
    return model, str(report)


def checksum(model: torch.nn.Module) -> str:
    """A checksum of the names and bits of all parameters, in the order of names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def child(connection, train: Callable[[Run], None], side: str, args: argparse.Namespace,
          unit: str) -> None:
    """The child process of one side: sends its result, or the text of what went wrong."""
    try:
        run = Run(side, args, unit)
        train(run)
        connection.send(run.result())
    except Exception:  # the parent shows the text, because a traceback cannot be pickled
        connection.send(traceback.format_exc())


def run_side(train: Callable[[Run], None], side: str, args: argparse.Namespace, unit: str) -> dict:
    """Run `train` for one side in a new process and return Run.result.

    Raises RuntimeError with the child's traceback, or its exit status if it was killed.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(theirs, train, side, copy.copy(args), unit))
    process.start()
    theirs.close()
    try:
        result = ours.recv()
    except EOFError:
        result = None
    process.join()
    if isinstance(result, dict):
        return result
    raise RuntimeError(f"{side}: {result or f'ended with status {process.exitcode}'}")


def find_ecornn() -> str | None:
    """Makes ecornn.torch importable, here and in child processes.  Returns why it is not.

    Without an installed package it is the source tree's, which takes the library built there.
    """
    top = Path(__file__).resolve().parents[2]
    if importlib.util.find_spec("ecornn") is None:
        sys.path.append(str(top / "python"))
        importlib.invalidate_caches()
    spec = importlib.util.find_spec("ecornn")
    for folder in (top / "build", top):
        built = folder / ".libs" / "libecornn.so"
        if spec and spec.origin and top in Path(spec.origin).resolve().parents and built.exists():
            os.environ.setdefault("ECORNN_LIBRARY", str(built))
    try:
        importlib.import_module("ecornn.torch")
    except ImportError as error:
        return str(error)
    return None


def sides_of(args: argparse.Namespace) -> tuple[str, ...] | None:
    """The requested sides; None, after a message, if ecornn is one of them and is missing."""
    sides = SIDES if args.rnn == "both" else (args.rnn,)
    missing = find_ecornn() if "ecornn" in sides else None
    if missing:
        print(f"no ecornn.torch: {missing}; --rnn torch runs without", file=sys.stderr)
        return None
    return sides


def main(args: argparse.Namespace, train: Callable[[Run], None], unit: str = "samples") -> int:
    """Run the sides that were asked for and report.  Returns the program's exit status."""
    sides = sides_of(args)
    if sides is None:
        return 1
    name = Path(sys.modules[train.__module__].__file__ or "example").stem
    print(f"{name}: {kit_report.machine(args)}", flush=True)
    started = time.time()
    try:
        rounds = [{side: run_side(train, side, args, unit) for side in sides}
                  for _ in range(args.rounds)]
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    results = {side: kit_report.merged([results[side] for results in rounds]) for side in sides}
    return kit_report.report(name, args, results, time.time() - started)
