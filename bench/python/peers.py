#!/usr/bin/env python3
"""ecornn beside ONNX Runtime and PyTorch, those of them that this Python has, in one process.

Both sides take turns; the ratio is the median of the ratios of single rounds, over 1 where ecornn
is faster, quartiles in brackets.  Weights are packed, and sessions made, before; training counts
ecornn's packing and unpacking.  Problems are strings of bench, @LIST those of bench/shapes.txt.
"""
import argparse
import ctypes
import os
import statistics
import sys
import time

import numpy as np

ROUND_SECONDS = 0.05  # at least, of runs of one side
ROUNDS_MIN = 5
SETTLE_SECONDS = 0.2  # until threads of the other side have stopped to spin: many milliseconds
PLACES = sorted(os.sched_getaffinity(0))  # a thread stays on its processor, on every side
TOLERANCE = 1e-3  # largest difference over largest value


# ---- ecornn ---------------------------------------------------------------------------------------

ECORNN_ALL = -1
POINTER, SIZE, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32


class Sizes(ctypes.Structure):
    _fields_ = [(name, SIZE) for name in
                ("params", "weights", "dweights", "workspace", "reserve", "alignment")]


class Param(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 48), ("offset", SIZE), ("rows", INT), ("cols", INT)]


class Io(ctypes.Structure):
    _fields_ = [("size", SIZE), ("steps", INT), ("batch", INT), ("lengths", POINTER),
                ("x", POINTER), ("y", POINTER), ("initial", POINTER * 4), ("final", POINTER * 4),
                ("weights", POINTER), ("workspace", POINTER), ("reserve", POINTER),
                ("seed", ctypes.c_uint64), ("stream", POINTER), ("workspace_bytes", SIZE),
                ("reserve_bytes", SIZE), ("resets", POINTER), ("reset_state", POINTER * 4),
                ("mask", POINTER), ("states", POINTER * 4), ("first_step", ctypes.c_uint32),
                ("first_row", ctypes.c_uint32)]


class Gradient(ctypes.Structure):
    _fields_ = [("size", SIZE), ("dy", POINTER), ("dfinal", POINTER * 4), ("dx", POINTER),
                ("dinitial", POINTER * 4), ("dweights", POINTER), ("accumulate", INT),
                ("dreset_state", POINTER * 4), ("dstates", POINTER * 4)]


class Problem:
    """What the string says, as far as the others need it."""

    def __init__(self, text):
        parts = text.split("/")
        self.text, self.cell = text, parts[0]
        self.training, self.directions, self.layers = "train" in parts, 1 + ("bi" in parts), 1
        for part in parts[1:]:
            if part[0] in "TNIHL" and part[1:].isdigit():
                setattr(self, {"L": "layers"}.get(part[0], part[0]), int(part[1:]))
            elif part not in ("infer", "train", "bi", "f32"):
                raise ValueError(f"{text}: {part} is not for this comparison")
        random = np.random.default_rng(1)
        shape = (self.T, self.N, self.directions * self.H)
        self.x = random.uniform(-1, 1, (self.T, self.N, self.I)).astype(np.float32)
        self.dy = random.uniform(-1, 1, shape).astype(np.float32)
        self.y, self.dx = np.zeros(shape, np.float32), np.zeros_like(self.x)


class Ours:
    name = "ecornn"

    def __init__(self, library, problem, threads):
        self.library, self.problem = library, problem
        self.device, self.plan, desc = POINTER(), POINTER(), ctypes.create_string_buffer(1024)
        self.check(library.ecornn_desc_parse(desc, problem.text.encode(), None))
        self.check(library.ecornn_device_open(ctypes.byref(self.device), b"cpu:%d" % threads))
        self.check(library.ecornn_plan_create(ctypes.byref(self.plan), self.device, desc))
        self.sizes = Sizes()
        library.ecornn_plan_sizes(self.plan, ctypes.byref(self.sizes))
        self.params = np.random.default_rng(2).uniform(
            -1, 1, self.sizes.params).astype(np.float32) / np.float32(problem.H ** 0.5)
        self.dparams = np.zeros_like(self.params)
        self.blocks = {name: POINTER(library.ecornn_alloc(self.device, max(bytes, 1)))
                       for name, bytes in ((n, getattr(self.sizes, n)) for n, _ in Sizes._fields_)}
        self.pointers = self.addresses(self.params)
        self.dpointers = self.addresses(self.dparams)
        data = lambda array: array.ctypes.data
        self.io = Io(size=ctypes.sizeof(Io), steps=ECORNN_ALL, batch=ECORNN_ALL, x=data(problem.x), y=data(problem.y),
                     weights=self.blocks["weights"], workspace=self.blocks["workspace"],
                     reserve=self.blocks["reserve"] if problem.training else None)
        self.gradient = Gradient(size=ctypes.sizeof(Gradient), dy=data(problem.dy),
                                 dx=data(problem.dx), dweights=self.blocks["dweights"])
        self.pack()

    def check(self, status):
        if status:
            raise RuntimeError(self.library.ecornn_error_detail().decode())

    def addresses(self, block):
        count, param = self.library.ecornn_param_count(self.plan), Param()
        table = (POINTER * count)()
        for k in range(count):
            self.check(self.library.ecornn_param_get(self.plan, k, ctypes.byref(param)))
            table[k] = block.ctypes.data + 4 * param.offset
        return table

    def exported(self, system):
        elements = SIZE()
        self.check(self.library.ecornn_import_size(self.plan, system, ctypes.byref(elements)))
        block = np.zeros(elements.value, np.float32)
        self.check(self.library.ecornn_export(self.plan, system, POINTER(self.params.ctypes.data),
                                              POINTER(block.ctypes.data), 0, elements))
        return block

    def pack(self):
        self.check(self.library.ecornn_pack(self.plan, self.pointers, self.blocks["weights"], None))

    def run(self):
        library = self.library
        if not self.problem.training:
            self.check(library.ecornn_forward(self.plan, ctypes.byref(self.io)))
            return
        self.pack()
        self.check(library.ecornn_forward(self.plan, ctypes.byref(self.io)))
        self.check(library.ecornn_backward(self.plan, ctypes.byref(self.io),
                                           ctypes.byref(self.gradient)))
        self.check(library.ecornn_unpack(self.plan, self.blocks["dweights"], self.dpointers, 0, None))

    def close(self):
        for block in self.blocks.values():
            self.library.ecornn_free(self.device, block)
        self.library.ecornn_plan_free(self.plan)
        self.library.ecornn_device_close(self.device)


