"""The operator in ONNX: nodes LSTM, GRU and RNN, for ``torch.onnx.export(..., dynamo=True)``.

_op.py imports this file once torch's exporter has loaded its own functions, which this adds to.
"""

from collections.abc import Sequence
from typing import Optional

import numpy
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.registration import torch_op
from onnxscript.onnx_types import TensorType

from ._operators import lacks
from ._spec import words_of

# ONNX's node, its order of torch's gates, attributes.
_NODES = {"lstm": ("LSTM", (0, 3, 1, 2), {}), "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
          "rnn-tanh": ("RNN", (0,), {"activations": ["Tanh"]}),
          "rnn-relu": ("RNN", (0,), {"activations": ["Relu"]})}


def _ordered(tensor, gates, hidden: int):
    """A weight or bias of torch [gates*H,*] with its gates in ONNX's order."""
    rows = numpy.concatenate([numpy.arange(g * hidden, (g + 1) * hidden) for g in gates])
    return op.Gather(tensor, op.Constant(value_ints=rows.tolist()), axis=0)


def _stacked(parts):
    """[D,*] of a tensor for each direction."""
    parts = [op.Unsqueeze(part, op.Constant(value_ints=[0])) for part in parts]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)


@torch_op("ecornn::layer", trace_only=True)
def ecornn_layer(
        x: TensorType, lengths: Optional[TensorType], states: Optional[Sequence[TensorType]],
        weights: Sequence[TensorType], resets: Optional[TensorType],
        starts: Optional[Sequence[TensorType]], mask: Optional[TensorType], cell: str,
        problem: str, training: str, dropout: float, drop: bool, seed: Optional[TensorType], keep: bool):
    spec, batch_major, flags = words_of(cell, problem, training, dropout, len(weights))
    why = lacks(spec, resets, mask, flags, drop) or "proj_size" * (spec.proj > 0)
    if why:
        raise NotImplementedError(f"ecornn: ONNX has no node for {why}")
    (node, gates, more), hidden, layers = _NODES[spec.cell], spec.hidden, spec.layers
    bias, pairs, each = spec.bias, spec.directions, len(spec.names)
    if pairs == 2:
        more = {name: value * 2 if name == "activations" else value for name, value in more.items()}
    count, final = 2 if node == "LSTM" else 1, []
    rows = op.Transpose(x, perm=[1, 0, 2]) if batch_major else x
    for layer in range(layers):
        first = layer * pairs
        own = [weights[(first + d) * each:(first + d + 1) * each] for d in range(pairs)]
        w, r, *both = ([_ordered(tensors[k], gates, hidden) for tensors in own] for k in range(each))
        b = _stacked([op.Concat(*pair, axis=0) for pair in zip(*both)]) if bias else None
        began = [op.Slice(state, op.Constant(value_ints=[first]),
                          op.Constant(value_ints=[first + pairs]),
                          op.Constant(value_ints=[0])) for state in states or ()]
        y, *last = getattr(op, node)(
            rows, _stacked(w), _stacked(r), b, lengths, *(began or [None] * count),
            hidden_size=hidden, direction="bidirectional" if pairs == 2 else "forward", **more)
        final.append(last)
        # [T,D,N,H] to [T,N,D*H]
        rows = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]),
                          op.Constant(value_ints=[0, 0, pairs * hidden]))
    y = op.Transpose(rows, perm=[1, 0, 2]) if batch_major else rows
    lasts = [op.Identity(of[0]) if layers == 1 else op.Concat(*of, axis=0) for of in zip(*final)]
    return (y, *lasts, *[op.Constant(value_ints=[0])] * 2)  # nothing is kept
