"""torch.nn's recurrent layers, under the same names."""

from __future__ import annotations

import torch
from torch.nn.utils.rnn import PackedSequence

from . import _dynamo, _subclasses
from ._fallbacks import count, reason
from ._forward import Forward
from ._freezing import KEPT
from .cells import GRUCell, LSTMCell, RNNCell

_nn = torch.nn
# torch's compiler can only be told of subclasses of torch.nn's classes; isinstance then works too.
_SUBCLASS = _dynamo.can_be_told()


class _Layers(Forward):
    """The common part of LSTM, GRU and RNN.  Names, state_dict and checks are torch's own."""

    _torch: type  # torch.nn's class, which runs what ecornn does not support

    def __prepare_scriptable__(self):
        """TorchScript compiles torch's own module, with these parameters."""
        return to_torch(self)

    def extra_repr(self) -> str:
        return super().extra_repr() + self._kept_repr()

    def _otherwise(self, input, hx, lengths):
        """torch's own code, for everything else and for error messages."""
        if lengths is not None:
            raise ValueError("lengths: the input is not one that ecornn takes "
                             f"({getattr(input, 'dtype', None)}, {getattr(input, 'shape', None)})")
        x = input.data if isinstance(input, PackedSequence) else input
        found = self._torch.forward(self, input, hx)
        if not torch.compiler.is_compiling():
            states = hx if isinstance(hx, (tuple, list)) else [hx]
            count(reason(x, self._tensors(), states,
                         self.training and self.dropout >= 1 and self.num_layers > 1))
        return found


class LSTM(_Layers, _nn.LSTM if _SUBCLASS else _nn.RNNBase):  # type: ignore[misc]
    """torch.nn.LSTM, run by ecornn: the same arguments, parameters, results and errors.

    Arguments, as torch.nn.LSTM's:
        input_size: I, the width of x.  hidden_size: H.  num_layers: L.
        bias: with False there are no bias_ih_lk and bias_hh_lk.
        batch_first: x and y are [N,T,*]; states stay [L*D,N,*].
        dropout: the probability that an element of the output of a layer below the last becomes 0
            in training.
        bidirectional: D is 2, and y has both directions side by side.
        proj_size: P, to which h is projected; 0: none, and P is H.
        device, dtype: of the parameters; float32, float64, bfloat16 or float16.
    Additional keyword arguments; both are attributes that may be set at any time:
        saving, memory_limit: what forward saves for backward, and its limit in bytes, as ecornn.Layer's.

    Call: ``y, (h, c) = lstm(x, (h0, c0))``, or ``lstm(x)``, which begins with zeros.
        x: [T,N,I], [N,T,I] with batch_first, [T,I], or a PackedSequence.
        h0, h: [L*D,N,P].  c0, c: [L*D,N,H].  y: as x with D*P.  Without N if x is [T,I].
        Additional keyword arguments: lengths, resets, reset_state, mask, repeat_padding,
        all_states; see ``forward``.

    Parameters, for each layer k, and with ``_reverse`` for the other direction: weight_ih_lk
    [4*H,I] (I is D*P above the first layer), weight_hh_lk [4*H,P], bias_ih_lk, bias_hh_lk [4*H],
    weight_hr_lk [P,H] with a projection.  Rows of gates are in the order i, f, g, o.

    Raises the same exceptions as torch.nn.LSTM: ValueError and TypeError for arguments, RuntimeError
    for wrong shapes, types and devices in a call.  ValueError also for the additional arguments.

    >>> import torch, ecornn.torch
    >>> lstm = ecornn.torch.LSTM(3, 4, num_layers=2, bidirectional=True)
    >>> y, (h, c) = lstm(torch.zeros(5, 2, 3))
    >>> tuple(y.shape), tuple(h.shape), isinstance(lstm, torch.nn.LSTM)
    ((5, 2, 8), (4, 2, 4), True)
    """

    _torch = _nn.LSTM
    get_expected_cell_size = _nn.LSTM.get_expected_cell_size
    check_forward_args = _nn.LSTM.check_forward_args
    permute_hidden = _nn.LSTM.permute_hidden

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 proj_size: int = 0, device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None, *, saving: str = "auto",
                 memory_limit: int = 0) -> None:
        _nn.RNNBase.__init__(self, "LSTM", input_size, hidden_size, num_layers, bias, batch_first,
                             dropout, bidirectional, proj_size, device, dtype)
        self._keep(saving, memory_limit)


