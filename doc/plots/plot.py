#!/usr/bin/env python3
"""Draws the plots of the documents from the tables of doc/measurements.

plot.py          writes speedup.svg, gpu.svg, cpu.svg and memory.svg beside itself
plot.py --check  exits with 1 where a file on disk is not what the tables give
Nothing but Python's own library; the same tables give the same bytes.
"""
import csv
import math
import re
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLES = HERE.parent / "measurements"
BLUE, ORANGE, GREY, DARK = "#2a6f97", "#d1662a", "#8a8a8a", "#333333"
FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'


def table(name):
    """The rows of a table, as dictionaries; its head are lines with a #."""
    with open(TABLES / f"{name}.csv", newline="") as file:
        lines = [line for line in file if not line.startswith("# ")]
    return list(csv.DictReader(lines))


def first(cell):
    """The number that a cell begins with: "1.15 [1.12, 1.16]"."""
    return float(re.match(r"[0-9.]+", cell).group())


def last(cell):
    """The ratio of "62 / 12 = 5.4"; None where the cell holds less or a range."""
    found = re.fullmatch(r"[0-9]+ / [0-9]+ = ([0-9.]+)", cell)
    return float(found.group(1)) if found else None


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class Drawing:
    """SVG elements, and a logarithmic axis of speed-ups."""

    def __init__(self, width, height, left, right, least, most):
        self.size = (width, height)
        self.span = (left, right, math.log(least), math.log(most))
        self.parts = []

    def at(self, ratio):
        left, right, least, most = self.span
        return left + (right - left) * (math.log(ratio) - least) / (most - least)

    def text(self, x, y, words, anchor="start", size=12, colour=DARK, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
                          f'text-anchor="{anchor}"{weight}>{escape(words)}</text>')

    def line(self, x0, y0, x1, y1, colour=GREY, width=1.0, dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" '
                          f'stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def dot(self, x, y, colour, radius=3.2, opacity=0.55):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}" '
                          f'fill-opacity="{opacity}"/>')

    def axis(self, top, bottom, ticks):
        for tick in ticks:
            x = self.at(tick)
            at_one = tick == 1
            self.line(x, top, x, bottom, DARK if at_one else "#dddddd", 1.2 if at_one else 1)
            self.text(x, bottom + 15, f"{tick:g}x", "middle", 11)

    def write(self):
        width, height = self.size
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" {FONT}>\n'
                f'<rect width="{width}" height="{height}" fill="white"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def strips(title, groups, least, most, ticks, foot):
    """Rows of dots, one for each problem, and a bar at their geometric mean."""
    rows = sum(len(strip) + 1 for _, strip in groups)
    height = 58 + 21 * rows + 44
    draw = Drawing(900, height, 330, 840, least, most)
    draw.text(12, 24, title, size=15, bold=True)
    draw.axis(40, height - 44, ticks)
    y = 58
    for head, strip in groups:
        draw.text(12, y + 4, head, size=12, bold=True)
        y += 21
        for name, values, colour in strip:
            draw.text(322, y + 4, name, "end", 12)
            for value in values:
                draw.dot(draw.at(value), y, colour)
            middle = draw.at(mean(values))
            draw.line(middle, y - 8, middle, y + 8, colour, 3)
            draw.text(890, y + 4, f"{mean(values):.2f}", "end", 12)
            y += 21
    draw.text(12, height - 8, foot, size=11, colour=GREY)
    return draw.write()


def speedup():
    """README: everything at one look."""
    grid = table("gpu-persistent")
    gpu = [(f"{words}, {use}", [float(row[f"{kind} {short} ratio"]) for row in grid], colour)
           for kind, words in (("bf16", "BF16"), ("fast", "F32 with TF32"), ("full", "F32"))
           for use, short, colour in (("inference", "infer", BLUE), ("training", "train", ORANGE))]
    layers = table("torch-layers-gpu")
    torch = [(use, [last(row[use]) for row in layers if last(row[use])], colour)
             for use, colour in (("inference", BLUE), ("training", ORANGE))]
    onednn = table("cpu-onednn")
    cpu = [(f"{use}, {threads} thread{'s' * (threads > 1)}",
            [first(row["ratio"]) for row in onednn
             if f"/{short}/" in row["problem"] and row["threads"] == str(threads)
             and "bf16" not in row["problem"] and " " not in row["problem"]], colour)
           for use, short, colour in (("inference", "infer", BLUE), ("training", "train", ORANGE))
           for threads in (1, 2)]
    pytorch = table("cpu-pytorch")
    beside = [(f"training, {name[7:]}",
               [first(row[name]) for row in pytorch if "/train/" in row["problem"]], ORANGE)
              for name in ("ratio, 1 thread", "ratio, 2 threads")]
    loop = table("cpu-unfused-epyc")
    unfused = [(f"{use}, 2 threads",
                [first(row["ratio"]) for row in loop
                 if f"/{short}/" in row["problem"] and row["threads"] == "2"], colour)
               for use, short, colour in (("inference", "infer", BLUE), ("training", "train", ORANGE))]
    return strips(
        "How many times as fast as others: a dot is a problem, a bar their geometric mean",
        [("H200: cuDNN 9, both from CUDA graphs", gpu),
         ("H100: torch.nn with cuDNN, eager", torch),
         ("Zen 4: oneDNN 3.13, F32", cpu),
         ("Zen 4: PyTorch 2.15, F32", beside),
         ("EPYC: loop of CBLAS products, F32", unfused)],
        0.45, 25, (0.5, 1, 2, 4, 8, 16),
        "Left of 1x ecornn is slower. Tables, machines and commands: doc/measurements.")


