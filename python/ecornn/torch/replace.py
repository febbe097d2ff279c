"""Replaces the recurrent layers inside a model, and puts torch.nn's back."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from . import _subclasses
from ._attention import AdditiveAttention
from ._forward import Forward
from ._net import Net
from .modules import OURS, from_torch, to_torch
from .quantized import Quantized


class Report(list):
    """The modules that replace, or restore, did not swap: (name, reason) each.  swapped: number of
    modules swapped."""

    swapped: int = 0

    def __str__(self) -> str:
        left = "".join(f"\n  {name}: {why}" for name, why in self)
        return f"{self.swapped} recurrent modules swapped" + left


def _reason(module) -> str | None:
    """Why a module of torch.nn stays; None: it can be swapped."""
    for name, parameter in module.named_parameters():
        if parameter.device.type not in ("cpu", "cuda"):
            return f"its {name} is on {parameter.device}"
        if not parameter.is_floating_point():
            return f"its {name} is {parameter.dtype}"
    return None if type(module) in OURS else _subclasses.refuses(type(module), OURS)


def _swap(model, report: Report, concerns: Callable, reason: Callable, make: Callable, what: str):
    """The model with every module that concerns is true of as make returns it, or in the report and
    in a warning with its reason to stay.  Equal objects stay equal."""
    made: dict[int, torch.nn.Module] = {}
    left: list[str] = []

    def swapped(module, name: str):
        if module is None or not concerns(module):
            return module
        if id(module) not in made:
            why = reason(module)
            made[id(module)] = module if why is not None else make(module)
            report.swapped += why is None
            if why is not None:
                report.append((name, why))
                left.append(f"{name or 'the model'}: {why}")
        return made[id(module)]

    every = list(model.named_modules(remove_duplicate=False))  # holds the modules, so no id is reused
    found = swapped(model, "")
    if found is model:
        for path, module in every:
            for name, child in list(module._modules.items()):
                module._modules[name] = swapped(child, f"{path}.{name}" if path else name)
    if left:
        warnings.warn(f"ecornn.torch.{what}: " + "; ".join(left), stacklevel=3)
    return found


def replace(model: torch.nn.Module, report: Report | None = None) -> torch.nn.Module:
    """Replaces every torch.nn.LSTM, GRU, RNN and their cells inside a model by ecornn's module.

    Parameters, hooks and mode stay the same objects, so an existing optimizer continues to work.
    The model is changed in place and returned; if it is a recurrent layer itself, the new module is
    returned.  report: a Report to be filled with what stays, and why.  A warning names recurrent
    layers that stay, with the class and the reason.

    A module of a subclass becomes one of a class with the same name, derived from that subclass and
    from ecornn's module, if its forward is torch.nn's or calls ``super().forward``.
    """
    report = replace.report = Report() if report is None else report
    return _swap(model, report, lambda module: isinstance(module, tuple(OURS)) and not isinstance(
        module, tuple(OURS.values())), _reason, from_torch, "replace left what torch.nn runs")


def _only_here(module) -> str | None:
    """Why a module of ecornn stays; None: torch.nn has its like."""
    if _subclasses.origin(type(module), OURS) is not None:
        return None
    kind = type(module)
    if isinstance(module, tuple(OURS.values())):
        return f"{kind.__module__}.{kind.__qualname__} is a subclass of ecornn's module"
    return f"torch.nn has no {kind.__name__}"


def restore(model: torch.nn.Module, report: Report | None = None) -> torch.nn.Module:
    """The inverse of replace: every ecornn.torch.LSTM, GRU, RNN and their cells inside a model become
    torch.nn's module, or the subclass of it that replace found, with the same parameters, hooks,
    mode and ``state_dict``.

    ``saving`` and ``memory_limit`` are lost.  A warning names modules that only ecornn has, which stay.
    """
    return _swap(model, Report() if report is None else report, lambda module: isinstance(
        module, (Forward, Net, Quantized, AdditiveAttention, *OURS.values())), _only_here, to_torch,
        "restore left what ecornn runs")
