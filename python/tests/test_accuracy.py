"""``python -m ecornn check``: the measured errors, and the bound of one step, which holds."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ecornn import Layer, accuracy
from ecornn.__main__ import main

DRAW = np.random.default_rng(5)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn-tanh", "rnn-relu", "lstm-peephole", "lstm-coupled", "mgu"])
def test_the_bound_holds(cell):
    layer = Layer(cell, 30, 40, layers=2, seed=3)
    x = DRAW.standard_normal((20, 3, 30)).astype(np.float32) * 2 + 1
    found = [re.search(r"at most (\S+), largest (\S+)", line) for line in accuracy.report(layer, x)]
    steps = [(float(line[1]), float(line[2])) for line in found if line]
    assert len(steps) == (0 if cell == "mgu" else 2)  # its candidate multiplies a computed operand
    for bound, largest in steps:
        assert 0 < largest <= bound < 100 * largest


def test_plans_print_a_bound():
    for weights, bound in (("int8", "0.413"), ("int8-weights", "0.276")):
        assert f"within {bound} w r" in str(Layer("gru", 30, 40, weights=weights).plan(3, 2))


def test_the_command(tmp_path, capsys):
    layer = Layer("gru", 6, 9, seed=1)
    layer.save(path=tmp_path / "w.npz")
    np.save(tmp_path / "x.npy", DRAW.standard_normal((30, 6)).astype(np.float32))
    words = ["check", "--cell", "gru", "--weights", str(tmp_path / "w.npz")]
    assert main([*words, "--data", str(tmp_path / "x.npy")]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n{form}: error of y" in printed for form in ("int8", "int8-weights", "bf16"))
    np.save(tmp_path / "x.npy", np.zeros((30, 2, 5), np.float32))
    assert main([*words, "--data", str(tmp_path / "x.npy")]) == 1
    assert "has [30, 2, 5], must have [T,N,6]" in capsys.readouterr().err
