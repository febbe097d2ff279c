"""torch.nn's recurrent layers, run by ecornn."""

from __future__ import annotations

from .aten import enabled
from .modules import GRU, LSTM, RNN
from .replace import Report, replace

__all__ = ["GRU", "LSTM", "RNN", "Report", "enabled", "replace"]
