#!/usr/bin/env python3
"""
run.py FOLDER [--library FILE] [--only RUNTIME,...] [--strict]: runs every runtime that is here on
the vectors that make.py wrote to FOLDER, and prints for each cell how many it passed, failed and
has no words for, and the largest error in parts of what is allowed.  ONNX Runtime and PyTorch are
taken where Python finds them.  Exit status: 0, or 1 where ecornn failed a vector; --strict: where
any runtime did.
"""
import argparse
import sys

import numpy as np

import ecornn_runtime
from ecornn_runtime import Unsupported
from vector_file import read_vectors

EXACT = 1e-13  # relative to an array's largest magnitude, for two computations in double


class ReferenceInDouble(ecornn_runtime.Ecornn):
    """The library's reference computes every vector in double: so the expected values themselves
    are compared, closer than any type's bound."""

    def __init__(self, library):
        super().__init__(library, "reference", "f64")

    def bound(self, vector, name):
        return EXACT * max(np.max(np.abs(vector.expected[name])), 1e-300)


def runtimes(library):
    """[(name, function that makes it)]; the function raises where it is not here."""
    def onnx():
        from onnx_runtime import OnnxRuntime
        return OnnxRuntime()

    def torch():
        from torch_runtime import Torch
        return Torch()

    def ecornn(device):
        def make():
            if not library:
                raise ImportError("no libecornn.so: --library says where")
            return ecornn_runtime.Ecornn(library, device)
        return make

    return [("expected", lambda: ReferenceInDouble(library)),
            ("ecornn reference", ecornn("reference")), ("ecornn cpu", ecornn("cpu")),
            ("ecornn cuda", ecornn("cuda")), ("onnxruntime", onnx), ("torch", torch)]


def bound_of(runtime, vector, name):
    return runtime.bound(vector, name) if hasattr(runtime, "bound") else vector.bound[name]


def worst_of(runtime, vector, results):
    """The largest error of any array relative to its bound, and the array's name."""
    worst, where = 0.0, ""
    for name, expected in vector.expected.items():
        if name not in results and name[0] == "d" and not getattr(runtime, "GRADIENTS", True):
            continue
        found = results.get(name)
        if found is None or found.shape != expected.shape:
            return float("inf"), name
        error = np.max(np.abs(found - expected))
        part = error / bound_of(runtime, vector, name) if error else 0.0
        part = part if part == part else float("inf")
        if part >= worst:
            worst, where = part, name
    return worst, where


class Score:
    def __init__(self):
        self.passed = self.failed = self.unsupported = 0
        self.worst = 0.0

    def add(self, other):
        for name in ("passed", "failed", "unsupported"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.worst = max(self.worst, other.worst)

    def __str__(self):
        if not self.passed + self.failed:
            return "%d/%d/%d" % (0, 0, self.unsupported)
        return "%d/%d/%d %.3g" % (self.passed, self.failed, self.unsupported, self.worst)


def run_all(name, runtime, vectors):
    scores = {}
    for vector in vectors:
        score = scores.setdefault((vector.cell, vector.type), Score())
        try:
            worst, where = worst_of(runtime, vector, runtime.run(vector))
        except Unsupported:
            score.unsupported += 1
            continue
        except Exception as reason:
            score.failed += 1
            print("FAILED: %s: %s (%s): %s"
                  % (name, vector.name, vector.problem, str(reason).split("\n")[0]))
            continue
        score.worst = max(score.worst, worst)
        score.passed += worst <= 1
        score.failed += worst > 1
        if worst > 1:
            print("FAILED: %s: %s (%s): %s is off by %.3g of what is allowed"
                  % (name, vector.name, vector.problem, where, worst))
    return scores


def print_table(columns, vectors):
    cells = list(dict.fromkeys(v.cell for v in vectors))
    types = list(dict.fromkeys(v.type for v in vectors))
    width = max([18] + [len(name) + 2 for name in columns])
    print("passed/failed/not supported, largest error in parts of the bound")
    print(" " * 22 + "".join(name.ljust(width) for name in columns).rstrip())
    for type in types:
        totals = {name: Score() for name in columns}
        for cell in cells:
            line = (cell + " " + type).ljust(22)
            for name, scores in columns.items():
                line += str(scores[cell, type]).ljust(width)
                totals[name].add(scores[cell, type])
            print(line.rstrip())
        line = ("all " + type).ljust(22) + "".join(str(t).ljust(width) for t in totals.values())
        print(line.rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--library")
    parser.add_argument("--only")
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    vectors, columns = read_vectors(options.folder), {}
    library = ecornn_runtime.load(options.library)
    for name, make in runtimes(library):
        if options.only and name not in options.only.split(","):
            continue
        try:
            runtime = make()
        except (ImportError, OSError, RuntimeError, AttributeError) as reason:
            if name in ("expected", "ecornn reference", "ecornn cpu"):
                raise  # these are everywhere
            print("%s: not here: %s" % (name, str(reason).split("\n")[0]))
            continue
        columns[name] = run_all(name, runtime, vectors)
    print_table(columns, vectors)
    failed = {n: sum(s.failed for s in c.values()) for n, c in columns.items()}
    ran = sum(s.passed + s.failed for c in columns.values() for s in c.values())
    print("cases: %d" % ran)
    mine = [n for n in failed if options.strict or n.split()[0] in ("expected", "ecornn")]
    return 1 if not ran or any(failed[n] for n in mine) else 0


if __name__ == "__main__":
    sys.exit(main())
