"""torch.nn's recurrent layers, run by ecornn.

``LSTM``, ``GRU`` and ``RNN`` take the place of torch.nn's; ``replace`` puts them into a model,
``enabled`` sends torch.nn's own modules here.  ``Recurrent`` is the same for any cell.
"""

from __future__ import annotations

from .aten import enabled
from .attention import AdditiveAttention, attention
from .modules import GRU, LSTM, RNN
from .recurrent import (MGU, CoupledLSTM, IndRNN, LayerNormLSTM, PeepholeLSTM, Recurrent,
                        ResetFirstGRU, ZoneoutLSTM)
from .replace import Report, replace

__all__ = ["AdditiveAttention", "CoupledLSTM", "GRU", "IndRNN", "LSTM", "LayerNormLSTM", "MGU",
           "PeepholeLSTM", "RNN", "Recurrent", "Report", "ResetFirstGRU", "ZoneoutLSTM",
           "attention", "enabled", "replace"]
