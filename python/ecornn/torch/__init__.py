"""torch.nn's recurrent layers, run by ecornn.

``LSTM``, ``GRU`` and ``RNN`` and their cells replace torch.nn's; ``replace`` puts them into a model,
``restore`` takes them out, and ``enabled`` makes torch.nn's own modules use ecornn.  ``Recurrent`` is
the same for any cell, ``Ensemble`` for several models at once.
"""

from __future__ import annotations

from ._attention import AdditiveAttention, attention
from ._fallbacks import fallbacks
from ._net import Net
from . import _flops  # noqa: F401  # after the operators
from . import linear_attention
from .aten import enabled
from .cells import GRUCell, LSTMCell, RNNCell
from .decompositions import decompositions
from .ensemble import Ensemble
from .modules import GRU, LSTM, RNN
from .quantized import Quantized, quantize_dynamic
from .per_row import per_row_gradients, register_opacus
from .recurrent import (MGU, CoupledLSTM, IndRNN, LayerNormLSTM, PeepholeLSTM, Recurrent,
                        ResetFirstGRU, ZoneoutLSTM)
from .replace import Report, replace, restore

__all__ = ["AdditiveAttention", "CoupledLSTM", "Ensemble", "GRU", "GRUCell", "IndRNN", "LSTM",
           "LSTMCell", "LayerNormLSTM", "MGU", "Net", "PeepholeLSTM", "Quantized", "RNN",
           "RNNCell", "Recurrent", "Report", "ResetFirstGRU", "ZoneoutLSTM", "attention",
           "benchmark", "decompositions", "enabled", "fallbacks", "linear_attention",
           "per_row_gradients", "quantize_dynamic", "register_opacus", "replace", "restore"]

# Plans made from now on are measured if wisdom has nothing for them.  True: for 0.05 seconds.  A number:
# for that many seconds, at most 1000.
benchmark: bool | float = False


def __dir__() -> list[str]:
    return sorted(__all__)
