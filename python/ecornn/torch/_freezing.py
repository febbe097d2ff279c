"""``freeze_weights`` of modules."""

from __future__ import annotations

import torch

from . import _kept, _watched

KEPT = "_frozen", "_again"  # attributes that no copy has and any change drops: weights, the last call


class Freezing:
    """A module whose weights can be frozen; first among the bases.  Frozen weights are never
    copied or saved, and dropped by any change of the module, such as to training."""

    def freeze_weights(self) -> None:
        """Makes runs without gradients use the weights as they are now, without checking for
        changes.  This saves reading all weights in each run (doc/guide/python.md).  Ends with
        unfreeze_weights, train or eval, a load, or a move."""
        with torch.no_grad():
            self.__dict__["_frozen"] = _kept.Frozen(self._tensors())

    def unfreeze_weights(self) -> None:
        """Ends freeze_weights."""
        self.__dict__.pop("_frozen", None)

    def _serving(self, tensors: list):
        """The frozen copy of these weights; the weights themselves where it does not count."""
        frozen = self.__dict__.get("_frozen")
        if frozen is None or torch.is_grad_enabled() or _watched.transformed() or (
                not frozen.serves(tensors)):
            return tensors
        return frozen

    def _load_from_state_dict(self, *arguments, **more):
        self.unfreeze_weights()
        return super()._load_from_state_dict(*arguments, **more)

    def _apply(self, fn, recurse=True):
        self.unfreeze_weights()
        return super()._apply(fn, recurse)

    def __setattr__(self, name, value):
        for kept in KEPT:
            self.__dict__.pop(kept, None)
        super().__setattr__(name, value)

    def __getstate__(self):
        inherited = getattr(super(), "__getstate__", None)
        state = dict(inherited()) if inherited is not None else self.__dict__.copy()
        return {name: value for name, value in state.items() if name not in KEPT}
