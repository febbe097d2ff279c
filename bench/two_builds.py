#!/usr/bin/env python3
"""Times problems with two builds, by turns, and lists those that became slower.  Standard library only.

    two_builds.py OLD NEW [--turns N] [OPTION OF ecornn bench|PROBLEM]...

OLD and NEW are build folders.  The options go to both, such as "--device cuda --random 40 --seed 7";
OLD gets the problems that NEW drew.  The least time of all turns (3) counts.  A problem became slower if NEW
takes 3 % more, and more than the two least times of each build differ.  Exits with 1 if one did, or if
the geometric mean is above 1.01; with 2 if that cannot be told.
"""
import csv
import io
import math
import os
import subprocess
import sys
from pathlib import Path

SLOWER, ON_AVERAGE = 1.03, 1.01
TURNS = 3


def refuse(why):
    print(f"two_builds.py: {why}", file=sys.stderr)
    sys.exit(2)


def times(build, options):
    """{(problem, way and threads): ms} by a build's ecornn bench; packing is left out."""
    environment = os.environ | {"ECORNN_MODULE_DIR": str(build / ".libs"), "ECORNN_WISDOM": "0"}
    program = build / "bench/ecornn"
    if not program.exists():
        refuse(f"there is no {program}")
    done = subprocess.run([str(program), "bench", "--csv", "-", *options], text=True, env=environment,
                          stdout=subprocess.PIPE)
    if done.returncode:
        refuse(f"{program} bench: exit {done.returncode}")
    return {(row["problem"], f"{row['way']} {row['threads']}"): float(row["ms"])
            for row in csv.DictReader(io.StringIO(done.stdout)) if "packing" not in row["way"]}


def listed(options, problems):
    """The options without those that draw problems, and the problems."""
    kept, at = [], 0
    while at < len(options):
        if options[at] in ("--random", "--seed"):
            at += 2
            continue
        kept.append(options[at])
        at += 1
    return [*kept, *problems] if len(kept) < len(options) else options


def compare(old, new):
    """old, new: {row: [ms of each turn]}.  Prints what differs; the exit status."""
    ratios, slower = [], 0
    for row in sorted(old.keys() & new.keys()):
        ratio = min(new[row]) / min(old[row])
        among = max(sorted(side[row])[:2][-1] / min(side[row]) for side in (old, new))
        is_slower = ratio > SLOWER and ratio > among
        slower += is_slower
        ratios.append(ratio)
        if is_slower or ratio < 1 / SLOWER:
            print(f"{ratio:.3f} {' '.join(row)}: {min(old[row]):.5g} ms, {min(new[row]):.5g}"
                  f"{' SLOWER' if is_slower else ''}")
    missing = len(old.keys() ^ new.keys())
    if not ratios or missing:
        print(f"{len(ratios)} rows compared, {missing} of one build only")
        return 2
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} rows compared, {slower} slower, NEW over OLD on average {mean:.3f}")
    return 1 if slower or mean > ON_AVERAGE else 0


def main(arguments):
    if len(arguments) < 3 or arguments[0].startswith("-"):
        refuse(__doc__)
    builds, options = [Path(word).resolve() for word in arguments[:2]], arguments[2:]
    turns = TURNS
    if options[0] == "--turns":
        if len(options) < 3 or not options[1].isdigit() or int(options[1]) < 1:
            refuse(f"--turns is {options[1:2]}, must be a number from 1 on, before problems")
        turns, options = int(options[1]), options[2:]
    found = [{}, {}]
    for turn in range(turns):
        for side in ((0, 1) if turn % 2 else (1, 0)):  # NEW first: it draws the problems
            one = times(builds[side], options)
            options = listed(options, sorted({problem for problem, _ in one}))
            for row, ms in one.items():
                found[side].setdefault(row, []).append(ms)
    return compare(*found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
