"""The batch of a vmap as part of a run: as more rows, as more models, or, last of all, in a loop.

A tensor that is batched comes as a plain one with the number of the dimension that the batch has in
it, ``dim``, or None if it is the same for the whole batch.  Tensors have their rows at a place that is
counted from the end: x [T,N,I] at -2, [N,T,I] at -3, a state [L*D,N,*] at -2, lengths [N] at -1.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from .. import _library as lib
from ._watched import is_batched, keeps

_functorch = torch._C._functorch


def to_rows(tensor, dim, at: int, size: int):
    """[..,N,..] of each of a batch as [..,size*N,..]; at: the place of N."""
    if tensor is None:
        return None
    tensor = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
    shape = list(tensor.shape[1:])
    shape[at] *= size
    place = len(shape) + at
    tensor = tensor.movedim(0, place)
    return tensor.expand(*tensor.shape[:place], size, *tensor.shape[place + 1:]).reshape(shape)


def from_rows(tensor, at: int, size: int):
    """The opposite: [..,size,N,..] and the place of the batch."""
    if tensor is None:
        return None, None
    place = tensor.dim() + at
    return tensor.unflatten(place, (size, tensor.shape[place] // size)), place


def to_models(tensor, dim, size: int, models: int | None, shared: bool = False):
    """[..] or [M,..] of each of a batch as [size,..] or [size*M,..]; shared: it has no M yet."""
    if tensor is None:
        return None
    tensor = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
    tensor = tensor.expand(size, *tensor.shape[1:])
    if models is None:
        return tensor
    if shared:
        tensor = tensor.unsqueeze(1).expand(size, models, *tensor.shape[1:])
    return tensor.flatten(0, 1)


def from_models(tensor, size: int, models: int | None):
    """The opposite, with the batch first."""
    if tensor is None:
        return None, None
    return (tensor if models is None else tensor.unflatten(0, (size, models))), 0


def loop(work, size: int, dims, arguments):
    """work for each of a batch in turn; the results have the batch first."""
    found = [work(*[one if dim is None else one.select(dim, k)
                    for one, dim in zip(arguments, dims)]) for k in range(size)]
    out = tuple(torch.stack(each) if torch.is_tensor(each[0]) else None for each in zip(*found))
    return out, tuple(None if one is None else 0 for one in out)


def of_autograd(rule, arguments):
    """Calls rule with the tensors that torch.autograd's own vmap has batched, and batches its results
    again."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    given = [torch._remove_batch_dim(one, level, 1, 0) if is_batched(one) else one
             for one in arguments]
    dims = [0 if is_batched(one) else None for one in arguments]
    size = next(one.shape[0] for one, dim in zip(given, dims) if dim == 0)
    found, dims = rule(size, dims, *given)
    # Some of its rules want the batch first in memory.
    return tuple(one if dim is None else torch._add_batch_dim(
        one.movedim(dim, 0).contiguous(), 0, level) for one, dim in zip(found, dims))


# ---- the rule of vmap ---------------------------------------------------------------------------


def _kinds(what, resets, more: str) -> list[tuple[str, int]]:
    """The kind of each argument and the place of its rows; more: a letter for each group after the
    weights: t tangents, o gradients of the results."""
    count, number = what.counts(resets)
    tensors = [("input", what.at)] + [("state", -2)] * count + [("weight", 0)] * number
    found = [("seed", 0)] + [("input", -1)] * 3 + tensors
    for letter in more:
        found += tensors if letter == "t" else [("state", place) for place in what.places()]
    return found


def batched(run, info, dims, what, arguments, more: str = "", back: bool = False,
             as_models: bool = True):
    """The rule of vmap for run(what, *arguments): how a batch becomes part of one run.  back: it
    gives what.wanted gradients; as_models: the library has it for several models."""
    kinds, size = _kinds(what, arguments[2], more), info.batch_size
    of = {kind: any(dim is not None for (other, _), dim in zip(kinds, dims) if other == kind)
          for kind in ("seed", "input", "weight")}
    count, _ = what.counts(arguments[2])
    each = back and any(what.wanted[1 + count:])  # gradients of weights, for each of the batch
    models = each or of["weight"] or what.drop
    if what.drop and not of["seed"] or models and not (as_models and what.spec.memory_limit == 0):
        return loop(lambda *one: run(what, *one), size, dims, arguments)
    inner = replace(what, kept=None)
    if not models:
        places = [what.at] + [-2] * count + [0] * len(what.wanted) if back else what.places()
        given = [one if kind in ("seed", "weight") else to_rows(one, dim, at, size)
                 for one, dim, (kind, at) in zip(arguments, dims, kinds)]
        return _results(run(replace(inner, keep=keeps(given)), *given), [
            lambda one, at=at: from_rows(one, at, size) for at in places])
    before, own = what.spec.models, bool(what.flags & lib.SHARED_INPUT)
    shared = (before is None or own) and not of["input"] and not (back and what.wanted[0])
    given = [one if kind == "input" and shared or kind == "seed" and dim is None
             else one.select(dim, 0) if kind == "seed"
             else to_models(one, dim, size, before, own and kind == "input")
             for one, dim, (kind, _) in zip(arguments, dims, kinds)]
    number = size * (before or 1)
    flags = what.flags & ~lib.SHARED_INPUT | lib.SHARED_INPUT * (shared and number > 1)
    inner = replace(inner, keep=keeps(given), flags=flags, spec=what.spec.of_models(number))
    found = run(inner, *given)
    rules = [lambda one: from_models(one, size, before)] * len(found)
    if back and own:  # one gradient of an input that the models share
        rules[0] = lambda one: (None if one is None else one.unflatten(0, (size, before)).sum(1), 0)
    return _results(found, rules)


def _results(found, rules):
    """Results and their batch dimensions; what is no tensor belongs to the folded run alone."""
    pairs = [rule(one) if torch.is_tensor(one) else (None, None)
             for one, rule in zip(found, [*rules, None])]
    return tuple(one for one, _ in pairs), tuple(dim for _, dim in pairs)
