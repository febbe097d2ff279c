"""What sees operators: modes, tracers and tensor subclasses.  Under them a run is one operator, so
that they see it, too."""

from __future__ import annotations

import torch

from .. import _library as lib
from ._spec import one_line, problem_of, training_of

PLAIN = {torch.Tensor, torch.nn.Parameter}
_functorch_level = torch._C._functorch.maybe_current_level
_dispatch_modes = torch._C._len_torch_dispatch_stack
_tracing = torch._C._get_tracing_state
_is_legacy = torch._C._functorch.is_legacy_batchedtensor
_FLAGS = lib.REPEAT_PADDING | lib.ALL_STATES | lib.SHARED_INPUT  # those that callers choose


def forward_mode() -> bool:
    """Is torch.autograd.forward_ad active?"""
    return torch.autograd.forward_ad._current_level >= 0


def recorded() -> bool:
    """Is there a mode that stands for values or writes a program, such as make_fx's?"""
    kinds = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(kind) is not None
               for kind in (kinds.FAKE, kinds.PROXY, kinds.FUNCTIONAL))


def transformed() -> bool:
    """Is a transform of torch.func, or forward-mode differentiation, active?"""
    return _functorch_level() is not None or forward_mode()


def traced() -> bool:
    """Is torch.jit.trace active?"""
    return _tracing() is not None


def watched() -> bool:
    """Is there a mode or a tracer that must see each operator?"""
    return _dispatch_modes() > 0 or _tracing() is not None


def anything() -> bool:
    """Is there a transform, a mode or a tracer?"""
    return _functorch_level() is not None or forward_mode() or watched()


def by_operator(*groups) -> bool:
    """Must a run with these tensors, in lists, be an operator?"""
    return watched() or subclassed(*groups)


def subclassed(*groups) -> bool:
    """Is one of these tensors, in lists, of a subclass?"""
    for group in groups:
        for one in group:
            if type(one) not in PLAIN and one is not None:
                return True
    return False


def foreign(tensor) -> bool:
    """Is it of a class with its own code for each operator, as DTensor, which need not know ours?
    torch's own stand-ins for tensors, in torch._subclasses, know all."""
    return (type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
            and not type(tensor).__module__.startswith("torch._subclasses."))


def readable(tensor) -> bool:
    """May Python look at its values?  Not on a GPU, nor where it stands for others."""
    return (not torch.compiler.is_compiling() and tensor.is_cpu and type(tensor) in PLAIN
            and not watched() and not torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def is_batched(tensor) -> bool:
    """Is this tensor batched by torch.autograd's own vmap, of ``is_grads_batched`` and
    ``vectorize``?"""
    return torch.is_tensor(tensor) and _is_legacy(tensor)


def derived(outputs) -> bool:
    """Must a backward of these be seen: by autograd, another transform, a mode or a compiler?"""
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or anything():
        return True
    for one in outputs:
        if one is not None and _is_legacy(one):
            return True
    return False


class Weights:
    """Weights from a run to its backward.  Saved tensors would be further references, with which
    torch.utils.swap_tensors refuses a module whose results are alive."""

    def __init__(self, tensors):
        self.tensors, self.versions = list(tensors), [tensor._version for tensor in tensors]

    def check(self) -> None:
        """As torch does for saved tensors."""
        for weight, version in zip(self.tensors, self.versions):
            if weight._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: a weight {list(weight.shape)} is at version "
                    f"{weight._version}, was at {version} in forward")


def keeps(tensors) -> bool:
    """Does a run on these tensors keep what its backward, here or at a transform below, needs?  In an
    exported or traced graph, which is mostly for inference, backward repeats forward."""
    # Not is_exporting(), which torch.compile takes for True in a graph that is not exported.
    if not torch.is_grad_enabled() or getattr(torch.compiler, "_is_exporting_flag", False):
        return False
    compiling = torch.compiler.is_compiling()
    if not compiling and traced():
        return False
    if any(tensor is not None and tensor.requires_grad for tensor in tensors):
        return True
    functorch = torch._C._functorch
    return not compiling and any(
        each.key() == functorch.TransformType.Grad
        for each in functorch.get_interpreter_stack() or ())


# ---- a run as an operator -----------------------------------------------------------------------


def _arguments(run):
    """Those that the operator and its gradient have in common; run: spec, x, lengths, states with
    reset states last, weights, resets, mask, batch_major, flags, drop, seed."""
    spec, x, lengths, states, weights, resets, mask, batch_major, flags, drop, seed = run
    if batch_major:  # the operator has both in x's order
        resets, mask = (one if one is None else one.transpose(-1, -2) for one in (resets, mask))
    own, starts = states[:spec.states], states[spec.states:]
    of = spec.of
    return (x, lengths, _list(own), list(weights), resets, _list(starts), mask, one_line(spec.cell),
            problem_of(of[1:-2], batch_major, flags & _FLAGS), training_of(of.saving, of.memory_limit),
            spec.dropout if drop else 0.0, drop, seed)


def _list(states):
    """Initial states, all of which are there or none."""
    return None if not states or states[0] is None else list(states)


def forward(*run, keep: bool):
    """y, the final states, the states of every step if flags ask for them."""
    return tuple(torch.ops.ecornn.layer(*_arguments(run), keep)[:-2])


def backward(spec, kept, outputs, wanted, *arguments):
    """Gradients of x, states and weights, None where not wanted; kept: y, reserve and packed weights,
    or None each."""
    x = arguments[0]
    y, *blocks = kept
    found = torch.ops.ecornn.layer_backward(
        list(outputs), y, *(x.new_empty(0, dtype=torch.uint8) if one is None else one
                            for one in blocks),
        *_arguments((spec, *arguments)), list(wanted))
    return tuple(one if want else None for one, want in zip(found, wanted))
