"""Operators with one derivative: what torch's autograd, torch.func and batched gradients need.

torch.library.register_autograd is not used, because torch.func refuses its functions, and because it
takes tangents of forward-mode differentiation for zeros without a word.
"""

from __future__ import annotations

import torch
from torch.autograd.forward_ad import _set_fwd_grad_enabled
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch._functorch.vmap import unwrap_batched

from . import _fold
from ._watched import forward_mode

_library = torch.library.Library("ecornn", "FRAGMENT")
_BATCHED = torch._C.DispatchKey.FuncTorchBatched


def refuse_second(what: str):
    """Raises the error of a gradient of a gradient."""
    raise NotImplementedError(f"ecornn: no gradient of a gradient (create_graph=True) of {what}")


class Rule:
    """An operator, the name of what it runs, and its derivative: setup(ctx, arguments, results) saves,
    backward(ctx, need, gradients) gives gradients of the arguments; need: flags as the arguments."""

    def __init__(self, name: str, what: str, backward, setup):
        self.operator, self.what = getattr(torch.ops.ecornn, name), what
        self.backward, self.setup = backward, setup


class _Derived(torch.autograd.function._SingleLevelFunction):
    """The results of an operator; lists among its arguments are spread, counts has their lengths.

    torch.autograd.Function would go through all levels of torch.func, but a kernel is called by each."""

    _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)

    @staticmethod
    def forward(rule: Rule, counts, *leaves):
        # Levels of torch.func below this one have their own derivatives.
        below = torch._C._functorch.maybe_current_level() is not None
        with torch.set_grad_enabled(below), _set_fwd_grad_enabled(below), (
                torch._C._AutoDispatchBelowAutograd()):
            return tuple(rule.operator(*_nested(counts, leaves)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.rule, ctx.counts, *leaves = inputs
        ctx.rule.setup(ctx, _nested(ctx.counts, leaves), output)

    @staticmethod
    def backward(ctx, *gradients):
        need = _nested(ctx.counts, ctx.needs_input_grad[2:])
        found = ctx.rule.backward(ctx, need, gradients)
        return (None, None, *_leaves(ctx.counts, found))

    @staticmethod
    def jvp(ctx, *_):
        raise NotImplementedError(f"ecornn: no forward-mode differentiation of {ctx.rule.what}")


def _counts(arguments) -> tuple:
    """The lengths of lists among arguments, None for others."""
    return tuple(len(one) if isinstance(one, (list, tuple)) else None for one in arguments)


def _leaves(counts, given) -> list:
    """The arguments without lists; None for a list is a list of None."""
    found: list = []
    for count, one in zip(counts, given):
        found += [one] if count is None else [None] * count if one is None else one
    return found


def _nested(counts, leaves) -> list:
    """Puts leaves back into lists; undoes _leaves."""
    rest = iter(leaves)
    return [next(rest) if count is None else [next(rest) for _ in range(count)] for count in counts]


def map_rows(name: str) -> None:
    """Lets vmap, torch.autograd's own too, call the operator for each of its rows in turn.  Eager
    calls of layers do better."""
    operator = getattr(torch.ops.ecornn, name)

    def rows(size: int, dims, counts, leaves):
        return _fold.loop(lambda *one: operator(*_nested(counts, one)), size, dims, leaves)

    def of_vmap(_, *arguments):  # torch 2.4 lacks register_vmap
        interpreter, counts = retrieve_current_functorch_interpreter(), _counts(arguments)
        leaves, dims = unwrap_batched(tuple(_leaves(counts, arguments)), interpreter.level())
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_BATCHED)):
            if all(dim is None for dim in dims):
                return operator(*_nested(counts, leaves))
            found, places = rows(interpreter.batch_size(), dims, counts, leaves)
        return [one if place is None else torch._C._functorch._add_batch_dim(one, place, interpreter.level())
                for one, place in zip(found, places)]

    def of_autograd(*arguments):
        counts = _counts(arguments)
        return list(_fold.of_autograd(lambda size, dims, *leaves: rows(size, dims, counts, leaves),
                                      _leaves(counts, arguments)))

    _library.impl(name, of_vmap, "FuncTorchBatched", with_keyset=True)
    _library.impl(name, of_autograd, "Batched")


def _register(name: str, what: str, backward, setup) -> None:
    rule = Rule(name, what, backward, setup)

    def derived(*arguments):
        counts = _counts(arguments)
        leaves = _leaves(counts, arguments)
        if forward_mode() or torch.is_grad_enabled() and any(
                torch.is_tensor(one) and one.requires_grad for one in leaves):
            with enable_single_level_autograd_function():
                return list(_Derived.apply(rule, counts, *leaves))
        with torch._C._AutoDispatchBelowAutograd():
            return rule.operator(*arguments)

    _library.impl(name, derived, "Autograd")
    map_rows(name)


def register(name: str, what: str, backward, setup, second=None) -> None:
    """Gives the operator a gradient, ``NAME_backward``, and vmap a rule for both.  Forward-mode
    differentiation is an error, and so is a second gradient without second(arguments, tangents), that
    of NAME_backward's arguments."""
    _register(name, what, backward, setup)
    if second is None:
        _register(f"{name}_backward", what, lambda *_: refuse_second(what), lambda *_: None)
        return

    def keep(ctx, arguments, _):
        leaves = _leaves(ctx.counts, arguments)
        ctx.save_for_backward(*[one if torch.is_tensor(one) else None for one in leaves])
        ctx.others = [None if torch.is_tensor(one) else one for one in leaves]

    def again(ctx, _, tangents):
        leaves = [other if one is None else one for one, other in zip(ctx.saved_tensors, ctx.others)]
        return second(_nested(ctx.counts, leaves), tangents)

    _register(f"{name}_backward", what, again, keep)
