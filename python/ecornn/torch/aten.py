"""torch.nn's own modules, unchanged, run by ecornn: dispatcher kernels for aten's layers.

What ecornn does not support goes to torch's kernel, as if nothing had been registered.
"""

from __future__ import annotations

import itertools

import torch

from . import _call, _weights, cells
from ._fallbacks import count, reason
from ._packing import packing_of
from ._spec import GATES, Layers, spec_of

_OPS = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "rnn-tanh", "rnn_relu": "rnn-relu"}
# In inference mode only the plain keys are dispatched; autocast and torch.func would change types
# and tensors before us.
_KEYS = ("AutogradCPU", "AutogradCUDA", "CPU", "CUDA", "AutocastCPU", "AutocastCUDA",
         "FuncTorchDynamicLayerFrontMode")

_registered: torch.library.Library | None = None
_depth = 0
_active = False


def _stack(cell: str, params, has_biases: bool, layers: int, dropout: float, both: bool):
    """The spec of a stack from its flat weights; None if they are not torch.nn's."""
    pairs = layers * (2 if both else 1)
    if not pairs or len(params) % pairs:
        return None
    each = len(params) // pairs
    projected = each == (5 if has_biases else 3)
    if each != (4 if has_biases else 2) + projected or params[0].dim() != 2:
        return None
    hidden, left = divmod(params[0].shape[0], GATES[cell])
    if left or not hidden:
        return None
    return spec_of(Layers(cell, params[0].shape[1], hidden, layers, bool(has_biases), bool(both),
                          params[-1].shape[0] if projected else 0, dropout=float(dropout)))


def _checked(spec, x, states, params, batch: int, dims: int) -> bool:
    """Would the library read all tensors correctly?"""
    if spec is None or x.dim() != dims or x.shape[-1] != spec.input:
        return False
    if not _call.fits(x, params) or len(states) != spec.states:
        return False
    try:
        _weights.expect(spec, params, x.device)
    except RuntimeError:
        return False
    return all(state.device == x.device and state.shape == shape
               for state, shape in zip(states, spec.state_shapes(batch)))


def _kernel(name: str, packed: bool):
    """The function registered for an overload of one of aten's layers: of padded x, or of packed rows and
    batch sizes."""
    cell, op = _OPS[name], getattr(torch.ops.aten, name)
    overload, dims = (op.data, 2) if packed else (op.input, 3)

    def run(x, *arguments):
        sizes, *rest = arguments if packed else (None, *arguments)
        hx, params, *of, dropout, train, both = rest[:7]
        batch_first = not packed and rest[7]
        states = list(hx) if cell == "lstm" else [hx]
        if _active and x.dim() == dims and (len(sizes) if packed else x.shape[1 if batch_first else 0]):
            spec = _stack(cell, params, *of, dropout, both)
            batch = int(sizes[0]) if packed else x.shape[0 if batch_first else 1]
            if _checked(spec, x, states, params, batch, dims):
                lengths = packing_of(sizes, x.device) if packed else None
                out = _call.layer(spec, _call.Given(x, lengths, states, params), batch_first, train)
                if out is not None:
                    return out
        # Not decompose(): torch's LSTM in Python gives states a dimension too many.
        found = overload._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, x, *arguments)
        if _active:
            count(reason(x, params, states, train and dropout >= 1 and of[1] > 1))
        return found

    return run


def _cell_kernel(kind: int):
    """The function registered for one of aten's cells."""

    def cell(x, hx, *weights):
        states = list(hx) if kind == 0 else [hx]
        weights += (None,) * (4 - len(weights))
        out = cells.run(kind, x, states, weights) if _active else None
        if out is None:
            out = cells.original(kind, x, states, weights)
            if _active:
                count(cells.reason(x, weights, states))
        return tuple(out) if kind == 0 else out[0]

    return cell


def _register() -> None:
    global _registered
    if _registered is not None:
        return
    library = torch.library.Library("aten", "IMPL")
    for name, packed in itertools.product(_OPS, (False, True)):
        kernel = _kernel(name, packed)
        for key in _KEYS:
            library.impl(f"{name}.{'data' if packed else 'input'}", kernel, key)
    for kind, name in enumerate(cells.NAMES):
        for key in ("AutogradCPU", "CPU"):
            library.impl(name, _cell_kernel(kind), key)
    _registered = library


def _unregister() -> None:
    global _registered
    if _registered is not None:
        _registered._destroy()
        _registered = None


class enabled:
    """Makes unchanged torch.nn.LSTM, GRU, RNN and their cells run on ecornn.

    As a context manager until its end, in all threads; as a call until ``disable()``.

    >>> import torch, ecornn.torch
    >>> lstm = torch.nn.LSTM(3, 4)
    >>> with ecornn.torch.enabled():
    ...     y, (h, c) = lstm(torch.zeros(5, 2, 3))
    >>> tuple(y.shape)
    (5, 2, 4)
    """

    def __init__(self):
        global _active, _depth
        _register()
        _depth += 1
        _active = True
        self._open = True

    def disable(self) -> None:
        """Restores torch's own kernels, once every ``enabled`` has ended."""
        global _active, _depth
        if self._open:
            self._open = False
            _depth -= 1
            _active = _depth > 0
            if not _active:
                _unregister()

    def __enter__(self) -> enabled:
        return self

    def __exit__(self, *error) -> None:
        self.disable()
