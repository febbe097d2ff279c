"""ecornn: recurrent layers, fused, on CPUs and NVIDIA GPUs."""

from __future__ import annotations

from ._errors import BadArgument, BadCell, Error, NoDevice, NoMemory, Unsupported
from ._library import version

__version__ = version().split()[0]
__all__ = ["BadArgument", "BadCell", "Error", "NoDevice", "NoMemory", "Unsupported"]
