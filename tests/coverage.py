#!/usr/bin/env python3
"""Branch and line coverage of a build made with --coverage, by folder and file.

    tests/coverage.py BUILD [--least common=97,cpu=93] [--missed FOLDER]

Reads every .gcda below BUILD with gcov. A source that is compiled several times, once for each
instruction set, counts once: a branch is taken if any of its objects took it. Of kernels' texts, in
which the compiler makes up to hundreds of copies of a line's branches, each line counts as two: what
falls through in some copy, what jumps in some. Sources of programs (tests, tools, bench, examples)
are left out, and those in --without, which this machine has no instructions for. --missed lists the
lines of a folder with branches that nothing took. Fails where a folder is below its least percentage.
"""
import argparse
import gzip
import json
import os
import re
import subprocess
import sys
from collections import defaultdict

FOLDERS = ("lib", "common", "cpu", "gpu")
KERNELS = re.compile(r"cpu/isa/(words\.h|vec.*\.h|tile.*|isa.*\.c|.*\.inc|pointwise\.h)$")


def reports(build):
    """gcov's report of each object, as JSON."""
    for folder, _, names in os.walk(build):
        for name in sorted(names):
            if name.endswith(".gcda"):
                path = os.path.join(folder, name)
                out = subprocess.run(
                    ["gcov", "--json-format", "--branch-probabilities", "--stdout", path],
                    cwd=build, capture_output=True, check=False).stdout
                for text in out.splitlines():
                    if text[:2] == b"\x1f\x8b":
                        text = gzip.decompress(text)
                    if text.strip():
                        yield json.loads(text)


def source_of(name, build, top):
    """The source's path inside the tree, or None: a system header, a generated file, a program."""
    path = os.path.relpath(os.path.realpath(os.path.join(build, name)), top)
    if path.startswith("..") or path.startswith(os.path.relpath(build, top) + os.sep):
        return None
    return path if path.split(os.sep)[0] in FOLDERS else None


def collect(build, top):
    branches, lines = defaultdict(dict), defaultdict(dict)
    for report in reports(build):
        for file in report["files"]:
            source = source_of(file["file"], build, top)
            if source is None:
                continue
            for line in file["lines"]:
                number = line["line_number"]
                lines[source][number] = lines[source].get(number, 0) or line["count"]
                for k, branch in enumerate(line["branches"]):
                    key = (number, branch["fallthrough"] if KERNELS.match(source) else k)
                    branches[source][key] = branches[source].get(key, 0) or branch["count"]
    return branches, lines


def share(counts):
    taken = sum(1 for count in counts if count)
    return taken, len(counts), 100.0 * taken / len(counts) if counts else 100.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--least", default="")
    parser.add_argument("--missed", default="")
    parser.add_argument("--without", default="cpu/isa/tile_amx.c")
    args = parser.parse_args()
    build = os.path.realpath(args.build)
    top = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
    branches, lines = collect(build, top)
    for source in args.without.split(","):
        if source and not any(lines[source].values()):
            del lines[source]
            print(f"without {source}")
    least = dict(pair.split("=") for pair in args.least.split(",") if pair)
    low = []
    print(f"{'folder':10} {'branches':>9} {'taken':>9} {'%':>6} {'lines':>9} {'run':>9} {'%':>6}")
    for folder in FOLDERS:
        sources = [s for s in lines if s.startswith(folder + os.sep)]
        if not sources and folder not in least:
            continue
        taken, of, percent = share([c for s in sources for c in branches[s].values()])
        run, all_lines, line_percent = share([c for s in sources for c in lines[s].values()])
        print(f"{folder:10} {of:9} {taken:9} {percent:6.1f} {all_lines:9} {run:9} {line_percent:6.1f}")
        if percent < float(least.get(folder, 0)) or folder in least and not of:
            low.append(f"{folder}: {percent:.1f} % of branches, at least {least[folder]} wanted")
    for source in sorted(lines) if args.missed else []:
        if not source.startswith(args.missed):
            continue
        missed = sorted({line for (line, _), count in branches[source].items() if not count})
        taken, of, percent = share(branches[source].values())
        if missed:
            print(f"{source}: {of - taken} of {of} not taken, lines {' '.join(map(str, missed))}")
    for text in low:
        print(text)
    return 1 if low or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
