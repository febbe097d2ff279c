"""Recurrent layers in int8 on a CPU: torch.ao.quantization.quantize_dynamic, run by ecornn."""

from __future__ import annotations

import copy
import sys
import warnings

import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.weak import WeakTensorKeyDictionary

from .._errors import BadArgument, printable
from . import _derivative, _graph, _watched
from ._given import check_lengths
from ._spec import CELLS, Layers, spec_of
from .modules import GRU, LSTM, RNN

_nn = torch.nn
_HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
          "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs")


def _made_by_torch() -> tuple[type, ...]:
    """torch's own quantised layers; none before their import, which is slow."""
    made = sys.modules.get("torch.ao.nn.quantized.dynamic")
    return (made.LSTM, made.GRU) if made else ()


def _takes(module) -> bool:
    """Is it one of the classes themselves?  A subclass or a module may have a forward of its own."""
    return (type(module) in {_nn.LSTM, _nn.GRU, _nn.RNN, LSTM, GRU, RNN, *_made_by_torch()}
            and "forward" not in vars(module))


def _check(weights) -> None:
    if weights not in ("int8", "int8-weights"):
        raise BadArgument(f"weights is {weights!r}, must be int8 or int8-weights")


def _in_form(states):
    """As torch.nn returns states: a tensor, if there is only one."""
    return tuple(states) if len(states) > 1 else states[0]


# ---- the operator, where something sees operators -----------------------------------------------

_layers = WeakTensorKeyDictionary()  # by the block of weights
torch.library.define("ecornn::quantized", "(Tensor x, Tensor? lengths, Tensor[]? states, Tensor block, "
                     "str cell, int[] shape, str weights) -> Tensor[]")


def _layer(cell: str, shape, weights: str):
    from ..layer import Layer  # with numpy, which ecornn.torch does without

    input, hidden, layers, first, both, proj = shape
    return Layer(cell, input, hidden, layers=layers, proj=proj, batch_first=bool(first),
                 bidirectional=bool(both), device=f"cpu:{torch.get_num_threads()}", weights=weights)


def _run(layer, x, lengths, states) -> list:
    """y and the final states."""
    given = None if states is None else tuple([state.resolve_neg().numpy() for state in states])
    y, final = layer(x.resolve_neg().numpy(), given, None if lengths is None else lengths.numpy())
    return [torch.from_numpy(one) for one in (y, *final)]


@torch.library.impl("ecornn::quantized", "cpu")
def _quantized(x, lengths, states, block, *words):
    layer = _layers.get(block)
    if layer is None:  # of a graph that has been loaded
        layer = _layers[block] = _layer(*words)
        layer.load("ecornn", block.numpy())
        layer.freeze_weights()
    return _run(layer, x, lengths, states)


_derivative.map_rows("quantized")


@torch.library.register_fake("ecornn::quantized")
def _quantized_fake(x, *arguments):
    *_, cell, (input, hidden, layers, first, both, proj), _ = arguments
    spec = spec_of(Layers(cell, input, hidden, layers, True, bool(both), proj))
    batch = x.shape[0 if first else 1]
    return [*map(x.new_empty, ((*x.shape[:2], spec.out), *spec.state_shapes(batch)))]


