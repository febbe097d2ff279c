"""Layers of any cell as modules: from a text, or by name."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import torch
from torch.nn import Parameter

from .._plan import key_of
from ..cell import Cell, cells
from ._forward import Forward


class Recurrent(Forward, torch.nn.Module):
    """Recurrent layers of a cell that is given as text (doc/cells.md) or by name, such as "mgu", which
    is built in, or "lif", one of the library ``ecornn.cells``.

    Arguments and results are torch.nn.LSTM's: ``y, final = layer(x, hx)``; hx and final are a
    tensor if the cell has one state, else a tuple.  The first state is [L*D,N,P], others are
    [L*D,N,H].  Arguments that torch.nn lacks are keyword arguments: ``cell`` and those below.

    Parameters, for each layer k and, with ``_reverse``, its other direction: ``weight_ih_lk``, the
    text's W stacked in its order [count*H,I], I without the parts of x; ``weight_hh_lk``, its R [count*H,P];
    ``bias_lk``, its b, and ``factor_lk``, its p [count*H]; ``weight_hr_lk`` [P,H] with a projection.

    bias: with False every b of the text is 0, and there is no ``bias_lk``.

    A cell with a matrix state, such as "gated-delta", has one [K,V] of each head: hidden_size is
    heads*V, input_size the sum of the parts of x, and the state is [1,N,heads*K*V], in float32 also
    with 16-bit x.  key: K, which input_size determines, to be checked; 0: unchecked.

    heads: K; each R has a matrix [H/K,H/K] for each head, stacked: ``weight_hh_lk`` is
    [count*H,H/K].  grouped_input: W also reads only its head's part of the layer's input:
    ``weight_ih_lk`` is [count*H,I/K], above the first layer [count*H,D*H/K].

    saving, memory_limit: what forward saves for backward, and its limit in bytes, as ecornn.Layer's.

    Raises TypeError or ValueError for a wrong argument, naming it and its limit.

    >>> import torch, ecornn.torch
    >>> layer = ecornn.torch.Recurrent(3, 4, cell=\"\"\"cell mine(h)
    ... u  = sigmoid(W x + R h + b)
    ... n  = tanh(W x + R h + b)
    ... h' = u * h + (1 - u) * n
    ... \"\"\")
    >>> y, h = layer(torch.zeros(5, 2, 3))
    >>> tuple(y.shape), tuple(h.shape)
    ((5, 2, 4), (1, 2, 4))
    """

    mode = "TEXT"
    cell = ""  # set by classes that are one cell

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 proj_size: int = 0, device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None, *, cell: str | None = None, heads: int = 1,
                 key: int = 0, grouped_input: bool = False, saving: str = "auto", memory_limit: int = 0) -> None:
        super().__init__()
        self._keep(saving, memory_limit)
        for name, value, least in (("input_size", input_size, 1), ("hidden_size", hidden_size, 1),
                                   ("num_layers", num_layers, 1), ("proj_size", proj_size, 0),
                                   ("heads", heads, 1), ("key", key, 0)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} is {value!r}, must be an int")
            if value < least:
                raise ValueError(f"{name} is {value}, must be at least {least}")
        for name, value in (("bias", bias), ("batch_first", batch_first),
                            ("bidirectional", bidirectional), ("grouped_input", grouped_input)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} is {value!r}, must be a bool")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout is {dropout}, must be 0 to 1")
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"dropout is {dropout}, but goes between layers, of which there is one",
                          stacklevel=2)
        if hidden_size % heads:
            raise ValueError(f"heads is {heads}, must divide hidden_size, which is {hidden_size}")
        self.cell_text = cells.text_of(self.cell if cell is None else cell)
        if not self.cell_text:
            raise ValueError("cell is missing: a cell's text, or its name")
        found = key_of(self.cell_text, input_size, hidden_size, heads)
        if key not in (0, found):
            raise ValueError(f"key is {key}, must be {found} with input_size {input_size}")
        parts = input_size if found else sum(
            size or hidden_size for _, size in Cell(self.cell_text).parts)
        if grouped_input and (heads == 1 or (input_size - parts) % heads):
            raise ValueError(f"heads is {heads} with grouped_input, must be at least 2 and divide "
                             f"input_size, which is {input_size}" +
                             f", without {parts} of parts" * (parts > 0))
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self.heads, self.grouped_input = heads, grouped_input
        spec = self._spec()
        self._flat_weights_names = []
        for layer in range(num_layers):
            for direction in range(spec.directions):
                suffix = f"_l{layer}" + "_reverse" * direction
                for name, shape in zip(spec.names, spec.shapes(layer)):
                    self.register_parameter(name + suffix, Parameter(
                        torch.empty(shape, device=device, dtype=dtype)))
                    self._flat_weights_names.append(name + suffix)
        self.reset_parameters()

    @property
    def _flat_weights(self) -> list:
        return [getattr(self, name) for name in self._flat_weights_names]

    def reset_parameters(self) -> None:
        """Uniform within 1 / sqrt(H), as torch.nn's layers begin."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        head = re.search(r"^\s*cell\s+([\w-]+)", self.cell_text, re.M)
        name = head.group(1) if head else self.cell_text
        text = f"{self.input_size}, {self.hidden_size}, cell={name!r}"
        for attribute, default in (("num_layers", 1), ("bias", True), ("batch_first", False),
                                   ("dropout", 0.0), ("bidirectional", False), ("proj_size", 0),
                                   ("heads", 1), ("grouped_input", False)):
            value = getattr(self, attribute)
            if value != default:
                text += f", {attribute}={value}"
        return text + self._kept_repr()

    def _otherwise(self, input, hx, lengths):
        data = input[0] if isinstance(input, tuple) else input
        kind = self._flat_weights[0].dtype if self._flat_weights_names else "any type"
        states = hx if isinstance(hx, (tuple, list)) else [hx] * (hx is not None)
        raise ValueError(
            f"{type(self).__name__} takes x [T,N,{self.input_size}], unbatched or packed, on a CPU "
            f"or CUDA device, with {kind} as its weights, without tracers; "
            f"x is {list(data.shape)}, {data.dtype} on {data.device}, states "
            f"{[(list(state.shape), state.dtype) for state in states]}")


class PeepholeLSTM(Recurrent):
    """LSTM with peepholes (Gers, Schraudolph and Schmidhuber 2002)."""

    cell = "lstm-peephole"


class CoupledLSTM(Recurrent):
    """LSTM whose forget gate is 1 - i (Greff et al. 2015)."""

    cell = "lstm-coupled"


class ResetFirstGRU(Recurrent):
    """GRU with the reset before the product, as published (Cho et al. 2014)."""

    cell = "gru-reset-first"


class MGU(Recurrent):
    """Minimal gated unit (Zhou et al. 2016)."""

    cell = "mgu"


class IndRNN(Recurrent):
    """Independently recurrent network (Li et al. 2018): each unit sees only its own past."""

    cell = "indrnn"


class LayerNormLSTM(Recurrent):
    """LSTM with layer normalisation of each gate and of the memory (Ba, Kiros and Hinton 2016).

    Gains (``factor``) begin at 1, shifts (``bias``) at 0, except the forget gate's, which begins at
    1.
    """

    cell = """cell layer-norm-lstm(h, c)
ai = W x + R h
af = W x + R h
ag = W x + R h
ao = W x + R h
di = ai - mean(ai)
df = af - mean(af)
dg = ag - mean(ag)
do = ao - mean(ao)
i  = sigmoid(p * di / sqrt(mean(di * di) + 1e-5) + b)
f  = sigmoid(p * df / sqrt(mean(df * df) + 1e-5) + b)
g  = tanh(p * dg / sqrt(mean(dg * dg) + 1e-5) + b)
o  = sigmoid(p * do / sqrt(mean(do * do) + 1e-5) + b)
c' = f * c + i * g
d  = c' - mean(c')
h' = o * tanh(p * d / sqrt(mean(d * d) + 1e-5) + b)
"""

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for name, parameter in self.named_parameters():
            if name.startswith("factor"):
                torch.nn.init.ones_(parameter)
            elif name.startswith("bias"):
                torch.nn.init.zeros_(parameter)
                with torch.no_grad():
                    parameter[self.hidden_size:2 * self.hidden_size] = 1.0


class ZoneoutLSTM(Recurrent):
    """LSTM whose units keep their value for a step with some probability in training (Krueger et
    al. 2017); outside training they take the expected mixture."""

    def __init__(self, *args: Any, zoneout_h: float = 0.1, zoneout_c: float = 0.5,
                 **kwargs: Any) -> None:
        for name, value in (("zoneout_h", zoneout_h), ("zoneout_c", zoneout_c)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}, must be at least 0 and below 1")
        text = cells["zoneout-lstm"].replace("j  = bernoulli(0.5)", f"j  = bernoulli({zoneout_c})").replace(
            "k  = bernoulli(0.05)", f"k  = bernoulli({zoneout_h})")
        super().__init__(*args, cell=text, **kwargs)
