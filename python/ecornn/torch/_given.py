"""Checks a caller's arguments about steps: lengths, resets and masks.

Values are checked on a CPU only, because on a GPU that would wait for the device.
"""

from __future__ import annotations

import torch

from ._watched import readable
from ._weights import dense


def host(numbers) -> torch.Tensor:
    """A tensor as it is; other numbers become a CPU tensor, whatever torch's default device is."""
    return numbers if torch.is_tensor(numbers) else torch.as_tensor(numbers, device="cpu")


def integers(name: str, given) -> torch.Tensor:
    """A tensor of integers.  Floats and bools are refused, because they would be truncated
    silently."""
    tensor = host(given)
    kind = tensor.dtype
    if kind is torch.bool or kind.is_floating_point or kind.is_complex:
        if torch.is_tensor(given) or tensor.numel():  # an empty list has no type of its own
            raise ValueError(f"{name} is {kind}, must be of integers")
        tensor = tensor.to(torch.int64)
    return tensor


def check_lengths(lengths, steps: int, rows: tuple[int, ...], device) -> torch.Tensor:
    """Lengths of rows, [N] or [M,N], as int32 on that device.  On a CPU values outside 0..T are
    refused by name."""
    lengths = integers("lengths", lengths)
    if tuple(lengths.shape) != tuple(rows):
        raise ValueError(f"lengths has shape {list(lengths.shape)}, must be {list(rows)}")
    if readable(lengths) and lengths.numel():
        low, high = int(lengths.min()), int(lengths.max())
        if low < 0 or high > steps:
            raise ValueError(f"lengths has {low if low < 0 else high}, must be 0 to {steps}")
    found = lengths.to(device, torch.int32)
    return dense(found) if readable(found) else found.contiguous()


def check_steps(name: str, given, x, batch_first: bool):
    """Bytes [T,N] from a tensor of booleans [T,N] or [N,T], or None; with models [M] first if x has
    it.

    Floats must be 0 or 1: others are probably weights, or a mask that is added to scores.
    """
    if given is None:
        return None
    given, first = torch.as_tensor(given, device=x.device), tuple(x.shape[:-1])
    if tuple(given.shape) != first:
        raise ValueError(f"{name} has shape {list(given.shape)}, must be {list(first)}")
    if given.is_complex():
        raise ValueError(f"{name} is {given.dtype}, must be bools, integers, or floats 0 and 1")
    found = given.ne(0)
    if given.is_floating_point() and readable(given) and bool((found != given).any()):
        raise ValueError(f"{name} has {given[found != given][0].item()}, floats must be 0 or 1")
    found = found.transpose(-1, -2) if batch_first else found
    return found.to(torch.uint8).contiguous()
