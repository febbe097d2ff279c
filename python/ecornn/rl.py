"""Recurrent policies of reinforcement learning packages, run by ecornn: sb3-contrib's RecurrentPPO,
TorchRL's LSTMModule and GRUModule, and rsl_rl's RNN, with the packages unchanged.

A reset between episodes goes to the layer (``resets``), so that a sequence with several episodes is
one run; steps of padding are left out; a single step, as in acting, runs as a cell.
"""

from __future__ import annotations

import importlib
import types

import torch

from . import torch as et
from .torch import cells

__all__ = ["GRU", "LSTM", "accelerate"]


class _OneStep:
    """A layer whose single steps run as a cell's, which reads the weights where they are."""

    def forward(self, input, hx=None, **more):
        out = None if more else cells.layer(self, input, hx)
        return super().forward(input, hx, **more) if out is None else out


class LSTM(_OneStep, et.LSTM):
    """ecornn.torch.LSTM for acting and training: a call of one step on a CPU is a cell's."""


class GRU(_OneStep, et.GRU):
    """ecornn.torch.GRU for acting and training: a call of one step on a CPU is a cell's."""


# ---- sb3-contrib ------------------------------------------------------------------------------


def _process_sequence(features, lstm_states, episode_starts, lstm):
    """RecurrentActorCriticPolicy._process_sequence in one run.

    features: [N*T,I].  lstm_states: [L,N,H] each.  episode_starts: [N*T], 1 where the states are
    zeros before that step.  Returns y [N*T,H] and the final states.
    """
    rows = lstm_states[0].shape[1]
    x = features.reshape((rows, -1, lstm.input_size)).swapaxes(0, 1)
    starts = episode_starts.reshape((rows, -1)).swapaxes(0, 1)
    if x.shape[0] == 1:
        stays = (1.0 - starts).view(1, rows, 1)
        y, final = lstm(x, tuple(stays * state for state in lstm_states))
    else:
        y, final = lstm(x, lstm_states, resets=starts != 0)
    return torch.flatten(y.transpose(0, 1), start_dim=0, end_dim=1), final


# ---- TorchRL ----------------------------------------------------------------------------------


def _with_resets(layer, input, hidden, first, is_init):
    """y [N,T,H] and each state [N,T,L,H], which TorchRL wants at the last step of a trajectory and 0
    elsewhere; None if a trajectory begins with other states than zeros, for which TorchRL has to
    split it off.

    input: [N,T,I].  hidden: states before each step as stored, [N,T,L,H] each; first: those before
    the first step, [L,N,H] each.  is_init: [N,T] bools.
    """
    resets = is_init.clone()
    resets[:, 0] = False  # the first step begins with what is stored for it
    if any(bool(state[resets].any()) for state in hidden):
        return None
    y, _, states = layer(input, first if len(hidden) > 1 else first[0], resets=resets,
                         all_states=True)
    ends = torch.ones_like(resets)
    ends[:, :-1] = resets[:, 1:]
    states = states if len(hidden) > 1 else (states,)
    return (y, *[torch.where(ends[..., None, None], state.permute(2, 1, 0, 3), 0.0)
                 for state in states])


class _LSTMModule:
    """TorchRL's LSTMModule, whose backend "scan" is ecornn's."""

    def _lstm_scan_with_resets(self, input, hidden0_in, hidden1_in, initial_hidden, is_init):
        found = _with_resets(self.lstm, input, (hidden0_in, hidden1_in), initial_hidden, is_init)
        return found or self._lstm_pad_with_resets(input, hidden0_in, hidden1_in, is_init)


class _GRUModule:
    """TorchRL's GRUModule, whose backend "scan" is ecornn's."""

    def _gru_scan_with_resets(self, input, hidden_in, initial_hidden, is_init):
        found = _with_resets(self.gru, input, (hidden_in,), (initial_hidden,), is_init)
        return found or self._gru_pad_with_resets(input, hidden_in, is_init)


# ---- rsl_rl -----------------------------------------------------------------------------------


class _RNN:
    """rsl_rl's RNN, which leaves out the padding of trajectories."""

    def forward(self, input, masks=None, hidden_state=None):
        if masks is None or hidden_state is None:
            return super().forward(input, masks, hidden_state)
        from rsl_rl.utils import unpad_trajectories

        out, _ = self.rnn(input, hidden_state, lengths=masks.sum(0))
        return unpad_trajectories(out, masks)


# Classes that are made when the package is there: name here, its module and class, what is added.
_CLASSES = {
    "TorchRLLSTMModule": ("torchrl.modules.tensordict_module.rnn", "LSTMModule", _LSTMModule),
    "TorchRLGRUModule": ("torchrl.modules.tensordict_module.rnn", "GRUModule", _GRUModule),
    "RslRNN": ("rsl_rl.modules.rnn", "RNN", _RNN),
}


def __getattr__(name: str):
    """Makes a class of _CLASSES; pickled modules find theirs so, too."""
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package, base, added = _CLASSES[name]
    made = types.new_class(name, (added, getattr(importlib.import_module(package), base)), {},
                           lambda body: body.update(__module__=__name__, __doc__=added.__doc__))
    return globals().setdefault(name, made)


def _adopt(module) -> bool:
    """Gives a module of one of the packages its class here; False: it is none of theirs."""
    for name, (package, base, _) in _CLASSES.items():
        if type(module).__module__ != package or type(module).__name__ != base:
            continue
        layer = getattr(module, "lstm", None) or getattr(module, "gru", None)
        if layer is not None:  # TorchRL's
            if layer.bidirectional or not isinstance(layer, (et.LSTM, et.GRU)):
                return False
            module.recurrent_backend = "scan"
        module.__class__ = __getattr__(name)
        return True
    return False


def accelerate(model):
    """Makes recurrent policies inside a model run by ecornn; returns the model, changed in place.

    model: sb3-contrib's RecurrentPPO or its policy; or a module with TorchRL's LSTMModule or
    GRUModule, or rsl_rl's RNN inside.  Parameters stay the same objects, so an optimizer made before
    continues to work, and so do saved files.  To be called again after RecurrentPPO.load.  TorchRL's
    python-based layers and bidirectional ones keep their own code.  Raises ValueError if the model
    has none of these.

    >>> import torch, ecornn.rl
    >>> ecornn.rl.accelerate(torch.nn.Linear(2, 2))
    Traceback (most recent call last):
    ...
    ValueError: Linear has no recurrent policy of sb3-contrib, TorchRL or rsl_rl inside
    """
    root = getattr(model, "policy", model)
    found = 0
    if isinstance(root, torch.nn.Module):
        et.replace(root)
        for module in root.modules():
            if type(module) is et.LSTM or type(module) is et.GRU:
                module.__class__ = LSTM if type(module) is et.LSTM else GRU
        for module in root.modules():
            if hasattr(module, "_process_sequence") and hasattr(module, "lstm_actor"):
                module._process_sequence = _process_sequence
                found += 1
            found += _adopt(module)
    if not found:
        raise ValueError(f"{type(model).__name__} has no recurrent policy of sb3-contrib, TorchRL or "
                         "rsl_rl inside")
    return model
