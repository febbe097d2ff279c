#!/usr/bin/env python3
"""The opponents ort (ONNX Runtime) and torch (PyTorch) of "ecornn bench", which starts this script.

    peers.py ort|torch

It reads commands on standard input and answers each with a line, as bench/core/remote.h describes.
"""
import os
import sys
import time


class Problem:
    """A problem string, and the data of its file: inputs of several runs, dy, parameters."""

    def __init__(self, text, path):
        parts = text.split("/")
        self.cell, self.training, self.directions = parts[0], "train" in parts, 1 + ("bi" in parts)
        self.L = 1
        for part in parts[1:]:
            if part[0] in "TNIHL" and part[1:].isdigit():
                setattr(self, part[0], int(part[1:]))
        x, y = (self.T, self.N, self.I), (self.T, self.N, self.directions * self.H)
        data = np.fromfile(path, np.float32)
        self.x_elements, self.y_elements = int(np.prod(x)), int(np.prod(y))
        self.data, self.x, self.y = data, x, y

    def split(self, params):
        """Inputs [sets,T,N,I], dy and the block of parameters, whose number is given."""
        inputs = len(self.data) - params - self.y_elements
        if inputs <= 0 or inputs % self.x_elements:
            raise ValueError(f"has another number of parameters: {params}")
        return (self.data[:inputs].reshape(-1, *self.x),
                self.data[inputs:inputs + self.y_elements].reshape(self.y),
                self.data[inputs + self.y_elements:])


GATES = {"lstm": 4, "lstm-peephole": 4, "gru": 3, "gru-reset-first": 3, "rnn-tanh": 1, "rnn-relu": 1}


class Onnxruntime:
    """Inference by one ONNX operator for each layer."""

    needs = "numpy, onnx and onnxruntime"

    @staticmethod
    def name():
        import onnx  # noqa: F401, the package that writes models
        import onnxruntime
        return f"ONNX Runtime {onnxruntime.__version__}"

    @staticmethod
    def refuses(problem):
        return problem.training or problem.cell not in GATES

    def __init__(self, problem, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        places = sorted(os.sched_getaffinity(0))
        if 1 < threads <= len(places):  # the caller is the first thread
            options.add_session_config_entry("session.intra_op_thread_affinities", ";".join(
                str(place + 1) for place in places[1:threads]))
        layers = list(self.layers(problem))
        count = sum(int(np.prod(shape)) for shapes in layers for shape in shapes.values())
        inputs, _, block = problem.split(count)
        self.session = ort.InferenceSession(self.model(problem, layers, block), options,
                                            providers=["CPUExecutionProvider"])
        self.y, self.bindings = np.zeros(problem.y, np.float32), []
        for x in inputs:
            binding = self.session.io_binding()
            binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
            binding.bind_output("y", "cpu", 0, np.float32, self.y.shape, self.y.ctypes.data)
            self.bindings.append(binding)
        self.sets, self.inputs = len(inputs), inputs

    @staticmethod
    def layers(problem):
        """The shapes of the weights of each layer, in ONNX's order."""
        gates, directions, hidden = GATES[problem.cell], problem.directions, problem.H
        for layer in range(problem.L):
            width = problem.I if layer == 0 else directions * hidden
            shapes = {"W": (directions, gates * hidden, width),
                      "R": (directions, gates * hidden, hidden),
                      "B": (directions, 2 * gates * hidden)}
            if problem.cell == "lstm-peephole":
                shapes["P"] = (directions, 3 * hidden)
            yield shapes

    @staticmethod
    def model(problem, layers, block):
        from onnx import TensorProto, helper, numpy_helper
        directions, hidden = problem.directions, problem.H
        kind, extra = {"lstm": ("LSTM", {}), "lstm-peephole": ("LSTM", {}),
                       "gru": ("GRU", {"linear_before_reset": 1}),
                       "gru-reset-first": ("GRU", {})}.get(problem.cell, ("RNN", {}))
        if kind == "RNN":
            extra = {"activations": [problem.cell[4:].capitalize()] * directions}
        nodes, at, value = [], 0, "x"
        initializers = [numpy_helper.from_array(np.array([problem.T, problem.N, -1], np.int64), "shape")]
        for layer, shapes in enumerate(layers):
            inputs = [value] + [f"{letter}{layer}" for letter in "WRB"]
            if "P" in shapes:
                inputs += ["", "", "", f"P{layer}"]  # no lengths, no initial states
            for letter, shape in shapes.items():
                count = int(np.prod(shape))
                initializers.append(numpy_helper.from_array(block[at:at + count].reshape(shape),
                                                            f"{letter}{layer}"))
                at += count
            nodes += [  # [T,D,N,H] to [T,N,D*H]
                helper.make_node(kind, inputs, [f"steps{layer}"], hidden_size=hidden,
                                 direction="bidirectional" if directions == 2 else "forward",
                                 **extra),
                helper.make_node("Transpose", [f"steps{layer}"], [f"rows{layer}"],
                                 perm=[0, 2, 1, 3]),
                helper.make_node("Reshape", [f"rows{layer}", "shape"], [f"y{layer}"])]
            value = f"y{layer}"
        nodes[-1].output[0] = "y"
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, problem.x)],
                                  [info("y", TensorProto.FLOAT, problem.y)], initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)],
                                 ir_version=8).SerializeToString()

    def run(self, k):
        self.session.run_with_iobinding(self.bindings[k])

    def results(self):
        return [self.y]


