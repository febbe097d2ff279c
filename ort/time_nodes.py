"""Times nodes by turns with ONNX Runtime's own provider: time_nodes.py [WORD ...], cases whose names have a word, with
one thread, of the library that ECORNN_LIBRARY names.  A word that ends in .onnx is silero-vad's file: a frame of
it.  Least of 40 turns, each the median of many runs; the speed is theirs / ours."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).parent / "tests"))
import models  # noqa: E402


def recurrent(op, T, N, I, H, **attributes):
    arrays = models.draw(np.random.default_rng(0), op, T, N, I, H, 1, ["B", *models.STATES[op]])
    return models.node_model(op, arrays, **attributes), arrays


def attention(T, heads, width):
    arrays = models.draw_attention(np.random.default_rng(0), T, 1, heads, width)
    return models.attention_model(arrays, heads, "gated_delta"), arrays


def frame(path):
    """A frame of 32 ms of silero-vad 6, as its package gives it: with the 64 samples before."""
    rng = np.random.default_rng(0)
    arrays = {"input": rng.standard_normal((1, 576), np.float32) / 10, "state": np.zeros((2, 1, 128), np.float32),
              "sr": np.array(16000)}
    return onnx.load(path), arrays


CASES = {  # name: model and arrays, options of the plug-in, least speed
    "LSTM T1 N1 I512 H512, BF16 weights": (lambda: recurrent("LSTM", 1, 1, 512, 512), "bf16-weights", 2),
    "LSTM T1 N1 I512 H512, F32": (lambda: recurrent("LSTM", 1, 1, 512, 512), "f32", 0),
    "GRU T1 N1 I512 H512, int8": (lambda: recurrent("GRU", 1, 1, 512, 512), "int8", 3),
    "GRU T100 N1 I512 H512, int8": (lambda: recurrent("GRU", 100, 1, 512, 512), "int8", 3),
    "LSTM T100 N1 I512 H512, BF16 weights": (lambda: recurrent("LSTM", 100, 1, 512, 512), "bf16-weights", 2),
    "LinearAttention T512 N1 16 heads of 128": (lambda: attention(512, 16, 128), "f32", 2.5),
    "LinearAttention T1 N1 16 heads of 128": (lambda: attention(1, 16, 128), "f32", 2.5),
    "LSTM T100 N16 I256 H256, F32": (lambda: recurrent("LSTM", 100, 16, 256, 256), "f32", 0),
}


def bound(session, arrays):
    binding = session.io_binding()
    for each in session.get_inputs():
        binding.bind_cpu_input(each.name, arrays[each.name])
    for each in session.get_outputs():
        binding.bind_output(each.name)
    return lambda: session.run_with_iobinding(binding)


def median(run, seconds=0.05):
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def main():
    if not os.path.exists(os.environ.get("ECORNN_LIBRARY", "")):
        sys.exit("time_nodes.py needs ECORNN_LIBRARY, the path of libecornn.so: .libs/libecornn.so in the build folder")
    onnxruntime.register_execution_provider_library("ecornn", models.plugin())
    print(f"ONNX Runtime {onnxruntime.__version__}, one thread")
    words = sys.argv[1:]
    cases = {name: case for name, case in CASES.items() if not words or any(word in name for word in words)}
    for path in words:
        if path.endswith(".onnx"):
            cases |= {f"a frame of {Path(path).name}, {precision}": ((lambda path=path: frame(path)), precision, 1 / 0.85)
                      for precision in ("f32", "int8")}
    for name, (make, precision, least) in cases.items():
        model, arrays = make()
        runs = [bound(models.own(model, False, precision=precision), arrays), bound(models.theirs(model), arrays)]
        for run in runs:
            median(run)
        ours, others = (min(times) for times in zip(*[[median(run) for run in runs] for _ in range(40)]))
        print(f"{name}: {ours * 1e6:.1f} us, theirs {others * 1e6:.1f} us, speed {others / ours:.2f}"
              + f", bar {least:.3g}" * (least > 0), flush=True)


main()
