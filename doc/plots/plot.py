#!/usr/bin/env python3
"""Draws the plots of the documents from the tables of doc/measurements; needs matplotlib.

plot.py          writes speedup.svg, gpu.svg, cpu.svg and memory.svg beside itself
plot.py --check  exits with 1 if a plot was drawn from other tables than there are (no matplotlib)
"""
import csv
import hashlib
import math
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLES = HERE.parent / "measurements"
BLUE, ORANGE, GREEN, PURPLE, DARK = "#2a6f97", "#d1662a", "#7a9e3f", "#8e5ea2", "#333333"
USES = (("inference", "infer", BLUE), ("training", "train", ORANGE))
CPUS = (("cpu-grid", "oneDNN 3.13"), ("cpu-torch", "torch.nn"),
        ("cpu-loop", "a loop over CBLAS products"))
TYPES = (("bf16", "BF16"), ("f16", "F16"), ("f32/fast", "F32 with TF32"), ("f32", "F32"))


def path_of(name):
    """NAME.csv, or NAME.DEVICE.csv as claims.py writes it."""
    found = sorted(TABLES.glob(f"{name}.csv")) + sorted(TABLES.glob(f"{name}.*.csv"))
    if len(found) != 1:
        sys.exit(f"plot.py: {len(found)} tables {name}; there must be one")
    return found[0]


def table(name):
    """The rows of a table as dictionaries, without the lines with a # at its head."""
    lines = [line for line in path_of(name).read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def device(name):
    """The device of a table of claims.py, as people write it."""
    words = path_of(name).name.split(".")[1].split("-")
    if not name.startswith("cpu"):
        return words[0].upper()
    made, kind, *rest = words[0].capitalize(), words[1].capitalize(), *words[2:]
    return f"{made} {kind} with {'AMX' if 'amx' in rest else 'AVX-512'}, {rest[-1]} cores"


def ratio(row):
    """The other library's time over ecornn's, in a row of claims.py."""
    return float(row["peer us"]) / float(row["us"])


def graphs(name, kind, use):
    """The rows of one type and use that ran from CUDA graphs, by problem."""
    return {row["problem"].replace(f"/{kind}/{use}/", " ").replace("/", " "): row
            for row in table(name)
            if row["way"] == "graph" and re.match(rf"[\w-]+/{kind}/{use}/", row["problem"])}


def threads_of(name):
    """The numbers of threads of a CPU's table."""
    return sorted({int(re.search(r"(\d+) thread", row["way"])[1]) for row in table(name)})


def on_threads(name, use, threads):
    """Speed-ups of F32 problems in one use with this number of threads, by problem."""
    return {row["problem"]: ratio(row) for row in table(name)
            if re.search(rf"\b{use}\b", f"{row['problem']} {row['way']}")
            and re.search(rf"\b{threads} thread", row["way"])
            and not re.search("bf16|amp", row["problem"])}


def speedup_axis(axes, least, most, ticks):
    axes.set_xscale("log")
    axes.set_xlim(least, most)
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.xaxis.minorticks_off()
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.axvline(1, color=DARK, linewidth=1)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def speedup(plt):
    """README: all speed-ups at one look; one dot for each problem."""
    groups = [
        *((f"{device(name)}: cuDNN 9, both from CUDA graphs{rest}",
           [(f"{label}, {use}", [ratio(row) for row in graphs(name, kind, short).values()], colour)
            for kind, label in TYPES for use, short, colour in USES
            if graphs(name, kind, short)])
          for name, rest in (("gpu-grid", ""), ("gpu-many-rows", ", 128 to 4096 rows"))),
        (f"{device('gpu-torch')}: torch.nn with cuDNN, TF32, eager",
         [(use, [ratio(row) for row in table("gpu-torch")
                 if row["way"] == short and not row["problem"].endswith("/amp")], colour)
          for use, short, colour in USES]),
        *((f"{device(name)}: {peer}, F32",
           [(f"{use}, {n} thread{'s' * (n > 1)}", [*on_threads(name, short, n).values()], colour)
            for use, short, colour in USES for n in threads_of(name)])
          for name, peer in CPUS)]
    lines = sum(len(strips) + 1 for _, strips in groups)
    figure, axes = plt.subplots(figsize=(9, 0.24 * lines + 0.9))
    speedup_axis(axes, 0.4, 25, (0.5, 1, 2, 4, 8, 16))
    right, y = axes.get_yaxis_transform(), 0
    for head, strips in groups:
        axes.text(-0.42, y, head, transform=right, weight="bold", va="center")
        for name, values, colour in strips:
            y -= 1
            mean = math.exp(sum(map(math.log, values)) / len(values))
            axes.plot(values, [y] * len(values), "o", color=colour, markersize=5, alpha=0.5,
                      markeredgewidth=0)
            axes.plot([mean, mean], [y - 0.4, y + 0.4], color=colour, linewidth=3)
            axes.text(-0.01, y, name, transform=right, ha="right", va="center")
            axes.text(1.01, y, f"{mean:.2f}", transform=right, va="center")
        y -= 1
    axes.set_yticks([])
    axes.set_ylim(y + 0.3, 0.7)
    axes.set_title("How many times as fast as other libraries: one dot for each problem, a bar at "
                   "their geometric mean", x=-0.42, ha="left", fontsize=10, weight="bold")
    return figure


def by_problem(plt, title, problems, names, least, most, ticks):
    """One line for each problem with a dot for each of the names."""
    figure, axes = plt.subplots(figsize=(9, 0.22 * len(problems) + 1.2))
    speedup_axis(axes, least, most, ticks)
    for (name, colour), values in zip(names, zip(*problems.values())):
        axes.plot(values, range(len(problems)), "o", color=colour, markersize=6, label=name)
    axes.set_yticks(range(len(problems)), problems, fontsize=9)
    axes.set_ylim(len(problems) - 0.4, -0.6)
    axes.grid(axis="y", color="#eeeeee", linewidth=0.8)
    axes.set_title(title, fontsize=10, weight="bold", pad=28)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(names), frameon=False)
    return figure


