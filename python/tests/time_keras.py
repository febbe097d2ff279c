"""Training steps of layers of Keras on torch: Keras's own, ecornn.keras, and ecornn.torch.

    python time_keras.py [--device cpu] [--threads 1] [--rounds 30] [--steps 64] [--batch 32] [--input 64]
                         [--hidden 128]

A step is forward, backward and an update of the weights in place.  Milliseconds, medians of
alternating steps, and their quotients.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time

os.environ["KERAS_BACKEND"] = "torch"


def step_of(layer, x):
    """A training step of a layer of Keras or of ecornn.torch; it returns when the device is done."""
    import torch

    of_keras = hasattr(layer, "trainable_weights")
    layer(x)  # builds it
    weights = [each.value for each in layer.trainable_weights] if of_keras else list(layer.parameters())

    def step():
        y = layer(x, training=True) if of_keras else layer(x)[0]
        (y * y).sum().backward()
        with torch.no_grad():
            for weight in weights:
                weight -= 1e-6 * weight.grad
                weight.grad = None
        x.grad = None
        if x.is_cuda:
            torch.cuda.synchronize()

    return step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    for name, value in (("threads", 1), ("rounds", 30), ("steps", 64), ("batch", 32), ("input", 64),
                        ("hidden", 128)):
        parser.add_argument(f"--{name}", type=int, default=value)
    of = parser.parse_args()
    import keras
    import torch

    import ecornn.keras
    import ecornn.torch

    torch.set_num_threads(of.threads)
    keras.device(of.device).__enter__()  # for the whole program
    print(f"T {of.steps} N {of.batch} I {of.input} H {of.hidden}, {of.device}, {of.threads} threads, Keras {keras.__version__}, "
          f"torch {torch.__version__}")
    for kind in ("LSTM", "GRU"):
        x = torch.randn(of.batch, of.steps, of.input, device=of.device, requires_grad=True)
        steps = [step_of(layer, x) for layer in (
            getattr(keras.layers, kind)(of.hidden, return_sequences=True),
            getattr(ecornn.keras, kind)(of.hidden, return_sequences=True),
            getattr(ecornn.torch, kind)(of.input, of.hidden, batch_first=True).to(of.device))]
        times: list[list[float]] = [[] for _ in steps]
        # In every order by turns: a step after Keras's own finds other data in the caches.
        for order in itertools.islice(itertools.cycle(itertools.permutations(range(3))), of.rounds):
            for k in order:
                start = time.perf_counter()
                steps[k]()
                times[k].append(1e3 * (time.perf_counter() - start))
        own, ours, torchs = (statistics.median(found[2:]) for found in times)
        print(f"{kind:5} Keras {own:.2f}, ecornn.keras {ours:.2f}, ecornn.torch {torchs:.2f} ms: "
              f"{ours / own:.3f} of Keras's, {ours / torchs:.3f} of ecornn.torch's")


if __name__ == "__main__":
    main()
