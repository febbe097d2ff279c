"""torch.nn's recurrent layers, run by ecornn.

``LSTM``, ``GRU`` and ``RNN`` take the place of torch.nn's; ``replace`` puts them into a model,
``enabled`` sends torch.nn's own modules here.  ``Recurrent`` is the same for any cell, ``Ensemble``
for several models at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .aten import enabled
from .ensemble import Ensemble
from .modules import GRU, LSTM, RNN
from .recurrent import (MGU, CoupledLSTM, IndRNN, LayerNormLSTM, PeepholeLSTM, Recurrent,
                        ResetFirstGRU, ZoneoutLSTM)
from .replace import Report, replace

if TYPE_CHECKING:
    from ._attention import AdditiveAttention, attention
    from ._net import Net

__all__ = ["AdditiveAttention", "CoupledLSTM", "Ensemble", "GRU", "IndRNN", "LSTM", "LayerNormLSTM", "MGU",
           "Net", "PeepholeLSTM", "RNN", "Recurrent", "Report", "ResetFirstGRU", "ZoneoutLSTM",
           "attention", "enabled", "replace"]

_LATER = {"AdditiveAttention": "_attention", "attention": "_attention", "Net": "_net"}


def __getattr__(name: str) -> Any:
    """These when they are asked for: they import torch's compiler, which takes most of a second."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module("." + _LATER[name], __name__), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
