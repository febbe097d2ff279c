#!/usr/bin/env python3
"""How good the planner's choices for a GPU are, replayed from measurements, without a GPU.

    bench/gpu/replay.py BUILD [--list]

BUILD/tests/gpu/test_estimates estimates every candidate of doc/measurements/gpu-drawn-h200.csv for
a described H200, and says what the planner chooses. This prints, for all problems and for the half that is held out of
fits (by a hash of the problem), by algorithm of the best candidate:

    plan      regret of the planner's choice: its time over the best candidate's, less 1
    formula   the same of the candidate with the shortest estimate
    error     of estimates, as the mean of |log(estimate / time)|
    order     of two candidates of a problem that differ by more than 2 %, how often the estimates
              have the other order, without those of equal estimates

A choice that was not measured counts as the measured one that differs from it in the fewest keys.

Then it compares estimates with the times from graphs of gpu-grid and gpu-many-rows, measured on an H200 with the
plans of that day: the error as above, and the mean of log(estimate / time), by type.
"""
import argparse
import csv
import math
import os
import re
import subprocess
import sys
import zlib
from collections import defaultdict
from itertools import combinations
from pathlib import Path

TABLE = "doc/measurements/gpu-drawn-h200.csv"
BENCHES = "doc/measurements/gpu-grid.h200.csv", "doc/measurements/gpu-many-rows.h200.csv"


def is_held_out(problem):
    return zlib.crc32(problem.encode()) % 2 == 1


def keys(choices):
    return dict(pair.split("=", 1) for pair in choices.split(","))


def distance(wanted, measured):
    """Keys in which choices differ; of equally many the nearest chunks."""
    a, b = keys(wanted), keys(measured)
    differ = sum(a.get(key) != b.get(key) for key in {*a, *b}) + 9 * (a["algorithm"] != b["algorithm"])
    return differ, sum(abs(math.log(int(a[key]) / int(b[key])))
                       for key in ("chunk", "chunk-back") if key in a and key in b)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def measured(root):
    times = defaultdict(dict)
    for row in rows_of(root / TABLE):
        times[row["problem"]][row["choices"]] = float(row["us"])
    return times


def benched(root):
    """Us of a whole run, by problem; the tables have a step of a layer."""
    runs = {}
    for row in (row for path in BENCHES for row in rows_of(root / path) if row["way"] == "graph"):
        layers = re.search(r"/L(\d+)", row["problem"])
        steps = int(re.search(r"/T(\d+)", row["problem"])[1]) * (int(layers[1]) if layers else 1)
        runs[row["problem"]] = float(row["us"]) * steps
    return runs


def replayed(build, asked):
    """What the planner says to problems with choices: pairs of seconds and choices, or "none"."""
    run = subprocess.run([build / "tests/gpu/test_estimates"], check=True, text=True,
                         stdout=subprocess.PIPE, input="".join(f"{p} {c}\n" for p, c in asked),
                         env=dict(os.environ, ECORNN_REPLAY="1", CK_FORK="no"))
    return [line.split()[1:] for line in run.stdout.split("\n") if line.startswith("replay ")]


def estimated(build, times):
    """The planner's choices and estimates in us, by problem; a choice that it refuses has none."""
    asked = [(problem, choices) for problem, of in times.items() for choices in ("", *of)]
    plans, estimates = {}, defaultdict(dict)
    for (problem, asked_choices), (seconds, choices) in zip(asked, replayed(build, asked), strict=True):
        if asked_choices == "":
            plans[problem] = choices
        elif choices != "none":
            estimates[problem][asked_choices] = 1e6 * float(seconds)
    return plans, estimates


def same_products(choices, times, estimates):
    """The choices that say how products in full F32 are made, if their estimate is the same: then
    the plan makes all of them so, whatever the planner chose when the table was measured."""
    for value in 0, 1:
        forced = f"{choices},emulated-f32={value}"
        if forced in times and estimates.get(forced) == estimates.get(choices):
            return forced
    return choices


def judge(times, plan, estimates):
    """A row for one problem; candidates of equal estimates count as their mean."""
    least = min(times.values())
    nearest = plan if plan in times else min(times, key=lambda one: distance(plan, one))
    nearest = same_products(nearest, times, estimates)
    both = {one: (estimates[one], times[one]) for one in times if one in estimates}
    shortest = min(estimate for estimate, _ in both.values())
    first = [us for estimate, us in both.values() if estimate <= 1.0001 * shortest]
    pairs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(both.values(), 2)
             if abs(math.log(a[1] / b[1])) > 0.02 and abs(math.log(a[0] / b[0])) > 1e-4]
    best = min(times, key=times.get)
    return {"best": best, "nearest": nearest, "was measured": plan in times,
            "plan": times[nearest] / least - 1, "formula": sum(first) / len(first) / least - 1,
            "error": sum(abs(math.log(e / us)) for e, us in both.values()) / len(both),
            "order": sum(pair < 0 for pair in pairs) / max(1, len(pairs))}


def show(name, rows):
    if not rows:
        return
    regrets = []
    for what in "plan", "formula":
        values = [row[what] for row in rows]
        regrets.append(f"{100 * sum(values) / len(values):6.2f} {100 * max(values):6.1f} "
                       f"{sum(value > 0.08 for value in values):4d}")
    mean = [100 * sum(row[what] for row in rows) / len(rows) for what in ("error", "order")]
    print(f"{name:22} {len(rows):4d} {regrets[0]}  {regrets[1]} {mean[0]:7.1f} {mean[1]:6.1f}")


def show_benches(build, runs):
    said = replayed(build, [(problem, "") for problem in runs])
    logs = {problem: math.log(1e6 * float(seconds) / us) for (problem, us), (seconds, _) in zip(runs.items(), said)}
    print(f"{'bench, in %':22}    n  error   mean")
    for name, chosen in (("all", r""), ("16 bits", r"/b?f16/"), ("F32, fast", r"/f32/fast/"), ("F32", r"/f32/(?!fast)")):
        values = [value for problem, value in logs.items() if re.search(chosen, problem)]
        print(f"{name:22} {len(values):4d} {100 * sum(map(abs, values)) / len(values):6.1f} "
              f"{100 * sum(values) / len(values):6.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--list", action="store_true", help="every problem, worst plans first")
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[2]
    times = measured(root)
    plans, estimates = estimated(options.build.resolve(), times)
    rows = {problem: judge(of, plans[problem], estimates[problem]) for problem, of in times.items()}
    print(f"{'in %':22}    n  plan:  worst >8 %  formula: worst >8 %  error  order")
    for name, chosen in (("all", lambda p: True), ("held out", is_held_out),
                         ("fitted", lambda p: not is_held_out(p))):
        show(name, [row for problem, row in rows.items() if chosen(problem)])
    for name in sorted({keys(row["best"])["algorithm"] for row in rows.values()}):
        show(f"best is {name}", [row for row in rows.values() if keys(row["best"])["algorithm"] == name])
    show_benches(options.build.resolve(), benched(root))
    print(f"not measured: {sum(not row['was measured'] for row in rows.values())} plans")
    for problem, row in sorted(rows.items(), key=lambda item: -item[1]["plan"]) if options.list else ():
        print(f"{100 * row['plan']:6.1f} {100 * row['formula']:6.1f} {problem} {plans[problem]}\n"
              f"{'':14}best {row['best']}" +
              ("" if row["was measured"] else f"\n{'':14}nearest {row['nearest']}"))


if __name__ == "__main__":
    sys.exit(main())
