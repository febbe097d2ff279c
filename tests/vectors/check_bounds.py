#!/usr/bin/env python3
"""
check_bounds.py: do the bounds detect lower precision?  Parameters rounded to fewer bits than the
type has stand for a runtime that computes in less: of F32 to the 11 of TF32, of F64 to 40.
"""
import os
import sys

import numpy as np

from cases import all_cases
from tape import Errors
from textbook import evaluate, expect

BITS = {"f64": 40, "f32": 11}
EVERY = 5 if os.environ.get("ECORNN_TESTS") == "all" else 17  # every EVERY-th case runs; all would take long


def to_bits(array, bits):
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.round(np.ldexp(fraction, bits)), exponent - bits)


def is_seen(case):
    inputs = case.draw()
    rounded = {name: to_bits(a, BITS[case.type]) if name[0] in "0123456789" else a
               for name, a in inputs.items()}
    found = evaluate(case, rounded, Errors(0, 0, 0))
    return any(np.max(np.abs(found[name][0] - exact)) > bound
               for name, (exact, bound) in expect(case, inputs).items())


def main():
    cases = [case for case in all_cases() if case.type in BITS][::EVERY]
    blind = [case for case in cases if not is_seen(case)]
    for case in blind:
        print("FAILED: %s (%s) does not see parameters of %d bits"
              % (case.name, case.problem, BITS[case.type]))
    print("bounds: %d of %d vectors see parameters of fewer bits"
          % (len(cases) - len(blind), len(cases)))
    return 1 if blind else 0


if __name__ == "__main__":
    sys.exit(main())
