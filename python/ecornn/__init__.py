"""ecornn: fused recurrent layers on CPUs and NVIDIA GPUs.

``ecornn.Layer`` runs on arrays of numpy and of every library that supports DLPack; ``ecornn.torch``
has modules for torch.  Names that need numpy are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import BadArgument, BadCell, Error, NoDevice, NoMemory, Unsupported
from ._library import version

if TYPE_CHECKING:
    from ._info import info
    from .amp import Amp, load_amp
    from .cell import Cell, cells
    from .layer import Gradients, Layer, Parameters, Run
    from .results import Array

_PLACES = {"Amp": "amp", "Array": "results", "Cell": "cell", "cells": "cell", "Gradients": "layer",
           "Layer": "layer", "Parameters": "layer", "Run": "layer", "info": "_info",
           "load_amp": "amp"}

__version__ = version().split()[0]
__all__ = ["Amp", "Array", "BadArgument", "BadCell", "Cell", "Error", "Gradients", "Layer", "NoDevice",
           "NoMemory", "Parameters", "Run", "Unsupported", "cells", "info", "load_amp"]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'ecornn' has no attribute {name!r}")
    found = getattr(importlib.import_module("." + place, __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
