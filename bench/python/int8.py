"""Inference in int8 on a CPU: ecornn.Layer, ONNX Runtime and PyTorch's quantised layers, in one process.

    python int8.py [--threads K] [PROBLEM...]

PROBLEM is like LSTM/T100/N1/H512, with I = H; without one the grid of LSTM and GRU, H 128 to 1024, N 1, 4, 32,
T 1 and 100.  All take the same weights and x, in turns; the columns are microseconds of a call, the median of
the ratios of rounds (the faster peer over ours), the share of the bandwidth at which this machine reads as many
bytes as a step's weights have, and the errors of y, compared with double: root mean squares, then the largest.
ONNX Runtime has no GRU in int8.  Needs onnx, onnxruntime and torch.
"""
import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings

SAMPLES, SECONDS = 15, 0.02
COLUMNS = "problem,ecornn us,onnxruntime us,torch us,ratio,bandwidth," \
    "rms error,onnxruntime rms,torch rms,largest error,onnxruntime largest,torch largest"


def read(problem):
    kind, *parts = problem.split("/")
    size = {part[:1]: int(part[1:]) for part in parts if part[1:].isdigit()}
    if kind not in ("LSTM", "GRU") or sorted(size) != ["H", "N", "T"]:
        sys.exit(f"{problem}: must be like LSTM/T100/N1/H512")
    return kind, size["T"], size["N"], size["H"]


def of_onnxruntime(kind, module, x, threads):
    """A call of DynamicQuantizeLSTM; None for a GRU."""
    import numpy
    import onnx
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def gates(array):  # torch: i f g o; onnx: i o f c
        i, f, g, o = numpy.split(array.detach().numpy(), 4)
        return numpy.concatenate([i, o, f, g])[None]
    if kind != "LSTM":
        return None
    H = module.hidden_size
    arrays = {"W": gates(module.weight_ih_l0), "R": gates(module.weight_hh_l0),
              "B": numpy.concatenate([gates(module.bias_ih_l0), gates(module.bias_hh_l0)], 1)}
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("LSTM", ["x", "W", "R", "B"], ["y"], hidden_size=H)], "net",
        [helper.make_tensor_value_info("x", real, x.shape)],
        [helper.make_tensor_value_info("y", real, (x.shape[0], 1, x.shape[1], H))],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        from_path, to_path = os.path.join(folder, "f32.onnx"), os.path.join(folder, "int8.onnx")
        onnx.save(model, from_path)
        quantize_dynamic(from_path, to_path, per_channel=True, weight_type=QuantType.QInt8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(to_path, options, providers=["CPUExecutionProvider"])
    array = x.numpy()
    return lambda: session.run(None, {"x": array})[0][:, 0]


def of_torch(kind, module, x):
    """A call of torch.ao.nn.quantized.dynamic."""
    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(
            torch.nn.Sequential(module), {type(module)}, dtype=torch.qint8)[0]

    def call():
        with torch.inference_mode():
            return quantised(x)[0]
    return call


def of_ecornn(kind, module, x, threads):
    import ecornn
    layer = ecornn.Layer(kind.lower(), x.shape[2], module.hidden_size, device=f"cpu:{threads}",
                         weights="int8")
    layer.load("torch", {name: array.detach().numpy() for name, array in module.named_parameters()})
    layer.freeze_weights()
    array = x.numpy()
    return lambda: layer(array)[0]


def seconds_of(call):
    """Of one call, over SECONDS."""
    start, times = time.perf_counter(), 0
    while True:
        call()
        times += 1
        passed = time.perf_counter() - start
        if passed > SECONDS:
            return passed / times


def bandwidth(size):
    """Bytes a second at which the C library's memchr reads `size` bytes again and again."""
    zeros = bytes(size)
    return size / min(seconds_of(lambda: zeros.find(b"\1")) for _ in range(5))


def measure(problem, threads):
    import numpy
    import torch
    kind, T, N, H = read(problem)
    torch.manual_seed(0)
    module, x = getattr(torch.nn, kind)(H, H), torch.randn(T, N, H)
    calls = {"ecornn": of_ecornn(kind, module, x, threads),
             "onnxruntime": of_onnxruntime(kind, module, x, threads), "torch": of_torch(kind, module, x)}
    calls = {name: call for name, call in calls.items() if call}
    with torch.no_grad():
        exact = module.double()(x.double())[0].numpy()
    off = {name: numpy.abs(numpy.asarray(call()) - exact) for name, call in calls.items()}
    rms = {name: numpy.sqrt((error**2).mean()) for name, error in off.items()}
    largest = {name: error.max() for name, error in off.items()}
    rounds = [{name: seconds_of(call) for name, call in calls.items()} for _ in range(SAMPLES)]
    median = {name: statistics.median(each[name] for each in rounds) for name in calls}
    ratio = statistics.median(min(t for name, t in each.items() if name != "ecornn") / each["ecornn"]
                              for each in rounds)
    matrix = H * H * (4 if kind == "LSTM" else 3)
    share = (T + 1) * matrix / median["ecornn"] / bandwidth(matrix * (2 if T == 1 else 1)) / threads

    def column(of, form):
        return [format(of[name], form) if name in of else "" for name in ("onnxruntime", "torch")]
    times = {name: 1e6 * t for name, t in median.items()}
    print(",".join([problem, f"{times['ecornn']:.1f}", *column(times, ".1f"), f"{ratio:.2f}", f"{share:.2f}",
                    *(word for error in (rms, largest)
                      for word in (f"{error['ecornn']:.3g}", *column(error, ".3g")))]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("problem", nargs="*")
    chosen = parser.parse_args()
    import torch
    logging.disable(logging.WARNING)  # ONNX Runtime's advice to prepare a model
    torch.set_num_threads(chosen.threads)
    print(COLUMNS)
    for problem in chosen.problem or [f"{kind}/T{T}/N{N}/H{H}" for kind in ("LSTM", "GRU") for T in (1, 100)
                                      for N in (1, 4, 32) for H in (128, 256, 512, 1024)]:
        measure(problem, chosen.threads)


if __name__ == "__main__":
    main()
