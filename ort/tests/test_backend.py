"""ONNX's own tests of the operators, by the plug-in."""

import importlib

import models
import numpy as np
import pytest
from onnx.backend.test.case import node

OPERATORS = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN", "linear_attention": "LinearAttention"}
LEFT = ("gqa", "mqa", "fp16")  # to ONNX Runtime: several queries of one head, F16


def cases():
    """Loading them by onnx.backend.test.loader makes those of all operators, for half a minute."""
    for name in OPERATORS:
        try:
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
        except ImportError:  # an ONNX without that operator
            assert name == "linear_attention"
    found = {case.name: case for case in node._NodeTestCases
             if case.model and case.model.graph.node[0].op_type in OPERATORS.values() and "expanded" not in case.name}
    assert len(found) > 20
    return [pytest.param(found[name], id=name) for name in sorted(found)]


@pytest.mark.parametrize("case", cases())
def test_case(case):
    if "linear_attention" in case.name and models.VERSION < (1, 32):
        pytest.skip("ONNX Runtime 1.32 has LinearAttention of ONNX")
    session = models.own(case.model, only=not case.name.endswith(LEFT))
    for inputs, outputs in case.data_sets:
        feeds = {each.name: np.asarray(array) for each, array in zip(session.get_inputs(), inputs)}
        for one, other in zip(session.run(None, feeds), outputs, strict=True):
            np.testing.assert_allclose(one, other, rtol=case.rtol, atol=case.atol)
