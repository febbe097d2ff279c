"""A module's forward: from the caller's arguments to a run, and back.

Modules have sizes as attributes with torch.nn's names, ``_spec``, and ``_otherwise``, which handles
input that ecornn does not support.
"""

from __future__ import annotations

import warnings

import torch
from torch.nn.utils.rnn import PackedSequence

from .. import _library as lib
from .._plan import limit_of, saving_of
from . import _call, _graph, _kept, _watched
from ._dynamo import eager
from ._freezing import Freezing
from ._given import check_lengths, check_steps
from ._packing import packing_of
from ._run import Given
from ._spec import CELLS, Layers, Spec, spec_of
from ._watched import PLAIN


class Forward(Freezing):
    """The forward of every module of this package.

    saving, memory_limit: what forward saves for backward, and its limit in bytes, as ecornn.Layer's.
    Both may be set on any module at any time: ``layer.saving = "every:16"``.
    """

    saving = "auto"
    memory_limit = 0
    heads = 1  # only Recurrent has more
    grouped_input = False
    models = 0  # of an Ensemble
    _NEEDS = ("resets, mask, repeat_padding, all_states: the input must be a tensor [T,N,I] of the weights' "
              "type")

    def _sizes(self) -> tuple:
        """Layers' fields from input to models."""
        return (self.input_size, self.hidden_size, self.num_layers, self.bias, self.bidirectional,
                self.proj_size, self.memory_limit, self.heads, self.grouped_input, self.models)

    def _spec(self) -> Spec:
        return spec_of(Layers(CELLS.get(self.mode) or self.cell_text, *self._sizes(), self.saving,
                              self.dropout))

    def _keep(self, saving: str, memory_limit: int) -> None:
        """Sets a constructor's saving and memory_limit."""
        saving_of(saving)
        self.saving, self.memory_limit = saving, limit_of(memory_limit)

    def _kept_repr(self) -> str:
        return (f", saving={self.saving!r}" * (self.saving != "auto")
                + f", memory_limit={self.memory_limit}" * (self.memory_limit != 0))

    def _get_name(self) -> str:
        """For repr, because torch.nn's classes have the same names."""
        return ("ecornn.torch." * type(self).__module__.startswith("ecornn.") + type(self).__name__)

    def flatten_parameters(self) -> None:
        """Frees packed weights, and memory kept for training."""
        self.unfreeze_weights()
        _kept.forget(self._tensors())

    def _load_from_state_dict(self, *arguments, **more):
        self.flatten_parameters()  # weak references would forbid torch.utils.swap_tensors
        torchs = hasattr(self, "_flat_weight_refs")
        if torchs:
            self._flat_weight_refs: list = []
        super()._load_from_state_dict(*arguments, **more)
        if torchs:
            self._init_flat_weights()

    def _tensors(self) -> list:
        """The current weights, parametrised or swapped ones included; for a run without gradients
        the frozen ones."""
        parameters = self._parameters
        try:
            tensors = [parameters[name] for name in self._flat_weights_names]
        except KeyError:
            return [getattr(self, name) for name in self._flat_weights_names]
        return self._serving(tensors)

    def forward(self, input, hx=None, *, lengths=None, resets=None, reset_state=None, mask=None,
                repeat_padding=False, all_states=False):
        """y and the final states, in the form of torch.nn's module.

        input: [T,N,I], [N,T,I] if batch_first, [T,I], or a PackedSequence.  hx: the initial state
        or states, [L*D,N,*] or [L*D,*].  lengths: [N] integers, the number of steps of each row of
        a padded input; y is 0 past them, and the final states are those after a row's last step.

        resets: [T,N], or [N,T] if batch_first.  Where it is nonzero, a row's states are replaced
        before that step, in the order in which a direction takes the steps, by those of
        reset_state.  This is shaped as hx or has one row for all, [L*D,1,*]; None: as without hx.
        No gradient crosses a reset.

        mask: shaped as resets.  Where it is 0 or False, the step does not count, as in Keras: the
        row keeps its states, and x is ignored.  y repeats the direction's last step that counts,
        and is 0 before the first.  repeat_padding: steps past lengths are treated so, too.

        all_states: returns y, final and the states of every step, [L*D,T,N,*] whatever batch_first
        is; h of a lower layer is its output.  All of them are differentiable.
        """
        if reset_state is not None and resets is None:
            raise ValueError("reset_state is given, but no resets")
        more = self.models or resets is not None or mask is not None or repeat_padding or all_states
        compiling = torch.compiler.is_compiling()
        if not (compiling or more) and lengths is None and type(input) in PLAIN:
            again = self.__dict__.get("_again")
            if again is not None:
                again = again[torch.is_grad_enabled()]
                out = None if again is None else again.run(input, hx, self._tensors())
                if out is not None:
                    return out
        if lengths is not None and isinstance(input, PackedSequence):
            raise ValueError("lengths is given, but a PackedSequence has its own")
        given, flags = (resets, reset_state, mask), (
            lib.REPEAT_PADDING * repeat_padding | lib.ALL_STATES * all_states)
        if compiling:
            return self._compiled(input, hx, lengths, given, flags)
        node = _graph.node(self, (input, hx), {
            "lengths": lengths, "resets": resets, "reset_state": reset_state, "mask": mask,
            "repeat_padding": repeat_padding, "all_states": all_states})
        if node is not None:
            return node
        if more:
            return self._with_steps(input, hx, lengths, given, flags)
        out = None
        if type(input) is PackedSequence:
            out = self._packed(input, hx, self._tensors())
        elif _call.fits(input, weights := self._tensors(), self.mode == "TEXT"):
            out = self._padded(input, hx, lengths, weights)
        return self._otherwise(input, hx, lengths) if out is None else out

    def _compiled(self, input, hx, lengths, given, flags):
        """forward in a graph of torch.compile or torch.export."""
        more = self.models or given[0] is not None or given[2] is not None or flags
        if isinstance(input, PackedSequence) and not more:
            out = self._packed_apart(input, hx)
        elif more and not (torch.is_tensor(input) and input.dim() >= 3):
            out = None
        else:
            out = _graph.module(self, input, hx, lengths, given, flags)
        if out is None and more:
            raise ValueError(self._NEEDS)
        return self._otherwise(input, hx, lengths) if out is None else out

    def _apply(self, fn, recurse=True):
        self.flatten_parameters()  # weak references would forbid torch.utils.swap_tensors
        return super()._apply(fn, recurse)

    def __setattr__(self, name, value):
        if name == "qconfig":  # as torch.ao.quantization marks the modules of a model
            warnings.warn(f"torch's quantisation leaves {self._get_name()} as it is: quantise "
                          "before ecornn.torch.replace", stacklevel=2)
        super().__setattr__(name, value)

    @eager
    def _packed_apart(self, input, hx):
        """Outside a graph: N is a value in batch_sizes, which no graph knows."""
        return self._packed(input, hx, self._tensors())

    def _states(self, hx, batch: int, dim: int, device):
        """Initial states as [L*D,N,*]; None for wrong shapes or devices."""
        spec = self._spec()
        if hx is None:
            return spec, [None] * spec.states
        states = list(hx) if spec.states > 1 else [hx]
        if len(states) != spec.states:
            return spec, None
        for k, state in enumerate(states):
            if not torch.is_tensor(state) or state.dim() != dim:
                return spec, None
            if dim == 2:
                states[k] = state = state.unsqueeze(1)
            if state.shape != (spec.pairs, batch, spec.widths[k]) or state.device != device:
                return spec, None
        return spec, states

    def _padded(self, x, hx, lengths, weights):
        dim = x.dim()
        if dim not in (2, 3) or x.shape[-1] != self.input_size:
            return None
        batch_major = self.batch_first
        if dim == 2:
            x = x.unsqueeze(0 if batch_major else 1)
        batch, steps = x.shape[0], x.shape[1]
        if not batch_major:
            batch, steps = steps, batch
        spec, states = self._states(hx, batch, dim, x.device)
        if states is None or not steps:
            return None
        if lengths is not None:
            lengths = check_lengths(lengths, steps, (batch,), x.device)
        out = _call.layer(spec, Given(x, lengths, states, weights), batch_major, self.training)
        if out is None:
            return None
        if dim == 3 and lengths is None and not _watched.anything() and type(x) in PLAIN:
            gradient = torch.is_grad_enabled()
            self.__dict__.setdefault("_again", [None, None])[gradient] = _call.again(
                spec, x, weights, batch_major, self.training, gradient)
        if dim == 2:
            out = (out[0].squeeze(0 if batch_major else 1), *[s.squeeze(1) for s in out[1:]])
        return out[0], out[1] if spec.states == 1 else out[1:]

    def _check(self, x, weights) -> None:
        if not _call.fits(x, weights, True) or x.dim() != 3 or (
                x.shape[2] != self.input_size or 0 in x.shape):
            raise ValueError("resets, mask, repeat_padding, all_states: the input must be a tensor "
                             "[T,N,I], not packed, unbatched or empty, on a CPU or CUDA device")

    @eager
    def _with_steps(self, x, hx, lengths, given, flags):
        """For a padded input with (resets, reset_state, mask), of one model or several.  What ecornn
        does not support is an error, because torch has none of these."""
        weights, spec = self._tensors(), self._spec()
        self._check(x, weights)
        lead, (resets, reset_state, mask) = x.shape[:-3], given
        batch, steps = x.shape[-3:-1] if self.batch_first else x.shape[-2:-4:-1]
        resets, mask = (check_steps(name, one, x, self.batch_first)
                        for name, one in (("resets", resets), ("mask", mask)))
        states, starts = (_listed(name, one, spec, batch, x.device)
                          for name, one in (("hx", hx), ("reset_state", reset_state)))
        if lengths is not None:
            lengths = check_lengths(lengths, steps, (*lead, batch), x.device)
        flags |= lib.SHARED_INPUT * (not lead and self.models > 1)
        out = _call.layer(spec, Given(x, lengths, states, weights, resets, starts, mask),
                          self.batch_first, self.training, flags)
        if out is None:
            kinds = ", ".join({str(weight.dtype) for weight in weights})
            raise ValueError(f"x is {x.dtype}, which does not go with parameters of {kinds}")
        y, *rest = out
        parts = [tuple(rest[k:k + spec.states]) for k in range(0, len(rest), spec.states)]
        return (y, *(part[0] if spec.states == 1 else part for part in parts))

    def _packed(self, input, hx, weights):
        data, batch_sizes, sorted_indices, unsorted_indices = input
        if not _call.fits(data, weights, self.mode == "TEXT") or data.dim() != 2 or (
                data.shape[1] != self.input_size):
            return None
        if not len(batch_sizes):
            return None
        packing = packing_of(batch_sizes, data.device)
        spec, states = self._states(hx, packing.batch, 3, data.device)
        if states is None:
            return None
        if sorted_indices is not None:
            states = [None if state is None else state.index_select(1, sorted_indices)
                      for state in states]
        out = _call.layer(spec, Given(data, packing, states, weights), False, self.training)
        if out is None:
            return None
        final = out[1:]
        if unsorted_indices is not None:
            final = tuple(state.index_select(1, unsorted_indices) for state in final)
        y = PackedSequence(out[0], batch_sizes, sorted_indices, unsorted_indices)
        return y, final[0] if spec.states == 1 else final


def _listed(name: str, given, spec: Spec, batch: int, device) -> list:
    """States [L*D,N,*], with models [M] first, of reset states with one row expanded to all; or None each."""
    if given is None:
        return [None] * spec.states
    states = list(given) if isinstance(given, (tuple, list)) else [given]
    shapes = spec.state_shapes(batch)
    if name == "reset_state":
        states = [state.expand(*state.shape[:-2], batch, -1) if state.shape[-2:-1] == (1,) else state
                  for state in states]
    found = [(tuple(state.shape), state.device) for state in states]
    if found != [(shape, device) for shape in shapes]:
        raise ValueError(f"{name} is {[list(state.shape) for state in states]}, must be "
                         f"{[list(shape) for shape in shapes]} on {device}")
    return states
