"""The operator of layers as torch's elementary operators, for exporters that know core ATen only."""

from __future__ import annotations

import torch

from .. import _library as lib
from .._errors import Unsupported
from . import _operators
from ._spec import words_of


def _refused(spec, resets, mask, drop: bool, flags: int) -> str | None:
    """What of a run torch's layers do not have."""
    if not spec.torch:
        return f"the cell {spec.cell.split('(')[0].split()[-1]}"
    for name, found in (("heads", spec.heads > 1), ("models", spec.models is not None),
                        ("resets", resets is not None), ("mask", mask is not None), ("dropout", drop),
                        ("all_states", flags & lib.ALL_STATES), ("repeat_padding", flags & lib.REPEAT_PADDING)):
        if found:
            return name
    return None


def _layer(x, lengths, states, weights, *rest):
    resets, _, mask, *words, drop, _, _ = rest
    spec, batch_major, flags = words_of(*words, len(weights))
    why = _refused(spec, resets, mask, drop, flags)
    if why is not None:
        raise Unsupported(f"core ATen has no layer with {why}: ecornn.torch.decompositions takes LSTM, GRU and RNN, in "
                          "inference, with states and lengths")
    if not isinstance(x.shape[1 if batch_major else 0], int):
        raise Unsupported("T is dynamic, must be fixed: core ATen has no loop over steps")
    batch = x.shape[0 if batch_major else 1]
    states = states or [x.new_zeros(shape) for shape in spec.state_shapes(batch)]
    found = _operators.run(spec.of, x, states, [weight.to(x.dtype) for weight in weights], batch_major, lengths)
    return [*found, *(x.new_empty(0, dtype=torch.uint8) for _ in range(2))]  # reserve and packed


def decompositions() -> dict:
    """torch.export's table of decompositions with ecornn's layers in it:
    ``torch.export.export(...).run_decompositions(ecornn.torch.decompositions())`` gives core ATen.

    T must be fixed, N need not be.  Raises Unsupported with the name of what core ATen lacks.
    """
    table = getattr(torch.export, "default_decompositions", torch._decomp.core_aten_decompositions)()  # 2.4 lacks it
    table[torch.ops.ecornn.layer.default] = _layer
    return table
