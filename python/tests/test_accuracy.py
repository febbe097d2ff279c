"""``python -m ecornn check``: the measured errors, and the bound of one step, which holds."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ecornn
from ecornn import Layer, accuracy
from ecornn.__main__ import main

WORDS = ["check", "--cell", "gru", "--weights"]
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
    words = [*WORDS, str(tmp_path / "w.npz")]
    assert main([*words, "--data", str(tmp_path / "x.npy")]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n{form}: error of y" in printed for form in ("int8", "int8-weights", "bf16"))
    np.save(tmp_path / "x.npy", np.zeros((30, 2, 5), np.float32))
    assert main([*words, "--data", str(tmp_path / "x.npy")]) == 1
    assert "has [30, 2, 5], must have [T,N,6]" in capsys.readouterr().err
    for more in (["--type", "int8"], ["--head", "out"]):
        with pytest.raises(SystemExit):
            main([*words, "--data", str(tmp_path / "x.npy"), *more])
        assert "unrecognized arguments: " + more[0] in capsys.readouterr().err


def header(shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()


HOSTILE = {"empty": (b"", "is not a file .npy"), "no magic": (b"x" * 200, "is not a file .npy"),
           "long": (header((2 * 10**12, 4)), "has 0 bytes for an array float32 \\[2000000000000, 4"),
           "very long": (header((2 * 10**24, 1)), "has 0 bytes for an array"),
           "long and nothing": (header((2 * 10**24, 0)), "must have counts|must have \\[T,N,3\\]"),
           "negative": (header((-2, -2)) + bytes(16), "'x' is \\[-2, -2\\], must have counts"),
           "objects": (header((1,)).replace(b"<f4", b"|O "), "is not a file .npy"),
           "complex": (np.ones((2, 3), np.complex64), "is complex64, must be numbers"),
           "text": (np.full((2, 3), "a"), "is <U1, must be numbers"),
           "NaN": (np.array([[0, 0, np.nan]], np.float32), "has nan at \\[0, 0, 2\\], must be finite"),
           "1e300": (np.array([[0, 1e300, 0]]), "has inf at \\[0, 0, 1\\], must be finite")}


@pytest.mark.parametrize("name", HOSTILE)
def test_data_that_is_refused(name, tmp_path, capsys):
    content, message = HOSTILE[name]
    Layer("gru", 3, 4).save(path=tmp_path / "w.npz")
    if isinstance(content, bytes):
        (tmp_path / "x.npy").write_bytes(content)
    else:
        np.save(tmp_path / "x.npy", content)
    assert main([*WORDS, str(tmp_path / "w.npz"), "--data", str(tmp_path / "x.npy")]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_what_is_refused(tmp_path, capsys):
    layer = Layer("gru", 3, 4)
    layer.parameters["0.fwd.R.q"][1, 2] = np.nan
    with pytest.raises(ecornn.BadArgument, match=r"0.fwd.R.q has nan at \[1, 2\], must be finite"):
        accuracy.report(layer, np.ones((2, 1, 3), np.float32))
    layer.save(path=tmp_path / "w.npz")
    np.savez(tmp_path / "x.npz")
    assert main([*WORDS, str(tmp_path / "w.npz"), "--data", str(tmp_path / "x.npz")]) == 1
    assert "has [0], must have [T,N,3]" in capsys.readouterr().err


def test_errors_are_no_larger_than_the_range():
    for name in ("tanh", "sin"):
        found = accuracy._STEPS[name](accuracy.Ranged(np.array([0.5, 9]), np.array([0.25, 100])))
        assert found.most.tolist() == [0.5, 1] and found.error.tolist() == [0.25, 2]
