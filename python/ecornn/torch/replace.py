"""Replaces the recurrent layers inside a model."""

from __future__ import annotations

import warnings

import torch

from . import _subclasses
from .modules import OURS, from_torch


class Report(list):
    """The modules that replace did not swap: (name, reason) each.  swapped: number of modules
    swapped."""

    swapped: int = 0

    def __str__(self) -> str:
        left = "".join(f"\n  {name}: {why}" for name, why in self)
        return f"{self.swapped} recurrent modules run by ecornn" + left


def _reason(module) -> str | None:
    """Why a module stays; None: it can be swapped, or is not a recurrent one."""
    if isinstance(module, tuple(OURS)) and not isinstance(module, tuple(OURS.values())):
        for name, parameter in module.named_parameters():
            if parameter.device.type not in ("cpu", "cuda"):
                return f"its {name} is on {parameter.device}"
            if not parameter.is_floating_point():
                return f"its {name} is {parameter.dtype}"
        return None if type(module) in OURS else _subclasses.refuses(type(module), OURS)
    return None


def _swappable(module) -> bool:
    return (isinstance(module, tuple(OURS)) and not isinstance(module, tuple(OURS.values()))
            and _reason(module) is None)


def replace(model: torch.nn.Module, report: Report | None = None) -> torch.nn.Module:
    """Replaces every torch.nn.LSTM, GRU, RNN and their cells inside a model by ecornn's module.

    Parameters, hooks and mode stay the same objects, so an existing optimizer continues to work.
    The model is changed in place and returned; if it is a recurrent layer itself, the new module is
    returned.  report: a Report to be filled with what stays, and why.  A warning names recurrent
    layers that stay, with the class and the reason.

    A module of a subclass becomes one of a class with the same name, derived from that subclass and
    from ecornn's module, if its forward is torch.nn's or calls ``super().forward``.
    """
    report = Report() if report is None else report
    replace.report = report
    if _swappable(model):
        report.swapped += 1
        return from_torch(model)
    made: dict[int, torch.nn.Module] = {}
    left: list[str] = []
    if isinstance(model, tuple(OURS)) and (why := _reason(model)) is not None:
        report.append(("", why))
        left.append(f"the model: {why}")
    for path, module in list(model.named_modules(remove_duplicate=False)):
        for name, child in list(module._modules.items()):
            if child is None:
                continue
            why = _reason(child)
            if why is not None:
                if id(child) not in made:
                    made[id(child)] = child
                    found = f"{path}.{name}" if path else name
                    if isinstance(child, tuple(OURS)):
                        left.append(f"{found}: {why}")
                    report.append((found, why))
            elif _swappable(child):
                if id(child) not in made:
                    made[id(child)] = from_torch(child)
                    report.swapped += 1
                module._modules[name] = made[id(child)]
    if left:
        warnings.warn("ecornn.torch.replace left what torch.nn runs: " + "; ".join(left),
                      stacklevel=2)
    return model