class Torch:
    """torch.nn's layers: inference without gradients, or forward and backward."""

    needs = "numpy and torch"

    @staticmethod
    def name():
        import torch
        return f"PyTorch {torch.__version__}"

    @staticmethod
    def refuses(problem):
        return problem.cell not in ("lstm", "gru", "rnn-tanh", "rnn-relu")

    def __init__(self, problem, threads):
        import torch
        torch.set_num_threads(threads)
        options = {"num_layers": problem.L, "bidirectional": problem.directions == 2}
        if problem.cell.startswith("rnn-"):
            options["nonlinearity"] = problem.cell[4:]
        kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(problem.cell, torch.nn.RNN)
        self.torch, self.training = torch, problem.training
        self.net = kind(problem.I, problem.H, **options)
        count = sum(parameter.numel() for parameter in self.net.parameters())
        inputs, dy, block = (torch.from_numpy(part) for part in problem.split(count))
        self.x = [x.clone().requires_grad_(problem.training) for x in inputs]
        self.dy, self.sets, at = dy, len(self.x), 0
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.copy_(block[at:at + parameter.numel()].view_as(parameter))
                at += parameter.numel()

    def run(self, k):
        x = self.x[k]
        if not self.training:
            with self.torch.inference_mode():
                self.y = self.net(x)[0]
            return
        x.grad = None
        self.net.zero_grad(set_to_none=True)
        self.y = self.net(x)[0]
        self.y.backward(self.dy)

    def results(self):
        return [self.y.detach().numpy()] + ([self.x[0].grad.numpy()] if self.training else [])


PEERS = {"ort": Onnxruntime, "torch": Torch}


class Server:
    """The state between commands: the problem that was prepared last."""

    def __init__(self, peer):
        self.peer, self.net, self.path, self.next = peer, None, None, 0

    def prepare(self, way, threads, device, path, problem):
        del way, device
        global np
        import numpy as np  # its absence is an answer, not the end of this process

        self.path, self.next = path, 0
        problem = Problem(problem, path)
        if self.peer.refuses(problem):
            return "no does not support this cell, or not this mode"
        self.net = self.peer(problem, int(threads))
        return f"ready 0 0 0 {self.peer.name()}"

    def run(self, repeats):
        start = time.perf_counter()
        for _ in range(int(repeats)):
            self.next = (self.next + 1) % self.net.sets
            self.net.run(self.next)
        seconds = (time.perf_counter() - start) / int(repeats)
        return f"seconds {seconds!r} {seconds!r}"

    def results(self):
        self.net.run(0)
        with open(self.path, "wb") as file:
            for array in self.net.results():
                file.write(np.ascontiguousarray(array).tobytes())
        return "ready 0 0 0"

    def free(self):
        self.net = None
        return "ready 0 0 0"


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in PEERS:
        sys.exit(__doc__)
    # If the parent binds its threads, a child inherits the affinity of the first one.
    if "OMP_PROC_BIND" in os.environ:
        os.sched_setaffinity(0, range(os.cpu_count()))
    server = Server(PEERS[sys.argv[1]])
    for line in sys.stdin:
        command, *words = line.split()
        try:
            answer = getattr(server, command)(*words)
        except ImportError as error:
            answer = (f"no needs {server.peer.needs}, but {sys.executable} says: {error}; "
                      "put a python3 that has them first in PATH").replace("\n", " ")[:900]
        except (OSError, RuntimeError, ValueError) as error:
            answer = f"no failed: {type(error).__name__}: {error}".replace("\n", " ")[:500]
        print(answer, flush=True)


if __name__ == "__main__":
    main()
