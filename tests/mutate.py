#!/usr/bin/env python3
"""Do the tests see a wrong operator?  Flips one in a copy of the tree, builds, runs tests; again.

    tests/mutate.py [--count 20] [--seed 1] [--keep FOLDER] [FILE ...]

FILE: sources to change; else the texts of the CPU's kernels and what calls them. A change is one of a
table: + for -, < for <=, v_add for v_sub and so on, outside comments and preprocessor lines. It counts
as seen where the build or one of the tests fails (or does not end). Prints a line for each change and
the score. Needs what the build needs; takes about half a minute a change on two cores.
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

FILES = """cpu/isa/tile.c cpu/isa/tile_narrow.c cpu/isa/words.h cpu/isa/vec_math.h cpu/isa/pointwise.inc
cpu/isa/interpret.inc cpu/isa/isa.c cpu/ops/forward.c cpu/ops/backward.c
cpu/gemm/packed/walk.c cpu/gemm/packed/rows.c cpu/gemm/packed/product.c cpu/gemm/packed/gradient.c
cpu/gemm/packed/gradient_copies.c cpu/ops/pointwise_pass.c cpu/ops/verbs.c cpu/ops/row_order.c
cpu/gemm/dense.c cpu/gemm/cblas.c""".split()

FLIPS = [(r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "), (r" < ", " <= "),
         (r" > ", " >= "), (r" <= ", " < "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
         (r" && ", " || "), (r" \|\| ", " && "), (r"\bv_add\(", "v_sub("), (r"\bv_sub\(", "v_add("),
         (r"\bv_mul\(", "v_add("), (r"\bv_min\(", "v_max("), (r"\bv_max\(", "v_min("),
         (r"\+\+", "--"), (r" \+= ", " -= "), (r"\b1\b", "2"), (r"\b0\b", "1")]

TESTS = ["tests/cpu/test_kernels", "tests/cpu/test_activations", "tests/cpu/test_threads"]
CASES = ["lstm/train/L2/bi/T5/N3/I7/H19/states/lengths:random", "gru/train/T4/N37/I33/H40/states",
         "gru-reset-first/train/T3/N5/I6/H70", "lstm-peephole/train/T4/N9/I5/H33/P12/lengths:random",
         "lstm/bf16/train/T4/N9/I16/H48/states", "lstm/f64/train/L2/T3/N4/I5/H18/batch-major",
         "lstm/f32/bf16-weights/train/T3/N6/I18/H34/states", "mgu/train/L3/T4/N2/I3/H20/dropout:0.5"]


def code_places(text):
    """Every place where a flip applies: (start, end, replacement)."""
    hidden = [m.span() for m in re.finditer(r"/\*.*?\*/|^[ \t]*#.*?$|\"[^\"\n]*\"", text, re.S | re.M)]
    for pattern, to in FLIPS:
        for match in re.finditer(pattern, text):
            if not any(a <= match.start() < b for a, b in hidden):
                yield match.start(), match.end(), to


def run(command, folder, seconds):
    """None if the tests passed, else the name of the failure."""
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", CK_VERBOSITY="silent", CK_DEFAULT_TIMEOUT="60")
    try:
        done = subprocess.run(command, cwd=folder, env=environment, timeout=seconds,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return None if done.returncode == 0 else f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        return "does not end"


def seen(build):
    """The step that detects the change; None: no step does."""
    if run(["make", "-s", f"-j{os.cpu_count()}", *TESTS, "tests/cpu/test_backend"], build, 600):
        return "the compiler"
    for test in TESTS:
        if run([f"./{test}"], build, 120):
            return test
    for case in CASES:
        if run(["./tests/cpu/test_backend", case], build, 120):
            return case
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the copy, kept")
    parser.add_argument("files", nargs="*", default=FILES)
    args = parser.parse_args()
    top = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
    folder = args.keep or tempfile.mkdtemp(prefix="ecornn-mutate-")
    os.makedirs(folder, exist_ok=True)
    build = os.path.join(folder, "build")
    if not os.path.exists(os.path.join(build, "Makefile")):
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=top, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
        subprocess.run(["./autogen.sh"], cwd=folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
        os.makedirs(build, exist_ok=True)
        subprocess.run(["../configure", "-q", "--with-cuda=no"], cwd=build, stdout=subprocess.DEVNULL,
                       check=True)
    if (broken := seen(build)) is not None:
        sys.exit(f"mutate: {broken} fails before anything is changed")
    dice, killed = random.Random(args.seed), 0
    places = [(file, place) for file in args.files
              for place in code_places(open(os.path.join(top, file), encoding="utf-8").read())]
    chosen = dice.sample(places, min(args.count, len(places)))
    for file, (start, end, to) in chosen:
        path = os.path.join(folder, file)
        with open(path, encoding="utf-8") as source:
            text = source.read()
        line = text.count("\n", 0, start) + 1
        with open(path, "w", encoding="utf-8") as source:
            source.write(text[:start] + to + text[end:])
        by = seen(build)
        with open(path, "w", encoding="utf-8") as source:
            source.write(text)
        killed += by is not None
        print(f"{file}:{line}: '{text[start:end].strip()}' as '{to.strip()}': {by or 'NOT SEEN'}",
              flush=True)
    print(f"{killed} of {len(chosen)} changes were seen ({len(places)} places)")
    if not args.keep:
        shutil.rmtree(folder)
    if not killed:
        sys.exit("mutate: the tests saw nothing")


if __name__ == "__main__":
    main()
