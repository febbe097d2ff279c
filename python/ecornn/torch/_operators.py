"""torch.nn's layers from torch's elementary operators, one step at a time, nothing in place.

Slow, but every transform of torch.func, vmap and forward-mode differentiation work on it, nested to
any depth.  They do not work on torch's own layers: its LSTM in Python gives states a dimension too
many, and its GRU and RNN in C++ write in place to tensors that vmap has not batched.
"""

from __future__ import annotations

import torch
from torch.nn.functional import dropout as drop_out
from torch.nn.functional import linear

from .. import _library as lib
from ._packing import Packing
from ._spec import Layers, Spec


def _lstm(a, states, weights):
    h, c = states
    i, f, g, o = (a + linear(h, *weights["hh"])).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (h if weights["hr"] is None else linear(h, weights["hr"])), c


def _gru(a, states, weights):
    h, = states
    xr, xz, xn = a.chunk(3, -1)
    hr, hz, hn = linear(h, *weights["hh"]).chunk(3, -1)
    n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
    return n + torch.sigmoid(xz + hz) * (h - n),


def _tanh(a, states, weights):
    return torch.tanh(a + linear(states[0], *weights["hh"])),


def _relu(a, states, weights):
    return torch.relu(a + linear(states[0], *weights["hh"])),


_STEPS = {"lstm": _lstm, "gru": _gru, "rnn-tanh": _tanh, "rnn-relu": _relu}


def _direction(cell: str, x, states, weights, inside, reverse: bool):
    """y [T,N,P] and the final states of one layer and direction; inside: [T,N,1], or None."""
    a = linear(x, *weights["ih"])
    rows = [None] * x.shape[0]
    for t in reversed(range(len(rows))) if reverse else range(len(rows)):
        found = _STEPS[cell](a[t], states, weights)
        rows[t] = found[0]
        if inside is not None:
            rows[t] = torch.where(inside[t], found[0], found[0].new_zeros(()))
            found = [torch.where(inside[t], new, old) for new, old in zip(found, states)]
        states = found
    return torch.stack(rows), states


def _pairs(weights, bias: bool, pairs: int):
    """The weights of each layer and direction, by name."""
    each = len(weights) // pairs
    for first in range(0, len(weights), each):
        own = weights[first:first + each]
        yield {"ih": (own[0], own[2] if bias else None), "hh": (own[1], own[3] if bias else None),
               "hr": own[-1] if each % 2 else None}


def layers(of: Layers, x, states, weights, lengths=None):
    """y [T,N,D*P] and the final states [L*D,N,*] from x [T,N,I] and the initial states; weights:
    flat, in torch.nn's order; lengths: [N], or None: y is 0 past them."""
    inside = None
    if lengths is not None:
        steps = torch.arange(x.shape[0], device=x.device)
        inside = (steps[:, None] < lengths)[..., None]
    directions = 2 if of.bidirectional else 1
    final, each = [], list(_pairs(weights, of.bias, of.layers * directions))
    for layer in range(of.layers):
        out = []
        for direction in range(directions):
            pair = layer * directions + direction
            y, last = _direction(of.cell, x, tuple(state[pair] for state in states), each[pair],
                                 inside, direction == 1)
            out.append(y)
            final.append(last)
        x = torch.cat(out, -1) if directions == 2 else out[0]
        if of.dropout > 0 and layer + 1 < of.layers:
            x = drop_out(x, of.dropout)
    return (x, *map(torch.stack, zip(*final)))


def lacks(spec: Spec, resets, mask, flags: int, drop: bool = False) -> str | None:
    """What of a run torch's layers do not have, or None; drop: with dropout."""
    if not spec.torch:
        return f"the cell {spec.cell.split('(')[0].split()[-1]}"
    for name, found in (("heads", spec.heads > 1), ("models", spec.models is not None),
                        ("resets", resets is not None), ("mask", mask is not None), ("dropout", drop),
                        ("all_states", flags & lib.ALL_STATES), ("repeat_padding", flags & lib.REPEAT_PADDING)):
        if found:
            return name
    return None


def run(spec: Spec, given, batch_first: bool = False, dropout: float = 0.0):
    """layers for a module's arguments: x, [T,N,I], [N,T,I], or packed rows [sum of lengths,I]; lengths, or
    then a Packing; states, None each for zeros; weights."""
    x, lengths, states, weights = given
    packing = lengths if isinstance(lengths, Packing) else None
    if packing is not None:
        x, lengths = packing.pad(x), packing.lengths
    elif batch_first:
        x = x.transpose(0, 1)
    states = [x.new_zeros(shape) if state is None else state
              for state, shape in zip(states, spec.state_shapes(x.shape[1]))]
    y, *final = layers(spec.of._replace(dropout=dropout), x, states, weights, lengths)
    if packing is not None:
        y = packing.pack(y)
    elif batch_first:
        y = y.transpose(0, 1)
    return (y, *final)
