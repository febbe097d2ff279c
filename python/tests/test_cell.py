"""Cells: names, texts, parameters, errors."""

from __future__ import annotations

import pickle

import numpy
import pytest

import ecornn
from ecornn import Cell

LEAKY = """
# a comment first
cell leaky-1(h)   # and one behind
u  = sigmoid(W x + b)
h' = u * h + (1 - u) * tanh(W x + R h + b)
"""


def test_built_in_cells_are_found():
    names = ecornn.cells()
    assert len(names) == len(set(names)) >= 12
    assert {"lstm", "gru", "rnn-tanh", "rnn-relu", "mgu", "min-gru", "min-lstm", "sru", "qrnn"} <= set(names)
    for name in names:
        assert Cell(name).name == name
    assert [Cell(name).states for name in ("lstm", "gru", "rnn-tanh")] == [2, 1, 1]


def test_parameters_are_kinds_and_lines():
    assert Cell("rnn-tanh").parameters == (("W", "h"), ("R", "h"), ("b", "h"))
    lstm = Cell("lstm").parameters
    assert lstm == tuple((kind, gate) for kind in "WRb" for gate in "ifgo")
    assert ("p", "o") in Cell("lstm-peephole").parameters
    assert Cell(LEAKY).parameters == (("W", "u"), ("W", "h"), ("R", "h"), ("b", "u"), ("b", "h"))


def test_a_text_is_a_cell():
    cell = Cell(LEAKY)
    assert (cell.name, cell.states, str(cell)) == ("leaky-1", 1, LEAKY)
    assert repr(cell) == "Cell('leaky-1', states=1)"
    assert cell == Cell(LEAKY) and cell != Cell("lstm") and cell != LEAKY
    assert len({cell, Cell(LEAKY), Cell("lstm")}) == 2
    assert pickle.loads(pickle.dumps(cell)) == cell


@pytest.mark.parametrize("text, begins", [
    ("cell odd(h)\nh' = f * h\n", "2:6: 'f'"),
    ("cell odd(h)\nh' = tanh(W x + \n", "3:1"),
    ("cell ü(h)\nh' = h\n", "1:"),
])
def test_a_wrong_text_says_where(text, begins):
    with pytest.raises(ecornn.BadCell) as caught:
        Cell(text)
    assert str(caught.value).startswith(begins)
    line, column = str(caught.value).split(":")[:2]
    assert int(line) >= 1 and int(column) >= 1
    assert isinstance(caught.value, (ecornn.Error, ValueError))


@pytest.mark.parametrize("name", ["", "lstm2", "LSTM", "cell mine(h)", "a\0b"])
def test_a_wrong_name_says_which_there_are(name):
    with pytest.raises(ecornn.BadArgument, match="must be"):
        Cell(name)


def test_a_text_with_nul_or_half_characters_is_refused():
    with pytest.raises(ecornn.BadArgument, match="NUL"):
        Cell("cell a(h)\nh' = h\n\0")
    with pytest.raises(ecornn.BadArgument, match="UTF-8"):
        Cell("cell \udc80(h)\nh' = h\n")


@pytest.mark.parametrize("text", [None, 3, b"lstm", ["lstm"]])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(TypeError, match="must be a str"):
        Cell(text)


def test_a_failed_text_leaves_nothing_behind():
    for _ in range(3):
        with pytest.raises(ecornn.BadCell):
            Cell("cell odd(h)\nh' = f * h\n")
    assert Cell("lstm").states == 2


def test_the_library_is_a_mapping_of_texts():
    assert len(ecornn.cells) >= 40 and len(set(ecornn.cells)) == len(ecornn.cells)
    assert list(ecornn.cells) == sorted(ecornn.cells)
    assert not set(ecornn.cells) & set(ecornn.cells())
    for name, text in ecornn.cells.items():
        assert "\n# Source: " in text and "\n# Equations: " in text
        assert Cell(name).name == name and Cell(name) == Cell(text) and str(Cell(name)) == text
    assert "lstm" not in ecornn.cells and ecornn.cells.get("lif2") is None
    with pytest.raises(KeyError):
        ecornn.cells["lstm"]
    with pytest.raises(ecornn.BadArgument, match="'lif2', must be one of rnn-tanh, .*, one of ecornn.cells"):
        Cell("lif2")
    assert repr(ecornn.cells).startswith(f"<{len(ecornn.cells)} cells: adex, alif, ")


def test_a_layer_of_the_library():
    layer, same = (ecornn.Layer(cell, 3, 4, seed=1) for cell in ("lif", ecornn.cells["lif"]))
    x = numpy.ones((5, 2, 3), numpy.float32)
    y, states = layer(x)
    assert len(states) == 2 and set(numpy.unique(y)) <= {0, 1}
    assert (same(x)[0] == y).all() and pickle.loads(pickle.dumps(layer)).cell.name == "lif"
