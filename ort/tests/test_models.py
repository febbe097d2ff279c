"""Whole models, of which ONNX Runtime runs what is not recurrent: equal to its own provider."""

import models
import numpy as np
import onnx
import pytest
from models import close, draw, own, theirs
from onnx import helper


class Maker:
    """A graph, node after node; each returns the name of its output."""

    def __init__(self, seed):
        self.rng, self.nodes, self.constants = np.random.default_rng(seed), [], []

    def constant(self, array):
        self.constants.append(onnx.numpy_helper.from_array(array, f"constant {len(self.constants)}"))
        return self.constants[-1].name

    def drawn(self, *shape):
        return self.constant((self.rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32))

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"value {len(self.nodes)} {k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op} {len(self.nodes)}", **attributes))
        return names[0]

    def both_directions(self, x, op, I, H, lengths=""):
        """From and to [T,N,C]."""
        arrays = draw(self.rng, op, 1, 1, I, H, 2, ["B"])
        y = self.add(op, x, *(self.constant(arrays[name]) for name in "WRB"), lengths, hidden_size=H,
                     direction="bidirectional", **({"linear_before_reset": 1} if op == "GRU" else {}))
        return self.add("Reshape", self.add("Transpose", y, perm=[0, 2, 1, 3]), self.constant(np.array([0, 0, -1])))

    def model(self, inputs, output):
        infos = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
        graph = helper.make_graph(self.nodes, "graph", infos,
                                  [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def crnn(op):
    """Reads a line of text: images [N,1,8,width], two layers of convolutions, two of recurrence."""
    make = Maker(1)
    x = make.add("Relu", make.add("Conv", "image", make.drawn(16, 1, 3, 3), pads=[1, 1, 1, 1]))
    x = make.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = make.add("Relu", make.add("Conv", x, make.drawn(32, 16, 4, 3), pads=[0, 1, 0, 1]))
    x = make.add("Transpose", make.add("Squeeze", x, make.constant(np.array([2]))), perm=[2, 0, 1])
    x = make.both_directions(make.both_directions(x, op, 32, 48), op, 96, 48)
    x = make.add("LogSoftmax", make.add("MatMul", x, make.drawn(96, 30)), axis=-1)
    return make.model([("image", onnx.TensorProto.FLOAT, ["N", 1, 8, "width"])], x)


def speech():
    """The encoder of a voice: embedded sounds, convolutions over time, an LSTM with lengths."""
    make = Maker(2)
    x = make.add("Transpose", make.add("Gather", make.drawn(40, 64), "sounds"), perm=[0, 2, 1])
    for _ in range(2):
        x = make.add("LeakyRelu", make.add("Conv", x, make.drawn(64, 64, 5), pads=[2, 2]), alpha=0.2)
    x = make.both_directions(make.add("Transpose", x, perm=[2, 0, 1]), "LSTM", 64, 64, "lengths")
    return make.model([("sounds", onnx.TensorProto.INT64, ["N", "T"]), ("lengths", onnx.TensorProto.INT32, ["N"])], x)


@pytest.mark.parametrize("op", models.GATES)
def test_crnn(capfd, op):
    model, rng = crnn(op), np.random.default_rng(3)
    ours, other = own(model, only=False), theirs(model)
    assert "ecornn leaves" not in capfd.readouterr().err
    for N, width in ((1, 60), (4, 34), (2, 200)):
        image = rng.standard_normal((N, 1, 8, width), np.float32)
        close(ours.run(None, {"image": image}), other.run(None, {"image": image}), 5e-5)


def test_speech(capfd):
    model, rng = speech(), np.random.default_rng(4)
    ours, other = own(model, only=False), theirs(model)
    assert "ecornn leaves" not in capfd.readouterr().err
    for N, T in ((1, 23), (3, 57)):
        inputs = {"sounds": rng.integers(0, 40, (N, T)), "lengths": np.linspace(T, T // 2, N).astype(np.int32)}
        close(ours.run(None, inputs), other.run(None, inputs), 5e-5)
