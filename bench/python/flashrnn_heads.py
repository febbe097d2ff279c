#!/usr/bin/env python3
"""An sLSTM of some heads beside FlashRNN, which compiles its kernels for the sizes first (minutes).

FlashRNN is given what W x gives, and runs the recurrence alone; ecornn's time has the product with W
in it, forward and back.  Both take turns, eager; microseconds a step, medians of rounds, largest less
smallest in brackets.  No results are compared: the two start the stabiliser from other values.
"""
import argparse
import importlib.util
import sys

import torch

import ecornn.torch as et
from turns import time_in_turns

RUNS = 5  # of a side, in each round


def sides_of(args, heads, backend):
    from flashrnn import flashrnn

    units, gates = args.hidden // heads, 4
    make = dict(device="cuda", dtype=torch.bfloat16)
    wx = torch.randn(args.batch, args.steps, gates, heads, units, requires_grad=True, **make)
    r = (torch.randn(gates, heads, units, units, **make) / units ** 0.5).requires_grad_()
    b = torch.zeros(gates, heads, units, requires_grad=True, **make)
    ours = et.Recurrent(args.hidden, args.hidden, cell="slstm", heads=heads, **make)
    x = torch.randn(args.steps, args.batch, args.hidden, requires_grad=True, **make)

    def theirs_forward():
        return flashrnn(wx, r, b, function="slstm", backend=backend)[0][0]

    def ours_forward():
        return ours(x)[0]

    def inference(run):
        def call():
            with torch.no_grad():
                return run()
        return call

    def training(run, inputs):
        dy = torch.randn_like(run())
        return lambda: torch.autograd.grad(run(), inputs, dy)

    return {f"{backend} forward": inference(theirs_forward),
            "ecornn forward": inference(ours_forward),
            f"{backend} training": training(theirs_forward, [wx, r, b]),
            "ecornn training": training(ours_forward, [x, *ours.parameters()])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, nargs="+", default=[4, 1])
    parser.add_argument("--backends", nargs="+", default=["cuda_fused", "cuda"])
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("needs a GPU that torch sees")
    if importlib.util.find_spec("flashrnn") is None:
        sys.exit("needs the package flashrnn")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for heads in args.heads:
        for backend in args.backends:
            try:
                found = time_in_turns(sides_of(args, heads, backend), RUNS)
            except (RuntimeError, OSError, ValueError, AssertionError) as error:  # it does not build here
                print(f"heads {heads}, {backend}: {str(error)[-300:]}", flush=True)
                continue
            print(f"slstm/bf16/T{args.steps}/N{args.batch}/I{args.hidden}/H{args.hidden}/heads:{heads}, us a step: "
                  + ", ".join(f"{name} {median / args.steps:.2f} ({spread / args.steps:.2f})"
                              for name, (median, spread) in found.items()), flush=True)


if __name__ == "__main__":
    main()