def gpu(plt):
    kinds = (("bf16", "infer", "BF16 inference", BLUE), ("bf16", "train", "BF16 training", ORANGE),
             ("f32", "infer", "F32 inference", GREEN), ("f32", "train", "F32 training", PURPLE))
    columns = [graphs("gpu-grid", kind, use) for kind, use, _, _ in kinds]
    problems = {problem: [ratio(column[problem]) for column in columns] for problem in columns[0]}
    return by_problem(plt, f"{device('gpu-grid')}: speed-up over cuDNN 9, both from CUDA graphs",
                      problems, [kind[2:] for kind in kinds], 0.4, 8, (0.5, 1, 2, 4, 8))


def cpu(plt):
    names = [(f"{n} thread{'s' * (n > 1)}", colour)
             for n, colour in zip(threads_of("cpu-grid"), (BLUE, ORANGE, GREEN, PURPLE, DARK))]
    problems = {}
    for row in table("cpu-grid"):
        problems.setdefault(row["problem"], {})[row["way"]] = ratio(row)
    return by_problem(plt, f"{device('cpu-grid')}: speed-up over the fastest primitive of oneDNN 3.13",
                      {problem: [found[way] for way, _ in names] for problem, found in problems.items()},
                      names, 0.5, 8, (0.5, 0.8, 1, 1.5, 2, 4, 8))


def memory(plt):
    """One curve for each problem: from right to left training saves less and less."""
    curves = {}
    for problem, row in graphs("gpu-memory", "bf16", "train").items():
        curves.setdefault(problem.split(" save:")[0], []).append(
            (max(float(row["reserve MiB"]), 0.1), float(row["us"])))
    figure, axes = plt.subplots(figsize=(9, 4))
    for (problem, points), colour in zip(curves.items(), (BLUE, ORANGE, GREEN, PURPLE, DARK)):
        axes.plot([mib for mib, _ in points], [us / points[0][1] for _, us in points], "o-",
                  color=colour, label=problem)
    axes.set_xscale("log")
    axes.set_xticks((0.1, 1, 10, 100), ("0.1 MiB", "1 MiB", "10 MiB", "100 MiB"))
    axes.set_xlabel("reserve; from right to left: save:all, states, every:4, every:16, every:64")
    axes.set_ylabel("time of training, save:all = 1")
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{device('gpu-memory')}, BF16: time of training against the reserve", fontsize=10, weight="bold")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.6), frameon=False)
    return figure


PLOTS = {speedup: "gpu-grid gpu-many-rows gpu-torch cpu-grid cpu-torch cpu-loop", gpu: "gpu-grid",
         cpu: "cpu-grid", memory: "gpu-memory"}


def source(names):
    """Names of tables with a hash of the rows of each."""
    return ", ".join(f"{name} {hashlib.sha256(repr(table(name)).encode()).hexdigest()[:12]}"
                     for name in names.split())


def write(draw, path):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": path.name, "font.size": 9,
                                "font.family": "sans-serif", "axes.axisbelow": True})
    figure = draw(pyplot)
    figure.savefig(path, bbox_inches="tight", pad_inches=0.1,
                   metadata={"Date": None, "Description": f"Drawn from {source(PLOTS[draw])}"})
    path.write_text(re.sub(r" (?=<g id=.(?:axes|text|line2d|legend))", "\n",
                           " ".join(path.read_text().split())) + "\n")


def main(arguments):
    wrong = []
    for draw, names in PLOTS.items():
        path = HERE / f"{draw.__name__}.svg"
        if arguments != ["--check"]:
            write(draw, path)
        elif not path.exists() or f"Drawn from {source(names)}<" not in path.read_text():
            wrong.append(path.name)
    if wrong:
        print(f"drawn from other tables, run doc/plots/plot.py: {' '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
