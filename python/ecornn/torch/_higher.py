"""Derivatives of a function of tensors by torch.func, which nest to any depth.

work(*tensors) gives a tuple, in which None is no result; a tensor may be None, too.
"""

from __future__ import annotations

import torch


def _of(work, tensors, at):
    """work as a function of the tensors at those places, and, once called, which results are there."""
    there: list[bool] = []

    def run(*some):
        filled = list(tensors)
        for k, one in zip(at, some):
            filled[k] = one
        results = work(*filled)
        there[:] = [one is not None for one in results]
        return tuple(one for one in results if one is not None)

    return run, there


def _spread(values, there):
    """The values where they are there, None elsewhere."""
    found = iter(values)
    return tuple(next(found) if is_there else None for is_there in there)


def along(work, tensors, tangents):
    """Tangents of work's results along those of tensors; None is zero, and no result."""
    at = [k for k, one in enumerate(tangents) if one is not None and tensors[k] is not None]
    if not at:
        return tuple(None if one is None else torch.zeros_like(one) for one in work(*tensors))
    run, there = _of(work, tensors, at)
    found = torch.func.jvp(run, tuple(tensors[k] for k in at), tuple(tangents[k] for k in at))[1]
    return _spread(found, there)


def back(work, tensors, wanted, outputs):
    """Gradients of the tensors that are wanted, by those of work's results; None each otherwise."""
    at = [want and one is not None for want, one in zip(wanted, tensors)]
    at += [False] * (len(tensors) - len(at))
    run, there = _of(work, tensors, [k for k, asked in enumerate(at) if asked])
    results, pull = torch.func.vjp(run, *(one for one, asked in zip(tensors, at) if asked))
    given = [d for d, is_there in zip(outputs, there) if is_there]
    return _spread(pull(tuple(torch.zeros_like(one) if d is None else d
                              for one, d in zip(results, given))), at)
