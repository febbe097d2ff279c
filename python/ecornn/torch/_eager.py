"""Functions that torch.compile leaves alone."""

from __future__ import annotations

import functools
import sys

import torch


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
