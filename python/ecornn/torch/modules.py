"""torch.nn's recurrent layers, under the same names."""

from __future__ import annotations

import torch

from . import _call, aten
from ._autograd import differentiable
from ._forward import Forward
from ._spec import CELLS, Spec, spec_of

_nn = torch.nn


class _Layers(Forward, _nn.RNNBase):
    """What LSTM, GRU and RNN share.  Constructor, names, state_dict and checks are torch's own."""

    _torch: type  # torch.nn's class: what it does where this one has no faster way

    def _spec(self) -> Spec:
        return spec_of(CELLS[self.mode], self.input_size, self.hidden_size, self.num_layers,
                       self.bias, self.dropout, self.bidirectional, self.proj_size, self.saving,
                       self.memory_limit)

    def __prepare_scriptable__(self):
        """TorchScript compiles torch's own module, with these parameters."""
        return to_torch(self)

    def _otherwise(self, input, hx, lengths):
        """torch's own code: it runs the rest, or says what is wrong."""
        if lengths is not None:
            raise ValueError("lengths: the input is not one that ecornn takes "
                             f"({getattr(input, 'dtype', None)}, {getattr(input, 'shape', None)})")
        if _call.transformed():
            aten.allow_vmap()
            with differentiable():
                return self._torch.forward(self, input, hx)
        return self._torch.forward(self, input, hx)


class LSTM(_Layers):
    """torch.nn.LSTM, run by ecornn: same arguments, parameters, results and errors."""

    _torch = _nn.LSTM
    get_expected_cell_size = _nn.LSTM.get_expected_cell_size
    check_forward_args = _nn.LSTM.check_forward_args
    permute_hidden = _nn.LSTM.permute_hidden

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)


class GRU(_Layers):
    """torch.nn.GRU, run by ecornn: same arguments, parameters, results and errors."""

    _torch = _nn.GRU

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size: only LSTM has it, not GRU")
        super().__init__("GRU", *args, **kwargs)


class RNN(_Layers):
    """torch.nn.RNN, run by ecornn: same arguments, parameters, results and errors."""

    _torch = _nn.RNN

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size: only LSTM has it, not RNN")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if self.nonlinearity not in modes:
            raise ValueError(f"nonlinearity is {self.nonlinearity!r}, must be 'tanh' or 'relu'")
        super().__init__(modes[self.nonlinearity], *args, **kwargs)


OURS = {_nn.LSTM: LSTM, _nn.GRU: GRU, _nn.RNN: RNN}


def _twin(module, kind: type):
    """A module of that class with this one's attributes, parameters and hooks."""
    twin = kind.__new__(kind)
    twin.__dict__.update(module.__dict__)
    twin.__dict__.pop("_again", None)
    for name in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[name] = module.__dict__[name].copy()
    twin._flat_weights = list(module._flat_weights)
    return twin


def to_torch(module: _Layers):
    """torch.nn's module with the same parameters (the same tensors, not copies)."""
    return _twin(module, module._torch)


def from_torch(module):
    """This package's module with the parameters of one of torch.nn's (the same tensors)."""
    return _twin(module, OURS[type(module)])
