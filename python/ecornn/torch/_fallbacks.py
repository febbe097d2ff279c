"""Counts the calls that torch's own code ran, with the reason."""

from __future__ import annotations

from collections import Counter

import torch

from .._locks import make_lock

_counts: Counter[str] = Counter()
_lock = make_lock()


def count(reason: str) -> None:
    """One more call that ecornn did not run."""
    with _lock:
        _counts[reason] += 1


def fallbacks(reset: bool = False) -> dict[str, int]:
    """How often torch ran a layer of this package, or of torch.nn in ``enabled()``, in place of
    ecornn, by reason.  Graphs of torch.compile are not counted.  reset: begins at 0 again.

    >>> import torch, ecornn.torch
    >>> _ = ecornn.torch.fallbacks(reset=True)
    >>> rnn = ecornn.torch.GRU(3, 4).to_empty(device="meta")
    >>> _ = rnn(torch.zeros(5, 2, 3, device="meta"))
    >>> ecornn.torch.fallbacks()
    {'x is on meta': 1}
    """
    with _lock:
        found = dict(_counts)
        if reset:
            _counts.clear()
    return found


def reason(x, weights, states=(), drops_all: bool = False, plain: bool = False) -> str:
    """Why ecornn does not run a call with these tensors that torch accepts; states: None each if
    they are zeros; plain: it runs no subclasses."""
    from . import _run, _watched

    if not isinstance(x, torch.Tensor):
        return f"x is a {type(x).__name__}"
    if drops_all:
        return "dropout is 1"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace"
    for name, one in (("x", x), *(("a weight", one) for one in weights),
                      *(("a state", one) for one in states if one is not None)):
        if one.device.type not in ("cpu", "cuda"):
            return f"{name} is on {one.device.type}"
        if one.dtype not in _run.TYPES:
            return f"{name} is {one.dtype}"
        if one.dtype is not x.dtype:
            return f"{name} is {one.dtype}, x {x.dtype}"
        if type(one) not in _watched.PLAIN and (
                plain or name == "a weight" and _watched.foreign(one)):
            return f"{name} is a {type(one).__name__}"
    if _watched.transformed():
        return "dropout, with derivatives beyond the first"
    return "other arguments"