def load(path):
    library = ctypes.CDLL(path)
    library.ecornn_error_detail.restype = ctypes.c_char_p
    library.ecornn_alloc.restype = POINTER
    library.ecornn_alloc.argtypes = [POINTER, SIZE]
    return library


# ---- the others: each has run(), result() and refuses(problem) ------------------------------------

GATES = {"lstm": 4, "lstm-peephole": 4, "gru": 3, "gru-reset-first": 3, "rnn-tanh": 1, "rnn-relu": 1}


class Onnxruntime:
    @staticmethod
    def name():
        import onnx
        import onnxruntime
        return onnxruntime and onnx and f"ONNX Runtime {onnxruntime.__version__}"

    @staticmethod
    def refuses(problem):
        return problem.training or problem.cell not in GATES

    def __init__(self, ours, problem, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        if 1 < threads <= len(PLACES):  # the caller is the first; the rest where OpenMP's are
            options.add_session_config_entry("session.intra_op_thread_affinities", ";".join(
                str(place + 1) for place in PLACES[1:threads]))
        self.session = ort.InferenceSession(self.model(ours.exported(b"onnx"), problem), options,
                                            providers=["CPUExecutionProvider"])
        self.y = np.zeros((problem.T, problem.N, problem.directions * problem.H), np.float32)
        self.binding = self.session.io_binding()
        for name, array, bind in (("x", problem.x, self.binding.bind_input),
                                  ("y", self.y, self.binding.bind_output)):
            bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)

    @staticmethod
    def model(block, problem):
        from onnx import TensorProto, helper, numpy_helper
        gates, directions, hidden = GATES[problem.cell], problem.directions, problem.H
        nodes, initializers, at, value = [], [], 0, "x"
        kind, extra = {"lstm": ("LSTM", {}), "lstm-peephole": ("LSTM", {}),
                       "gru": ("GRU", {"linear_before_reset": 1}),
                       "gru-reset-first": ("GRU", {})}.get(problem.cell, ("RNN", {}))
        if kind == "RNN":
            extra = {"activations": [problem.cell[4:].capitalize()] * directions}
        initializers.append(numpy_helper.from_array(
            np.array([problem.T, problem.N, -1], np.int64), "shape"))
        for layer in range(problem.layers):
            width = problem.I if layer == 0 else directions * hidden
            shapes = {"W": (directions, gates * hidden, width),
                      "R": (directions, gates * hidden, hidden),
                      "B": (directions, 2 * gates * hidden)}
            inputs = [value] + [f"{letter}{layer}" for letter in shapes]
            if problem.cell == "lstm-peephole":
                shapes["P"] = (directions, 3 * hidden)
                inputs += ["", "", "", f"P{layer}"]  # no lengths, no initial states
            for letter, shape in shapes.items():
                count = int(np.prod(shape))
                part = block[at:at + count].reshape(shape)
                initializers.append(numpy_helper.from_array(part, f"{letter}{layer}"))
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
        graph = helper.make_graph(
            nodes, "net", [info("x", TensorProto.FLOAT, [problem.T, problem.N, problem.I])],
            [info("y", TensorProto.FLOAT, [problem.T, problem.N, directions * hidden])],
            initializers)
        opset = helper.make_opsetid("", 14)
        return helper.make_model(graph, opset_imports=[opset],
                                 ir_version=8).SerializeToString()

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def results(self):
        return self.y, None


