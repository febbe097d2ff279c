"""The end of an example: plot of loss against time, table of both sides, JSON file.

It gets what kit.Run.result returns for each side, plain numbers, and does not need torch's tensors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
from pathlib import Path

import torch

EXACT_STEPS = 100
EXACT_LIMIT = 1e-4


def machine(args: argparse.Namespace) -> str:
    """The device, torch's version and the precision in one line."""
    if torch.device(args.device).type == "cuda":
        device = torch.cuda.get_device_name(args.device)
    else:
        device = f"{processor()}, {args.threads or torch.get_num_threads()} threads"
    return f"{device}; torch {torch.__version__}; {args.precision}, {args.steps} steps"


def processor() -> str:
    """The processor's name if Linux reports it, else its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def summary(result: dict) -> dict:
    """Figures of one side: medians after the warm-up, a tenth of the steps and at least one."""
    seconds, samples = result["seconds"], result["samples"]
    warm = min(len(seconds) - 1, max(1, len(seconds) // 10))
    rates = [n / s for n, s in zip(samples[warm:], seconds[warm:]) if s > 0]
    smooth = smoothed(result["loss"])
    return {"rate": statistics.median(rates) if rates else 0.0,
            "step_seconds": statistics.median(seconds[warm:]), "first_seconds": seconds[0],
            "total_seconds": sum(seconds), "final_loss": smooth[-1],
            "peak_bytes": result.get("peak_bytes"), "device_bytes": result.get("device_bytes"),
            **result["figures"]}


def merged(rounds: list[dict]) -> dict:
    """One result for several of the same side: what others on the machine cost is taken off.

    A step's seconds are the least of all rounds, peaks the largest; the rest is the first round's.
    """
    return {**rounds[0], "seconds": [min(s) for s in zip(*(r["seconds"] for r in rounds))],
            "peak_bytes": max(r["peak_bytes"] for r in rounds)}


def smoothed(loss: list[float]) -> list[float]:
    """Means over the last twentieth of all steps: single steps are too noisy to look at."""
    window = max(1, len(loss) // 20)
    return [statistics.fmean(loss[max(0, k + 1 - window):k + 1]) for k in range(len(loss))]


def seconds_to(result: dict, target: float) -> float | None:
    """Seconds of training until the smoothed loss is at most `target`; None if it never is."""
    spent = 0.0
    for loss, seconds in zip(smoothed(result["loss"]), result["seconds"]):
        spent += seconds
        if loss <= target:
            return spent
    return None


def difference(a: list[float], b: list[float]) -> float:
    """Largest relative difference of two loss curves over their first EXACT_STEPS steps.

    A loss that crosses 0 is compared relative to a tenth of the mean size of all losses there.
    NaN on either side counts as infinite.
    """
    pairs = list(zip(a, b))[:EXACT_STEPS]
    floor = 0.1 * statistics.fmean(abs(x) for x, _ in pairs) or 1e-30
    ratios = [abs(x - y) / max(abs(x), floor) for x, y in pairs]
    return max(r if r == r else float("inf") for r in ratios)


def text_plot(curves: dict[str, tuple[list[float], list[float]]], width: int = 72,
              height: int = 15) -> str:
    """A plot of {name: (x, y)} in characters: o for the first curve, * for the second."""
    xs = [x for curve in curves.values() for x in curve[0]]
    ys = [y for curve in curves.values() for y in curve[1] if abs(y) < 1e30]
    if not ys:
        return "  (no finite loss)"
    low, high, right = min(ys), max(ys), max(xs) or 1.0
    span = (high - low) or 1.0
    rows = [[" "] * width for _ in range(height)]
    for mark, (x, y) in zip("o*", curves.values()):
        for a, b in zip(x, y):
            if abs(b) < 1e30:
                column = min(width - 1, int(a / right * (width - 1)))
                rows[height - 1 - round((b - low) / span * (height - 1))][column] = mark
    labels = [high - span * k / (height - 1) for k in range(height)]
    lines = [f"{v:9.3f} |{''.join(row)}".rstrip() for v, row in zip(labels, rows)]
    names = ", ".join(f"{mark} {name}" for mark, name in zip("o*", curves))
    return "\n".join([f"     loss  ({names})", *lines, " " * 10 + "+" + "-" * width,
                      f"{'':11}0{f'{right:.1f} s after the first step':>{width - 1}}"])


def image(curves: dict, title: str, path: str) -> bool:
    """Write the plot as PNG. False if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, (x, y) in curves.items():
        axes.plot(x, y, label=name)
    axes.set(xlabel="seconds of training after the first step", ylabel="loss", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    return True


def rows_of(sums: dict[str, dict], results: dict[str, dict], unit: str) -> list[tuple]:
    """The table's rows: (name, {side: value}, format, how a gain is computed).

    "time": torch.nn's number over ecornn's, "rate": ecornn's over torch.nn's, "": none.
    """
    def row(name: str, key: str, form: str, gain: str, factor: float = 1.0) -> tuple:
        values = {side: s.get(key) for side, s in sums.items()}
        return name, {k: v if v is None else v * factor for k, v in values.items()}, form, gain

    target = max(s["final_loss"] for s in sums.values())
    reached = {side: seconds_to(result, target) for side, result in results.items()}
    rows = [row(f"{unit} a second", "rate", ",.0f", "rate"),
            row("ms a step", "step_seconds", ",.2f", "time", 1e3),
            row("ms of the first step", "first_seconds", ",.1f", "time", 1e3),
            row("seconds of all steps", "total_seconds", ",.2f", "time"),
            (f"seconds to loss {target:.3f}", reached, ",.2f", "time"),
            row("peak MB", "peak_bytes", ",.1f", "time", 1e-6),
            row("device MB at the end", "device_bytes", ",.1f", "time", 1e-6),
            row("loss at the end", "final_loss", ".4f", "")]
    names = dict.fromkeys(name for result in results.values() for name in result["figures"])
    return rows + [row(name, name, ",.4g", "") for name in names]


def table(sums: dict[str, dict], results: dict[str, dict], unit: str) -> str:
    """The table as text.  A gain above 1 says that ecornn is faster or smaller."""
    heads = {"torch": "torch.nn", "ecornn": "ecornn"}
    lines = [f"{'':28}" + "".join(f"{heads[side]:>14}" for side in sums)
             + (f"{'gain':>9}" if len(sums) == 2 else "")]
    for name, values, form, gain in rows_of(sums, results, unit):
        if all(v is None for v in values.values()):
            continue
        cells = ["-" if v is None else format(v, form) for v in values.values()]
        line = f"{name:28}" + "".join(f"{cell:>14}" for cell in cells)
        if len(values) == 2 and gain and all(values.values()):
            a, b = (values["torch"], values["ecornn"])
            line += f"{a / b if gain == 'time' else b / a:9.2f}"
        lines.append(line)
    return "\n".join(lines)


def report(name: str, args: argparse.Namespace, results: dict[str, dict], wall: float) -> int:
    """Print plot, table and verdict; write the files that were asked for.

    Returns the exit status: 1 if weights at the start differ, or losses under --exact.
    """
    unit = next(iter(results.values()))["unit"]
    sums = {side: summary(result) for side, result in results.items()}
    curves = {}
    for side, result in results.items():
        # The first step, which compiles and plans, may take longer than all others.
        times = list(itertools.accumulate(result["seconds"][1:], initial=0.0))
        curves["torch.nn" if side == "torch" else side] = (times, smoothed(result["loss"]))
    print(text_plot(curves), table(sums, results, unit), sep="\n\n")
    failures = verdict(args, results)
    if args.plot and not image(curves, f"{name}: {machine(args)}", args.plot):
        print(f"{args.plot} was not written: matplotlib is not installed")
    if args.json:
        figures = {"example": name, "machine": machine(args), "options": vars(args), "wall": wall,
                   "summary": sums, "results": results}
        if len(results) == 2:
            figures["difference"] = difference(*(r["loss"] for r in results.values()))
        Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


def verdict(args: argparse.Namespace, results: dict[str, dict]) -> list[str]:
    """Say whether the sides computed the same.  Returns what failed."""
    failures = []
    for result in results.values():
        if "swapped" in result:
            print(f"\n{result['swapped']}")
    if len(results) < 2:
        return failures
    a, b = results.values()
    if a.get("weights") != b.get("weights"):
        failures.append("the sides began with different weights")
    steps = min(EXACT_STEPS, len(a["loss"]))
    worst = difference(a["loss"], b["loss"])
    print(f"Losses of the first {steps} steps differ by at most {worst:.1e} (relative).")
    if args.exact and not worst <= EXACT_LIMIT:
        failures.append(f"losses differ by {worst:.1e}, more than {EXACT_LIMIT:.0e}")
    return failures
