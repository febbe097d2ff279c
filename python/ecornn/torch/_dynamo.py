"""torch's compiler and subclasses of torch.nn.LSTM, GRU and RNN.

The compiler excludes these classes and their subclasses from its graphs, because it would unroll
them.  The modules of this package are one operator each, so it may include them.  It is told so
when it is imported, because the import takes a second and most programs never need it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import os
import sys

import torch

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


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of the compiler's module."""

    def __init__(self, kind: type):
        self.kind = kind

    def find_spec(self, fullname, path=None, target=None):
        if fullname != _BUILDER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _tell(module, self.kind)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def take(kind: type) -> None:
    """Lets the compiler include modules of this class and its subclasses."""
    if _BUILDER in sys.modules:
        _tell(sys.modules[_BUILDER], kind)
    else:
        sys.meta_path.insert(0, _Finder(kind))
