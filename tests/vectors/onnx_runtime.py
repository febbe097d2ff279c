"""
ONNX Runtime on the CPU: one RNN, LSTM or GRU node for each layer.  It computes no gradients.
"""
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ecornn_runtime import Unsupported

# The cell's node, its gates in ONNX's order ("f" of a coupled cell is not read), what it sets.
KINDS = {
    "rnn-tanh": ("RNN", "h", {"activations": ["Tanh"]}),
    "rnn-relu": ("RNN", "h", {"activations": ["Relu"]}),
    "lstm": ("LSTM", "iofg", {}),
    "lstm-peephole": ("LSTM", "iofg", {}),
    "lstm-coupled": ("LSTM", "io-g", {"input_forget": 1}),
    "gru": ("GRU", "zrn", {"linear_before_reset": 1}),
    "gru-reset-first": ("GRU", "zrn", {"linear_before_reset": 0}),
}
TYPES = {"f32": (TensorProto.FLOAT, np.float32), "f64": (TensorProto.DOUBLE, np.float64),
         "f16": (TensorProto.FLOAT16, np.float16)}
DIRECTIONS = {("forward",): "forward", ("reverse",): "reverse"}


class Graph:
    """The nodes and constants of one vector."""

    def __init__(self, vector):
        self.v, self.nodes, self.constants = vector, [], []
        self.tensor, self.number = TYPES[vector.type]
        self.kind, self.gates, self.attributes = KINDS[vector.cell]
        self.D = len(vector.directions)

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def stack(self, layer, kind, gates, other=None):
        """[D, gates * H, ...] of a kind of parameter; "-": zeros."""
        v, directions = self.v, []
        for direction in v.directions:
            prefix = "%d.%s." % (layer, direction[:3] if direction == "reverse" else "fwd")
            one = [v.inputs[prefix + kind + "." + g] if g != "-" else None for g in gates]
            some = next(a for a in one if a is not None)
            directions.append(np.concatenate([np.zeros_like(some) if a is None else a
                                              for a in one]))
        return np.stack(directions).astype(self.number)

    def layer(self, layer, x):
        v, H = self.v, self.v.hidden
        gru = v.cell == "gru"
        W = self.stack(layer, "W", self.gates)
        R = self.stack(layer, "R", self.gates.replace("n", "q") if gru else self.gates)
        b = self.stack(layer, "b", self.gates)
        second = np.zeros_like(b)
        if gru:
            second[:, 2 * H:] = self.stack(layer, "b", "q")
        inputs = [x] + [self.constant("%s%d" % (n, layer), a) for n, a in
                        (("W", W), ("R", R), ("B", np.concatenate([b, second], axis=1)))]
        inputs.append("lengths" if v.lengths is not None else "")
        for s in range(v.states):
            known = v.inputs.get("initial%d" % s)
            part = None if known is None else known[self.D * layer:self.D * (layer + 1)]
            inputs.append("" if part is None else
                          self.constant("initial%d_%d" % (s, layer), part.astype(self.number)))
        if v.cell == "lstm-peephole":
            inputs.append(self.constant("P%d" % layer, self.stack(layer, "p", "iof")))
        outputs = ["Y%d" % layer] + ["final%d_%d" % (s, layer) for s in range(v.states)]
        direction = DIRECTIONS.get(tuple(v.directions), "bidirectional")
        attributes = dict(self.attributes)
        if "activations" in attributes:
            attributes["activations"] = self.D * attributes["activations"]
        self.nodes.append(helper.make_node(self.kind, inputs, outputs, hidden_size=H,
                                           direction=direction, **attributes))
        # Y [T,D,N,H] to [T,N,D*H]
        self.nodes.append(helper.make_node("Transpose", outputs[:1], ["t%d" % layer],
                                           perm=[0, 2, 1, 3]))
        self.nodes.append(helper.make_node("Reshape", ["t%d" % layer, "shape"], ["y%d" % layer]))
        return "y%d" % layer

    def model(self):
        v = self.v
        self.constant("shape", np.array([v.steps, v.batch, self.D * v.hidden], np.int64))
        if v.lengths is not None:
            self.constant("lengths", np.array(v.lengths, np.int32))
        at = "x"
        for layer in range(v.layers):
            at = self.layer(layer, at)
        names = [at] + ["final%d_%d" % (s, k) for k in range(v.layers) for s in range(v.states)]
        graph = helper.make_graph(
            self.nodes, "vector",
            [helper.make_tensor_value_info("x", self.tensor, [v.steps, v.batch, v.input])],
            [helper.make_tensor_value_info(name, self.tensor, None) for name in names],
            self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
        model.ir_version = 8
        return model.SerializeToString(), names


class OnnxRuntime:
    GRADIENTS = False

    def __init__(self):
        self.options = onnxruntime.SessionOptions()
        self.options.log_severity_level = 4
        self.options.intra_op_num_threads = 1

    def run(self, vector):
        if vector.cell not in KINDS or vector.type not in TYPES or vector.proj:
            raise Unsupported("no node for it")
        graph = Graph(vector)
        model, names = graph.model()
        x = vector.inputs["x"].astype(graph.number)
        try:
            session = onnxruntime.InferenceSession(model, self.options, ["CPUExecutionProvider"])
            found = session.run(names, {"x": x.swapaxes(0, 1) if vector.batch_major else x})
        except Exception as reason:
            words = str(reason).lower().replace("_", " ")
            if any(w in words for w in ("not implemented", "does not support", "no kernel")):
                raise Unsupported(str(reason))
            raise
        found = dict(zip(names, (a.astype(float) for a in found)))
        y = found[names[0]]
        results = {"y": y.swapaxes(0, 1) if vector.batch_major else y}
        for s in range(vector.states):
            results["final%d" % s] = np.concatenate(
                [found["final%d_%d" % (s, k)] for k in range(vector.layers)])
        return results
