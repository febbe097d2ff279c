"""torch.nn's cells, under the same names."""

from __future__ import annotations

import torch

from . import _cells, _graph
from ._fallbacks import count
from ._watched import PLAIN

_nn = torch.nn


class _Cell:
    """The common part of the cells.  Constructor, parameters, state_dict and errors are torch's."""

    _torch: type  # torch.nn's class, which runs what ecornn does not support
    _number: int  # of _cells.NAMES

    def forward(self, input, hx=None):
        """The new state, of an LSTM the pair (h, c), in the form of torch.nn's cell.

        input: [N,I] or [I].  hx: the state or states, [N,H] or [H]; None: zeros.
        """
        if torch.compiler.is_compiling():
            return self._torch.forward(self, input, hx)
        out = self._step(input, hx) if type(input) in PLAIN else None
        if out is None and (node := _graph.node(self, (input, hx))) is not None:
            return node
        if out is None:
            out = self._torch.forward(self, input, hx)
            states = hx if isinstance(hx, (tuple, list)) else [hx]
            count(_cells.reason(input, list(self.parameters()), states))
        return out

    def _step(self, x, hx):
        kind, dim = self._number, x.dim()
        if kind < 0:
            return None
        if hx is None:
            if dim not in (1, 2):
                return None
            zeros = x.new_zeros((*x.shape[:-1], self.hidden_size))
            states = (zeros, zeros) if kind == 0 else (zeros,)
        else:
            states = hx if kind == 0 else (hx,)
            if type(states) not in (tuple, list):
                return None
        if dim == 1:
            for state in states:
                if not isinstance(state, torch.Tensor) or state.dim() != 1:
                    return None
            x, states = x.unsqueeze(0), [state.unsqueeze(0) for state in states]
        own = self._parameters
        try:
            weights = own["weight_ih"], own["weight_hh"], own["bias_ih"], own["bias_hh"]
        except KeyError:  # parametrised
            weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        out = _cells.run(kind, x, states, weights)
        if out is None:
            return None
        if dim == 1:
            out = [state.squeeze(0) for state in out]
        return tuple(out) if kind == 0 else out[0]

    def __prepare_scriptable__(self):
        """TorchScript compiles torch's own module, with these parameters."""
        from .modules import to_torch

        return to_torch(self)

    def _get_name(self) -> str:
        """For repr, because torch.nn's classes have the same names."""
        return ("ecornn.torch." * type(self).__module__.startswith("ecornn.")
                + type(self).__name__)


class LSTMCell(_Cell, _nn.LSTMCell):
    """torch.nn.LSTMCell: the same arguments, parameters, results and errors.

    F32 on a CPU runs by ecornn, which reads the parameters where they are; all else by torch.

    >>> import torch, ecornn.torch
    >>> h, c = ecornn.torch.LSTMCell(3, 4)(torch.zeros(2, 3))
    >>> tuple(h.shape), tuple(c.shape)
    ((2, 4), (2, 4))
    """

    _torch, _number = _nn.LSTMCell, 0


class GRUCell(_Cell, _nn.GRUCell):
    """torch.nn.GRUCell: the same arguments, parameters, results and errors; see LSTMCell.

    >>> import torch, ecornn.torch
    >>> tuple(ecornn.torch.GRUCell(3, 4)(torch.zeros(3)).shape)
    (4,)
    """

    _torch, _number = _nn.GRUCell, 1


class RNNCell(_Cell, _nn.RNNCell):
    """torch.nn.RNNCell: the same arguments, parameters, results and errors; see LSTMCell.

    >>> import torch, ecornn.torch
    >>> tuple(ecornn.torch.RNNCell(3, 4, nonlinearity="relu")(torch.zeros(2, 3)).shape)
    (2, 4)
    """

    _torch = _nn.RNNCell

    @property
    def _number(self) -> int:
        return {"tanh": 2, "relu": 3}.get(self.nonlinearity, -1)