class Quantized(_nn.Module):
    """An LSTM, GRU or RNN of torch.nn, or an LSTM or GRU that torch has quantised, for inference in
    int8 on a CPU.

    weights: "int8": products read x and h as integers of 8 bits too; "int8-weights": as floats.
    Called as the module, with float32; results have no gradient.  It has the module's sizes and
    forward hooks, and runs on torch.get_num_threads() threads, as many as there are when it is made.
    layer: the ecornn.Layer with the weights; integers of a module that torch has quantised stay the
    same.  Raises TypeError for other modules, subclasses included, and BadArgument for weights.

    >>> import torch
    >>> module = Quantized(torch.nn.GRU(3, 4, batch_first=True))
    >>> y, h = module(torch.zeros(2, 5, 3))
    >>> tuple(y.shape), tuple(h.shape)
    ((2, 5, 4), (1, 2, 4))
    """

    def __init__(self, module: _nn.Module, weights: str = "int8"):
        super().__init__()
        _check(weights)
        if not _takes(module):
            raise TypeError(f"module is {type(module).__name__}, must be an LSTM, GRU or RNN of torch.nn or "
                            "ecornn.torch, no subclass, without a forward of its own")
        for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
                     "bidirectional", "proj_size"):
            setattr(self, name, getattr(module, name, 0))  # torch's quantised ones lack proj_size
        for name in _HOOKS:
            setattr(self, name, copy.copy(getattr(module, name)))
        made = isinstance(module, _made_by_torch())
        self.mode = module.mode
        self.layer = _layer(*self._words(weights))
        given = module if made else {
            name: array.detach().float().cpu().numpy() for name, array in module.named_parameters()}
        if not made and not module.bias:
            zero = torch.zeros(module.weight_ih_l0.shape[0]).numpy()
            given |= {name.replace("weight", "bias"): zero for name in given if "weight_hr" not in name}
        self.layer.load(given) if made else self.layer.load("torch", given)
        self._freeze()

    def _freeze(self) -> None:
        """After a load.  The operator's weights are the layer's own memory."""
        self.layer.freeze_weights()
        self._block = torch.from_numpy(self.layer.parameters.block)
        _layers[self._block] = self.layer

    def __getstate__(self):
        return {name: one for name, one in super().__getstate__().items() if name != "_block"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._freeze()

    def get_extra_state(self):
        return torch.from_numpy(self.layer.parameters.block.copy())

    def set_extra_state(self, state):
        self.layer.load("ecornn", state.numpy())
        self._freeze()

    def extra_repr(self) -> str:
        return repr(self.layer)

    def forward(self, input, hx=None, *, lengths=None):
        """y and the final state, or the two of an LSTM; input and hx as torch.nn's, lengths as
        ecornn.torch's."""
        if not torch.compiler.is_compiling():
            node = _graph.node(self, (input, hx), {"lengths": lengths})
            if node is not None:
                return node
        if hx is not None:
            hx = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError("lengths is given, but a PackedSequence has its own")
            return self._packed(input, hx)
        alone = input.dim() == 2
        along = 0 if self.batch_first else 1
        if alone:
            input, hx = input.unsqueeze(along), hx and [state.unsqueeze(1) for state in hx]
        if lengths is not None and input.dim() == 3:
            lengths = check_lengths(lengths, input.shape[1 - along], (input.shape[along],), "cpu")
        y, final = self._run(input, hx, lengths)
        if alone:
            y, final = y.squeeze(along), [state.squeeze(1) for state in final]
        return y, _in_form(final)

    def _run(self, x: torch.Tensor, hx, lengths):
        x, hx = x.detach(), None if hx is None else [state.detach() for state in hx]
        if (torch.compiler.is_compiling() or _watched.transformed()
                or _watched.by_operator((x, lengths), hx or ())):
            y, *final = torch.ops.ecornn.quantized(
                x, lengths, hx, self._block, *self._words(self.layer.weights))
            return y, final
        y, *final = _run(self.layer, x, lengths, hx)
        return y, final

    def _words(self, weights: str) -> tuple:
        """The operator's other arguments."""
        return (CELLS[self.mode], [
            self.input_size, self.hidden_size, self.num_layers, int(self.batch_first),
            int(self.bidirectional), self.proj_size], weights)

    def _packed(self, input, hx):
        order, back = input.sorted_indices, input.unsorted_indices
        x, lengths = pad_packed_sequence(PackedSequence(input.data, input.batch_sizes), self.batch_first)
        if order is not None and hx is not None:
            hx = [state.index_select(1, order) for state in hx]
        y, final = self._run(x, hx, lengths)
        made = pack_padded_sequence(y, lengths, self.batch_first)
        if back is not None:
            final = [state.index_select(1, back) for state in final]
        return PackedSequence(made.data, made.batch_sizes, order, back), _in_form(final)


def quantize_dynamic(model: _nn.Module, weights: str = "int8") -> _nn.Module:
    """A copy of a model, for inference on a CPU, in which every LSTM, GRU and RNN, quantised by torch
    or not, is Quantized; all else stays, so torch's quantize_dynamic may do the linear layers before
    or after.  As with torch's, subclasses stay; here a warning names them.  weights: see Quantized.
    """
    _check(weights)
    if _takes(model):
        return Quantized(model, weights).eval()
    made = copy.deepcopy(model)
    quantized: dict[int, Quantized] = {}
    for module in list(made.modules()):
        for name, child in module._modules.items():
            if _takes(child):
                if id(child) not in quantized:
                    quantized[id(child)] = Quantized(child, weights)
                module._modules[name] = quantized[id(child)]
    left = [f"{name or 'the model'} ({type(module).__name__})" for name, module in made.named_modules()
            if isinstance(module, _nn.RNNBase)]
    if left:
        warnings.warn("ecornn.torch.quantize_dynamic left subclasses, and modules with a forward of their "
                      f"own, as they are: {printable(', '.join(left))}", stacklevel=2)
    return made.eval()
