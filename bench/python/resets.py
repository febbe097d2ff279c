#!/usr/bin/env python3
"""A recurrent layer with resets: one run of ecornn beside cuDNN over the sequence cut into pieces.

cuDNN knows no resets, so frameworks of reinforcement learning cut the sequence before each step at
which any row begins anew, and run the pieces one after the other, each with its states zeroed where
they are to be.  Three sides take turns, forward and backward: torch's module with cuts, torch's
module without any reset, and ecornn's with resets; eager, and from a CUDA graph each.  Microseconds,
medians of rounds, largest less smallest in brackets; gradients are compared before.  Where the cuts
are is known before the clock starts.
"""
import argparse
import sys

import torch

import ecornn.torch as et
from turns import time_in_turns

KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}
RUNS = 20  # of a side, in each round


def tuple_of(states):
    return states if isinstance(states, tuple) else (states,)


def cut_run(layer, x, pieces, keep):
    """pieces: the steps at which one begins; keep: [T,N,1], 0 where a row begins anew."""
    states, outs = None, []
    for begin, end in zip(pieces, pieces[1:]):
        if states is not None:
            states = tuple(state * keep[begin] for state in states)
        out, states = layer(x[begin:end], states if states is None or len(states) > 1 else states[0])
        states = tuple_of(states)
        outs.append(out)
    return torch.cat(outs)


def graph_of(run):
    """run, recorded after it ran beside."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def compare(args, steps, percent):
    torch.manual_seed(steps)
    dtype = torch.bfloat16 if args.type == "bf16" else torch.float32
    theirs = getattr(torch.nn, KINDS[args.cell])(args.input, args.hidden, device="cuda", dtype=dtype)
    ours = getattr(et, KINDS[args.cell])(args.input, args.hidden, device="cuda", dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(steps, args.batch, args.input, device="cuda", dtype=dtype, requires_grad=True)
    dy = torch.randn(steps, args.batch, args.hidden, device="cuda", dtype=dtype)
    resets = torch.rand(steps, args.batch, device="cuda") < percent / 100
    resets[0] = False
    keep = (~resets)[..., None].to(dtype)
    pieces = [0] + [t for t in range(1, steps) if resets[t].any()] + [steps]

    def backward(layer, y):
        return torch.autograd.grad(y, [x, *layer.parameters()], dy)

    sides = {"cut": lambda: backward(theirs, cut_run(theirs, x, pieces, keep)),
             "plain": lambda: backward(theirs, theirs(x)[0]),
             "ecornn": lambda: backward(ours, ours(x, resets=resets)[0])}
    for mine, other in zip(sides["ecornn"](), sides["cut"]()):
        error = ((mine - other).abs().max() / other.abs().max()).item()
        assert error < args.tolerance, f"gradients differ by {error}"
    for how, wrap in (("eager", lambda run: run), ("graph", graph_of)):
        found = time_in_turns({name: wrap(run) for name, run in sides.items()}, RUNS)
        ratio = found["cut"][0] / found["ecornn"][0]
        row = ", ".join(f"{name} {median:.0f} ({spread:.0f})" for name, (median, spread) in found.items())
        print(f"{args.cell}/{args.type}/train/T{steps}/N{args.batch}/I{args.input}/H{args.hidden} resets "
              f"{percent:g} %, {len(pieces) - 1} pieces, {how}: {row}; {ratio:.2f} times", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cell", choices=KINDS, default="gru")
    parser.add_argument("--type", choices=["f32", "bf16"], default="f32",
                        help="f32: torch's permission for TF32 is given, which is ecornn's fast")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--input", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--percent", type=float, nargs="+", default=[3])
    parser.add_argument("--tolerance", type=float, default=0.02, help="of the largest gradient")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("needs a GPU that torch sees")
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = True
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    for steps in args.steps:
        for percent in args.percent:
            compare(args, steps, percent)


if __name__ == "__main__":
    main()
