#!/usr/bin/env python3
"""
make.py FOLDER: writes the conformance vectors there (doc/contributing/vectors.md has the format).
Needs numpy only.
"""
import json
import os
import sys

import numpy as np

from cases import TYPES, all_cases
from textbook import expect
from vector_file import write_arrays


def entry_of(case, expected):
    return {
        "name": case.name, "file": case.name + ".safetensors", "problem": case.problem,
        "cell": case.cell, "type": case.type, "seed": case.seed,
        "bits": TYPES[case.type]["bits"],
        "steps": case.T, "batch": case.N, "input": case.I, "hidden": case.H, "proj": case.proj,
        "layers": case.L, "states": case.states,
        "directions": ["reverse" if reverse else "forward" for reverse in case.reverses],
        "batch_major": case.batch_major, "training": case.train, "lengths": case.lengths,
        "inputs": [{"name": name, "shape": list(shape), "scale": scale}
                   for name, shape, scale in case.inputs()],
        "expected": [{"name": name, "shape": list(exact.shape), "bound": bound,
                      "largest": float(np.max(np.abs(exact)))}
                     for name, (exact, bound) in expected.items()],
    }


def main(folder):
    os.makedirs(folder, exist_ok=True)
    entries = []
    for case in all_cases():
        inputs = case.draw()
        expected = expect(case, inputs)
        arrays = {"input:" + name: a for name, a in inputs.items()}
        arrays.update(("expected:" + name, exact) for name, (exact, _) in expected.items())
        entries.append(entry_of(case, expected))
        write_arrays(os.path.join(folder, entries[-1]["file"]), arrays)
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump({"format": "ecornn vectors 1", "vectors": entries}, file, indent=1)
    print("%d vectors in %s" % (len(entries), folder))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