def by_problem(title, rows, names, least, most, ticks, foot):
    """A line for each problem, with a dot for each of the names."""
    height = 72 + 20 * len(rows) + 44
    draw = Drawing(900, height, 300, 870, least, most)
    draw.text(12, 24, title, size=15, bold=True)
    x = 300
    for name, colour in names:
        draw.dot(x + 5, 42, colour, 4, 1)
        draw.text(x + 14, 46, name, size=12)
        x += 14 + 7.2 * len(name) + 26
    draw.axis(56, height - 44, ticks)
    y = 70
    for problem, values in rows:
        draw.text(292, y + 4, problem, "end", 11)
        draw.line(draw.at(least), y, draw.at(most), y, "#eeeeee")
        for value, (_, colour) in zip(values, names):
            if value is not None:
                draw.dot(draw.at(value), y, colour, 4, 0.9)
        y += 20
    draw.text(12, height - 8, foot, size=11, colour=GREY)
    return draw.write()


def gpu():
    rows = [(row["problem"], [float(row[f"{kind} ratio"]) for kind in
                              ("bf16 infer", "bf16 train", "full infer", "full train")])
            for row in table("gpu-persistent")]
    return by_problem(
        "H200: speed-up over cuDNN 9, both from CUDA graphs", rows,
        (("BF16 inference", BLUE), ("BF16 training", ORANGE), ("F32 inference", "#7a9e3f"),
         ("F32 training", "#8e5ea2")), 0.8, 8, (1, 2, 4, 8),
        "doc/measurements/gpu-persistent.csv")


def cpu():
    found = {}
    for row in table("cpu-onednn"):
        found.setdefault(row["problem"], {})[row["threads"]] = first(row["ratio"])
    rows = [(problem, [ratio.get("1"), ratio.get("2")]) for problem, ratio in found.items()]
    return by_problem(
        "Zen 4, 2 cores: speed-up over oneDNN 3.13's fastest", rows,
        (("1 thread", BLUE), ("2 threads", ORANGE)), 0.8, 2.2, (0.8, 1, 1.25, 1.5, 2),
        "doc/measurements/cpu-onednn.csv; avx2 and sse2: both sides limited to that set")


def memory():
    """A curve for each problem: from right to left less and less is kept."""
    lines = {}
    for row in table("gpu-memory"):
        lines.setdefault(row["problem"], []).append(
            (max(float(row["reserve MiB"]), 0.1), float(row["graph us"]), row["save"]))
    draw = Drawing(900, 420, 60, 640, 0.08, 700)
    draw.text(12, 24, "H100, BF16: time of training against the reserve", size=15, bold=True)
    top, bottom, most = 50, 370, 1.6
    for tick in (1, 1.1, 1.2, 1.3, 1.4, 1.5):
        y = bottom - (bottom - top) * (tick - 1) / (most - 1)
        draw.line(60, y, 640, y, "#dddddd")
        draw.text(54, y + 4, f"{tick:g}", "end", 11)
    for tick in (0.1, 1, 10, 100):
        draw.line(draw.at(tick), top, draw.at(tick), bottom, "#dddddd")
        draw.text(draw.at(tick), bottom + 16, f"{tick:g} MiB", "middle", 11)
    colours = (BLUE, ORANGE, "#7a9e3f", "#8e5ea2", DARK)
    for i, ((problem, points), colour) in enumerate(zip(lines.items(), colours)):
        at = [(draw.at(mib), bottom - (bottom - top) * (us / points[0][1] - 1) / (most - 1))
              for mib, us, _ in points]
        for (x0, y0), (x1, y1) in zip(at, at[1:]):
            draw.line(x0, y0, x1, y1, colour, 1.6)
        for x, y in at:
            draw.dot(x, y, colour, 4, 0.9)
        draw.dot(662, 66 + 22 * i, colour, 4, 1)
        draw.text(674, 70 + 22 * i, problem, size=12)
    draw.text(12, 408, "Right to left: save:all, states, every 4th, 16th, 64th step.  Times of save:all "
              "are 1.  doc/measurements/gpu-memory.csv", size=11, colour=GREY)
    return draw.write()


def main(arguments):
    wrong = []
    for name, draw in (("speedup", speedup), ("gpu", gpu), ("cpu", cpu), ("memory", memory)):
        path, text = HERE / f"{name}.svg", draw()
        if arguments == ["--check"]:
            if not path.exists() or path.read_text() != text:
                wrong.append(path.name)
        else:
            path.write_text(text)
    if wrong:
        print(f"doc/plots/plot.py would draw these anew: {' '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
