#!/usr/bin/python3
"""Writes torch.txt beside this script: blocks of parameters as torch.nn has them, and what it
computes from them, in double.

For each case four lines: `case PROBLEM`, `block ...` (module.parameters() one after the other),
`x ...` [T,N,I] and `y ...` [T,N,D*P], from initial states of 0.
Run with Debian's python3-torch:  /usr/bin/python3 make_torch.py
"""
import os
import torch

T, N, I, H, L = 3, 1, 3, 2, 2
CASES = [
    ("rnn-tanh", lambda **k: torch.nn.RNN(nonlinearity="tanh", **k), 0),
    ("rnn-relu", lambda **k: torch.nn.RNN(nonlinearity="relu", **k), 0),
    ("gru", torch.nn.GRU, 0),
    ("lstm", torch.nn.LSTM, 0),
    ("lstm", torch.nn.LSTM, 1),
]


def numbers(*extents):
    """Random numbers in [-1, 1) with few digits, to keep the file small."""
    return torch.randint(-32, 32, extents).double() / 32


def write(file, name, tensors, form):
    values = [form(float(v)) for tensor in tensors for v in tensor.detach().flatten()]
    print(name, *values, file=file)


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch.txt"), "w") as out:
    torch.manual_seed(1)
    for cell, kind, proj in CASES:
        options = {"proj_size": proj} if proj else {}
        net = kind(input_size=I, hidden_size=H, num_layers=L, bidirectional=True, **options)
        net = net.double()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(numbers(*parameter.shape))
        x = numbers(T, N, I)
        end = f"/P{proj}" if proj else ""
        print(f"case {cell}/f64/L{L}/bi/T{T}/N{N}/I{I}/H{H}{end}", file=out)
        write(out, "block", net.parameters(), lambda v: f"{v:g}")
        write(out, "x", [x], lambda v: f"{v:g}")
        write(out, "y", [net(x)[0]], float.hex)
