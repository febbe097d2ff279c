"""A module's forward in a graph that is being compiled or exported: one call of the operator.

Written so that torch.compile can trace it: no caches, no library, no look at values.
"""

from __future__ import annotations

import torch

from .. import _library as lib
from . import _call
from ._given import integers
from ._spec import CELLS, one_line, problem_of, training_of
from ._watched import PLAIN, keeps, transformed


def drawn(x):
    """A seed, [1].  torch's partitioner may draw again in backward and get another one
    (torch._functorch.config.activation_memory_budget); in a checkpoint it replays the generator."""
    if not torch.compiler.is_compiling() and transformed():
        return torch.randint(2 ** 62, (1,), device="cpu")  # vmap knows what to do
    if torch.is_grad_enabled() and torch.compiler.is_dynamo_compiling():
        return torch.utils.checkpoint.checkpoint(torch.ops.ecornn.draw, x, use_reentrant=False)
    return torch.ops.ecornn.draw(x)


_NO_PROXIES = {*PLAIN, type(None), bool, int}


def _proxy(given):
    """A Proxy of torch.fx among these arguments, or None."""
    for one in given:
        if type(one) in _NO_PROXIES:
            continue
        if isinstance(one, (tuple, list)):
            one = _proxy(one)
        if isinstance(one, torch.fx.Proxy):
            return one
    return None


def node(target, arguments, named=None):
    """One node for a call that torch.fx traces, as torch.fx makes for modules of torch.nn; target: a
    module or a function.  None if no argument is traced."""
    named = named or {}
    proxy = _proxy((*arguments, *named.values()))
    if proxy is None:
        return None
    named = {name: one for name, one in named.items() if one is not None and one is not False}
    if not isinstance(target, torch.nn.Module):
        return proxy.tracer.create_proxy("call_function", target, arguments, named)
    path = proxy.tracer.path_of_module(target)
    if not path:
        raise ValueError(f"{type(target).__name__} is one node of what torch.fx traces: trace a "
                         "module that contains it, such as torch.nn.Sequential")
    return proxy.tracer.create_proxy("call_module", path, arguments, named)


def _listed(states, dtype):
    if states is None:
        return []
    states = list(states) if isinstance(states, (tuple, list)) else [states]
    return [state if state.dtype == dtype else state.to(dtype) for state in states]


def module(self, x, hx, lengths, given, flags: int):
    """A module's results; None if torch's own code runs, or reports what is wrong.

    given: resets, reset_state and mask, as the module's forward has them.
    """
    cell = self.cell_text if self.mode == "TEXT" else CELLS[self.mode]
    dims = (3, 4) if self.models else (2, 3)
    if not torch.is_tensor(x) or x.dim() not in dims or x.shape[-1] != self.input_size:
        return None
    states = list(hx) if isinstance(hx, (tuple, list)) else [] if hx is None else [hx]
    weights = [getattr(self, name) for name in self._flat_weights_names]
    types = _call.number_types(cell, x.device.type, x, weights, states, False, self.proj_size)
    if types is None:
        return None
    drop = self.training and (self.num_layers > 1 and self.dropout > 0 or "bernoulli" in cell)
    if drop and self.dropout >= 1:
        return None
    dtype, params, results = types
    unbatched = x.dim() == 2
    batch_dim = 0 if self.batch_first else 1
    if unbatched:
        x, states = x.unsqueeze(batch_dim), [state.unsqueeze(1) for state in states]
    states, x = _listed(states, dtype), x if x.dtype == dtype else x.to(dtype)
    weights = [weight if weight.dtype == params else weight.to(params) for weight in weights]
    batch = x.shape[-3 if self.batch_first else -2]
    resets, reset_state, mask = given
    starts = [state.expand(*state.shape[:-2], batch, state.shape[-1])
              if state.shape[-2] == 1 else state for state in _listed(reset_state, dtype)]
    resets, mask = (None if steps is None else torch.as_tensor(steps, device=x.device)
                    for steps in (resets, mask))
    if lengths is not None:
        lengths = integers("lengths", lengths).to(x.device, torch.int32)
    if self.models > 1 and x.dim() == 3:
        flags |= lib.SHARED_INPUT
    # None, not an empty list, which AOTInductor's packages lose.
    out = torch.ops.ecornn.layer(
        x, lengths, states or None, weights, resets, starts or None, mask, one_line(cell),
        problem_of(self._sizes(), self.batch_first, flags), training_of(self.saving, self.memory_limit),
        self.dropout if drop else 0.0,  # torch.compile makes a float a variable, and traces twice
        drop, drawn(x) if drop else None,
        keeps([x, *states, *starts, *weights]))
    y, rest = out[0], out[1:-2]
    if unbatched:
        y, rest = y.squeeze(batch_dim), [state.squeeze(1) for state in rest]
    y, shows = y.to(results[0]), bool(flags & lib.ALL_STATES)
    count = len(rest) // 2 if shows else len(rest)
    rest = [state.to(results[1 + (k % count > 0)]) for k, state in enumerate(rest)]
    parts = [rest[:count], rest[count:]] if shows else [rest]
    return (y, *(part[0] if count == 1 else tuple(part) for part in parts))
