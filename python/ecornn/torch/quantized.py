"""Recurrent layers in int8 on a CPU: torch.ao.quantization.quantize_dynamic, run by ecornn."""

from __future__ import annotations

import copy
import sys

import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ..layer import Layer
from ._spec import CELLS

_nn = torch.nn


def _made_by_torch() -> tuple[type, ...]:
    """torch's own quantised layers; none before their import, which is slow."""
    made = sys.modules.get("torch.ao.nn.quantized.dynamic")
    return (made.LSTM, made.GRU) if made else ()


def _takes(module) -> bool:
    return isinstance(module, (_nn.LSTM, _nn.GRU, _nn.RNN, *_made_by_torch()))


class Quantized(_nn.Module):
    """An LSTM, GRU or RNN of torch.nn, or an LSTM or GRU that torch has quantised, for inference in
    int8 on a CPU.

    weights: "int8": products read x and h as integers of 8 bits too; "int8-weights": as floats.
    Called as the module, with float32; results have no gradient.  layer: the ecornn.Layer with the
    weights; integers of a module that torch has quantised stay the same.

    >>> import torch
    >>> module = Quantized(torch.nn.GRU(3, 4, batch_first=True))
    >>> y, h = module(torch.zeros(2, 5, 3))
    >>> tuple(y.shape), tuple(h.shape)
    ((2, 5, 4), (1, 2, 4))
    """

    def __init__(self, module: _nn.Module, weights: str = "int8"):
        super().__init__()
        if not _takes(module):
            raise TypeError(f"module is {type(module).__name__}, must be an LSTM, GRU or RNN")
        made = isinstance(module, _made_by_torch())
        self.layer = Layer(
            CELLS[module.mode], module.input_size, module.hidden_size, layers=module.num_layers,
            proj=getattr(module, "proj_size", 0), batch_first=module.batch_first,
            bidirectional=module.bidirectional, device=f"cpu:{torch.get_num_threads()}", weights=weights)
        given = module if made else {
            name: array.detach().float().cpu().numpy() for name, array in module.named_parameters()}
        if not made and not module.bias:
            zero = torch.zeros(module.weight_ih_l0.shape[0]).numpy()
            given |= {name.replace("weight", "bias"): zero for name in given if "weight_hr" not in name}
        self.layer.load(given) if made else self.layer.load("torch", given)
        self.layer.freeze_weights()

    def __setstate__(self, state):
        super().__setstate__(state)
        self.layer.freeze_weights()

    def get_extra_state(self):
        return torch.from_numpy(self.layer.parameters.block.copy())

    def set_extra_state(self, state):
        self.layer.load("ecornn", state.numpy())
        self.layer.freeze_weights()

    def extra_repr(self) -> str:
        return repr(self.layer)

    def forward(self, input, hx=None):
        """y and the final state, or the two of an LSTM; input and hx as torch.nn's."""
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        alone = input.dim() == 2
        along = 0 if self.layer.batch_first else 1
        states = () if hx is None else tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        y, final = self._run(input.unsqueeze(along) if alone else input,
                             [state.unsqueeze(1) if alone else state for state in states])
        if alone:
            y, final = y.squeeze(along), [state.squeeze(1) for state in final]
        return y, tuple(final) if len(final) > 1 else final[0]

    def _run(self, x: torch.Tensor, states, lengths=None):
        given = tuple([state.detach().numpy() for state in states]) or None
        y, final = self.layer(x.detach().numpy(), given, lengths)
        return torch.from_numpy(y), [torch.from_numpy(state) for state in final]

    def _packed(self, input, hx):
        first, order, back = self.layer.batch_first, input.sorted_indices, input.unsorted_indices
        x, lengths = pad_packed_sequence(PackedSequence(input.data, input.batch_sizes), first)
        states = () if hx is None else tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if order is not None:
            states = [state.index_select(1, order) for state in states]
        y, final = self._run(x, states, lengths.numpy())
        made = pack_padded_sequence(y, lengths, first)
        if back is not None:
            final = [state.index_select(1, back) for state in final]
        return (PackedSequence(made.data, made.batch_sizes, order, back),
                tuple(final) if len(final) > 1 else final[0])


def quantize_dynamic(model: _nn.Module, weights: str = "int8") -> _nn.Module:
    """A copy of a model, for inference on a CPU, in which every LSTM, GRU and RNN, quantised by torch
    or not, is Quantized; all else stays, so torch's quantize_dynamic may do the linear layers before
    or after.  weights: see Quantized.
    """
    if _takes(model):
        return Quantized(model, weights).eval()
    made = copy.deepcopy(model)
    for module in list(made.modules()):
        for name, child in module._modules.items():
            if _takes(child):
                module._modules[name] = Quantized(child, weights)
    return made.eval()
