"""torch's compiler: functions that it leaves alone, and subclasses of torch.nn.LSTM, GRU and RNN.

The compiler excludes these classes and their subclasses from its graphs, because it would unroll
them.  The modules of this package are one operator each, so it may include them.  It is told so
when it is imported, because the import takes a second and most programs never need it.
"""

from __future__ import annotations

import functools
import os
import sys

import torch

from ._imports import when_imported

_BUILDER = "torch._dynamo.variables.builder"


def can_be_told() -> bool:
    """Does this torch's compiler have a switch for such classes?  Older ones have none."""
    path = os.path.join(os.path.dirname(torch.__file__), "_dynamo", "config.py")
    try:
        with open(path, encoding="utf-8") as file:
            return "\nallow_rnn = False" in file.read()
    except OSError:
        return False


def _tell(builder, kind: type) -> None:
    original = builder.VariableBuilder.wrap_module

    @functools.wraps(original)
    def wrap_module(self, value):
        if not isinstance(value, kind):
            return original(self, value)
        with builder.config.patch(allow_rnn=True):
            return original(self, value)

    builder.VariableBuilder.wrap_module = wrap_module


def take(kind: type) -> None:
    """Lets the compiler include modules of this class and its subclasses."""
    when_imported(_BUILDER, lambda builder: _tell(builder, kind))


def eager(function):
    """torch.compiler.disable, which imports torch's compiler and so takes most of a second: applied
    only once the compiler has been imported, since nothing is compiled before."""
    disabled = None

    @functools.wraps(function)
    def call(*args, **kwargs):
        nonlocal disabled
        if disabled is None:
            if "torch._dynamo" not in sys.modules:
                return function(*args, **kwargs)
            disabled = torch.compiler.disable(function)
        return disabled(*args, **kwargs)

    return call
