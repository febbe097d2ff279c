"""The operator of layers as torch's elementary operators, for exporters that know core ATen only."""

from __future__ import annotations

import torch

from .._errors import Unsupported
from . import _operators
from ._spec import words_of


def _layer(x, lengths, states, weights, *rest):
    resets, _, mask, *words, drop, _, _ = rest
    spec, batch_major, flags = words_of(*words, len(weights))
    why = _operators.lacks(spec, resets, mask, flags, drop)
    if why is not None:
        raise Unsupported(f"core ATen has no layer with {why}: ecornn.torch.decompositions takes LSTM, GRU and RNN, in "
                          "inference, with states and lengths")
    if not isinstance(x.shape[1 if batch_major else 0], int):
        raise Unsupported("T is dynamic, must be fixed: core ATen has no loop over steps")
    weights = [weight.to(x.dtype) for weight in weights]
    found = _operators.run(spec, (x, lengths, states or [None] * spec.states, weights), batch_major)
    return [*found, *(x.new_empty(0, dtype=torch.uint8) for _ in range(2))]  # reserve and packed


def decompositions() -> dict:
    """torch.export's table of decompositions with ecornn's layers in it:
    ``torch.export.export(...).run_decompositions(ecornn.torch.decompositions())`` gives core ATen.

    T must be fixed, N need not be.  Raises Unsupported with the name of what core ATen lacks.
    """
    table = getattr(torch.export, "default_decompositions", torch._decomp.core_aten_decompositions)()  # 2.4 lacks it
    table[torch.ops.ecornn.layer.default] = _layer
    return table