class GRU(_Layers, _nn.GRU if _SUBCLASS else _nn.RNNBase):  # type: ignore[misc]
    """torch.nn.GRU, run by ecornn: the same arguments, parameters, results and errors.

    Arguments are LSTM's except proj_size, which raises a ValueError.

    Call: ``y, h = gru(x, h0)``; h0, h: [L*D,N,H]; y: as x with D*H.

    Parameters are weight_ih_lk [3*H,I], weight_hh_lk [3*H,H], bias_ih_lk, bias_hh_lk [3*H]; rows of
    gates are in the order r, z, n.

    >>> import torch, ecornn.torch
    >>> y, h = ecornn.torch.GRU(3, 4, batch_first=True)(torch.zeros(2, 5, 3))
    >>> tuple(y.shape), tuple(h.shape)
    ((2, 5, 4), (1, 2, 4))
    """

    _torch = _nn.GRU

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 proj_size: int = 0, device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None, *, saving: str = "auto",
                 memory_limit: int = 0) -> None:
        _no_projection(self, proj_size)
        _nn.RNNBase.__init__(self, "GRU", input_size, hidden_size, num_layers, bias, batch_first,
                             dropout, bidirectional, 0, device, dtype)
        self._keep(saving, memory_limit)


class RNN(_Layers, _nn.RNN if _SUBCLASS else _nn.RNNBase):  # type: ignore[misc]
    """torch.nn.RNN, run by ecornn: the same arguments, parameters, results and errors.

    Arguments are GRU's, and nonlinearity, "tanh" or "relu", as the fourth.

    Call: ``y, h = rnn(x, h0)``; h0, h: [L*D,N,H]; y: as x with D*H.

    Parameters are weight_ih_lk [H,I], weight_hh_lk [H,H], bias_ih_lk, bias_hh_lk [H].

    >>> import torch, ecornn.torch
    >>> y, h = ecornn.torch.RNN(3, 4, nonlinearity="relu")(torch.zeros(5, 3))
    >>> tuple(y.shape), tuple(h.shape)
    ((5, 4), (1, 4))
    """

    _torch = _nn.RNN

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1,
                 nonlinearity: str = "tanh", bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None, *, saving: str = "auto",
                 memory_limit: int = 0) -> None:
        _no_projection(self, proj_size)
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if nonlinearity not in modes:
            raise ValueError(f"Unknown nonlinearity {nonlinearity!r}, must be 'tanh' or 'relu'")
        self.nonlinearity = nonlinearity
        _nn.RNNBase.__init__(self, modes[nonlinearity], input_size, hidden_size, num_layers, bias,
                             batch_first, dropout, bidirectional, 0, device, dtype)
        self._keep(saving, memory_limit)


def _no_projection(module, proj_size: int) -> None:
    if proj_size != 0:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU: "
                         f"{type(module).__name__} has proj_size {proj_size!r}")


if _SUBCLASS:
    _dynamo.take(_Layers)

OURS = {_nn.LSTM: LSTM, _nn.GRU: GRU, _nn.RNN: RNN, _nn.LSTMCell: LSTMCell, _nn.GRUCell: GRUCell,
        _nn.RNNCell: RNNCell}


def _twin(module, kind: type):
    """A module of that class with this one's attributes, parameters and hooks."""
    twin = kind.__new__(kind)
    twin.__dict__.update(module.__dict__)
    for name in KEPT:
        twin.__dict__.pop(name, None)
    for name in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[name] = module.__dict__[name].copy()
    if "_flat_weights" in module.__dict__:  # cells have none
        twin._flat_weights = list(module._flat_weights)
    return twin


def to_torch(module):
    """torch.nn's module with the same parameters (the same tensors, not copies)."""
    twin = _twin(module, _subclasses.origin(type(module), OURS) or module._torch)
    for name in ("saving", "memory_limit"):
        twin.__dict__.pop(name, None)
    return twin


def from_torch(module):
    """This package's module with the parameters of a torch.nn module (the same tensors), or of a
    subclass that _subclasses.refuses does not refuse."""
    return _twin(module, _subclasses.class_of(type(module), OURS))
