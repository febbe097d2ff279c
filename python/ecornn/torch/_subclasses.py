"""Classes between a subclass of torch.nn.LSTM, GRU or RNN and this package's module.

``class Own(nn.LSTM)`` becomes ``class Own(Own, ecornn.torch.LSTM)``, in whose order of bases this
package's module comes before torch.nn's: its attributes and methods stay, and where they call
``super().forward`` ecornn runs.
"""

from __future__ import annotations

import weakref

import torch

_made: dict[type, type] = {}
_twins: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # of parametrised classes, weak references


def _base(kind: type, ours: dict[type, type]) -> type | None:
    """torch.nn's class that this one is derived from."""
    return next((base for base in kind.__mro__ if base in ours), None)


def refuses(kind: type, ours: dict[type, type]) -> str | None:
    """Why modules of that class must stay as they are, or None."""
    base = _base(kind, ours)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if base is None or not issubclass(ours[base], base) or not issubclass(base, torch.nn.RNNBase):
        return f"{name} is a class of its own"
    for between in kind.__mro__[:kind.__mro__.index(base)]:
        forward = between.__dict__.get("forward")
        code = getattr(forward, "__code__", None)
        if forward is not None and (code is None or "super" not in code.co_names):
            return f"{name} has a forward that does not call super().forward"
    try:
        class_of(kind, ours)
    except TypeError as error:
        return f"{name} cannot be combined with {ours[base].__qualname__}: {error}"
    return None


def _parametrized(kind: type) -> bool:
    """Is it a class that register_parametrization made, whose opposite takes the first base?"""
    return (kind.__name__.startswith("Parametrized") and "__deepcopy__" in kind.__dict__
            and hasattr(kind.__base__, "forward"))


def _own(kind: type) -> dict:
    return {name: value for name, value in kind.__dict__.items()
            if name not in ("__dict__", "__weakref__", "_origin")}


def _with_base(kind: type, base: type) -> type:
    """That parametrised class with another base: the one that it was made from or into, if both still
    have the same parameters, else a new one."""
    own = _own(kind)
    for twin in (kind.__dict__.get("_origin"), _twins.get(kind, lambda: None)()):
        if twin is not None and twin.__base__ is base and _own(twin) == own:
            return twin
    made = type(kind)(kind.__name__, (base,), {**own, "_origin": kind})
    _twins[kind] = weakref.ref(made)
    return made


def origin(kind: type, ours: dict[type, type]) -> type | None:
    """The class that class_of made that one of, or None."""
    if _parametrized(kind):
        base = origin(kind.__base__, ours)
        return base and _with_base(kind, base)
    return kind.__dict__.get("_origin") or next((k for k, mine in ours.items() if mine is kind), None)


def class_of(kind: type, ours: dict[type, type]) -> type:
    """The class that runs here what that one runs."""
    if kind in ours:
        return ours[kind]
    if kind in _made:
        return _made[kind]
    names: dict = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    if _parametrized(kind):
        return _with_base(kind, class_of(kind.__base__, ours))
    base = _base(kind, ours)
    assert base is not None

    def reduce(self, protocol):
        _, _, *state = super(made, self).__reduce_ex__(protocol)
        return (_new, (kind,), *state)

    made = type(kind)(kind.__name__, (kind, ours[base]), {
        **names, "__reduce_ex__": reduce, "_origin": kind})
    return _made.setdefault(kind, made)


def _new(kind: type):
    """An empty module, for pickle and copy."""
    from .modules import OURS

    made = class_of(kind, OURS)
    return made.__new__(made)
