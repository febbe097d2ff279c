"""torch.onnx.export gives ONNX's own nodes, and onnxruntime computes the same."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")
import ecornn.torch as et  # noqa: E402

if torch.__version__ < (2, 6):
    pytest.skip("torch.onnx.export takes programs since torch 2.6", allow_module_level=True)
DIMS = {0: torch.export.Dim("a"), 1: torch.export.Dim("b")}


class Model(torch.nn.Module):
    """A layer whose results are a flat list."""

    def __init__(self, layer):
        super().__init__()
        self.rnn = layer.eval()

    def forward(self, x, h=None, c=None, lengths=None):
        hx = (h, c) if c is not None else h
        y, final = self.rnn(x, hx, lengths=lengths)
        return [y, *(final if isinstance(final, tuple) else [final])]


def _check(model, given, again, dims) -> list[str]:
    """Exports with one set of inputs and compares with another; the kinds of nodes."""
    program = torch.onnx.export(model, given, dynamo=True, verbose=False, dynamic_shapes=dims)
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    named = zip(session.get_inputs(), [tensor for tensor in again if tensor is not None])
    found = session.run(None, {of.name: tensor.numpy() for of, tensor in named})
    with torch.no_grad():
        for have, want in zip(found, model(*again), strict=True):
            torch.testing.assert_close(torch.from_numpy(have), want, atol=1e-6, rtol=1e-5)
    return [node.op_type for node in program.model_proto.graph.node]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("sizes", [
    dict(), dict(num_layers=2, bidirectional=True), dict(batch_first=True, bias=False)])
def test_nodes_for_any_shape(kind, sizes):
    model = Model(getattr(et, kind)(3, 4, **sizes))
    nodes = _check(model, (torch.randn(5, 2, 3),), (torch.randn(7, 3, 3),), (DIMS,))
    assert nodes.count(kind) == sizes.get("num_layers", 1)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_states_and_lengths(nonlinearity):
    for layer in (et.LSTM(3, 4, 2), et.RNN(3, 4, 2, nonlinearity)):
        def given(steps, batch, lengths):
            states = [torch.randn(2, batch, 4) for _ in range(2)]
            if layer.mode != "LSTM":
                states[1] = None
            return (torch.randn(steps, batch, 3), *states, torch.tensor(lengths,
                                                                        dtype=torch.int32))
        rows = {1: DIMS[1]}
        dims = (DIMS, rows, rows if layer.mode == "LSTM" else None, {0: DIMS[1]})
        nodes = _check(Model(layer), given(5, 2, [5, 2]), given(7, 3, [1, 7, 4]), dims)
        assert nodes.count(layer.mode[:4].rstrip("_")) == 2


def test_an_exported_program():
    model, x = Model(et.GRU(3, 4)), torch.randn(5, 2, 3)
    program = torch.onnx.export(torch.export.export(model, (x,)), dynamo=True, verbose=False)
    assert "GRU" in [node.op_type for node in program.model_proto.graph.node]


@pytest.mark.parametrize("make, why", [
    (lambda: et.MGU(3, 4), "the cell mgu"),
    (lambda: et.LSTM(3, 4, proj_size=2), "proj_size"),
    (lambda: et.Recurrent(3, 4, cell="gru", heads=2), "heads")])
def test_what_has_no_node_is_refused(make, why):
    with pytest.raises(Exception) as found:
        torch.onnx.export(Model(make()), (torch.randn(5, 2, 3),), dynamo=True, verbose=False)
    while found is not None:
        text = str(found.value if hasattr(found, "value") else found)
        if f"no node for {why}" in text:
            return
        found = (found.value if hasattr(found, "value") else found).__cause__
    raise AssertionError("another error")
