"""Several models of the same layers as one module: each run runs all of them."""

from __future__ import annotations

import torch

from . import _call
from ._spec import CELLS
from .recurrent import Recurrent

_SIZES = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
          "bidirectional", "proj_size", "heads", "grouped_input")


class Ensemble(Recurrent):
    """M sets of weights of the same layers: ``y, final = ensemble(x, hx, lengths)``.

    cell: ``lstm``, ``gru``, ``rnn-tanh`` or ``rnn-relu``, with torch.nn's parameters and biases;
    any other built-in cell, or a text, with Recurrent's.  heads, grouped_input, saving: as in
    Recurrent; memory_limit must be 0.  All parameters have M first, as from
    torch.func.stack_module_state: ``weight_ih_l0`` is [M,4*H,I].

    x is [M,T,N,I], or [T,N,I] shared by all models; [M,N,T,I] or [N,T,I] if batch_first.  y and
    the states have M first.  Each model has the bits of a run by itself, on a GPU of a run with the
    same choices.  Each model has its own gradient; the gradient of a shared x is the sum.

    >>> import torch, ecornn.torch
    >>> ensemble = ecornn.torch.Ensemble(8, "gru", 3, 4)
    >>> y, h = ensemble(torch.zeros(5, 2, 3))
    >>> tuple(y.shape), tuple(h.shape), tuple(ensemble.weight_hh_l0.shape)
    ((8, 5, 2, 4), (8, 1, 2, 4), (8, 12, 4))
    """

    _NEEDS = "x must be a tensor of the parameters' type, three or four dimensions, the last input_size"

    def __init__(self, models: int, cell: str, input_size: int, hidden_size: int,
                 num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None, *, heads: int = 1, grouped_input: bool = False,
                 saving: str = "auto", memory_limit: int = 0) -> None:
        if not isinstance(models, int) or isinstance(models, bool):
            raise TypeError(f"models is {models!r}, must be an int")
        if models < 1:
            raise ValueError(f"models is {models}, must be at least 1")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout is {dropout}, must be 0 to less than 1")
        if memory_limit != 0:
            raise ValueError(f"memory_limit is {memory_limit!r}, must be 0 with models")
        self.models = models  # read by _spec
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype, cell=cell, heads=heads,
                         grouped_input=grouped_input, saving=saving)

    @classmethod
    def of(cls, modules) -> Ensemble:
        """An ensemble of these modules, with copies of their weights: torch.nn's LSTM, GRU or RNN,
        this package's, or Recurrent, all with the same sizes, type, device and mode.

        As with torch.func.stack_module_state, requires_grad of a parameter must be the same in all.
        """
        modules = list(modules)
        if not modules:
            raise ValueError("modules is empty, must have at least one")
        first, kind = modules[0], _arguments_of(modules[0], 0)
        for k, module in enumerate(modules):
            if _arguments_of(module, k) != kind:
                raise ValueError(f"modules[{k}] is {module}, must be as modules[0], {first}")
            if module.training != first.training:
                raise ValueError(f"modules[{k}].training is {module.training}, must be "
                                 f"{first.training}, as modules[0].training")
            for (name, one), other in zip(first.named_parameters(), module.parameters()):
                if _place_of(one) != _place_of(other):
                    raise ValueError(f"modules[{k}].{name} is {_place_of(other)}, must be "
                                     f"{_place_of(one)}, as modules[0].{name}")
        like = next(first.parameters(), torch.empty(0))  # for a cell without parameters
        made = cls(len(modules), **kind, device=like.device, dtype=like.dtype)
        made.load_state_dicts([module.state_dict() for module in modules])
        for name, parameter in first.named_parameters():
            getattr(made, name).requires_grad_(parameter.requires_grad)
        return made.train(first.training)

    def state_dicts(self) -> list[dict[str, torch.Tensor]]:
        """The state_dict of each of the M models, which torch.nn's module accepts: views of these
        parameters."""
        return [{name: value[m] for name, value in self.state_dict().items()}
                for m in range(self.models)]

    def load_state_dicts(self, dicts) -> None:
        """Copies M state_dicts, such as torch.nn.LSTM's, one for each model."""
        dicts = list(dicts)
        if len(dicts) != self.models:
            raise ValueError(f"dicts has {len(dicts)}, must have {self.models}, one for each model")
        for m, one in enumerate(dicts):
            if one.keys() != dicts[0].keys():
                raise ValueError(f"dicts[{m}] has {sorted(one)}, must have {sorted(dicts[0])}, as "
                                 "dicts[0]")
        self.load_state_dict({name: torch.stack([one[name] for one in dicts])
                              for name in dicts[0]})

    def extra_repr(self) -> str:
        return f"{self.models}, " + super().extra_repr()

    def forward(self, input, hx=None, lengths=None, resets=None, reset_state=None, mask=None,
                repeat_padding=False, all_states=False):
        """y and the final states, in Recurrent's form with M first.

        input: [M,T,N,I], or [T,N,I] shared by all models; batch_first: [M,N,T,I] or [N,T,I].
        lengths: [M,N], for a shared input [N].  resets, mask: shaped as input without I.  hx: a
        state or a tuple of states, [M,L*D,N,*]; reset_state: shaped as hx, or one row for all,
        [M,L*D,1,*].  all_states: y, final and the states of every step, [M,L*D,T,N,*].
        """
        return super().forward(
            input, hx, lengths=lengths, resets=resets, reset_state=reset_state, mask=mask,
            repeat_padding=repeat_padding, all_states=all_states)

    def _check(self, x, weights) -> None:
        if not _call.fits(x, weights, True):
            raise ValueError("x must be a padded tensor of floats on the parameters' device, a CPU "
                             "or CUDA device")
        order = "N,T" if self.batch_first else "T,N"
        lead = x.shape[:-3]
        if (x.dim() not in (3, 4) or x.shape[-1] != self.input_size
                or lead not in ((), (self.models,))):
            raise ValueError(f"x is {list(x.shape)}, must be [{self.models},{order},"
                             f"{self.input_size}], or [{order},{self.input_size}] for all models")
        if not x.shape[-2 if self.batch_first else -3]:
            raise ValueError(f"x is {list(x.shape)}, must have one step or more")


def _place_of(parameter) -> str:
    return (f"{parameter.dtype} on {parameter.device} with requires_grad="
            f"{parameter.requires_grad}")


def _arguments_of(module, k: int) -> dict[str, object]:
    """The constructor arguments for such modules, except their number."""
    cell = CELLS.get(getattr(module, "mode", None), getattr(module, "cell_text", None))
    if not isinstance(module, (torch.nn.RNNBase, Recurrent)) or isinstance(module, Ensemble):
        raise TypeError(f"modules[{k}] is {type(module).__name__}, must be an LSTM, GRU or RNN of "
                        "torch.nn or of ecornn.torch, or a Recurrent")
    return {"cell": cell, **{name: getattr(module, name, getattr(Recurrent, name, None))
                             for name in _SIZES}}