class Torch:
    @staticmethod
    def name():
        import torch
        return f"PyTorch {torch.__version__}"

    @staticmethod
    def refuses(problem):
        return problem.cell not in GATES or problem.cell in ("gru-reset-first", "lstm-peephole")

    def __init__(self, ours, problem, threads):
        import torch
        torch.set_num_threads(threads)
        options = {"num_layers": problem.layers, "bidirectional": problem.directions == 2}
        if problem.cell.startswith("rnn-"):
            options["nonlinearity"] = problem.cell[4:]
        kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(problem.cell, torch.nn.RNN)
        self.torch, self.training = torch, problem.training
        self.net = kind(problem.I, problem.H, **options)
        self.x, self.dy = torch.from_numpy(problem.x), torch.from_numpy(problem.dy)
        self.x.requires_grad_(problem.training)
        block, at = torch.from_numpy(ours.exported(b"torch")), 0
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.copy_(block[at:at + parameter.numel()].view_as(parameter))
                at += parameter.numel()

    def run(self):
        if not self.training:
            with self.torch.inference_mode():
                self.y = self.net(self.x)[0]
            return
        self.x.grad = None
        self.net.zero_grad(set_to_none=True)
        self.y = self.net(self.x)[0]
        self.y.backward(self.dy)

    def results(self):
        return self.y.detach().numpy(), self.x.grad.numpy() if self.training else None


PEERS = {"ort": Onnxruntime, "torch": Torch}


# ---- rounds ---------------------------------------------------------------------------------------

clock = time.perf_counter


def seconds_of(run, repeats):
    if clock == time.perf_counter:
        time.sleep(SETTLE_SECONDS)
    for _ in range(3 if repeats > 1 else 0):
        run()  # wakes the threads
    start = clock()
    for _ in range(repeats):
        run()
    return (clock() - start) / repeats


def difference(a, b):
    return 0 if b is None else float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-30))


def compare(ours, peer, problem, seconds):
    """Milliseconds of ours and theirs, quartiles of the ratio, largest difference."""
    ours.run(), peer.run()
    y, dx = peer.results()
    most = max(difference(problem.y, y), difference(problem.dx, dx))
    if not most <= TOLERANCE:
        raise RuntimeError(f"{problem.text}: differs by {most:g}, must be at most {TOLERANCE:g}")
    repeats = 1 + int(ROUND_SECONDS / max(seconds_of(ours.run, 1), 1e-6))
    mine, theirs = [], []
    while len(mine) < ROUNDS_MIN or (min(sum(mine), sum(theirs)) * repeats < seconds):
        order = [(mine, ours), (theirs, peer)][::1 if len(mine) % 2 else -1]
        for times, side in order:
            times.append(seconds_of(side.run, repeats))
    ratios = [b / a for a, b in zip(mine, theirs)]
    return (1e3 * statistics.median(mine), 1e3 * statistics.median(theirs),
            statistics.quantiles(ratios, n=4), most)


def problems(arguments, shapes):
    for argument in arguments:
        if not argument.startswith("@"):
            yield argument
            continue
        inside = False
        for line in open(shapes):
            line = line.split("#")[0].strip()
            if line.startswith("["):
                inside = line == f"[{argument[1:]}]"
            elif inside and line:
                yield line


def row(library, peer, text, threads, seconds):
    """False: this peer does not do it."""
    problem = Problem(text)
    if peer.refuses(problem):
        return False
    ours = Ours(library, problem, threads)
    result = compare(ours, peer(ours, problem, threads), problem, seconds)
    ours.close()
    mine, theirs, (low, middle, high), most = result
    print(f"| {text} | {threads} | {mine:.3f} | {theirs:.3f} | **{middle:.2f}** "
          f"[{low:.2f}, {high:.2f}] | {peer.name()} | {most:.0e} |", flush=True)
    return True


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default="libecornn.so", help="path of libecornn.so")
    parser.add_argument("--with", dest="peers", default="ort,torch", help="ort, torch or both")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--cpu", action="store_true",
                        help="CPU time, beside other work: one thread only")
    parser.add_argument("--seconds", type=float, default=1, help="of runs, each side")
    parser.add_argument("--no-head", action="store_true", help="of the table")
    parser.add_argument("problem", nargs="+")
    options = parser.parse_args()
    global clock
    if options.cpu:
        clock, options.threads = time.process_time, "1"
    os.environ.update(OMP_PROC_BIND="true", OMP_PLACES="cores")  # read when the runtime is loaded
    peers = []
    for name in options.peers.split(","):
        try:
            PEERS[name].name()  # before ours: one OpenMP runtime, the one that PyTorch brings
            peers.append(PEERS[name])
        except (ImportError, OSError) as error:
            print(f"peers: no {name}: {error}", file=sys.stderr)
    library = load(options.library)
    os.sched_setaffinity(0, PLACES[:1])
    if not options.no_head:
        print("| problem | threads | ecornn ms | theirs ms | ratio | who | largest difference |\n"
              "|---|---|---|---|---|---|---|")
    failed = not peers
    for text in problems(options.problem, os.path.join(here, "shapes.txt")):
        done = False
        for peer in peers:
            for threads in map(int, options.threads.split(",")):
                try:
                    done |= row(library, peer, text, threads, options.seconds)
                except (RuntimeError, ValueError) as error:
                    print(f"peers: {error}", file=sys.stderr)
                    done = failed = True
        if peers and not done:
            print(f"peers: {text}: none of them has it", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
